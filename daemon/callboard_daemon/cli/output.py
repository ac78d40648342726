"""Printing: results on stdout (tables for people, JSON for programs), everything else on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from pydantic import BaseModel

from callboard_daemon.cli.context import Cli

if TYPE_CHECKING:
    from rich.console import Console


def print_json(data: Any) -> None:
    """`data` (bodies of the wire, or plain JSON-like data) as one indented JSON document."""
    click.echo(json.dumps(_plain(data), indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """A table as wide as the terminal; in a pipe nothing is cut."""
    if not rows:
        note(empty)
        return
    from rich import box
    from rich.table import Table

    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for row in rows:
        table.add_row(*map(printable, row))
    console(err=False).print(table)


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """One thing, a field a line; empty ones are left out."""
    width = max((len(name) for name, value in fields if value), default=0)
    for name, value in fields:
        if value:
            click.echo(f"{printable(name):<{width}}  {printable(value)}")


def note(text: str) -> None:
    """A confirmation or an explanation: never on stdout, where a program may be reading."""
    click.echo(_obeyed_by_none(text), err=True)


@contextmanager
def working(cli: Cli, text: str) -> Iterator[None]:
    """Say what is being waited for, while it is; only to a person at a terminal."""
    if cli.json or not sys.stderr.isatty():
        yield
        return
    with console(err=True).status(text):
        yield


def console(*, err: bool) -> Console:
    """Colours when it is a terminal and NO_COLOR is not set. Markup off: names and texts are users'."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else 240
    return Console(file=stream, markup=False, highlight=False, width=width, soft_wrap=not stream.isatty())


def ago(at: datetime | None) -> str:
    """How long ago, in one unit."""
    if at is None:
        return "never"
    seconds = max(0.0, (datetime.now(UTC) - at).total_seconds())
    for unit, name in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit:
            return f"{seconds // unit:.0f}{name} ago"
    return f"{seconds:.0f}s ago"


def printable(text: str) -> str:
    """What others wrote (agents, members, machines), without the control characters a terminal would obey. Whatever is
    printed for people goes through this."""
    return _obeyed_by_none(text).rstrip("\n")


def _obeyed_by_none(text: str) -> str:
    return "".join(c for c in text if c.isprintable() or c in "\n\t")


def one_line(text: str, limit: int) -> str:
    """The beginning of `text` on one line, without control characters: terminals obey them."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _plain(data: Any) -> Any:
    if isinstance(data, BaseModel):
        return data.model_dump(mode="json")
    return [_plain(item) for item in data] if isinstance(data, list) else data
