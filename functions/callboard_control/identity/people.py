"""People, their workspace and their tokens."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from callboard_control import ports
from callboard_control.actor import Actor, Daemon, Person, TaskAgent, person
from callboard_control.errors import Conflict, Forbidden, NotFound
from callboard_control.identity import audit, workspaces
from callboard_control.identity.workspaces import member_item
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import SystemItem, TokenItem, UserItem, WorkspaceItem
from callboard_control.tasks.record import at
from callboard_wire.api import (
    AcceptedInvitation,
    AcceptInvitationRequest,
    BootstrapRequest,
    CreateTokenRequest,
    MeView,
    Page,
    RenewedToken,
    TokenResponse,
    TokenView,
)

DAY_MS = 24 * 3600 * 1000
RENEW_WITHIN_MS = 7 * DAY_MS
RENEWED_FOR_MS = 90 * DAY_MS


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
    now = ports.now_ms()
    user_id, workspace_id = keys.new_id(), keys.new_id()
    token_id, token, item = _mint(user_id, workspace_id, "first login", None)
    try:
        table.transact(
            [
                table.Put(SystemItem("SYS", "BOOTSTRAP", created=now), SystemItem.pk.does_not_exist()),
                table.Put(UserItem(f"US#{user_id}", "U", name=request.name, created=now)),
                table.Put(WorkspaceItem(keys.workspace(workspace_id), "W", name=request.workspace, created=now)),
                table.Put(member_item(user_id, workspace_id, "owner", now)),
                table.Put(item),
            ]
        )
    except ConditionFailed as e:
        raise Conflict("Somebody logged in a moment ago.", code="already_bootstrapped") from e
    return TokenResponse(id=token_id, token=token, user_id=user_id, workspace_id=workspace_id)


def _mint(user_id: str, workspace_id: str, name: str, expires: int | None) -> tuple[str, str, TokenItem]:
    token_id = keys.new_id()
    token, digest = keys.mint(keys.PERSON, token_id)
    item = TokenItem(f"TO#{token_id}", "T", user_id=user_id, workspace_id=workspace_id, name=name, digest=digest)
    item.created, item.expires = ports.now_ms(), expires
    item.gpk, item.gsk = f"US#{user_id}#TO", token_id
    return token_id, token, item


def create_token(person: Person, request: CreateTokenRequest) -> TokenResponse:
    """A further token for the same person and workspace. Shown once."""
    expires = ports.now_ms() + request.expires_in_days * DAY_MS if request.expires_in_days else None
    token_id, token, item = _mint(person.user_id, person.workspace_id, request.name, expires)
    made = audit.put(person, "token_created", f"token:{token_id}", name=request.name)
    table.transact([table.Put(item, TokenItem.pk.does_not_exist()), made])
    return TokenResponse(
        id=token_id, token=token, user_id=person.user_id, workspace_id=person.workspace_id, expires_at=at(expires)
    )


def renew_token(person: Person) -> RenewedToken:
    """Extend the caller's own token in place when a week or less is left; earlier, and without an end, nothing changes.
    Several programs share one login, so the secret stays."""
    item = table.get(TokenItem, f"TO#{person.token_id}", "T")
    now = ports.now_ms()
    if item is None or item.expires is None or int(item.expires) - now > RENEW_WITHIN_MS:
        return RenewedToken(renewed=False, expires_at=at(item.expires) if item is not None else None)
    expires = now + RENEWED_FOR_MS
    table.update(TokenItem(item.pk, "T"), [TokenItem.expires.set(expires)], TokenItem.revoked.does_not_exist())
    return RenewedToken(renewed=True, expires_at=at(expires))


def list_tokens(person: Person, cursor: str | None) -> Page[TokenView]:
    page = table.rows(TokenItem.list_index, f"US#{person.user_id}#TO", limit=50, cursor=cursor, forward=False)
    items = sorted(table.get_many(TokenItem, [(row.pk, "T") for row in page.items]), key=lambda t: t.pk, reverse=True)
    views = [
        TokenView(
            id=t.pk.removeprefix("TO#"),
            name=t.name,
            created_at=at(t.created),
            expires_at=at(t.expires),
            last_used_at=at(t.last_used),
            revoked=t.revoked is not None,
        )
        for t in items
    ]
    return Page[TokenView](items=views, next_cursor=page.cursor)


def revoke_token(person: Person, token_id: str) -> None:
    """Make a token of this person useless at once. Revoking twice is fine; another person's token is not found."""
    if table.get(TokenItem, f"TO#{token_id}", "T") is None:
        raise NotFound.of("token", token_id)
    mine = TokenItem.user_id == person.user_id
    revoked = table.Update(TokenItem(f"TO#{token_id}", "T"), [TokenItem.revoked.set(ports.now_ms())], mine)
    try:
        table.transact([revoked, audit.put(person, "token_revoked", f"token:{token_id}")])
    except ConditionFailed as e:
        raise NotFound.of("token", token_id) from e


def join(request: AcceptInvitationRequest, caller: Callable[[], Actor]) -> AcceptedInvitation:
    """Accept an invitation as a new person (with a `name`), or as whoever is calling."""
    if request.name is None:
        return workspaces.accept(person(caller()).user_id, request.code)
    user_id = keys.new_id()
    tokens: list[str] = []

    def with_login(workspace_id: str) -> list[table.Write]:
        _, token, item = _mint(user_id, workspace_id, "invitation", None)
        tokens.append(token)
        user = UserItem(f"US#{user_id}", "U", name=request.name, created=ports.now_ms())
        return [table.Put(user), table.Put(item)]

    joined = workspaces.accept(user_id, request.code, with_login)
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
