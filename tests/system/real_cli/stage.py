"""The whole path on one machine, as real processes: a gateway, a daemon, and a person's token to talk to them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from callboard_wire.api import Page, RuntimeView, TaskView
from callboard_wire.bodies import TaskMessage
from callboard_wire.states import TaskStatus
from tests.system.real_cli.worlds import World

READY_WITHIN = 30.0  # seconds
STOPS_WITHIN = 40.0  # above the daemon's own drain timeout
POLL = 0.1
BOOTSTRAP_SECRET = "bootstrap.secret"
ENDED = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)


@dataclass(frozen=True)
class Stage:
    """A running control plane and daemon, seen by a logged-in person. `agent` runs on the stage's one provider."""

    api: httpx.Client
    world: World
    agent: str

    def enqueue(self, prompt: str, **fields: Any) -> str:
        """Give the agent a task and answer its id."""
        answer = self.api.post("/api/tasks", json={"agent": self.agent, "prompt": prompt, **fields})
        return str(_checked(answer)["id"])

    def task(self, task_id: str) -> TaskView:
        """The task as it is now."""
        return TaskView.model_validate(_checked(self.api.get(f"/api/tasks/{task_id}")))

    def cancel(self, task_id: str) -> None:
        """Ask for the task's end."""
        _checked(self.api.post(f"/api/tasks/{task_id}/cancel"))

    def ended(self, task_id: str, timeout: float) -> TaskView:
        """The task once it has ended. Fails after `timeout` seconds, saying where it stood."""
        deadline = time.monotonic() + timeout
        while (seen := self.task(task_id)).status not in ENDED:
            assert time.monotonic() < deadline, f"not ended within {timeout} s: {seen}"
            time.sleep(POLL)
        return seen

    def messages(self, task_id: str) -> list[TaskMessage]:
        """Everything the run said."""
        page = _checked(self.api.get(f"/api/tasks/{task_id}/messages", params={"since": 0}))
        return Page[TaskMessage].model_validate(page).items


def usage_of(task: TaskView) -> tuple[int, int, int, int]:
    """Input, output, cache read and cache write of all models together."""
    rows = task.usage
    return (
        sum(row.input_tokens for row in rows),
        sum(row.output_tokens for row in rows),
        sum(row.cache_read_tokens for row in rows),
        sum(row.cache_write_tokens for row in rows),
    )


@contextmanager
def raised(world: World, folder: Path) -> Iterator[Stage]:
    """Start gateway and daemon in `folder`, make an agent on the world's provider, and end both afterwards."""
    data = folder / "data"
    with _gateway(world, folder, data) as url, httpx.Client(base_url=url, timeout=30) as api:
        secret = (data / BOOTSTRAP_SECRET).read_text().strip()
        token = _checked(api.post("/api/bootstrap", json={"secret": secret}))["token"]
        api.headers["authorization"] = f"Bearer {token}"
        with _process(
            ["daemon", "start", "--foreground"], _daemon_env(world, folder, url, token), folder / "daemon.log"
        ):
            _runtime_online(api, world.cli.provider, folder / "daemon.log")
            wanted = {"name": "scout", "provider": world.cli.provider, "model": world.model}
            agent = _checked(api.post("/api/agents", json=wanted))
            yield Stage(api, world, agent["id"])


@contextmanager
def _gateway(world: World, folder: Path, data: Path) -> Iterator[str]:
    log = folder / "gateway.log"
    with _process(["up", "--data", str(data), "--port", "0"], _plain_env(world), log) as process:
        yield _waited_for(process, log, r"is up at (http://\S+)")


@contextmanager
def _process(arguments: list[str], env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "callboard_daemon", *arguments], env=env, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"{arguments} did not stop on SIGTERM:\n{log.read_text()[-2000:]}") from None


def _plain_env(world: World) -> dict[str, str]:
    """No mark: gateway and daemon are not part of a run, and outlive it."""
    return {name: world.env[name] for name in ("PATH", "HOME", "LANG", "TERM")}


def _daemon_env(world: World, folder: Path, url: str, token: str) -> dict[str, str]:
    home = folder / "callboard"
    config = home / "config/config.toml"
    config.parent.mkdir(parents=True)
    agents_env = {name: value for name, value in world.env.items() if name not in ("PATH", "HOME", "LANG", "TERM")}
    lines = [
        f"providers = {json.dumps([world.cli.provider])}",
        "login_shell = false",
        f"[provider.{world.cli.provider}]",
        f"path = {json.dumps(str(world.cli.executable))}",
        "[env]",
        *(f"{name} = {json.dumps(value)}" for name, value in agents_env.items()),
    ]
    config.write_text("\n".join(lines) + "\n")
    login = {"CALLBOARD_HOME": str(home), "CALLBOARD_SERVER_URL": url, "CALLBOARD_TOKEN": token}
    return {**_plain_env(world), **login}


def _runtime_online(api: httpx.Client, provider: str, log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while True:
        page = Page[RuntimeView].model_validate(_checked(api.get("/api/runtimes")))
        if any(one.provider == provider and one.status == "online" for one in page.items):
            return
        assert time.monotonic() < deadline, f"no {provider} runtime came online:\n{log.read_text()[-3000:]}"
        time.sleep(POLL)


def _waited_for(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    deadline = time.monotonic() + READY_WITHIN
    while (found := re.search(pattern, log.read_text())) is None:
        waiting = process.poll() is None and time.monotonic() < deadline
        assert waiting, f"{pattern!r} never came:\n{log.read_text()[-3000:]}"
        time.sleep(POLL)
    return found[1]


def _checked(answer: httpx.Response) -> dict[str, Any]:
    assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
    body: dict[str, Any] = answer.json()
    return body
