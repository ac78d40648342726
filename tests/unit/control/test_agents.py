"""Agents: what may be set and changed by whom, the archive, and the secret environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard_control.embedded.secrets import LocalSecrets
from callboard_control.store import table
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Machine, World
from tests.unit.control.test_people import newcomer


@pytest.fixture
def world(clock: Clock, tmp_path: Path) -> Iterator[World]:
    world = World(clock=clock, secrets=LocalSecrets(tmp_path / "secrets.key"))
    yield world
    world.close()


def agent_path(world: World, name: str = "ada") -> str:
    return f"/api/agents/{world.ok('GET', f'/api/agents/{name}')['id']}"


def test_a_form_sent_back_changes_and_records_only_what_was_changed_in_it(world: World, machine: Machine) -> None:
    path = agent_path(world)
    world.ok("PATCH", path, {"model": "m-1", "custom_args": ["-v"], "mcp_config": {"mcpServers": {}}, "max_turns": 3})
    form = world.ok("GET", path)
    recorded = len(world.ok("GET", "/api/audit")["items"])
    assert world.ok("PUT", path, form) == form
    assert len(world.ok("GET", "/api/audit")["items"]) == recorded
    world.ok("PUT", path, {**form, "description": "d", "max_turns": None})
    assert world.ok("GET", "/api/audit")["items"][0]["details"] == {"fields": ["description", "max_turns"]}


def test_a_field_that_is_absent_stays_and_null_clears(world: World, machine: Machine) -> None:
    path = agent_path(world)
    world.ok("PATCH", path, {"model": "m-1", "instructions": "Be brief.", "mcp_config": {"mcpServers": {}}})
    kept = world.ok("PATCH", path, {"description": "d"})
    assert (kept["model"], kept["instructions"], kept["mcp_config"]) == ("m-1", "Be brief.", {"mcpServers": {}})
    cleared = world.ok("PUT", path, {"model": None, "mcp_config": None})
    assert (cleared["model"], cleared["mcp_config"], cleared["instructions"]) == (None, None, "Be brief.")


@pytest.mark.parametrize("name", ["id", "workspace_id", "owner_id", "env_version", "archived", "provider", "pk", "foo"])
def test_a_field_that_is_not_for_setting_is_ignored(world: World, machine: Machine, name: str) -> None:
    """An agent with another's id and secret version would be given that one's secrets at its next claim."""
    path = agent_path(world)
    before = world.ok("GET", path)
    assert world.ok("PATCH", path, {name: "x", "description": "d"}) == {**before, "description": "d"}
    made = world.ok("POST", "/api/agents", {"name": "eve", "runtime_id": machine.runtime_id, name: "x"})
    own = ("id", "name", "created_at")
    told = {k: v for k, v in made.items() if k not in own}
    assert str(told).replace(made["id"], before["id"]) == str({k: v for k, v in before.items() if k not in own})


def test_no_server_at_all_is_another_thing_than_no_word_about_servers(world: World, machine: Machine) -> None:
    path = agent_path(world)
    assert world.ok("PATCH", path, {"mcp_config": {}})["mcp_config"] == {}
    world.enqueue()
    assert machine.claim()[0].payload["agent"]["mcp_config"] == {}
    assert world.ok("PATCH", path, {"mcp_config": None})["mcp_config"] is None


def test_a_masked_value_survives_a_round_trip_through_a_form(world: World, machine: Machine) -> None:
    path = agent_path(world)
    config = {"mcpServers": {"a": {"env": {"KEY": "s3cret"}, "args": ["x", "t0ken"]}}}
    world.ok("PATCH", path, {"mcp_config": config})
    masked = {"mcpServers": {"a": {"env": {"KEY": "***", "NEW": "***"}, "args": ["x", "***"]}}}
    assert world.ok("PATCH", path, {"mcp_config": masked})["mcp_config"] == config


def test_a_mask_does_not_bring_back_a_secret_that_was_replaced_meanwhile(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    world.agent("ada", world.machine(), mcp_config={"mcpServers": {"s": {"url": "u", "headers": {"key": "old"}}}})
    path = agent_path(world)
    renewed = {"mcpServers": {"s": {"url": "u", "headers": {"key": "new"}}}}
    form = {"mcpServers": {"s": {"url": "another", "headers": {"key": "***"}}}}
    meanwhile.before("TransactWriteItems", lambda: world.ok("PATCH", path, {"mcp_config": renewed}) and None)
    assert world.call("PATCH", path, {"mcp_config": form}).error == "contended"
    assert world.ok("PATCH", path, {"mcp_config": form})["mcp_config"]["mcpServers"]["s"]["headers"] == {"key": "new"}
    world.close()
    table.reconnect()


def test_a_name_is_taken_by_archived_agents_too_and_freed_by_a_rename(world: World, machine: Machine) -> None:
    world.agent("bob", machine)
    world.ok("POST", f"{agent_path(world, 'bob')}/archive")
    assert world.call("POST", "/api/agents", {"name": "BOB"}).error == "name_taken"
    assert world.call("PATCH", agent_path(world), {"name": "bob"}).error == "name_taken"
    world.ok("PATCH", agent_path(world), {"name": "Grace"})
    assert world.call("GET", "/api/agents/ada").status == 404
    assert world.agent("ada", machine)["name"] == "ada"


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "a\u202eb", "a\x00", "x" * 10_000, "\ufeffada"])
def test_a_name_that_would_lie_in_a_list_is_refused(world: World, machine: Machine, name: str) -> None:
    assert world.call("POST", "/api/agents", {"name": name}).status in (400, 422)


@pytest.mark.parametrize("limit", [0, -1, 51, "many"])
def test_concurrency_outside_1_to_50_is_refused(world: World, machine: Machine, limit: object) -> None:
    assert world.call("PATCH", agent_path(world), {"max_concurrent_tasks": limit}).status == 422


def test_only_owners_of_the_agent_or_admins_change_it(world: World, machine: Machine) -> None:
    stranger, _ = newcomer(world)
    admin, _ = newcomer(world, "admin", "Cy")
    path = agent_path(world)
    for method, tail, body in [("PATCH", "", {"model": "x"}), ("POST", "/archive", None), ("GET", "/env", None)]:
        assert world.call(method, path + tail, body, stranger).status == 403
    assert world.call("PUT", f"{path}/env", {"custom_env": {}}, stranger).status == 403
    assert world.call("PATCH", path, {"model": "x"}, admin).status == 200


def test_an_archived_agent_stops_everything_and_takes_nothing(world: World, machine: Machine) -> None:
    running, waiting = world.enqueue(), world.enqueue()
    held = machine.claim()[0]
    held.say("start")
    path = agent_path(world)
    world.ok("POST", f"{path}/archive")
    assert world.task(running["id"])["status"] == world.task(waiting["id"])["status"] == "cancelled"
    assert world.call("POST", "/api/tasks", {"agent": "ada", "prompt": "x"}).error == "agent_archived"
    assert world.call("POST", f"{path}/archive").error == "already_archived"
    world.ok("POST", f"{path}/restore")
    again = world.enqueue()
    assert [t.id for t in machine.claim()] == [again["id"]]


def test_a_claim_that_read_the_agent_before_its_archive_is_refused_by_the_slot(world: World, machine: Machine) -> None:
    """The archive closes the slot in its own transaction. Here the agent's flag is gone again, as if read before."""
    agent_id = agent_path(world).rsplit("/", 1)[1]
    world.ok("POST", f"/api/agents/{agent_id}/archive")
    key = {"pk": {"S": f"WS#{world.workspace_id}"}, "sk": {"S": f"AG#{agent_id}"}}
    world.engine.execute("UpdateItem", {"TableName": "callboard", "Key": key, "UpdateExpression": "REMOVE ar"})
    task = world.enqueue()
    assert machine.claim() == []
    assert world.task(task["id"])["status"] == "queued"


