"""The calls about people: who one is, logging in, tokens, members, invitations, the workspace, the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callboard_daemon.cli.asking import Asking, segment
from callboard_wire.agents import AgentEnv, PutAgentEnv
from callboard_wire.api import (
    AcceptedInvitation,
    AcceptInvitationRequest,
    AuditEntry,
    BootstrapRequest,
    ChangeRoleRequest,
    CreateInvitationRequest,
    CreateTokenRequest,
    InvitationView,
    MemberView,
    MeView,
    RenewedToken,
    TokenResponse,
    TokenView,
    UpdateWorkspaceRequest,
    WorkspaceView,
)
from callboard_wire.bodies import Body
from callboard_wire.login import DecideLogin, LoginToken, PollLogin, StartedLogin, StartLogin, UserCode, WaitingLogin
from callboard_wire.people import DepartedMember


class PeopleCalls(Asking):
    def me(self) -> MeView:
        return self._ask("GET", "/api/me", MeView)

    def bootstrap(self, body: BootstrapRequest) -> TokenResponse:
        return self._ask("POST", "/api/bootstrap", TokenResponse, body, tries=1)

    def accept_invitation(self, body: AcceptInvitationRequest) -> AcceptedInvitation:
        return self._ask("POST", "/api/invitations/accept", AcceptedInvitation, body, tries=1)

    def start_login(self, body: StartLogin) -> StartedLogin:
        return self._ask("POST", "/api/device/code", StartedLogin, body)

    def poll_login(self, device_code: str) -> LoginToken:
        """Raises `Refused` with the codes of RFC 8628 while there is no token."""
        return self._ask("POST", "/api/device/token", LoginToken, PollLogin(device_code=device_code), tries=1)

    def waiting_login(self, body: UserCode) -> WaitingLogin:
        return self._ask("POST", "/api/device/lookup", WaitingLogin, body)

    def decide_login(self, body: DecideLogin) -> WaitingLogin:
        return self._ask("POST", "/api/device/decide", WaitingLogin, body, tries=1)

    def create_token(self, body: CreateTokenRequest) -> TokenResponse:
        return self._ask("POST", "/api/tokens", TokenResponse, body, tries=1)

    def tokens(self) -> Iterator[TokenView]:
        return self._pages("/api/tokens", TokenView, {})

    def renew_token(self) -> RenewedToken:
        return self._ask("POST", "/api/tokens/current/renew", RenewedToken)

    def revoke_token(self, token_id: str) -> None:
        self._ask("DELETE", f"/api/tokens/{segment(token_id, 'token')}", Body)

    def members(self) -> Iterator[MemberView]:
        return self._pages("/api/members", MemberView, {})

    def change_role(self, user_id: str, body: ChangeRoleRequest) -> MemberView:
        return self._ask("PATCH", f"/api/members/{segment(user_id, 'member')}", MemberView, body)

    def remove_member(self, user_id: str, machines: str) -> DepartedMember:
        path = f"/api/members/{segment(user_id, 'member')}"
        return self._ask("DELETE", path, DepartedMember, query={"machines": machines}, tries=1)

    def invite(self, body: CreateInvitationRequest) -> InvitationView:
        return self._ask("POST", "/api/invitations", InvitationView, body, tries=1)

    def invitations(self) -> Iterator[InvitationView]:
        return self._pages("/api/invitations", InvitationView, {})

    def revoke_invitation(self, invitation_id: str) -> None:
        self._ask("DELETE", f"/api/invitations/{segment(invitation_id, 'invitation')}", Body, tries=1)

    def workspaces(self) -> Iterator[WorkspaceView]:
        return self._pages("/api/workspaces", WorkspaceView, {})

    def update_workspace(self, body: UpdateWorkspaceRequest) -> WorkspaceView:
        return self._ask("PATCH", "/api/workspaces/current", WorkspaceView, body, tries=1, nulls=True)

    def audit(self, **wanted: Any) -> Iterator[AuditEntry]:
        """Newest first; what is None is not asked for."""
        return self._pages("/api/audit", AuditEntry, {k: v for k, v in wanted.items() if v is not None})

    def agent_env(self, agent_id: str, *, masked: bool = False) -> AgentEnv:
        """`masked`: the names only, for which nobody has to have looked at a secret."""
        path = f"/api/agents/{segment(agent_id, 'agent')}/env"
        return self._ask("GET", path, AgentEnv, query={"masked": "true"} if masked else {})

    def put_agent_env(self, agent_id: str, body: PutAgentEnv) -> AgentEnv:
        return self._ask("PUT", f"/api/agents/{segment(agent_id, 'agent')}/env", AgentEnv, body, tries=1)
