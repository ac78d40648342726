"""The workspace's skills. Any member adds one; its creator, an owner or an admin changes it; everybody reads."""

from __future__ import annotations

import logging
from typing import Any, Final

from callboard_control import ports
from callboard_control.actor import Person, TaskAgent
from callboard_control.errors import Conflict, Forbidden, NotFound, Unavailable
from callboard_control.identity import audit
from callboard_control.skills import requests
from callboard_control.store import bundles, keys, table
from callboard_control.store.errors import ConditionFailed, StoreError
from callboard_control.store.models import new
from callboard_control.store.skill_items import SkillItem, SkillNameItem
from callboard_control.tasks.record import at
from callboard_wire.api import Page
from callboard_wire.skill_files import Bundle, to_wire
from callboard_wire.skills import CreateSkillRequest, SkillFile, SkillSummary, SkillView, UpdateSkillRequest

K, N = SkillItem, SkillNameItem
READS: Final = 3
"""Looks at a skill that is being changed: each change may delete the state that was just looked up."""
READABLE_BYTES: Final = 800_000
"""A skill up to this size is shown with all its text as text: seven times as much still fits into an answer."""
logger: Final = logging.getLogger("callboard.skills")


def create(person: Person, request: CreateSkillRequest) -> SkillItem:
    """A new skill. Raises `InvalidRequest`, `TooLarge`, `Conflict` ``name_taken``."""
    bundle = requests.created(keys.new_id(), request)
    now = ports.now_ms()
    name = _name(person.workspace_id, bundle)
    if table.get(N, name.pk, name.sk) is not None:
        raise _taken(bundle)  # before twelve items are written for nothing
    item: SkillItem = new(
        K,
        pk=keys.workspace(person.workspace_id),
        sk=f"SK#{bundle.id}",
        id=bundle.id,
        workspace_id=person.workspace_id,
        revision=1,
        created_by=person.user_id,
        created=now,
        updated=now,
        **_state(bundle, bundles.write(bundle, 1)),
    )
    deed = audit.put(person, "skill_created", f"skill:{bundle.id}", name=bundle.name, hash=bundle.hash)
    try:
        table.transact([table.Put(item, K.pk.does_not_exist()), table.Put(name, N.pk.does_not_exist()), deed])
    except ConditionFailed as e:
        _clean(bundle.id, None)
        raise _taken(bundle) from e
    return item


def update(person: Person, skill: SkillItem, request: UpdateSkillRequest) -> tuple[SkillItem, Bundle]:
    """Change what was sent; the skill and what it holds now. Nothing that differs is no change.

    Raises `Forbidden`, `InvalidRequest`, `TooLarge`, `Conflict` ``skill_changed`` when somebody else was faster (or,
    with `hash`, has changed it since it was read), ``name_taken``.
    """
    _may(person, skill)
    skill, before = current(skill)
    if request.hash is not None and request.hash != skill.hash:
        raise _changed(skill)
    after = requests.changed(before, request)
    if after.hash == skill.hash:
        return skill, after
    revision = int(skill.revision) + 1
    state = _state(after, bundles.write(after, revision)) | {"revision": revision, "updated": ports.now_ms()}
    actions = [getattr(K, name).set(value) for name, value in state.items()]
    writes: list[table.Write] = [table.Update(K(skill.pk, skill.sk), actions, K.revision == skill.revision)]
    if keys.folded(after.name) != keys.folded(before.name):
        writes.append(table.Put(_name(skill.workspace_id, after), N.pk.does_not_exist()))
        writes.append(table.Delete(_name(skill.workspace_id, before)))
    writes.append(audit.put(person, "skill_updated", f"skill:{skill.id}", name=after.name, hash=after.hash))
    try:
        table.transact(writes)
    except ConditionFailed as e:
        raise (_changed(skill) if 0 in e.failed else _taken(after)) from e
    _clean(skill.id, revision)
    return find(skill.workspace_id, skill.id), after


