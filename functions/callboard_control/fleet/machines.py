"""The fleet: machines and what they can run. A machine is one item with one liveness for all its runtimes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from callboard_control import names, ports
from callboard_control.actor import Actor, Daemon, Person, TaskAgent
from callboard_control.errors import Forbidden, InvalidRequest, NotFound
from callboard_control.identity.authenticate import as_daemon, membership
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import DaemonItem, RuntimeItem, TaskItem
from callboard_wire.bodies import (
    DeregisterRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    RegisteredRuntime,
    RegisterRequest,
    RegisterResponse,
    RuntimeOffer,
)

WRITE_LIVENESS_EVERY_MS = 15_000
D, R = DaemonItem, RuntimeItem


def register(actor: Actor, request: RegisterRequest) -> RegisterResponse:
    """Write down a machine and what it offers; the same machine and provider keep their ids for ever.

    A person gets a daemon token with it; a daemon renews its own machine. Built-in runtimes that are no longer offered
    go offline. Raises `Forbidden` for a machine that is another member's, `InvalidRequest` when nothing is offered.
    """
    if not request.runtimes and not request.failed_profiles:
        raise InvalidRequest("A daemon registers at least one runtime; install a coding-agent CLI first.")
    actor = _acting(actor, request)
    workspace_id = actor.workspace_id
    record = keys.derived_id("daemon", workspace_id, request.daemon_id)
    found = table.get(D, f"DM#{record}", "D")
    # A runtime that a daemon adds by itself is its machine's owner's: without one no task of it is handed out.
    owner_id = actor.user_id if isinstance(actor, Person) else (found.owner_id if found is not None else None)
    if found is not None and isinstance(actor, Person) and found.owner_id != actor.user_id and not actor.is_admin:
        raise Forbidden("This machine is registered by another member.", code="daemon_of_another", daemon_id=record)
    token = None
    if isinstance(actor, Person):
        token, digest = keys.mint(keys.DAEMON, record)
    else:
        digest = None
    offers = {_runtime_id(record, offer): offer for offer in request.runtimes}
    known = _offered(found, offers)
    _save_daemon(record, workspace_id, owner_id, request, known, digest)
    for runtime_id, offer in offers.items():
        _save_runtime(runtime_id, record, workspace_id, owner_id, offer)
    for runtime_id in known.keys() - offers.keys():
        if known[runtime_id].get("offline"):
            _set_offline(workspace_id, runtime_id, {})
    ports.ring(*offers)
    return RegisterResponse(
        workspace_id=workspace_id,
        daemon_token=token,
        runtimes=[
            RegisteredRuntime(id=rid, name=o.name, provider=o.type, status=o.status, profile_id=o.profile_id)
            for rid, o in offers.items()
        ],
    )


def _acting(actor: Actor, request: RegisterRequest) -> Person | Daemon:
    """The actor in the workspace the request names: a person's role there counts, not the one they have elsewhere."""
    match actor:
        case Person():
            wanted = request.workspace_id or actor.workspace_id
            return actor if wanted == actor.workspace_id else membership(actor.user_id, wanted, actor.token_id)
        case Daemon():
            same = request.daemon_id == actor.daemon_id
            if not same or request.workspace_id not in (None, actor.workspace_id):
                raise Forbidden("A daemon token registers its own machine only.", code="daemon_of_another")
            return actor
        case TaskAgent():
            raise Forbidden("An agent cannot register a machine.", code="human_only")


def _runtime_id(record: str, offer: RuntimeOffer) -> str:
    return keys.derived_id("runtime", record, offer.type, offer.profile_id or "")


def _offered(found: DaemonItem | None, offers: dict[str, RuntimeOffer]) -> dict[str, dict[str, Any]]:
    known: dict[str, dict[str, Any]] = dict(found.runtimes) if found is not None else {}
    for runtime_id, entry in known.items():
        if runtime_id not in offers and not entry.get("profile"):
            known[runtime_id] = {**entry, "offline": True}
    for runtime_id, offer in offers.items():
        known[runtime_id] = {"provider": offer.type}
        if offer.profile_id:
            known[runtime_id]["profile"] = offer.profile_id
        if offer.status != "online":
            known[runtime_id]["offline"] = True
    return known


