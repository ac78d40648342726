"""agents: teammates."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from callboard_control.actor import person, reader
from callboard_control.agents import changes, teammates
from callboard_control.entrypoints._http import as_handler, caller, new_app
from callboard_wire.agents import AgentView, CreateAgentRequest, UpdateAgentRequest
from callboard_wire.api import Page

app = new_app()
handler = as_handler(app)


@app.post("/api/agents")
def create_agent(request: CreateAgentRequest) -> AgentView:
    who = person(caller(app))
    return teammates.view(teammates.create(who, request), who)


@app.get("/api/agents")
def list_agents(
    cursor: Annotated[str | None, Query(max_length=2000)] = None, limit: Annotated[int, Query(ge=1, le=100)] = 50
) -> Page[AgentView]:
    return teammates.list_agents(reader(caller(app)), cursor, limit)


@app.get("/api/agents/<agent_id>")
def get_agent(agent_id: str) -> AgentView:
    return teammates.view_of(reader(caller(app)), agent_id)


@app.patch("/api/agents/<agent_id>")
def update_agent(agent_id: str, request: UpdateAgentRequest) -> AgentView:
    who = person(caller(app))
    return teammates.view(changes.update(who, teammates.find(who.workspace_id, agent_id), request), who)


@app.put("/api/agents/<agent_id>")
def put_agent(agent_id: str, request: UpdateAgentRequest) -> AgentView:
    return update_agent(agent_id, request)


@app.post("/api/agents/<agent_id>/archive")
def archive_agent(agent_id: str) -> AgentView:
    who = person(caller(app))
    return teammates.view(changes.archive(who, teammates.find(who.workspace_id, agent_id)), who)


@app.post("/api/agents/<agent_id>/restore")
def restore_agent(agent_id: str) -> AgentView:
    who = person(caller(app))
    return teammates.view(changes.restore(who, teammates.find(who.workspace_id, agent_id)), who)
