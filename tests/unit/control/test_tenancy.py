"""Who reaches what across workspaces and machines, where two memberships or two moments meet."""

from __future__ import annotations

import pytest

from callboard_control.embedded.engine.faults import Fault
from callboard_control.store.models import Item
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, Machine, World


def join(world: World, role: str = "member", name: str = "Bo") -> dict[str, str]:
    code = world.ok("POST", "/api/invitations", {"role": role})["code"]
    joined: dict[str, str] = world.ok("POST", "/api/invitations/accept", {"code": code, "name": name}, token="")
    return joined


def test_an_owner_elsewhere_takes_over_no_machine_of_a_workspace_they_are_only_a_member_of(
    world: World, machine: Machine
) -> None:
    guest = join(world)["token"]
    own = world.ok("POST", "/api/workspaces", {"name": "theirs"}, guest)
    body = {
        "daemon_id": machine.daemon_id,
        "workspace_id": world.workspace_id,
        "runtimes": [{"name": "echo", "type": "echo"}],
    }
    answer = world.call("POST", "/api/daemon/register", body, guest, headers={"x-workspace-id": own["id"]})
    assert (answer.status, answer.error) == (403, "daemon_of_another")
    assert world.call("POST", "/api/daemon/heartbeat", {}, machine.token).status == 200


def test_a_removed_members_machine_takes_no_more_work(world: World) -> None:
    guest = join(world)
    theirs = world.machine("their laptop".replace(" ", "-"), token=guest["token"], public=True)
    world.agent("bob", theirs)
    world.enqueue("bob")
    world.ok("DELETE", f"/api/members/{guest['user_id']}")
    body = {"daemon_id": theirs.daemon_id, "runtime_ids": [theirs.runtime_id]}
    assert world.call("POST", "/api/daemon/tasks/claim", body, theirs.token).status == 401


def test_two_last_owners_leaving_at_once_leave_one_behind(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    other = join(world, "admin")
    world.ok("PATCH", f"/api/members/{other['user_id']}", {"role": "owner"})
    mine = world.me["user_id"]
    meanwhile.before(
        "TransactWriteItems",
        lambda: world.ok("DELETE", f"/api/members/{other['user_id']}", token=other["token"]) and None,
    )
    assert world.call("DELETE", f"/api/members/{mine}").status == 409
    assert [m["role"] for m in world.ok("GET", "/api/members")["items"]] == ["owner"]
    world.close()


@pytest.mark.parametrize("path", ["/api/agents/{}", "/api/tasks/{}", "/api/tasks/{}/messages"])
def test_an_id_too_long_to_exist_is_not_found_and_no_outage(world: World, path: str) -> None:
    assert world.call("GET", path.format("x" * 2500)).status == 404


def test_a_token_id_too_long_to_exist_is_not_found(world: World) -> None:
    assert world.call("DELETE", f"/api/tokens/{'x' * 2500}").status == 404


def test_an_invitation_is_not_used_up_by_a_call_that_failed(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    code = world.ok("POST", "/api/invitations", {})["code"]
    body = {"code": code, "name": "Bo"}
    for _ in range(8):
        meanwhile.before("TransactWriteItems", lambda: Fault.UNAVAILABLE, when=lambda request: "Bo" in str(request))
    assert world.call("POST", "/api/invitations/accept", body, "").status == 503
    for _ in range(3):  # what is left of the trouble passes
        answer = world.call("POST", "/api/invitations/accept", body, "")
        if answer.status == 200:
            break
    assert world.ok("GET", "/api/me", token=answer["token"])["name"] == "Bo"
    world.close()


def test_a_store_that_is_silent_is_given_up_while_the_caller_still_listens() -> None:
    tries = 1 + Item.Meta.max_retry_attempts
    pauses = sum(2**n for n in range(Item.Meta.max_retry_attempts))  # botocore's longest, standard mode
    assert tries * Item.Meta.read_timeout_seconds + pauses < 10
