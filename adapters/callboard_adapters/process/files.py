"""The disk work an adapter asks for: writing files for a launch, putting back what was there, reading side files.

All functions block; the driver calls them in a thread.
"""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from callboard_adapters.base import FileContent, FileLink, FileWrite, ReadFiles

_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""No link followed; on Windows, no line end made into two bytes."""


@dataclass(slots=True)
class Written:
    """What `write_files` did, for `undo`. `scratch` is the run's private folder, made or not."""

    scratch: Path
    remove: list[Path] = field(default_factory=list)
    restore: list[tuple[Path, bytes, int]] = field(default_factory=list)
    links: list[FileLink] = field(default_factory=list)

    def undo(self) -> None:
        """Remove and restore; a file that has gone meanwhile is fine. Safe to call twice."""
        for link in self.links:
            _unlink(link)
        for path in self.remove:
            path.unlink(missing_ok=True)
        for path, content, mode in self.restore:
            if path.parent.is_dir():
                _write(path, content, mode)
        self.remove, self.restore, self.links = [], [], []
        shutil.rmtree(self.scratch, ignore_errors=True)


def write_files(files: Sequence[FileWrite], links: Sequence[FileLink], written: Written) -> None:
    """Write `files` and make `links`, recording in `written` how to undo each as it is done.

    Raises OSError (also for a full disk).
    """
    for file in files:
        path = Path(file.path)
        _make_parent(path, written.scratch)
        before = _existing(path) if file.after == "restore" else None
        if before is not None:
            written.restore.append((path, *before))
        elif file.after != "keep":
            written.remove.append(path)
        _write(path, file.content, file.mode)

    for link in links:
        path, target = Path(link.path), Path(link.target)
        _make_parent(path, written.scratch)
        if link.directory:
            target.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target, target_is_directory=link.directory)
        written.links.append(link)


def _unlink(link: FileLink) -> None:
    path, target = Path(link.path), Path(link.target)
    if path.is_file() and not path.is_symlink() and target.parent.is_dir():
        _write(target, path.read_bytes(), 0o600)
    elif not path.is_symlink():
        return  # a folder the CLI made in the link's place: the scratch folder's removal, or the user, takes it
    if link.after == "remove":
        path.unlink(missing_ok=True)


def _make_parent(path: Path, scratch: Path) -> None:
    private = path.is_relative_to(scratch)
    if private:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700 if private else 0o755, parents=True, exist_ok=True)


def _existing(path: Path) -> tuple[bytes, int] | None:
    try:
        return path.read_bytes(), path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None


def _write(path: Path, content: bytes, mode: int) -> None:
    """Through a new file and a rename: a reader sees the old or the new whole, and a link put there is not followed."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _AS_IT_IS, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
        draft.chmod(mode)  # the umask may have taken bits away
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def read_files(request: ReadFiles) -> list[FileContent]:
    """The files `request` names that exist and can be read, newest last."""
    found: dict[str, tuple[float, int]] = {}
    for pattern in request.patterns:
        # glob, not Path.glob: the patterns are absolute.
        for path in glob.iglob(pattern, recursive=True) if glob.has_magic(pattern) else [pattern]:  # noqa: PTH207
            try:
                stat = Path(path).stat()
            except OSError:
                continue
            if Path(path).is_file():
                found[path] = (stat.st_mtime, stat.st_size)
    newest = sorted(found, key=lambda p: found[p][0])[-request.max_files :] if request.max_files > 0 else []
    return [c for p in newest if (c := _read(p, found[p][1], request)) is not None]


def _read(path: str, size: int, request: ReadFiles) -> FileContent | None:
    offset = min(request.offsets.get(path, 0), size)
    if request.max_bytes <= 0:
        return FileContent(path, size, b"", offset)
    try:
        with Path(path).open("rb") as file:
            if request.tail and not request.lines_with:
                offset = max(offset, size - request.max_bytes)
            file.seek(offset)
            if request.lines_with:
                return FileContent(path, size, _matching(file, request), offset)
            return FileContent(path, size, file.read(request.max_bytes), offset)
    except OSError:
        return None


def _matching(file: Iterable[bytes], request: ReadFiles) -> bytes:
    """The lines that hold one of the markers: all up to the limit, the last ones with `tail`."""
    kept: list[bytes] = []
    total = 0
    for line in file:
        if not any(mark in line for mark in request.lines_with):
            continue
        kept.append(line)
        total += len(line)
        while total > request.max_bytes and kept:
            total -= len(kept.pop(0 if request.tail else -1))
            if not request.tail:
                return b"".join(kept)
    return b"".join(kept)
