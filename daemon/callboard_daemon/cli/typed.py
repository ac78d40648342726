"""From what a person typed or piped in to bodies of the wire."""

from __future__ import annotations

from typing import Any, TypeVar

import click
from pydantic import ValidationError

from callboard_wire.bodies import Body

B = TypeVar("B", bound=Body)


def body_from(kind: type[B], **given: Any) -> B:
    """The body of a request from what was typed. Raises `click.UsageError` that names each field that does not fit."""
    try:
        return kind(**given)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)
        raise click.UsageError("; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in problems)) from None


def text_of(raw: bytes, name: str) -> str:
    """Bytes a user handed over as text. Raises `click.UsageError`: an agent must not be told something mangled."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name} is not UTF-8 text (byte {error.start})") from None
