"""People: the first one, those who join, and who somebody is."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from callboard_control import ports
from callboard_control.actor import Actor, Daemon, Person, TaskAgent, person
from callboard_control.errors import Conflict, Forbidden
from callboard_control.identity import invitations
from callboard_control.identity.tokens import minted
from callboard_control.identity.workspaces import member_item
from callboard_control.names import refuse_odd
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import SystemItem, UserItem, WorkspaceItem
from callboard_wire.api import (
    AcceptedInvitation,
    AcceptInvitationRequest,
    BootstrapRequest,
    MeView,
    TokenResponse,
)


def bootstrap(request: BootstrapRequest) -> TokenResponse:
    """Make the first person with a workspace and a token. Works once, for whoever can read the server's own secret.

    Raises `Forbidden` ``bootstrap_refused`` (wrong secret, or none may be made over HTTP here), `Conflict`
    ``already_bootstrapped``.
    """
    secret = ports.current().bootstrap_secret()
    if table.get(SystemItem, "SYS", "BOOTSTRAP") is not None:
        raise Conflict(
            "Somebody has logged in here already: log in with a token (`callboard token create` where you are logged "
            "in), or ask them for an invitation.",
            code="already_bootstrapped",
        )
    if secret is None or not hmac.compare_digest(secret.encode(), request.secret.strip().encode()):
        raise Forbidden("The bootstrap secret is wrong; it is in the server's data folder.", code="bootstrap_refused")
    refuse_odd(request.name)
    refuse_odd(request.workspace)
    now = ports.now_ms()
    user_id, workspace_id = keys.new_id(), keys.new_id()
    made = minted(user_id, workspace_id, "first login")
    try:
        table.transact(
            [
                table.Put(SystemItem("SYS", "BOOTSTRAP", created=now), SystemItem.pk.does_not_exist()),
                table.Put(UserItem(f"US#{user_id}", "U", name=request.name, created=now)),
                table.Put(WorkspaceItem(keys.workspace(workspace_id), "W", name=request.workspace, created=now)),
                table.Put(member_item(user_id, workspace_id, "owner", now)),
                table.Put(made.item),
            ]
        )
    except ConditionFailed as e:
        raise Conflict("Somebody logged in a moment ago.", code="already_bootstrapped") from e
    return TokenResponse(id=made.id, token=made.token, user_id=user_id, workspace_id=workspace_id)


def join(request: AcceptInvitationRequest, caller: Callable[[], Actor]) -> AcceptedInvitation:
    """Accept an invitation as a new person (with a `name`), or as whoever is calling."""
    if request.name is None:
        return invitations.accept(person(caller()).user_id, request.code)
    refuse_odd(request.name)
    user_id = keys.new_id()
    tokens: list[str] = []

    def with_login(workspace_id: str) -> list[table.Write]:
        made = minted(user_id, workspace_id, "invitation")
        tokens.append(made.token)
        user = UserItem(f"US#{user_id}", "U", name=request.name, created=ports.now_ms())
        return [table.Put(user), table.Put(made.item)]

    joined = invitations.accept(user_id, request.code, with_login)
    return joined.model_copy(update={"token": tokens[0], "user_id": user_id})


def me(actor: Actor) -> MeView:
    """Who the token says the caller is."""
    workspace = table.get(WorkspaceItem, keys.workspace(actor.workspace_id), "W", consistent=False)
    view = MeView(actor="", workspace_id=actor.workspace_id, workspace_name=workspace.name if workspace else "")
    match actor:
        case Person(user_id=user_id, role=role):
            user = table.get(UserItem, f"US#{user_id}", "U", consistent=False)
            found = {"actor": "member", "user_id": user_id, "role": role, "name": user.name if user else ""}
        case TaskAgent(agent_id=agent_id, task_id=task_id):
            found = {"actor": "agent", "agent_id": agent_id, "task_id": task_id}
        case Daemon(daemon_id=daemon_id):
            found = {"actor": "daemon", "daemon_id": daemon_id}
    return view.model_copy(update=found)
