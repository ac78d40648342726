"""Who may do what: every route of the API, for everybody who may call it. One table; `test_matrix.py` runs it.

    nob  nobody: no token                     agt  the token of the task the call is about
    bad  a token with one wrong digit         ag2  the token of another agent's task in the same workspace
    own  owner of the workspace `home`        dmn  the machine the task runs on
    adm  admin                                dm2  another machine in the same workspace
    mch  member, registered the machine       ow* me* ag* dm*  owner, member, agent and machine of another workspace
    aut  member, made the agent
    mem  member, made nothing of it

What a path or a body names is a thing of `home` (`stage.py`); its agent is private unless the row says otherwise.
Another tenant's thing is 404; a forbidden thing in one's own workspace is 403; no token is 401. A list is the caller's
own workspace's, so the other tenant gets a 200, with nothing of `home` in it, which is tested as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

TABLE: Final = """
nob bad  own adm mch aut mem  agt ag2 dmn dm2  ow* me* ag* dm*

409 409  409 409 409 409 409  409 409 409 409  409 409 409 409  POST /api/bootstrap
200 200  200 200 200 200 200  200 200 200 200  200 200 200 200  GET /device
200 200  200 200 200 200 200  200 200 200 200  200 200 200 200  POST /api/device/code
400 400  400 400 400 400 400  400 400 400 400  400 400 400 400  POST /api/device/token
401 401  200 200 200 200 200  403 403 403 403  200 200 403 403  POST /api/device/lookup
401 401  200 200 200 200 200  403 403 403 403  200 200 403 403  POST /api/device/decide
401 401  200 200 200 200 200  200 200 200 200  200 200 200 200  GET /api/me
401 401  200 200 200 200 200  403 403 403 403  200 200 403 403  GET /api/tokens
401 401  200 200 200 200 200  403 403 403 403  200 200 403 403  POST /api/tokens
401 401  200 200 200 200 200  403 403 403 403  200 200 403 403  POST /api/tokens/current/renew
401 401  200 404 404 404 404  403 403 403 403  404 404 403 403  DELETE /api/tokens/{token_id}
401 401  200 200 200 200 200  403 403 403 403  200 200 403 403  GET /api/workspaces
401 401  200 200 200 200 200  403 403 403 403  200 200 403 403  POST /api/workspaces
401 401  200 200 403 403 403  403 403 403 403  200 403 403 403  PATCH /api/workspaces/current
401 401  200 200 200 200 200  403 403 403 403  200 200 403 403  GET /api/members
401 401  200 200 403 403 403  403 403 403 403  404 403 403 403  PATCH /api/members/{user_id}
401 401  200 200 403 403 403  403 403 403 403  404 404 403 403  DELETE /api/members/{user_id}
401 401  200 200 403 403 403  403 403 403 403  200 403 403 403  POST /api/invitations
401 401  200 200 403 403 403  403 403 403 403  200 403 403 403  GET /api/invitations
401 401  200 200 403 403 403  403 403 403 403  404 403 403 403  DELETE /api/invitations/{invitation_id}
401 401  200 200 200 200 200  403 403 403 403  200 200 403 403  POST /api/invitations/accept
200 200  200 200 200 200 200  200 200 200 200  200 200 200 200  POST /api/invitations/accept as somebody new
401 401  200 200 403 403 403  403 403 403 403  200 403 403 403  GET /api/audit

401 401  200 200 200 200 200  200 200 403 403  200 200 200 403  GET /api/agents
401 401  200 200 200 200 200  403 403 403 403  400 400 403 403  POST /api/agents
401 401  200 200 403 200 403  200 200 403 403  404 404 404 403  GET /api/agents/{agent_id}
401 401  200 200 200 200 200  200 200 403 403  404 404 404 403  GET /api/agents/{agent_id} open to all
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  PATCH /api/agents/{agent_id}
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  PUT /api/agents/{agent_id}
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  POST /api/agents/{agent_id}/archive
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  POST /api/agents/{agent_id}/restore
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  POST /api/agents/{agent_id}/cancel-tasks
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  GET /api/agents/{agent_id}/env
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  PUT /api/agents/{agent_id}/env
401 401  200 200 200 200 200  200 200 403 403  200 200 200 403  GET /api/model-profiles
401 401  200 200 403 403 403  403 403 403 403  200 403 403 403  PUT /api/model-profiles/{key}
401 401  200 200 403 403 403  403 403 403 403  200 403 403 403  DELETE /api/model-profiles/{key}

