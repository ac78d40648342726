"""Changing an agent: its fields, its place in the archive. What is absent stays; what is null is cleared."""

from __future__ import annotations

from typing import Any

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.agents import teammates
from callboard_control.errors import Conflict, Forbidden, InvalidRequest
from callboard_control.fleet import runtimes
from callboard_control.identity import audit
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import AgentItem, AgentNameItem, SlotItem
from callboard_control.tasks import board
from callboard_wire.agents import UpdateAgentRequest

A, N, S = AgentItem, AgentNameItem, SlotItem
MASK = "***"


def update(person: Person, agent: AgentItem, request: UpdateAgentRequest) -> AgentItem:
    """Apply the fields that were sent. Who may: the agent's owner, an owner or admin.

    Another runtime clears a model that belongs to the old one's provider, and is checked like a new agent's.
    Raises `Forbidden`, `Conflict` ``name_taken`` or ``contended``, `InvalidRequest`.
    """
    _may(person, agent)
    teammates.refuse_env(request)
    sent = request.model_dump(exclude_unset=True)
    changes = _changes(person, agent, sent)
    if not changes:
        return agent
    table.refuse_oversized(A(**(agent.attribute_values | changes)), "The agent")
    actions = [
        getattr(A, name).set(value) if value not in (None, "", []) else getattr(A, name).remove()
        for name, value in changes.items()
    ]
    writes: list[table.Write] = [table.Update(A(agent.pk, agent.sk), actions, A.name == agent.name)]
    if "name" in changes and keys.folded(changes["name"]) != keys.folded(agent.name):
        writes += [
            table.Put(N(agent.pk, f"AN#{keys.folded(changes['name'])}", agent_id=agent.id), N.pk.does_not_exist()),
            table.Delete(N(agent.pk, f"AN#{keys.folded(agent.name)}")),
        ]
    writes.append(audit.put(person, "agent_updated", f"agent:{agent.id}", fields=sorted(changes)))
    try:
        table.transact(writes)
    except ConditionFailed as e:
        if 0 in e.failed:
            raise Conflict("Somebody renamed this agent a moment ago; look again.", code="contended") from e
        raise Conflict(
            f"There is an agent named {changes['name']!r} already; choose another name.", code="name_taken"
        ) from e
    return teammates.find(person.workspace_id, agent.id)


def _changes(person: Person, agent: AgentItem, sent: dict[str, Any]) -> dict[str, Any]:
    changes = dict(sent)
    if changes.get("name") is None:
        changes.pop("name", None)
    elif changes["name"] != agent.name:
        teammates.refuse_odd_name(changes["name"])
    if "max_concurrent_tasks" in changes and changes["max_concurrent_tasks"] is None:
        changes["max_concurrent_tasks"] = teammates.DEFAULT_CONCURRENCY
    if _masked(changes.get("mcp_config")):
        changes["mcp_config"] = restored(changes["mcp_config"], agent.mcp_config)
    if changes.get("runtime_id") not in (None, agent.runtime_id):
        runtime = runtimes.find_runtime(person.workspace_id, runtime_id=changes["runtime_id"], provider=None)
        changes["provider"] = runtime.provider
        if runtime.provider != agent.provider and "model" not in changes and agent.model:
            changes["model"] = None
        if runtime.provider != agent.provider and "thinking_level" not in changes and agent.thinking_level:
            raise InvalidRequest(
                f"The thinking level {agent.thinking_level!r} was {agent.provider}'s; send one for {runtime.provider} "
                "or null with the new runtime.",
                code="thinking_level_of_old_provider",
            )
    return changes


def _masked(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_masked(v) for v in value.values())
    if isinstance(value, list):
        return any(_masked(v) for v in value)
    return bool(value == MASK)


def restored(sent: Any, stored: Any) -> Any:
    """`sent` with what was masked in it put back from `stored`: a round trip through a form loses nothing. A mask with
    nothing behind it is dropped, never stored."""
    if isinstance(sent, dict):
        known = stored if isinstance(stored, dict) else {}
        pairs = {k: restored(v, known.get(k)) for k, v in sent.items()}
        return {k: v for k, v in pairs.items() if v != MASK}
    if isinstance(sent, list):
        known_list = stored if isinstance(stored, list) else []
        filled = [restored(v, known_list[i] if i < len(known_list) else None) for i, v in enumerate(sent)]
        return [v for v in filled if v != MASK]
    if sent == MASK and isinstance(stored, str):
        return stored
    return sent


# ── archive ──────────────────────────────────────────────────────────────────


def archive(person: Person, agent: AgentItem) -> AgentItem:
    """No new task from here on, and every task that has not ended is cancelled. The name stays taken.

    The slot is closed in the same transaction: a claim under way either came before, and is cancelled, or is refused.
    """
    _may(person, agent)
    if agent.archived is not None:
        raise Conflict(f"The agent {agent.name!r} is archived already.", code="already_archived")
    now = ports.now_ms()
    _switch(
        person,
        agent,
        "agent_archived",
        [A.archived.set(now)],
        A.archived.does_not_exist(),
        [S.closed.set(now)],
    )
    for task_id in board.active_ids(agent):
        board.cancel_many(person, [task_id], only_queued=False)
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
    if not teammates.may_change(person, agent):
        raise Forbidden("Only the agent's owner, or an owner or admin of the workspace, may change it.")
