"""A control plane for daemon tests: real HTTP on loopback, the wire's own models, and the rules a daemon can run into.

It keeps: tokens, runtimes, one fence a claim, `claim_id` replay, the state guards, messages without gaps, terminal
states that do not change. It misbehaves on demand (`faults`): no answer, an answer lost after its effect, an outage.
"""

from __future__ import annotations

import json
import re
import select
import socket
import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from callboard_wire import bodies
from callboard_wire.api import Page
from callboard_wire.runtimes import ProfileView
from callboard_wire.skills import ResolvedSkills, ResolveSkills, SkillBody
from callboard_wire.states import TaskStatus

PERSON_TOKEN = "mul_person_0123456789abcdef0123456789"
WORKSPACE = "ws-1"


class Whoami(bodies.Body):
    workspace_id: str = WORKSPACE


class Fault(StrEnum):
    NO_ANSWER = "no_answer"  # the connection breaks before anything happened
    ANSWER_LOST = "answer_lost"  # … after it happened
    UNAVAILABLE = "unavailable"  # 503


class Refusal(Exception):
    def __init__(self, status: int, code: str, **details: Any) -> None:
        super().__init__(code)
        self.status, self.code, self.details = status, code, details


@dataclass
class FakeTask:
    id: str
    provider: str
    prompt: str
    agent: dict[str, Any]
    extra: dict[str, Any]
    status: TaskStatus = TaskStatus.QUEUED
    runtime_id: str = ""
    fence: int = 0
    claim_id: str = ""
    messages: list[bodies.TaskMessage] = field(default_factory=list)
    usage: list[bodies.UsageRow] = field(default_factory=list)
    session_id: str = ""
    work_dir: str = ""
    ending: dict[str, Any] = field(default_factory=dict)
    acknowledged: dict[str, Any] | None = None
    history: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(m.content for m in self.messages if m.type == "text")


