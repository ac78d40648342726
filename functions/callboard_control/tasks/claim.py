"""Claim: a runtime takes tasks. Every claim is one transaction whose conditions stand on the table's own items.

      claim ─────────── lease 45 s ──────────▶ expired: the same runtime is handed it again, or it is queued again
        │     renewed every 15 s while the daemon prepares    (either way with a new fence: the old claim is stale)
        └─ start: the lease is over, the runtime's liveness counts from here

Rows of the `ready` index are hints. A stale row, a lost race, a full agent or a busy lane never block what is behind,
and a task that can never run (`standing`) is ended by the claim that meets it.
"""

from __future__ import annotations

import base64
import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from callboard_control import ports
from callboard_control.actor import SYSTEM, Daemon
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed, StoreError
from callboard_control.store.models import AgentItem, PendingItem, SlotItem, TaskItem, WorkspaceItem
from callboard_control.tasks import conditions, lease, record, settle, slot
from callboard_control.tasks.places import Places
from callboard_control.tasks.ready import ReadyRow, ready_row
from callboard_control.tasks.standing import Refusal, Standing, misplaced
from callboard_wire.bodies import MAX_BATCH_CLAIM, PREPARE_LEASE_S
from callboard_wire.states import PREPARING, Move, TaskStatus

T = TaskItem
LOOK: Final = 60
"""Candidates read at a time; the claim goes on behind them when all are blocked."""
LOOK_AT_MOST: Final = 5000
REFUSE_AT_MOST: Final = 500
"""Tasks one claim ends because they can never run; more are left to the next, for this one has an answer to give."""
MANY: Final = 8
"""Claims of one agent's tasks within a second, from which on a claim takes it that it is not alone."""
logger: Final = logging.getLogger("callboard.claim")


@dataclass(frozen=True, slots=True)
class Claim:
    """A task in its claimer's hands. `token` is the task's own, shown here and never again."""

    task: TaskItem
    agent: AgentItem
    token: str
    workspace: WorkspaceItem | None = None


@dataclass(slots=True)
class _Round:
    """What one claim call has learnt, so that it does not try the same wall twice."""

    daemon: Daemon
    claim_id: str
    wanted: int
    standing: Standing
    fits: Callable[[Claim], bool]
    room: bool = True
    claims: list[Claim] = field(default_factory=list)
    places: Places = field(default_factory=Places)
    withdrawn: set[str] = field(default_factory=set)
    full: set[str] = field(default_factory=set)
    lanes: set[str] = field(default_factory=set)
    tried: set[str] = field(default_factory=set)
    refused: int = 0
    began: int = field(default_factory=ports.now_ms)
    outrun: bool = False
    lately: Counter[str] = field(default_factory=Counter)

    @property
    def enough(self) -> bool:
        return len(self.claims) >= self.wanted or not self.room

    def add(self, claim: Claim) -> None:
        self.claims.append(claim)
        self.room = self.fits(claim)


def claim(
    daemon: Daemon,
    runtime_ids: Collection[str],
    max_tasks: int,
    claim_id: str | None,
    fits: Callable[[Claim], bool] = lambda claim: True,
) -> list[Claim]:
    """Up to `max_tasks` (32 at most) tasks for these runtimes, most urgent first. `fits` is given each as it is claimed
    and says whether there is room for another: what is left in the queue is better off than what cannot be answered.

    Runtime ids that are not this daemon's are skipped. A `claim_id` that already holds tasks gets those again and no
    others: its answer was lost. Whatever was claimed is returned, even if a later step failed: an error would make the
    daemon claim again while these wait.
    """
    mine = [r for r in dict.fromkeys(runtime_ids) if r in daemon.runtimes]
    state = _Round(daemon, claim_id or keys.new_id(), min(max_tasks, MAX_BATCH_CLAIM), Standing(daemon), fits)
    if not mine or state.wanted <= 0:
        return []
    try:
        _take(state, mine, repeated=claim_id is not None)
    except StoreError:
        if not state.claims:
            raise
        logger.exception("a claim ended early", extra={"claimed": len(state.claims)})
    return state.claims


