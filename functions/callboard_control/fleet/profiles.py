"""Runtime profiles: commands of people's own that speak a known provider's protocol, offered by the machines that have
them.

A profile names a command and its first arguments; each machine looks for the command itself. Whose word a machine runs
is its owner's to say, so a profile says who wrote it last: a daemon takes its owner's, and others' once they were
accepted there.
"""

from __future__ import annotations

from typing import Any, Final

from callboard_control import names, ports
from callboard_control.actor import Daemon, Person
from callboard_control.errors import Conflict, Forbidden, InvalidRequest, NotFound
from callboard_control.fleet import machines, removal, runtimes
from callboard_control.identity import audit
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.fleet_items import ProfileItem, ProfileNameItem
from callboard_control.store.models import DaemonItem, RuntimeItem, new
from callboard_control.tasks.record import at
from callboard_wire.api import Page
from callboard_wire.providers import PROVIDERS
from callboard_wire.runtimes import MAX_FIXED_ARGS_CHARS, CreateProfileRequest, ProfileView, UpdateProfileRequest

P, N, D = ProfileItem, ProfileNameItem, DaemonItem
MAX_PROFILES: Final = 100
"""Of a workspace. A machine asks for all of them at once."""
WHAT_IS_RUN: Final = ("command", "args")
STORED_AS: Final = {
    "display_name": "name",
    "command_name": "command",
    "fixed_args": "args",
    "description": "description",
    "enabled": "enabled",
}


# ── looking ──────────────────────────────────────────────────────────────────


def list_profiles(workspace_id: str) -> Page[ProfileView]:
    return Page[ProfileView](items=[view(item) for item in _all(workspace_id)])


def for_machine(owner: Person | Daemon) -> Page[ProfileView]:
    """The enabled profiles, as a machine of `owner` gets them."""
    owner_id = owner.user_id if isinstance(owner, Person) else owner.owner_id
    found = [item for item in _all(owner.workspace_id) if item.enabled]
    return Page[ProfileView](items=[view(item, trusted=item.author_id == owner_id) for item in found])


def get(workspace_id: str, profile_id: str) -> ProfileView:
    return view(_find(workspace_id, profile_id))


def view(item: ProfileItem, *, trusted: bool = False) -> ProfileView:
    return ProfileView(
        id=item.id,
        workspace_id=item.workspace_id,
        display_name=item.name,
        protocol_family=item.family,
        command_name=item.command,
        fixed_args=list(item.args or []),
        description=item.description or "",
        enabled=bool(item.enabled),
        created_by=item.created_by,
        author_id=item.author_id,
        trusted=trusted,
        created_at=at(item.created),
    )


def _all(workspace_id: str) -> list[ProfileItem]:
    page = table.rows(P, keys.workspace(workspace_id), P.sk.startswith("RP#"), limit=2 * MAX_PROFILES, consistent=True)
    return page.items


def _find(workspace_id: str, profile_id: str) -> ProfileItem:
    item = table.get(P, keys.workspace(workspace_id), f"RP#{profile_id}")
    if item is None:
        raise NotFound.of("runtime_profile", profile_id)
    return item


# ── writing ──────────────────────────────────────────────────────────────────


def create(person: Person, request: CreateProfileRequest) -> ProfileView:
    """Raises `Forbidden` (owners and admins write profiles), `InvalidRequest`, `Conflict` ``name_taken``."""
    _refuse_member(person)
    family = request.protocol_family.strip().lower()
    if family not in PROVIDERS:
        raise InvalidRequest(
            f"There is no protocol family {request.protocol_family!r}; known are {', '.join(sorted(PROVIDERS))}.",
            code="unknown_protocol_family",
            known=sorted(PROVIDERS),
        )
    names.refuse_odd(request.display_name)
    _refuse_args(request.fixed_args)
    if len(_all(person.workspace_id)) >= MAX_PROFILES:
        raise Conflict(f"A workspace has {MAX_PROFILES} runtime profiles at most.", code="too_many_profiles")
    profile_id = keys.new_id()
    item: ProfileItem = new(
        P,
        pk=keys.workspace(person.workspace_id),
        sk=f"RP#{profile_id}",
        id=profile_id,
        workspace_id=person.workspace_id,
        name=request.display_name,
        family=family,
        command=request.command_name,
        args=request.fixed_args or None,
        description=request.description,
        enabled=request.enabled,
        created_by=person.user_id,
        author_id=person.user_id,
        created=ports.now_ms(),
    )
    deed = audit.put(person, "profile_created", f"profile:{profile_id}", **_told(item))
    try:
        table.transact([table.Put(item), _name(item, item.name), deed])
    except ConditionFailed as e:
        raise _name_taken(item.name) from e
    _tell_machines(person.workspace_id)
    return view(item)


