"""Changing an agent: its fields, its place in the archive. What is absent stays; what is null is cleared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.agents import gateway, invitations, settings, teammates
from callboard_control.errors import Conflict, Forbidden, InvalidRequest
from callboard_control.fleet import runtimes
from callboard_control.identity import audit
from callboard_control.permissions import may_change
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import AgentItem, AgentNameItem, SlotItem, WorkspaceItem
from callboard_control.tasks import board, model_choice
from callboard_wire.agents import UpdateAgentRequest
from callboard_wire.providers import is_foreign_model, wrong_level, wrong_tier

A, N, S, W = AgentItem, AgentNameItem, SlotItem, WorkspaceItem


def update(person: Person, agent: AgentItem, request: UpdateAgentRequest) -> AgentItem:
    """Apply the fields that were sent. Who may: the agent's owner, an owner or admin; who may use it is for its owner
    alone to say. A gateway's token is in the secret store before the agent is changed.

    Another runtime is checked like a new agent's, clears a model known to be another provider's, and is refused while
    a thinking level or service tier that it does not know stays. Raises `Forbidden`, `InvalidRequest`, `Unavailable`,
    `Conflict` ``name_taken`` or ``contended``.
    """
    _may(person, agent)
    settings.refuse_env(request)
    sent, token = request.model_dump(exclude_unset=True), None
    if gateway.CONFIG in sent:
        reached, token = gateway.taken_apart(request.runtime_config)
        sent |= reached
    changes = _changes(person, agent, settings.cleaned(sent))
    if not changes:
        return agent
    table.refuse_oversized(A(**(agent.attribute_values | changes)), "The agent")
    if token:
        gateway.keep(agent.id, changes[gateway.VERSION], token)
    writes, positions = _writes(person, agent, changes)
    try:
        table.transact(writes)
    except ConditionFailed as e:
        if positions.get("runtime") in e.failed:
            raise teammates.runtime_gone(changes["runtime_id"]) from e
        if positions.get("name") in e.failed:
            raise teammates.name_taken(changes["name"]) from e
        raise Conflict("Somebody changed this agent a moment ago; look again.", code="contended") from e
    return teammates.find(person.workspace_id, agent.id)


def _writes(person: Person, agent: AgentItem, changes: dict[str, Any]) -> tuple[list[table.Write], dict[str, int]]:
    """The transaction, and where in it what is. What the checks have looked at must still be so."""
    actions = [
        getattr(A, name).set(value) if _kept(value) is not None else getattr(A, name).remove()
        for name, value in changes.items()
    ]
    unchanged = A.name == agent.name
    for name in _looked_at(changes):
        value = getattr(agent, name)
        unchanged &= getattr(A, name) == value if value is not None else getattr(A, name).does_not_exist()
    writes: list[table.Write] = [table.Update(A(agent.pk, agent.sk), actions, unchanged)]
    positions: dict[str, int] = {}
    if "name" in changes and keys.folded(changes["name"]) != keys.folded(agent.name):
        positions["name"] = len(writes)
        writes += [
            table.Put(N(agent.pk, f"AN#{keys.folded(changes['name'])}", agent_id=agent.id), N.pk.does_not_exist()),
            table.Delete(N(agent.pk, f"AN#{keys.folded(agent.name)}")),
        ]
    if changes.get("runtime_id"):
        positions["runtime"] = len(writes)
        writes.append(teammates.still_there(agent.workspace_id, changes["runtime_id"]))
    writes.append(audit.put(person, "agent_updated", f"agent:{agent.id}", fields=_fields(changes)))
    return writes, positions


def _looked_at(changes: dict[str, Any]) -> Iterator[str]:
    """What a change was made in view of."""
    yield "runtime_id"
    if "runtime_id" in changes:
        yield from ("thinking_level", "service_tier", "model")
    if "mcp_config" in changes:
        yield "mcp_config"  # a mask was filled from it: what somebody has replaced since must not come back
    if gateway.CONFIG in changes and gateway.VERSION not in changes:
        yield gateway.VERSION  # a token that stays must not be sent to a host that was meant for another


def _fields(changes: dict[str, Any]) -> list[str]:
    """What was changed, in the words of the API."""
    return sorted("runtime_config.gateway.token" if name == gateway.VERSION else name for name in changes)


def _changes(person: Person, agent: AgentItem, sent: dict[str, Any]) -> dict[str, Any]:
    """What is to be written, by attribute; what is so already is not, and the audit log is not told that it changed."""
    changes = {name: value for name, value in sent.items() if name not in invitations.FIELDS}
    if changes.get("name") in (None, agent.name):
        changes.pop("name", None)
    if "max_concurrent_tasks" in changes and changes["max_concurrent_tasks"] is None:
        changes["max_concurrent_tasks"] = teammates.DEFAULT_CONCURRENCY
    if "mcp_config" in changes and changes["mcp_config"] is None and agent.mcp_config is not None:
        _keep_what_was_hidden(agent, changes)
    if settings.masked(changes.get("mcp_config")):
        changes["mcp_config"] = settings.restored(changes["mcp_config"], agent.mcp_config)
    if changes.get("runtime_id") not in (None, agent.runtime_id):
        changes |= _moved(person, agent, changes)
    settings.refuse_unfit(changes, changes.get("provider") or agent.provider or "")
    model_choice.refuse_unknown(person.workspace_id, changes.get("model_profile"))
    before = invitations.of(agent)
    after = invitations.wanted(person.workspace_id, sent, before)
    invitations.refuse_foreign_change(person, agent, before, after)
    if before != after:
        changes |= after.attributes()
    return {name: value for name, value in changes.items() if _kept(value) != _kept(getattr(agent, name))}


def _kept(value: Any) -> Any:
    """A value as the store keeps it: nothing for what is empty. No MCP server at all (`{}`) is not nothing: without a
    word of ours the CLI takes those of its user."""
    return value if value not in (None, "", []) else None


def _keep_what_was_hidden(agent: AgentItem, changes: dict[str, Any]) -> None:
    """Where nobody is shown the configuration, null is what everybody was shown: a form sent back must not clear it."""
    if settings.always_redacts(table.get(W, agent.pk, "W")):
        del changes["mcp_config"]


def _moved(person: Person, agent: AgentItem, changes: dict[str, Any]) -> dict[str, Any]:
    """What else changes with the runtime. A level or tier is never dropped in silence: the work would be another's."""
    runtime = runtimes.find_runtime(
        person.workspace_id, runtime_id=changes["runtime_id"], provider=None, usable_by=person
    )
    for name, wrong in (("thinking_level", wrong_level), ("service_tier", wrong_tier)):
        kept = getattr(agent, name)
        if name not in changes and kept and (why := wrong(runtime.provider, kept)):
            raise InvalidRequest(
                f"The {name.replace('_', ' ')} {kept!r} does not go with the new runtime: {why}. "
                "Send another one, or null, with it.",
                code=f"{name}_of_old_provider",
            )
    clear = "model" not in changes and agent.model and is_foreign_model(agent.model, runtime.provider)
    return {"provider": runtime.provider} | ({"model": None} if clear else {})