def test_an_mcp_configuration_is_shown_to_those_who_may_change_the_agent_and_never_to_agents(
    world: World, machine: Machine
) -> None:
    author, _ = newcomer(world, name="Au")
    stranger, _ = newcomer(world)
    admin, _ = newcomer(world, "admin", "Cy")
    config = {"mcpServers": {"a": {"env": {"KEY": "c4n4ry"}}}}
    shared = {"permission_mode": "public_to"}
    world.ok("PATCH", agent_path(world), shared)
    world.ok("PATCH", f"/api/runtimes/{machine.runtime_id}", {"visibility": "public"})
    body = {"name": "bob", "runtime_id": machine.runtime_id, "mcp_config": config, **shared}
    path = f"/api/agents/{world.ok('POST', '/api/agents', body, author)['id']}"
    world.enqueue("bob")
    own = machine.claim()[0].payload
    assert own["agent"]["mcp_config"] == config, "the run itself needs it"
    for token in (world.token, admin, author):
        shown = world.ok("GET", path, token=token)
        assert (shown["mcp_config"], shown["mcp_config_redacted"]) == (config, False)
    for token in (stranger, own["auth_token"]):
        hidden = world.ok("GET", path, token=token)
        assert (hidden["mcp_config"], hidden["mcp_config_redacted"]) == (None, True)
        listed = world.ok("GET", "/api/agents", token=token)["items"]
        assert {a["name"]: a["mcp_config_redacted"] for a in listed} == {"ada": False, "bob": True}
        assert "c4n4ry" not in str(listed)


def test_where_nobody_is_shown_a_configuration_a_form_sent_back_keeps_it(world: World, machine: Machine) -> None:
    config = {"mcpServers": {"a": {"command": "c", "env": {"KEY": "c4n4ry"}}}}
    path = agent_path(world)
    world.ok("PATCH", path, {"mcp_config": config})
    world.ok("PATCH", "/api/workspaces/current", {"settings": {"always_redact_env": True}})
    shown = world.ok("GET", path)
    assert (shown["mcp_config"], shown["mcp_config_redacted"]) == (None, True)
    world.ok("PUT", path, {"mcp_config": shown["mcp_config"], "description": "d"})
    world.enqueue()
    assert machine.claim()[0].payload["agent"]["mcp_config"] == config
    world.ok("PATCH", path, {"mcp_config": {}})
    world.ok("PATCH", "/api/workspaces/current", {"settings": {"always_redact_env": None}})
    assert world.ok("GET", path)["mcp_config"] == {}


