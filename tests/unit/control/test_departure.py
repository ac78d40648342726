"""Somebody leaves, or is taken out: what was theirs dies, rests or has an heir, and nobody is left without an owner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from callboard_control import ports
from callboard_control.ports.doorbell import SilentDoorbell
from callboard_control.store import table
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, World
from tests.unit.control.test_people import newcomer


class Cast:
    """Bob, with a machine and an agent on it, and one on Ann's machine; Ann with one on Bob's."""

    def __init__(self, world: World) -> None:
        self.token, self.id = newcomer(world)
        self.machine = world.machine("bobs", token=self.token)
        self.ours = world.machine("ours")
        for machine, token in ((self.machine, self.token), (self.ours, world.token)):
            world.ok("PATCH", f"/api/runtimes/{machine.runtime_id}", {"visibility": "public"}, token)
        for name, machine, token in (
            ("bob-here", self.ours, self.token),
            ("bob-there", self.machine, self.token),
            ("ann-there", self.machine, world.token),
            ("ann-here", self.ours, world.token),
        ):
            world.ok("POST", "/api/agents", {"name": name, "runtime_id": machine.runtime_id}, token)


@pytest.fixture
def bob(world: World) -> Cast:
    return Cast(world)


def agents(world: World) -> dict[str, tuple[bool, str]]:
    """Name → archived?, owner."""
    found = world.ok("GET", "/api/agents", query={"limit": 100, "include_archived": "true"})["items"]
    return {agent["name"]: (agent["archived"], agent["owner_id"]) for agent in found}


def remove(world: World, bob: Cast, **more: Any) -> Any:
    return world.ok("DELETE", f"/api/members/{bob.id}", **more)


def test_agents_on_a_removed_members_machines_rest_and_their_others_have_an_heir(world: World, bob: Cast) -> None:
    ann = world.me["user_id"]
    answer = remove(world, bob)
    assert sorted(answer["archived_agents"]) == ["ann-there", "bob-there"]
    assert sorted(answer["handed_over_agents"]) == ["bob-here", "bob-there"]
    assert (answer["heir_id"], answer["runtimes"]) == (ann, 1)
    assert agents(world) == {
        "bob-here": (False, ann),
        "bob-there": (True, ann),
        "ann-there": (True, ann),
        "ann-here": (False, ann),
    }


def test_tasks_of_agents_that_are_put_away_are_cancelled_and_others_go_on(world: World, bob: Cast) -> None:
    waiting = world.ok("POST", "/api/tasks", {"agent": "bob-there", "prompt": "p"}, bob.token)["id"]
    running = world.ok("POST", "/api/tasks", {"agent": "ann-there", "prompt": "p"})["id"]
    elsewhere = world.ok("POST", "/api/tasks", {"agent": "bob-here", "prompt": "p"}, bob.token)["id"]
    held = {task.id: task for task in bob.machine.claim(2)}
    assert held[running].say("start").status == 200
    remove(world, bob)
    assert [world.task(task)["status"] for task in (waiting, running, elsewhere)] == [
        "cancelled",
        "cancelled",
        "queued",
    ]
    assert bob.ours.claim()[0].id == elsewhere
    assert held[running].say("complete", output="x").status == 401, "the machine's token is dead"


def test_machines_that_are_handed_over_go_on_once_the_heir_starts_the_daemon(world: World, bob: Cast) -> None:
    task = world.ok("POST", "/api/tasks", {"agent": "bob-there", "prompt": "p"}, bob.token)["id"]
    answer = remove(world, bob, query={"machines": "hand_over"})
    assert answer["archived_agents"] == []
    assert bob.machine.call("POST", "/api/daemon/heartbeat", {"runtime_id": bob.machine.runtime_id}).status == 401
    [runtime] = [r for r in world.ok("GET", "/api/runtimes")["items"] if r["id"] == bob.machine.runtime_id]
    assert (runtime["status"], runtime["owner_id"]) == ("offline", world.me["user_id"])
    assert runtime["offline_reason"] == {"code": "handed_over"}
    again = world.machine("bobs")
    assert again.runtime_id == bob.machine.runtime_id
    assert [held.id for held in again.claim()] == [task]


def test_who_leaves_by_themselves_leaves_their_agents_to_an_owner(world: World, bob: Cast) -> None:
    answer = world.ok("DELETE", f"/api/members/{bob.id}", token=bob.token)
    assert answer["heir_id"] == world.me["user_id"]
    assert agents(world)["bob-here"] == (False, world.me["user_id"])
    assert world.call("GET", "/api/agents", token=bob.token).status == 404


def test_links_that_a_departed_member_made_let_nobody_in(world: World) -> None:
    token, user_id = newcomer(world, "admin")
    theirs = world.ok("POST", "/api/invitations", {}, token)["code"]
    ours = world.ok("POST", "/api/invitations", {})["code"]
    world.ok("DELETE", f"/api/members/{user_id}")
    join = [world.call("POST", "/api/invitations/accept", {"code": c, "name": "Di"}, "").status for c in (theirs, ours)]
    assert join == [404, 200]


def linked_while_removed(meanwhile: Meanwhile, world: World, token: str) -> list[str]:
    """Codes of the links that a member makes in the moment before they are taken out."""
    codes: list[str] = []
    meanwhile.before(
        "TransactWriteItems",
        lambda: codes.append(world.ok("POST", "/api/invitations", {}, token)["code"]) and None,
        when=lambda request: "member_removed" in str(request),
    )
    return codes


def test_a_link_that_the_list_did_not_show_when_its_maker_left_lets_nobody_in(clock: Clock) -> None:
    """Links are found by an index, which may be behind."""
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    token, user_id = newcomer(world, "admin")
    codes = linked_while_removed(meanwhile, world, token)
    world.ok("DELETE", f"/api/members/{user_id}")
    [code] = codes
    assert world.call("POST", "/api/invitations/accept", {"code": code, "name": "Di"}, "").status == 404
    elsewhere = world.ok("POST", "/api/invitations", {})["code"]
    back = world.ok("POST", "/api/invitations/accept", {"code": elsewhere, "name": "Di"}, "")["token"]
    assert world.call("POST", "/api/invitations/accept", {"code": code}, back).status == 200, "who is in is in"
    world.close()
    table.reconnect()


def test_who_was_taken_out_does_not_come_back_by_a_link_of_their_own(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    token, user_id = newcomer(world, "admin")
    codes = linked_while_removed(meanwhile, world, token)
    own = world.ok("POST", "/api/workspaces", {"name": "theirs"}, token)["id"]
    world.ok("DELETE", f"/api/members/{user_id}")
    there = {"x-workspace-id": own}
    answer = world.call("POST", "/api/invitations/accept", {"code": codes[0]}, token, headers=there)
    assert (answer.status, answer.error) == (404, "invitation_not_found")
    world.close()
    table.reconnect()


def test_a_removal_cut_off_half_way_is_finished_by_the_next(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    bob = Cast(world)

    def crash() -> None:
        raise KeyboardInterrupt

    meanwhile.before("DeleteItem", crash)
    meanwhile.before("TransactWriteItems", crash, when=lambda request: "Delete" in str(request))
    with pytest.raises(KeyboardInterrupt):
        remove(world, bob)
    assert world.call("GET", "/api/me", token=bob.token).status == 200
    assert remove(world, bob)["handed_over_agents"] == []
    assert world.call("GET", "/api/me", token=bob.token).status == 404
    assert agents(world)["bob-there"] == (True, world.me["user_id"])
    world.close()
    table.reconnect()


def test_two_owners_who_leave_at_once_leave_one(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    token, user_id = newcomer(world)
    world.ok("PATCH", f"/api/members/{user_id}", {"role": "owner"})
    meanwhile.before(
        "TransactWriteItems",
        lambda: world.ok("DELETE", f"/api/members/{user_id}", token=token),
        when=lambda request: "Delete" in str(request),
    )
    assert world.call("DELETE", f"/api/members/{world.me['user_id']}").error == "contended"
    assert world.call("DELETE", f"/api/members/{world.me['user_id']}").error == "last_owner"
    assert [m["role"] for m in world.ok("GET", "/api/members")["items"]] == ["owner"]
    world.close()
    table.reconnect()


def test_two_owners_who_step_down_at_once_leave_one(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    token, user_id = newcomer(world)
    world.ok("PATCH", f"/api/members/{user_id}", {"role": "owner"})
    meanwhile.before(
        "TransactWriteItems", lambda: world.ok("PATCH", f"/api/members/{user_id}", {"role": "member"}, token)
    )
    assert world.call("PATCH", f"/api/members/{world.me['user_id']}", {"role": "member"}).error == "contended"
    assert sorted(m["role"] for m in world.ok("GET", "/api/members")["items"]) == ["member", "owner"]
    world.close()
    table.reconnect()


def test_an_owner_steps_down_by_themselves_and_then_may_not_undo_it(world: World) -> None:
    token, user_id = newcomer(world)
    world.ok("PATCH", f"/api/members/{user_id}", {"role": "owner"})
    assert world.ok("PATCH", f"/api/members/{user_id}", {"role": "member"}, token)["role"] == "member"
    assert world.call("PATCH", f"/api/members/{user_id}", {"role": "owner"}, token).status == 403


def test_an_admin_takes_out_members_and_admins_and_no_owner(world: World) -> None:
    admin, _ = newcomer(world, "admin")
    other, other_id = newcomer(world, "admin", "Cy")
    assert world.call("DELETE", f"/api/members/{world.me['user_id']}", token=admin).status == 403
    assert world.call("DELETE", f"/api/members/{other_id}", token=admin).status == 200
    assert world.call("GET", "/api/me", token=other).status == 404


def test_open_links_are_listed_without_their_code_and_revoked(world: World, clock: Clock) -> None:
    made = world.ok("POST", "/api/invitations", {"role": "admin", "max_uses": 2})
    used = world.ok("POST", "/api/invitations", {})
    world.ok("POST", "/api/invitations/accept", {"code": used["code"], "name": "Bob"}, "")
    [listed] = world.ok("GET", "/api/invitations")["items"]
    assert (listed["id"], listed["code"], listed["uses_left"]) == (made["id"], "", 2)
    assert (listed["role"], listed["created_by"]) == ("admin", world.me["user_id"])
    world.ok("DELETE", f"/api/invitations/{made['id']}")
    assert world.call("DELETE", f"/api/invitations/{made['id']}").status == 404
    assert world.call("POST", "/api/invitations/accept", {"code": made["code"], "name": "Di"}, "").status == 404
    world.ok("POST", "/api/invitations", {})
    clock.forward(8 * 24 * 3600)
    assert world.ok("GET", "/api/invitations")["items"] == []


@pytest.mark.parametrize(
    "spoil", [lambda c: c[:-1], lambda c: c + "0", lambda c: c.replace("inv_", "mul_"), lambda _: "x"]
)
def test_an_invitations_code_must_be_exactly_right(world: World, spoil: Any) -> None:
    code = world.ok("POST", "/api/invitations", {})["code"]
    assert world.call("POST", "/api/invitations/accept", {"code": spoil(code), "name": "Di"}, "").status == 404
    assert world.call("POST", "/api/invitations/accept", {"code": f" {code}\n", "name": "Di"}, "").status == 200


def test_a_machine_whose_owner_has_left_is_made_an_admins_by_registering_it(world: World, bob: Cast) -> None:
    """What everybody is told to do about a runtime that is nobody's, and it must help."""
    remove(world, bob)
    other = newcomer(world, name="Cy")[0]
    offer = {"daemon_id": "bobs", "runtimes": [{"name": "echo", "type": "echo"}]}
    refused = world.call("POST", "/api/daemon/register", offer, other)
    assert (refused.status, refused.error) == (403, "daemon_of_another")
    again = world.machine("bobs")
    assert again.runtime_id == bob.machine.runtime_id
    runtime = world.ok("GET", f"/api/runtimes/{again.runtime_id}")
    assert (runtime["owner_id"], runtime["status"]) == (world.me["user_id"], "online")
    world.agent("new", again)
    task = world.enqueue("new")["id"]
    assert [held.id for held in again.claim()] == [task]


