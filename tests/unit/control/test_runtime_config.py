"""An agent's `runtime_config`: what it may be, and a gateway's token that comes out with a claim and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard_control import ports
from callboard_control.embedded.secrets import LocalSecrets
from callboard_control.ports.secrets import NoSecrets
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Machine, World
from tests.unit.control.test_agents import agent_path
from tests.unit.control.test_people import newcomer

TOKEN = "c4n4ry-gateway-token"
GATEWAY = {"host": "claw.internal", "port": 18789, "tls": False, "token": TOKEN}
CONFIG = {"mode": "gateway", "gateway": GATEWAY}
SHOWN = {"mode": "gateway", "gateway": {**GATEWAY, "token": "***"}}


@pytest.fixture
def world(clock: Clock, tmp_path: Path) -> Iterator[World]:
    world = World(clock=clock, secrets=LocalSecrets(tmp_path / "secrets.key"))
    yield world
    world.close()


def put(world: World, config: Any, name: str = "ada") -> Any:
    return world.ok("PATCH", agent_path(world, name), {"runtime_config": config})["runtime_config"]


def claimed(world: World, machine: Machine, name: str = "ada") -> dict[str, Any]:
    world.enqueue(name)
    agent: dict[str, Any] = machine.claim()[0].payload["agent"]
    return agent


class WriteOnly:
    """A secret store as IAM gives it to the function that takes tokens in: whatever reads from it fails the test."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind

    def write(self, name: str, version: str, values: dict[str, str]) -> None:
        assert name.startswith("gateway/"), "environments are not its to write"
        self._behind.write(name, version, values)

    def read(self, name: str, version: str) -> dict[str, str]:
        raise AssertionError("it may not read")


# ── the token ────────────────────────────────────────────────────────────────


def test_a_gateways_token_reaches_the_claim_and_nothing_else(world: World, machine: Machine) -> None:
    made = world.agent("bob", machine, runtime_config=CONFIG)
    assert made["runtime_config"] == SHOWN
    assert put(world, CONFIG) == SHOWN
    for name in ("ada", "bob"):
        assert claimed(world, machine, name)["runtime_config"] == CONFIG
        assert world.ok("GET", f"/api/agents/{name}")["runtime_config"] == SHOWN
    for where in ("/api/agents", "/api/tasks", "/api/audit", "/api/runtimes"):
        assert TOKEN not in str(world.ok("GET", where))
    assert TOKEN not in str(world.engine.execute("Scan", {"TableName": "callboard"}))


def test_nobody_is_shown_a_token_not_even_who_set_it(world: World, machine: Machine) -> None:
    world.ok("PATCH", f"/api/runtimes/{machine.runtime_id}", {"visibility": "public"})
    author, _ = newcomer(world, name="Au")
    body = {"name": "bob", "runtime_id": machine.runtime_id, "runtime_config": CONFIG, "permission_mode": "public_to"}
    path = f"/api/agents/{world.ok('POST', '/api/agents', body, author)['id']}"
    world.enqueue("bob")
    own = machine.claim()[0].payload["auth_token"]
    for token in (author, world.token, newcomer(world, "admin", "Cy")[0], newcomer(world)[0], own):
        assert world.ok("GET", path, token=token)["runtime_config"] == SHOWN


@pytest.mark.parametrize("mask", ["***", "****"])
def test_a_mask_sent_back_keeps_the_token_while_the_rest_changes(world: World, machine: Machine, mask: str) -> None:
    put(world, CONFIG)
    changed = put(world, {"mode": "gateway", "gateway": {"host": "other.internal", "tls": True, "token": mask}})
    assert changed["gateway"] == {"host": "other.internal", "tls": True, "token": "***"}
    assert claimed(world, machine)["runtime_config"]["gateway"]["token"] == TOKEN


