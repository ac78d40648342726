"""The first login of all, and the way back in when every login is lost: for who can read the server's own secret."""

from __future__ import annotations

import hmac

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.errors import Conflict, Forbidden
from callboard_control.identity import audit
from callboard_control.identity.tokens import minted
from callboard_control.identity.workspaces import member_item
from callboard_control.names import refuse_odd
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import MemberItem, SystemItem, UserItem, WorkspaceItem
from callboard_wire.api import BootstrapRequest, TokenResponse

M, S = MemberItem, SystemItem
FIRST = ("SYS", "BOOTSTRAP")


def bootstrap(request: BootstrapRequest) -> TokenResponse:
    """Make the first person with a workspace and a token. A secret works once. A new one, which only the owner of the
    server's folder can have put there, lets the first person back in, as the owner of the first workspace.

    Raises `Forbidden` ``bootstrap_refused`` (wrong secret, or nobody logs in so over HTTP here), `Conflict`
    ``already_bootstrapped``.
    """
    secret = ports.current().bootstrap_secret()
    first = table.get(S, *FIRST)
    if first is not None and (secret is None or is_used(first, secret)):
        raise Conflict(
            "Somebody has logged in here already: log in with a token (`callboard token create` where you are logged "
            "in), or ask them for an invitation. On the server's own machine `callboard up --new-secret` opens a way "
            "back in.",
            code="already_bootstrapped",
        )
    if secret is None or not hmac.compare_digest(secret.encode(), request.secret.strip().encode()):
        raise Forbidden("The bootstrap secret is wrong; it is in the server's data folder.", code="bootstrap_refused")
    answer = _first(request, secret) if first is None else _back_in(first, secret)
    ports.current().forget_bootstrap_secret()
    return answer


def is_used(first: SystemItem, secret: str) -> bool:
    """Whether `secret` has let somebody in. What was made before secrets were remembered counts as made by it."""
    return first.digest is None or hmac.compare_digest(first.digest, keys.digest(secret))


def _first(request: BootstrapRequest, secret: str) -> TokenResponse:
    refuse_odd(request.name)
    refuse_odd(request.workspace)
    now = ports.now_ms()
    user_id, workspace_id = keys.new_id(), keys.new_id()
    made = minted(user_id, workspace_id, "first login")
    first = S(*FIRST, created=now, value=f"{user_id} {workspace_id}", digest=keys.digest(secret))
    owner = Person(user_id, workspace_id, "owner", made.id)
    try:
        table.transact(
            [
                table.Put(first, S.pk.does_not_exist()),
                table.Put(UserItem(f"US#{user_id}", "U", name=request.name, created=now)),
                table.Put(WorkspaceItem(keys.workspace(workspace_id), "W", name=request.workspace, created=now)),
                table.Put(member_item(user_id, workspace_id, "owner", now)),
                table.Put(made.item),
                audit.put(owner, "workspace_created", f"workspace:{workspace_id}", name=request.workspace),
            ]
        )
    except ConditionFailed as e:
        raise _too_late() from e
    return TokenResponse(id=made.id, token=made.token, user_id=user_id, workspace_id=workspace_id)


def _back_in(first: SystemItem, secret: str) -> TokenResponse:
    """A new token for the first person, who is an owner of the first workspace again, whatever became of them."""
    user_id, workspace_id = first.value.split(" ")
    made = minted(user_id, workspace_id, "way back in")
    now = ports.now_ms()
    again = member_item(user_id, workspace_id, "owner", now)
    owner = [
        M.role.set("owner"),
        M.user_id.set(user_id),
        M.workspace_id.set(workspace_id),
        M.created.set(M.created | now),
        M.gpk.set(again.gpk),
        M.gsk.set(again.gsk),
    ]
    deed = audit.put(Person(user_id, workspace_id, "owner", made.id), "login_recovered", f"member:{user_id}")
    try:
        table.transact(
            [
                table.Update(S(*FIRST), [S.digest.set(keys.digest(secret))], S.digest == first.digest),
                table.Update(M(again.pk, again.sk), owner),
                table.Put(made.item),
                deed,
            ]
        )
    except ConditionFailed as e:
        raise _too_late() from e
    return TokenResponse(id=made.id, token=made.token, user_id=user_id, workspace_id=workspace_id)


def _too_late() -> Conflict:
    return Conflict("Somebody logged in a moment ago.", code="already_bootstrapped")
