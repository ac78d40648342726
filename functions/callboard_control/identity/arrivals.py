"""The first time somebody signs in they become a person here, with a workspace of their own."""

from __future__ import annotations

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.errors import NotFound
from callboard_control.identity import audit
from callboard_control.identity.authenticate import membership
from callboard_control.identity.signin import SignedIn
from callboard_control.identity.workspaces import member_item
from callboard_control.names import plain
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import UserItem, WorkspaceItem, new


def arrive(who: SignedIn, workspace_id: str | None) -> Person:
    """The person behind a sign-in, in `workspace_id` or else in their own workspace, which the first time makes.

    A person is the issuer's subject and nothing else. An e-mail address decides nothing, verified or not: addresses are
    given to others when people leave, and whoever is given one would become them.
    Raises `NotFound` for a workspace they are not in.
    """
    user_id = keys.derived_id("person", who.issuer, who.subject)
    home = keys.derived_id("home", user_id)
    try:
        return membership(user_id, workspace_id or home)
    except NotFound:
        if workspace_id not in (None, "", home):
            raise
    _make(who, user_id, home)
    return membership(user_id, home)


def _make(who: SignedIn, user_id: str, home: str) -> None:
    """All or nothing, and only once: somebody who was taken out of their own workspace does not come back by signing
    in again."""
    now = ports.now_ms()
    name = plain(who.name)[:100].strip() or "somebody"
    user = new(UserItem, pk=f"US#{user_id}", sk="U", name=name, email=who.email, created=now)
    workspace = WorkspaceItem(keys.workspace(home), "W", name="home", created=now)
    made = audit.put(Person(user_id, home, "owner"), "person_signed_in_first", f"member:{user_id}", issuer=who.issuer)
    writes = [
        table.Put(user, UserItem.pk.does_not_exist()),
        table.Put(workspace),
        table.Put(member_item(user_id, home, "owner", now)),
        made,
    ]
    try:
        table.transact(writes)
    except ConditionFailed:
        pass  # made a moment ago by another call, or long ago: whether they are a member is asked next
