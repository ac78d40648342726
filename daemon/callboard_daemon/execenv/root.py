"""The env root: one folder a task, owned by it and locked while a run uses it.

    <workspaces root>/<workspace id>/<task key>/
        workdir/              the agent's cwd
        tmp/                  its TMPDIR, 0700
        .task_owner           the task the folder belongs to
        .task_lock            held by the daemon for the whole run
        .managed_env.json     whose work lies in it: what a later task must match to go on there

The key is the *end* of the task id. Ids that begin with a time give tasks of one burst the same head: two of them once
shared a folder and one wiped the other's work.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from callboard_daemon.errors import PrepareError
from callboard_daemon.files import PRIVATE_DIR, private_dir, write_atomic
from callboard_wire.bodies import ClaimedTask
from callboard_wire.failures import FailureReason

KEY_LENGTH: Final = 12
_OWNER: Final = ".task_owner"
_LOCK: Final = ".task_lock"
_PROVENANCE: Final = ".managed_env.json"
_BOOKKEEPING: Final = frozenset({_OWNER, _LOCK, _PROVENANCE})


@dataclass(frozen=True, slots=True)
class EnvRoot:
    """A prepared folder. `reused`: its workdir is the prior run's. `release` once the run is over."""

    path: Path
    reused: bool
    lock: FileLock

    @property
    def workdir(self) -> Path:
        return self.path / "workdir"

    @property
    def tmp(self) -> Path:
        return self.path / "tmp"

    def release(self) -> None:
        self.lock.release()


def task_key(task_id: str) -> str:
    """The last 12 characters of the id that a file name may hold (for a UUID: of its random part)."""
    return re.sub(r"[^A-Za-z0-9]", "", task_id)[-KEY_LENGTH:] or "task"


def open_root(workspaces_root: Path, task: ClaimedTask, *, patience: float = 15.0) -> EnvRoot:
    """The task's env root, locked, with an empty workdir or the prior run's.

    `patience` (seconds) is for a task that was delivered again while its earlier run, which has lost it, is still
    being stopped here.

    Raises `PrepareError` when the folder belongs to somebody else or is in use, `OSError` for what the disk refuses.
    """
    workspace = workspaces_root / _segment(task.workspace_id)
    workspace.mkdir(parents=True, exist_ok=True)
    prior = _prior_root(workspace, task)
    root = _lock(prior, reused=True, patience=0) if prior is not None else None
    if root is None or not _same_work(root.path, task):
        if root is not None:
            root.release()
        root = _own(workspace / task_key(task.id), task.id, patience)
    try:
        root.workdir.mkdir(exist_ok=True)
        shutil.rmtree(root.tmp, ignore_errors=True)
        root.tmp.mkdir(mode=PRIVATE_DIR)
        write_atomic(root.path / _PROVENANCE, json.dumps(_provenance(task)).encode(), mode=0o644)
    except BaseException:  # an interrupt too: the folder must not stay locked
        root.release()
        raise
    return root


def _segment(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]*", name):
        raise PrepareError(
            f"the workspace id {name!r} cannot be a folder name", failure_reason=FailureReason.INVALID_TASK_IDENTITY
        )
    return name.replace(":", "_")


def _own(path: Path, task_id: str, patience: float) -> EnvRoot:
    """Take `path` for this task: new, or its own from an earlier delivery (emptied), never anybody else's."""
    private_dir(path)
    root = _lock(path, reused=False, patience=patience)
    if root is None:
        raise PrepareError(
            f"{path} is still in use by an earlier run of this task", failure_reason=FailureReason.RUNTIME_RECOVERY
        )
    try:
        owner = _read(path / _OWNER)
        others = [entry for entry in path.iterdir() if entry.name not in _BOOKKEEPING]
        if owner not in ("", task_id) or (not owner and others):
            raise PrepareError(
                f"{path} belongs to another task",
                failure_reason=FailureReason.PROCESS,
                hint="move it away, or set CALLBOARD_WORKSPACES_ROOT to another folder",
            )
        for entry in others:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        write_atomic(path / _OWNER, task_id.encode(), mode=0o644)
    except BaseException:  # an interrupt too: the folder must not stay locked
        root.release()
        raise
    return root


def _lock(path: Path, *, reused: bool, patience: float) -> EnvRoot | None:
    """`path` under its lock, None when another run has it. The lock is the daemon's, so it lasts as long as the run
    and ends with the daemon, however that ends."""
    # Taken in one worker thread and released in another: a thread-local lock would never be released.
    lock = FileLock(path / _LOCK, mode=0o644, thread_local=False)
    try:
        lock.acquire(timeout=patience, poll_interval=0.1)
    except Timeout:
        return None
    return EnvRoot(path, reused, lock)


def _prior_root(workspace: Path, task: ClaimedTask) -> Path | None:
    """The folder of `prior_work_dir`, if it is one of ours: `<root>/<workspace>/<one segment>/workdir`, no link on
    the way. A path the server names is never trusted beyond that shape."""
    if not task.prior_work_dir:
        return None
    try:
        workdir = Path(task.prior_work_dir).resolve(strict=True)
        ours = workspace.resolve(strict=True)
    except OSError:
        return None
    fits = workdir.name == "workdir" and workdir.parent.parent == ours and workdir.is_dir()
    return workdir.parent if fits else None


def _same_work(path: Path, task: ClaimedTask) -> bool:
    """Whether the work in `path` was done by the same agent on the same thing; read under the lock."""
    try:
        return bool(json.loads((path / _PROVENANCE).read_bytes()) == _provenance(task))
    except (OSError, ValueError):
        return False


def _provenance(task: ClaimedTask) -> dict[str, str]:
    return {
        "managed_by": "callboard",
        "workspace_id": task.workspace_id,
        "agent_id": task.agent_id,
        "issue_id": task.issue_id,
        "chat_session_id": task.chat_session_id,
    }


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