class ControlPlane:
    """The state. Every access is under `changed`; `wait_for` waits for the daemon to bring something about."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.tasks: dict[str, FakeTask] = {}
        self.runtimes: dict[str, str] = {}  # id → provider
        self.versions: dict[str, str] = {}
        self.online: set[str] = set()
        self.tokens = {PERSON_TOKEN: "person"}
        self.calls: list[str] = []
        self.faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self.recovered: list[tuple[str, list[str]]] = []
        self.skills: dict[str, SkillBody] = {}
        self.profiles: list[ProfileView] = []
        self.profiles_version = 0
        self.failed_profiles: dict[str, str] = {}
        self.claimed_for: list[tuple[str, list[str]]] = []
        self.asked_skills: list[str] = []
        self.down = False
        self.closing = False
        self.url = ""

    # what a test does ----------------------------------------------------------

    def enqueue(self, prompt: str, *, provider: str = "echo", agent: dict[str, Any] | None = None, **extra: Any) -> str:
        with self.changed:
            task_id = str(uuid.uuid4())
            spec = {"id": "agent-1", "name": "scout", **(agent or {})}
            self.tasks[task_id] = FakeTask(task_id, provider, prompt, spec, extra)
            self.changed.notify_all()
        return task_id

    def profile(self, profile_id: str, command: str, **fields: Any) -> None:
        """Make or change a runtime profile that this machine's owner wrote."""
        values = {"display_name": profile_id, "protocol_family": "claude", "trusted": True, **fields}
        made = ProfileView(
            id=profile_id, workspace_id=WORKSPACE, command_name=command, created_at=datetime.now(UTC), **values
        )
        with self.changed:
            self.profiles = [*(p for p in self.profiles if p.id != profile_id), made]
            self.profiles_version += 1

    def cancel(self, task_id: str) -> None:
        with self.changed:
            self._end(self.tasks[task_id], TaskStatus.CANCELLED, {})

    def give_up(self, task_id: str) -> None:
        """The sweeper believes that the machine is gone."""
        with self.changed:
            self._end(self.tasks[task_id], TaskStatus.FAILED, {"failure_reason": "runtime_offline"})

    def give_to_another(self, task_id: str) -> None:
        """Somebody else claims the task anew: the old fence is stale from here on."""
        with self.changed:
            self.tasks[task_id].fence += 1
            self.tasks[task_id].claim_id = "another"

    def fail_next(self, route: str, *faults: Fault) -> None:
        with self.changed:
            self.faults[route].extend(faults)

    def wait_for(self, condition: Callable[[], bool], timeout: float = 20.0) -> None:
        with self.changed:
            if not self.changed.wait_for(condition, timeout):
                raise AssertionError(f"did not happen within {timeout} s; calls: {self.calls[-30:]}")

    def wait_ended(self, task_id: str, timeout: float = 20.0) -> FakeTask:
        self.wait_for(lambda: self.tasks[task_id].status.terminal, timeout)
        return self.tasks[task_id]

    def count(self, call: str) -> int:
        with self.changed:
            return self.calls.count(call)

    # the daemon's side -----------------------------------------------------------

    def register(self, token: str, body: bodies.RegisterRequest) -> bodies.RegisterResponse:
        answer = bodies.RegisterResponse(workspace_id=WORKSPACE, runtimes=[], profiles_version=self.profiles_version)
        enabled = {p.id for p in self.profiles if p.enabled}
        if any(offer.profile_id and offer.profile_id not in enabled for offer in body.runtimes):
            raise Refusal(409, "runtime_profile_disabled")
        self.failed_profiles = {failed.profile_id: failed.reason for failed in body.failed_profiles}
        if self.tokens[token] == "person":
            answer.daemon_token = f"mdt_{body.daemon_id}_{uuid.uuid4().hex}"
            self.tokens[answer.daemon_token] = body.daemon_id
        for offer in body.runtimes:
            runtime = f"rt-{body.daemon_id[:8]}-{offer.profile_id or offer.type}"
            self.runtimes[runtime] = offer.type
            self.versions[offer.type] = offer.version
            self.online.add(runtime)
            answer.runtimes.append(
                bodies.RegisteredRuntime(
                    id=runtime, name=offer.name, provider=offer.type, status="online", profile_id=offer.profile_id
                )
            )
        return answer

    def heartbeat(self, body: bodies.HeartbeatRequest) -> bodies.HeartbeatResponse:
        gone = [r for r in body.runtime_ids if r not in self.runtimes]
        return bodies.HeartbeatResponse(
            gone_runtime_ids=gone, next_heartbeat_s=1.0, profiles_version=self.profiles_version
        )

    def deregister(self, body: bodies.DeregisterRequest) -> bodies.Body:
        self.online -= set(body.runtime_ids)
        return bodies.Body()

    def claim(self, body: bodies.ClaimRequest, hung_up: Callable[[], bool]) -> bodies.ClaimResponse:
        self.claimed_for.append((body.claim_id or "", body.runtime_ids))
        end = time.monotonic() + min(body.wait, 20.0)
        while True:
            if hung_up():  # a dead caller must not be given anything
                return bodies.ClaimResponse()
            held = [t for t in self.tasks.values() if t.status == TaskStatus.DISPATCHED]
            taken = [t for t in held if t.claim_id == body.claim_id] or self._take(body)
            left = end - time.monotonic()
            if taken or left <= 0 or self.closing or self.down:
                return bodies.ClaimResponse(tasks=[self._payload(t) for t in taken])
            self.changed.wait(min(left, 0.5))

    def _take(self, body: bodies.ClaimRequest) -> list[FakeTask]:
        taken: list[FakeTask] = []
        for task in self.tasks.values():
            runtime = next((r for r in body.runtime_ids if self.runtimes.get(r) == task.provider), None)
            if task.status == TaskStatus.QUEUED and runtime and len(taken) < body.max_tasks:
                task.status, task.runtime_id, task.claim_id = TaskStatus.DISPATCHED, runtime, body.claim_id or ""
                task.fence += 1
                task.history.append("claim")
                taken.append(task)
        return taken

    def _payload(self, task: FakeTask) -> bodies.ClaimedTask:
        given = {
            "id": task.id,
            "agent_id": task.agent["id"],
            "runtime_id": task.runtime_id,
            "workspace_id": WORKSPACE,
            "created_at": datetime.now(UTC),
            "claim_id": task.claim_id,
            "fence": task.fence,
            "provider": task.provider,
            "prompt": task.prompt,
            "agent": task.agent,
            "auth_token": f"mat_{task.id}_{uuid.uuid4().hex}",
        }
        return bodies.ClaimedTask.model_validate(given | task.extra)

    def start(self, task: FakeTask, body: bodies.StartRequest) -> None:
        if task.status == TaskStatus.DISPATCHED:
            task.status, task.work_dir = TaskStatus.RUNNING, body.work_dir
            task.history.append("start")

    def messages(self, task: FakeTask, body: bodies.MessagesRequest) -> None:
        for message in body.messages:
            last = task.messages[-1].seq if task.messages else 0
            if message.seq > last + 1:
                raise Refusal(409, "sequence_gap", expected_seq=last + 1)
            if message.seq == last + 1:
                task.messages.append(message)

    def usage(self, task: FakeTask, body: bodies.UsageRequest) -> None:
        if not task.status.terminal or task.status == TaskStatus.CANCELLED:
            task.history.append("usage")
        task.usage = body.usage

    def session(self, task: FakeTask, body: bodies.SessionRequest) -> None:
        task.session_id = body.session_id
        task.history.append("session")

    def complete(self, task: FakeTask, body: bodies.CompleteRequest) -> None:
        if not task.status.terminal:
            if task.status != TaskStatus.RUNNING:
                raise Refusal(409, "wrong_state")
            self._end(task, TaskStatus.COMPLETED, body.model_dump())

    def fail(self, task: FakeTask, body: bodies.FailRequest) -> None:
        if not task.status.terminal:
            self._end(task, TaskStatus.FAILED, body.model_dump())

    def cancel_ack(self, task: FakeTask, body: bodies.CancelAckRequest) -> None:
        if not task.status.terminal:
            raise Refusal(409, "wrong_state")
        task.acknowledged = body.model_dump()

    def resolve(self, task_id: str, body: ResolveSkills) -> ResolvedSkills:
        if self.tasks[task_id].fence != body.fence:
            raise Refusal(409, "stale_claim")
        self.asked_skills += [ref.id for ref in body.refs]
        known = [self.skills[ref.id] for ref in body.refs if ref.id in self.skills]
        if not known:
            raise Refusal(404, "skill_not_found")
        return ResolvedSkills(bundles=known[:1])

    def recover_orphans(self, runtime: str, body: bodies.RecoverOrphansRequest) -> bodies.RecoverOrphansResponse:
        self.recovered.append((runtime, body.keep))
        answer = bodies.RecoverOrphansResponse()
        for task in self.tasks.values():
            if task.runtime_id == runtime and task.status.held and task.id not in body.keep:
                task.status, task.claim_id = TaskStatus.QUEUED, ""
                task.history.append("recovered")
                answer.orphaned += 1
        return answer

    def _end(self, task: FakeTask, status: TaskStatus, body: dict[str, Any]) -> None:
        task.status, task.ending = status, body
        task.history.append(status.value)
        self.changed.notify_all()

    # routing -----------------------------------------------------------------------

    def serve(
        self, token: str, path: str, raw: bytes, hung_up: Callable[[], bool]
    ) -> tuple[str, Callable[[], bodies.Body]]:
        """The route's name and what to do. Raises `Refusal`."""
        if token not in self.tokens:
            raise Refusal(401, "unauthenticated")
        data = json.loads(raw or b"{}")
        plain = {
            "register": lambda: self.register(token, bodies.RegisterRequest.model_validate(data)),
            "heartbeat": lambda: self.heartbeat(bodies.HeartbeatRequest.model_validate(data)),
            "deregister": lambda: self.deregister(bodies.DeregisterRequest.model_validate(data)),
            "tasks/claim": lambda: self.claim(bodies.ClaimRequest.model_validate(data), hung_up),
            "/api/me": Whoami,
            f"workspaces/{WORKSPACE}/runtime-profiles": lambda: Page[ProfileView](
                items=[p for p in self.profiles if p.enabled]
            ),
        }
        name = path.removeprefix("/api/daemon/")
        if name in plain:
            return name.removeprefix("tasks/").rpartition("/")[2], plain[name]
        if found := re.fullmatch(r"runtimes/([^/]+)/recover-orphans", name):
            recover = bodies.RecoverOrphansRequest.model_validate(data)
            return "recover-orphans", lambda: self.recover_orphans(found[1], recover)
        if found := re.fullmatch(r"runtimes/[^/]+/tasks/([^/]+)/skill-bundles/resolve", name):
            return "resolve", lambda: self.resolve(found[1], ResolveSkills.model_validate(data))
        if found := re.fullmatch(r"(?:runtimes/[^/]+/)?tasks/([^/]+)/([a-z-]+)", name):
            return found[2], lambda: self._about_task(found[1], found[2], data)
        raise Refusal(404, "route_not_found")

    def _about_task(self, task_id: str, verb: str, data: dict[str, Any]) -> bodies.TaskState:
        task = self.tasks.get(task_id)
        if task is None:
            raise Refusal(404, "task_not_found")
        for key in ("claim_id", "fence"):
            if data.get(key) is not None and data[key] != getattr(task, key):
                raise Refusal(409, "stale_claim")
        kinds: dict[str, tuple[type[bodies.Body], Callable[[FakeTask, Any], None]]] = {
            "start": (bodies.StartRequest, self.start),
            "messages": (bodies.MessagesRequest, self.messages),
            "usage": (bodies.UsageRequest, self.usage),
            "session": (bodies.SessionRequest, self.session),
            "complete": (bodies.CompleteRequest, self.complete),
            "fail": (bodies.FailRequest, self.fail),
            "cancel-ack": (bodies.CancelAckRequest, self.cancel_ack),
        }
        task.calls.append(verb)
        if verb in kinds:
            model, act = kinds[verb]
            act(task, model.model_validate(data))
        elif verb not in ("status", "prepare-lease"):
            raise Refusal(404, "route_not_found")
        last = task.messages[-1].seq if verb == "messages" and task.messages else 0
        return bodies.TaskState(status=task.status, stop=task.status.terminal, last_seq=last)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    plane: ControlPlane

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _answer(self, raw: bytes) -> None:
        plane = self.plane
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        with plane.changed:
            try:
                name, act = plane.serve(token, self.path, raw, self._hung_up)
                fault = plane.faults[name].popleft() if plane.faults[name] else None
                if plane.down or fault is Fault.NO_ANSWER:
                    self.close_connection = True
                    return
                if fault is Fault.UNAVAILABLE:
                    raise Refusal(503, "unavailable")
                plane.calls.append(name)
                status, body = 200, act().model_dump_json()
                if plane.down or fault is Fault.ANSWER_LOST:
                    self.close_connection = True
                    return
            except Refusal as refusal:
                status = refusal.status
                error = bodies.ErrorBody(error=refusal.code, message=refusal.code, details=refusal.details)
                body = error.model_dump_json()
            finally:
                plane.changed.notify_all()
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _hung_up(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            pass  # the daemon was killed in the middle of a request: that is what these tests do

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def control_plane() -> Iterator[ControlPlane]:
    """A running fake on a free port."""
    plane = ControlPlane()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"plane": plane}))
    server.daemon_threads = True
    plane.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield plane
    finally:
        with plane.changed:
            plane.closing = True
            plane.changed.notify_all()
        server.shutdown()
        thread.join()
        server.server_close()
