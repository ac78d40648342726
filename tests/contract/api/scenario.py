"""A working day on the store the environment names, with real threads: three daemons, people who enqueue and cancel.

`python -m tests.contract.api.scenario PATH` ends with one line of JSON: what was done, and every offence against the
invariants. PATH is an SQLite file for the embedded engine, or ``aws`` for the DynamoDB at AWS_ENDPOINT_URL_DYNAMODB.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from typing import Any

from callboard_control.store import table
from callboard_control.tasks import invariants
from tests.fakes.sim_world import Machine, World

TASKS = 36
PATIENCE_S = 90.0


def day(path: str) -> dict[str, Any]:
    world = World(path)
    machines = [world.machine(f"d{n}") for n in range(3)]
    for n, machine in enumerate(machines):
        world.agent(f"a{n}", machine, max_concurrent_tasks=2)
    done = Counter[str]()
    ids: list[str] = []
    threads = [threading.Thread(target=_work, args=(m, done)) for m in machines for _ in range(2)]
    threads += [threading.Thread(target=_ask, args=(world, ids, n)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tasks = Counter(world.task(task_id)["status"] for task_id in set(ids))
    offences = [str(o) for o in invariants.check(_scan())]
    world.close()
    return {"done": dict(done), "tasks": dict(tasks), "accepted": len(set(ids)), "offences": offences}


def _ask(world: World, ids: list[str], n: int) -> None:
    rng = random.Random(n)
    for k in range(TASKS // 3):
        issue = {"issue_id": f"i{rng.randint(0, 2)}"} if rng.random() < 0.4 else {}
        body = {"agent": f"a{k % 3}", "prompt": f"{n}.{k}", "priority": rng.randint(0, 4), "max_attempts": 1}
        ids.append(world.ok("POST", "/api/tasks", {**body, "idempotency_key": f"{n}.{k}", **issue})["id"])
        if rng.random() < 0.2:
            world.ok("POST", f"/api/tasks/{ids[-1]}/cancel")


def _work(machine: Machine, done: Counter[str]) -> None:
    """Claim and finish until nothing comes for a while."""
    rng = random.Random(machine.daemon_id)
    deadline, idle = time.monotonic() + PATIENCE_S, 0
    while idle < 15 and time.monotonic() < deadline:
        held = machine.claim(2)
        idle = 0 if held else idle + 1
        if not held:
            time.sleep(0.1)
        for task in held:
            for verb in ("start", "messages", "usage", rng.choice(["complete", "complete", "fail"])):
                body: dict[str, Any] = {
                    "messages": {"messages": [{"seq": 1, "type": "text", "content": "hi"}]},
                    "usage": {"usage": [{"model": "m", "input_tokens": 3}]},
                    "fail": {"error": "no"},
                }.get(verb, {})
                answer = task.say(verb, **body)
                assert answer.status == 200, (verb, answer)
            done["finished"] += 1


def _scan() -> list[Any]:
    items: list[Any] = []
    start: dict[str, Any] = {}
    while True:
        request = {"TableName": "callboard", "ConsistentRead": True, **start}
        page = table.connection().client.scan(**request)
        items += page["Items"]
        if "LastEvaluatedKey" not in page:
            return items
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


if __name__ == "__main__":
    print(json.dumps(day(sys.argv[1])))
