"""Bundles: what skills hold, deflated and cut into items.

    SK#<skill> / B#<revision>#<hash>#<part>

A change writes its parts under the next revision, then moves the skill to it on the condition that nobody else did,
then deletes what lies below. Two changes at once write to the same revision under different hashes, or the same bytes;
a part is only ever deleted below a revision that is in force, so nothing that is, or may come, in force loses a part.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable
from typing import Any, Final

from callboard_control.store import keys, table
from callboard_control.store.skill_items import BundlePart, SkillItem
from callboard_wire.skill_files import Bundle

PART_BYTES: Final = 350_000
"""An item may have 400 KB."""


def skills_by_id(workspace_id: str, skill_ids: Iterable[str]) -> list[SkillItem]:
    """Those of a workspace's skills that exist, in the order of the ids."""
    wanted = list(skill_ids)
    pk = keys.workspace(workspace_id)
    items = {item.id: item for item in table.get_many(SkillItem, [(pk, f"SK#{skill_id}") for skill_id in wanted])}
    return [items[skill_id] for skill_id in wanted if skill_id in items]


def write(bundle: Bundle, revision: int) -> int:
    """Store `bundle` as `revision` of its skill; how many parts it has. Doing it again changes nothing."""
    packed, digest = zlib.compress(pack(bundle), 6), bundle.hash
    parts = [packed[i : i + PART_BYTES] for i in range(0, len(packed), PART_BYTES)]
    for n, part in enumerate(parts):
        table.put(BundlePart(*_key(bundle.id, revision, digest, n), body=part))
    return len(parts)


def read(skill: SkillItem) -> Bundle | None:
    """What `skill` holds; None when it has been changed or deleted since `skill` was read."""
    return read_many([skill]).get(skill.id)


def read_many(skills: Collection[SkillItem]) -> dict[str, Bundle]:
    """What these skills hold, by id, in one call up to 100 parts; those changed meanwhile are missing."""
    places = {s.id: [_key(s.id, int(s.revision), s.hash, n) for n in range(int(s.parts))] for s in skills}
    parts = table.get_many(BundlePart, [place for of_one in places.values() for place in of_one])
    found = {(part.pk, part.sk): part.body for part in parts}
    return {
        skill_id: unpack(skill_id, zlib.decompress(b"".join(found[place] for place in of_one)))
        for skill_id, of_one in places.items()
        if all(place in found for place in of_one)
    }


def forget(skill_id: str, *, below: int | None = None) -> None:
    """Delete the parts below a revision, or all. What a fault leaves, or a change that lost to another under the same
    revision, is deleted by the change after next at the latest."""
    condition = BundlePart.sk < f"B#{below:08d}" if below is not None else None
    while True:
        page = table.rows(BundlePart, f"SK#{skill_id}", condition, limit=3, consistent=True)  # a page is 1 MB
        for part in page.items:
            table.delete(BundlePart(part.pk, part.sk))
        if not page.items:
            return


def _key(skill_id: str, revision: int, digest: str, n: int) -> tuple[str, str]:
    return f"SK#{skill_id}", f"B#{revision:08d}#{digest}#{n:03d}"


def pack(bundle: Bundle) -> bytes:
    """Everything in one piece: a line of JSON that says what follows, then the bytes."""
    content = bundle.content.encode("utf-8", "replace")
    head: dict[str, Any] = {
        "name": bundle.name,
        "description": bundle.description,
        "content": len(content),
        "files": [[path, len(data)] for path, data in sorted(bundle.files.items())],
    }
    return b"".join([json.dumps(head).encode(), b"\n", content, *(data for _, data in sorted(bundle.files.items()))])


def unpack(skill_id: str, packed: bytes) -> Bundle:
    line, _, body = packed.partition(b"\n")
    head = json.loads(line)
    at = head["content"]
    files: dict[str, bytes] = {}
    for path, size in head["files"]:
        files[path] = body[at : at + size]
        at += size
    content = body[: head["content"]].decode()
    return Bundle(id=skill_id, name=head["name"], description=head["description"], content=content, files=files)
