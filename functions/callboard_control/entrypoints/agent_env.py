"""agent_env: an agent's secret environment. With the claim, the only function that may read secrets."""

from __future__ import annotations

from callboard_control.actor import person
from callboard_control.agents import env, teammates
from callboard_control.entrypoints._http import as_handler, caller, new_app
from callboard_wire.agents import AgentEnv, PutAgentEnv

app = new_app()
handler = as_handler(app)


@app.get("/api/agents/<agent_id>/env")
def reveal_env(agent_id: str) -> AgentEnv:
    who = person(caller(app))
    return env.reveal(who, teammates.find(who.workspace_id, agent_id))


@app.put("/api/agents/<agent_id>/env")
def replace_env(agent_id: str, request: PutAgentEnv) -> AgentEnv:
    who = person(caller(app))
    return env.replace(who, teammates.find(who.workspace_id, agent_id), request)