def test_no_admin_gets_a_token_for_the_machine_of_somebody_who_is_here(world: World, bob: Cast) -> None:
    """It would be theirs still when they are an admin, and a member, no more."""
    offer = {"daemon_id": "bobs", "runtimes": [{"name": "echo", "type": "echo"}]}
    refused = world.call("POST", "/api/daemon/register", offer)
    assert (refused.status, refused.error) == (403, "daemon_of_another")
    assert bob.machine.call("POST", "/api/daemon/heartbeat", {}).status == 200


@pytest.mark.parametrize("machines", ["offline", "hand_over"])
@pytest.mark.parametrize("daemon_id", ["bobs", "another"])
def test_who_registers_a_machine_while_they_are_taken_out_keeps_no_token(
    clock: Clock, machines: str, daemon_id: str
) -> None:
    """A daemon that is refused logs in once more by itself, and its owner is a member until the last step."""
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    bob = Cast(world)
    offer = {"daemon_id": daemon_id, "runtimes": [{"name": "echo", "type": "echo"}]}
    registered: list[Any] = []
    meanwhile.before(
        "TransactWriteItems",
        lambda: registered.append(world.call("POST", "/api/daemon/register", offer, bob.token)) and None,
        when=lambda request: "member_removed" in str(request),
    )
    remove(world, bob, query={"machines": machines})
    [answer] = registered
    assert answer.status == (403 if (machines, daemon_id) == ("hand_over", "bobs") else 200)
    if answer.status == 200:
        assert world.call("POST", "/api/daemon/heartbeat", {}, answer["daemon_token"]).status == 401
    world.close()
    table.reconnect()


