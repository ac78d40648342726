"""The skills an agent is to have: they are its workspace's, and not too many."""

from __future__ import annotations

from collections.abc import Collection

from callboard_control.errors import InvalidRequest
from callboard_control.store import bundles
from callboard_control.store.skill_items import SkillItem
from callboard_wire.skills import MAX_SKILLS


def of(workspace_id: str, wanted: Collection[str], named: Collection[str] | None = None) -> list[SkillItem]:
    """The skills with the ids `wanted`, in that order; an id that is there twice counts where it comes first. Those
    `named` (all, by default) must exist; others were there before, and may have been deleted since.

    Raises `InvalidRequest` ``skill_not_found`` for an id that is none of this workspace's skills, ``too_many_skills``.
    """
    found = bundles.skills_by_id(workspace_id, dict.fromkeys(wanted))
    unknown = sorted(set(wanted if named is None else named) - {item.id for item in found})
    if unknown:
        raise InvalidRequest(
            f"There is no skill {', '.join(map(repr, unknown))} here.", code="skill_not_found", skill_ids=unknown
        )
    if len(found) > MAX_SKILLS:
        raise InvalidRequest(
            f"An agent may have {MAX_SKILLS} skills; these are {len(found)}.", code="too_many_skills", limit=MAX_SKILLS
        )
    return found
