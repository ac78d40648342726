"""The control plane without a network: the real handlers on the embedded engine, called with true HTTP-API events.

Nothing in it is faked but the clock, and that only on demand.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

os.environ.setdefault("AWS_ACCESS_KEY_ID", "local")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "local")
os.environ.setdefault("AWS_REGION", "us-east-1")
os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
os.environ.setdefault("POWERTOOLS_METRICS_DISABLED", "true")
os.environ.setdefault("POWERTOOLS_LOG_LEVEL", "CRITICAL")
# A clock that stands still never ends a window, so a long day would be over some limit. Tests of the limits set theirs.
os.environ.setdefault("CALLBOARD_RATE_TOKEN", "0")
os.environ.setdefault("CALLBOARD_RATE_ADDRESS", "0")
os.environ.setdefault("CALLBOARD_RATE_LOGIN", "0")

from callboard_control import entrypoints, ports
from callboard_control.embedded.engine import Engine, attach_connection
from callboard_control.store import table
from callboard_wire.bodies import build_all
from tests.fakes.http_events import http_event

SECRET = "the server's own secret"
START_MS = 1_800_000_000_000


class Clock:
    """Time that stands still until it is told to go on. Milliseconds; called, it answers like `ports.now_ms`."""

    def __init__(self, ms: int = START_MS) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms

    def seconds(self) -> float:
        return self.ms / 1000

    def forward(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any

    def __getitem__(self, name: str) -> Any:
        return self.body[name]

    @property
    def error(self) -> str:
        return str(self.body.get("error", "")) if isinstance(self.body, dict) else ""


class _Context:
    aws_request_id = "test-request"
    function_name = "callboard"
    memory_limit_in_mb = 256
    invoked_function_arn = "arn:aws:lambda:local:000000000000:function:callboard"

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        return 28_000


def _routes() -> list[tuple[str, re.Pattern[str], Callable[..., dict[str, Any]]]]:
    found = []
    for name in entrypoints.HTTP:
        module = entrypoints.load(name)
        for method, path in sorted(module.app.declared()):
            pattern = re.compile(re.sub(r"\\?[{<]\w+\\?[}>]", "[^/]+", re.escape(path)) + "$")
            found.append((method, pattern, module.handler))
    return found


class World:
    """A workspace with one person (`token`), ready to be called. `engine` is closed by `close`."""

    def __init__(
        self,
        path: str | Path = ":memory:",
        *,
        clock: Clock | None = None,
        faults: Any = None,
        doorbell: Any = None,
        secrets: Any = None,
        bootstrap: bool = True,
    ) -> None:
        self.clock = clock
        self._path, self._faults = path, faults
        self._routes = _routes()
        build_all()
        options: dict[str, Any] = {"bootstrap_secret": lambda: SECRET}
        if clock is not None:
            options["clock"] = clock
        if secrets is not None:
            options["secrets"] = secrets
        if doorbell is not None:
            options["doorbell"] = doorbell
        ports.use(ports.Ports(**options))
        self.open()
        self.token = ""
        if bootstrap:
            self.me = self.ok("POST", "/api/bootstrap", {"secret": SECRET, "name": "Ann"})
            self.token = self.me["token"]
            self.workspace_id = self.me["workspace_id"]

    def open(self) -> None:
        """Open the engine (again, after a crash): everything answered for is still there.

        With the path ``"aws"`` there is none: the store speaks HTTP to whatever DynamoDB the environment names.
        """
        if self._path == "aws":
            table.ensure()
            return
        clock = {"clock": self.clock.seconds} if self.clock is not None else {}
        self.engine = Engine(self._path, faults=self._faults, **clock)
        attach_connection(self.engine, table.connection() if self._faults is None else table.reconnect())
        table.ensure()

    def close(self) -> None:
        if self._path != "aws":
            self.engine.close()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str | None = None,
        *,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Call the API as whoever `token` is (None: the person of this world; "": nobody)."""
        answer = self.raw(method, path, body, token, query=query, headers=headers)
        sent = answer.get("body")
        if sent and "json" not in str(answer.get("headers", {}).get("Content-Type", "json")):
            return Answer(answer["statusCode"], sent)
        return Answer(answer["statusCode"], json.loads(sent) if sent else None)

    def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str | None = None,
        *,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        address: str = "127.0.0.1",
    ) -> dict[str, Any]:
        """As `call`, from `address`: the handler's own answer, with its headers."""
        sent = dict(headers or {})
        token = self.token if token is None else token
        if token:
            sent["authorization"] = f"Bearer {token}"
        text = body if isinstance(body, str) else json.dumps(body) if body is not None else None
        asked = "&".join(f"{k}={quote(str(v))}" for k, v in (query or {}).items())
        event = http_event(method, path, headers=sent, body=text, query=asked)
        event["requestContext"]["http"]["sourceIp"] = address
        handler = next((h for m, p, h in self._routes if m == method and p.match(path)), self._routes[0][2])
        return handler(event, _Context())

    def ok(self, method: str, path: str, body: Any = None, token: str | None = None, **more: Any) -> Any:
        answer = self.call(method, path, body, token, **more)
        assert answer.status < 300, f"{method} {path}: {answer}"
        return answer.body

    # ── what most tests start from ───────────────────────────────────────────

    def machine(
        self, daemon_id: str = "laptop", provider: str = "echo", token: str | None = None, *, public: bool = False
    ) -> Machine:
        """A registered daemon with one runtime, for its owner's agents or (`public`) for everybody's."""
        body = {"daemon_id": daemon_id, "device_name": daemon_id, "runtimes": [{"name": provider, "type": provider}]}
        registered = self.ok("POST", "/api/daemon/register", body, token)
        machine = Machine(self, daemon_id, registered["daemon_token"], registered["runtimes"][0]["id"])
        if public:
            self.ok("PATCH", f"/api/runtimes/{machine.runtime_id}", {"visibility": "public"}, token)
        return machine

    def agent(self, name: str = "ada", machine: Machine | None = None, **fields: Any) -> Any:
        runtime = {"runtime_id": machine.runtime_id} if machine else {}
        return self.ok("POST", "/api/agents", {"name": name, **runtime, **fields})

    def enqueue(self, agent: str = "ada", prompt: str = "do it", **fields: Any) -> Any:
        return self.ok("POST", "/api/tasks", {"agent": agent, "prompt": prompt, **fields})

    def task(self, task_id: str) -> Any:
        return self.ok("GET", f"/api/tasks/{task_id}")

    def tick(self) -> dict[str, Any]:
        answer: dict[str, Any] = entrypoints.load("tick").handler({}, _Context())
        return answer


