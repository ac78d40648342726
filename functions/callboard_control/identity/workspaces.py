"""Workspaces, the people in them and their roles: owner > admin > member."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.errors import Conflict, Forbidden, NotFound
from callboard_control.fleet import machines
from callboard_control.identity import audit
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import InvitationItem, MemberItem, UserItem, WorkspaceItem
from callboard_control.tasks.record import at
from callboard_wire.api import (
    AcceptedInvitation,
    CreateInvitationRequest,
    CreateWorkspaceRequest,
    InvitationView,
    MemberView,
    Page,
    UpdateWorkspaceRequest,
    WorkspaceView,
)

M, W, I = MemberItem, WorkspaceItem, InvitationItem  # noqa: E741  # the invitation, beside M and W
INVITED_FOR_MS = 7 * 24 * 3600 * 1000
RANK = {"member": 0, "admin": 1, "owner": 2}


def member_item(user_id: str, workspace_id: str, role: str, now: int) -> MemberItem:
    member = MemberItem(keys.workspace(workspace_id), f"ME#{user_id}")
    member.user_id, member.workspace_id, member.role, member.created = user_id, workspace_id, role, now
    member.gpk, member.gsk = f"US#{user_id}", keys.workspace(workspace_id)
    return member


def create(person: Person, request: CreateWorkspaceRequest) -> WorkspaceView:
    """A new workspace with the caller as its owner."""
    now, workspace_id = ports.now_ms(), keys.new_id()
    item = W(keys.workspace(workspace_id), "W", name=request.name, created=now)
    table.transact([table.Put(item), table.Put(member_item(person.user_id, workspace_id, "owner", now))])
    return _view(item, "owner")


def mine(person: Person, cursor: str | None) -> Page[WorkspaceView]:
    """The workspaces the caller is a member of."""
    page = table.rows(M.list_index, f"US#{person.user_id}", limit=50, cursor=cursor)
    members = {m.workspace_id: m for m in table.get_many(M, [(row.pk, row.sk) for row in page.items])}
    found = table.get_many(W, [(keys.workspace(ws), "W") for ws in members])
    views = [_view(w, members[w.pk.removeprefix("WS#")].role) for w in sorted(found, key=lambda w: w.pk)]
    return Page[WorkspaceView](items=views, next_cursor=page.cursor)


def update(person: Person, request: UpdateWorkspaceRequest) -> WorkspaceView:
    """Change the caller's current workspace; absent fields stay."""
    _admin(person)
    changes = request.model_dump(exclude_unset=True)
    actions = []
    for name, value in changes.items():
        attribute = getattr(W, name)
        actions.append(attribute.set(value) if value not in (None, "", [], {}) else attribute.remove())
    item = W(keys.workspace(person.workspace_id), "W")
    if actions:
        table.refuse_oversized(W(**(_found(person).attribute_values | changes)), "The workspace")
        table.transact(
            [
                table.Update(item, actions, W.pk.exists()),
                audit.put(person, "workspace_updated", f"workspace:{person.workspace_id}", fields=sorted(changes)),
            ]
        )
    return _view(_found(person), person.role)


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
    _admin(person)
    member = _member(person, user_id)
    if person.role != "owner" and "owner" in (member.role, role):
        raise Forbidden("Only an owner makes or unmakes owners.")
    writes: list[table.Write] = [table.Update(_keyed(person, user_id), [M.role.set(role)], M.role == member.role)]
    if member.role == "owner" and role != "owner":
        writes.append(_another_owner(person, user_id))
    deed = audit.put(person, "role_changed", f"member:{user_id}", before=member.role, after=role)
    try:
        table.transact([*writes, deed])
    except ConditionFailed as e:
        raise Conflict("Somebody changed this member's role a moment ago; look again.", code="contended") from e
    return MemberView(user_id=user_id, role=role, since=at(member.created))


