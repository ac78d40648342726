"""The control plane under everything that goes wrong at once, in virtual time, the same for the same seed.

Real handlers on the embedded engine; simulated are only the daemons, the people, the network between, and time. After
every write the whole table is held against `callboard_control.tasks.invariants`. Then the world calms down, and every
task that was accepted must have ended.
"""

from __future__ import annotations

import random
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from callboard_control.embedded.engine.faults import Fault
from callboard_control.store import keys
from callboard_control.store.errors import StoreError
from callboard_control.tasks import invariants
from tests.fakes.sim_world import Answer, Clock, Machine, World
from tests.simulation.baton import Baton, Call, virtual_sleep

TERMINAL = ("completed", "failed", "cancelled")
WAITING = ("queued", "deferred")
RUNTIME_LIMIT = 2
"""Fewer than the first machine's two agents may run together."""
REASONS = (
    "agent_error.provider_network",
    "agent_error.provider_auth_or_access",
    "runtime_recovery",
    "runtime_offline",
    "codex_semantic_inactivity",
    "timeout",
    "iteration_limit",
)
KINDS = (
    "lost_request",
    "lost_answer",
    "duplicate",
    "delay",
    "stall",
    "daemon_crash",
    "gateway_crash",
    "engine_faults",
    "index_lag",
    "time_jumps",
    "cancel",
    "issues",
    "failures",
    "two_daemons",
    "old_daemon",
    "runtime_limit",
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


class Daemon:
    """A daemon: claims, works through each run's plan one call at a time, repeats what was not answered."""

    def __init__(self, sim: Simulation, machine: Machine, old: bool) -> None:
        self.sim, self.machine, self.old = sim, machine, old
        self.runs: dict[str, Run] = {}
        self.generation = 0
        self.claim_id = ""
        self.claiming = False
        self.recovering = False

    def act(self) -> None:
        idle = [r for r in self.runs.values() if not r.waiting]
        if self.recovering:
            return
        if idle and self.sim.rng.random() < 0.75:
            self._next(self.sim.rng.choice(idle))
        elif not self.claiming and len(self.runs) < 5:
            self._claim()

    def crash(self) -> None:
        """Everything in memory is gone. After the restart it says that it runs nothing."""
        self.generation += 1
        self.runs.clear()
        self.claiming, self.claim_id = False, ""
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
        self.claiming = True
        self.claim_id = self.claim_id or f"c{self.sim.number()}"
        body = {
            "daemon_id": self.machine.daemon_id,
            "runtime_ids": [self.machine.runtime_id],
            "max_tasks": self.sim.rng.randint(1, 3),
        }
        if not self.old:
            body["claim_id"] = self.claim_id
        self._send("claim", "/api/daemon/tasks/claim", body, self._claimed)

    def _claimed(self, answer: Answer | None) -> None:
        self.claiming = False
        if answer is None or answer.status >= 500:
            return  # the same claim id again, next time
        self.claim_id = ""
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


class Simulation:
    """One seed's world. `run` goes through the storm and the calm after it."""

    def __init__(self, seed: int, steps: int = 600, kinds: tuple[str, ...] = KINDS, folder: Path | None = None) -> None:
        self.seed, self.steps, self.kinds = seed, steps, kinds
        self.rng = random.Random(seed)
        self.clock = Clock()
        self.history: list[str] = []
        self.accepted: set[str] = set()
        self.calls: list[Call] = []
        self.step = 0
        self.operations = 0
        self._numbers = 0
        self._mirror: dict[tuple[str, str], Any] = {}
        self._folder = tempfile.TemporaryDirectory() if folder is None else None
        self._path = Path(self._folder.name if self._folder else folder or ".") / "sim.sqlite"
        rates = {Fault.CONFLICT: 0.04, Fault.THROTTLING: 0.01, Fault.LOST_RESPONSE: 0.02, Fault.LOST_REQUEST: 0.02}
        self.baton = Baton(
            self.rng,
            rates if "engine_faults" in kinds else {},
            lag_writes=12 if "index_lag" in kinds else 0,
        )

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    # ── storm and calm ───────────────────────────────────────────────────────

    def run(self) -> None:
        # The claim shuffles after a lost race, and ids decide ties: both by this seed.
        random.seed(self.seed)
        keys.use_source(self.clock, random.Random(self.seed).getrandbits)
        try:
            with virtual_sleep(self.baton):
                self._set_up()
                for _ in range(self.steps):
                    self._step()
                self._calm_down()
        except Violation as e:
            raise Violation(f"{e}\n{self.script()}") from e
        finally:
            keys.use_source(keys.system_clock, secrets.randbits)
            for call in self.calls:
                self.baton.crash(call)
            if hasattr(self, "world"):
                self.world.close()
            if self._folder is not None:
                self._folder.cleanup()

    def script(self) -> str:
        """What led here, short enough to read."""
        told = "\n".join(f"    {line}" for line in self.history[-30:])
        return f"seed {self.seed}, step {self.step}, with {' '.join(self.kinds)}:\n{told}"

    def _set_up(self) -> None:
        self.world = World(self._path, clock=self.clock, faults=self.baton)
        names = ["d1", "d2"] if "two_daemons" in self.kinds else ["d1"]
        old = "old_daemon" in self.kinds
        self.daemons = [Daemon(self, self.world.machine(n), old and n == "d2") for n in names]
        for n, daemon in enumerate(self.daemons):
            self.world.agent(f"a{n}", daemon.machine, max_concurrent_tasks=2)
            self.world.agent(f"b{n}", daemon.machine, max_concurrent_tasks=1)
        self.agents = [f"{x}{n}" for n in range(len(self.daemons)) for x in "ab"]
        if "runtime_limit" in self.kinds:
            limit = {"max_concurrent_tasks": RUNTIME_LIMIT}
            self.world.ok("PATCH", f"/api/runtimes/{self.daemons[0].machine.runtime_id}", limit)
        self._reflect()

    def _step(self) -> None:
        self.step += 1
        ready = [c for c in self.calls if c.not_before <= self.step]
        if ready and self.rng.random() < 0.8:
            self._go_on(self.rng.choice(ready))
            return
        roll = self.rng.random()
        if roll < 0.2:
            self._enqueue()
        elif roll < 0.75:
            self.rng.choice(self.daemons).act()
        elif roll < 0.79:
            self._start(Call("tick", self._tick))
        elif roll < 0.84 and "cancel" in self.kinds:
            self._cancel()
        elif roll < 0.85 and "daemon_crash" in self.kinds:
            daemon = self.rng.choice(self.daemons)
            self.tell(f"{daemon.machine.daemon_id} crashes")
            daemon.crash()
        elif roll < 0.855 and "gateway_crash" in self.kinds:
            self._gateway_crash()
        else:
            self._time_passes()

    def _calm_down(self) -> None:
        """Faults stop, daemons restart, time goes on: now everything accepted must end."""
        self.baton.calm = True
        self.tell("calm")
        while self.calls:
            self._go_on(self.calls[0])
        for daemon in self.daemons:
            daemon.crash()
            self._drain()
        for _ in range(400):
            active = [t for t in self._tasks() if t["st"]["S"] not in TERMINAL]
            if not active:
                break
            for daemon in self.daemons:
                for _ in range(12):
                    daemon.act()
                    self._drain()
            self.clock.forward(3)
            self._start(Call("tick", self._tick))
            self._drain()
        self._everything_ended()

    def _drain(self) -> None:
        while self.calls:
            self._go_on(self.calls[0])

    def _everything_ended(self) -> None:
        known = {t["id"]["S"]: t for t in self._tasks()}
        for task_id in self.accepted - known.keys():
            raise Violation(f"task {task_id} was accepted and is gone")
        for task_id, task in known.items():
            if task["st"]["S"] not in TERMINAL:
                why = self.world.task(task_id)["waiting"]
                raise Violation(f"task {task_id} never ended: {task['st']['S']}, {why}")

    # ── actors ───────────────────────────────────────────────────────────────

    def _enqueue(self) -> None:
        if sum(t["st"]["S"] not in TERMINAL for t in self._tasks()) > 12:
            return
        body: dict[str, Any] = {
            "agent": self.rng.choice(self.agents),
            "prompt": f"p{self.number()}",
            "priority": self.rng.choice([0, 0, 0, 2, 4]),
            "idempotency_key": f"k{self.number()}",
        }
        if "issues" in self.kinds and self.rng.random() < 0.5:
            body["issue_id"] = f"i{self.rng.randint(1, 2)}"

        def then(answer: Answer | None) -> None:
            if answer is None or answer.status in (409, 503):
                if not self.baton.calm and answer is None:
                    self.send(replace(request, answered=False))
            else:
                self.accepted.add(answer["id"])

        request = Request("enqueue", "POST", "/api/tasks", body, self.world.token, then)
        self.send(request)

    def _tick(self) -> None:
        """A sweep the store gave no answer ends there; the next one goes on."""
        try:
            self.world.tick()
        except StoreError:
            self.tell("a tick ends at a silent store")

    def _cancel(self) -> None:
        tasks = [t["id"]["S"] for t in self._tasks()]
        if tasks:
            path = f"/api/tasks/{self.rng.choice(tasks)}/cancel"
            self.send(Request("cancel", "POST", path, None, self.world.token, lambda _: None))

    def _time_passes(self) -> None:
        seconds = self.rng.choice([0.1, 0.5, 1, 2])
        if "time_jumps" in self.kinds and self.rng.random() < 0.12:
            seconds = self.rng.choice([16, 30, 46, 46, 50, 50, 200, 7300, -5])
        self.clock.forward(seconds)
        self.tell(f"{seconds} s pass")

    def _gateway_crash(self) -> None:
        self.tell("the gateway crashes")
        for call in self.calls:
            self.baton.crash(call)
        crashed, self.calls = self.calls, []
        self.world.close()
        before = dict(self._mirror)
        self.world.open()
        self._reflect()
        if before != self._mirror:
            raise Violation("the reopened table is not what was answered for")
        for call in crashed:
            if call.name != "tick":
                self._finished(call, None)

    # ── the network ──────────────────────────────────────────────────────────

    def send(self, request: Request) -> None:
        roll = self.rng.random() if not self.baton.calm else 1.0
        if roll < 0.04 and "lost_request" in self.kinds:
            self.tell(f"{request.name} is lost on its way")
            self._deliver(request, None)
        elif roll < 0.08 and "duplicate" in self.kinds:
            self.tell(f"{request.name} arrives twice")
            self._dispatch(request)
            self._dispatch(request)
        elif roll < 0.12 and "delay" in self.kinds:
            self.tell(f"{request.name} is late")
            self._dispatch(request, late=self.rng.randint(20, 150))
            self._deliver(request, None)
        else:
            self._dispatch(request)

    def _dispatch(self, request: Request, late: int = 0) -> None:
        def work() -> Answer:
            return self.world.call(request.method, request.path, request.body, request.token)

        call = Call(request.name, work)
        call.not_before = self.step + late
        call.request = request  # type: ignore[attr-defined]  # what the answer is delivered to
        call.stale = self._is_stale(request)  # type: ignore[attr-defined]  # as of its arrival
        self._start(call)

    def _start(self, call: Call) -> None:
        self.calls.append(call)
        self.baton.start(call)

    def _go_on(self, call: Call) -> None:
        self.operations += 1
        self.baton.resume(call)
        if call.wrote is not None:
            self._reflect_written(call)
        elif "stall" in self.kinds and not self.baton.calm and self.rng.random() < 0.02:
            # A function that was frozen between its look and its write, long enough for a lease to run out.
            call.not_before = self.step + self.rng.randint(30, 200)
        if call.done:
            self.calls.remove(call)
            if call.failure is not None:
                raise Violation(f"{call.name} raised {call.failure!r}") from call.failure
            self._finished(call, call.answer)

    def _finished(self, call: Call, answer: Answer | None) -> None:
        request: Request | None = getattr(call, "request", None)
        if request is None:
            return
        if answer is not None:
            self.tell(f"{request.name} {request.path.rsplit('/', 2)[-2][:8]} -> {answer.status} {answer.error}")
            if answer.status == 500:
                raise Violation(f"{request.name} answered 500")
            if call.stale and answer.status == 200:  # type: ignore[attr-defined]
                raise Violation(f"{request.name} under an old fence was answered 200")
        if answer is not None and not self.baton.calm and "lost_answer" in self.kinds and self.rng.random() < 0.05:
            self.tell(f"{request.name}: the answer is lost")
            answer = None
        self._deliver(request, answer)

    def _deliver(self, request: Request, answer: Answer | None) -> None:
        if request.answered:
            return
        request.answered = True
        if request.generation is not None and request.generation[0].generation != request.generation[1]:  # type: ignore[attr-defined]
            return  # whoever asked has crashed since
        request.then(answer)

    def _is_stale(self, request: Request) -> bool:
        fence = request.body.get("fence") if isinstance(request.body, dict) else None
        if fence is None:
            return False
        parts = request.path.split("/")
        item = self._mirror.get((f"TK#{parts[parts.index('tasks') + 1]}", "T"), {})
        return int(item.get("fn", {}).get("N", 0)) != fence

    # ── looking ──────────────────────────────────────────────────────────────

    def tell(self, line: str) -> None:
        self.history.append(f"{self.step}: {line}")

    def _tasks(self) -> list[Any]:
        return [item for (pk, sk), item in self._mirror.items() if sk == "T" and pk.startswith("TK#")]

    def _reflect(self) -> None:
        items = self.world.engine.execute("Scan", {"TableName": "callboard"})["Items"]
        self._mirror = {(i["pk"]["S"], i["sk"]["S"]): i for i in items}

    def _reflect_written(self, call: Call) -> None:
        for key in _written(call.wrote or {}):
            found = self.world.engine.execute("GetItem", {"TableName": "callboard", "Key": key, "ConsistentRead": True})
            place = key["pk"]["S"], key["sk"]["S"]
            before, after = self._mirror.pop(place, None), found.get("Item")
            if after is not None:
                self._mirror[place] = after
            self._terminal_stays(before, after)
        offences = invariants.check(self._mirror.values())
        if offences:
            raise Violation(f"after a write of {call.name}: " + "; ".join(map(str, offences)))
        self._within_limit(call)

    def _within_limit(self, call: Call) -> None:
        """Not one of the doctor's rules: a limit that is lowered is passed by what runs already."""
        if "runtime_limit" not in self.kinds or not hasattr(self, "daemons"):
            return
        here = [t for t in self._tasks() if t["rt"]["S"] == self.daemons[0].machine.runtime_id]
        held = [t["id"]["S"] for t in here if t["st"]["S"] not in (*TERMINAL, *WAITING)]
        if len(held) > RUNTIME_LIMIT:
            raise Violation(f"after a write of {call.name}: the runtime holds {held}, its limit is {RUNTIME_LIMIT}")

    @staticmethod
    def _terminal_stays(before: Any, after: Any) -> None:
        if before is None or before.get("st", {}).get("S") not in TERMINAL:
            return
        if after is None or after["st"] != before["st"] or after.get("mv") != before.get("mv"):
            raise Violation(f"the ended task {before['id']['S']} was moved")


def _written(request: Any) -> list[Any]:
    """Keys a write request names, whichever operation it is."""
    if "TransactItems" in request:
        bodies = [
            body for entry in request["TransactItems"] for kind, body in entry.items() if kind != "ConditionCheck"
        ]
    else:
        bodies = [request]
    return [b["Key"] if "Key" in b else {"pk": b["Item"]["pk"], "sk": b["Item"]["sk"]} for b in bodies]


def simplest(seed: int, steps: int) -> str:
    """The failing seed told as briefly as it can be: kinds of trouble it does not need are taken away one by one."""
    kinds = list(KINDS)
    told = "the seed passes"
    for kind in [None, *KINDS]:
        fewer = tuple(k for k in kinds if k != kind)
        try:
            Simulation(seed, steps, fewer).run()
        except Violation as e:
            kinds, told = list(fewer), str(e)
    return told
