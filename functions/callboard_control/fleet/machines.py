"""The fleet: machines and what they can run. A machine is one item with one liveness for all its runtimes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from callboard_control import ports
from callboard_control.actor import Actor, Daemon, TaskAgent
from callboard_control.errors import Conflict, Forbidden, NotFound
from callboard_control.identity.authenticate import as_daemon
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import DaemonItem, RuntimeItem, TaskItem
from callboard_wire.bodies import (
    DeregisterRequest,
    HeartbeatRequest,
    HeartbeatResponse,
)

WRITE_LIVENESS_EVERY_MS = 15_000
REASON_BYTES: Final = 4096
TRIES: Final = 5
D, R = DaemonItem, RuntimeItem


def set_offline(workspace_id: str, runtime_id: str, reason: dict[str, Any], owner_id: str | None = None) -> None:
    """The runtime's own item says since when it is offline, and why where a reason is given. With `owner_id` only while
    it is theirs."""
    still = R.pk.exists() if owner_id is None else R.owner_id == owner_id
    actions = [R.offline.set(R.offline | ports.now_ms())]
    if reason:
        actions.append(R.offline_reason.set(kept_reason(reason)))
    try:
        table.update(R(keys.workspace(workspace_id), f"RT#{runtime_id}"), actions, still)
    except ConditionFailed:
        pass  # deleted meanwhile, or somebody else's: it is offline enough


def kept_reason(reason: Mapping[str, Any]) -> dict[str, Any]:
    """What a machine says of why a runtime is offline, as it is kept: lists show a hundred of them at a time."""
    if len(json.dumps(reason)) <= REASON_BYTES:
        return dict(reason)
    return {name: str(reason[name])[:500] for name in ("code", "detail") if name in reason}


# ── liveness ─────────────────────────────────────────────────────────────────


def touch(daemon: Daemon) -> Daemon:
    """The daemon just spoke: claims and reports are heartbeats too. At most one write every 15 s; returns the daemon as
    seen now, for a call that goes on and touches it again."""
    now = ports.now_ms()
    if abs(now - daemon.seen) < WRITE_LIVENESS_EVERY_MS:
        return daemon
    try:
        table.update(D(f"DM#{daemon.record}", "D"), [D.seen.set(now)], D.pk.exists())
    except ConditionFailed:
        pass  # the machine was removed: its next register or heartbeat is told
    return replace(daemon, seen=now)


def heartbeat(daemon: Daemon, request: HeartbeatRequest) -> HeartbeatResponse:
    """One beat for all runtimes; those named that are not this machine's any more are answered as gone."""
    touch(daemon)
    asked = [*request.runtime_ids, *([request.runtime_id] if request.runtime_id else [])]
    gone = [rid for rid in dict.fromkeys(asked) if rid not in daemon.runtimes]
    return HeartbeatResponse(
        runtime_gone=request.runtime_id in gone, gone_runtime_ids=gone, profiles_version=daemon.profiles_version
    )


def deregister(daemon: Daemon, request: DeregisterRequest) -> None:
    """Take runtimes offline, each with an optional reason. Ids that are not this machine's are ignored."""
    reasons = {rid: request.offline_reasons.get(rid, {}) for rid in request.runtime_ids}
    take_offline(daemon.record, daemon.workspace_id, reasons)


def take_offline(record: str, workspace_id: str, reasons: Mapping[str, dict[str, Any]]) -> None:
    """Nothing new is handed out for these runtimes of the machine, which may go on with what it has. Raises `Conflict`
    ``contended`` when the machine kept registering meanwhile."""
    for _ in range(TRIES):
        item = table.get(D, f"DM#{record}", "D") if reasons else None
        mine = [rid for rid in reasons if item is not None and rid in item.runtimes]
        if item is None or not mine:
            return
        known = {rid: ({**entry, "offline": True} if rid in mine else entry) for rid, entry in item.runtimes.items()}
        try:
            table.update(D(item.pk, "D"), [D.runtimes.set(known)], D.runtimes == item.runtimes)
        except ConditionFailed:
            continue
        for runtime_id in mine:
            set_offline(workspace_id, runtime_id, reasons[runtime_id])
        return
    raise Conflict("The machine kept registering at the same time; try again.", code="contended")


