"""Model profiles: a workspace's words for "which model", such as `fast`, with a meaning for each provider."""

from __future__ import annotations

from typing import Any, Final

from callboard_control.actor import Person
from callboard_control.agents import settings
from callboard_control.errors import Conflict, Forbidden, InvalidRequest, NotFound
from callboard_control.identity import audit
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import AgentItem, WorkspaceItem
from callboard_control.tasks.model_choice import Profiles, known, profiles_of, says
from callboard_wire.agents import ModelChoice, ModelProfileView, PutModelProfile
from callboard_wire.api import Page
from callboard_wire.providers import PROFILE_KEYS, PROVIDERS

W, A = WorkspaceItem, AgentItem
MAX_OWN: Final = 50
"""They lie in the workspace's item, which every claim reads."""
TRIES: Final = 4
HOLDERS_SHOWN: Final = 20


def list_profiles(workspace_id: str) -> Page[ModelProfileView]:
    """All there are, by key; never more than a page."""
    own = profiles_of(_workspace(workspace_id))
    return Page[ModelProfileView](items=[_view(own, key) for key in known(own)])


def put(person: Person, key: str, request: PutModelProfile) -> ModelProfileView:
    """Say what `key` means in this workspace. Raises `Forbidden`, `InvalidRequest`, `Conflict` ``contended``."""
    _admin(person)
    meaning: dict[str, dict[str, Any]] = {}
    for provider, choice in request.providers.items():
        fields = settings.cleaned(choice.model_dump(exclude_none=True))
        settings.refuse_unfit(fields, provider)
        meaning[provider] = {name: value for name, value in fields.items() if value is not None}

    def changed(own: Profiles) -> Profiles:
        if key not in own and len(own) >= MAX_OWN:
            raise InvalidRequest(f"A workspace has {MAX_OWN} profiles of its own at most.", code="too_many_profiles")
        return {**own, key: meaning}

    return _view(_rewrite(person, "model_profile_set", key, changed), key)


def delete(person: Person, key: str) -> ModelProfileView:
    """Forget what this workspace says of `key`; a built-in one means again what it always does.

    Raises `Forbidden`, `NotFound`, `Conflict` ``model_profile_in_use`` with the agents that name it.
    """
    _admin(person)
    if key not in PROFILE_KEYS:
        _refuse_in_use(person.workspace_id, key)

    def changed(own: Profiles) -> Profiles:
        if key not in own and key not in PROFILE_KEYS:
            raise NotFound.of("model_profile", key)
        return {name: meaning for name, meaning in own.items() if name != key}

    return _view(_rewrite(person, "model_profile_deleted", key, changed), key)


def _rewrite(person: Person, action: str, key: str, changed: Any) -> Profiles:
    """The workspace's profiles after `changed`, written only over what it was computed from."""
    for _ in range(TRIES):
        workspace = _workspace(person.workspace_id)
        own = profiles_of(workspace)
        after: Profiles = changed(own)
        if after == own:
            return after
        same = W.model_profiles == workspace.model_profiles if own else W.model_profiles.does_not_exist()
        write = W.model_profiles.set(after) if after else W.model_profiles.remove()
        item = W(keys.workspace(person.workspace_id), "W")
        table.refuse_oversized(W(**(workspace.attribute_values | {"model_profiles": after})), "The workspace")
        deed = audit.put(person, action, f"model_profile:{key}")
        try:
            table.transact([table.Update(item, [write], same), deed])
        except ConditionFailed:
            continue
        return after
    raise Conflict("The profiles kept changing; try again.", code="contended")


def _refuse_in_use(workspace_id: str, key: str) -> None:
    agents = table.every(A, keys.workspace(workspace_id), A.sk.startswith("AG#"), consistent=True)
    holders = [agent for agent in agents if agent.model_profile == key]
    if holders:
        raise Conflict(
            f"{len(holders)} agents use the profile {key!r}; give them another one first.",
            code="model_profile_in_use",
            agent_ids=[agent.id for agent in holders[:HOLDERS_SHOWN]],
            agents=len(holders),
        )


def _view(own: Profiles, key: str) -> ModelProfileView:
    found = {provider: says(own, key, provider) for provider in sorted({*PROVIDERS, *own.get(key, {})})}
    shown = {
        provider: ModelChoice(
            model=choice.model,
            thinking_level=choice.thinking_level,
            max_tokens=choice.max_tokens,
            max_turns=choice.max_turns,
        )
        for provider, choice in found.items()
        if choice is not None and (key != "default" or provider in own.get(key, {}))
    }
    return ModelProfileView(
        key=key, built_in=key in PROFILE_KEYS, own_providers=sorted(own.get(key, {})), providers=shown
    )


def _workspace(workspace_id: str) -> WorkspaceItem:
    found = table.get(W, keys.workspace(workspace_id), "W")
    if found is None:
        raise NotFound.of("workspace", workspace_id)
    return found


def _admin(person: Person) -> None:
    if not person.is_admin:
        raise Forbidden("Only an owner or admin of the workspace says what a model profile means.")
