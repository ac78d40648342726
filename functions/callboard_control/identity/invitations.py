"""Invitations: links that let people into a workspace, a week long, for so many uses."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from typing import Final

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.errors import Forbidden, NotFound
from callboard_control.identity import audit
from callboard_control.identity.workspaces import member_item, refuse_no_admin
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import InvitationItem, MemberItem
from callboard_control.tasks.record import at
from callboard_wire.api import AcceptedInvitation, CreateInvitationRequest, InvitationView, Page

M, N = MemberItem, InvitationItem
INVITED_FOR_MS: Final = 7 * 24 * 3600 * 1000
PREFIX: Final = "inv"


def create(person: Person, request: CreateInvitationRequest) -> InvitationView:
    """A new link. Its code is shown once and says which item it is good for; the table keeps its digest."""
    refuse_no_admin(person)
    if request.role == "admin" and person.role != "owner":
        raise Forbidden("Only an owner invites admins.")
    now = ports.now_ms()
    code, digest = _code(invitation_id := keys.new_id())
    item = N(f"IN#{invitation_id}", "I", workspace_id=person.workspace_id, role=request.role, digest=digest)
    item.uses_left, item.expires, item.created = request.max_uses, now + INVITED_FOR_MS, now
    item.created_by, item.ttl = person.user_id, (now + INVITED_FOR_MS) // 1000
    item.gpk, item.gsk = _listed(person.workspace_id), invitation_id
    deed = audit.put(person, "invitation_made", f"invitation:{invitation_id}", role=request.role, uses=request.max_uses)
    table.transact([table.Put(item), deed])
    return _view(item).model_copy(update={"code": code})


def _code(invitation_id: str) -> tuple[str, bytes]:
    code = f"{PREFIX}_{invitation_id}_{secrets.token_hex(20)}"
    return code, keys.digest(code)


def _listed(workspace_id: str) -> str:
    return f"{keys.workspace(workspace_id)}#IN"


def _view(item: InvitationItem) -> InvitationView:
    return InvitationView(
        id=item.pk.removeprefix("IN#"),
        role=item.role,
        uses_left=int(item.uses_left),
        expires_at=at(item.expires),
        created_by=item.created_by,
        created_at=at(item.created),
    )


def open_ones(person: Person, cursor: str | None) -> Page[InvitationView]:
    """The links that still let somebody in; what they are is not shown again."""
    refuse_no_admin(person)
    page = table.rows(N.list_index, _listed(person.workspace_id), limit=50, cursor=cursor, forward=False)
    found = sorted(table.get_many(N, [(row.pk, "I") for row in page.items]), key=lambda i: i.pk, reverse=True)
    views = [_view(item) for item in found if _is_open(item, ports.now_ms())]
    return Page[InvitationView](items=views, next_cursor=page.cursor)


def _is_open(item: InvitationItem, now: int) -> bool:
    return int(item.uses_left) > 0 and int(item.expires) > now


def revoke(person: Person, invitation_id: str) -> None:
    """From here on the link lets nobody in; who came by it stays. Raises `NotFound`, the second time too."""
    refuse_no_admin(person)
    ours = N.workspace_id == person.workspace_id
    deed = audit.put(person, "invitation_revoked", f"invitation:{invitation_id}")
    if table.get(N, f"IN#{invitation_id}", "I") is None:
        raise NotFound.of("invitation", invitation_id)
    try:
        table.transact([table.Delete(N(f"IN#{invitation_id}", "I"), ours), deed])
    except ConditionFailed as e:
        raise NotFound.of("invitation", invitation_id) from e


def revoke_all_of(workspace_id: str, user_id: str) -> None:
    """The links somebody made while they belonged here. Doing it twice changes nothing."""
    cursor = None
    while True:
        page = table.rows(N.list_index, _listed(workspace_id), limit=100, cursor=cursor)
        for item in table.get_many(N, [(row.pk, "I") for row in page.items]):
            if item.created_by == user_id:
                table.delete(N(item.pk, "I"))
        cursor = page.cursor
        if cursor is None:
            return


def accept(
    user_id: str, code: str, also: Callable[[str], list[table.Write]] = lambda workspace_id: []
) -> AcceptedInvitation:
    """Join by a link, and with it do `also` (told the workspace's id): all or nothing, or a use would be gone, nobody
    in. Joining twice is fine and uses nothing. Raises `NotFound` for a link that is used up, revoked or over."""
    item = _by_code(code)
    now = ports.now_ms()
    if item is None or int(item.expires) <= now:
        raise _lets_nobody_in()
    joined = AcceptedInvitation(workspace_id=item.workspace_id, role=item.role)
    if table.get(M, keys.workspace(item.workspace_id), f"ME#{user_id}") is not None:
        return joined
    if item.created_by == user_id:
        raise NotFound.of("invitation", "")  # who has left does not come back by a link of their own
    newcomer = Person(user_id, item.workspace_id, item.role)
    writes: list[table.Write] = [
        table.Update(N(item.pk, "I"), [N.uses_left.add(-1)], N.uses_left > 0),
        table.Put(member_item(user_id, item.workspace_id, item.role, now), M.pk.does_not_exist()),
        audit.put(newcomer, "member_joined", f"member:{user_id}", role=item.role, invited_by=item.created_by),
        # Whoever leaves takes their links with them, those too that the index did not show in that moment.
        table.Check(M(keys.workspace(item.workspace_id), f"ME#{item.created_by}"), M.pk.exists()),
        *also(item.workspace_id),
    ]
    try:
        table.transact(writes)
    except ConditionFailed as e:
        if 1 not in e.failed:
            raise _lets_nobody_in() from e
    return joined


def _lets_nobody_in() -> NotFound:
    """One sentence whatever was wrong, so that guessing learns nothing, and without the code."""
    why = "it was mistyped, used up, revoked, or is older than a week"
    return NotFound(f"This invitation lets nobody in: {why}. Ask for another.", code="invitation_not_found")


def _by_code(code: str) -> InvitationItem | None:
    parts = code.strip().split("_")
    if len(parts) != 3 or parts[0] != PREFIX:
        return None
    item = table.get(N, f"IN#{parts[1]}", "I")
    return item if item is not None and hmac.compare_digest(item.digest, keys.digest(code.strip())) else None
