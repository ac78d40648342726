"""enqueue + claim + start + complete on the embedded engine, durable (synchronous=FULL): cycles a second with four
clients (machines): each a process on the one file, all in one process, and through the gateway over HTTP; and the units
of a life."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from json import dumps, loads
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from callboard_control import ports
from callboard_control.embedded import cores
from callboard_control.embedded.engine import Engine, attach_connection
from callboard_control.embedded.events import Request
from callboard_control.store import table
from tests.bench.gateway_process import gateway
from tests.bench.harness import Row, run
from tests.fakes.handlers import EntryPoints, Handlers
from tests.fakes.world import World

CLIENTS = 4
SECONDS = 10.0
LIVES = 50


class Calls:
    """In place of an `httpx.Client`: calls the handlers as Lambda does, without an HTTP client's work in between."""

    def __init__(self) -> None:
        self._entry_points = EntryPoints()

    def request(self, method: str, path: str, headers: dict[str, str], json: dict[str, Any] | None) -> httpx.Response:
        raw = tuple((name.encode(), value.encode()) for name, value in headers.items())
        answer = self._entry_points.answer(Request(method, path.encode(), headers=raw, body=dumps(json).encode()))
        return httpx.Response(answer.status, content=answer.body)


def four(world: World, http: Callable[[], Any]) -> list[World]:
    """Four machines of the workspace, each with an agent of its own: a daemon asks for tasks one call at a time, so
    clients that are served at once are several daemons. (What a race for one agent's tasks costs, `claims` measures.)
    """
    clients = [world.again(http()) for _ in range(CLIENTS)]
    for number, client in enumerate(clients):
        client.join(f"agent-{number}")
    return clients


def go_round(client: World, until: float) -> int:
    """Cycles until `until` (monotonic seconds)."""
    done = 0
    while time.perf_counter() < until:
        client.enqueue()
        for task in client.claim():
            client.about(task, "start", work_dir="/w")
            client.about(task, "complete", output="hello")
            done += 1
    return done


def in_processes(path: Path, world: World) -> float:
    """Cycles a second of `CLIENTS` processes, each with an engine of its own on the one file."""
    context = multiprocessing.get_context("spawn")
    begin, counts = context.Barrier(CLIENTS), context.Queue()
    clients = [world.again(None) for _ in range(CLIENTS)]
    processes = [context.Process(target=_client, args=(path, *each, begin, counts)) for each in enumerate(clients)]
    for process in processes:
        process.start()
    cycles = sum(counts.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    return float(cycles) / SECONDS


def _client(path: Path, number: int, client: World, begin: Any, counts: Any) -> None:
    engine = Engine(path)
    attach_connection(engine, table.connection())
    ports.use(ports.Ports(bootstrap_secret=lambda: "s"))
    client.http = Calls()  # type: ignore[assignment]
    client.join(f"process-{number}")
    life(client)
    begin.wait(60)
    counts.put(go_round(client, time.perf_counter() + SECONDS))
    engine.close()


def cycles_per_second(clients: Sequence[World]) -> tuple[float, float]:
    """Each in a thread of its own, going round and round. Also the CPU milliseconds of this process for each cycle: on
    a busy machine the steadier figure."""
    done = [0] * len(clients)
    until = time.perf_counter() + SECONDS

    def run_one(number: int) -> None:
        done[number] = go_round(clients[number], until)

    began, cpu = time.perf_counter(), time.process_time()
    threads = [threading.Thread(target=run_one, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cycles = sum(done)
    return cycles / (time.perf_counter() - began), (time.process_time() - cpu) * 1000 / cycles


class Meter:
    """Sums ConsumedCapacity over the store's calls. It asks for it in the request, as a caller of AWS would."""

    def __init__(self) -> None:
        self.units: dict[str, float] = defaultdict(float)

    def ask(self, params: dict[str, Any], **_: Any) -> None:
        body = loads(params["body"])
        params["body"] = dumps(body | {"ReturnConsumedCapacity": "INDEXES"}).encode()

    def read(self, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        kind = "read" if model.name in ("GetItem", "Query", "BatchGetItem", "TransactGetItems") else "write"
        for entry in consumed if isinstance(consumed, list) else [consumed]:
            self.units[kind] += entry["CapacityUnits"]


def on_the_entry_points(path: Path) -> tuple[float, float, float, dict[str, float], dict[str, float]]:
    engine = Engine(path)
    attach_connection(engine, table.connection(), through_botocore=True)  # whose events the meter hears
    table.ensure()
    ports.use(ports.Ports(bootstrap_secret=lambda: "s"))
    with World("http://handlers", "s", transport=Handlers()) as world:
        world.live()
        plain = lives(world)
        limit_of_its_own(world, 50)
        limited = lives(world)
        limit_of_its_own(world, None)
        attach_connection(engine, table.connection())
        with on_one_core():
            rate, cpu_ms = cycles_per_second(four(world, Calls))
        engine.close()
        apart = in_processes(path, world)
    return apart, rate, cpu_ms, plain, limited


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """As a gateway's process is."""
    before = os.sched_getaffinity(0)
    cores.keep_to_one()
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def limit_of_its_own(world: World, limit: int | None) -> None:
    world.call("PATCH", f"/api/runtimes/{world.runtime_id}", world.person, {"max_concurrent_tasks": limit})


def lives(world: World) -> dict[str, float]:
    """Read and write units of one life, the mean of `LIVES`."""
    events, meter = table.connection().client.meta.events, Meter()
    events.register("before-call.dynamodb", meter.ask)
    events.register("after-call.dynamodb", meter.read)
    for _ in range(LIVES):
        life(world)
    events.unregister("before-call.dynamodb", meter.ask)
    events.unregister("after-call.dynamodb", meter.read)
    return {kind: units / LIVES for kind, units in meter.units.items()}


def life(world: World) -> None:
    """Enqueue, claim, start, finish: what the budget is for; no messages, no usage."""
    world.enqueue()
    [task] = world.claim()
    world.about(task, "start", work_dir="/w")
    world.about(task, "complete", output="hello", session_id="s-1")


def main() -> list[Row]:
    with TemporaryDirectory(prefix="callboard-bench-") as folder:
        apart, inside, cpu_ms, units, limited = on_the_entry_points(Path(folder) / "callboard.db")
    with gateway() as served, World(served.url, served.secret) as world:
        world.live()
        over_http, _ = cycles_per_second(four(world, lambda: httpx.Client(base_url=served.url, timeout=40)))
    return [
        Row("cycles", f"{CLIENTS} clients, a process each, on one file", apart, "/s", "≥ 100 /s", "durable"),
        Row("cycles", f"{CLIENTS} clients in one process", inside, "/s", "≥ 100 /s", "durable; on one core"),
        Row("cycles", "CPU of one, in one process, all included", cpu_ms, "ms"),
        Row("cycles", f"{CLIENTS} clients over HTTP", over_http, "/s", "", "clients in one other process"),
        Row("life", "write units", units["write"], "units", "≤ 14", "enqueue, claim, start, complete"),
        Row("life", "write units, runtime with a limit", limited["write"], "units", "≤ 14", "one more a claim"),
        Row("life", "read units", units["read"], "units", "", "authentication included"),
    ]


if __name__ == "__main__":
    run(main)
