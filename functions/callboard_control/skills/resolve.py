"""A daemon that prepares a task asks for the skills its claim named: those of the task's agent and no others."""

from __future__ import annotations

from callboard_control.actor import Daemon
from callboard_control.errors import Conflict, NotFound
from callboard_control.skills import library
from callboard_control.store import keys, table
from callboard_control.store.models import AgentItem
from callboard_control.tasks import guard
from callboard_control.tasks.skills import body
from callboard_wire.skill_files import MAX_BUNDLE_BYTES
from callboard_wire.skills import ResolvedSkills, ResolveSkills
from callboard_wire.states import PREPARING


def resolve(daemon: Daemon, runtime_id: str, task_id: str, request: ResolveSkills) -> ResolvedSkills:
    """The bundles asked for, each as it is now: a skill changed since the claim comes in its newer state.

    Raises `NotFound` ``skill_not_found`` for a skill the task's agent does not have (any more), ``task_not_found``;
    `Conflict` ``wrong_state`` when the task is not being prepared, ``stale_claim``.
    """
    task = guard.held_by(daemon, task_id, request)
    if task.runtime_id != runtime_id:
        raise NotFound.of("task", task_id)
    if task.status not in [status.value for status in PREPARING]:
        raise Conflict(f"A task that is {task.status} needs no skills any more.", code="wrong_state", task_id=task.id)
    agent = table.get(AgentItem, keys.workspace(task.workspace_id), f"AG#{task.agent_id}")
    has = set(agent.skills or ()) if agent is not None else set()
    answer = ResolvedSkills()
    size = 0
    for ref in request.refs:
        if ref.id not in has:
            raise NotFound.of("skill", ref.id)
        skill = library.find(task.workspace_id, ref.id)
        size += int(skill.size)
        if answer.bundles and size > MAX_BUNDLE_BYTES:
            break
        answer.bundles.append(body(library.current(skill)[1]))
    return answer
