"""Runtime profiles: what one may be, who writes them, and what machines make of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from callboard_control.fleet.profiles import MAX_PROFILES
from callboard_wire.providers import PROVIDERS
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Answer, Clock, Machine, World
from tests.unit.control.test_people import newcomer

BODY = {
    "display_name": "Team Claude",
    "protocol_family": "claude",
    "command_name": "team-claude",
    "fixed_args": ["--a"],
}


@pytest.fixture
def meanwhile() -> Meanwhile:
    return Meanwhile()


@pytest.fixture
def world(clock: Clock, meanwhile: Meanwhile) -> Iterator[World]:
    world = World(clock=clock, faults=meanwhile)
    yield world
    world.close()


def path_of(world: World, profile: Any = None) -> str:
    path = f"/api/workspaces/{world.workspace_id}/runtime-profiles"
    return f"{path}/{profile['id']}" if profile else path


def made(world: World, **fields: Any) -> Any:
    return world.ok("POST", path_of(world), {**BODY, **fields})


def register(world: World, profile: Any, token: str | None = None, **fields: Any) -> Answer:
    offer = {"name": "mine", "type": "whatever", "profile_id": profile["id"]}
    body = {"daemon_id": "laptop", "device_name": "box", "runtimes": [offer], **fields}
    return world.call("POST", "/api/daemon/register", body, token)


def offering(world: World, profile: Any) -> Machine:
    registered = register(world, profile)
    return Machine(world, "laptop", registered["daemon_token"], registered["runtimes"][0]["id"])


# ── what one may be ──────────────────────────────────────────────────────────


def test_a_profile_is_shown_as_it_was_made_and_changed(world: World) -> None:
    profile = made(world, description="d")
    assert {name: profile[name] for name in BODY} == BODY
    world.ok("PATCH", path_of(world, profile), {"fixed_args": ["start", "q 36"], "display_name": "Wrapped"})
    world.ok("PUT", path_of(world, profile), {"description": ""})
    changed = world.ok("GET", path_of(world, profile))
    assert changed == {**profile, "fixed_args": ["start", "q 36"], "display_name": "Wrapped", "description": ""}
    assert world.ok("GET", path_of(world))["items"] == [changed]
    assert world.ok("PATCH", path_of(world, profile), {"fixed_args": []})["fixed_args"] == []


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("protocol_family", "basic", 400),
        ("protocol_family", "", 422),
        ("command_name", "/usr/bin/claude", 422),
        ("command_name", "../claude", 422),
        ("command_name", "claude --x", 422),
        ("command_name", "claude;id", 422),
        ("command_name", "$(id)", 422),
        ("command_name", "-claude", 422),
        ("command_name", "", 422),
        ("command_name", "c\x00", 422),
        ("display_name", "a\u202eb", 400),
        ("display_name", "x" * 101, 422),
        ("fixed_args", ["a\x00b"], 400),
        ("fixed_args", ["x" * 8193], 400),
        ("fixed_args", ["x"] * 65, 422),
        ("fixed_args", "--one --two", 422),
        ("description", "x" * 1001, 422),
    ],
)
def test_what_no_profile_can_be_is_refused_when_made_and_when_changed(
    world: World, field: str, value: Any, status: int
) -> None:
    assert world.call("POST", path_of(world), {**BODY, field: value}).status == status
    profile = made(world)
    if not (field == "protocol_family" and value == ""):  # an empty one says nothing, which keeps what there is
        assert world.call("PATCH", path_of(world, profile), {field: value}).status == status
    assert world.ok("GET", path_of(world, profile)) == profile


def test_arguments_are_kept_to_the_letter(world: World) -> None:
    """None of them ever meets a shell, so none of them has to be safe for one."""
    args = ["$(id)", "a;b", "`x`", "--f=*", " spaced ", '"', "\n", "ü"]
    assert made(world, fixed_args=args)["fixed_args"] == args


@pytest.mark.parametrize("family", sorted(PROVIDERS))
def test_every_provider_is_a_protocol_family(world: World, family: str) -> None:
    assert made(world, protocol_family=family.upper())["protocol_family"] == family


def test_the_protocol_family_of_a_profile_does_not_change(world: World) -> None:
    profile = made(world)
    assert (
        world.call("PATCH", path_of(world, profile), {"protocol_family": "codex"}).error == "protocol_family_immutable"
    )
    assert world.ok("PATCH", path_of(world, profile), {"protocol_family": "Claude"}) == profile


def test_a_name_is_one_profiles_and_free_again_after_a_rename_and_a_deletion(world: World) -> None:
    first, second = made(world), made(world, display_name="other")
    assert world.call("POST", path_of(world), {**BODY, "display_name": "TEAM claude"}).error == "name_taken"
    assert world.call("PATCH", path_of(world, second), {"display_name": "team claude"}).error == "name_taken"
    world.ok("PATCH", path_of(world, first), {"display_name": "Team CLAUDE"})
    world.ok("PATCH", path_of(world, first), {"display_name": "renamed"})
    third = made(world)
    world.ok("DELETE", path_of(world, third))
    made(world)


def test_a_workspace_has_a_bounded_number_of_profiles(world: World) -> None:
    for n in range(MAX_PROFILES):
        made(world, display_name=f"p{n}")
    assert world.call("POST", path_of(world), BODY).error == "too_many_profiles"
    assert len(world.ok("GET", path_of(world))["items"]) == MAX_PROFILES


def test_two_changes_at_once_do_not_mix(world: World, meanwhile: Meanwhile) -> None:
    profile = made(world)
    path = path_of(world, profile)
    meanwhile.before("TransactWriteItems", lambda: world.ok("PATCH", path, {"display_name": "theirs"}))
    assert world.call("PATCH", path, {"display_name": "ours"}).error == "contended"
    assert world.ok("GET", path)["display_name"] == "theirs"
    made(world, display_name="ours")


def test_the_audit_log_tells_what_was_run_by_whose_word(world: World) -> None:
    profile = made(world)
    world.ok("PATCH", path_of(world, profile), {"command_name": "other"})
    world.ok("DELETE", path_of(world, profile))
    deeds = [(e["action"], e["details"].get("command")) for e in world.ok("GET", "/api/audit")["items"]]
    assert [d for d in deeds if d[0].startswith("profile")] == [
        ("profile_deleted", "other"),
        ("profile_updated", None),
        ("profile_updated", "other"),
        ("profile_created", "team-claude"),
    ]


# ── what machines make of them ───────────────────────────────────────────────


def test_a_profiles_runtime_has_its_family_and_lives_beside_the_built_in_one(world: World) -> None:
    profile = made(world)
    offers = [{"name": "c", "type": "claude"}, {"name": "mine", "type": "claude", "profile_id": profile["id"]}]
    register(world, profile, runtimes=offers)
    shown = world.ok("GET", "/api/runtimes")["items"]
    assert {(r["provider"], r["profile_id"], r["status"]) for r in shown} == {
        ("claude", "", "online"),
        ("claude", profile["id"], "online"),
    }


def test_the_family_of_a_runtime_is_the_profiles_word_and_not_the_daemons(world: World) -> None:
    machine = offering(world, made(world))
    assert world.ok("GET", f"/api/runtimes/{machine.runtime_id}")["provider"] == "claude"


def test_unknown_and_disabled_profiles_are_not_registered(world: World) -> None:
    assert register(world, {"id": "nope"}).error == "runtime_profile_not_found"
    profile = made(world, enabled=False)
    assert register(world, profile).error == "runtime_profile_disabled"
    assert world.ok("GET", "/api/runtimes")["items"] == []


def test_a_profile_that_failed_on_a_machine_is_an_offline_runtime_with_the_reason(world: World) -> None:
    profile = made(world)
    failed = [{"profile_id": profile["id"], "reason": "not on PATH"}, {"profile_id": "gone", "reason": "x"}]
    assert register(world, profile, runtimes=[], failed_profiles=failed).status == 200
    [shown] = world.ok("GET", "/api/runtimes")["items"]
    assert (shown["name"], shown["status"]) == ("Team Claude (box)", "offline")
    assert shown["offline_reason"] == {"code": "profile_failed", "detail": "not on PATH"}
    assert register(world, profile).status == 200
    assert world.ok("GET", f"/api/runtimes/{shown['id']}")["status"] == "online"


def test_a_daemon_that_knows_no_profiles_leaves_their_runtimes_alone(world: World) -> None:
    machine = offering(world, made(world))
    register(world, {"id": ""}, runtimes=[{"name": "echo", "type": "echo"}])
    assert world.ok("GET", f"/api/runtimes/{machine.runtime_id}")["status"] == "online"


def test_disabling_takes_its_runtimes_offline_and_lets_what_runs_end(world: World) -> None:
    profile = made(world)
    machine = offering(world, profile)
    world.agent("ada", machine)
    world.enqueue()
    [held] = machine.claim()
    held.say("start")
    world.enqueue()
    world.ok("PATCH", path_of(world, profile), {"enabled": False})
    shown = world.ok("GET", f"/api/runtimes/{machine.runtime_id}")
    assert (shown["status"], shown["offline_reason"]) == ("offline", {"code": "profile_disabled"})
    assert machine.claim() == []
    assert held.say("complete").status == 200
    reasons = world.ok("GET", "/api/agents/ada")["readiness"]["reasons"]
    [reason] = [r for r in reasons if r["code"] == "runtime_offline"]
    assert (reason["weight"], profile["id"] in reason["repair"]) == ("waits", True)
    [waiting] = world.ok("GET", "/api/tasks", query={"status": "queued"})["items"]
    assert "is disabled since" in world.task(waiting["id"])["waiting"]["message"]
    world.ok("PATCH", path_of(world, profile), {"enabled": True})
    assert register(world, profile, machine.token).status == 200
    assert len(machine.claim()) == 1


def test_a_profile_disabled_while_a_machine_registers_it_ends_up_offline(world: World, meanwhile: Meanwhile) -> None:
    profile = made(world)
    disable = lambda: world.ok("PATCH", path_of(world, profile), {"enabled": False})  # noqa: E731  # what happens then
    meanwhile.before("TransactWriteItems", disable, when=lambda request: "DAEMON#" in str(request))
    assert register(world, profile).status == 200
    [shown] = world.ok("GET", "/api/runtimes")["items"]
    assert (shown["status"], shown["offline_reason"]) == ("offline", {"code": "profile_disabled"})


def test_a_machine_hears_of_changes_with_its_heartbeat(world: World, clock: Clock) -> None:
    profile = made(world)
    machine = offering(world, profile)

    def beat() -> int:
        answer = machine.call("POST", "/api/daemon/heartbeat", {"runtime_ids": [machine.runtime_id]})
        return int(answer["profiles_version"])

    first = beat()
    clock.forward(1)
    assert beat() == first
    world.ok("PATCH", path_of(world, profile), {"fixed_args": ["--b"]})
    assert beat() != first


def test_a_machine_gets_the_enabled_ones_and_learns_whose_word_they_are(world: World) -> None:
    mine, _ = made(world), made(world, display_name="off", enabled=False)
    token, admin_id = newcomer(world, "admin")
    theirs = world.ok("POST", path_of(world), {**BODY, "display_name": "theirs"}, token)
    machine = world.machine()

    def trusted(with_token: str) -> dict[str, bool]:
        path = f"/api/daemon/workspaces/{world.workspace_id}/runtime-profiles"
        return {p["id"]: p["trusted"] for p in world.ok("GET", path, token=with_token)["items"]}

    assert trusted(machine.token) == {mine["id"]: True, theirs["id"]: False}
    assert trusted(token) == {mine["id"]: False, theirs["id"]: True}
    world.ok("PATCH", path_of(world, mine), {"description": "nothing that is run"}, token)
    assert trusted(machine.token)[mine["id"]]
    changed = world.ok("PATCH", path_of(world, mine), {"fixed_args": ["-c", "id"]}, token)
    assert (changed["author_id"], trusted(machine.token)[mine["id"]]) == (admin_id, False)


def test_a_profile_with_agents_on_it_is_not_deleted(world: World) -> None:
    profile = made(world)
    machine = offering(world, profile)
    agent = world.agent("ada", machine)
    refused = world.call("DELETE", path_of(world, profile))
    assert (refused.status, refused.error) == (409, "runtime_has_active_agents")
    assert refused.body["details"]["agents"] == [{"id": agent["id"], "name": "ada"}]
    assert world.ok("GET", path_of(world, profile))["enabled"], "a refused deletion changes nothing"
    assert world.ok("GET", f"/api/runtimes/{machine.runtime_id}")["status"] == "online"
    assert world.agent("bob", machine)["runtime_id"] == machine.runtime_id


def test_a_profile_renamed_while_it_is_deleted_keeps_its_name_and_leaves_others_theirs(
    world: World, meanwhile: Meanwhile
) -> None:
    profile = made(world)

    def rename_and_take() -> None:
        world.ok("PATCH", path_of(world, profile), {"display_name": "new name"})
        made(world)

    meanwhile.before("TransactWriteItems", rename_and_take, when=lambda request: "profile_deleted" in str(request))
    assert world.call("DELETE", path_of(world, profile)).error == "contended"
    for name in ("new name", BODY["display_name"]):
        assert world.call("POST", path_of(world), {**BODY, "display_name": name}).error == "name_taken"


def test_a_deleted_profile_takes_its_runtimes_with_it_even_from_a_machine_that_is_online(world: World) -> None:
    profile = made(world)
    other = world.machine("desktop")
    machine = offering(world, profile)
    agent = world.agent("ada", machine)
    task = world.enqueue()["id"]
    world.ok("PATCH", f"/api/agents/{agent['id']}", {"runtime_id": other.runtime_id})
    world.ok("DELETE", path_of(world, profile))
    assert world.call("GET", path_of(world, profile)).status == 404
    assert [r["id"] for r in world.ok("GET", "/api/runtimes")["items"]] == [other.runtime_id]
    assert world.task(task)["status"] == "cancelled"
    assert register(world, profile, None).error == "runtime_profile_not_found"
