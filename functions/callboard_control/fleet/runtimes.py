"""Runtimes as people see and change them: whose they are, who may use them, how much they take at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callboard_control import names, permissions, ports
from callboard_control.actor import Person
from callboard_control.errors import Forbidden, InvalidRequest, NotFound
from callboard_control.identity import audit
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import DaemonItem, RuntimeItem
from callboard_control.tasks.record import at
from callboard_wire.api import Page, RuntimeView
from callboard_wire.bodies import RUNTIME_FRESH_S
from callboard_wire.runtimes import UpdateRuntimeRequest

D, R = DaemonItem, RuntimeItem
PAGE = 100


# ── looking ──────────────────────────────────────────────────────────────────


def list_runtimes(workspace_id: str, cursor: str | None, limit: int) -> Page[RuntimeView]:
    page = table.rows(R, keys.workspace(workspace_id), R.sk.startswith("RT#"), limit=limit, cursor=cursor)
    machines = _machines(page.items, consistent=False)
    return Page[RuntimeView](items=[view(r, machines.get(r.daemon)) for r in page.items], next_cursor=page.cursor)


def get(workspace_id: str, runtime_id: str) -> RuntimeView:
    """Raises `NotFound`, for another workspace's as well."""
    return _shown(find(workspace_id, runtime_id))


def find(workspace_id: str, runtime_id: str) -> RuntimeItem:
    """The runtime that a path names. Raises `NotFound`, for another workspace's as well."""
    runtime = table.get(R, keys.workspace(workspace_id), f"RT#{runtime_id}")
    if runtime is None:
        raise NotFound.of("runtime", runtime_id)
    return runtime


def view(item: RuntimeItem, daemon: DaemonItem | None) -> RuntimeView:
    return RuntimeView(
        id=item.id,
        workspace_id=item.workspace_id,
        name=item.name,
        custom_name=item.custom_name or "",
        provider=item.provider,
        profile_id=item.profile_id or "",
        visibility=item.visibility or permissions.PRIVATE,
        max_concurrent_tasks=int(item.max_concurrent_tasks) if item.max_concurrent_tasks is not None else None,
        version=item.version or "",
        status="online" if is_online(item, daemon) else "offline",
        daemon_id=daemon.daemon_id if daemon else "",
        device_name=(daemon.device_name if daemon else None) or "",
        owner_id=item.owner_id or "",
        last_seen_at=at(daemon.seen) if daemon else None,
        offline_reason=item.offline_reason,
    )


def is_online(item: RuntimeItem, daemon: DaemonItem | None) -> bool:
    """Offered by its machine, which has been heard of lately."""
    fresh = daemon is not None and ports.now_ms() - int(daemon.seen) <= RUNTIME_FRESH_S * 1000
    return fresh and item.offline is None


def every(workspace_id: str) -> Iterator[RuntimeItem]:
    """All runtimes of the workspace, read consistently, page by page."""
    return table.every(R, keys.workspace(workspace_id), R.sk.startswith("RT#"), page=PAGE, consistent=True)


def _machines(items: list[RuntimeItem], *, consistent: bool = True) -> dict[str, DaemonItem]:
    """The machines of these runtimes by record."""
    found = table.get_many(D, [(f"DM#{r.daemon}", "D") for r in items], consistent=consistent)
    return {d.pk.removeprefix("DM#"): d for d in found}


def _shown(item: RuntimeItem) -> RuntimeView:
    return view(item, table.get(D, f"DM#{item.daemon}", "D"))


# ── choosing ─────────────────────────────────────────────────────────────────


def find_runtime(
    workspace_id: str, *, runtime_id: str | None, provider: str | None, usable_by: Person | None = None
) -> RuntimeItem:
    """The runtime an agent is to use: by id, or the one online runtime of a provider, or the only one there is.

    With `usable_by` only those that person may put an agent on. Raises `InvalidRequest` that lists what there is to
    choose from, `Forbidden` for one that is named and not theirs to use.
    """
    if runtime_id:
        runtime = table.get(R, keys.workspace(workspace_id), f"RT#{runtime_id}")
        if runtime is None:
            raise InvalidRequest(
                f"There is no runtime {runtime_id!r} in this workspace.",
                code="runtime_not_found",
                runtime_id=runtime_id,
            )
        if usable_by is not None:
            permissions.refuse_unusable(usable_by, runtime)
        return runtime
    items = [r for r in every(workspace_id) if usable_by is None or permissions.may_use(usable_by, r)]
    machines = _machines(items)
    usable = [r for r in items if is_online(r, machines.get(r.daemon))]
    fitting = [r for r in usable if provider in (None, r.provider)]
    if len(fitting) == 1 or (fitting and provider):
        return fitting[0]
    raise InvalidRequest(_which(provider, usable), code="agent_runtime_required", online=[r.id for r in usable[:PAGE]])


def _which(provider: str | None, usable: list[RuntimeItem]) -> str:
    """What to do when no one runtime is meant."""
    if not usable:
        return "No runtime that you may use is online here: start a daemon first (`callboard daemon start`)."
    there_are = ", ".join(sorted(f"{r.provider} ({r.id})" for r in usable[:20]))
    missing = f"No runtime of {provider!r} is online here" if provider else "Name a provider or a runtime"
    more = f" and {len(usable) - 20} more" if len(usable) > 20 else ""
    return f"{missing}; online are {there_are}{more}."


# ── changing ─────────────────────────────────────────────────────────────────


def update(person: Person, runtime_id: str, request: UpdateRuntimeRequest) -> RuntimeView:
    """Apply the fields that were sent. Who may: the runtime's owner, an owner or admin of the workspace. Who may use it
    is for its owner alone to say (an unchanged echo is ignored): it works with what their machine is logged in to.

    Raises `Forbidden`, `NotFound`, `InvalidRequest`.
    """
    runtime = find(person.workspace_id, runtime_id)
    refuse_stranger(person, runtime)
    sent = request.model_dump(exclude_unset=True)
    if sent.get("visibility") in (None, runtime.visibility or permissions.PRIVATE):
        sent.pop("visibility", None)
    elif runtime.owner_id != person.user_id:
        raise Forbidden("Only the runtime's owner says who may use it.", code="runtime_owner_only")
    if sent.get("custom_name"):
        names.refuse_odd(sent["custom_name"])
    changes = {name: value for name, value in sent.items() if value != getattr(runtime, name)}
    if not changes:
        return _shown(runtime)
    _apply(person, runtime, changes)
    return _shown(find(person.workspace_id, runtime_id))


def refuse_stranger(person: Person, runtime: RuntimeItem) -> None:
    """Raises `Forbidden` for somebody who is neither the runtime's owner nor an owner or admin of the workspace."""
    if not person.is_admin and (runtime.owner_id is None or runtime.owner_id != person.user_id):
        raise Forbidden("Only the runtime's owner, or an owner or admin of the workspace, may change it.")


def _apply(person: Person, runtime: RuntimeItem, changes: dict[str, Any]) -> None:
    actions = [
        getattr(R, name).remove() if value is None else getattr(R, name).set(value) for name, value in changes.items()
    ]
    deed = audit.put(person, "runtime_updated", f"runtime:{runtime.id}", **changes)
    try:
        table.transact([table.Update(R(runtime.pk, runtime.sk), actions, R.pk.exists()), deed])
    except ConditionFailed as e:
        raise NotFound.of("runtime", runtime.id) from e
    if "max_concurrent_tasks" in changes:
        ports.ring(runtime.id)  # there may be room for what waits
