"""Which skills an agent has: ids on the agent's own item, in their order. A claim for one without reads nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection

from callboard_control import permissions
from callboard_control.actor import Person
from callboard_control.agents import skill_choice, teammates
from callboard_control.errors import Conflict, Forbidden
from callboard_control.identity import audit
from callboard_control.skills import library
from callboard_control.store import bundles, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import AgentItem
from callboard_wire.skills import AgentSkills

A = AgentItem
TRIES = 5


def skills_of(agent: AgentItem) -> AgentSkills:
    """The agent's skills. One that was deleted is no more of them."""
    return AgentSkills(
        skills=[library.summary(item) for item in bundles.skills_by_id(agent.workspace_id, agent.skills or ())]
    )


def replace(person: Person, agent: AgentItem, skill_ids: list[str]) -> AgentSkills:
    """Give the agent these and no others; an id that is there twice counts where it comes first.

    Raises `Forbidden`; `InvalidRequest` ``skill_not_found`` for an id that is none of this workspace's skills.
    """
    return _change(person, agent, lambda _: skill_ids, named=skill_ids)


def add(person: Person, agent: AgentItem, skill_ids: list[str]) -> AgentSkills:
    """Give the agent these as well, after those it has. Raises as `replace`, and ``too_many_skills``."""
    return _change(person, agent, lambda before: [*before, *skill_ids], named=skill_ids)


def remove(person: Person, agent: AgentItem, skill_id: str) -> AgentSkills:
    """Take one away; one the agent does not have changes nothing. Raises `Forbidden`."""
    return _change(person, agent, lambda before: [each for each in before if each != skill_id], named=())


def _change(
    person: Person, agent: AgentItem, wanted: Callable[[list[str]], list[str]], named: Collection[str]
) -> AgentSkills:
    """Write what `wanted` makes of the list as it is; again, when somebody else changed it meanwhile."""
    if not permissions.may_change(person, agent):
        raise Forbidden("Only the agent's owner, or an owner or admin of the workspace, may change it.")
    for _ in range(TRIES):
        before = list(agent.skills or [])
        found = skill_choice.of(agent.workspace_id, wanted(before), named)
        after = [item.id for item in found]
        if after == before:
            return AgentSkills(skills=[library.summary(item) for item in found])
        actions = [A.skills.set(after) if after else A.skills.remove()]
        same = A.skills == before if before else A.skills.does_not_exist()
        deed = audit.put(person, "agent_skills_updated", f"agent:{agent.id}", skills=after)
        try:
            table.transact([table.Update(A(agent.pk, agent.sk), actions, A.pk.exists() & same), deed])
        except ConditionFailed:
            agent = teammates.find(agent.workspace_id, agent.id)
            continue
        return AgentSkills(skills=[library.summary(item) for item in found])
    raise Conflict("Others keep changing this agent's skills; try again in a moment.", code="contended")
