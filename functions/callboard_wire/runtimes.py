"""Bodies about runtimes: what people change about the places where agents run."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from callboard_wire.bodies import Body, Id, Name

MAX_FIXED_ARGS: Final = 64
MAX_FIXED_ARGS_CHARS: Final = 8192
Command = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=100, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$")
]
"""A name to be found on PATH: no path, no arguments, nothing a shell would read. Paths are each machine's own."""


class UpdateRuntimeRequest(Body):
    """Fields that are absent stay; null clears the name or the limit."""

    custom_name: Name | None = None
    visibility: Literal["private", "public"] | None = None
    max_concurrent_tasks: int | None = Field(None, ge=1, le=50)


class UnbindAndDeleteRequest(Body):
    """The agents on the runtime as the caller saw them: they lose it. With others on it nothing is done."""

    expected_active_agent_ids: list[Id] = Field(max_length=1000)


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


class CreateProfileRequest(Body):
    """A runtime profile: a command of people's own that speaks a known provider's protocol. `fixed_args` come right
    after the command, before everything the adapter adds; none of it ever meets a shell."""

    display_name: Name
    protocol_family: str = Field(min_length=1, max_length=40)
    command_name: Command
    fixed_args: list[str] = Field(default_factory=list, max_length=MAX_FIXED_ARGS)
    description: str = Field("", max_length=1000)
    enabled: bool = True


class UpdateProfileRequest(Body):
    """Fields that are absent or null stay. `protocol_family` is here to be refused when it is another one: agents that
    use the profile were made for the old one."""

    display_name: Name | None = None
    protocol_family: str | None = Field(None, max_length=40)
    command_name: Command | None = None
    fixed_args: list[str] | None = Field(None, max_length=MAX_FIXED_ARGS)
    description: str | None = Field(None, max_length=1000)
    enabled: bool | None = None


class ProfileView(Body):
    """`author_id`: who last said what is run (command and arguments). `trusted`, for a daemon: that is its owner."""

    id: str
    workspace_id: str
    display_name: str
    protocol_family: str
    command_name: str
    fixed_args: list[str] = Field(default_factory=list)
    description: str = ""
    enabled: bool = True
    created_by: str = ""
    author_id: str = ""
    trusted: bool = False
    created_at: datetime
