"""A file in the workdir that says "this is a task's folder".

A shell that lost its environment (sudo, a login shell, a tool that cleans it) must not fall back to the user's own
login when the agent calls `callboard` there: the command line looks for this file from its cwd upwards.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from callboard_daemon.files import write_atomic

if TYPE_CHECKING:  # the command line looks for markers before it knows whether it needs the wire's models at all
    from callboard_wire.bodies import ClaimedTask

NAME: Final = Path(".multica") / "daemon_task_context.json"


def write_marker(workdir: Path, task: ClaimedTask) -> None:
    """Raises `OSError`. A `.multica` that is a link is somebody else's; it stays as it is."""
    path = workdir / NAME
    if path.parent.is_symlink() or path.is_symlink():
        return
    path.parent.mkdir(exist_ok=True)
    ids = {"agent_id": task.agent_id, "issue_id": task.issue_id, "chat_session_id": task.chat_session_id}
    text = json.dumps({"managed_by": "callboard", "task_id": task.id, **{k: v for k, v in ids.items() if v}})
    write_atomic(path, text.encode(), mode=0o644)


def find_marker(start: Path) -> Path | None:
    """The marker of the folder `start` lies in, None outside of tasks."""
    for folder in (start, *start.parents):
        if (folder / NAME).is_file():
            return folder / NAME
    return None
