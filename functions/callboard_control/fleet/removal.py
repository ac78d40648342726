"""Deleting a runtime: refused while anything stands on it, and nothing of it is left behind.

    agents hold it?  →  closed: no agent may be put on it  →  do agents hold it now?
                     →  what waits or runs there is cancelled  →  runtime, places, its entry at the machine: one write
                     →  once more what waits there (an index may lag), and the machine itself with its last runtime

Every step may be repeated, so a call that was cut off is finished by the next. What runs there have cost stays: it is
part of the tasks' history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from callboard_control import permissions, ports
from callboard_control.actor import Person
from callboard_control.errors import Conflict
from callboard_control.fleet import runtimes
from callboard_control.identity import audit
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.fleet_items import PlacesItem
from callboard_control.store.models import AgentItem, DaemonItem, RuntimeItem, SlotItem, TaskItem
from callboard_control.tasks import places, record, settle, slot
from callboard_control.tasks.ready import ready_row

A, D, R, T = AgentItem, DaemonItem, RuntimeItem, TaskItem
NAMED_AT_MOST: Final = 100


def delete(person: Person, runtime_id: str) -> None:
    """Delete a runtime that no agent is on and whose machine does not offer it now. Who may: as for changing it.

    An archived agent loses its runtime; it is given another one when it comes back. Raises `NotFound`, `Forbidden`,
    `Conflict` ``runtime_has_active_agents`` (with those agents), ``runtime_online`` or ``contended``.
    """
    runtime = runtimes.find(person.workspace_id, runtime_id)
    runtimes.refuse_stranger(person, runtime)
    _refuse_online(runtime)
    close(person, [runtime])
    take_away(person, runtime)


def unbind_and_delete(person: Person, runtime_id: str, expected: Collection[str]) -> None:
    """As `delete`, taking the runtime from the agents on it first: they keep everything else, and their tasks there are
    cancelled. `expected` are those agents' ids as the caller saw them.

    Raises `Conflict` ``runtime_delete_plan_changed`` (with the agents as they are) when others are on it.
    """
    runtime = runtimes.find(person.workspace_id, runtime_id)
    runtimes.refuse_stranger(person, runtime)
    _refuse_online(runtime)
    _refuse_others(person, runtime, expected)
    _mark([runtime], [R.closing.set(ports.now_ms())])
    try:
        holding = _refuse_others(person, runtime, expected)
    except Conflict:
        _mark([runtime], [R.closing.remove()])
        raise
    for agent in holding:
        _unbind(agent)
    take_away(person, runtime)


def close(person: Person, doomed: list[RuntimeItem]) -> None:
    """No agent is on these runtimes, and none will be. Raises `Conflict` ``runtime_has_active_agents``, and then they
    are as they were."""
    _refuse_held(person, doomed)
    _mark(doomed, [R.closing.set(ports.now_ms())])
    try:
        _refuse_held(person, doomed)
    except Conflict:
        _mark(doomed, [R.closing.remove()])
        raise


def take_away(person: Person, runtime: RuntimeItem) -> None:
    """Delete a closed runtime and everything that waits there. Raises `Conflict` ``contended``."""
    agents = list(_agents(person.workspace_id))
    for agent in agents:
        if agent.runtime_id == runtime.id:
            _unbind(agent)
    _cancel_all(person, runtime, agents)
    machine = table.get(D, f"DM#{runtime.daemon}", "D")
    _delete(person, runtime, machine)
    _cancel_all(person, runtime, agents)
    if machine is not None and not set(machine.runtimes) - {runtime.id}:
        _forget_machine(machine)


# ── guards ───────────────────────────────────────────────────────────────────


def _agents(workspace_id: str) -> Iterator[AgentItem]:
    return table.every(A, keys.workspace(workspace_id), A.sk.startswith("AG#"), consistent=True)


def _holding(workspace_id: str, doomed: list[RuntimeItem]) -> list[AgentItem]:
    ids = {runtime.id for runtime in doomed}
    return [a for a in _agents(workspace_id) if a.runtime_id in ids and a.archived is None]


def _refuse_held(person: Person, doomed: list[RuntimeItem]) -> None:
    holding = _holding(person.workspace_id, doomed)
    if holding:
        said = f"Agents are on it{_named(_seen(person, holding))}; give them another runtime or archive them first."
        raise Conflict(said, code="runtime_has_active_agents", **_told(person, holding))


def _refuse_others(person: Person, runtime: RuntimeItem, expected: Collection[str]) -> list[AgentItem]:
    holding = _holding(person.workspace_id, [runtime])
    if {a.id for a in holding} != set(expected):
        said = f"Other agents than you expected are on it{_named(_seen(person, holding))}; look again."
        raise Conflict(said, code="runtime_delete_plan_changed", **_told(person, holding))
    return holding


def _seen(person: Person, agents: list[AgentItem]) -> list[AgentItem]:
    return [a for a in agents if permissions.may_see(person, a)]


def _told(person: Person, holding: list[AgentItem]) -> dict[str, Any]:
    """An agent that the caller may not see is counted and not named."""
    seen = _seen(person, holding)
    return {
        "runtime_ids": sorted({str(a.runtime_id) for a in holding}),
        "agents": [{"id": a.id, "name": a.name} for a in seen[:NAMED_AT_MOST]],
        "hidden_agents": len(holding) - len(seen),
    }


def _named(seen: list[AgentItem]) -> str:
    more = f" and {len(seen) - 5} more" if len(seen) > 5 else ""
    return f": {', '.join(repr(a.name) for a in seen[:5])}{more}" if seen else ""


def _refuse_online(runtime: RuntimeItem) -> None:
    """A machine that offers the runtime would only register it anew."""
    if runtimes.is_online(runtime, table.get(D, f"DM#{runtime.daemon}", "D")):
        raise Conflict(
            "The runtime is online: its daemon would register it again. Stop the daemon there, or take the provider "
            "out of its settings, first.",
            code="runtime_online",
            runtime_id=runtime.id,
        )


def _mark(doomed: list[RuntimeItem], actions: list[Action]) -> None:
    for runtime in doomed:
        try:
            table.update(R(runtime.pk, runtime.sk), actions, R.pk.exists())
        except ConditionFailed:
            pass  # deleted by somebody else: so it should be


# ── taking away ──────────────────────────────────────────────────────────────


def _unbind(agent: AgentItem) -> None:
    try:
        table.update(A(agent.pk, agent.sk), [A.runtime_id.remove()], A.runtime_id == agent.runtime_id)
    except ConditionFailed:
        pass  # somebody gave it another one a moment ago


def _cancel_all(person: Person, runtime: RuntimeItem, agents: list[AgentItem]) -> None:
    """Whatever has not ended there is some agent's that has moved on meanwhile."""
    held = [t.id for t in slot.held_tasks(slot.slots_of(person.workspace_id)) if t.runtime_id == runtime.id]
    ours = {a.id for a in agents}
    queued = _rows(keys.ready_of(runtime.id), ours)
    deferred = (task_id for shard in {keys.deferred_of(a) for a in ours} for task_id in _rows(shard, ours))
    for task_id in (*held, *queued, *deferred):
        task = record.load(task_id)
        if task is not None and task.workspace_id == runtime.workspace_id and task.runtime_id == runtime.id:
            settle.cancel(task, person, "Its runtime was deleted.")


