"""People: those who join, and who somebody is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callboard_control import ports
from callboard_control.actor import Actor, Daemon, Person, TaskAgent, person
from callboard_control.identity import invitations
from callboard_control.identity.tokens import minted
from callboard_control.names import refuse_odd
from callboard_control.store import keys, table
from callboard_control.store.models import TokenItem, UserItem, WorkspaceItem
from callboard_control.tasks.record import at
from callboard_wire.api import AcceptedInvitation, AcceptInvitationRequest, MeView


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
        case Person():
            return view.model_copy(update=_person(actor))
        case TaskAgent(agent_id=agent_id, task_id=task_id):
            return view.model_copy(update={"actor": "agent", "agent_id": agent_id, "task_id": task_id})
        case Daemon(daemon_id=daemon_id):
            return view.model_copy(update={"actor": "daemon", "daemon_id": daemon_id})


def _person(who: Person) -> dict[str, Any]:
    user = table.get(UserItem, f"US#{who.user_id}", "U", consistent=False)
    token = table.get(TokenItem, f"TO#{who.token_id}", "T") if who.token_id else None
    return {
        "actor": "member",
        "user_id": who.user_id,
        "role": who.role,
        "name": user.name if user else "",
        "token_expires_at": at(token.expires) if token is not None else None,
    }