def _take(state: _Round, mine: list[str], *, repeated: bool) -> None:
    slots = slot.busy_slots(state.daemon.record)
    _hand_out_again(state, slots, mine, repeated=repeated)
    if state.claims:
        return
    for found in slots:  # read anyway: lanes that are taken need no try
        agent_id = found.pk.removeprefix("AG#")
        state.lanes.update(f"{agent_id}#{keys.shard_name(lane)}" for lane in found.lanes or ())
    for row, runtime_id in _candidates(state, mine):
        _try(state, runtime_id, row)
        if state.enough or state.refused >= REFUSE_AT_MOST:
            return


# ── again ────────────────────────────────────────────────────────────────────


def _hand_out_again(state: _Round, slots: list[SlotItem], mine: Collection[str], *, repeated: bool) -> None:
    """Tasks this claim already took, and tasks of these runtimes whose lease ran out before they were started."""
    now = ports.now_ms()
    held = slot.held_tasks(slots)
    state.places.saw(held)
    state.lately = Counter(t.agent_id for t in held if now - int(t.dispatched or 0) < 1000)
    for task in sorted(held, key=lambda t: (t.created or 0, t.id)):
        if state.enough or task.runtime_id not in mine or task.status not in PREPARING:
            continue
        same = repeated and task.claim_id == state.claim_id
        if not same and int(task.lease_until or 0) > now:
            continue
        state.standing.learn(task.agent_id, task.runtime_id)
        agent = state.standing.of(task)
        if isinstance(agent, Refusal):
            settle.fail(task, agent.reason, agent.message, SYSTEM, again=False)
            continue
        if not same and int(task.fence or 0) >= settle.MAX_CLAIMS:
            settle.give_up(task, SYSTEM)
            continue
        token, digest = _mint(task.id)
        renewed = lease.again(task, digest) if same else lease.reclaim(task, state.claim_id, digest)
        if renewed is not None:
            state.add(Claim(renewed, agent, token, state.standing.workspace))


# ── anew ─────────────────────────────────────────────────────────────────────


def _candidates(state: _Round, mine: list[str]) -> Iterator[tuple[ReadyRow, str]]:
    """(ready row, runtime) in turn order over all runtimes, skipping rows of full agents and taken lanes unread."""
    cursors: dict[str, str | None] = dict.fromkeys(mine)
    seen = 0
    while cursors and seen < LOOK_AT_MOST:
        rows: list[tuple[ReadyRow, str]] = []
        for runtime_id in list(cursors):
            if runtime_id in state.withdrawn or state.places.closed(runtime_id):
                del cursors[runtime_id]
                continue
            page = table.rows(T.ready_index, keys.ready_of(runtime_id), limit=LOOK, cursor=cursors[runtime_id])
            rows += [(ready_row(row), runtime_id) for row in page.items]
            if page.cursor is None:
                del cursors[runtime_id]
            else:
                cursors[runtime_id] = page.cursor
        seen += len(rows)
        rows.sort()
        _spread(state, rows)
        while rows:
            row, runtime_id = rows.pop(0)
            if not _blocked(state, row, runtime_id):
                state.outrun = False
                yield row, runtime_id
                # Losing the head means others are at the same rows: go on somewhere else, not to the next together. A
                # wall, or a row left over from long ago, means nothing of the kind, and the order stays.
                if state.outrun:
                    random.shuffle(rows)


def _spread(state: _Round, rows: list[tuple[ReadyRow, str]]) -> None:
    """Where many of the first agent's tasks were claimed within the last second, others are claiming beside us: begin
    anywhere on the page. They start within moments of each other in any order, and a collision costs write units."""
    if rows and state.lately[rows[0][0].agent_id] >= MANY:
        random.shuffle(rows)


def _blocked(state: _Round, row: ReadyRow, runtime_id: str) -> bool:
    lane = bool(row.lane) and f"{row.agent_id}#{row.lane}" in state.lanes
    known = lane or row.agent_id in state.full or row.task_id in state.tried or runtime_id in state.withdrawn
    return known or not state.places.admits(runtime_id, row.task_id)