def _rows(partition: str, agents: set[str]) -> Iterator[str]:
    rows = map(ready_row, table.every(T.ready_index, partition))
    return (row.task_id for row in rows if row.agent_id in agents)


def _delete(person: Person, runtime: RuntimeItem, machine: DaemonItem | None) -> None:
    spot = places.keyed(runtime.id)
    writes: list[table.Write] = [
        table.Delete(R(runtime.pk, runtime.sk), _unchanged(runtime)),
        table.Delete(PlacesItem(spot.pk, spot.sk)),
        audit.put(person, "runtime_deleted", f"runtime:{runtime.id}", name=runtime.name, provider=runtime.provider),
    ]
    if machine is not None:
        left = {rid: entry for rid, entry in machine.runtimes.items() if rid != runtime.id}
        writes.append(table.Update(D(machine.pk, "D"), [D.runtimes.set(left)], D.runtimes == machine.runtimes))
    try:
        table.transact(writes)
    except ConditionFailed as e:
        raise Conflict("The runtime's machine registered a moment ago; look again.", code="contended") from e


def _unchanged(runtime: RuntimeItem) -> Condition:
    still = R.offline.does_not_exist() if runtime.offline is None else R.offline == runtime.offline
    unchanged: Condition = R.pk.exists() & still
    return unchanged


def _forget_machine(machine: DaemonItem) -> None:
    """A machine without a runtime has nothing to say: its token dies with it. It may be registered again at any time,
    by a person. Slots that are found by it are found by the machine where their agent still has a run."""
    record = machine.pk.removeprefix("DM#")
    for found in slot.busy_slots(record):
        elsewhere = _where_it_still_runs(found, record)
        if elsewhere is None:
            slot.forget(found)
        else:
            slot.find_by(found, elsewhere)
    nothing: dict[str, object] = {}
    try:
        table.delete(D(machine.pk, "D"), D.runtimes == nothing)
    except ConditionFailed:
        pass  # it registered a moment ago


def _where_it_still_runs(found: SlotItem, but: str) -> str | None:
    """The machine of a run that an agent has, other than `but`."""
    for task in slot.held_tasks([found]):
        runtime = table.get(R, keys.workspace(task.workspace_id), f"RT#{task.runtime_id}")
        if runtime is not None and runtime.daemon != but:
            return str(runtime.daemon)
    return None