def update(person: Person, profile_id: str, request: UpdateProfileRequest) -> ProfileView:
    """Apply the fields that were sent. Machines learn of it with their next heartbeat; what runs there runs on.

    Raises `Forbidden`, `NotFound`, `InvalidRequest` ``protocol_family_immutable``, `Conflict` ``name_taken`` or
    ``contended``.
    """
    _refuse_member(person)
    item = _find(person.workspace_id, profile_id)
    if (request.protocol_family or item.family).strip().lower() != item.family:
        raise InvalidRequest(
            f"The protocol family of a profile does not change (it is {item.family}); make another profile.",
            code="protocol_family_immutable",
        )
    names.refuse_odd(request.display_name or "")
    _refuse_args(request.fixed_args or [])
    sent = request.model_dump(exclude_none=True, exclude={"protocol_family"})
    stored = item.attribute_values
    changes = {STORED_AS[k]: v for k, v in sent.items() if (stored.get(STORED_AS[k]) or type(v)()) != v}
    if not changes:
        return view(item)
    if any(name in changes for name in WHAT_IS_RUN):
        changes["author_id"] = person.user_id
    _write(person, item, changes)
    if changes.get("enabled") is False:
        _withdraw(person.workspace_id, profile_id)
    _tell_machines(person.workspace_id)
    return view(_find(person.workspace_id, profile_id))


def delete(person: Person, profile_id: str) -> None:
    """Delete a profile with its runtimes, unless agents are on them. Raises `Forbidden`, `NotFound`, `Conflict`
    ``runtime_has_active_agents`` (with those agents)."""
    _refuse_member(person)
    item = _find(person.workspace_id, profile_id)
    removal.close(person, _runtimes(person.workspace_id, profile_id))
    if item.enabled:
        _write(person, item, {"enabled": False})  # from here on no machine registers one
    _withdraw(person.workspace_id, profile_id)
    doomed = _runtimes(person.workspace_id, profile_id)
    removal.close(person, doomed)
    for runtime in doomed:
        removal.take_away(person, runtime)
    deed = audit.put(person, "profile_deleted", f"profile:{item.id}", **_told(item))
    gone = [table.Delete(P(item.pk, item.sk), P.name == item.name), table.Delete(_name(item, item.name).item)]
    try:
        table.transact([*gone, deed])
    except ConditionFailed as e:
        raise _contended() from e  # under its new name it stays, and its old one may be another's by now
    _tell_machines(person.workspace_id)


def _write(person: Person, item: ProfileItem, changes: dict[str, Any]) -> None:
    actions = [getattr(P, n).remove() if v in ("", []) else getattr(P, n).set(v) for n, v in changes.items()]
    same = (P.name == item.name) & (P.author_id == item.author_id)
    writes: list[table.Write] = [table.Update(P(item.pk, item.sk), actions, same)]
    if keys.folded(changes.get("name", item.name)) != keys.folded(item.name):
        writes += [_name(item, changes["name"]), table.Delete(_name(item, item.name).item)]
    told = {k: v for k, v in changes.items() if k != "description"}
    writes.append(audit.put(person, "profile_updated", f"profile:{item.id}", **told))
    try:
        table.transact(writes)
    except ConditionFailed as e:
        if 0 in e.failed:
            raise _contended() from e
        raise _name_taken(changes["name"]) from e


def _name(item: ProfileItem, name: str) -> table.Put:
    return table.Put(N(item.pk, f"RN#{keys.folded(name)}", profile_id=item.id), N.pk.does_not_exist())


def _contended() -> Conflict:
    return Conflict("Somebody changed this profile a moment ago; look again.", code="contended")


def _name_taken(name: str) -> Conflict:
    return Conflict(f"There is a runtime profile named {name!r} already; choose another name.", code="name_taken")


def _told(item: ProfileItem) -> dict[str, Any]:
    return {"name": item.name, "family": item.family, "command": item.command, "args": list(item.args or [])}


def _refuse_member(person: Person) -> None:
    if not person.is_admin:
        raise Forbidden("Only an owner or admin of the workspace writes runtime profiles.")


def _refuse_args(args: list[str]) -> None:
    """They are handed to the command as they are. A NUL cannot be, and would fail every run instead of this call."""
    if any("\x00" in arg for arg in args):
        raise InvalidRequest("An argument has no NUL.", code="invalid_fixed_args")
    size = sum(len(arg) for arg in args)
    if size > MAX_FIXED_ARGS_CHARS:
        raise InvalidRequest(
            f"The arguments have {size} characters; {MAX_FIXED_ARGS_CHARS} fit.", code="invalid_fixed_args"
        )


# ── what follows for machines ────────────────────────────────────────────────


def _runtimes(workspace_id: str, profile_id: str) -> list[RuntimeItem]:
    return [runtime for runtime in runtimes.every(workspace_id) if runtime.profile_id == profile_id]


def _withdraw(workspace_id: str, profile_id: str) -> None:
    """Nothing new is handed out under the profile; what runs, runs to its end."""
    for runtime in _runtimes(workspace_id, profile_id):
        machines.take_offline(runtime.daemon, workspace_id, {runtime.id: {"code": "profile_disabled"}})


def _tell_machines(workspace_id: str) -> None:
    """Every machine of the workspace finds another version in the answer to its next heartbeat."""
    now = ports.now_ms()
    for record in {runtime.daemon for runtime in runtimes.every(workspace_id)}:
        try:
            table.update(D(f"DM#{record}", "D"), [D.profiles_version.set(now)], D.pk.exists())
        except ConditionFailed:
            pass  # removed meanwhile
