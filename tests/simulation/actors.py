"""Who acts in a simulation: daemons that claim and work through their runs, one call at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.fakes.sim_world import Answer, Machine

REASONS = (
    "agent_error.provider_network",
    "agent_error.provider_auth_or_access",
    "runtime_recovery",
    "runtime_offline",
    "codex_semantic_inactivity",
    "timeout",
    "iteration_limit",
)


class Violation(AssertionError):
    """An invariant does not hold; the text says which, when, and what led there."""


@dataclass(slots=True)
class Run:
    """A claimed task as its daemon sees it, and what it means to do next."""

    task_id: str
    proof: dict[str, Any]
    plan: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    waiting: bool = False


@dataclass(slots=True)
class Request:
    """What somebody sent. `then` gets the answer, or None when none came (a time-out)."""

    name: str
    method: str
    path: str
    body: Any
    token: str
    then: Callable[[Answer | None], None]
    generation: tuple[object, int] | None = None
    answered: bool = False


class Stage(Protocol):
    """What a daemon needs of the simulation it acts in."""

    rng: random.Random
    kinds: tuple[str, ...]

    def number(self) -> int:
        """Another one each time."""

    def send(self, request: Request) -> None:
        """Put the request on its way; nobody says whether it arrives."""


class Daemon:
    """A daemon: claims, works through each run's plan one call at a time, repeats what was not answered."""

    def __init__(self, sim: Stage, machine: Machine, old: bool) -> None:
        self.sim, self.machine, self.old = sim, machine, old
        self.runs: dict[str, Run] = {}
        self.generation = 0
        self.claiming = 0
        self.unanswered: list[str] = []
        self.recovering = False

    def act(self) -> None:
        idle = [r for r in self.runs.values() if not r.waiting]
        if self.recovering:
            return
        if idle and self.sim.rng.random() < 0.75:
            self._next(self.sim.rng.choice(idle))
        elif self.claiming == 0 and len(self.runs) < 5:
            # More than one at once: calls of a daemon that was restarted may still be under way.
            for _ in range(self.sim.rng.choice((1, 1, 3))):
                self._claim()

    def crash(self) -> None:
        """Everything in memory is gone. After the restart it says that it runs nothing."""
        self.generation += 1
        self.runs.clear()
        self.claiming = 0
        self.unanswered.clear()
        self.recovering = True
        self._recover()

    def _recover(self) -> None:
        def then(answer: Answer | None) -> None:
            if answer is None or answer.status >= 500:
                self._recover()
            else:
                self.recovering = False

        path = f"/api/daemon/runtimes/{self.machine.runtime_id}/recover-orphans"
        self._send("recover", path, {"keep": []}, then)

    def _claim(self) -> None:
        self.claiming += 1
        claim_id = self.unanswered.pop() if self.unanswered else f"c{self.sim.number()}"
        body = {
            "daemon_id": self.machine.daemon_id,
            "runtime_ids": [self.machine.runtime_id],
            "max_tasks": self.sim.rng.randint(1, 3),
        }
        if not self.old:
            body["claim_id"] = claim_id
        self._send("claim", "/api/daemon/tasks/claim", body, lambda answer: self._claimed(claim_id, answer))

    def _claimed(self, claim_id: str, answer: Answer | None) -> None:
        self.claiming -= 1
        if answer is None or answer.status >= 500:
            self.unanswered.append(claim_id)  # the same again, next time
            return
        for task in answer["tasks"]:
            proof = {} if self.old else {"claim_id": task["claim_id"], "fence": task["fence"]}
            self.runs[task["id"]] = Run(task["id"], proof, self._plan())

    def _plan(self) -> list[tuple[str, dict[str, Any]]]:
        rng = self.sim.rng
        plan: list[tuple[str, dict[str, Any]]] = []
        if rng.random() < 0.2:
            plan.append(("wait-local-directory", {"reason": "busy"}))
        plan += [("prepare-lease", {})] * rng.randint(0, 2)
        plan.append(("start", {"work_dir": "/w"}))
        if rng.random() < 0.5:
            plan.append(("session", {"session_id": f"s{self.sim.number()}"}))
        seq = 1
        for _ in range(rng.randint(0, 3)):
            n = rng.randint(1, 3)
            messages = [{"seq": seq + i, "type": "text", "content": f"{seq + i}"} for i in range(n)]
            plan.append(("messages", {"messages": messages}))
            seq += n
        plan.append(("usage", {"usage": [{"model": "m", "input_tokens": 5}]}))
        if "failures" in self.sim.kinds and rng.random() < 0.35:
            plan.append(("fail", {"error": "x", "failure_reason": rng.choice(REASONS)}))
        else:
            plan.append(("complete", {"output": "done"}))
        return plan

    def _next(self, run: Run) -> None:
        verb, fields = run.plan[0]
        path = f"/api/daemon/tasks/{run.task_id}/{verb}"
        if verb == "prepare-lease":
            path = f"/api/daemon/runtimes/{self.machine.runtime_id}/tasks/{run.task_id}/prepare-lease"
        run.waiting = True

        def then(answer: Answer | None) -> None:
            run.waiting = False
            if self.runs.get(run.task_id) is not run or answer is None or answer.status >= 500:
                return
            if answer.status == 409 and answer.error != "contended":
                del self.runs[run.task_id]
            elif answer.status == 200:
                run.plan.pop(0)
                stopped = answer["stop"] and verb not in ("complete", "fail", "cancel-ack")
                if stopped:
                    run.plan = [("cancel-ack", {"branch_name": "b"})] if answer["status"] == "cancelled" else []
                if not run.plan:
                    del self.runs[run.task_id]
            else:
                raise Violation(f"{path} answered {answer}")

        self._send(verb, path, {**run.proof, **fields}, then)

    def _send(self, name: str, path: str, body: Any, then: Callable[[Answer | None], None]) -> None:
        request = Request(f"{self.machine.daemon_id}:{name}", "POST", path, body, self.machine.token, then)
        request.generation = (self, self.generation)
        self.sim.send(request)
