"""Claims under load: flat with the queue's length, few lost races on a hot agent, leases swept in time."""

from __future__ import annotations

import resource
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from callboard_control.embedded.engine import attach_connection
from callboard_control.store import keys, models, table
from tests.bench.harness import Row, percentile, run
from tests.fakes.sim_world import Clock, Machine, World

CLAIMS = 200


def main() -> list[Row]:
    return [*flat(), *hot_agent(), *sweep()]


# ── flat ─────────────────────────────────────────────────────────────────────


def flat() -> list[Row]:
    """p50 of a claim with 100 tasks queued, and with 100 000 on 1 000 runtimes, in one process."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder) / "flat.sqlite")
        machine = world.machine()
        agent = world.agent("ada", machine, max_concurrent_tasks=50)
        _fill(world, agent, machine.runtime_id, CLAIMS + 100)
        small = _median_claim(machine)
        for n in range(1000):
            _fill(world, agent, f"runtime-{n}", 100)
        _fill(world, agent, machine.runtime_id, CLAIMS)
        large = _median_claim(machine)
        world.close()
    note = f"{large:.1f} ms with 100 000 tasks on 1 000 runtimes, {small:.1f} ms with a few hundred"
    return [Row("claim", "p50 with 100 000 queued / p50 with 100", large / small, "×", "≤ 1.5 ×", note)]


def _fill(world: World, agent: dict[str, Any], runtime_id: str, count: int) -> None:
    """Queued tasks written as they lie in the table; making each through the API would take the hour."""
    now = int(time.time() * 1000)
    with models.TaskItem.batch_write() as batch:
        for n in range(count):
            task_id = keys.new_id()
            item = models.TaskItem(keys.task(task_id), "T", id=task_id, workspace_id=world.workspace_id)
            item.agent_id, item.runtime_id, item.status, item.prompt = agent["id"], runtime_id, "queued", "x"
            item.created, item.moves = now, [f"enqueue|{now}||bench"]
            item.gpk, item.gsk = keys.tasks_of(world.workspace_id), f"{keys.stamp(now)}#{task_id}"
            item.rpk, item.rsk = keys.ready_of(runtime_id), f"{keys.turn(now + n, 0)}#{task_id}#{agent['id']}"
            batch.save(item)


def _median_claim(machine: Machine) -> float:
    times = []
    for _ in range(CLAIMS):
        began = time.perf_counter()
        (held,) = machine.claim()
        times.append(time.perf_counter() - began)
        held.say("start")
        held.say("complete")
    return percentile(times, 50) * 1000


# ── hot ──────────────────────────────────────────────────────────────────────


def hot_agent(claimers: int = 64, tasks: int = 1000) -> list[Row]:
    """One agent, one runtime, 64 claimers at once, until 1 000 tasks are done."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder) / "hot.sqlite")
        machine = world.machine()
        agent = world.agent("ada", machine, max_concurrent_tasks=50)
        _fill(world, agent, machine.runtime_id, tasks)
        counts: Counter[str] = Counter()
        attach_connection(world.engine, table.connection(), through_botocore=True)
        _count_refusals(counts)
        began = time.perf_counter()
        threads = [threading.Thread(target=_drain, args=(machine, counts, tasks)) for _ in range(claimers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
        world.close()
    per_claim = counts["refused"] / counts["claimed"]
    note = f"{counts['claimed']} claims by {claimers} claimers in {seconds:.0f} s"
    return [Row("hot agent", "conditional failures a claim", per_claim, "", "≤ 1.3", note)]


def _drain(machine: Machine, counts: Counter[str], tasks: int) -> None:
    for _ in range(tasks):
        held = machine.claim()
        if not held:
            if counts["claimed"] >= tasks:
                return
            time.sleep(0.01)
        for task in held:
            counts["claimed"] += 1
            task.say("start")
            task.say("complete")


def _count_refusals(counts: Counter[str]) -> None:
    def after(parsed: dict[str, Any], **_: Any) -> None:
        reasons = parsed.get("CancellationReasons") or []
        counts["refused"] += any(r.get("Code") == "ConditionalCheckFailed" for r in reasons)

    table.connection().client.meta.events.register("after-call.dynamodb.TransactWriteItems", after)


# ── sweep ────────────────────────────────────────────────────────────────────


def sweep(tasks: int = 10_000) -> list[Row]:
    """10 000 claimed tasks whose leases have run out, swept until none is left."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock(int(time.time() * 1000))
        world = World(Path(folder) / "sweep.sqlite", clock=clock)
        machine = world.machine()
        for n in range(tasks // 50):
            agent = world.agent(f"a{n}", machine, max_concurrent_tasks=50)
            _held(world, agent, machine, 50, clock())
        clock.forward(60)
        began, ticks, swept = time.perf_counter(), 0, 0
        while swept < tasks and ticks < 10:
            swept += world.tick()["requeued"]
            ticks += 1
        seconds = time.perf_counter() - began
        world.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    note = f"{swept} leases in {ticks} ticks, peak {peak:.0f} MB with the benchmark's own data"
    return [Row("sweep", "10 000 expired leases", seconds, "s", "≤ 60 s", note)]


def _held(world: World, agent: dict[str, Any], machine: Machine, count: int, now: int) -> None:
    record = keys.derived_id("daemon", world.workspace_id, machine.daemon_id)
    ids = [keys.new_id() for _ in range(count)]
    with models.TaskItem.batch_write() as batch:
        for task_id in ids:
            item = models.TaskItem(keys.task(task_id), "T", id=task_id, workspace_id=world.workspace_id)
            item.agent_id, item.runtime_id, item.status = agent["id"], machine.runtime_id, "dispatched"
            item.created, item.dispatched, item.lease_until = now, now, now + 45_000
            item.fence, item.claim_id, item.token_digests = 1, "c", {"d"}
            item.moves = [f"enqueue|{now}||bench", f"claim|{now}|1|"]
            item.gpk, item.gsk = keys.tasks_of(world.workspace_id), f"{keys.stamp(now)}#{task_id}"
            batch.save(item)
    slot = models.SlotItem(f"AG#{agent['id']}", "SLOT", running=set(ids))
    slot.gpk, slot.gsk = keys.busy_of(record), agent["id"]
    slot.save()


if __name__ == "__main__":
    run(main)