# ── archive ──────────────────────────────────────────────────────────────────


def archive(person: Person, agent: AgentItem) -> AgentItem:
    """Put the agent away. Raises `Forbidden`, `Conflict` ``already_archived``."""
    _may(person, agent)
    if agent.archived is not None:
        raise Conflict(f"The agent {agent.name!r} is archived already.", code="already_archived")
    return put_away(person, agent)


def put_away(person: Person, agent: AgentItem) -> AgentItem:
    """No new task from here on, and every task that has not ended is cancelled. The name stays taken. Whether `person`
    may is the caller's question.

    The slot is closed in the same transaction: a claim under way either came before, and is cancelled, or is refused.
    """
    now = ports.now_ms()
    _switch(
        person,
        agent,
        "agent_archived",
        [A.archived.set(now)],
        A.archived.does_not_exist(),
        [S.closed.set(now)],
    )
    board.cancel_every(agent, person)
    return teammates.find(person.workspace_id, agent.id)


def restore(person: Person, agent: AgentItem) -> AgentItem:
    """Out of the archive: tasks may be given to it again."""
    _may(person, agent)
    if agent.archived is None:
        raise Conflict(f"The agent {agent.name!r} is not archived.", code="not_archived")
    _switch(person, agent, "agent_restored", [A.archived.remove()], A.archived.exists(), [S.closed.remove()])
    return teammates.find(person.workspace_id, agent.id)


def _switch(
    person: Person, agent: AgentItem, action: str, on_agent: list[Any], condition: Any, on_slot: list[Any]
) -> None:
    try:
        table.transact(
            [
                table.Update(A(agent.pk, agent.sk), on_agent, condition),
                table.Update(S(f"AG#{agent.id}", "SLOT"), on_slot),
                audit.put(person, action, f"agent:{agent.id}"),
            ]
        )
    except ConditionFailed as e:
        raise Conflict("Somebody archived or restored this agent a moment ago.", code="contended") from e


def _may(person: Person, agent: AgentItem) -> None:
    if not may_change(person, agent):
        raise Forbidden("Only the agent's owner, or an owner or admin of the workspace, may change it.")
