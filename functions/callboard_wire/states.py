"""A task's states and the only moves between them.

    (new) ──enqueue──▶ queued ──claim──▶ dispatched ──start──▶ running ──complete──▶ completed
      │                 ▲  ▲               │   │  ▲               │
      └─defer─▶ deferred┘  └───requeue─────┘   │  └wait─ …        ├──fail──▶ failed
                (promote)                      └─▶ waiting_local_directory
    cancel leads from every state that is not terminal to cancelled.

A wish ("stop was asked for") is never a state. The store names the state a move starts from in the condition of its
one write; `MOVES` is the table those conditions are built from, and every pair that is not in it is refused.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class TaskStatus(StrEnum):
    DEFERRED = "deferred"  # waits for a time or for a machine
    QUEUED = "queued"  # may be claimed
    DISPATCHED = "dispatched"  # claimed, being prepared, under a lease
    WAITING_LOCAL_DIRECTORY = "waiting_local_directory"  # claimed, waits for a folder another run holds
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL

    @property
    def held(self) -> bool:
        """A claim lives: the task occupies a place of its agent's capacity."""
        return self in HELD


class Move(StrEnum):
    ENQUEUE = "enqueue"
    DEFER = "defer"
    PROMOTE = "promote"
    CLAIM = "claim"
    RECLAIM = "reclaim"
    REQUEUE = "requeue"
    WAIT = "wait"
    START = "start"
    COMPLETE = "complete"
    FAIL = "fail"
    EXPIRE = "expire"
    REFUSE = "refuse"
    CANCEL = "cancel"


_S = TaskStatus

TERMINAL: Final = frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLED})
HELD: Final = frozenset({_S.DISPATCHED, _S.WAITING_LOCAL_DIRECTORY, _S.RUNNING})
PREPARING: Final = frozenset({_S.DISPATCHED, _S.WAITING_LOCAL_DIRECTORY})
WAITING: Final = frozenset({_S.DEFERRED, _S.QUEUED})
ACTIVE: Final = frozenset(TaskStatus) - TERMINAL

MOVES: Final[dict[Move, tuple[frozenset[TaskStatus], TaskStatus]]] = {
    # An empty "from" is a task that does not exist yet.
    Move.ENQUEUE: (frozenset(), _S.QUEUED),
    Move.DEFER: (frozenset(), _S.DEFERRED),
    Move.PROMOTE: (frozenset({_S.DEFERRED}), _S.QUEUED),
    Move.CLAIM: (frozenset({_S.QUEUED}), _S.DISPATCHED),
    # The answer to a claim was lost: the same runtime is handed the same task again.
    Move.RECLAIM: (PREPARING, _S.DISPATCHED),
    # The lease ran out, or the daemon was restarted before it came to start.
    Move.REQUEUE: (PREPARING, _S.QUEUED),
    Move.WAIT: (frozenset({_S.DISPATCHED}), _S.WAITING_LOCAL_DIRECTORY),
    Move.START: (PREPARING, _S.RUNNING),
    Move.COMPLETE: (frozenset({_S.RUNNING}), _S.COMPLETED),
    Move.FAIL: (HELD, _S.FAILED),
    # Nobody held it and it waited too long.
    Move.EXPIRE: (WAITING, _S.FAILED),
    # A claim met it and found that it can never run: its agent, runtime or owner is gone.
    Move.REFUSE: (WAITING, _S.FAILED),
    Move.CANCEL: (ACTIVE, _S.CANCELLED),
}


def allowed(move: Move, start: TaskStatus | None) -> bool:
    """Whether `move` may begin in `start` (None: the task does not exist yet)."""
    sources, _ = MOVES[move]
    return start in sources if start is not None else not sources
