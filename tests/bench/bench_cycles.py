"""enqueue + claim + start + complete on the embedded engine, durable (synchronous=FULL): cycles a second with four
clients, through the entry points in one process and through the gateway over HTTP; and a life's capacity units."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from callboard_control import ports
from callboard_control.embedded import cores
from callboard_control.embedded.engine import Engine, attach_connection
from callboard_control.store import table
from tests.bench.gateway_process import gateway
from tests.bench.harness import Row, run
from tests.fakes.handlers import Handlers
from tests.fakes.world import World

CLIENTS = 4
SECONDS = 10.0
LIVES = 50


def cycles_per_second(world: World, clones: Callable[[], World]) -> tuple[float, float]:
    """`CLIENTS` threads, each going round and round; each claim takes whatever task is next. Also the CPU milliseconds
    of this process for each: on a busy machine the steadier figure."""
    done = [0] * CLIENTS
    until = time.perf_counter() + SECONDS

    def go_round(number: int) -> None:
        mine = clones()
        while time.perf_counter() < until:
            mine.enqueue()
            for task in mine.claim():
                mine.about(task, "start", work_dir="/w")
                mine.about(task, "complete", output="hello")
                done[number] += 1

    began, cpu = time.perf_counter(), time.process_time()
    threads = [threading.Thread(target=go_round, args=(number,)) for number in range(CLIENTS)]
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
        body = json.loads(params["body"])
        params["body"] = json.dumps(body | {"ReturnConsumedCapacity": "INDEXES"}).encode()

    def read(self, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity") or []
        kind = "read" if model.name in ("GetItem", "Query", "BatchGetItem", "TransactGetItems") else "write"
        for entry in consumed if isinstance(consumed, list) else [consumed]:
            self.units[kind] += entry["CapacityUnits"]


def on_the_entry_points(path: Path) -> tuple[float, float, dict[str, float], dict[str, float]]:
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
            rate, cpu_ms = cycles_per_second(world, lambda: world.again(transport=Handlers()))
    engine.close()
    return rate, cpu_ms, plain, limited


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
        inside, cpu_ms, units, limited = on_the_entry_points(Path(folder) / "callboard.db")
    with gateway() as served, World(served.url, served.secret) as world:
        world.live()
        over_http, _ = cycles_per_second(world, world.again)
    return [
        Row("cycles", f"{CLIENTS} clients on the entry points", inside, "/s", "≥ 100 /s", "durable"),
        Row("cycles", "CPU of one, clients and engine included", cpu_ms, "ms"),
        Row("cycles", f"{CLIENTS} clients over HTTP", over_http, "/s", "", "clients in one other process"),
        Row("life", "write units", units["write"], "units", "≤ 14", "enqueue, claim, start, complete"),
        Row("life", "write units, runtime with a limit", limited["write"], "units", "≤ 14", "one more a claim"),
        Row("life", "read units", units["read"], "units", "", "authentication included"),
    ]


if __name__ == "__main__":
    run(main)