def remove(person: Person, user_id: str) -> None:
    """Take a member out, or leave (one's own id). Their tokens no longer reach this workspace from the next call on,
    because every call reads the membership; their machines' tokens die before that, so that a call cut off between the
    two can be repeated."""
    member = _member(person, user_id)
    if user_id != person.user_id:
        _admin(person)
        if RANK[member.role] > RANK[person.role]:
            raise Forbidden("An admin cannot remove an owner.")
    staying = [_another_owner(person, user_id)] if member.role == "owner" else []
    machines.retire(person.workspace_id, user_id)
    action = "member_left" if user_id == person.user_id else "member_removed"
    deed = audit.put(person, action, f"member:{user_id}", role=member.role)
    try:
        table.transact([table.Delete(_keyed(person, user_id), M.role == member.role), *staying, deed])
    except ConditionFailed as e:
        raise Conflict("The members changed a moment ago; look again.", code="contended") from e


def _keyed(person: Person, user_id: str) -> MemberItem:
    return M(keys.workspace(person.workspace_id), f"ME#{user_id}")


def _member(person: Person, user_id: str) -> MemberItem:
    found = table.get(M, keys.workspace(person.workspace_id), f"ME#{user_id}")
    if found is None:
        raise NotFound.of("member", user_id)
    return found


def _another_owner(person: Person, user_id: str) -> table.Check:
    """That somebody else is an owner, as a part of the deed's own transaction: two owners who leave at once would each
    have seen the other. Raises `Conflict` ``last_owner``."""
    cursor = None
    while True:
        page = table.rows(
            M, keys.workspace(person.workspace_id), M.sk.startswith("ME#"), limit=100, cursor=cursor, consistent=True
        )
        for other in page.items:
            if other.role == "owner" and other.user_id != user_id:
                return table.Check(_keyed(person, other.user_id), M.role == "owner")
        cursor = page.cursor
        if cursor is None:
            raise Conflict("A workspace keeps one owner; make somebody else an owner first.", code="last_owner")


def _admin(person: Person) -> None:
    if not person.is_admin:
        raise Forbidden("This needs the role owner or admin.")


# ── invitations ──────────────────────────────────────────────────────────────


def invite(person: Person, request: CreateInvitationRequest) -> InvitationView:
    """A link that lets people join, a week long and for so many uses. Shown once; the table keeps its digest."""
    _admin(person)
    if request.role == "admin" and person.role != "owner":
        raise Forbidden("Only an owner invites admins.")
    now = ports.now_ms()
    code = secrets.token_urlsafe(24)
    item = I(_invitation_key(code), "I", workspace_id=person.workspace_id, role=request.role)
    item.uses_left, item.expires, item.created = request.max_uses, now + INVITED_FOR_MS, now
    item.ttl = (now + INVITED_FOR_MS) // 1000
    table.transact([table.Put(item), audit.put(person, "invitation_made", f"role:{request.role}")])
    return InvitationView(code=code, role=request.role, uses_left=request.max_uses, expires_at=at(item.expires))


def accept(
    person_user_id: str, code: str, also: Callable[[str], list[table.Write]] = lambda workspace_id: []
) -> AcceptedInvitation:
    """Join by a link, and with it do `also` (told the workspace's id): all or nothing, or a use would be gone, nobody
    in. Joining twice is fine and uses nothing. Raises `NotFound` for a link that is used up or over."""
    item = table.get(I, _invitation_key(code), "I")
    now = ports.now_ms()
    if item is None or int(item.expires) <= now:
        raise NotFound.of("invitation", "")
    joined = AcceptedInvitation(workspace_id=item.workspace_id, role=item.role)
    if table.get(M, keys.workspace(item.workspace_id), f"ME#{person_user_id}") is not None:
        return joined
    writes: list[table.Write] = [
        table.Update(I(item.pk, "I"), [I.uses_left.add(-1)], I.uses_left > 0),
        table.Put(member_item(person_user_id, item.workspace_id, item.role, now), M.pk.does_not_exist()),
        *also(item.workspace_id),
    ]
    try:
        table.transact(writes)
    except ConditionFailed as e:
        if 1 not in e.failed:
            raise NotFound.of("invitation", "") from e
    return joined


def _invitation_key(code: str) -> str:
    return f"IN#{keys.digest(code).hex()}"
