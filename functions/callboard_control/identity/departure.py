"""Somebody leaves a workspace, or is taken out of it: what was theirs, and what becomes of it.

    their tokens            reach nothing here: every call reads the membership
    their machines' tokens  die
    their runtimes          go offline, or are handed over: the heir logs in on the machine, and it goes on
    agents on those         are put in the archive, their tasks cancelled; handed over with their runtime they stay
    their other agents      are handed over
    their invitations       let nobody in any more

The heir is who takes them out; when they leave by themselves, an owner of the workspace. The membership goes last, so
that a call cut off half-way can be repeated until it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from callboard_control.actor import Person
from callboard_control.agents import changes
from callboard_control.errors import Conflict, Forbidden
from callboard_control.fleet import machines, runtimes
from callboard_control.identity import audit, invitations, workspaces
from callboard_control.identity.workspaces import RANK
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.models import AgentItem, MemberItem
from callboard_wire.people import DepartedMember

A, M = AgentItem, MemberItem


def depart(person: Person, user_id: str, *, hand_over: bool) -> DepartedMember:
    """Take the member `user_id` out, or leave (one's own id). `hand_over`: their machines are the heir's from here on.

    Raises `Forbidden`, `NotFound`, `Conflict` ``last_owner`` or ``contended``.
    """
    member = workspaces.find_member(person, user_id)
    if user_id != person.user_id:
        workspaces.refuse_no_admin(person)
        if RANK[member.role] > RANK[person.role]:
            raise Forbidden("An admin cannot remove an owner.")
    owner_id = workspaces.another_owner(person, user_id)
    heir = person.user_id if user_id != person.user_id else owner_id
    theirs = {runtime.id for runtime in runtimes.every(person.workspace_id) if runtime.owner_id == user_id}
    answer = DepartedMember(heir_id=heir, runtimes=len(theirs))
    for agent in _agents(person.workspace_id):
        if agent.runtime_id in theirs and not hand_over and agent.archived is None:
            changes.put_away(person, agent)
            answer.archived_agents.append(agent.name)
        if agent.owner_id == user_id:
            _hand_over(person, agent, user_id, heir)
            answer.handed_over_agents.append(agent.name)
    machines.retire(person.workspace_id, user_id, heir if hand_over else None)
    invitations.revoke_all_of(person.workspace_id, user_id)
    _end_membership(person, member, owner_id, hand_over)
    # A machine that was refused a moment ago may have been registered anew by who was still a member then.
    machines.retire(person.workspace_id, user_id, heir if hand_over else None)
    return answer


def _end_membership(person: Person, member: MemberItem, owner_id: str, hand_over: bool) -> None:
    action = "member_left" if member.user_id == person.user_id else "member_removed"
    machines_are = "handed over" if hand_over else "offline"
    deed = audit.put(person, action, f"member:{member.user_id}", role=member.role, machines=machines_are)
    writes: list[table.Write] = [
        table.Delete(workspaces.keyed(person, member.user_id), M.role == member.role),
        deed,
    ]
    if member.role == "owner":
        # Two owners who leave at once would each have seen the other.
        writes.append(table.Check(workspaces.keyed(person, owner_id), M.role == "owner"))
    try:
        table.transact(writes)
    except ConditionFailed as e:
        raise Conflict("The members changed a moment ago; look again.", code="contended") from e


def _hand_over(person: Person, agent: AgentItem, user_id: str, heir: str) -> None:
    deed = audit.put(person, "agent_handed_over", f"agent:{agent.id}", before=user_id, after=heir)
    try:
        table.transact([table.Update(A(agent.pk, agent.sk), [A.owner_id.set(heir)], A.owner_id == user_id), deed])
    except ConditionFailed:
        pass  # it has another owner already: a call of the same kind was a moment faster


def _agents(workspace_id: str) -> Iterator[AgentItem]:
    return table.every(A, keys.workspace(workspace_id), A.sk.startswith("AG#"), consistent=True)