401 401  200 200 200 200 200  200 200 403 403  200 200 200 403  GET /api/skills
401 401  200 200 200 200 200  403 403 403 403  200 200 403 403  POST /api/skills
401 401  200 200 200 200 200  200 200 403 403  404 404 404 403  GET /api/skills/{skill_id}
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  PUT /api/skills/{skill_id}
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  DELETE /api/skills/{skill_id}
401 401  200 200 403 200 403  200 200 403 403  404 404 404 403  GET /api/agents/{agent_id}/skills
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  PUT /api/agents/{agent_id}/skills
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  POST /api/agents/{agent_id}/skills/add
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  DELETE /api/agents/{agent_id}/skills/{skill_id}

401 401  200 200 200 200 200  200 200 403 403  200 200 200 403  GET /api/tasks
401 401  200 200 403 200 403  200 403 403 403  404 404 404 403  GET /api/tasks of the agent
401 401  403 403 403 201 403  403 403 403 403  404 404 403 403  POST /api/tasks
401 401  201 201 201 201 201  403 403 403 403  404 404 403 403  POST /api/tasks of an agent open to all
401 401  200 200 403 200 403  200 403 403 403  404 404 404 403  GET /api/tasks/{task_id}
401 401  200 200 403 200 403  200 403 403 403  404 404 404 403  GET /api/tasks/{task_id}/messages
401 401  200 200 403 200 403  403 403 403 403  404 404 403 403  POST /api/tasks/{task_id}/cancel
401 401  200 200 200 200 200  403 403 403 403  200 200 403 403  POST /api/tasks/cancel
401 401  403 403 403 200 403  403 403 403 403  404 404 403 403  POST /api/tasks/{task_id}/rerun
401 401  403 403 403 200 403  403 403 403 403  404 404 403 403  POST /api/issues/{issue_id}/rerun
401 401  200 200 200 200 200  200 200 403 403  200 200 200 403  GET /api/queue
401 401  200 200 200 200 200  200 200 403 403  404 404 404 403  GET /api/queue of the runtime
401 401  200 200 403 403 403  403 403 403 403  200 403 403 403  GET /api/doctor
401 401  200 200 200 200 200  200 200 403 403  200 200 200 403  GET /api/runtimes
401 401  200 200 200 200 200  200 200 403 403  404 404 404 403  GET /api/runtimes/{runtime_id}
401 401  200 200 200 403 403  403 403 403 403  404 404 403 403  PATCH /api/runtimes/{runtime_id}
401 401  403 403 200 403 403  403 403 403 403  404 404 403 403  PATCH /api/runtimes/{runtime_id} to close it
401 401  200 200 200 403 403  403 403 403 403  404 404 403 403  DELETE /api/runtimes/{runtime_id}
401 401  200 200 200 403 403  403 403 403 403  404 404 403 403  POST /api/runtimes/{runtime_id}/unbind-agents-and-delete
401 401  200 200 200 200 200  200 200 403 403  404 404 404 403  GET /api/runtimes/{runtime_id}/usage
401 401  200 200 200 200 200  200 200 403 403  404 404 404 403  GET /api/runtimes/{runtime_id}/activity

401 401  200 200 200 200 200  200 200 403 403  404 404 404 403  GET /api/workspaces/{workspace_id}/runtime-profiles
401 401  200 200 403 403 403  403 403 403 403  404 404 403 403  POST /api/workspaces/{workspace_id}/runtime-profiles
401 401  200 200 200 200 200  200 200 403 403  404 404 404 403  GET /api/workspaces/{workspace_id}/runtime-profiles/{profile_id}
401 401  200 200 403 403 403  403 403 403 403  404 404 403 403  PATCH /api/workspaces/{workspace_id}/runtime-profiles/{profile_id}
401 401  200 200 403 403 403  403 403 403 403  404 404 403 403  PUT /api/workspaces/{workspace_id}/runtime-profiles/{profile_id}
401 401  200 200 403 403 403  403 403 403 403  404 404 403 403  DELETE /api/workspaces/{workspace_id}/runtime-profiles/{profile_id}
401 401  200 200 200 200 200  403 403 200 200  404 404 403 404  GET /api/daemon/workspaces/{workspace_id}/runtime-profiles

