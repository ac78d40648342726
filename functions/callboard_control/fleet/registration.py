"""Registration: a machine says who it is and what it can run, again and again, and keeps its ids for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pynamodb.expressions.condition import Condition

from callboard_control import names, ports
from callboard_control.actor import Actor, Daemon, Person, TaskAgent
from callboard_control.errors import Conflict, Forbidden, InvalidRequest
from callboard_control.fleet import machines
from callboard_control.identity import audit
from callboard_control.identity.authenticate import membership
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.fleet_items import ProfileItem
from callboard_control.store.models import DaemonItem, MemberItem, RuntimeItem
from callboard_control.tasks.record import clip
from callboard_wire.bodies import RegisteredRuntime, RegisterRequest, RegisterResponse, RuntimeOffer

D, R, P = DaemonItem, RuntimeItem, ProfileItem
TRIES: Final = 5
REASON_BYTES: Final = 500
MAX_RUNTIMES: Final = 200
"""Of a machine. They lie in its one item, which every call of its daemon reads."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """The machine that is registering, and as whom."""

    record: str
    workspace_id: str
    owner_id: str | None
    digest: bytes | None
    profiles_version: int


def register(actor: Actor, request: RegisterRequest) -> RegisterResponse:
    """Write down a machine and what it offers; the same machine and provider keep their ids for ever.

    A person gets a daemon token with it; a daemon renews its own machine. Built-in runtimes that are no longer offered
    go offline; those of profiles stay as they are until they are offered or named as failed.

    Raises `Forbidden` for a machine that is another member's (one whose owner has left goes over to an owner or admin
    of the workspace who registers it); `InvalidRequest` when nothing is offered, ``too_many_runtimes``, or
    ``runtime_profile_not_found``; `Conflict` ``runtime_profile_disabled``.
    """
    if not request.runtimes and not request.failed_profiles:
        raise InvalidRequest("A daemon registers at least one runtime; install a coding-agent CLI first.")
    actor = _acting(actor, request)
    record = keys.derived_id("daemon", actor.workspace_id, request.daemon_id)
    token, digest = keys.mint(keys.DAEMON, record) if isinstance(actor, Person) else (None, None)
    profiles = _profiles(actor.workspace_id, request)
    offers = {_runtime_id(record, offer): offer for offer in _offers(request, profiles)}
    machine = _save_daemon(actor, record, request, offers, digest)
    for runtime_id, offer in offers.items():
        _save_runtime(runtime_id, machine, offer)
    _withdraw_disabled(machine, offers)
    ports.ring(*offers)
    return RegisterResponse(
        workspace_id=machine.workspace_id,
        daemon_token=token,
        profiles_version=machine.profiles_version,
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


# ── what is offered ──────────────────────────────────────────────────────────


def _profiles(workspace_id: str, request: RegisterRequest) -> dict[str, ProfileItem]:
    named = {o.profile_id for o in request.runtimes if o.profile_id} | {f.profile_id for f in request.failed_profiles}
    wanted = [(keys.workspace(workspace_id), f"RP#{profile_id}") for profile_id in named]
    return {profile.id: profile for profile in table.get_many(P, wanted)}


def _offers(request: RegisterRequest, profiles: dict[str, ProfileItem]) -> list[RuntimeOffer]:
    """Every runtime of the request, with the provider that its profile says. A profile that failed is an offline
    runtime with the reason, so that people see it; one that is gone meanwhile has nothing to be seen at."""
    offers = [offer if offer.profile_id is None else _of_profile(offer, profiles) for offer in request.runtimes]
    for failed in request.failed_profiles:
        profile = profiles.get(failed.profile_id)
        if profile is not None:
            offers.append(
                RuntimeOffer(
                    name=f"{profile.name} ({names.plain(request.device_name) or request.daemon_id})"[:100],
                    type=profile.family,
                    status="offline",
                    profile_id=profile.id,
                    offline_reason={"code": "profile_failed", "detail": clip(failed.reason, REASON_BYTES)},
                )
            )
    return offers


def _of_profile(offer: RuntimeOffer, profiles: dict[str, ProfileItem]) -> RuntimeOffer:
    profile = profiles.get(offer.profile_id or "")
    if profile is None:
        raise InvalidRequest(
            f"There is no runtime profile {offer.profile_id!r} in this workspace.",
            code="runtime_profile_not_found",
            profile_id=offer.profile_id,
        )
    if not profile.enabled:
        raise Conflict(
            f"The runtime profile {profile.name!r} is disabled.", code="runtime_profile_disabled", profile_id=profile.id
        )
    return offer.model_copy(update={"type": profile.family})


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
    if len(known) > MAX_RUNTIMES:
        raise InvalidRequest(
            f"A machine has {MAX_RUNTIMES} runtimes at most, those that are offline included: delete some first.",
            code="too_many_runtimes",
            limit=MAX_RUNTIMES,
        )
    return known


# ── writing it down ──────────────────────────────────────────────────────────


def _save_daemon(
    actor: Person | Daemon,
    record: str,
    request: RegisterRequest,
    offers: dict[str, RuntimeOffer],
    digest: bytes | None,
) -> _Machine:
    """The machine's item, changed only if it is still as it was read: a runtime that is deleted, or taken offline, in
    between must not come back by our having read it before."""
    for _ in range(TRIES):
        found = table.get(D, f"DM#{record}", "D")
        _refuse_anothers(actor, found)
        # A runtime that a daemon adds by itself is its machine's owner's: without one no task of it is handed out.
        owner_id = actor.user_id if isinstance(actor, Person) else (found.owner_id if found is not None else None)
        _take_over(found, owner_id)
        version = int(found.profiles_version or 0) if found is not None else 0
        machine = _Machine(record, actor.workspace_id, owner_id, digest, version)
        known = _offered(found, offers)
        unchanged = D.pk.does_not_exist() if found is None else _unchanged(found)
        actions = _daemon_actions(machine, request, known)
        try:
            _write(actor, table.Update(D(f"DM#{record}", "D"), actions, unchanged), request)
        except ConditionFailed:
            continue
        gone = [rid for rid in known.keys() - offers.keys() if known[rid].get("offline")]
        for runtime_id in gone:
            machines.set_offline(machine.workspace_id, runtime_id, {})
        return machine
    raise Conflict("The machine kept registering elsewhere at the same time; try again.", code="contended")


def _unchanged(found: DaemonItem) -> Condition:
    owner = D.owner_id == found.owner_id if found.owner_id else D.owner_id.does_not_exist()
    unchanged: Condition = (D.runtimes == found.runtimes) & owner
    return unchanged


def _refuse_anothers(actor: Person | Daemon, found: DaemonItem | None) -> None:
    """A machine is its owner's for as long as they are a member, admins or not: a token for it would outlive whoever
    was given one. After that an owner or admin of the workspace may make it theirs."""
    if found is None or isinstance(actor, Daemon) or found.owner_id == actor.user_id:
        return
    key = keys.workspace(actor.workspace_id)
    if found.owner_id and table.get(MemberItem, key, f"ME#{found.owner_id}") is not None:
        raise Forbidden("This machine is registered by another member.", code="daemon_of_another")
    if not actor.is_admin:
        message = "This machine was somebody's who has left; an owner or admin of the workspace registers it."
        raise Forbidden(message, code="daemon_of_another")


def _take_over(found: DaemonItem | None, owner_id: str | None) -> None:
    """What its last owner had there is the new one's, before the machine is: a call that was cut off is repeated."""
    if found is not None and found.owner_id and owner_id and found.owner_id != owner_id:
        for runtime_id in found.runtimes:
            machines.give(found.workspace_id, runtime_id, found.owner_id, owner_id)


