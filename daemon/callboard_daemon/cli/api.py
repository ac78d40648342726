"""The people's and agents' side of the API, as the command line uses it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from callboard_daemon.cli.api_people import PeopleCalls
from callboard_daemon.cli.api_runtimes import RuntimeCalls
from callboard_daemon.cli.asking import SEGMENT, TRIES, missing, segment
from callboard_wire.agents import AgentView, CreateAgentRequest, ModelProfileView, PutModelProfile, UpdateAgentRequest
from callboard_wire.api import (
    DoctorReport,
    EnqueueRequest,
    Page,
    QueuedTask,
    RerunRequest,
    TaskView,
)
from callboard_wire.bodies import Body, TaskMessage
from callboard_wire.skills import (
    AgentSkillIds,
    AgentSkills,
    CreateSkillRequest,
    SkillSummary,
    SkillView,
    UpdateSkillRequest,
)


class Api(PeopleCalls, RuntimeCalls):
    """One server, as one person or task. Every method raises `ControlError` and nothing else."""

    def create_agent(self, body: CreateAgentRequest) -> AgentView:
        return self._ask("POST", "/api/agents", AgentView, body, tries=1)

    def update_agent(self, agent_id: str, body: UpdateAgentRequest) -> AgentView:
        """Only what `body` was given is sent; null is a value there."""
        return self._ask("PATCH", f"/api/agents/{segment(agent_id, 'agent')}", AgentView, body, nulls=True)

    def archive_agent(self, agent_id: str) -> AgentView:
        return self._ask("POST", f"/api/agents/{segment(agent_id, 'agent')}/archive", AgentView, tries=1)

    def restore_agent(self, agent_id: str) -> AgentView:
        return self._ask("POST", f"/api/agents/{segment(agent_id, 'agent')}/restore", AgentView, tries=1)

    def agents(self, *, archived: bool = False) -> Iterator[AgentView]:
        return self._pages("/api/agents", AgentView, {"limit": 100, "include_archived": str(archived).lower()})

    def agent(self, name_or_id: str) -> AgentView:
        if SEGMENT.fullmatch(name_or_id):
            return self._ask("GET", f"/api/agents/{segment(name_or_id, 'agent')}", AgentView)
        wanted = name_or_id.casefold()
        for found in self.agents(archived=True):
            if found.name.casefold() == wanted:
                return found
        raise missing("agent", name_or_id)

    def model_profiles(self) -> Iterator[ModelProfileView]:
        return self._pages("/api/model-profiles", ModelProfileView, {})

    def put_model_profile(self, key: str, body: PutModelProfile) -> ModelProfileView:
        return self._ask("PUT", f"/api/model-profiles/{segment(key, 'model profile')}", ModelProfileView, body)

    def delete_model_profile(self, key: str) -> ModelProfileView:
        path = f"/api/model-profiles/{segment(key, 'model profile')}"
        return self._ask("DELETE", path, ModelProfileView, tries=1)

    def create_skill(self, body: CreateSkillRequest) -> SkillSummary:
        return self._ask("POST", "/api/skills", SkillSummary, body, tries=1)

    def skills(self) -> Iterator[SkillSummary]:
        return self._pages("/api/skills", SkillSummary, {})

    def skills_named(self, names: Iterable[str]) -> list[SkillSummary]:
        """Skills by name or id, in that order, without what they hold. Raises `NotFound`."""
        known = list(self.skills())
        by_name = {each.name.casefold(): each for each in known} | {each.id: each for each in known}
        for name in names:
            if name not in by_name and name.casefold() not in by_name:
                raise missing("skill", name)
        return [by_name.get(name) or by_name[name.casefold()] for name in names]

    def skill(self, name_or_id: str) -> SkillView:
        known = name_or_id if SEGMENT.fullmatch(name_or_id) else self.skills_named([name_or_id])[0].id
        return self._ask("GET", f"/api/skills/{segment(known, 'skill')}", SkillView)

    def update_skill(self, skill_id: str, body: UpdateSkillRequest) -> SkillSummary:
        return self._ask("PUT", f"/api/skills/{segment(skill_id, 'skill')}", SkillSummary, body, tries=1)

    def delete_skill(self, skill_id: str) -> None:
        self._ask("DELETE", f"/api/skills/{segment(skill_id, 'skill')}", Body)

    def agent_skills(self, agent_id: str) -> AgentSkills:
        return self._ask("GET", f"/api/agents/{segment(agent_id, 'agent')}/skills", AgentSkills)

    def put_agent_skills(self, agent_id: str, body: AgentSkillIds) -> AgentSkills:
        return self._ask("PUT", f"/api/agents/{segment(agent_id, 'agent')}/skills", AgentSkills, body)

    def add_agent_skills(self, agent_id: str, body: AgentSkillIds) -> AgentSkills:
        return self._ask("POST", f"/api/agents/{segment(agent_id, 'agent')}/skills/add", AgentSkills, body)

    def remove_agent_skill(self, agent_id: str, skill_id: str) -> AgentSkills:
        path = f"/api/agents/{segment(agent_id, 'agent')}/skills/{segment(skill_id, 'skill')}"
        return self._ask("DELETE", path, AgentSkills)

    def enqueue(self, body: EnqueueRequest) -> TaskView:
        """With an `idempotency_key`, which makes it safe to ask again when the answer was lost."""
        return self._ask("POST", "/api/tasks", TaskView, body, tries=TRIES if body.idempotency_key else 1)

    def tasks(self, **wanted: str) -> Iterator[TaskView]:
        return self._pages("/api/tasks", TaskView, {key: value for key, value in wanted.items() if value})

    def task(self, task_id: str) -> TaskView:
        return self._ask("GET", f"/api/tasks/{segment(task_id, 'task')}", TaskView)

    def messages(self, task_id: str, since: int) -> Page[TaskMessage]:
        """One page of the messages after number `since`."""
        return self._ask(
            "GET", f"/api/tasks/{segment(task_id, 'task')}/messages", Page[TaskMessage], query={"since": since}
        )

    def cancel(self, task_id: str) -> TaskView:
        return self._ask("POST", f"/api/tasks/{segment(task_id, 'task')}/cancel", TaskView)

    def rerun(self, task_id: str) -> TaskView:
        """Under a key of its own, so that asking again after a lost answer makes no second one."""
        body = RerunRequest(idempotency_key=uuid.uuid4().hex)
        return self._ask("POST", f"/api/tasks/{segment(task_id, 'task')}/rerun", TaskView, body)

    def queue(self, **wanted: str) -> Iterator[QueuedTask]:
        return self._pages("/api/queue", QueuedTask, wanted)

    def doctor(self) -> Iterator[DoctorReport]:
        """Page after page of the server's cross-check."""
        query: dict[str, Any] = {}
        while True:
            page = self._ask("GET", "/api/doctor", DoctorReport, query=query)
            yield page
            if not page.next_cursor:
                return
            query = {"cursor": page.next_cursor}