def test_a_token_that_is_left_out_stays_and_null_or_empty_takes_it_away(world: World, machine: Machine) -> None:
    put(world, CONFIG)
    assert put(world, {"gateway": {"host": "h"}}) == {"gateway": {"host": "h", "token": "***"}}
    assert claimed(world, machine)["runtime_config"] == {"gateway": {"host": "h", "token": TOKEN}}
    for nothing in (None, "", "  "):
        put(world, CONFIG)
        assert put(world, {"gateway": {"host": "h", "token": nothing}}) == {"gateway": {"host": "h"}}
        assert claimed(world, machine)["runtime_config"] == {"gateway": {"host": "h"}}


@pytest.mark.parametrize("gone", [None, {}, {"mode": "local"}, {"gateway": None}, {"gateway": {}}])
def test_a_token_goes_with_the_gateway_it_was_for(world: World, machine: Machine, gone: Any) -> None:
    """Else it would be there again, unasked for, for the next gateway somebody names."""
    put(world, CONFIG)
    left = {"mode": "local"} if gone == {"mode": "local"} else {}
    assert put(world, gone) == left
    assert claimed(world, machine).get("runtime_config", {}) == left
    assert put(world, {"gateway": {"host": "h"}}) == {"gateway": {"host": "h"}}


@pytest.mark.parametrize("mask", ["***", "****"])
def test_a_mask_with_nothing_behind_it_is_dropped(world: World, machine: Machine, mask: str) -> None:
    config = {"gateway": {"host": "h", "token": mask}}
    assert world.agent("bob", machine, runtime_config=config)["runtime_config"] == {"gateway": {"host": "h"}}
    assert put(world, config) == {"gateway": {"host": "h"}}
    assert put(world, {"gateway": {"token": mask}}) == {}


def test_a_field_that_is_absent_keeps_all_of_it_and_an_echo_changes_nothing(world: World, machine: Machine) -> None:
    path = agent_path(world)
    put(world, CONFIG)
    assert world.ok("PATCH", path, {"description": "d"})["runtime_config"] == SHOWN
    recorded = len(world.ok("GET", "/api/audit")["items"])
    form = world.ok("GET", path)
    assert world.ok("PUT", path, form) == form
    assert len(world.ok("GET", "/api/audit")["items"]) == recorded
    assert claimed(world, machine)["runtime_config"] == CONFIG


def test_the_audit_log_says_that_a_token_was_set_and_not_which(world: World, machine: Machine) -> None:
    put(world, CONFIG)
    deed = world.ok("GET", "/api/audit")["items"][0]
    assert deed["details"] == {"fields": ["runtime_config", "runtime_config.gateway.token"]}


def test_tokens_are_set_kept_and_taken_away_without_being_read(world: World, machine: Machine) -> None:
    usual = ports.current()
    ports.use(ports.Ports(clock=usual.clock, secrets=WriteOnly(usual.secrets)))
    world.agent("bob", machine, runtime_config=CONFIG)
    put(world, CONFIG, "bob")
    put(world, {"gateway": {"host": "h", "token": "***"}}, "bob")
    put(world, None, "bob")
    assert put(world, CONFIG, "bob") == SHOWN
    ports.use(usual)
    assert claimed(world, machine, "bob")["runtime_config"] == CONFIG


def test_a_secret_store_that_takes_no_token_leaves_the_agent_as_it_was(world: World, machine: Machine) -> None:
    put(world, CONFIG)
    usual = ports.current()
    ports.use(ports.Ports(clock=usual.clock, secrets=NoSecrets()))
    answer = world.call("PATCH", agent_path(world), {"runtime_config": {"gateway": {"host": "h", "token": "new"}}})
    assert (answer.status, answer.error) == (503, "unavailable")
    body = {"name": "bob", "runtime_id": machine.runtime_id, "runtime_config": CONFIG}
    assert world.call("POST", "/api/agents", body).status == 503
    assert [agent["name"] for agent in world.ok("GET", "/api/agents")["items"]] == ["ada"]
    ports.use(usual)
    assert claimed(world, machine)["runtime_config"] == CONFIG