def _write(actor: Person | Daemon, machine: table.Update, request: RegisterRequest) -> None:
    """A person who registers a machine gets a token for it, which is a deed to be found again; and nobody gets one who
    has been taken out of the workspace since the call began."""
    if isinstance(actor, Daemon):
        table.update(machine.item, machine.actions, machine.condition)
        return
    thing = f"daemon:{machine.item.pk.removeprefix('DM#')}"
    member = table.Check(MemberItem(keys.workspace(actor.workspace_id), f"ME#{actor.user_id}"), MemberItem.pk.exists())
    table.transact([machine, member, audit.put(actor, "machine_registered", thing, daemon_id=request.daemon_id)])


def _daemon_actions(machine: _Machine, request: RegisterRequest, known: dict[str, dict[str, Any]]) -> list[Any]:
    now = ports.now_ms()
    actions = [
        D.workspace_id.set(machine.workspace_id),
        D.daemon_id.set(request.daemon_id),
        D.device_name.set(names.plain(request.device_name) or request.daemon_id),
        D.cli_version.set(request.cli_version or "unknown"),
        D.runtimes.set(known),
        D.seen.set(now),
        D.created.set(D.created | now),
        D.gpk.set(f"DAEMON#{keys.shard(machine.record)}"),
        D.gsk.set(machine.record),
    ]
    if machine.owner_id:
        actions.append(D.owner_id.set(machine.owner_id))
    if machine.digest:
        actions.append(D.digest.set(machine.digest))
    return actions


def _save_runtime(runtime_id: str, machine: _Machine, offer: RuntimeOffer) -> None:
    now, reason = ports.now_ms(), machines.kept_reason(offer.offline_reason or {})
    actions = [
        R.id.set(runtime_id),
        R.workspace_id.set(machine.workspace_id),
        R.daemon.set(machine.record),
        R.provider.set(offer.type),
        R.name.set(names.plain(offer.name) or offer.type),
        R.version.set(offer.version or "unknown"),
        R.created.set(R.created | now),
        R.closing.remove(),
        R.offline.set(now) if offer.status != "online" else R.offline.remove(),
        R.offline_reason.set(reason) if reason else R.offline_reason.remove(),
    ]
    if machine.owner_id:
        actions.append(R.owner_id.set(R.owner_id | machine.owner_id))
    if offer.profile_id:
        actions.append(R.profile_id.set(offer.profile_id))
    table.update(R(keys.workspace(machine.workspace_id), f"RT#{runtime_id}"), actions)


def _withdraw_disabled(machine: _Machine, offers: dict[str, RuntimeOffer]) -> None:
    """Look once more, now that the runtimes stand: whoever disabled a profile in between looked for them before they
    did. One of the two sees the other."""
    online = {rid: o.profile_id for rid, o in offers.items() if o.profile_id and o.status == "online"}
    wanted = [(keys.workspace(machine.workspace_id), f"RP#{profile_id}") for profile_id in online.values()]
    enabled = {profile.id for profile in table.get_many(P, wanted) if profile.enabled}
    gone = {rid: {"code": "profile_disabled"} for rid, profile_id in online.items() if profile_id not in enabled}
    machines.take_offline(machine.record, machine.workspace_id, gone)
