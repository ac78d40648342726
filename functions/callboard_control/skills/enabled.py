"""Which skills an agent has: ids on the agent's own item, in their order. A claim for one without reads nothing."""

from __future__ import annotations

from callboard_control import permissions
from callboard_control.actor import Person
from callboard_control.errors import Forbidden, InvalidRequest, NotFound
from callboard_control.identity import audit
from callboard_control.skills import library
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import AgentItem
from callboard_control.store.skill_items import SkillItem
from callboard_wire.skills import AgentSkills, PutAgentSkills

A = AgentItem


def skills_of(agent: AgentItem) -> AgentSkills:
    """The agent's skills. One that was deleted is no more of them."""
    return AgentSkills(skills=[library.summary(item) for item in _found(agent.workspace_id, list(agent.skills or []))])


def replace(person: Person, agent: AgentItem, request: PutAgentSkills) -> AgentSkills:
    """Put the whole list; an id that is there twice counts where it comes first. From the next claim on.

    Raises `Forbidden`; `InvalidRequest` ``skill_not_found`` for an id that is none of this workspace's skills.
    """
    if not permissions.may_change(person, agent):
        raise Forbidden("Only the agent's owner, or an owner or admin of the workspace, may change it.")
    wanted = list(dict.fromkeys(request.skill_ids))
    found = _found(agent.workspace_id, wanted)
    unknown = sorted(set(wanted) - {item.id for item in found})
    if unknown:
        raise InvalidRequest(
            f"There is no skill {', '.join(map(repr, unknown))} here.", code="skill_not_found", skill_ids=unknown
        )
    actions = [A.skills.set(wanted) if wanted else A.skills.remove()]
    deed = audit.put(person, "agent_skills_updated", f"agent:{agent.id}", skills=wanted)
    try:
        table.transact([table.Update(A(agent.pk, agent.sk), actions, A.pk.exists()), deed])
    except ConditionFailed as e:
        raise NotFound.of("agent", agent.id) from e
    return AgentSkills(skills=[library.summary(item) for item in found])


def _found(workspace_id: str, skill_ids: list[str]) -> list[SkillItem]:
    """Those that exist, in the order of the ids."""
    pk = keys.workspace(workspace_id)
    items = {item.id: item for item in table.get_many(SkillItem, [(pk, f"SK#{skill_id}") for skill_id in skill_ids])}
    return [items[skill_id] for skill_id in skill_ids if skill_id in items]
