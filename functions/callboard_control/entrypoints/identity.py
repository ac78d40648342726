"""identity: first login, people and their tokens, workspaces, who did what."""

from __future__ import annotations

from typing import Annotated, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import AwareDatetime

from callboard_control.actor import person
from callboard_control.entrypoints._http import address, as_handler, base_url, caller, guest, new_app
from callboard_control.entrypoints._pages import DEVICE, page
from callboard_control.errors import Forbidden
from callboard_control.identity import audit, departure, devices, first_login, invitations, people, tokens, workspaces
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
from callboard_wire.login import (
    DecideLogin,
    LoginToken,
    PollLogin,
    StartedLogin,
    StartLogin,
    UserCode,
    WaitingLogin,
)
from callboard_wire.people import DepartedMember

Cursor = Annotated[str | None, Query(max_length=2000)]

app = new_app()
handler = as_handler(app)


@app.post("/api/bootstrap")
def bootstrap(request: BootstrapRequest) -> TokenResponse:
    guest()
    return first_login.bootstrap(request)


@app.get("/device")
def device_page() -> Response[str]:
    return page(DEVICE)


@app.post("/api/device/code")
def start_login(request: StartLogin) -> StartedLogin:
    guest()
    return devices.start(request, address(app), base_url(app))


@app.post("/api/device/token")
def poll_login(request: PollLogin) -> LoginToken:
    return devices.poll(request.device_code)


@app.post("/api/device/lookup")
def look_at_login(request: UserCode) -> WaitingLogin:
    return devices.look(person(caller(app)), request.user_code)


@app.post("/api/device/decide")
def decide_login(request: DecideLogin) -> WaitingLogin:
    return devices.decide(person(caller(app)), request.user_code, approve=request.approve)


@app.get("/api/me")
def me() -> MeView:
    return people.me(caller(app))


@app.post("/api/tokens")
def create_token(request: CreateTokenRequest) -> TokenResponse:
    return tokens.create(person(caller(app)), request)


@app.get("/api/tokens")
def list_tokens(cursor: Cursor = None) -> Page[TokenView]:
    return tokens.list_tokens(person(caller(app)), cursor)


@app.post("/api/tokens/current/renew")
def renew_token() -> RenewedToken:
    return tokens.renew(person(caller(app)))


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
def remove_member(
    user_id: str, machines: Annotated[Literal["offline", "hand_over"], Query()] = "offline"
) -> DepartedMember:
    return departure.depart(person(caller(app)), user_id, hand_over=machines == "hand_over")


@app.post("/api/invitations")
def invite(request: CreateInvitationRequest) -> InvitationView:
    return invitations.create(person(caller(app)), request)


@app.get("/api/invitations")
def list_invitations(cursor: Cursor = None) -> Page[InvitationView]:
    return invitations.open_ones(person(caller(app)), cursor)


@app.delete("/api/invitations/<invitation_id>")
def revoke_invitation(invitation_id: str) -> dict[str, bool]:
    invitations.revoke(person(caller(app)), invitation_id)
    return {"revoked": True}


@app.post("/api/invitations/accept")
def accept_invitation(request: AcceptInvitationRequest) -> AcceptedInvitation:
    guest()
    return people.join(request, lambda: caller(app))


@app.get("/api/audit")
def list_audit(
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    action: Annotated[str | None, Query(max_length=100)] = None,
    actor: Annotated[str | None, Query(max_length=200)] = None,
    thing: Annotated[str | None, Query(max_length=200)] = None,
    since: Annotated[AwareDatetime | None, Query()] = None,
    until: Annotated[AwareDatetime | None, Query()] = None,
) -> Page[AuditEntry]:
    admin = person(caller(app))
    if not admin.is_admin:
        raise Forbidden("Only an owner or admin reads the audit log.")
    return audit.entries(admin.workspace_id, audit.Wanted(action, actor, thing, since, until), cursor, limit)


@app.delete("/api/tokens/<token_id>")
def revoke_token(token_id: str) -> dict[str, bool]:
    tokens.revoke(person(caller(app)), token_id)
    return {"revoked": True}
