"""What must be true of the whole table at every instant, as one pure check over its items.

`callboard doctor --server` runs it over a live table, the simulation after every write. Items come as the table has
them (DynamoDB's typed JSON), because a check that read through the code it checks could not find its mistakes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from callboard_wire.states import HELD, MOVES, TERMINAL, WAITING, Move, TaskStatus

Raw = Mapping[str, Mapping[str, Any]]

HELD_VALUES: Final = frozenset(s.value for s in HELD)
TERMINAL_VALUES: Final = frozenset(s.value for s in TERMINAL)
WAITING_VALUES: Final = frozenset(s.value for s in WAITING)


@dataclass(frozen=True, slots=True)
class Offence:
    """A rule that does not hold, the thing it does not hold for, and what is there instead."""

    rule: str
    thing: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.thing}" + (f" ({self.detail})" if self.detail else "")


@dataclass(slots=True)
class _Table:
    tasks: dict[str, Raw] = field(default_factory=dict)
    slots: dict[str, Raw] = field(default_factory=dict)
    agents: dict[str, Raw] = field(default_factory=dict)
    pending: dict[tuple[str, str], str] = field(default_factory=dict)
    packs: dict[str, list[Raw]] = field(default_factory=lambda: defaultdict(list))


def check(items: Iterable[Raw]) -> list[Offence]:
    """Every offence against the rules below, in no particular order; empty is right.

    The items must be one consistent picture (one snapshot): two reads at different times show moves half done.
    """
    table = _sorted(items)
    return [
        *_slots(table),
        *_lanes(table),
        *_pending(table),
        *(offence for task_id, task in table.tasks.items() for offence in _task(task_id, task)),
        *_messages(table),
    ]


def _sorted(items: Iterable[Raw]) -> _Table:
    table = _Table()
    for item in items:
        pk, sk = _s(item, "pk"), _s(item, "sk")
        if pk.startswith("TK#") and sk == "T":
            table.tasks[pk[3:]] = item
        elif pk.startswith("TK#") and sk.startswith("M#"):
            table.packs[pk[3:]].append(item)
        elif pk.startswith("AG#") and sk == "SLOT":
            table.slots[pk[3:]] = item
        elif pk.startswith("WS#") and sk.startswith("AG#"):
            table.agents[sk[3:]] = item
        elif pk.startswith("PN#"):
            table.pending[pk[3:], sk] = _s(item, "tk")
    return table


# ── capacity ─────────────────────────────────────────────────────────────────


def _slots(table: _Table) -> Iterator[Offence]:
    held: dict[str, set[str]] = defaultdict(set)
    for task_id, task in table.tasks.items():
        if _s(task, "st") in HELD_VALUES:
            held[_s(task, "ag")].add(task_id)
    for agent_id in held.keys() | table.slots.keys():
        running = set(table.slots.get(agent_id, {}).get("run", {}).get("SS", ()))
        if running != held[agent_id]:
            detail = f"only in the slot {sorted(running - held[agent_id])}, missing {sorted(held[agent_id] - running)}"
            yield Offence("a slot holds the agent's running tasks and nothing else", f"agent {agent_id}", detail)
        agent = table.agents.get(agent_id)
        if agent is not None and len(running) > _n(agent, "mx"):
            yield Offence("capacity is never exceeded", f"agent {agent_id}", f"{len(running)} of {_n(agent, 'mx')}")


def _lanes(table: _Table) -> Iterator[Offence]:
    taken: dict[tuple[str, str], str] = {}
    for task_id, task in table.tasks.items():
        if _s(task, "st") not in HELD_VALUES or "ln" not in task:
            continue
        lane = (_s(task, "ag"), _s(task, "ln"))
        if lane in taken:
            yield Offence("one task at a time for an agent and an issue or chat", f"lane {lane}", task_id)
        taken[lane] = task_id
        if lane[1] not in table.slots.get(lane[0], {}).get("lns", {}).get("SS", ()):
            yield Offence("a running task's lane is taken", f"task {task_id}", lane[1])
    for agent_id, slot in table.slots.items():
        for name in slot.get("lns", {}).get("SS", ()):
            if (agent_id, name) not in taken:
                yield Offence("a taken lane has a running task", f"agent {agent_id}", name)


def _pending(table: _Table) -> Iterator[Offence]:
    queued: dict[tuple[str, str], str] = {}
    for task_id, task in table.tasks.items():
        if _s(task, "st") != TaskStatus.QUEUED or "is" not in task:
            continue
        place = (_s(task, "is"), _s(task, "ag"))
        if place in queued:
            yield Offence(
                "one queued task for an issue and an agent", f"issue {place[0]}", f"{queued[place]}, {task_id}"
            )
        queued[place] = task_id
        if table.pending.get(place) != task_id:
            yield Offence("a queued task holds its issue's place", f"task {task_id}", str(table.pending.get(place)))
    for place, task_id in table.pending.items():
        if queued.get(place) != task_id:
            yield Offence("an issue's place is held by a queued task", f"issue {place[0]}", task_id)


# ── a task by itself ─────────────────────────────────────────────────────────


def _task(task_id: str, task: Raw) -> Iterator[Offence]:
    status, thing = _s(task, "st"), f"task {task_id}"
    if status in TERMINAL_VALUES:
        left = [name for name in ("lu", "td", "rpk", "rsk") if name in task]
        if left:
            yield Offence("a task that has ended holds nothing", thing, ", ".join(left))
        if "et" not in task:
            yield Offence("a task that has ended says when", thing)
    if (status in WAITING_VALUES) != ("rpk" in task):
        yield Offence("a task is on the ready index while it waits, and only then", thing, status)
    if (status in ("dispatched", "waiting_local_directory")) != ("lu" in task):
        yield Offence("a task has a lease while it is prepared, and only then", thing, status)
    if status in HELD_VALUES and ("ci" not in task or "td" not in task or _n(task, "fn") < 1):
        yield Offence("a claimed task has a claim, a fence and a token", thing, status)
    yield from _moves(thing, task)


def _moves(thing: str, task: Raw) -> Iterator[Offence]:
    """The history is one path through the table of moves, its fences only rise, and it ends where the task is."""
    state: TaskStatus | None = None
    fence = 0
    for entry in (e["S"] for e in task.get("mv", {}).get("L", ())):
        name, _, number, _ = entry.split("|", 3)
        move = Move(name)
        sources, end = MOVES[move]
        if (state is None) != (not sources) or (state is not None and state not in sources):
            yield Offence("a task moves only as the table of moves allows", thing, f"{state} -{name}->")
        said = int(number or 0)
        rises = move in (Move.CLAIM, Move.RECLAIM)
        if said != fence + rises and not (said == 0 and not rises):
            yield Offence("a move is made under the latest claim", thing, f"{name} under fence {said} after {fence}")
        fence = max(fence, said)
        state = end
    if state is not None and state != _s(task, "st"):
        yield Offence("the history ends where the task is", thing, f"{state} and {_s(task, 'st')}")
    if fence != _n(task, "fn"):
        yield Offence("the fence is the number of claims", thing, f"{fence} and {_n(task, 'fn')}")


def _messages(table: _Table) -> Iterator[Offence]:
    """Under the last fence messages have no gap and no overlap; packs under older fences are nobody's transcript."""
    for task_id, packs in table.packs.items():
        task = table.tasks.get(task_id)
        if task is None:
            yield Offence("messages belong to a task", f"task {task_id}")
            continue
        prefix = f"M#{_n(task, 'fn'):06d}#"
        last = 0
        for pack in sorted((p for p in packs if _s(p, "sk").startswith(prefix)), key=lambda p: _s(p, "sk")):
            if _n(pack, "f") != last + 1:
                yield Offence("messages are gapless and in order", f"task {task_id}", f"{_n(pack, 'f')} after {last}")
            last = _n(pack, "l")


def _s(item: Raw, name: str) -> str:
    return str(item.get(name, {}).get("S", ""))


def _n(item: Raw, name: str) -> int:
    return int(float(item.get(name, {}).get("N", 0)))
