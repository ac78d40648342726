"""Which model a run uses, how hard it thinks and how long it may go on: the task's profile, then the agent's own
settings, then the agent's profile, then the CLI.

A level goes with the model it was chosen for: where a higher voice names the model, a level that a lower one chose for
another model is not used with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from callboard_control.errors import InvalidRequest
from callboard_control.store import keys, table
from callboard_control.store.models import AgentItem, TaskItem, WorkspaceItem
from callboard_wire.providers import PROFILE_KEYS, Choice, built_in, is_foreign_model, wrong_level

Profiles = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""A workspace's own: key → provider → fields of a `Choice`."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """`profile`: the key that was asked for, "" for none; `missing`: no such profile exists any more."""

    choice: Choice
    profile: str = ""
    missing: bool = False


def of_run(task: TaskItem, agent: AgentItem, workspace: WorkspaceItem | None, provider: str) -> Chosen:
    """What the run of `task` by `agent` on a runtime of `provider` uses, by the profiles as they are now.

    A task made before its agent moved runs where it was made: what the agent says for its new provider is not said to
    the old one, which would refuse the model or end at the level.
    """
    key = task.model_profile or agent.model_profile or ""
    own = profiles_of(workspace)
    profile = (says(own, key, provider) if key else None) or Choice()
    model, level = agent.model, agent.thinking_level
    settings = Choice(
        None if model and is_foreign_model(model, provider) else model,
        None if level and wrong_level(provider, level) else level,
        max_turns=int(agent.max_turns) if agent.max_turns is not None else None,
    )
    choice = _over(profile, settings) if task.model_profile else _over(settings, profile)
    return Chosen(choice, key, missing=bool(key) and key not in known(own))


def profiles_of(workspace: WorkspaceItem | None) -> Profiles:
    return (workspace.model_profiles if workspace is not None else None) or {}


def known(own: Iterable[str]) -> list[str]:
    """All keys there are: the built-in ones and the workspace's own."""
    return sorted({*PROFILE_KEYS, *own})


def refuse_unknown(workspace_id: str, key: str | None) -> None:
    """Raises `InvalidRequest` ``unknown_model_profile`` with the keys there are. A built-in key costs no read."""
    if key is None or key in PROFILE_KEYS:
        return
    keys_known = known(profiles_of(table.get(WorkspaceItem, keys.workspace(workspace_id), "W")))
    if key not in keys_known:
        raise InvalidRequest(
            f"There is no model profile {key!r} here; there are {', '.join(keys_known)}.",
            code="unknown_model_profile",
            profiles=keys_known,
        )


def says(own: Profiles, key: str, provider: str) -> Choice | None:
    """What `key` means to `provider`; None where it says nothing about it."""
    mine = own.get(key, {}).get(provider)
    return Choice(**mine) if mine is not None else built_in(key, provider)


def _over(upper: Choice, lower: Choice) -> Choice:
    fits = not (upper.model and lower.model)
    return Choice(
        model=upper.model or lower.model,
        thinking_level=upper.thinking_level or (lower.thinking_level if fits else None),
        max_tokens=upper.max_tokens or lower.max_tokens,
        max_turns=upper.max_turns or lower.max_turns,
    )
