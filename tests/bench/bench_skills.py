"""What skills cost a claim: fifty of them by name beside none, and how large the answer is."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from callboard_wire.skills import MAX_SKILLS
from tests.bench.harness import Row, percentile, run
from tests.fakes.sim_world import Machine, World

CLAIMS = 100
BY_NAME = {"x-client-capabilities": "skill-bundles-v1"}
LAMBDA_ANSWER_MB = 6.0


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder) / "skills.sqlite")
        machine = world.machine()
        world.agent("none", machine)
        world.agent("fifty", machine)
        _give(world, "fifty")
        for agent in ("none", "fifty"):  # first calls import and connect
            _claim(world, machine, agent)
        plain = [_claim(world, machine, "none") for _ in range(CLAIMS)]
        skilled = [_claim(world, machine, "fifty") for _ in range(CLAIMS)]
        world.close()
    p50, p99 = (percentile([ms for ms, _ in skilled], q) for q in (50, 99))
    size = max(size for _, size in skilled)
    without = percentile([ms for ms, _ in plain], 50)
    note = f"p99 {p99:.1f} ms; {without:.1f} ms without skills; the whole call, engine included"
    return [
        Row("claim with 50 skills", "p50", p50, "ms", "≤ 40 ms", note),
        Row("claim with 50 skills", "answer", size / 1024, "KB", f"≤ {LAMBDA_ANSWER_MB:.0f} MB for 32 tasks"),
    ]


def _give(world: World, agent: str) -> None:
    """Fifty skills of a common size: 6 KB of text, four files of 20 KB."""
    ids = []
    for n in range(MAX_SKILLS):
        files = [{"path": f"references/{m}.md", "content": f"{n} {m} words\n" * 1400} for m in range(4)]
        head = f"---\nname: skill-{n}\ndescription: {'When it is about this. ' * 20}\n---\n"
        body = {"content": head + "Do it well.\n" * 500, "files": files}
        ids.append(world.ok("POST", "/api/skills", body)["id"])
    world.ok("PUT", f"/api/agents/{agent}/skills", {"skill_ids": ids})


def _claim(world: World, machine: Machine, agent: str) -> tuple[float, int]:
    """Milliseconds of one claim that gets a task of `agent`, and the answer's bytes."""
    task = world.enqueue(agent)["id"]
    body = {"daemon_id": machine.daemon_id, "runtime_ids": [machine.runtime_id]}
    began = time.perf_counter()
    answer: dict[str, Any] = world.ok("POST", "/api/daemon/tasks/claim", body, machine.token, headers=BY_NAME)
    ms = (time.perf_counter() - began) * 1000
    assert [each["id"] for each in answer["tasks"]] == [task]
    world.ok("POST", f"/api/tasks/{task}/cancel")
    return ms, len(json.dumps(answer))


if __name__ == "__main__":
    run(main)
