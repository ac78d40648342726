"""The brief: what an agent must know about where it is, written into the file its CLI reads first.

It is a block between two marks, so that a file the user's repository has already keeps its own text to the byte. The
block holds nothing that changes from run to run: CLIs send this file first, and one changed byte costs the provider's
whole prompt cache on every resumed turn. What changes goes into the prompt (`prompt_for`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from callboard_daemon.execenv.skills import Placed
from callboard_wire.bodies import ClaimedTask

BEGIN: Final = "<!-- callboard:begin (managed; changes inside are overwritten) -->"
END: Final = "<!-- callboard:end -->"
_GAP: Final = "\n\n"

_SURROUNDINGS: Final = """\
# You are working for Callboard

Callboard gave you this task and is reading along.{folder}

## Rules of this place

- The task ends when your turn ends. Finish, or wait for, everything you start; do not leave work in the background.
- Nobody can answer questions during the run. When something is missing, do what can be done, and say what is missing.
- Your final message is the result people see. A path on this machine means nothing to them: describe or quote instead.
"""
_FOLDER: Final = " Your working folder is private to the task."
_COMMAND: Final = """\
- `callboard` (also as `multica`) is on PATH and speaks to the control plane with this task's own token. Add
  `--output json` for scripts, and do not merge stderr into stdout then: only stdout is JSON.
"""

_SKILLS: Final = """\
## Your skills

Instructions for particular kinds of work. When one fits, read its SKILL.md before you begin and follow it; the files it
names lie beside it.
"""


def render_brief(task: ClaimedTask, skills: Sequence[Placed] = (), *, here: bool = True) -> str:
    """The block's text for `task`: the same bytes for every run of the same agent in the same workspace. `skills` are
    named as they lie in the workdir; what they are for is said where the CLI does not find them by itself. An agent
    that is not `here` (a gateway does the run) has neither our folder nor our command, and is told of none."""
    agent = task.agent
    place = _SURROUNDINGS.format(folder=_FOLDER if here else "") + (_COMMAND if here else "")
    sections = [place.rstrip(), f"## Who you are\n\nAgent {_plain(agent.name)} (id {agent.id})."]
    if agent.instructions.strip():
        sections.append(f"## Your instructions\n\n{agent.instructions.strip()}")
    if task.workspace_context.strip():
        sections.append(f"## About this workspace\n\n{task.workspace_context.strip()}")
    if told := [skill for skill in skills if skill.told]:
        sections.append("\n".join([_SKILLS, *map(_skill, told)]))
    text = "\n\n".join(sections)
    return text.replace(BEGIN, "").replace(END, "")  # instructions that hold our marks must not end the block early


def with_block(existing: str | None, block: str) -> str:
    """The file's new text: the block alone, appended, or in the place of the one that is there. A block whose end was
    never written (a crash) reaches to the end of the file."""
    managed = f"{BEGIN}\n{block}\n{END}\n"
    if existing is None:
        return managed
    start = existing.find(BEGIN)
    if start < 0:
        return f"{existing}{_GAP}{managed}"
    end = existing.find(END, start)
    rest = "" if end < 0 else existing[end + len(END) :].removeprefix("\n")
    return existing[:start] + managed + rest


def write_brief(workdir: Path, file_name: str, task: ClaimedTask, skills: Sequence[Placed] = ()) -> None:
    """Write or refresh the block. A link with that name is somebody's own arrangement and stays as it is.

    Raises `OSError`.
    """
    path = workdir / file_name
    if path.is_symlink():
        return
    try:
        existing = path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        existing = None
    path.write_bytes(with_block(existing, render_brief(task, skills)).encode("utf-8", "surrogateescape"))


def prompt_for(task: ClaimedTask, *, continuity_lost: bool) -> str:
    """The prompt of this run. When an earlier conversation could not be taken up the agent is told, once."""
    if not continuity_lost:
        return task.prompt
    return (
        f"{task.prompt}\n\n---\nNote: an earlier conversation about this could not be resumed, so you remember nothing "
        "of it. Say so at the start of your answer, and rely on what is in the working folder."
    )


def _skill(skill: Placed) -> str:
    about = "" if skill.native else f": {_plain(' '.join(skill.description.split()))}"
    return f"- `{skill.path}`{about}"


def _plain(name: str) -> str:
    """A name as one line of plain text: it is a user's, and must not become a heading or an instruction block."""
    return re.sub(r"[\x00-\x1f\x7f`#*<>\[\]|]", " ", name).strip()