# ── environment ──────────────────────────────────────────────────────────────


def test_the_environment_reaches_the_claim_and_nothing_else(world: World, machine: Machine) -> None:
    path = agent_path(world)
    world.ok("PUT", f"{path}/env", {"custom_env": {"API_TOKEN": "c4n4ry"}})
    shown = world.ok("GET", path)
    assert (shown["has_custom_env"], shown["custom_env_key_count"]) == (True, 1)
    world.enqueue()
    assert machine.claim()[0].payload["agent"]["custom_env"] == {"API_TOKEN": "c4n4ry"}
    for where in ("/api/agents", "/api/tasks", "/api/audit", "/api/runtimes"):
        assert "c4n4ry" not in str(world.ok("GET", where))
    assert "c4n4ry" not in str(world.engine.execute("Scan", {"TableName": "callboard"}))


def test_stars_keep_a_value_and_a_missing_key_is_removed(world: World, machine: Machine) -> None:
    path = f"{agent_path(world)}/env"
    world.ok("PUT", path, {"custom_env": {"A": "1", "B": "2"}})
    world.ok("PUT", path, {"custom_env": {"A": "****", "C": "3", "D": "****"}})
    assert world.ok("GET", path)["custom_env"] == {"A": "1", "C": "3"}
    details = next(r for r in world.ok("GET", "/api/audit")["items"] if r["action"] == "agent_env_updated")["details"]
    assert details == {"added": ["C"], "removed": ["B"], "changed": []}


def test_a_reveal_is_written_down_first(world: World, machine: Machine) -> None:
    path = f"{agent_path(world)}/env"
    world.ok("PUT", path, {"custom_env": {"A": "1"}})
    assert world.ok("GET", path)["custom_env"] == {"A": "1"}
    assert world.ok("GET", "/api/audit")["items"][0]["action"] == "agent_env_revealed"


def test_two_admins_editing_at_once_do_not_lose_each_others_change(world: World, machine: Machine) -> None:
    path = f"{agent_path(world)}/env"
    version = world.ok("PUT", path, {"custom_env": {"A": "1"}})["version"]
    world.ok("PUT", path, {"custom_env": {"A": "2"}, "version": version})
    answer = world.call("PUT", path, {"custom_env": {"A": "3"}, "version": version})
    assert (answer.status, answer.error) == (409, "env_changed")
    assert world.ok("GET", path)["custom_env"] == {"A": "2"}


@pytest.mark.parametrize(
    "name", ["MULTICA_TOKEN", "CALLBOARD_X", "PATH", "home", "a=b", "a\nb", "a\0", "", "1A", "CODEX_HOME"]
)
def test_a_variable_that_would_speak_for_the_daemon_or_break_the_run_is_refused(
    world: World, machine: Machine, name: str
) -> None:
    answer = world.call("PUT", f"{agent_path(world)}/env", {"custom_env": {name: "x"}})
    assert (answer.status, answer.error) == (400, "env_key_refused")


def test_64_kib_of_environment_fit_and_one_byte_more_does_not(world: World, machine: Machine) -> None:
    path = f"{agent_path(world)}/env"
    assert world.call("PUT", path, {"custom_env": {"A": "x" * (64 * 1024 - 1)}}).status == 200
    assert world.call("PUT", path, {"custom_env": {"A": "x" * (64 * 1024)}}).error == "env_too_large"


def test_an_agent_sees_no_environment_not_even_its_own(world: World, machine: Machine) -> None:
    world.enqueue()
    mat = machine.claim()[0].payload["auth_token"]
    path = f"{agent_path(world)}/env"
    assert world.call("GET", path, token=mat).status == 403
    assert world.call("PUT", path, {"custom_env": {}}, mat).status == 403


def test_custom_env_outside_its_endpoint_is_refused(world: World, machine: Machine) -> None:
    assert world.call("PATCH", agent_path(world), {"custom_env": {"A": "1"}}).error == "use_env_endpoint"
    assert world.call("POST", "/api/agents", {"name": "n", "custom_env": {"A": "1"}}).error == "use_env_endpoint"


def test_the_key_file_is_readable_by_its_owner_alone(world: World, tmp_path: Path) -> None:
    assert (tmp_path / "secrets.key").stat().st_mode & 0o777 == 0o600


def test_the_whole_workspace_is_invited_without_an_id(world: World, machine: Machine) -> None:
    """The id of a `workspace` target may be left out; left out it once was a 500."""
    body = {"permission_mode": "public_to", "invocation_targets": [{"target_type": "workspace"}]}
    assert world.ok("PATCH", "/api/agents/ada", body)["visibility"] == "workspace"