@dataclass
class Machine:
    """A daemon as the control plane sees it: what it holds and what it says."""

    world: World
    daemon_id: str
    token: str
    runtime_id: str

    def claim(self, n: int = 1, claim_id: str | None = None, **fields: Any) -> list[Held]:
        body = {"daemon_id": self.daemon_id, "runtime_ids": [self.runtime_id], "max_tasks": n, **fields}
        if claim_id is not None:
            body["claim_id"] = claim_id
        answer = self.world.ok("POST", "/api/daemon/tasks/claim", body, self.token)
        return [Held(self, task) for task in answer["tasks"]]

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        return self.world.call(method, path, body, self.token)


@dataclass
class Held:
    """A claimed task, with the proof of the claim."""

    machine: Machine
    payload: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.payload["id"])

    @property
    def proof(self) -> dict[str, Any]:
        return {"claim_id": self.payload["claim_id"], "fence": self.payload["fence"]}

    def say(self, verb: str, **fields: Any) -> Answer:
        return self.machine.call("POST", f"/api/daemon/tasks/{self.id}/{verb}", {**self.proof, **fields})

    def renew(self) -> Answer:
        path = f"/api/daemon/runtimes/{self.machine.runtime_id}/tasks/{self.id}/prepare-lease"
        return self.machine.call("POST", path, self.proof)
