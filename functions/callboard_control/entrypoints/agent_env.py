"""agent_env: an agent's secret environment. With the claim, the only function that may read secrets."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Query

from callboard_control.actor import person
from callboard_control.agents import env, teammates
from callboard_control.entrypoints._http import as_handler, caller, new_app
from callboard_wire.agents import AgentEnv, PutAgentEnv

app = new_app()
handler = as_handler(app)


@app.get("/api/agents/<agent_id>/env")
def reveal_env(agent_id: str, masked: Annotated[bool, Query()] = False) -> AgentEnv:
    who = person(caller(app))
    agent = teammates.find(who.workspace_id, agent_id)
    return env.masked(who, agent) if masked else env.reveal(who, agent)


@app.put("/api/agents/<agent_id>/env")
def replace_env(agent_id: str, request: PutAgentEnv) -> AgentEnv:
    who = person(caller(app))
    return env.replace(who, teammates.find(who.workspace_id, agent_id), request)
