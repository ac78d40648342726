"""agents: teammates, and the model profiles they are set up with."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Path, Query

from callboard_control.actor import person, reader
from callboard_control.agents import changes, profiles, teammates, views
from callboard_control.entrypoints._http import as_handler, caller, new_app
from callboard_wire.agents import (
    AgentView,
    CreateAgentRequest,
    ModelProfileView,
    PutModelProfile,
    UpdateAgentRequest,
)
from callboard_wire.api import Page

app = new_app()
handler = as_handler(app)
Key = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]


@app.post("/api/agents")
def create_agent(request: CreateAgentRequest) -> AgentView:
    who = person(caller(app))
    return views.shown(teammates.create(who, request), who)


@app.get("/api/agents")
def list_agents(
    cursor: Annotated[str | None, Query(max_length=2000)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    include_archived: Annotated[bool, Query()] = False,
) -> Page[AgentView]:
    return views.list_agents(reader(caller(app)), cursor, limit, include_archived=include_archived)


@app.get("/api/agents/<agent_id>")
def get_agent(agent_id: str) -> AgentView:
    return views.view_of(reader(caller(app)), agent_id)


@app.patch("/api/agents/<agent_id>")
def update_agent(agent_id: str, request: UpdateAgentRequest) -> AgentView:
    who = person(caller(app))
    return views.shown(changes.update(who, teammates.find(who.workspace_id, agent_id), request), who)


@app.put("/api/agents/<agent_id>")
def put_agent(agent_id: str, request: UpdateAgentRequest) -> AgentView:
    return update_agent(agent_id, request)


@app.post("/api/agents/<agent_id>/archive")
def archive_agent(agent_id: str) -> AgentView:
    who = person(caller(app))
    return views.shown(changes.archive(who, teammates.find(who.workspace_id, agent_id)), who)


@app.post("/api/agents/<agent_id>/restore")
def restore_agent(agent_id: str) -> AgentView:
    who = person(caller(app))
    return views.shown(changes.restore(who, teammates.find(who.workspace_id, agent_id)), who)


@app.get("/api/model-profiles")
def list_model_profiles() -> Page[ModelProfileView]:
    return profiles.list_profiles(reader(caller(app)).workspace_id)


@app.put("/api/model-profiles/<key>")
def put_model_profile(key: Key, request: PutModelProfile) -> ModelProfileView:
    return profiles.put(person(caller(app)), key, request)


@app.delete("/api/model-profiles/<key>")
def delete_model_profile(key: Key) -> ModelProfileView:
    return profiles.delete(person(caller(app)), key)