def test_an_agent_that_is_refused_leaves_no_secret_behind(world: World, machine: Machine) -> None:
    for body in (
        {"name": "ADA", "runtime_id": machine.runtime_id},
        {"name": "bob", "runtime_id": machine.runtime_id, "model_profile": "quick"},
        {"name": "bob", "runtime_id": "no-runtime"},
    ):
        assert world.call("POST", "/api/agents", {**body, "runtime_config": CONFIG}).status >= 400
    rows = world.engine.execute("Scan", {"TableName": "callboard"})["Items"]
    assert [row["pk"]["S"] for row in rows if row["pk"]["S"].startswith("SC#")] == []


def test_a_token_kept_under_another_key_file_leaves_the_task_to_its_lease(
    world: World, machine: Machine, tmp_path: Path
) -> None:
    put(world, CONFIG)
    usual = ports.current()
    world.enqueue()
    ports.use(ports.Ports(clock=usual.clock, secrets=LocalSecrets(tmp_path / "another.key")))
    assert machine.claim() == [], "a run without its token would go somewhere else, or nowhere"
    ports.use(usual)


def test_a_token_that_is_kept_never_meets_a_host_meant_for_another(clock: Clock, tmp_path: Path) -> None:
    """One sends a new host and keeps the token; meanwhile another names another gateway with its own token."""
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile, secrets=LocalSecrets(tmp_path / "secrets.key"))
    machine = world.machine()
    path = f"/api/agents/{world.agent('ada', machine, runtime_config=CONFIG)['id']}"
    theirs = {"gateway": {"host": "theirs", "token": "theirs-token"}}
    meanwhile.before("TransactWriteItems", lambda: world.ok("PATCH", path, {"runtime_config": theirs}) and None)
    answer = world.call("PATCH", path, {"runtime_config": {"gateway": {"host": "ours", "token": "***"}}})
    assert (answer.status, answer.error) == (409, "contended")
    assert claimed(world, machine)["runtime_config"] == theirs
    world.close()


# ── what it may be ───────────────────────────────────────────────────────────


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": value}
    return value