def _try(state: _Round, runtime_id: str, row: ReadyRow) -> None:
    """One attempt at one candidate; whatever stands in its way is remembered and never raised."""
    state.tried.add(row.task_id)
    task, found = state.standing.read(row.task_id, row.agent_id, runtime_id)
    if task is None or task.status != TaskStatus.QUEUED or task.rpk != keys.ready_of(runtime_id):
        # The row is older than the task: somebody was faster, in this very moment or before an index that lags.
        state.outrun = task is not None and int(task.dispatched or 0) >= state.began
        return
    if state.standing.is_withdrawn(runtime_id):
        state.withdrawn.add(runtime_id)
        return
    agent = misplaced(task, row, runtime_id) or state.standing.of(task)
    if isinstance(agent, Refusal):
        task.id = row.task_id  # it is found, and ended, by its key
        settle.refuse(task, agent.reason, agent.message)
        state.refused += 1
        return
    if _wall(state, found, agent, task):
        return  # seen without a write, which would cost units to be refused
    if not _room(state, task):
        return
    token, digest = _mint(task.id)
    now = ports.now_ms()
    try:
        table.transact(_writes(state, task, agent, digest, now))
    except ConditionFailed as e:
        if 1 in e.failed:
            found = table.get(SlotItem, f"AG#{task.agent_id}", "SLOT")
            _wall(state, found, agent, task)
        state.outrun = 0 in e.failed
        twin = _twins(state, task, digest) if state.outrun else None
        if twin is None:
            return
        state.places.used(runtime_id)
        state.add(Claim(twin, agent, token, state.standing.workspace))
        return
    state.places.used(runtime_id)
    state.add(Claim(_claimed(task, state, now), agent, token, state.standing.workspace))


def _claimed(task: TaskItem, state: _Round, now: int) -> TaskItem:
    """The task as the transaction left it; reading it back would cost a call on every claim."""
    task.status, task.dispatched, task.claim_id = TaskStatus.DISPATCHED.value, now, state.claim_id
    task.fence = int(task.fence or 0) + 1
    return task


def _writes(state: _Round, task: TaskItem, agent: AgentItem, digest: str, now: int) -> list[table.Write]:
    fence = int(task.fence or 0) + 1
    unclaimed = conditions.all_of(conditions.in_state(TaskStatus.QUEUED.value), conditions.fence_is(task))
    writes: list[table.Write] = [
        table.Update(
            record.keyed(task.id),
            [
                T.status.set(TaskStatus.DISPATCHED.value),
                T.dispatched.set(now),
                T.lease_until.set(now + int(PREPARE_LEASE_S * 1000)),
                T.fence.set(fence),
                T.claim_id.set(state.claim_id),
                T.token_digests.set({digest}),
                record.moved(Move.CLAIM, now, "", fence),
                T.rpk.remove(),
                T.rsk.remove(),
            ],
            unclaimed,
        ),
        slot.take(task, state.daemon.record, int(agent.max_concurrent_tasks)),
    ]
    if task.issue_id:
        place = PendingItem(f"PN#{task.issue_id}", task.agent_id)
        writes.append(table.Delete(place))
    return writes


def _wall(state: _Round, found: SlotItem | None, agent: AgentItem, task: TaskItem) -> bool:
    """Whether the slot has no place for the task; remembered, so that no row behind the same wall is tried."""
    if found is None:
        return False
    if found.closed is not None or len(found.running or ()) >= int(agent.max_concurrent_tasks):
        state.full.add(task.agent_id)
        return True
    if task.lane and task.lane in (found.lanes or ()):
        state.lanes.add(f"{task.agent_id}#{keys.shard_name(task.lane)}")
        return True
    return False


def _room(state: _Round, task: TaskItem) -> bool:
    """Whether the task's runtime takes one more; where it has a limit, a place is taken for the task."""
    runtime = state.standing.runtime(task.runtime_id)
    limit = runtime.max_concurrent_tasks if runtime is not None else None
    return limit is None or state.places.take(task.runtime_id, int(limit), task.id)


def _twins(state: _Round, task: TaskItem, digest: str) -> TaskItem | None:
    """The task as the very same claim has taken it in another call at the same time, now with this call's token too."""
    found = record.load(task.id)
    return lease.again(found, digest) if found is not None and found.claim_id == state.claim_id else None


def _mint(task_id: str) -> tuple[str, str]:
    token, digest = keys.mint(keys.TASK, task_id)
    return token, encode_digest(digest)


def encode_digest(digest: bytes) -> str:
    return base64.b64encode(digest).decode().rstrip("=")
