"""A small world on a running control plane, through its public HTTP API: a person, a machine, an agent, tasks."""

from __future__ import annotations

import copy
import uuid
from typing import Any, Self

import httpx


class World:
    """One workspace with one daemon, one runtime and one agent. Answers are the JSON bodies; a refusal raises."""

    def __init__(
        self,
        url: str,
        secret: str,
        *,
        provider: str = "echo",
        max_concurrent_tasks: int = 50,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.http = httpx.Client(base_url=url, timeout=40, transport=transport)
        if secret.startswith("mul_"):  # somebody has logged in already: their token
            self.person = secret
        else:
            first = {"secret": secret.strip(), "name": "Ann", "workspace": "home"}
            self.person = str(self.call("POST", "/api/bootstrap", "", first)["token"])
        self.workspace_id: str = self.call("GET", "/api/me", self.person)["workspace_id"]
        self.provider, self.max_concurrent_tasks = provider, max_concurrent_tasks
        self.join("scout")

    def join(self, agent: str) -> None:
        """Register another machine, with an agent called `agent` on it: it is this world's from now on."""
        self.daemon_id = f"daemon-{uuid.uuid4()}"
        runtime = {"name": self.provider, "type": self.provider}
        machine = {"daemon_id": self.daemon_id, "device_name": "box", "runtimes": [runtime]}
        registered = self.call("POST", "/api/daemon/register", self.person, machine)
        self.daemon: str = registered["daemon_token"]
        self.runtime_id: str = registered["runtimes"][0]["id"]
        wanted = {"name": agent, "runtime_id": self.runtime_id, "max_concurrent_tasks": self.max_concurrent_tasks}
        self.agent_id: str = self.call("POST", "/api/agents", self.person, wanted)["id"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def again(self, http: Any) -> World:
        """The same world through `http`, a client of its own, for another thread."""
        other = copy.copy(self)
        other.http = http
        return other

    def call(self, method: str, path: str, token: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        answer = self.http.request(method, path, headers=headers, json=body)
        if answer.is_error:
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text}")
        return dict(answer.json()) if answer.content else {}

    def enqueue(self, prompt: str = "say hello", **more: Any) -> dict[str, Any]:
        return self.call("POST", "/api/tasks", self.person, {"agent": self.agent_id, "prompt": prompt, **more})

    def claim(self, wait: float = 0, max_tasks: int = 1) -> list[dict[str, Any]]:
        body = {"runtime_ids": [self.runtime_id], "max_tasks": max_tasks, "wait": wait, "claim_id": str(uuid.uuid4())}
        return list(self.call("POST", "/api/daemon/tasks/claim", self.daemon, body)["tasks"])

    def about(self, task: dict[str, Any], what: str, **body: Any) -> dict[str, Any]:
        """A daemon's write about a task it holds: ``about(task, "start", work_dir="/w")``."""
        proof = {"claim_id": task["claim_id"], "fence": task["fence"]}
        return self.call("POST", f"/api/daemon/tasks/{task['id']}/{what}", self.daemon, proof | body)

    def live(self, prompt: str = "say hello") -> dict[str, Any]:
        """One task's whole life; its last view."""
        made = self.enqueue(prompt)
        [task] = self.claim()
        assert task["id"] == made["id"]
        self.about(task, "start", work_dir="/w")
        self.about(task, "messages", messages=[{"seq": 1, "type": "text", "content": "hello"}])
        usage = {"provider": "echo", "model": "echo", "input_tokens": 7, "output_tokens": 5}
        self.about(task, "usage", usage=[usage])
        self.about(task, "complete", output="hello", session_id="s-1")
        return self.call("GET", f"/api/tasks/{made['id']}", self.person)
