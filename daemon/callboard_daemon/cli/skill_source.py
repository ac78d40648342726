"""A skill as it lies on somebody's disk, a folder or a zip file, read with every guard a stranger's archive needs.

Nothing is unpacked: files are read into memory within the limits and named by checked paths. A link is refused and not
followed, in a folder as in an archive: it would carry a file of this machine into the workspace.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from callboard_wire.skill_files import (
    MAIN_FILE,
    MAX_BUNDLE_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    SkillRefused,
    check_path,
    is_junk,
    shown,
)

MAX_ARCHIVE_BYTES: Final = 8 * 1024 * 1024
"""Twice what a skill may hold: an archive has names and a directory besides."""
MAX_ENTRIES: Final = 2000
"""Of an archive or a folder, with what is left out."""
MAX_RATIO: Final = 100
"""Of a packed file's size to its own, from `SMALL_BYTES` on. Text reaches 20, logs 50."""
SMALL_BYTES: Final = 64 * 1024
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED, _UTF8_NAME = 0x1, 0x800


@dataclass(frozen=True, slots=True)
class SkillSource:
    """`content` is SKILL.md, `files` what lies beside it; `left_out` are leftovers that are never part of a skill."""

    content: str
    files: Mapping[str, bytes]
    left_out: tuple[str, ...]


def read_skill(path: Path) -> SkillSource:
    """The skill in the folder or zip file `path`. Raises `SkillRefused`, `OSError`."""
    path = path.resolve()  # the one link that is followed is the one that was named
    found: dict[str, bytes] = {}
    left_out: list[str] = []
    for name, data in _of_folder(path, left_out) if path.is_dir() else _of_archive(path, left_out):
        if name in found:
            raise SkillRefused("duplicate_path", f"{shown(name)} is there twice.")
        found[name] = data
        if len(found) > MAX_FILES + 1:
            raise SkillRefused("too_many_files", f"There are more than {MAX_FILES} files.", too_large=True)
        if sum(map(len, found.values())) > MAX_BUNDLE_BYTES:
            raise SkillRefused("skill_too_large", f"There are more than {MAX_BUNDLE_BYTES} bytes.", too_large=True)
    files = _without_wrapper(found)
    main = [name for name in files if name.casefold() == MAIN_FILE.casefold()]
    if len(main) != 1:
        raise SkillRefused("no_skill", f"There is no {MAIN_FILE} at its top, or more than one.")
    content = files.pop(main[0])
    for name in files:
        check_path(name)
    try:
        return SkillSource(content.decode("utf-8-sig"), files, tuple(left_out))
    except UnicodeDecodeError as error:
        raise SkillRefused("invalid_content", f"{MAIN_FILE} is not UTF-8 text (byte {error.start}).") from error


def _without_wrapper(found: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files below the one folder that holds everything, as archives of a folder have it."""
    tops = {name.split("/")[0] for name in found}
    if len(tops) == 1 and all("/" in name for name in found):
        return {name.partition("/")[2]: data for name, data in found.items()}
    return dict(found)


# ── folders ──────────────────────────────────────────────────────────────────


def _of_folder(root: Path, left_out: list[str]) -> Iterator[tuple[str, bytes]]:
    seen = 0
    for folder, folders, names, descriptor in os.fwalk(root, onerror=_raise):
        at = os.path.relpath(folder, root).replace(os.sep, "/")
        inside = "" if at == "." else f"{at}/"
        seen += len(folders) + len(names)
        if seen > MAX_ENTRIES:
            raise SkillRefused("too_many_files", f"The folder holds more than {MAX_ENTRIES} things.", too_large=True)
        for name in sorted([*folders, *names]):
            path = f"{inside}{name}"
            if is_junk(name):
                left_out.append(path)
                if name in folders:
                    folders.remove(name)
                continue
            mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                check_path(f"{path}/x")
            elif stat.S_ISREG(mode):
                yield path, _read(name, descriptor, path)
            else:
                raise _special(path)


def _read(name: str, folder: int, path: str) -> bytes:
    """A plain file's bytes: what it is was looked at before, and is looked at again once it is open."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _special(path)
        return _bounded(file.read(MAX_FILE_BYTES + 1), path)


def _raise(error: OSError) -> None:
    raise error


# ── archives ─────────────────────────────────────────────────────────────────


def _of_archive(path: Path, left_out: list[str]) -> Iterator[tuple[str, bytes]]:
    if path.stat().st_size > MAX_ARCHIVE_BYTES:
        raise SkillRefused("skill_too_large", f"An archive may have {MAX_ARCHIVE_BYTES} bytes.", too_large=True)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ENTRIES:
                raise SkillRefused("too_many_files", f"It has more than {MAX_ENTRIES} entries.", too_large=True)
            for entry in entries:
                name = _name_of(entry)
                if is_junk(name):
                    left_out.append(name)
                elif not entry.is_dir():
                    yield name, _unpacked(archive, entry, name)
    except (zipfile.BadZipFile, UnicodeDecodeError, EOFError, NotImplementedError, ValueError) as error:
        if isinstance(error, SkillRefused):
            raise
        raise SkillRefused("invalid_archive", f"It is neither a folder nor a readable zip file ({error}).") from error


def _name_of(entry: zipfile.ZipInfo) -> str:
    """The entry's path, checked as it is written: `zipfile` cuts a name at a NUL, and guesses at what is not UTF-8."""
    written = entry.orig_filename
    if not entry.flag_bits & _UTF8_NAME and not written.isascii():
        raise SkillRefused("invalid_path", f"{shown(written)}: the name is not UTF-8")
    name = written.removesuffix("/")
    if not is_junk(name) and name.casefold() != MAIN_FILE.casefold():
        check_path(name)
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _special(name)
    return name


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> bytes:
    """The entry's bytes. What its head says is only good for refusing it sooner; what is read is counted."""
    if entry.flag_bits & _ENCRYPTED:
        raise SkillRefused("invalid_archive", f"{shown(name)} is encrypted.")
    if entry.compress_type not in _METHODS:
        raise SkillRefused("invalid_archive", f"{shown(name)} is packed by a method other than deflate.")
    if entry.file_size > SMALL_BYTES and entry.file_size > MAX_RATIO * max(1, entry.compress_size):
        raise SkillRefused("zip_bomb", f"{shown(name)} would unpack to more than {MAX_RATIO} times its size.")
    with archive.open(entry) as file:
        return _bounded(file.read(MAX_FILE_BYTES + 1), name)


def _bounded(data: bytes, path: str) -> bytes:
    if len(data) > MAX_FILE_BYTES:
        raise SkillRefused("file_too_large", f"{shown(path)} has more than {MAX_FILE_BYTES} bytes.", too_large=True)
    return data


def _special(path: str) -> SkillRefused:
    return SkillRefused("not_a_file", f"{shown(path)} is a link or something else that is no plain file.")
