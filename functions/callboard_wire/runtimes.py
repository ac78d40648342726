"""Bodies about runtimes: what people change about the places where agents run."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from pydantic import Field

from callboard_wire.bodies import Body, Name


class UpdateRuntimeRequest(Body):
    """Fields that are absent stay; null clears the name or the limit."""

    custom_name: Name | None = None
    visibility: Literal["private", "public"] | None = None
    max_concurrent_tasks: int | None = Field(None, ge=1, le=50)


class RuntimeUsage(Body):
    """What a runtime's runs of one UTC day cost with one model; a run counts on the day it was claimed. `runs` are
    those that used the model. `cost_usd_ticks` (1e-10 USD) is what providers stated, null when none did;
    `uncosted_runs` are those whose provider did not: their tokens are counted, and no price is guessed."""

    date: date
    provider: str
    model: str
    runs: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd_ticks: int | None = None
    uncosted_runs: int = 0


class RuntimeActivity(Body):
    """How many runs that reported usage were claimed in the hour that begins at `hour` (UTC), and their tokens."""

    hour: datetime
    runs: int = 0
    tokens: int = 0
