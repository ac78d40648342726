"""The list of agents in a workspace of a thousand, on the embedded engine over loopback HTTP: the first page for its
admin, who sees all of them, for a member, to whom every second one is open, and (after the owner has closed them again)
for one to whom none is: that page reads all of them to find nothing. Each agent has instructions, a profile
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


def close(world: World) -> None:
    """Make every agent private."""
    cursor = ""
    while True:
        page = world.call("GET", f"/api/agents?limit=100{cursor}", world.person)
        for agent in page["items"]:
            world.call("PATCH", f"/api/agents/{agent['id']}", world.person, {"permission_mode": "private"})
        if not page.get("next_cursor"):
            return
        cursor = f"&cursor={page['next_cursor']}"


def first_pages(served: Served, world: World, token: str, limit: int, *, expected: int) -> tuple[list[float], float]:
    """Milliseconds of each call, and of CPU a call on average."""
    took: list[float] = []
    for n in range(CALLS + 5):
        if n == 5:
            took.clear()
            used = cpu_ms(served.pid)
        began = time.perf_counter()
        page = world.call("GET", f"/api/agents?limit={limit}", token)
        took.append((time.perf_counter() - began) * 1000)
        assert len(page["items"]) == expected
        assert all(agent["readiness"]["state"] == "ready" for agent in page["items"][-1:])
    return took, (cpu_ms(served.pid) - used) / CALLS


def rows_for(who: str, limit: int, took: list[float], cpu: float) -> list[Row]:
    what = f"first page of {limit} for {who}"
    reach = "≤ 60 ms" if limit == 50 else ""
    return [
        Row("agents", f"{what}, p50 of {CALLS}", percentile(took, 50), "ms", reach),
        Row("agents", f"{what}, p95", percentile(took, 95), "ms", reach),
        Row("agents", f"{what}, CPU of the server", cpu, "ms", note="holds on a busy machine too"),
    ]


def main() -> list[Row]:
    rows = []
    with gateway() as served, World(served.url, served.secret) as world:
        member = fill(world)
        for who, token in (("an admin", world.person), ("a member who sees half", member)):
            for limit in (50, 100):
                rows += rows_for(who, limit, *first_pages(served, world, token, limit, expected=limit))
        close(world)
        rows += rows_for("a member who sees none", 50, *first_pages(served, world, member, 50, expected=0))
    return rows


if __name__ == "__main__":
    run(main)
