"""The embedded engine under SIGKILL: nothing it answered for is lost, nothing is half done."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from callboard_control.embedded.engine import Engine
from tests.system import engine_worker as worker


@dataclass
class Answered:
    """What the workers were answered for, over all rounds: the highest step and all log entries of each thread."""

    step: dict[int, int] = field(default_factory=dict)
    logged: set[tuple[int, int]] = field(default_factory=set)

    def take(self, line: str) -> None:
        thread, kind, number = line.split()
        if kind == "step":
            self.step[int(thread)] = max(self.step.get(int(thread), 0), int(number))
        else:
            self.logged.add((int(thread), int(number)))


def run_and_kill(path: Path, after: float, answered: Answered) -> int:
    """Start a worker, kill it `after` seconds after its first answer; return how many answers it got."""
    with subprocess.Popen([sys.executable, worker.__file__, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        answered.take(process.stdout.readline())
        time.sleep(after)  # the instant of the kill is what is tested, not waited for
        process.send_signal(signal.SIGKILL)
        lines = [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        process.wait(30)
    assert process.returncode == -signal.SIGKILL
    for line in lines:
        answered.take(line)
    return len(lines) + 1


def check(path: Path, answered: Answered) -> None:
    """Open the file after the kill and compare it with what was answered."""
    with Engine(path) as engine:
        done = 0
        for thread in range(worker.THREADS):
            left, right = (worker.number_of(engine, f"{thread}#{side}") for side in ("a", "b"))
            assert left == right, "half a transaction"
            assert answered.step.get(thread, 0) <= left <= answered.step.get(thread, 0) + 1, "an answered step is lost"
            answered.step[thread] = left  # it was seen: from now on it must stay
            done += left
        assert worker.number_of(engine, worker.COUNTER) == done, "the counter moves with every step, once"
        stored = scan(engine)
        for thread, number in answered.logged:
            assert f"{thread}#log#{number}" in stored, "an answered put is lost"
        indexed = {pk for thread in range(worker.THREADS) for pk in query(engine, str(thread))}
        assert indexed == stored - {worker.COUNTER}, "the index does not match the table"
        for thread in range(worker.THREADS):
            # An answer whose repeat is asked for after the crash is still known: nothing happens twice.
            if number := answered.step.get(thread, 0):
                worker.step(engine, thread, number)
        assert worker.number_of(engine, worker.COUNTER) == done


def scan(engine: Engine) -> set[str]:
    return pages(engine, "Scan", {})


def query(engine: Engine, thread: str) -> set[str]:
    condition = {"KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": thread}}}
    return pages(engine, "Query", {"IndexName": "by-g", **condition})


def pages(engine: Engine, operation: str, request: dict[str, object]) -> set[str]:
    found: set[str] = set()
    start: dict[str, object] = {}
    while True:
        answer = engine.execute(operation, {"TableName": worker.TABLE, **request, **start})
        found |= {item["pk"]["S"] for item in answer["Items"]}
        if "LastEvaluatedKey" not in answer:
            return found
        start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


def kill_repeatedly(path: Path, times: int, seed: int) -> None:
    chance = random.Random(seed)
    answered = Answered()
    with Engine(path) as engine:
        worker.create(engine)
    answers = 0
    for _ in range(times):
        # Mostly soon, when little is in the log and much in flight, sometimes after a checkpoint or two.
        answers += run_and_kill(path, chance.choice((0.0, 0.01, 0.05, 0.3)) * chance.random(), answered)
        check(path, answered)
    assert answers > times * worker.THREADS


def test_ten_kills_lose_no_answered_write_and_leave_no_half_transaction(tmp_path: Path) -> None:
    kill_repeatedly(tmp_path / "engine.db", 10, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_hundred_and_fifty_kills_lose_no_answered_write_and_leave_no_half_transaction(tmp_path: Path) -> None:
    kill_repeatedly(tmp_path / "engine.db", 250, seed=2)
