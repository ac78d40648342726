"""The control plane under everything that goes wrong at once, in virtual time, the same for the same seed.

Real handlers on the embedded engine; simulated are only the daemons, the people, the network between, and time. After
every write the whole table is held against `callboard_control.tasks.invariants`. Then the world calms down, and every
task that was accepted must have ended.
"""

from __future__ import annotations

import random
import secrets
import tempfile
from pathlib import Path

from callboard_control.embedded.engine.faults import Fault
from callboard_control.store import keys
from callboard_control.store.errors import StoreError
from tests.fakes.sim_world import Answer, Clock, World
from tests.simulation.actors import Daemon, Request, Violation
from tests.simulation.baton import Baton, Call, virtual_sleep
from tests.simulation.client import take_the_short_way
from tests.simulation.mirror import Mirror
from tests.simulation.people import People

RUNTIME_LIMIT = 2
"""Fewer than the first machine's two agents may run together."""
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
    "chats",
    "moves",
    "failures",
    "two_daemons",
    "old_daemon",
    "runtime_limit",
    "reruns",
    "owner_leaves",
)


class Simulation:
    """One seed's world. `run` goes through the storm and the calm after it."""

    def __init__(self, seed: int, steps: int = 600, kinds: tuple[str, ...] = KINDS, folder: Path | None = None) -> None:
        self.seed, self.steps, self.kinds = seed, steps, kinds
        self.rng = random.Random(seed)
        self.clock = Clock()
        self.history: list[str] = []
        self.calls: list[Call] = []
        self.step = 0
        self.operations = 0
        self._numbers = 0
        self.mirror = Mirror()
        self._folder = tempfile.TemporaryDirectory() if folder is None else None
        self._path = Path(self._folder.name if self._folder else folder or ".") / "sim.sqlite"
        rates = {Fault.CONFLICT: 0.04, Fault.THROTTLING: 0.01, Fault.LOST_RESPONSE: 0.02, Fault.LOST_REQUEST: 0.02}
        self.baton = Baton(
            self.rng,
            rates if "engine_faults" in kinds else {},
            lag_writes=12 if "index_lag" in kinds else 0,
        )

    @property
    def calm(self) -> bool:
        return self.baton.calm

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
        self._choose_way()
        names = ["d1", "d2"] if "two_daemons" in self.kinds else ["d1"]
        old = "old_daemon" in self.kinds
        self.daemons = [Daemon(self, self.world.machine(n), old and n == "d2") for n in names]
        for n, daemon in enumerate(self.daemons):
            self.world.agent(f"a{n}", daemon.machine, max_concurrent_tasks=3)
            self.world.agent(f"b{n}", daemon.machine, max_concurrent_tasks=1)
        self.people = People(self, [f"{x}{n}" for n in range(len(self.daemons)) for x in "ab"])
        if "runtime_limit" in self.kinds:
            runtime_id = self.daemons[0].machine.runtime_id
            self.world.ok("PATCH", f"/api/runtimes/{runtime_id}", {"max_concurrent_tasks": RUNTIME_LIMIT})
            self.mirror.limits[runtime_id] = RUNTIME_LIMIT
        self.mirror.look(self.world.engine)

    def _choose_way(self) -> None:
        if self.seed % 8:
            take_the_short_way(self.world.engine, self.baton.sleep)

    def _step(self) -> None:
        self.step += 1
        ready = [c for c in self.calls if c.not_before <= self.step]
        if ready and self.rng.random() < 0.8:
            self._go_on(self.rng.choice(ready))
            return
        roll = self.rng.random()
        if roll < 0.2:
            self.people.enqueue()
        elif roll < 0.75:
            self.rng.choice(self.daemons).act()
        elif roll < 0.79:
            self._start(Call("tick", self._tick))
        elif roll < 0.84 and "cancel" in self.kinds:
            self.people.cancel()
        elif roll < 0.85 and "daemon_crash" in self.kinds:
            daemon = self.rng.choice(self.daemons)
            self.tell(f"{daemon.machine.daemon_id} crashes")
            daemon.crash()
        elif roll < 0.855 and "gateway_crash" in self.kinds:
            self._gateway_crash()
        elif roll < 0.88 and "reruns" in self.kinds:
            self.people.rerun()
        elif roll < 0.9 and "owner_leaves" in self.kinds:
            self.people.owner_leaves_or_returns()
        elif roll < 0.93 and "moves" in self.kinds:
            self.people.move()
        else:
            self._time_passes()

    def _calm_down(self) -> None:
        """Faults stop, daemons restart, time goes on: now everything accepted must end."""
        self.baton.calm = True
        self.tell("calm")
        if self.people.owner_left:
            self.people.owner_leaves_or_returns()
        self._drain()
        for daemon in self.daemons:
            daemon.crash()
            self._drain()
        for _ in range(400):
            if not self.mirror.active():
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
        for task_id in self.people.accepted - {t["id"]["S"] for t in self.mirror.tasks()}:
            raise Violation(f"task {task_id} was accepted and is gone")
        for task in self.mirror.active():
            why = self.world.task(task["id"]["S"])["waiting"]
            raise Violation(f"task {task['id']['S']} never ended: {task['st']['S']}, {why}")

    # ── what happens ─────────────────────────────────────────────────────────

    def _tick(self) -> None:
        """A sweep the store gave no answer ends there; the next one goes on."""
        try:
            self.world.tick()
        except StoreError:
            self.tell("a tick ends at a silent store")

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
        self.world.open()
        self._choose_way()
        self.mirror.look_again(self.world.engine)
        for call in crashed:
            if call.name != "tick":
                self._finished(call, None)

    # ── the network ──────────────────────────────────────────────────────────

    def send(self, request: Request) -> None:
        roll = self.rng.random() if not self.calm else 1.0
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
            self.mirror.take_in(self.world.engine, call.wrote, call.name)
        elif "stall" in self.kinds and not self.calm and self.rng.random() < 0.02:
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
        if answer is not None and not self.calm and "lost_answer" in self.kinds and self.rng.random() < 0.05:
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
        return bool(self.mirror.fence_of(parts[parts.index("tasks") + 1]) != fence)

    def tell(self, line: str) -> None:
        self.history.append(f"{self.step}: {line}")


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
