"""identity: first login, people and their tokens, workspaces, who did what."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from callboard_control.actor import person
from callboard_control.entrypoints._http import as_handler, caller, new_app
from callboard_control.errors import Forbidden
from callboard_control.identity import audit, people, workspaces
from callboard_wire.api import (
    AcceptedInvitation,
    AcceptInvitationRequest,
    AuditEntry,
    BootstrapRequest,
    ChangeRoleRequest,
    CreateInvitationRequest,
    CreateTokenRequest,
    CreateWorkspaceRequest,
    InvitationView,
    MemberView,
    MeView,
    Page,
    RenewedToken,
    TokenResponse,
    TokenView,
    UpdateWorkspaceRequest,
    WorkspaceView,
)

Cursor = Annotated[str | None, Query(max_length=2000)]

app = new_app()
handler = as_handler(app)


@app.post("/api/bootstrap")
def bootstrap(request: BootstrapRequest) -> TokenResponse:
    return people.bootstrap(request)


@app.get("/api/me")
def me() -> MeView:
    return people.me(caller(app))


@app.post("/api/tokens")
def create_token(request: CreateTokenRequest) -> TokenResponse:
    return people.create_token(person(caller(app)), request)


@app.get("/api/tokens")
def list_tokens(cursor: Cursor = None) -> Page[TokenView]:
    return people.list_tokens(person(caller(app)), cursor)


@app.post("/api/tokens/current/renew")
def renew_token() -> RenewedToken:
    return people.renew_token(person(caller(app)))


@app.get("/api/workspaces")
def list_workspaces(cursor: Cursor = None) -> Page[WorkspaceView]:
    return workspaces.mine(person(caller(app)), cursor)


@app.post("/api/workspaces")
def create_workspace(request: CreateWorkspaceRequest) -> WorkspaceView:
    return workspaces.create(person(caller(app)), request)


@app.patch("/api/workspaces/current")
def update_workspace(request: UpdateWorkspaceRequest) -> WorkspaceView:
    return workspaces.update(person(caller(app)), request)


@app.get("/api/members")
def list_members(cursor: Cursor = None) -> Page[MemberView]:
    return workspaces.members(person(caller(app)), cursor)


@app.patch("/api/members/<user_id>")
def change_role(user_id: str, request: ChangeRoleRequest) -> MemberView:
    return workspaces.change_role(person(caller(app)), user_id, request.role)


@app.delete("/api/members/<user_id>")
def remove_member(user_id: str) -> dict[str, bool]:
    workspaces.remove(person(caller(app)), user_id)
    return {"removed": True}


@app.post("/api/invitations")
def invite(request: CreateInvitationRequest) -> InvitationView:
    return workspaces.invite(person(caller(app)), request)


@app.post("/api/invitations/accept")
def accept_invitation(request: AcceptInvitationRequest) -> AcceptedInvitation:
    return people.join(request, lambda: caller(app))


@app.get("/api/audit")
def list_audit(cursor: Cursor = None, limit: Annotated[int, Query(ge=1, le=100)] = 50) -> Page[AuditEntry]:
    admin = person(caller(app))
    if not admin.is_admin:
        raise Forbidden("Only an owner or admin reads the audit log.")
    return audit.entries(admin.workspace_id, cursor, limit)


@app.delete("/api/tokens/<token_id>")
def revoke_token(token_id: str) -> dict[str, bool]:
    people.revoke_token(person(caller(app)), token_id)
    return {"revoked": True}
