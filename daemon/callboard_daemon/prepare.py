"""Hop 5: from a claimed task to a folder and an environment its agent can start in. Blocking; runs in a thread."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from callboard_adapters.capabilities import Capabilities
from callboard_daemon.discover import Found
from callboard_daemon.errors import PrepareError
from callboard_daemon.execenv.brief import write_brief
from callboard_daemon.execenv.environment import inherited, task_environment
from callboard_daemon.execenv.marker import write_marker
from callboard_daemon.execenv.root import EnvRoot, open_root
from callboard_daemon.execenv.skills import Placed, place_skills
from callboard_daemon.settings import Settings
from callboard_wire.bodies import ClaimedTask
from callboard_wire.failures import FailureReason
from callboard_wire.skill_files import Bundle

ENV_ROOT: Final = "CALLBOARD_ENV_ROOT"
"""Tells an adapter where a provider's home of the task's own belongs (codex): it stays as long as the workdir does."""
TASK_TOKEN_PREFIX: Final = "mat_"  # noqa: S105  (a prefix, not a token)
_DISK: Final = {
    errno.ENOSPC: "no space is left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission was denied",
    errno.EFBIG: "a file may not grow that large",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """What is the same for every task: where things are, and what the daemon was started with."""

    settings: Settings
    workspaces_root: Path
    bin_dir: Path
    environ: Mapping[str, str] = field(repr=False)
    server_url: str
    daemon_port: int


@dataclass(frozen=True, slots=True)
class Prepared:
    root: EnvRoot
    found: Found
    skills: Sequence[Placed]
    env: Mapping[str, str] = field(repr=False)


def check_identity(task: ClaimedTask) -> None:
    """Refuse a claim that does not say whose work it is: with an empty workspace or another token the agent's own
    commands would act for somebody else. Raises `PrepareError`; nothing has been made yet."""
    wrong = ""
    if not task.workspace_id:
        wrong = "the claim names no workspace"
    elif not task.agent_id or task.agent.id != task.agent_id:
        wrong = "the claim's agent is not the task's agent"
    elif not task.auth_token.startswith(TASK_TOKEN_PREFIX):
        wrong = "the claim carries no task token"
    if wrong:
        raise PrepareError(wrong, failure_reason=FailureReason.INVALID_TASK_IDENTITY)


def prepare(
    task: ClaimedTask, found: Found, path: tuple[str, ...], machine: Machine, slot: int, bundles: Sequence[Bundle]
) -> Prepared:
    """Folder, skills, brief and environment of `task`. Raises `PrepareError`; then nothing stays locked."""
    try:
        root = open_root(machine.workspaces_root, task)
        try:
            skills = place_skills(root.path, root.workdir, found.capabilities.skills_folder, bundles)
            if found.capabilities.context_file:
                write_brief(root.workdir, found.capabilities.context_file, task, skills)
            write_marker(root.workdir, task)
            return Prepared(root, found, skills, _environment(task, found, path, machine, slot, root))
        except BaseException:
            root.release()
            raise
    except OSError as error:
        raise _disk_error(error, machine.workspaces_root) from error


def system_prompt(can: Capabilities, brief: str, *, here: bool) -> str | None:
    """The brief once more, for a CLI that takes a system prompt and reads no context file, or none of this folder."""
    return brief if can.system_prompt and not (can.context_file and here) else None


def _environment(
    task: ClaimedTask, found: Found, path: tuple[str, ...], machine: Machine, slot: int, root: EnvRoot
) -> dict[str, str]:
    own = (*found.capabilities.relevant_env, *found.capabilities.login_env)
    folders = (str(machine.bin_dir), str(Path(found.executable).parent), *path)
    env = task_environment(
        task,
        base=inherited(machine.environ, machine.settings.pass_env, own),
        machine_env=machine.settings.env,
        path=folders,
        tmp=root.tmp,
        server_url=machine.server_url,
        daemon_port=machine.daemon_port,
        slot=slot,
    )
    return env | {ENV_ROOT: str(root.path)}


def _disk_error(error: OSError, workspaces_root: Path) -> PrepareError:
    what = _DISK.get(error.errno or 0, error.strerror or str(error))
    where = error.filename or workspaces_root
    return PrepareError(
        f"the task's folder could not be prepared: {what} ({where})",
        failure_reason=FailureReason.PROCESS,
        hint=f"make room under {workspaces_root} or point CALLBOARD_WORKSPACES_ROOT elsewhere, then run the task again",
    )
