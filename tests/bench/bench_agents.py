"""The list of agents in a workspace of a thousand, on the embedded engine over loopback HTTP: the first page for its
admin, who sees all of them, and for a member, to whom every second one is open. Each agent has instructions, a profile
and one of fifty runtimes, so that readiness has something to look at."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.bench.gateway_process import Served, gateway
from tests.bench.harness import Row, percentile, run
from tests.fakes.world import World

AGENTS = 1000
RUNTIMES = 50
CALLS = 60
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_ms(pid: int) -> float:
    """What the process has used of a core, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS * 1000


def fill(world: World) -> str:
    """Make the agents; the token of a member."""
    offers = [{"name": f"cli-{n}", "type": f"cli-{n}"} for n in range(RUNTIMES)]
    machine = world.call(
        "POST", "/api/daemon/register", world.person, {"daemon_id": "many", "device_name": "many", "runtimes": offers}
    )
    runtimes = [runtime["id"] for runtime in machine["runtimes"]]
    for n in range(AGENTS - 1):  # the world came with one
        body = {
            "name": f"agent {n}",
            "runtime_id": runtimes[n % RUNTIMES],
            "description": "What it is for, in a line.",
            "instructions": "How it should work. " * 50,
            "model_profile": "fast",
            "permission_mode": "public_to" if n % 2 else "private",
        }
        world.call("POST", "/api/agents", world.person, body)
    code = world.call("POST", "/api/invitations", world.person, {})["code"]
    return str(world.call("POST", "/api/invitations/accept", "", {"code": code, "name": "Bo"})["token"])


def first_pages(served: Served, world: World, token: str, limit: int) -> tuple[list[float], float]:
    """Milliseconds of each call, and of CPU a call on average."""
    took = []
    for n in range(CALLS + 5):
        if n == 5:
            took.clear()
            used = cpu_ms(served.pid)
        began = time.perf_counter()
        page = world.call("GET", f"/api/agents?limit={limit}", token)
        took.append((time.perf_counter() - began) * 1000)
        assert len(page["items"]) == limit
        assert page["items"][-1]["readiness"]["state"] == "ready"
    return took, (cpu_ms(served.pid) - used) / CALLS


def main() -> list[Row]:
    rows = []
    with gateway() as served, World(served.url, served.secret) as world:
        member = fill(world)
        for who, token in (("an admin", world.person), ("a member who sees half", member)):
            for limit in (50, 100):
                took, cpu = first_pages(served, world, token, limit)
                what = f"first page of {limit} for {who}"
                reach = "≤ 60 ms" if limit == 50 else ""
                rows.append(Row("agents", f"{what}, p50 of {CALLS}", percentile(took, 50), "ms", reach))
                rows.append(Row("agents", f"{what}, p95", percentile(took, 95), "ms", reach))
                rows.append(Row("agents", f"{what}, CPU of the server", cpu, "ms", note="holds on a busy machine too"))
    return rows


if __name__ == "__main__":
    run(main)
