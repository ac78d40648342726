"""Lists of which a part is shown: how much of it, and a word when there is more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

import click

from callboard_daemon.cli.output import note

T = TypeVar("T")
MOST: Final = 1_000_000


def limit_option(default: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--limit N``, read as `limit`."""
    return click.option(
        "--limit", type=click.IntRange(1, MOST), default=default, show_default=True, help="At most so many."
    )


def first(found: Iterator[T], limit: int) -> list[T]:
    """The first `limit` of `found`; a list that ends before its end says so, or it would be taken for all there is."""
    shown = list(islice(found, limit))
    if next(found, None) is not None:
        note(f"The first {limit}; there are more (--limit).")
    return shown
