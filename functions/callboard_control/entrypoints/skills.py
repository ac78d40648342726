"""skills: the workspace's library, what agents have of it, and what a daemon asks for before a run."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from callboard_control import permissions
from callboard_control.actor import person, reader
from callboard_control.agents import teammates
from callboard_control.entrypoints._http import as_handler, caller, daemon_of, new_app
from callboard_control.skills import enabled, library
from callboard_control.skills import resolve as resolving
from callboard_wire.api import Page
from callboard_wire.skills import (
    AgentSkillIds,
    AgentSkills,
    CreateSkillRequest,
    ResolvedSkills,
    ResolveSkills,
    SkillSummary,
    SkillView,
    UpdateSkillRequest,
)

app = new_app()
handler = as_handler(app)


@app.post("/api/skills")
def create_skill(request: CreateSkillRequest) -> SkillSummary:
    return library.summary(library.create(person(caller(app)), request))


@app.get("/api/skills")
def list_skills(
    cursor: Annotated[str | None, Query(max_length=2000)] = None, limit: Annotated[int, Query(ge=1, le=100)] = 50
) -> Page[SkillSummary]:
    return library.list_skills(reader(caller(app)), cursor, limit)


@app.get("/api/skills/<skill_id>")
def get_skill(skill_id: str) -> SkillView:
    return library.view(*library.current(library.find(reader(caller(app)).workspace_id, skill_id)))


@app.put("/api/skills/<skill_id>")
def update_skill(skill_id: str, request: UpdateSkillRequest) -> SkillSummary:
    who = person(caller(app))
    return library.summary(library.update(who, library.find(who.workspace_id, skill_id), request)[0])


@app.delete("/api/skills/<skill_id>")
def delete_skill(skill_id: str) -> dict[str, bool]:
    who = person(caller(app))
    library.delete(who, library.find(who.workspace_id, skill_id))
    return {"deleted": True}


@app.get("/api/agents/<agent_id>/skills")
def list_agent_skills(agent_id: str) -> AgentSkills:
    who = reader(caller(app))
    agent = teammates.find(who.workspace_id, agent_id)
    permissions.refuse_hidden(who, agent)
    return enabled.skills_of(agent)


@app.put("/api/agents/<agent_id>/skills")
def replace_agent_skills(agent_id: str, request: AgentSkillIds) -> AgentSkills:
    who = person(caller(app))
    return enabled.replace(who, teammates.find(who.workspace_id, agent_id), request.skill_ids)


@app.post("/api/agents/<agent_id>/skills/add")
def add_agent_skills(agent_id: str, request: AgentSkillIds) -> AgentSkills:
    who = person(caller(app))
    return enabled.add(who, teammates.find(who.workspace_id, agent_id), request.skill_ids)


@app.delete("/api/agents/<agent_id>/skills/<skill_id>")
def remove_agent_skill(agent_id: str, skill_id: str) -> AgentSkills:
    who = person(caller(app))
    return enabled.remove(who, teammates.find(who.workspace_id, agent_id), skill_id)


@app.post("/api/daemon/runtimes/<runtime_id>/tasks/<task_id>/skill-bundles/resolve")
def resolve_skills(runtime_id: str, task_id: str, request: ResolveSkills) -> ResolvedSkills:
    return resolving.resolve(daemon_of(app, runtime_id), runtime_id, task_id, request)
