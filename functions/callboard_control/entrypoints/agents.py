"""agents: teammates."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from callboard_control.actor import person
from callboard_control.agents import teammates
from callboard_control.entrypoints._http import as_handler, caller, new_app
from callboard_wire.api import AgentView, CreateAgentRequest, Page

app = new_app()
handler = as_handler(app)


@app.post("/api/agents")
def create_agent(request: CreateAgentRequest) -> AgentView:
    return teammates.view(teammates.create(person(caller(app)), request))


@app.get("/api/agents")
def list_agents(
    cursor: Annotated[str | None, Query(max_length=2000)] = None, limit: Annotated[int, Query(ge=1, le=100)] = 50
) -> Page[AgentView]:
    return teammates.list_agents(caller(app).workspace_id, cursor, limit)


@app.get("/api/agents/<agent_id>")
def get_agent(agent_id: str) -> AgentView:
    return teammates.view_of(caller(app).workspace_id, agent_id)
