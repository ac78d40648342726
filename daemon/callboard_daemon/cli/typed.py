"""From what a person typed or piped in to bodies of the wire."""

from __future__ import annotations

from typing import Any, Final, TypeVar

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


class Named(click.types.StringParamType):
    """A text that names something. Empty it is an unset variable, and must not mean everything, or another way."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty", param, ctx)
        return super().convert(value, param, ctx)


NAMED: Final = Named()


def text_of(raw: bytes, name: str) -> str:
    """Bytes a user handed over as text. Raises `click.UsageError`: an agent must not be told something mangled."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name} is not UTF-8 text (byte {error.start})") from None
