"""What the CLI sent, kept for the test to look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RecordedRequest:
    """One request as it came. `headers` (lower-case names) are without secrets: `auth` only names where one was.

    `body` is the JSON sent, {} when there was none; `scenario` the word in force, "" where the request is no model
    call; `auxiliary` a model call that offered no tools; `status` what was answered.
    """

    method: str
    path: str
    headers: dict[str, str]
    auth: str | None
    body: dict[str, Any] = field(repr=False)
    status: int = 200
    model: str = ""
    scenario: str = ""
    auxiliary: bool = False
    stream: bool = False
    tools: tuple[str, ...] = ()
    tool_done: bool = False
