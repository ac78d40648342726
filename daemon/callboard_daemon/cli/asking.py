"""Asking a server one thing after another: what the command line's calls are made of."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pydantic import BaseModel

from callboard_daemon import version
from callboard_daemon.answers import body_of, client_options, error_from_exception, headers, httpx
from callboard_daemon.cli.output import note
from callboard_daemon.errors import ControlError, NotFound
from callboard_daemon.retry import may_pass, pause
from callboard_wire.api import Page
from callboard_wire.bodies import Body

T = TypeVar("T", bound=BaseModel)

SEGMENT: Final = re.compile(r"(?!\.{1,2}$)[\w.~@:+,%() -]+")
"""What can be one segment of a path on its whole way: HTTP APIs decode %2F and %3F before they route, routers know no
``#``, and ``..`` is resolved before anything is sent."""
TRIES: Final = 3
"""A request that may be repeated is, twice: a server that is just restarting should not cost a command."""

LONGEST_WAIT_S: Final = 61.0
"""The server's limits are by the minute: whoever waits less than it asks is refused once more for nothing."""
SILENT_S: Final = 5.0


class Asking:
    """One server, as one person or task. Every method raises `ControlError` and nothing else."""

    def __init__(self, server: str, token: str, *, timeout: float) -> None:
        self.server = server
        self._http = httpx.Client(headers=headers(token, version(), "cli"), **client_options(server, timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def _pages(self, path: str, kind: type[T], query: dict[str, Any]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            page = self._ask("GET", path, Page[kind], query={**query, **({"cursor": cursor} if cursor else {})})  # type: ignore[valid-type]  # built at run time, as pydantic wants it
            yield from page.items
            cursor = page.next_cursor
            if not cursor:
                return

    def _ask(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: Body | None = None,
        *,
        query: dict[str, Any] | None = None,
        tries: int = TRIES,
        nulls: bool = False,
    ) -> T:
        """`nulls`: fields that were set to null are sent (they clear something); fields nobody set are not."""
        sent = None if body is None else body.model_dump_json(exclude_none=not nulls, exclude_unset=nulls)
        for attempt in range(1, tries + 1):
            try:
                return self._once(method, path, answer, sent, query)
            except ControlError as error:
                wait = pause(attempt, error)
                if attempt == tries or not may_pass(error) or wait > LONGEST_WAIT_S:
                    raise
                if wait > SILENT_S:
                    note(f"{error.message.rstrip('.')}. Trying again in {wait:.0f} s.")
                time.sleep(wait)
        raise AssertionError("the loop returns or raises")

    def _once(self, method: str, path: str, answer: type[T], content: str | None, query: dict[str, Any] | None) -> T:
        sent = {"Content-Type": "application/json"} if content is not None else {}
        asked = {key: str(value).encode("utf-8", "replace").decode() for key, value in (query or {}).items()}
        try:
            response = self._http.request(method, path, content=content, headers=sent, params=asked)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise error_from_exception(error, self.server) from error
        return body_of(response, answer)


def segment(text: str, thing: str) -> str:
    """A name or id as one path segment. Raises `NotFound` for what cannot be one: another thing would be asked for."""
    from urllib.parse import quote

    if not SEGMENT.fullmatch(text):
        raise missing(thing, text)
    return quote(text, safe="")


def missing(thing: str, text: str) -> NotFound:
    """What is raised where there is no `thing` of the name or id `text`."""
    return NotFound(f"There is no {thing} {text!r} here.", status=404, code=f"{thing}_not_found")