BAD: dict[str, tuple[Any, str]] = {
    "no object": ("gateway", "runtime_config:"),
    "a list": ([1], "runtime_config:"),
    "a mode nobody knows": ({"mode": "remote"}, "runtime_config.mode:"),
    "a misspelt key": (
        {"gatway": {"token": TOKEN}},
        "runtime_config: There is no `gatway` here; known are `mode`, `gateway`",
    ),
    "a misspelt token": ({"gateway": {"tokn": TOKEN}}, "runtime_config.gateway: There is no `tokn` here"),
    "depth 100": (nested(100), "runtime_config: There is no `a` here"),
    "a gateway that is a text": ({"gateway": f"ws://x?token={TOKEN}"}, "runtime_config.gateway:"),
    "a url for a host": (
        {"gateway": {"host": "ws://h"}},
        "runtime_config.gateway.host: A host is a name or an address",
    ),
    "a host with a port": ({"gateway": {"host": "h:1"}}, "runtime_config.gateway.host:"),
    "a host that is an option": ({"gateway": {"host": "-h"}}, "runtime_config.gateway.host:"),
    "a host of two lines": ({"gateway": {"host": "a\nb"}}, "runtime_config.gateway.host:"),
    "a long host": ({"gateway": {"host": "h" * 254}}, "runtime_config.gateway.host:"),
    "port 65536": ({"gateway": {"port": 65536}}, "runtime_config.gateway.port:"),
    "port -1": ({"gateway": {"port": -1}}, "runtime_config.gateway.port:"),
    "port true": ({"gateway": {"port": True}}, "runtime_config.gateway.port:"),
    "tls as a word": ({"gateway": {"tls": "yes"}}, "runtime_config.gateway.tls:"),
    "a token that is a number": ({"gateway": {"token": 12345}}, "runtime_config.gateway.token:"),
    "a token of two lines": ({"gateway": {"token": f"{TOKEN}\nx"}}, "runtime_config.gateway.token:"),
    "a token of 4097 characters": ({"gateway": {"token": "t" * 4097}}, "runtime_config.gateway.token:"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_it_cannot_be_is_refused_with_its_path_and_without_its_value(
    world: World, machine: Machine, case: str
) -> None:
    config, said = BAD[case]
    path = agent_path(world)
    body = {"name": "eve", "runtime_id": machine.runtime_id, "runtime_config": config}
    for answer in (world.call("PATCH", path, {"runtime_config": config}), world.call("POST", "/api/agents", body)):
        assert (answer.status, answer.error) == (422, "validation_failed")
        assert said in answer["message"]
        assert TOKEN not in str(answer.body)
    assert world.ok("GET", path)["runtime_config"] == {}


GOOD: dict[str, tuple[Any, Any]] = {
    "nothing": ({}, {}),
    "a form with nothing filled in": ({"mode": "", "gateway": {"host": "", "port": 0, "tls": None, "token": ""}}, {}),
    "null for everything": ({"mode": None, "gateway": {"host": None, "port": None, "token": None}}, {}),
    "a name with spaces around": ({"gateway": {"host": " h "}}, {"gateway": {"host": "h"}}),
    "an address": ({"gateway": {"host": "10.0.0.7"}}, {"gateway": {"host": "10.0.0.7"}}),
    "an address of version 6": ({"gateway": {"host": "::1"}}, {"gateway": {"host": "::1"}}),
    "one in brackets": ({"gateway": {"host": "[fd00::7]"}}, {"gateway": {"host": "fd00::7"}}),
    "the mode alone": ({"mode": "gateway"}, {"mode": "gateway"}),
    "no tls": ({"gateway": {"tls": False}}, {"gateway": {"tls": False}}),
    "a pasted token": ({"gateway": {"token": " t \n"}}, {"gateway": {"token": "***"}}),
}


@pytest.mark.parametrize("case", GOOD)
def test_what_it_may_be_is_kept_without_what_says_nothing(world: World, machine: Machine, case: str) -> None:
    sent, kept = GOOD[case]
    assert put(world, sent) == kept
    assert world.agent("bob", machine, runtime_config=sent)["runtime_config"] == kept


def test_a_claim_says_nothing_of_a_configuration_that_is_not_there(world: World, machine: Machine) -> None:
    assert "runtime_config" not in claimed(world, machine)
    put(world, {"mode": "gateway"})
    assert claimed(world, machine)["runtime_config"] == {"mode": "gateway"}
    put(world, {})
    assert "runtime_config" not in claimed(world, machine)


# ── whom it is for ───────────────────────────────────────────────────────────


def reasons(world: World, name: str) -> dict[str, str]:
    found = world.ok("GET", f"/api/agents/{name}")["readiness"]["reasons"]
    return {reason["code"]: reason["message"] for reason in found}


def test_a_provider_that_reads_none_keeps_it_and_the_agent_says_so(world: World, machine: Machine) -> None:
    """It is no mistake of the agent's: moved to a machine with OpenClaw it means something again."""
    put(world, CONFIG)
    assert "echo reads none (openclaw would)" in reasons(world, "ada")["runtime_config_unread"]
    claw = world.machine("claw", "openclaw")
    world.ok("PATCH", agent_path(world), {"runtime_id": claw.runtime_id})
    assert "runtime_config_unread" not in reasons(world, "ada")
    assert claimed(world, claw)["runtime_config"] == CONFIG


def test_a_gateway_that_the_mode_leaves_aside_is_said(world: World) -> None:
    claw = world.machine("claw", "openclaw")
    world.agent("bob", claw, runtime_config={"gateway": GATEWAY})
    assert "its mode is not `gateway`" in reasons(world, "bob")["runtime_config_unread"]
    put(world, {"mode": "gateway", "gateway": {"token": "***"}}, "bob")
    assert "runtime_config_unread" not in reasons(world, "bob")
