"""Skills this machine has seen, one file a state of a skill, under the hash of what it holds.

A file's name says what must be in it, so nothing has to be believed: neither a server, nor a disk that lost a power
cut, nor an agent of this user that wrote here. What does not fit its name is thrown away and fetched again.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from callboard_daemon.files import private_dir, read_plain, write_atomic
from callboard_wire.skill_files import Bundle, SkillRefused, check, from_wire, to_wire
from callboard_wire.skills import SkillBody, SkillFile

log = logging.getLogger(__name__)

LIMIT_BYTES: Final = 256 * 1024 * 1024
"""Of all files together. The least recently used go first."""
MAX_FILE_BYTES: Final = 32 * 1024 * 1024
"""More than any skill's file has, with every character escaped."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")


def bundle_of(body: SkillBody) -> Bundle:
    """What a server sent, as a bundle that keeps every rule. Raises `SkillRefused`, also when it is not what its own
    hash says. A file called SKILL.md is left out: other servers have stored the skill's text once more as one."""
    files = {
        file.path: from_wire(file.path, file.content, file.encoding)
        for file in body.files
        if file.path.lower() != "skill.md"
    }
    bundle = Bundle(body.id, body.name, body.description, body.content, files, body.source)
    check(bundle)
    if body.hash and body.hash != bundle.hash:
        raise SkillRefused("wrong_hash", f"The skill {body.name!r} is not what its hash says.")
    return bundle


class SkillCache:
    """Safe to use from many threads, and from several processes on one folder. Nothing in it raises for the disk: a
    cache that cannot be read or written costs time and no run."""

    def __init__(self, folder: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit = limit_bytes

    def load(self, digest: str) -> Bundle | None:
        """The bundle with this hash, None when it is not here."""
        if not _HASH.fullmatch(digest):
            return None
        path = self._folder / f"{digest}.json"
        try:
            raw = read_plain(path, MAX_FILE_BYTES)
            bundle = bundle_of(SkillBody.model_validate_json(raw))
            if bundle.hash != digest:
                raise SkillRefused("wrong_hash", "The file is another skill's.")
            os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError, SkillRefused) as error:
            log.warning("a skill in the cache is of no use and is fetched again: %s", error)
            _remove(path)
            return None
        return bundle

    def store(self, bundle: Bundle) -> None:
        """Keep `bundle`, and let the oldest go that are too much with it."""
        files = [SkillFile(**to_wire(path, data, compact=False)) for path, data in sorted(bundle.files.items())]
        body = SkillBody(
            id=bundle.id,
            source=bundle.source,
            name=bundle.name,
            description=bundle.description,
            content=bundle.content,
            hash=bundle.hash,
            files=files,
        )
        path = self._folder / f"{bundle.hash}.json"
        try:
            write_atomic(private_dir(self._folder) / path.name, body.model_dump_json().encode())
            self._evict(keep=path)
        except OSError as error:
            log.warning("the skill %r could not be kept: %s", bundle.name, error)

    def _evict(self, keep: Path) -> None:
        held = sorted(_entries(self._folder), key=lambda entry: entry[1].st_mtime)
        total = sum(status.st_size for _, status in held)
        for path, status in held:
            if total <= self._limit:
                return
            if path != keep:
                _remove(path)
                total -= status.st_size


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every file with its size and age, those that a crash left half-written too."""
    for path in folder.iterdir():
        try:
            yield path, path.lstat()
        except FileNotFoundError:
            continue  # somebody else evicts as well


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass  # gone already, or not a file: then it is skipped for as long as it is there
