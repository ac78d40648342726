"""The runs this daemon answers for, each a folder in the state folder until the server has confirmed its end.

    runs/<task id>.<fence>/
        run.json       what is needed to speak for the run: ids, claim, how far it came      (no secret)
        spool.jsonl    its messages, see `spool`
        ending.json    how it ended, written before the first attempt to say so (the outbox)

A daemon that starts and finds such a folder knows exactly what its predecessor owed.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from callboard_daemon.files import private_dir, write_atomic
from callboard_wire.bodies import CancelAckRequest, ClaimedTask, CompleteRequest, FailRequest, UsageRow

T = TypeVar("T", bound=BaseModel)

log = logging.getLogger(__name__)

_RECORD: Final = "run.json"
_ENDING: Final = "ending.json"


class RunRecord(BaseModel):
    """`started`: the server was (or may have been) told that the run began. `run_id` marks its processes."""

    task_id: str
    runtime_id: str
    workspace_id: str
    agent_id: str
    provider: str
    server_url: str
    claim_id: str | None
    fence: int
    run_id: str
    started: bool = False
    work_dir: str = ""
    session_id: str = ""


class Ending(BaseModel):
    """The last words about a run: its usage, and exactly one of the three bodies."""

    kind: Literal["complete", "fail", "cancel_ack"]
    usage: list[UsageRow] = []
    complete: CompleteRequest | None = None
    fail: FailRequest | None = None
    cancel_ack: CancelAckRequest | None = None


class RunFolder:
    """One run on disk. A disk that refuses raises nothing: the run is then kept in memory, and `broken` says why."""

    def __init__(self, path: Path, record: RunRecord, broken: str = "") -> None:
        self.path = path
        self.record = record
        self.broken = broken
        self._ending: Ending | None = None

    @property
    def spool_file(self) -> Path:
        return self.path / "spool.jsonl"

    @property
    def ending(self) -> Ending | None:
        """How the run ended, once that is known; from memory or from a predecessor's disk."""
        if self._ending is None:
            self._ending = _load(self.path / _ENDING, Ending)
        return self._ending

    def update(self, **changes: object) -> None:
        """Change fields of the record. A disk that refuses costs only what a crash from now on would need."""
        self.record = self.record.model_copy(update=changes)
        try:
            write_atomic(self.path / _RECORD, self.record.model_dump_json().encode())
        except OSError as error:
            log.warning("cannot update %s: %s", self.path, error.strerror)

    def end(self, ending: Ending) -> None:
        """Write the ending down so that a restart delivers it; on a full disk it lives as long as this process."""
        self._ending = ending
        try:
            write_atomic(self.path / _ENDING, ending.model_dump_json(exclude_none=True).encode(), durable=True)
        except OSError as error:
            log.error("cannot write %s: %s; a restart before delivery would lose it", self.path, error.strerror)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def open_run(runs_dir: Path, task: ClaimedTask, server_url: str) -> RunFolder:
    """Begin to answer for a claimed task; `RunFolder.broken` is set when it could not be written down.

    A folder that is there already belongs to an earlier delivery of this very claim, whose processes are gone: the
    spool in it is kept, because its numbers have been used.
    """
    record = RunRecord(
        task_id=task.id,
        runtime_id=task.runtime_id,
        workspace_id=task.workspace_id,
        agent_id=task.agent_id,
        provider=task.provider,
        server_url=server_url,
        claim_id=task.claim_id,
        fence=task.fence,
        run_id=f"{task.id}.{task.fence}",
    )
    folder = runs_dir / record.run_id
    try:
        private_dir(private_dir(runs_dir) / record.run_id)
        write_atomic(folder / _RECORD, record.model_dump_json().encode())
    except OSError as error:
        return RunFolder(folder, record, f"the state folder {runs_dir} cannot be written: {error.strerror}")
    return RunFolder(folder, record)


def leftover_runs(runs_dir: Path) -> Iterator[RunFolder]:
    """The runs on disk, in no order. A folder without a readable record owes nothing that could be said; it goes."""
    for path in sorted(runs_dir.iterdir()) if runs_dir.is_dir() else ():
        record = _load(path / _RECORD, RunRecord)
        if record is not None:
            yield RunFolder(path, record)
        elif path.is_dir():
            log.warning("%s has no readable record; removing it", path)
            shutil.rmtree(path, ignore_errors=True)


def _load(path: Path, kind: type[T]) -> T | None:
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