401 401  403 403 200 403 403  403 403 200 403  200 403 403 200  POST /api/daemon/register
401 401  403 403 200 403 403  403 403 200 200  404 404 403 200  POST /api/daemon/heartbeat
401 401  403 403 200 403 403  403 403 200 200  404 404 403 200  POST /api/daemon/deregister
401 401  403 403 200 403 403  403 403 200 403  200 403 403 200  POST /api/daemon/tasks/claim
401 401  403 403 200 403 403  403 403 200 200  404 404 403 200  POST /api/daemon/claim
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  POST /api/daemon/runtimes/{runtime_id}/tasks/claim
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  POST /api/daemon/runtimes/{runtime_id}/recover-orphans
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  POST /api/daemon/runtimes/{runtime_id}/tasks/{task_id}/prepare-lease
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  POST /api/daemon/runtimes/{runtime_id}/tasks/{task_id}/skill-bundles/resolve
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  POST /api/daemon/tasks/{task_id}/wait-local-directory
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  POST /api/daemon/tasks/{task_id}/start
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  POST /api/daemon/tasks/{task_id}/messages
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  POST /api/daemon/tasks/{task_id}/usage
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  POST /api/daemon/tasks/{task_id}/session
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  GET /api/daemon/tasks/{task_id}/status
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  POST /api/daemon/tasks/{task_id}/complete
401 401  403 403 200 403 403  403 403 200 403  404 404 403 404  POST /api/daemon/tasks/{task_id}/fail
401 401  403 403 200 403 403  401 403 200 403  404 404 403 404  POST /api/daemon/tasks/{task_id}/cancel-ack
"""  # noqa: E501  # one row is one line
# Out of the pattern: anybody who is logged in anywhere may let a machine in as themselves, and nobody can fetch the
# token of a login that nobody has answered. A cancelled task's token is dead, so its agent is nobody at cancel-ack.
# Claim by its older path, heartbeat and deregister may name other machines' runtimes: those are skipped, or answered as
# gone.
# Register and claim name the machine `laptop`, and the other workspace has a `laptop` of its own, its owner's.

PROOF: Final = {"claim_id": "{claim}", "fence": "{fence}"}
"""What the task's own daemon sends with every write. Everybody here knows it: it is no secret and opens nothing."""


@dataclass(frozen=True, slots=True)
class Sent:
    """`needs`: what must be there, and fresh, before the call (`Stage.prepare`)."""

    body: Any = None
    query: dict[str, str] | None = None
    needs: str = ""