def retire(workspace_id: str, owner_id: str, heir_id: str | None = None) -> None:
    """A member leaves: their machines' tokens are dead from the next call on, and nothing is offered there any more.
    What ran there is swept like any silent machine's. With an heir, machines and runtimes are theirs, and are offered
    again once they log in on the machine and start its daemon. Doing it twice changes nothing."""
    from callboard_control.fleet import runtimes  # costly at a cold start, and a claim retires nobody

    reason = {"code": "handed_over" if heir_id else "owner_left"}
    theirs = [runtime for runtime in runtimes.every(workspace_id) if runtime.owner_id == owner_id]
    for item in table.get_many(D, {(f"DM#{runtime.daemon}", "D") for runtime in theirs}):
        known = {rid: {**entry, "offline": True} for rid, entry in item.runtimes.items()}
        actions = [D.digest.remove(), D.runtimes.set(known), *([D.owner_id.set(heir_id)] if heir_id else [])]
        try:
            table.update(D(item.pk, "D"), actions, D.owner_id == owner_id)
        except ConditionFailed:
            pass  # a machine of somebody else's, or gone: its token is not the member's
    for runtime in theirs:
        set_offline(workspace_id, runtime.id, reason, owner_id)
        if heir_id:
            give(workspace_id, runtime.id, owner_id, heir_id)


def give(workspace_id: str, runtime_id: str, owner_id: str, heir_id: str) -> None:
    """The runtime is `heir_id`'s, if it is `owner_id`'s."""
    runtime = R(keys.workspace(workspace_id), f"RT#{runtime_id}")
    try:
        table.update(runtime, [R.owner_id.set(heir_id)], R.owner_id == owner_id)
    except ConditionFailed:
        pass  # deleted, or given away, meanwhile


# ── speaking for a machine ──────────────────────────────────────────────────


def daemon_for(
    actor: Actor, *, daemon_id: str | None = None, runtime_id: str | None = None, task_id: str | None = None
) -> Daemon:
    """The daemon a call is made as: a daemon token is its own; a person's token (older daemons log in with one) reaches
    the machines that person registered.

    Raises `Forbidden` for agents, for a body that names another machine than the token, and for another member's
    machine; `NotFound` for what is not in the workspace.
    """
    if isinstance(actor, Daemon):
        if daemon_id not in (None, actor.daemon_id):
            raise Forbidden("The token belongs to another daemon.", code="daemon_of_another")
        return actor
    if isinstance(actor, TaskAgent):
        raise Forbidden("A task's token is not a daemon's.", code="daemon_only")
    thing, thing_id = ("task", task_id) if task_id else ("runtime", runtime_id) if runtime_id else ("daemon", daemon_id)
    record = _record_of(actor.workspace_id, daemon_id, runtime_id, task_id)
    item = table.get(D, f"DM#{record}", "D") if record else None
    if item is None or item.workspace_id != actor.workspace_id:
        raise NotFound.of(thing, thing_id or "")
    if item.owner_id != actor.user_id:
        raise Forbidden("That machine is another member's; only its daemon speaks for it.", code="daemon_of_another")
    return as_daemon(item)


def own_runtime(daemon: Daemon, runtime_id: str) -> Daemon:
    """The daemon, if the runtime is one it has registered. Raises `NotFound`, `Forbidden` for another machine's."""
    if daemon.owns(runtime_id):
        return daemon
    known = len(runtime_id) <= 64 and table.get(R, keys.workspace(daemon.workspace_id), f"RT#{runtime_id}") is not None
    if not known:
        raise NotFound.of("runtime", runtime_id)
    raise Forbidden("This runtime belongs to another machine.", code="daemon_of_another", runtime_id=runtime_id)


def _record_of(workspace_id: str, daemon_id: str | None, runtime_id: str | None, task_id: str | None) -> str | None:
    if daemon_id:
        return keys.derived_id("daemon", workspace_id, daemon_id)
    if task_id:
        task = table.get(TaskItem, keys.task(task_id), "T") if len(task_id) <= 64 else None
        runtime_id = task.runtime_id if task is not None and task.workspace_id == workspace_id else None
    runtime = table.get(R, keys.workspace(workspace_id), f"RT#{runtime_id}") if runtime_id else None
    return runtime.daemon if runtime is not None else None
