"""Skills in a task's workdir: one folder each, where the agent's CLI looks for them.

The workdir may be a prior run's, and what lies there is an agent's work: a link in the place of a folder would lead the
next write out of it. So every step is taken from an open folder to one inside it, links are never followed, and nothing
that exists is written over. What is going to be written is noted beside the workdir first, and the next run begins by
taking it away.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from callboard_daemon.errors import PrepareError
from callboard_daemon.files import read_plain, write_atomic
from callboard_wire.failures import FailureReason
from callboard_wire.skill_files import MAIN_FILE, Bundle

FALLBACK: Final = ".agent_context/skills"
"""For a CLI that looks for skills nowhere in a project: the brief says what lies here."""
NOTE: Final = ".managed_skills.json"
MAX_NOTE_BYTES: Final = 64 * 1024
NAMES_TRIED: Final = 64
MAX_SLUG: Final = 48
"""A name may have 64 characters; the rest is for what tells two of them apart."""
_NEITHER: Final = re.compile(r"[^a-z0-9]+")
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Placed:
    """A skill as it lies in the workdir: `path` is its SKILL.md from there. `native`: the CLI finds it by itself;
    `told`: the model may be told of it."""

    name: str
    description: str
    path: str
    native: bool
    told: bool


def place_skills(env_root: Path, workdir: Path, folder: str | None, bundles: Sequence[Bundle]) -> list[Placed]:
    """Write `bundles` into `folder` of `workdir` (None, or not a folder there: into `FALLBACK`), after what an earlier
    run of ours has left is gone. The same bundles get the same names in every run.

    Raises `PrepareError` when there is no place for them, `OSError` for what the disk refuses.
    """
    note = env_root / NOTE
    with _opened(workdir) as root:
        _take_away(root, note)
        if not bundles:
            note.unlink(missing_ok=True)
            return []
        where, into = _place(root, [folder, FALLBACK] if folder else [FALLBACK])
        try:
            names = _names(into, bundles)
            write_atomic(note, json.dumps({"folder": where, "names": names}).encode(), mode=0o644)
            return [
                _write(into, where, name, bundle, native=where == folder)
                for name, bundle in zip(names, bundles, strict=True)
            ]
        finally:
            os.close(into)


# ── names ────────────────────────────────────────────────────────────────────


def _names(into: int, bundles: Iterable[Bundle]) -> list[str]:
    """A folder name each, like no other of these and like nothing that is there."""
    taken = {name.lower() for name in os.listdir(into)}
    names = []
    for bundle in bundles:
        name = next((name for name in _candidates(slug(bundle.name)) if name not in taken), None)
        if name is None:
            raise PrepareError(
                f"no folder name is left for the skill {bundle.name!r}", failure_reason=FailureReason.PROCESS
            )
        taken.add(name)
        names.append(name)
    return names


def slug(name: str) -> str:
    """The name as a folder and as a name by the Agent Skills format: small letters, digits and single hyphens."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return _NEITHER.sub("-", plain)[:MAX_SLUG].strip("-") or "skill"


def _candidates(base: str) -> Iterator[str]:
    yield base
    yield f"{base}-callboard"
    for n in range(2, NAMES_TRIED):
        yield f"{base}-callboard-{n}"


# ── writing ──────────────────────────────────────────────────────────────────


def _write(into: int, where: str, name: str, bundle: Bundle, *, native: bool) -> Placed:
    from callboard_daemon.execenv.skill_text import skill_md  # YAML is 2 MB, and a daemon may never write a skill

    text, told = skill_md(bundle, name)
    os.mkdir(name, 0o755, dir_fd=into)
    with _opened(name, into) as folder:
        _write_files(folder, {MAIN_FILE: text.encode("utf-8", "replace"), **bundle.files})
    return Placed(name, bundle.description, f"{where}/{name}/{MAIN_FILE}", native, told)


def _write_files(folder: int, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        *folders, name = path.split("/")
        with _walked(folder, folders) as parent:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(name, flags, 0o644, dir_fd=parent), "wb") as file:
                file.write(data)


def _place(root: int, folders: Iterable[str]) -> tuple[str, int]:
    """The first of `folders` that is, or can become, a folder with no link on the way; open. Raises `PrepareError`."""
    tried = list(folders)
    for folder in tried:
        try:
            with _walked(root, folder.split("/")) as found:
                return folder, os.dup(found)
        except (NotADirectoryError, FileExistsError) as error:
            blocked = error
    raise PrepareError(
        f"the skills have no place in the task's folder: {' and '.join(tried)} are links or files there",
        failure_reason=FailureReason.PROCESS,
    ) from blocked


def _take_away(root: int, note: Path) -> None:
    """Remove what the note says was written. The note may be an agent's by now: it can name nothing but folders of one
    segment in a skills folder of this workdir."""
    try:
        noted = json.loads(read_plain(note, MAX_NOTE_BYTES))
        folder, names = str(noted["folder"]), [str(name) for name in noted["names"]]
    except (OSError, ValueError, KeyError, TypeError):
        return
    segments = folder.split("/")
    if ".." in segments or "" in segments:
        return
    try:
        with _walked(root, segments, create=False) as into:
            for name in names:
                if _NAME.fullmatch(name):
                    shutil.rmtree(name, ignore_errors=True, dir_fd=into)  # refuses to go through a link by itself
    except (FileNotFoundError, NotADirectoryError):
        return


# ── folders ──────────────────────────────────────────────────────────────────


@contextmanager
def _opened(path: str | Path, inside: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, _FOLDER, dir_fd=inside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _walked(start: int, segments: Sequence[str], *, create: bool = True) -> Iterator[int]:
    """The folder at the end of `segments`, open; every one on the way is a folder and no link, or is made.

    Raises `NotADirectoryError` where something else is in the way.
    """
    at = os.dup(start)
    try:
        for name in segments:
            if create:
                try:
                    os.mkdir(name, 0o755, dir_fd=at)
                except FileExistsError:
                    pass
            try:
                inner = os.open(name, _FOLDER, dir_fd=at)
            except OSError as error:
                if error.errno == errno.ELOOP:  # macOS's word for a link that may not be followed
                    raise NotADirectoryError(error.errno, "a link is in the way", name) from error
                raise
            os.close(at)
            at = inner
        yield at
    finally:
        os.close(at)
