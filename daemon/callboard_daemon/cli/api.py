"""The people's and agents' side of the API, as the command line uses it."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from callboard_daemon import version
from callboard_daemon.answers import body_of, client_options, error_from_exception, headers, httpx
from callboard_daemon.errors import ControlError, NotFound
from callboard_daemon.retry import may_pass, pause
from callboard_wire.agents import AgentView, CreateAgentRequest, ModelProfileView, PutModelProfile
from callboard_wire.api import (
    AcceptedInvitation,
    AcceptInvitationRequest,
    BootstrapRequest,
    CreateTokenRequest,
    DoctorReport,
    EnqueueRequest,
    MeView,
    Page,
    QueuedTask,
    RenewedToken,
    RerunRequest,
    RuntimeView,
    TaskView,
    TokenResponse,
    TokenView,
)
from callboard_wire.bodies import Body, TaskMessage
from callboard_wire.login import DecideLogin, LoginToken, PollLogin, StartedLogin, StartLogin, UserCode, WaitingLogin

T = TypeVar("T", bound=BaseModel)

_SEGMENT: Final = re.compile(r"(?!\.{1,2}$)[\w.~@:+,%() -]+")
"""What can be one segment of a path on its whole way: HTTP APIs decode %2F and %3F before they route, routers know no
``#``, and ``..`` is resolved before anything is sent."""
TRIES: Final = 3
"""A request that may be repeated is, twice: a server that is just restarting should not cost a command."""


class Api:
    """One server, as one person or task. Every method raises `ControlError` and nothing else."""

    def __init__(self, server: str, token: str, *, timeout: float) -> None:
        self.server = server
        self._http = httpx.Client(headers=headers(token, version(), "cli"), **client_options(server, timeout))

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

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
        self._ask("DELETE", f"/api/tokens/{_segment(token_id, 'token')}", Body)

    def create_agent(self, body: CreateAgentRequest) -> AgentView:
        return self._ask("POST", "/api/agents", AgentView, body, tries=1)

    def agents(self) -> Iterator[AgentView]:
        return self._pages("/api/agents", AgentView, {})

    def agent(self, name_or_id: str) -> AgentView:
        if _SEGMENT.fullmatch(name_or_id):
            return self._ask("GET", f"/api/agents/{_segment(name_or_id, 'agent')}", AgentView)
        wanted = name_or_id.casefold()
        for found in self.agents():
            if found.name.casefold() == wanted:
                return found
        raise _missing("agent", name_or_id)

    def model_profiles(self) -> Iterator[ModelProfileView]:
        return self._pages("/api/model-profiles", ModelProfileView, {})

    def put_model_profile(self, key: str, body: PutModelProfile) -> ModelProfileView:
        return self._ask("PUT", f"/api/model-profiles/{_segment(key, 'model profile')}", ModelProfileView, body)

    def delete_model_profile(self, key: str) -> ModelProfileView:
        path = f"/api/model-profiles/{_segment(key, 'model profile')}"
        return self._ask("DELETE", path, ModelProfileView, tries=1)

    def runtimes(self) -> Iterator[RuntimeView]:
        return self._pages("/api/runtimes", RuntimeView, {})

    def enqueue(self, body: EnqueueRequest) -> TaskView:
        """With an `idempotency_key`, which makes it safe to ask again when the answer was lost."""
        return self._ask("POST", "/api/tasks", TaskView, body, tries=TRIES if body.idempotency_key else 1)

    def tasks(self, **wanted: str) -> Iterator[TaskView]:
        return self._pages("/api/tasks", TaskView, {key: value for key, value in wanted.items() if value})

    def task(self, task_id: str) -> TaskView:
        return self._ask("GET", f"/api/tasks/{_segment(task_id, 'task')}", TaskView)

    def messages(self, task_id: str, since: int) -> Page[TaskMessage]:
        """One page of the messages after number `since`."""
        return self._ask(
            "GET", f"/api/tasks/{_segment(task_id, 'task')}/messages", Page[TaskMessage], query={"since": since}
        )

    def cancel(self, task_id: str) -> TaskView:
        return self._ask("POST", f"/api/tasks/{_segment(task_id, 'task')}/cancel", TaskView)

    def rerun(self, task_id: str) -> TaskView:
        """Under a key of its own, so that asking again after a lost answer makes no second one."""
        body = RerunRequest(idempotency_key=uuid.uuid4().hex)
        return self._ask("POST", f"/api/tasks/{_segment(task_id, 'task')}/rerun", TaskView, body)

    def queue(self, **wanted: str) -> Iterator[QueuedTask]:
        return self._pages("/api/queue", QueuedTask, wanted)

    def doctor(self) -> Iterator[DoctorReport]:
        """Page after page of the server's cross-check."""
        query: dict[str, Any] = {}
        while True:
            page = self._ask("GET", "/api/doctor", DoctorReport, query=query)
            yield page
            if not page.next_cursor:
                return
            query = {"cursor": page.next_cursor}

    def _pages(self, path: str, kind: type[T], query: dict[str, Any]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            page = self._ask("GET", path, Page[kind], query={**query, **({"cursor": cursor} if cursor else {})})  # type: ignore[valid-type]  # built at run time, as pydantic wants it
            yield from page.items
            cursor = page.next_cursor
            if not cursor:
                return

    def _ask(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: Body | None = None,
        *,
        query: dict[str, Any] | None = None,
        tries: int = TRIES,
    ) -> T:
        for attempt in range(1, tries + 1):
            try:
                return self._once(method, path, answer, body, query)
            except ControlError as error:
                if attempt == tries or not may_pass(error):
                    raise
                time.sleep(min(pause(attempt, error), 5.0))
        raise AssertionError("the loop returns or raises")

    def _once(self, method: str, path: str, answer: type[T], body: Body | None, query: dict[str, Any] | None) -> T:
        sent = {"Content-Type": "application/json"} if body is not None else {}
        content = body.model_dump_json(exclude_none=True) if body is not None else None
        asked = {key: str(value).encode("utf-8", "replace").decode() for key, value in (query or {}).items()}
        try:
            response = self._http.request(method, path, content=content, headers=sent, params=asked)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise error_from_exception(error, self.server) from error
        return body_of(response, answer)


def _segment(text: str, thing: str) -> str:
    """A name or id as one path segment. Raises `NotFound` for what cannot be one: another thing would be asked for."""
    from urllib.parse import quote

    if not _SEGMENT.fullmatch(text):
        raise _missing(thing, text)
    return quote(text, safe="")


def _missing(thing: str, text: str) -> NotFound:
    return NotFound(f"There is no {thing} {text!r} here.", status=404, code=f"{thing}_not_found")
