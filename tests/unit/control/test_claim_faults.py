"""Claims when the store, the secrets or the way back fail: nothing claimed is lost, nothing is burnt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from callboard_control import ports
from callboard_control.embedded.engine.faults import Fault
from callboard_control.embedded.secrets import LocalSecrets
from callboard_control.ports.secrets import SecretsUnavailable
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Machine, World


@pytest.fixture
def meanwhile() -> Meanwhile:
    return Meanwhile()


@pytest.fixture
def world(clock: Clock, meanwhile: Meanwhile) -> Iterator[World]:
    world = World(clock=clock, faults=meanwhile)
    yield world
    world.close()


def of_task(request: Mapping[str, Any]) -> bool:
    return str(request["Key"]["pk"]["S"]).startswith("TK#")


def stored(world: World, task_id: str) -> dict[str, Any]:
    key = {"pk": {"S": f"TK#{task_id}"}, "sk": {"S": "T"}}
    item: dict[str, Any] = world.engine.execute("GetItem", {"TableName": "callboard", "Key": key})["Item"]
    return item


def test_what_a_batch_has_claimed_is_answered_although_the_store_fails_later(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    first, second = world.enqueue(prompt="1"), world.enqueue(prompt="2")
    for _ in range(30):
        meanwhile.before("TransactWriteItems", lambda: Fault.UNAVAILABLE, when=lambda r: second["id"] in str(r))
    assert [t.id for t in machine.claim(2)] == [first["id"]]


def test_a_lease_taken_over_without_hearing_of_it_is_handed_out_all_the_same(
    world: World, machine: Machine, meanwhile: Meanwhile, clock: Clock
) -> None:
    task = world.enqueue()
    machine.claim()
    clock.forward(46)
    meanwhile.before("UpdateItem", lambda: Fault.LOST_RESPONSE, when=of_task)
    [again] = machine.claim()
    assert (again.id, again.payload["fence"]) == (task["id"], 2)
    assert again.say("start").status == 200


def test_a_task_taken_over_again_and_again_without_starting_fails_at_last(
    world: World, machine: Machine, clock: Clock
) -> None:
    task = world.enqueue()
    for _ in range(25):
        machine.claim()
        clock.forward(46)
    ended = world.task(task["id"])
    assert (ended["status"], ended["failure_reason"]) == ("failed", "timeout")


def test_twins_of_one_claim_at_once_both_answer_with_a_token_that_works(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    world.enqueue()
    twin: list[Any] = []
    meanwhile.before("TransactWriteItems", lambda: twin.extend(machine.claim(claim_id="c-1")))
    [held] = machine.claim(claim_id="c-1")
    assert twin[0].id == held.id
    for one in (twin[0], held):
        assert world.ok("GET", "/api/me", token=one.payload["auth_token"])["actor"] == "agent"


def test_a_claim_repeated_for_ever_does_not_grow_its_task(world: World, machine: Machine) -> None:
    task = world.enqueue()
    for _ in range(40):
        [held] = machine.claim(claim_id="c-1")
    assert world.ok("GET", "/api/me", token=held.payload["auth_token"])["task_id"] == task["id"]
    assert len(stored(world, task["id"])["td"]["SS"]) <= 10


def test_what_is_behind_an_agent_that_got_full_keeps_its_order(world: World, machine: Machine) -> None:
    world.agent("narrow", machine, max_concurrent_tasks=1)
    for agent in ("first", "second"):
        world.agent(agent, machine, max_concurrent_tasks=20)
    for _ in range(3):
        world.enqueue("narrow")
    wanted = [world.enqueue("first" if n % 2 else "second", f"{n}")["id"] for n in range(12)]
    assert [t.id for t in machine.claim(7)][1:] == wanted[:6]


class Vault:
    """A secret store that can be out of order."""

    out = False

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, str]] = {}

    def read(self, agent_id: str, version: str) -> dict[str, str]:
        if self.out:
            raise SecretsUnavailable("out of order")
        return self.kept[version]

    def write(self, agent_id: str, version: str, values: dict[str, str]) -> None:
        self.kept[version] = values


def test_minutes_without_a_secret_store_end_no_task(clock: Clock) -> None:
    vault = Vault()
    world = World(clock=clock, secrets=vault)
    machine = world.machine()
    agent = world.agent("ada", machine)
    world.ok("PUT", f"/api/agents/{agent['id']}/env", {"custom_env": {"KEY": "v"}})
    task = world.enqueue()
    vault.out = True
    body = {"runtime_ids": [machine.runtime_id], "max_tasks": 1, "wait": 20, "claim_id": "c-1"}
    answer = world.ok("POST", "/api/daemon/tasks/claim", body, machine.token)
    assert (answer["tasks"], answer["retry_after_s"]) == ([], 5.0)
    assert [m["move"] for m in world.task(task["id"])["moves"]].count("claim") == 1
    for _ in range(60):
        clock.forward(10)
        world.tick()
        assert machine.claim() == []
    vault.out = False
    clock.forward(46)
    world.tick()
    [held] = machine.claim()
    assert held.payload["agent"]["custom_env"] == {"KEY": "v"}
    world.close()


def test_secrets_that_are_lost_end_the_task_and_can_be_given_again(clock: Clock, tmp_path: Path) -> None:
    """The database was brought back from a copy and the key file beside it was not."""
    world = World(clock=clock, secrets=LocalSecrets(tmp_path / "key"))
    machine = world.machine()
    env = f"/api/agents/{world.agent('ada', machine)['id']}/env"
    world.ok("PUT", env, {"custom_env": {"KEY": "v"}})
    world.agent("bob", machine)
    lost, behind = world.enqueue("ada"), world.enqueue("bob")
    usual = ports.current()
    ports.use(ports.Ports(clock=usual.clock, secrets=LocalSecrets(tmp_path / "another"), doorbell=usual.doorbell))
    assert [held.id for held in machine.claim(2)] == [behind["id"]]
    ended = world.task(lost["id"])
    assert (ended["status"], ended["failure_reason"]) == ("failed", "agent_error.missing_config")
    assert "another key file" in ended["error"]
    assert world.call("GET", env).error == "env_lost"
    assert world.call("PUT", env, {"custom_env": {"KEY": "****", "NEW": "n"}}).error == "env_lost"
    assert world.ok("GET", env, query={"masked": "true"})["custom_env"] == {}
    world.ok("PUT", env, {"custom_env": {"NEW": "n"}})
    again = world.enqueue("ada")
    [held] = machine.claim()
    assert (held.id, held.payload["agent"]["custom_env"]) == (again["id"], {"NEW": "n"})
    world.close()


def test_a_held_claim_writes_its_machines_liveness_once(
    world: World, machine: Machine, meanwhile: Meanwhile, clock: Clock
) -> None:
    clock.forward(20)
    before = meanwhile.asked["UpdateItem"]
    assert machine.claim(wait=2) == []
    assert meanwhile.asked["UpdateItem"] - before == 1


def test_looking_for_work_reads_no_busy_agent_while_there_is_none(
    world: World, machine: Machine, meanwhile: Meanwhile
) -> None:
    world.enqueue()
    machine.claim()[0].say("start")
    before = meanwhile.asked["GetItem"]
    machine.claim()
    assert meanwhile.asked["GetItem"] - before == 1  # its own token
