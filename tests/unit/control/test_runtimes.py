"""Runtimes: what their owners and the workspace's admins change, and which one an agent gets."""

from __future__ import annotations

import pytest

from tests.fakes.sim_world import Clock, Machine, World
from tests.unit.control.test_people import newcomer


def runtime_path(machine: Machine) -> str:
    return f"/api/runtimes/{machine.runtime_id}"


def test_a_runtime_is_private_until_its_owner_opens_it(world: World, machine: Machine) -> None:
    shown = world.ok("GET", runtime_path(machine))
    assert (shown["visibility"], shown["custom_name"], shown["max_concurrent_tasks"]) == ("private", "", None)
    assert world.ok("PATCH", runtime_path(machine), {"visibility": "public"})["visibility"] == "public"
    assert world.ok("PATCH", runtime_path(machine), {"visibility": None})["visibility"] == "public"


def test_a_field_that_is_absent_stays_and_null_clears(world: World, machine: Machine) -> None:
    path = runtime_path(machine)
    world.ok("PATCH", path, {"custom_name": " the fast one ", "max_concurrent_tasks": 3})
    kept = world.ok("PATCH", path, {})
    assert (kept["custom_name"], kept["max_concurrent_tasks"]) == ("the fast one", 3)
    cleared = world.ok("PATCH", path, {"custom_name": None, "max_concurrent_tasks": None})
    assert (cleared["custom_name"], cleared["max_concurrent_tasks"], cleared["name"]) == ("", None, "echo")


def test_an_admin_names_and_limits_another_members_runtime_and_does_not_open_it(world: World, machine: Machine) -> None:
    admin = newcomer(world, "admin")[0]
    path = runtime_path(machine)
    assert world.ok("PATCH", path, {"custom_name": "big", "visibility": "private"}, admin)["custom_name"] == "big"
    assert world.call("PATCH", path, {"visibility": "public"}, admin).error == "runtime_owner_only"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"custom_name": "a\u202eb"}, 400),
        ({"custom_name": "a\nb"}, 400),
        ({"custom_name": "x" * 101}, 422),
        ({"custom_name": "  "}, 422),
        ({"max_concurrent_tasks": 0}, 422),
        ({"max_concurrent_tasks": 51}, 422),
        ({"visibility": "workspace"}, 422),
    ],
)
def test_what_no_runtime_can_be_is_refused(
    world: World, machine: Machine, body: dict[str, object], status: int
) -> None:
    assert world.call("PATCH", runtime_path(machine), body).status == status


def test_what_was_changed_survives_the_next_registration(world: World, machine: Machine) -> None:
    world.ok("PATCH", runtime_path(machine), {"custom_name": "mine", "visibility": "public", "max_concurrent_tasks": 2})
    before = world.ok("GET", runtime_path(machine))
    world.machine()
    assert world.ok("GET", runtime_path(machine)) == before


def test_a_change_is_in_the_audit_log(world: World, machine: Machine) -> None:
    world.ok("PATCH", runtime_path(machine), {"visibility": "public"})
    world.ok("PATCH", runtime_path(machine), {"visibility": "public"})
    deeds = [e for e in world.ok("GET", "/api/audit")["items"] if e["action"] == "runtime_updated"]
    assert [(d["thing"], d["details"]) for d in deeds] == [(f"runtime:{machine.runtime_id}", {"visibility": "public"})]


def test_a_machine_with_an_odd_name_registers_under_a_plain_one(world: World) -> None:
    body = {"daemon_id": "d", "device_name": "a\x1bb", "runtimes": [{"name": "echo\u202e(a)", "type": "echo"}]}
    registered = world.ok("POST", "/api/daemon/register", body)
    [shown] = world.ok("GET", "/api/runtimes")["items"]
    assert (shown["name"], shown["device_name"], shown["id"]) == ("echo (a)", "a b", registered["runtimes"][0]["id"])


def test_an_agent_finds_its_runtime_behind_the_first_hundred(world: World, clock: Clock) -> None:
    offers = [{"name": f"r{n}", "type": f"kind{n}"} for n in range(100)]
    for daemon in ("old-1", "old-2"):
        world.ok("POST", "/api/daemon/register", {"daemon_id": daemon, "runtimes": offers})
    clock.forward(3600)
    machine = world.machine("fresh", provider="claude")
    assert world.agent("by-provider", provider="claude")["runtime_id"] == machine.runtime_id
    assert world.agent("the-only-one-online")["runtime_id"] == machine.runtime_id


def test_the_queue_shows_what_waits_on_every_runtime(world: World) -> None:
    ids = []
    for daemon in range(6):
        offers = [{"name": f"r{n}", "type": f"kind{n}"} for n in range(100)]
        registered = world.ok("POST", "/api/daemon/register", {"daemon_id": f"d{daemon}", "runtimes": offers})
        ids += [runtime["id"] for runtime in registered["runtimes"]]
    last = max(ids)
    world.ok("POST", "/api/agents", {"name": "ada", "runtime_id": last})
    task = world.enqueue()["id"]
    page = world.ok("GET", "/api/queue")
    found = page["items"]
    while cursor := page["next_cursor"]:
        page = world.ok("GET", "/api/queue", query={"cursor": cursor})
        found += page["items"]
    assert [row["task_id"] for row in found] == [task]


def test_what_a_machine_says_at_length_of_being_offline_is_kept_short(world: World, machine: Machine) -> None:
    path = f"/api/runtimes/{machine.runtime_id}"
    short = {"code": "not_executable", "repair": {"command": "npm i"}}
    long = {"code": ["x"], "detail": "d" * 300_000, "more": "m" * 300_000}
    for reason in (short, long):
        body = {"runtime_ids": [machine.runtime_id], "offline_reasons": {machine.runtime_id: reason}}
        assert machine.call("POST", "/api/daemon/deregister", body).status == 200
        shown = world.ok("GET", path)["offline_reason"]
        assert (
            shown == reason
            if reason is short
            else {name: len(text) for name, text in shown.items()}
            == {
                "code": 5,
                "detail": 500,
            }
        )
    offer = {"name": "echo", "type": "echo", "status": "offline", "offline_reason": long}
    assert machine.call("POST", "/api/daemon/register", {"daemon_id": "laptop", "runtimes": [offer]}).status == 200
    assert len(str(world.ok("GET", path)["offline_reason"])) < 1000


def test_a_machine_has_no_more_runtimes_than_its_item_holds(world: World) -> None:
    for n in range(3):
        offers = [{"name": "x", "type": f"kind-{n}-{m}"} for m in range(100)]
        answer = world.call("POST", "/api/daemon/register", {"daemon_id": "many", "runtimes": offers})
        assert (answer.status, answer.error) == ((200, "") if n < 2 else (400, "too_many_runtimes"))
