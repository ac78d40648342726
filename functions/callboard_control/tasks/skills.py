"""What a claim says of its agent's skills: names to a daemon that asks for what it lacks, all they hold to others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callboard_control.store import bundles
from callboard_control.store.models import AgentItem
from callboard_control.store.skill_items import SkillItem
from callboard_wire.answers import cost
from callboard_wire.skill_files import Bundle, as_text, to_wire
from callboard_wire.skills import SkillBody, SkillFile, SkillRef


def by_name(agent: AgentItem) -> list[dict[str, Any]]:
    """The agent's skills by name, in its order. One deleted since is left out."""
    return [ref(skill).model_dump() for skill in bundles.skills_by_id(agent.workspace_id, agent.skills or ())]


def whole(agent: AgentItem, room: int) -> list[dict[str, Any]]:
    """The agent's skills with all they hold, in its order. One deleted since is left out; of those that do not fit into
    `room` bytes of an answer the agent is told that they are missing, and why."""
    skills = bundles.skills_by_id(agent.workspace_id, agent.skills or ())
    return [body.model_dump(mode="json") for body in _whole(skills, room)]


def ref(skill: SkillItem) -> SkillRef:
    return SkillRef(
        id=skill.id,
        name=skill.name,
        hash=skill.hash,
        size_bytes=int(skill.size),
        file_count=int(skill.file_count),
    )


def body(bundle: Bundle) -> SkillBody:
    """The bundle for a daemon that asked for it."""
    files = [SkillFile(**to_wire(path, data, compact=True)) for path, data in sorted(bundle.files.items())]
    return _body(bundle, files, bundle.hash)


def _body(bundle: Bundle, files: list[SkillFile], digest: str = "") -> SkillBody:
    return SkillBody(
        id=bundle.id,
        source=bundle.source,
        name=bundle.name,
        description=bundle.description,
        content=bundle.content,
        hash=digest,
        files=files,
    )


def _whole(skills: list[SkillItem], room: int) -> list[SkillBody]:
    """For a daemon that was written before there were other files than text: those are left out."""
    found = _bundles(list(_up_to(room, skills)))
    bodies = []
    for skill in skills:
        sent = _missing(skill)
        if (bundle := found.get(skill.id)) is not None:
            texts = {path: as_text(data) for path, data in sorted(bundle.files.items())}
            files = [SkillFile(path=path, content=text) for path, text in texts.items() if text is not None]
            complete = _body(bundle, files)
            needed = cost(complete.model_dump_json())
            if needed <= room:
                room -= needed
                sent = complete
        bodies.append(sent)
    return bodies


def _bundles(skills: list[SkillItem]) -> dict[str, Bundle]:
    """What these hold, by id; one that is being changed is looked at once more."""
    found = bundles.read_many(skills)
    changed = [skill for skill in skills if skill.id not in found]
    return (
        found | bundles.read_many(bundles.skills_by_id(changed[0].workspace_id, [s.id for s in changed]))
        if changed
        else found
    )


def _up_to(room: int, skills: list[SkillItem]) -> Iterator[SkillItem]:
    """Those whose sizes sum up to no more than `room`: fifty skills may be 200 MB."""
    for skill in skills:
        if int(skill.size) <= room:
            room -= int(skill.size)
            yield skill


def _missing(skill: SkillItem) -> SkillBody:
    """In the place of a skill that is not sent: an agent that was promised it can say so."""
    text = (
        f"The skill {skill.name!r} ({int(skill.size)} bytes) could not be delivered: the daemon on this machine is too "
        "old to ask for skills one by one. Say that it is missing; its owner updates callboard there."
    )
    return SkillBody(id=skill.id, name=skill.name, description=skill.description, content=text)