def _save_daemon(
    record: str,
    workspace_id: str,
    owner_id: str | None,
    request: RegisterRequest,
    known: dict[str, dict[str, Any]],
    digest: bytes | None,
) -> None:
    now = ports.now_ms()
    actions = [
        D.workspace_id.set(workspace_id),
        D.daemon_id.set(request.daemon_id),
        D.device_name.set(names.plain(request.device_name) or request.daemon_id),
        D.cli_version.set(request.cli_version or "unknown"),
        D.runtimes.set(known),
        D.seen.set(now),
        D.created.set(D.created | now),
        D.gpk.set(f"DAEMON#{keys.shard(record)}"),
        D.gsk.set(record),
    ]
    if owner_id:
        actions.append(D.owner_id.set(D.owner_id | owner_id))
    if digest:
        actions.append(D.digest.set(digest))
    table.update(D(f"DM#{record}", "D"), actions)


def _save_runtime(runtime_id: str, record: str, workspace_id: str, owner_id: str | None, offer: RuntimeOffer) -> None:
    now = ports.now_ms()
    actions = [
        R.id.set(runtime_id),
        R.workspace_id.set(workspace_id),
        R.daemon.set(record),
        R.provider.set(offer.type),
        R.name.set(names.plain(offer.name) or offer.type),
        R.version.set(offer.version or "unknown"),
        R.created.set(R.created | now),
        R.offline.set(now) if offer.status != "online" else R.offline.remove(),
        R.offline_reason.set(offer.offline_reason) if offer.offline_reason else R.offline_reason.remove(),
    ]
    if owner_id:
        actions.append(R.owner_id.set(R.owner_id | owner_id))
    if offer.profile_id:
        actions.append(R.profile_id.set(offer.profile_id))
    table.update(R(keys.workspace(workspace_id), f"RT#{runtime_id}"), actions)


def _set_offline(workspace_id: str, runtime_id: str, reason: dict[str, Any]) -> None:
    actions = [R.offline.set(R.offline | ports.now_ms())]
    if reason:
        actions.append(R.offline_reason.set(reason))
    try:
        table.update(R(keys.workspace(workspace_id), f"RT#{runtime_id}"), actions, R.pk.exists())
    except ConditionFailed:
        pass  # deleted meanwhile: it is offline enough


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
    return HeartbeatResponse(runtime_gone=request.runtime_id in gone, gone_runtime_ids=gone)


def deregister(daemon: Daemon, request: DeregisterRequest) -> None:
    """Take runtimes offline, each with an optional reason. Ids that are not this machine's are ignored."""
    item = table.get(D, f"DM#{daemon.record}", "D")
    mine = [rid for rid in request.runtime_ids if item is not None and rid in item.runtimes]
    if item is None or not mine:
        return
    known = {rid: ({**entry, "offline": True} if rid in mine else entry) for rid, entry in item.runtimes.items()}
    table.update(D(item.pk, "D"), [D.runtimes.set(known)])
    for runtime_id in mine:
        _set_offline(daemon.workspace_id, runtime_id, request.offline_reasons.get(runtime_id, {}))


def retire(workspace_id: str, owner_id: str) -> None:
    """A member leaves: their machines' tokens are dead from the next call on, and nothing is offered there any more.
    What ran there is swept like any silent machine's. Doing it twice changes nothing."""
    cursor = None
    while True:
        page = table.rows(
            R, keys.workspace(workspace_id), R.sk.startswith("RT#"), limit=100, cursor=cursor, consistent=True
        )
        theirs = [runtime for runtime in page.items if runtime.owner_id == owner_id]
        for item in table.get_many(D, {(f"DM#{runtime.daemon}", "D") for runtime in theirs}):
            known = {rid: {**entry, "offline": True} for rid, entry in item.runtimes.items()}
            table.update(D(item.pk, "D"), [D.digest.remove(), D.runtimes.set(known)], D.owner_id == owner_id)
        for runtime in theirs:
            _set_offline(workspace_id, runtime.id, {"code": "owner_left"})
        cursor = page.cursor
        if cursor is None:
            return


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
