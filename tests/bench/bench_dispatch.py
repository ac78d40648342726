"""From "the enqueue is answered" to "the daemon holds the claim", by long poll, over loopback HTTP; alone and beside
200 idle long polls."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import threading
import time
from collections.abc import Iterator

import httpx

from tests.bench.gateway_process import Served, gateway
from tests.bench.harness import Row, percentile, run
from tests.fakes.world import World

TASKS = 500
IDLE = 200


def waiting(world: World) -> int:
    found = re.search(r"^callboard_claims_waiting (\d+)", world.http.get("/metrics").text, re.MULTILINE)
    assert found
    return int(found.group(1))


def dispatches(served: Served, world: World, count: int, idle: int) -> list[float]:
    """Milliseconds of each of `count` dispatches, one after the other, each to a claim that was waiting."""
    arrived: list[float] = []
    held = threading.Event()
    # A connection of its own, as a daemon has; the task is ended before the next one is made.
    with httpx.Client(base_url=served.url, timeout=40) as http:

        def claim() -> None:
            body = {"runtime_ids": [world.runtime_id], "max_tasks": 1, "wait": 20}
            headers = {"authorization": f"Bearer {world.daemon}"}
            for _ in range(count):
                tasks: list[dict[str, str]] = []
                while not tasks:
                    tasks = http.post("/api/daemon/tasks/claim", json=body, headers=headers).json()["tasks"]
                arrived.append(time.perf_counter())
                held.set()
                proof = {"claim_id": tasks[0]["claim_id"], "fence": tasks[0]["fence"]}
                for step in ("start", "complete"):
                    http.post(
                        f"/api/daemon/tasks/{tasks[0]['id']}/{step}", json=proof, headers=headers
                    ).raise_for_status()

        claimer = threading.Thread(target=claim, daemon=True)
        claimer.start()
        took = []
        for _ in range(count):
            while waiting(world) != idle + 1:
                time.sleep(0.002)
            held.clear()
            world.enqueue()
            answered = time.perf_counter()
            assert held.wait(60)
            took.append(max(0.0, arrived[-1] - answered) * 1000)
        claimer.join(60)
    return took


@contextlib.contextmanager
def idle_polls(served: Served, world: World, count: int) -> Iterator[None]:
    """`count` long polls for runtimes that get no work, asked again for as long as the block lasts."""
    offers = [{"name": f"idle-{n}", "type": f"idle-{n}"} for n in range(100)]
    targets = []
    for machine in range(-(-count // 100)):
        body = {"daemon_id": f"idle-{machine}", "runtimes": offers}
        made = world.call("POST", "/api/daemon/register", world.person, body)
        targets += [(made["daemon_token"], runtime["id"]) for runtime in made["runtimes"]]
    stop = threading.Event()

    async def poll(client: httpx.AsyncClient, token: str, runtime_id: str) -> None:
        while not stop.is_set():
            # Jittered, as daemons do it: all at once they would come back all at once.
            body = {"runtime_ids": [runtime_id], "max_tasks": 1, "wait": random.uniform(10, 20)}
            await client.post("/api/daemon/tasks/claim", json=body, headers={"authorization": f"Bearer {token}"})

    async def all_of_them() -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=served.url, timeout=60, limits=limits) as client:
            polls = [asyncio.create_task(poll(client, *target)) for target in targets[:count]]
            await asyncio.to_thread(stop.wait)
            for task in polls:
                task.cancel()
            await asyncio.gather(*polls, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(all_of_them()), daemon=True)
    thread.start()
    while waiting(world) < count:
        time.sleep(0.05)
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def resident_mb(pid: int) -> float:
    with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123 - a pseudo-file of Linux
        return int(file.read().split()[1]) * 4096 / 2**20


def main() -> list[Row]:
    rows = []
    with gateway() as served, World(served.url, served.secret) as world:
        dispatches(served, world, 30, 0)  # warm
        before = resident_mb(served.pid)
        alone = dispatches(served, world, TASKS, 0)
        with idle_polls(served, world, IDLE):
            beside = dispatches(served, world, TASKS, IDLE)
            during = resident_mb(served.pid)
    for name, took in (("long poll", alone), (f"long poll beside {IDLE} idle ones", beside)):
        rows.append(Row("dispatch", f"{name}, p50 of {TASKS}", percentile(took, 50), "ms", "≤ 25 ms"))
        rows.append(Row("dispatch", f"{name}, p99 of {TASKS}", percentile(took, 99), "ms", "≤ 100 ms"))
    rows.append(Row("dispatch", "gateway resident", before, "MB"))
    rows.append(Row("dispatch", f"gateway resident, {IDLE} idle polls", during, "MB"))
    return rows


if __name__ == "__main__":
    run(main)