SENT: Final = {
    "POST /api/bootstrap": Sent({"secret": "guessed"}),
    "POST /api/device/code": Sent({"client_name": "laptop"}),
    "POST /api/device/token": Sent({"device_code": "{device_code}"}, needs="login"),
    "POST /api/device/lookup": Sent({"user_code": "{user_code}"}, needs="login"),
    "POST /api/device/decide": Sent({"user_code": "{user_code}", "approve": False}, needs="login"),
    "POST /api/tokens": Sent({"name": "ci"}),
    "DELETE /api/tokens/{token_id}": Sent(needs="token"),
    "POST /api/workspaces": Sent({"name": "new"}),
    "PATCH /api/workspaces/current": Sent({"context": "Be kind."}),
    "PATCH /api/members/{user_id}": Sent({"role": "admin"}, needs="newcomer"),
    "DELETE /api/members/{user_id}": Sent(needs="newcomer"),
    "POST /api/invitations": Sent({"role": "member"}),
    "DELETE /api/invitations/{invitation_id}": Sent(needs="link"),
    "POST /api/invitations/accept": Sent({"code": "{invitation}"}, needs="no_guests"),
    "POST /api/invitations/accept as somebody new": Sent({"code": "{invitation}", "name": "Zed"}),
    "POST /api/agents": Sent({"name": "{unique}", "runtime_id": "{runtime_id}"}),
    "PATCH /api/agents/{agent_id}": Sent({"description": "d"}),
    "PUT /api/agents/{agent_id}": Sent({"description": "d"}),
    "POST /api/agents/{agent_id}/archive": Sent(needs="spare_agent"),
    "POST /api/agents/{agent_id}/restore": Sent(needs="archived_agent"),
    "POST /api/agents/{agent_id}/cancel-tasks": Sent(needs="task"),
    "PUT /api/agents/{agent_id}/env": Sent({"custom_env": {"A": "1"}}),
    "POST /api/skills": Sent({"name": "{fresh}", "description": "d", "content": "Do it well."}),
    "PUT /api/skills/{skill_id}": Sent({"description": "changed"}),
    "DELETE /api/skills/{skill_id}": Sent(needs="spare_skill"),
    "PUT /api/agents/{agent_id}/skills": Sent({"skill_ids": ["{skill_id}"]}),
    "POST /api/agents/{agent_id}/skills/add": Sent({"skill_ids": ["{skill_id}"]}),
    "DELETE /api/agents/{agent_id}/skills/{skill_id}": Sent(needs="spare_skill"),
    "GET /api/agents/{agent_id} open to all": Sent(needs="open_agent"),
    "PUT /api/model-profiles/{key}": Sent({"providers": {"claude": {"model": "opus"}}}),
    "GET /api/tasks of the agent": Sent(query={"agent": "{agent_id}"}),
    "POST /api/tasks": Sent({"agent": "{agent_id}", "prompt": "p"}),
    "POST /api/tasks of an agent open to all": Sent({"agent": "{agent_id}", "prompt": "p"}, needs="open_agent"),
    "POST /api/tasks/{task_id}/cancel": Sent(needs="task"),
    "POST /api/tasks/cancel": Sent({"task_ids": ["{task_id}"]}, needs="task"),
    "POST /api/tasks/{task_id}/rerun": Sent(needs="ended"),
    "POST /api/issues/{issue_id}/rerun": Sent({"task_id": "{task_id}"}, needs="ended"),
    "GET /api/queue of the runtime": Sent(query={"runtime_id": "{runtime_id}"}),
    "PATCH /api/runtimes/{runtime_id}": Sent({"custom_name": "{unique}"}),
    "PATCH /api/runtimes/{runtime_id} to close it": Sent({"visibility": "private"}, needs="public_runtime"),
    "DELETE /api/runtimes/{runtime_id}": Sent(needs="idle_runtime"),
    "POST /api/runtimes/{runtime_id}/unbind-agents-and-delete": Sent(
        {"expected_active_agent_ids": []}, needs="idle_runtime"
    ),
    "POST /api/workspaces/{workspace_id}/runtime-profiles": Sent(
        {"display_name": "{unique}", "protocol_family": "claude", "command_name": "wrap"}, needs="no_profiles"
    ),
    "GET /api/workspaces/{workspace_id}/runtime-profiles/{profile_id}": Sent(needs="profile"),
    "PATCH /api/workspaces/{workspace_id}/runtime-profiles/{profile_id}": Sent({"enabled": False}, needs="profile"),
    "PUT /api/workspaces/{workspace_id}/runtime-profiles/{profile_id}": Sent({"enabled": True}, needs="profile"),
    "DELETE /api/workspaces/{workspace_id}/runtime-profiles/{profile_id}": Sent(needs="profile"),
    "POST /api/daemon/register": Sent(
        {"daemon_id": "laptop", "runtimes": [{"name": "echo", "type": "echo"}, {"name": "spare", "type": "spare"}]}
    ),
    "POST /api/daemon/heartbeat": Sent({"runtime_ids": ["{runtime_id}"]}),
    "POST /api/daemon/deregister": Sent({"runtime_ids": ["{spare_runtime_id}"]}),
    "POST /api/daemon/tasks/claim": Sent({"daemon_id": "laptop", "runtime_ids": ["{runtime_id}"]}, needs="queued"),
    "POST /api/daemon/claim": Sent({"runtime_ids": ["{runtime_id}"]}, needs="queued"),
    "POST /api/daemon/runtimes/{runtime_id}/tasks/claim": Sent({}, needs="queued"),
    "POST /api/daemon/runtimes/{runtime_id}/recover-orphans": Sent({"keep": ["{task_id}", "{task2_id}"]}),
    "POST /api/daemon/runtimes/{runtime_id}/tasks/{task_id}/prepare-lease": Sent(PROOF, needs="task"),
    "POST /api/daemon/runtimes/{runtime_id}/tasks/{task_id}/skill-bundles/resolve": Sent(
        {**PROOF, "refs": [{"id": "{skill_id}", "source": "workspace"}]}, needs="task"
    ),
    "POST /api/daemon/tasks/{task_id}/wait-local-directory": Sent(PROOF, needs="task"),
    "POST /api/daemon/tasks/{task_id}/start": Sent(PROOF, needs="task"),
    "POST /api/daemon/tasks/{task_id}/messages": Sent(
        {**PROOF, "messages": [{"seq": 1, "type": "text", "content": "hello"}]}, needs="started"
    ),
    "POST /api/daemon/tasks/{task_id}/usage": Sent(
        {**PROOF, "usage": [{"provider": "echo", "model": "m", "input_tokens": 1}]}, needs="started"
    ),
    "POST /api/daemon/tasks/{task_id}/session": Sent({**PROOF, "session_id": "s"}, needs="started"),
    "POST /api/daemon/tasks/{task_id}/complete": Sent({**PROOF, "output": "o"}, needs="started"),
    "POST /api/daemon/tasks/{task_id}/fail": Sent(
        {**PROOF, "error": "e", "failure_reason": "timeout"}, needs="started"
    ),
    "POST /api/daemon/tasks/{task_id}/cancel-ack": Sent(PROOF, needs="cancelled"),
}
"""What is sent, for the rows that send something or need something fresh. Braces are filled in by the stage."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    method: str
    path: str
    statuses: dict[str, int]
    sent: Sent


def _rows() -> tuple[tuple[str, ...], list[Row]]:
    header, *lines = [line for line in TABLE.splitlines() if line]
    actors = tuple(header.split())
    rows = []
    for line in lines:
        cells = line.split(maxsplit=len(actors))
        name = cells.pop()
        method, path = name.split()[:2]
        statuses = dict(zip(actors, map(int, cells), strict=True))
        rows.append(Row(name, method, path, statuses, SENT.get(name, Sent())))
    return actors, rows


ACTORS, MATRIX = _rows()
