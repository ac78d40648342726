"""What each function asks of the table, over tasks' lives of every kind, is granted to it in template.yaml."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from callboard_control import ports
from callboard_control.embedded.calls import Call, LocalContext
from callboard_control.embedded.engine import Engine, attach_connection
from callboard_control.embedded.scheduler import tick_event
from callboard_control.entrypoints import load
from callboard_control.store import table
from tests.fakes.handlers import Handlers
from tests.fakes.world import World
from tests.unit.infra import template

Use = tuple[str, str]
"""An action and what it is done to: ``table`` or an index's name."""

IN_TRANSACTION = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
}

REASONED: dict[str, set[Use]] = {
    # A person's token notes when it was last used, once in a while; gateways' tokens go to Secrets Manager.
    "agents": {("UpdateItem", "table"), ("CreateSecret", "*"), ("PutSecretValue", "*")},
    "claim": {("GetSecretValue", "*")},
    "identity": {("ConditionCheckItem", "table")},  # an owner leaves: somebody else must still be one
    "agent_env": {(f"{verb}Secret{what}", "*") for verb, what in (("Create", ""), ("Get", "Value"), ("Put", "Value"))},
    "complete": {("DeleteItem", "table")},  # the end of a task whose place somebody else holds by then
}
"""What is granted for moments that these lives do not reach."""


class Recorder:
    """Listens at the store's own client."""

    def __init__(self) -> None:
        self.function = ""
        self.seen: dict[str, set[Use]] = defaultdict(set)

    def enter(self, name: str) -> None:
        self.function = name

    def before_call(self, model: Any, params: dict[str, Any], **_: Any) -> None:
        body = json.loads(params["body"])
        if model.name == "TransactWriteItems":
            uses = {(IN_TRANSACTION[kind], "table") for action in body["TransactItems"] for kind in action}
        else:
            uses = {(model.name, body.get("IndexName", "table"))}
        self.seen[self.function] |= uses


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    engine = Engine(":memory:")
    attach_connection(engine, table.connection(), through_botocore=True)
    table.ensure()
    events = table.connection().client.meta.events
    events.register("before-call.dynamodb", recorder.before_call)
    yield recorder
    events.unregister("before-call.dynamodb", recorder.before_call)
    ports.use(ports.Ports())
    engine.close()


def tick(recorder: Recorder) -> None:
    recorder.enter("tick")
    load("tick").handler(tick_event(datetime.now(UTC)), LocalContext("tick", Call("t", 55)))


