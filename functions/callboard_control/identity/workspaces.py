"""Workspaces, the people in them and their roles: owner > admin > member."""

from __future__ import annotations

from typing import Any, Final

from pynamodb.expressions.condition import Condition

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.errors import Conflict, Forbidden, InvalidRequest, NotFound
from callboard_control.identity import audit
from callboard_control.names import refuse_odd
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import MemberItem, UserItem, WorkspaceItem
from callboard_control.tasks.record import at
from callboard_wire.api import (
    CreateWorkspaceRequest,
    MemberView,
    Page,
    UpdateWorkspaceRequest,
    WorkspaceView,
)

M, W = MemberItem, WorkspaceItem
FLAGS: Final = frozenset({"always_redact_env"})
"""Settings that are true or false."""
RANK = {"member": 0, "admin": 1, "owner": 2}


def member_item(user_id: str, workspace_id: str, role: str, now: int) -> MemberItem:
    member = MemberItem(keys.workspace(workspace_id), f"ME#{user_id}")
    member.user_id, member.workspace_id, member.role, member.created = user_id, workspace_id, role, now
    member.gpk, member.gsk = f"US#{user_id}", keys.workspace(workspace_id)
    return member


def create(person: Person, request: CreateWorkspaceRequest) -> WorkspaceView:
    """A new workspace with the caller as its owner."""
    refuse_odd(request.name)
    now, workspace_id = ports.now_ms(), keys.new_id()
    item = W(keys.workspace(workspace_id), "W", name=request.name, created=now)
    owner = Person(person.user_id, workspace_id, "owner", person.token_id)
    deed = audit.put(owner, "workspace_created", f"workspace:{workspace_id}", name=request.name)
    table.transact([table.Put(item), table.Put(member_item(person.user_id, workspace_id, "owner", now)), deed])
    return _view(item, "owner")


def mine(person: Person, cursor: str | None) -> Page[WorkspaceView]:
    """The workspaces the caller is a member of."""
    page = table.rows(M.list_index, f"US#{person.user_id}", limit=50, cursor=cursor)
    members = {m.workspace_id: m for m in table.get_many(M, [(row.pk, row.sk) for row in page.items])}
    found = table.get_many(W, [(keys.workspace(ws), "W") for ws in members])
    views = [_view(w, members[w.pk.removeprefix("WS#")].role) for w in sorted(found, key=lambda w: w.pk)]
    return Page[WorkspaceView](items=views, next_cursor=page.cursor)


def update(person: Person, request: UpdateWorkspaceRequest) -> WorkspaceView:
    """Change the caller's current workspace; absent fields stay. Of the settings, those that are absent stay as well,
    and null takes one away. Raises `Forbidden`, `InvalidRequest`, `TooLarge`, `Conflict` ``contended``."""
    refuse_no_admin(person)
    refuse_odd(request.name)
    changes = request.model_dump(exclude_unset=True)
    if not changes:
        return _view(_found(person), person.role)
    before = _found(person)
    unchanged: Condition = W.pk.exists()
    if "settings" in changes:
        changes["settings"] = _merged(before.settings or {}, changes["settings"])
        unchanged = W.settings.does_not_exist() if before.settings is None else W.settings == before.settings
    table.refuse_oversized(W(**(before.attribute_values | changes)), "The workspace")
    actions = [
        getattr(W, name).set(value) if value not in (None, "", [], {}) else getattr(W, name).remove()
        for name, value in changes.items()
    ]
    deed = audit.put(person, "workspace_updated", f"workspace:{person.workspace_id}", fields=sorted(changes))
    try:
        table.transact([table.Update(W(before.pk, "W"), actions, unchanged), deed])
    except ConditionFailed as e:
        raise Conflict("Somebody changed the settings a moment ago; look again.", code="contended") from e
    return _view(_found(person), person.role)


def _merged(before: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    for name in FLAGS & sent.keys():
        if not isinstance(sent[name], bool | None):
            raise InvalidRequest(f"The setting {name} is true or false.", code="invalid_setting", setting=name)
    return {name: value for name, value in (before | sent).items() if value is not None}


def _found(person: Person) -> WorkspaceItem:
    found = table.get(W, keys.workspace(person.workspace_id), "W")
    if found is None:
        raise NotFound.of("workspace", person.workspace_id)
    return found


def _view(item: WorkspaceItem, role: str) -> WorkspaceView:
    return WorkspaceView(
        id=item.pk.removeprefix("WS#"),
        name=item.name,
        context=item.context or "",
        repos=item.repos or [],
        settings=item.settings or {},
        role=role,
        created_at=at(item.created),
    )


# ── members ──────────────────────────────────────────────────────────────────


def members(person: Person, cursor: str | None) -> Page[MemberView]:
    page = table.rows(M, keys.workspace(person.workspace_id), M.sk.startswith("ME#"), limit=50, cursor=cursor)
    users = {u.pk: u for u in table.get_many(UserItem, [(f"US#{m.user_id}", "U") for m in page.items])}
    views = [
        MemberView(user_id=m.user_id, name=_name(users.get(f"US#{m.user_id}")), role=m.role, since=at(m.created))
        for m in page.items
    ]
    return Page[MemberView](items=views, next_cursor=page.cursor)


def _name(user: UserItem | None) -> str:
    return user.name if user is not None else ""


def change_role(person: Person, user_id: str, role: str) -> MemberView:
    """Give a member another role. Admins change members and admins; owners everybody; the last owner stays one."""
    refuse_no_admin(person)
    member = find_member(person, user_id)
    if person.role != "owner" and "owner" in (member.role, role):
        raise Forbidden("Only an owner makes or unmakes owners.")
    writes: list[table.Write] = [table.Update(keyed(person, user_id), [M.role.set(role)], M.role == member.role)]
    if member.role == "owner" and role != "owner":
        # As a part of the same transaction: two owners who step down at once would each have seen the other.
        writes.append(table.Check(keyed(person, another_owner(person, user_id)), M.role == "owner"))
    deed = audit.put(person, "role_changed", f"member:{user_id}", before=member.role, after=role)
    try:
        table.transact([*writes, deed])
    except ConditionFailed as e:
        raise Conflict("Somebody changed this member's role a moment ago; look again.", code="contended") from e
    return MemberView(user_id=user_id, role=role, since=at(member.created))


def keyed(person: Person, user_id: str) -> MemberItem:
    """A member of the caller's workspace, by keys only."""
    return M(keys.workspace(person.workspace_id), f"ME#{user_id}")


def find_member(person: Person, user_id: str) -> MemberItem:
    """Raises `NotFound`."""
    found = table.get(M, keys.workspace(person.workspace_id), f"ME#{user_id}")
    if found is None:
        raise NotFound.of("member", user_id)
    return found


def another_owner(person: Person, user_id: str) -> str:
    """The id of an owner other than `user_id`. Raises `Conflict` ``last_owner``."""
    for other in table.every(M, keys.workspace(person.workspace_id), M.sk.startswith("ME#"), page=100, consistent=True):
        if other.role == "owner" and other.user_id != user_id:
            return str(other.user_id)
    raise Conflict("A workspace keeps one owner; make somebody else an owner first.", code="last_owner")


def refuse_no_admin(person: Person) -> None:
    """Raises `Forbidden` for a member without more rights."""
    if not person.is_admin:
        raise Forbidden("This needs the role owner or admin.")
