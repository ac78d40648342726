"""What the real daemon costs while nothing is to do: memory and processor over a minute of long polls, and the same
right after it has run tasks. Every provider of this machine is offered, as for a user."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from callboard_daemon.cli.api import Api
from callboard_wire.agents import CreateAgentRequest
from callboard_wire.api import BootstrapRequest, EnqueueRequest
from tests.bench.gateway_process import gateway
from tests.bench.harness import Row, run
from tests.fakes.daemon_process import eventually, running_daemon

SECONDS = 60.0
TASKS = 20


def idle(process: psutil.Process, say: Callable[[str], str]) -> list[Row]:
    before = process.cpu_times()
    time.sleep(SECONDS)
    after = process.cpu_times()
    spent = after.user + after.system - before.user - before.system
    memory = process.memory_info().rss / 1e6
    return [
        Row("daemon idle", say("resident memory"), memory, "MB", "≤ 60 MB"),
        Row("daemon idle", say("processor"), 100 * spent / SECONDS, "% of a core", "≤ 0.5 %", f"over {SECONDS:.0f} s"),
    ]


def main() -> list[Row]:
    with TemporaryDirectory(prefix="callboard-bench-") as folder, gateway() as served:
        with Api(served.url, "", timeout=30) as api:
            token = api.bootstrap(BootstrapRequest(secret=served.secret)).token
        with running_daemon(Path(folder), served.url, token, providers="", login_shell="true") as daemon:
            assert daemon.process is not None
            process = psutil.Process(daemon.process.pid)
            time.sleep(5)
            rows = idle(process, lambda figure: figure)
            with Api(served.url, token, timeout=30) as api:
                agent = api.create_agent(CreateAgentRequest(name="echo", provider="echo", max_concurrent_tasks=5)).id
                body = EnqueueRequest(agent=agent, prompt="!say hi\n!tool look here\n!answer ok")
                tasks = [api.enqueue(body).id for _ in range(TASKS)]
                eventually(lambda: all(api.task(task).status.terminal for task in tasks), timeout=120)
            return rows + idle(process, lambda figure: f"{figure} after {TASKS} tasks")


if __name__ == "__main__":
    run(main)