def later(seconds: float) -> None:
    """The server's clock goes on by `seconds`."""
    ahead_ms = int(seconds * 1000)
    ports.use(
        ports.Ports(clock=lambda: time.time_ns() // 1_000_000 + ahead_ms, secrets=SECRETS, bootstrap_secret=lambda: "s")
    )


class Remembered:
    """Secrets in memory: Secrets Manager's place is taken, the table's is not."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], dict[str, str]] = {}

    def read(self, agent_id: str, version: str) -> dict[str, str]:
        return self._kept[agent_id, version]

    def write(self, agent_id: str, version: str, values: dict[str, str]) -> None:
        self._kept[agent_id, version] = values


SECRETS = Remembered()


def people(world: World) -> None:
    """Workspaces, members, invitations; an agent changed, hidden and brought back; its environment."""
    world.call("GET", "/api/workspaces", world.person)
    world.call("POST", "/api/workspaces", world.person, {"name": "second"})
    world.call("PATCH", "/api/workspaces/current", world.person, {"context": "We write haiku."})
    code = world.call("POST", "/api/invitations", world.person, {"max_uses": 2})["code"]
    joined = world.call("POST", "/api/invitations/accept", "", {"code": code, "name": "Bob"})
    bob = joined["user_id"]
    world.call("GET", "/api/members", world.person)
    world.call("GET", "/api/invitations", world.person)
    world.call("PATCH", f"/api/members/{bob}", world.person, {"role": "owner"})
    started = world.call("POST", "/api/device/code", "", {})
    world.call("POST", "/api/device/decide", joined["token"], {"user_code": started["user_code"]})
    world.call("POST", "/api/device/token", "", {"device_code": started["device_code"]})
    machine = {"daemon_id": "bobs", "runtimes": [{"name": "echo", "type": "echo"}]}
    runtime = world.call("POST", "/api/daemon/register", joined["token"], machine)["runtimes"][0]["id"]
    world.call("POST", "/api/agents", joined["token"], {"name": "bobs", "runtime_id": runtime})
    world.call("POST", "/api/tasks", joined["token"], {"agent": "bobs", "prompt": "p"})
    world.call("DELETE", f"/api/members/{bob}", world.person)
    world.call("POST", "/api/tokens/current/renew", world.person)
    world.call("GET", "/api/audit", world.person)
    agent = f"/api/agents/{world.agent_id}"
    world.call("PUT", f"{agent}/env", world.person, {"custom_env": {"KEY": "value"}})
    world.call("GET", f"{agent}/env", world.person)
    world.call("PATCH", agent, world.person, {"name": "scout-2"})
    world.call("POST", f"{agent}/archive", world.person)
    world.call("POST", f"{agent}/restore", world.person)


def skills(world: World) -> None:
    """A skill made, changed, given to an agent, named by a claim and asked for, and deleted."""
    body = {"name": "review", "description": "d", "content": "Do it well.", "files": [{"path": "a", "content": "1"}]}
    skill = world.call("POST", "/api/skills", world.person, body)["id"]
    world.call("GET", "/api/skills", world.person)
    world.call("PUT", f"/api/skills/{skill}", world.person, {"name": "Reviews", "files": []})
    world.call("GET", f"/api/skills/{skill}", world.person)
    path = f"/api/agents/{world.agent_id}/skills"
    world.call("PUT", path, world.person, {"skill_ids": [skill]})
    world.call("GET", path, world.person)
    world.call("DELETE", f"{path}/{skill}", world.person)
    world.call("POST", f"{path}/add", world.person, {"skill_ids": [skill]})
    world.enqueue("with a skill")
    [task] = world.claim()
    asked = f"/api/daemon/runtimes/{world.runtime_id}/tasks/{task['id']}/skill-bundles/resolve"
    world.call("POST", asked, world.daemon, {"refs": [{"id": skill}]})
    world.about(task, "fail", error="enough")
    world.call("DELETE", f"/api/skills/{skill}", world.person)


def runtimes(world: World) -> None:
    """A runtime named, limited and paid for; a profile on a second machine, with work on it, and deleted with it."""
    runtime = f"/api/runtimes/{world.runtime_id}"
    world.call("PATCH", runtime, world.person, {"custom_name": "mine", "max_concurrent_tasks": 50})
    world.live()
    world.call("GET", runtime, world.person)
    world.call("GET", f"{runtime}/usage", world.person)
    world.call("GET", f"{runtime}/activity", world.person)
    path = f"/api/workspaces/{world.workspace_id}/runtime-profiles"
    body = {"display_name": "Mine", "protocol_family": "echo", "command_name": "mine"}
    profile = world.call("POST", path, world.person, body)["id"]
    world.call("GET", f"/api/daemon{path.removeprefix('/api')}", world.daemon)
    offer = {"name": "mine", "type": "echo", "profile_id": profile}
    spare = world.call("POST", "/api/daemon/register", world.person, {"daemon_id": "spare", "runtimes": [offer]})
    there = spare["runtimes"][0]["id"]
    agent = f"/api/agents/{world.agent_id}"
    world.call("PATCH", agent, world.person, {"runtime_id": there})
    world.enqueue("never runs")
    body = {"daemon_id": "spare", "runtime_ids": [there]}
    [held] = world.call("POST", "/api/daemon/tasks/claim", spare["daemon_token"], body)["tasks"]
    world.call("PATCH", agent, world.person, {"runtime_id": world.runtime_id})
    world.call("PATCH", f"{path}/{profile}", world.person, {"display_name": "Ours", "fixed_args": ["x"]})
    world.call("DELETE", f"{path}/{profile}", world.person)
    assert world.call("GET", f"/api/tasks/{held['id']}", world.person)["status"] == "cancelled"


def lives(world: World) -> None:
    done = world.live()
    world.call("GET", "/api/me", world.person)
    world.call("GET", "/api/agents", world.person)
    world.call("GET", f"/api/agents/{world.agent_id}", world.person)
    world.call("GET", "/api/runtimes", world.person)
    world.call("GET", "/api/tasks", world.person)
    world.call("GET", f"/api/tasks/{done['id']}/messages", world.person)
    token = world.call("POST", "/api/tokens", world.person, {"name": "ci"})
    world.call("GET", "/api/tokens", world.person)
    world.call("DELETE", f"/api/tokens/{token['id']}", world.person)
    world.call("POST", "/api/daemon/heartbeat", world.daemon, {"runtime_ids": [world.runtime_id]})
    for issue in ("i-1", "i-1", "i-2"):  # the second joins the first
        world.enqueue("x" * 30_000, issue_id=issue)
    queued = world.enqueue("waits", idempotency_key="k")
    assert world.enqueue("waits", idempotency_key="k")["id"] == queued["id"]
    world.call("GET", f"/api/tasks/{queued['id']}", world.person)
    world.call("POST", f"/api/tasks/{queued['id']}/cancel", world.person)
    world.call("GET", f"/api/queue?runtime_id={world.runtime_id}", world.person)
    world.call("GET", "/api/doctor", world.person)
    again = world.call("POST", f"/api/tasks/{done['id']}/rerun", world.person)
    world.call("POST", "/api/tasks/cancel", world.person, {"task_ids": [again["id"]]})
    first, second = world.claim(max_tasks=2)
    renew = {"claim_id": first["claim_id"], "fence": first["fence"]}
    world.call(
        "POST", f"/api/daemon/runtimes/{world.runtime_id}/tasks/{first['id']}/prepare-lease", world.daemon, renew
    )
    world.about(first, "wait-local-directory", reason="busy")
    world.about(first, "start", work_dir="/w")
    world.about(first, "session", session_id="s", work_dir="/w")
    world.call("GET", f"/api/daemon/tasks/{first['id']}/status", world.daemon)
    world.about(first, "fail", error="the machine restarted", failure_reason="runtime_recovery")
    world.call("POST", f"/api/tasks/{second['id']}/cancel", world.person)
    world.about(second, "cancel-ack")
    world.call("POST", f"/api/issues/{second['issue_id']}/rerun", world.person, {"task_id": second["id"]})
    world.call("POST", f"/api/agents/{world.agent_id}/cancel-tasks", world.person)


def ends_by_time(world: World, recorder: Recorder) -> None:
    for issue in ("i-3", "i-4"):
        world.enqueue("slow", issue_id=issue)
    held = world.claim(max_tasks=3)
    assert held
    later(100)  # beyond the lease
    tick(recorder)
    for task in world.claim(max_tasks=3):
        world.about(task, "start")
    path = f"/api/daemon/runtimes/{world.runtime_id}/recover-orphans"
    world.call("POST", path, world.daemon, {"keep": []})
    world.enqueue("never claimed")
    later(2 * 24 * 3600)
    tick(recorder)
    tick(recorder)
    world.call("POST", "/api/daemon/deregister", world.daemon, {"runtime_ids": [world.runtime_id]})


def granted(name: str) -> set[Use]:
    uses: set[Use] = set()
    for statement in template.statements(template.functions()[name][1]):
        things = {_thing(resource) for resource in template.as_list(statement["Resource"])}
        actions = {action.partition(":")[2] for action in template.as_list(statement["Action"])}
        uses |= {(action, thing) for action in actions for thing in things}
    return uses


def _thing(resource: dict[str, str]) -> str:
    return resource["Fn::Sub"].rpartition("/")[2] if "Fn::Sub" in resource else "table"


def test_every_function_is_granted_what_it_asks_of_the_table(recorder: Recorder) -> None:
    later(0)
    with World("http://handlers", "s", transport=Handlers(recorder.enter)) as world:
        people(world)
        skills(world)
        runtimes(world)
        lives(world)
        ends_by_time(world, recorder)
    assert recorder.seen.keys() == template.functions().keys()
    missing = {name: uses - granted(name) for name, uses in recorder.seen.items() if uses - granted(name)}
    assert not missing


def test_what_is_granted_beyond_these_lives_is_known_and_has_a_reason(recorder: Recorder) -> None:
    later(0)
    with World("http://handlers", "s", transport=Handlers(recorder.enter)) as world:
        people(world)
        skills(world)
        runtimes(world)
        lives(world)
        ends_by_time(world, recorder)
    beyond = {name: granted(name) - uses - REASONED.get(name, set()) for name, uses in recorder.seen.items()}
    assert not {name: uses for name, uses in beyond.items() if uses}