def delete(person: Person, skill: SkillItem) -> None:
    """Take a skill away, from every agent that has it as well. Raises `Forbidden`, `Conflict` ``skill_changed``."""
    _may(person, skill)
    name = table.get(N, skill.pk, f"SN#{keys.folded(skill.name)}")
    writes: list[table.Write] = [table.Delete(K(skill.pk, skill.sk), K.revision == skill.revision)]
    if name is not None and name.skill_id == skill.id:
        writes.append(table.Delete(N(name.pk, name.sk)))
    writes.append(audit.put(person, "skill_deleted", f"skill:{skill.id}", name=skill.name))
    try:
        table.transact(writes)
    except ConditionFailed as e:
        raise _changed(skill) from e
    _clean(skill.id, None)


def find(workspace_id: str, name_or_id: str) -> SkillItem:
    """The skill with this id, or else with this name. Raises `NotFound`, for another workspace's as well."""
    item = table.get(K, keys.workspace(workspace_id), f"SK#{name_or_id}")
    if item is None:
        name = table.get(N, keys.workspace(workspace_id), f"SN#{keys.folded(name_or_id)}")
        item = table.get(K, keys.workspace(workspace_id), f"SK#{name.skill_id}") if name else None
    if item is None:
        raise NotFound.of("skill", name_or_id)
    return item


def current(skill: SkillItem) -> tuple[SkillItem, Bundle]:
    """The skill with what it holds, both of the same moment. Raises `NotFound`, `Unavailable`."""
    for _ in range(READS):
        bundle = bundles.read(skill)
        if bundle is not None:
            return skill, bundle
        skill = find(skill.workspace_id, skill.id)
    raise Unavailable("This skill is being changed over and over; try again in a moment.")


def list_skills(viewer: Person | TaskAgent, cursor: str | None, limit: int) -> Page[SkillSummary]:
    page = table.rows(K, keys.workspace(viewer.workspace_id), K.sk.startswith("SK#"), limit=limit, cursor=cursor)
    return Page[SkillSummary](items=[summary(item) for item in page.items], next_cursor=page.cursor)


def summary(item: SkillItem) -> SkillSummary:
    return SkillSummary(**_shown(item))


def view(item: SkillItem, bundle: Bundle) -> SkillView:
    compact = bundle.size > READABLE_BYTES
    files = [SkillFile(**to_wire(path, data, compact=compact)) for path, data in sorted(bundle.files.items())]
    return SkillView(**_shown(item), content=bundle.content, files=files)


def _shown(item: SkillItem) -> dict[str, Any]:
    return {
        "id": item.id,
        "workspace_id": item.workspace_id,
        "name": item.name,
        "description": item.description,
        "hash": item.hash,
        "size_bytes": int(item.size),
        "file_count": int(item.file_count),
        "created_by": item.created_by or "",
        "created_at": at(item.created),
        "updated_at": at(item.updated),
    }


def _state(bundle: Bundle, parts: int) -> dict[str, Any]:
    """What the skill's item says of the bundle in force."""
    return {
        "name": bundle.name,
        "description": bundle.description,
        "hash": bundle.hash,
        "size": bundle.size,
        "file_count": len(bundle.files),
        "parts": parts,
    }


def _name(workspace_id: str, bundle: Bundle) -> SkillNameItem:
    return N(keys.workspace(workspace_id), f"SN#{keys.folded(bundle.name)}", skill_id=bundle.id)


def _may(person: Person, skill: SkillItem) -> None:
    if not person.is_admin and skill.created_by != person.user_id:
        raise Forbidden("Only who made the skill, or an owner or admin of the workspace, may change it.")


def _clean(skill_id: str, below: int | None) -> None:
    """Delete what is in force no more. The deed is done by now: what is left lying is deleted by a later change."""
    try:
        bundles.forget(skill_id, below=below)
    except StoreError:
        logger.warning("parts of a skill were left lying", extra={"skill_id": skill_id}, exc_info=True)


def _taken(bundle: Bundle) -> Conflict:
    return Conflict(f"There is a skill named {bundle.name!r} already; choose another name.", code="name_taken")


def _changed(skill: SkillItem) -> Conflict:
    return Conflict("Somebody changed this skill since you read it; read it again.", code="skill_changed", id=skill.id)