def test_nobody_is_given_a_machines_token_who_was_taken_out_after_their_call_began(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    bob = Cast(world)
    meanwhile.before(
        "TransactWriteItems", lambda: remove(world, bob) and None, when=lambda r: "machine_registered" in str(r)
    )
    offer = {"daemon_id": "bobs", "runtimes": [{"name": "echo", "type": "echo"}]}
    answer = world.call("POST", "/api/daemon/register", offer, bob.token)
    assert answer.status in (403, 409)
    world.close()
    table.reconnect()


@pytest.mark.parametrize("machines", ["offline", "hand_over"])
def test_a_claim_that_is_held_while_its_machine_is_taken_away_is_given_nothing(world: World, machines: str) -> None:
    """It was let in by a token that is dead by now, and what it would be given has the secrets of others' agents."""
    bob = Cast(world)
    queued: list[str] = []

    class Bell(SilentDoorbell):
        def wait(self, seen: Any, timeout: float, /) -> bool:
            if queued:
                return False
            remove(world, bob, query={"machines": machines})
            agent = "bob-there" if machines == "hand_over" else "ann-there"
            if machines == "offline":
                world.ok("POST", f"/api/agents/{agent}/restore")
            queued.append(world.enqueue(agent)["id"])
            return True

    ports.use(replace(ports.current(), doorbell=Bell()))
    assert bob.machine.claim(wait=20) == []
    assert [world.task(task)["status"] for task in queued] == ["queued"]


def test_a_machine_that_is_taken_over_in_the_very_moment_its_owner_leaves_stays_in_use(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    bob = Cast(world)
    again: list[Any] = []
    gone = f"/api/members/{bob.id}"

    def is_offline_again(request: Any) -> bool:
        left = world.ok("GET", "/api/members")["items"]
        runtime = f"RT#{bob.machine.runtime_id}"
        return runtime in str(request) and bob.id not in [member["user_id"] for member in left]

    meanwhile.before("UpdateItem", lambda: again.append(world.machine("bobs")) and None, when=is_offline_again)
    world.ok("DELETE", gone)
    assert again, "the last step looks once more"
    assert world.ok("GET", f"/api/runtimes/{bob.machine.runtime_id}")["status"] == "online"
    world.close()
    table.reconnect()
