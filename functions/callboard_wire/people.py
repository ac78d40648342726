"""Bodies about the people of a workspace: what becomes of what was a member's."""

from __future__ import annotations

from pydantic import Field

from callboard_wire.bodies import Body


class DepartedMember(Body):
    """What became of a departed member's things. `heir_id` has their agents now, and their machines if these were
    handed over; agents are named. `runtimes` counts theirs."""

    removed: bool = True
    heir_id: str
    archived_agents: list[str] = Field(default_factory=list)
    handed_over_agents: list[str] = Field(default_factory=list)
    runtimes: int = 0
