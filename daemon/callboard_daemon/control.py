"""The daemon's side of the control plane: one method a route, each taking and giving bodies of the wire."""

from __future__ import annotations

from types import TracebackType
from typing import Final, TypeVar

from pydantic import BaseModel

from callboard_daemon.answers import body_of, client_options, error_from_exception, headers, httpx
from callboard_wire.bodies import (
    CAPABILITIES_HEADER,
    SKILL_BUNDLES,
    Body,
    CancelAckRequest,
    ClaimRequest,
    ClaimResponse,
    CompleteRequest,
    DeregisterRequest,
    FailRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    MessagesRequest,
    PrepareLeaseRequest,
    RecoverOrphansRequest,
    RecoverOrphansResponse,
    RegisterRequest,
    RegisterResponse,
    SessionRequest,
    StartRequest,
    TaskState,
    UsageRequest,
)
from callboard_wire.runtimes import ProfileView
from callboard_wire.skills import ResolvedSkills, ResolveSkills

T = TypeVar("T", bound=BaseModel)

CLAIM_GRACE_S: Final = 10.0
"""Longer than the server holds a claim: its answer still has to travel."""
SHORT_S: Final = 10.0
DEREGISTER_S: Final = 5.0


class _Me(Body):
    workspace_id: str


class _Profiles(Body):
    items: list[ProfileView]


class Control:
    """One connection pool to one server. Every method raises `ControlError` and nothing else.

    `token` may be replaced at any time; the next request uses it.
    """

    def __init__(self, server_url: str, *, token: str, version: str, timeout: float) -> None:
        self.server_url = server_url
        self.token = token
        self._version = version
        self._timeout = timeout
        # One held claim, one beat, and a few requests of each run; the pool must never be what they wait for.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=25.0)
        self._http = httpx.AsyncClient(limits=limits, **client_options(server_url, timeout))

    async def __aenter__(self) -> Control:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def workspace(self) -> str:
        """The id of the workspace that the token is for."""
        return (await self._ask("GET", "/api/me", None, _Me, timeout=SHORT_S)).workspace_id

    async def runtime_profiles(self, workspace: str) -> list[ProfileView]:
        path = f"/api/daemon/workspaces/{workspace}/runtime-profiles"
        return (await self._ask("GET", path, None, _Profiles, timeout=SHORT_S)).items

    async def register(self, body: RegisterRequest) -> RegisterResponse:
        return await self._post("register", body, RegisterResponse)

    async def heartbeat(self, body: HeartbeatRequest) -> HeartbeatResponse:
        return await self._post("heartbeat", body, HeartbeatResponse, timeout=SHORT_S)

    async def deregister(self, body: DeregisterRequest) -> None:
        await self._post("deregister", body, Body, timeout=DEREGISTER_S)

    async def claim(self, body: ClaimRequest) -> ClaimResponse:
        return await self._post("tasks/claim", body, ClaimResponse, timeout=body.wait + CLAIM_GRACE_S)

    async def resolve_skills(self, runtime: str, task: str, body: ResolveSkills, *, timeout: float) -> ResolvedSkills:
        path = f"runtimes/{runtime}/tasks/{task}/skill-bundles/resolve"
        return await self._post(path, body, ResolvedSkills, timeout=timeout)

    async def prepare_lease(self, runtime: str, task: str, body: PrepareLeaseRequest) -> TaskState:
        return await self._post(f"runtimes/{runtime}/tasks/{task}/prepare-lease", body, TaskState, timeout=SHORT_S)

    async def recover_orphans(self, runtime: str, body: RecoverOrphansRequest) -> RecoverOrphansResponse:
        return await self._post(f"runtimes/{runtime}/recover-orphans", body, RecoverOrphansResponse)

    async def start(self, task: str, body: StartRequest) -> TaskState:
        return await self._post(f"tasks/{task}/start", body, TaskState)

    async def messages(self, task: str, body: MessagesRequest) -> TaskState:
        return await self._post(f"tasks/{task}/messages", body, TaskState)

    async def usage(self, task: str, body: UsageRequest) -> TaskState:
        return await self._post(f"tasks/{task}/usage", body, TaskState)

    async def session(self, task: str, body: SessionRequest) -> TaskState:
        return await self._post(f"tasks/{task}/session", body, TaskState)

    async def status(self, task: str) -> TaskState:
        return await self._ask("GET", f"/api/daemon/tasks/{task}/status", None, TaskState, timeout=SHORT_S)

    async def complete(self, task: str, body: CompleteRequest) -> TaskState:
        return await self._post(f"tasks/{task}/complete", body, TaskState)

    async def fail(self, task: str, body: FailRequest) -> TaskState:
        return await self._post(f"tasks/{task}/fail", body, TaskState)

    async def cancel_ack(self, task: str, body: CancelAckRequest) -> TaskState:
        return await self._post(f"tasks/{task}/cancel-ack", body, TaskState)

    async def _post(self, path: str, body: Body, answer: type[T], *, timeout: float | None = None) -> T:
        return await self._ask("POST", f"/api/daemon/{path}", body, answer, timeout=timeout)

    async def _ask(self, method: str, path: str, body: Body | None, answer: type[T], *, timeout: float | None) -> T:
        sent = headers(self.token, self._version, "daemon") | {CAPABILITIES_HEADER: SKILL_BUNDLES}
        try:
            response = await self._http.request(
                method,
                path,
                content=body.model_dump_json(exclude_none=True) if body is not None else None,
                headers=sent | ({"Content-Type": "application/json"} if body is not None else {}),
                timeout=timeout if timeout is not None else self._timeout or None,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise error_from_exception(error, self.server_url) from error
        return body_of(response, answer)
