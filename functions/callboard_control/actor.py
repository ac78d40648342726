"""Who is calling. An actor comes from the token alone; nothing a client says about itself makes or changes one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callboard_control.errors import Forbidden


@dataclass(frozen=True, slots=True)
class Person:
    """A member of the workspace the call is about."""

    user_id: str
    workspace_id: str
    role: str
    token_id: str = ""

    @property
    def label(self) -> str:
        return f"member:{self.user_id}"

    @property
    def is_admin(self) -> bool:
        return self.role in ("owner", "admin")


@dataclass(frozen=True, slots=True)
class TaskAgent:
    """An agent inside its one task."""

    agent_id: str
    task_id: str
    workspace_id: str

    @property
    def label(self) -> str:
        return f"agent:{self.agent_id}"


@dataclass(frozen=True, slots=True)
class Daemon:
    """A machine in one workspace. `record` names its item; `runtimes` maps the ids it offers to their providers;
    `withdrawn` are ids it offered once: no new work, but what runs there is still its own to report; `seen` is when it
    was last written down as alive (ms); `owner_id` is the person whose machine it is; `profiles_version` changes with
    the workspace's runtime profiles."""

    record: str
    daemon_id: str
    workspace_id: str
    runtimes: Mapping[str, str]
    seen: int = 0
    withdrawn: frozenset[str] = frozenset()
    owner_id: str = ""
    profiles_version: int = 0

    def owns(self, runtime_id: str) -> bool:
        return runtime_id in self.runtimes or runtime_id in self.withdrawn

    @property
    def label(self) -> str:
        return f"daemon:{self.daemon_id}"


Actor = Person | TaskAgent | Daemon
SYSTEM = "system"


def person(actor: Actor) -> Person:
    """The actor as a person; agents and daemons are refused."""
    if isinstance(actor, Person):
        return actor
    raise Forbidden("Only a person may do this; use a personal token (mul_…).", code="human_only")


def reader(actor: Actor) -> Person | TaskAgent:
    """The actor as one who may look around in the workspace; a daemon's token reaches its own tasks only."""
    if isinstance(actor, Daemon):
        raise Forbidden(
            "A daemon reads nothing of the workspace; use a personal token (mul_…).", code="not_for_daemons"
        )
    return actor
