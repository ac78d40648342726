"""People, roles, tokens and what an audit log says of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest

from tests.fakes.sim_world import Clock, Machine, World

DAY = 24 * 3600


def newcomer(world: World, role: str = "member", name: str = "Bob") -> tuple[str, str]:
    """A second person in the workspace: (token, user id)."""
    code = world.ok("POST", "/api/invitations", {"role": role})["code"]
    joined = world.ok("POST", "/api/invitations/accept", {"code": code, "name": name}, "")
    return joined["token"], joined["user_id"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: "",
        lambda t: t[:-1],
        lambda t: t + "0",
        lambda t: t[:-1] + ("0" if t[-1] != "0" else "1"),
        lambda t: t.replace("mul_", "mat_"),
        lambda t: t.replace("mul_", "mdt_"),
        lambda t: t.replace("mul_", "awt_"),
        lambda t: "mul_" + "x" * 5000,
        lambda t: "mul__" + "0" * 40,
        lambda t: "Basic " + t,
    ],
)
def test_a_token_that_is_not_exactly_right_is_refused_with_one_message(world: World, spoil) -> None:  # type: ignore[no-untyped-def]
    answer = world.call("GET", "/api/me", token=spoil(world.token))
    assert (answer.status, answer.error) == (401, "unauthenticated")


def test_spaces_pasted_around_a_token_are_forgiven(world: World) -> None:
    assert world.call("GET", "/api/me", token=f"  {world.token}\t ").status == 200


def test_a_token_ends_with_its_time_and_with_its_revocation(world: World, clock: Clock) -> None:
    short = world.ok("POST", "/api/tokens", {"name": "ci", "expires_in_days": 1})
    assert world.call("GET", "/api/me", token=short["token"]).status == 200
    clock.forward(DAY)
    assert world.call("GET", "/api/me", token=short["token"]).status == 401
    other = world.ok("POST", "/api/tokens", {"name": "laptop"})
    world.ok("DELETE", f"/api/tokens/{other['id']}")
    assert world.call("GET", "/api/me", token=other["token"]).status == 401
    assert [t["revoked"] for t in world.ok("GET", "/api/tokens")["items"] if t["name"] == "laptop"] == [True]


def test_a_token_is_renewed_near_its_end_only_and_keeps_its_secret(world: World, clock: Clock) -> None:
    token = world.ok("POST", "/api/tokens", {"name": "ci", "expires_in_days": 30})["token"]
    assert world.ok("POST", "/api/tokens/current/renew", token=token)["renewed"] is False
    clock.forward(25 * DAY)
    assert world.ok("POST", "/api/tokens/current/renew", token=token)["renewed"] is True
    clock.forward(60 * DAY)
    assert world.call("GET", "/api/me", token=token).status == 200


def test_another_persons_token_cannot_be_revoked(world: World) -> None:
    theirs, _ = newcomer(world)
    mine = world.ok("GET", "/api/tokens")["items"][0]["id"]
    assert world.call("DELETE", f"/api/tokens/{mine}", token=theirs).status == 404


def test_an_invitation_lets_in_as_many_as_it_says_for_a_week(world: World, clock: Clock) -> None:
    code = world.ok("POST", "/api/invitations", {"max_uses": 2})["code"]
    for name in ("Bob", "Cy"):
        assert world.ok("POST", "/api/invitations/accept", {"code": code, "name": name}, "")["role"] == "member"
    assert world.call("POST", "/api/invitations/accept", {"code": code, "name": "Di"}, "").status == 404
    late = world.ok("POST", "/api/invitations", {})["code"]
    clock.forward(8 * DAY)
    assert world.call("POST", "/api/invitations/accept", {"code": late, "name": "Di"}, "").status == 404


def test_a_removed_members_token_reaches_nothing_from_the_next_call_on(world: World) -> None:
    token, user_id = newcomer(world)
    assert world.call("GET", "/api/agents", token=token).status == 200
    world.ok("DELETE", f"/api/members/{user_id}")
    assert world.call("GET", "/api/agents", token=token).status == 404


def test_a_removed_members_machine_gets_no_more_work_and_no_more_secrets(world: World) -> None:
    token, user_id = newcomer(world)
    theirs = world.machine("theirs", token=token, public=True)
    mine = world.machine("mine")
    world.agent("ada", theirs)
    world.enqueue()
    world.ok("DELETE", f"/api/members/{user_id}")
    claim = {"runtime_ids": [theirs.runtime_id], "max_tasks": 1}
    assert world.call("POST", "/api/daemon/tasks/claim", claim, theirs.token).status == 401
    assert world.call("POST", "/api/daemon/heartbeat", {"runtime_id": theirs.runtime_id}, theirs.token).status == 401
    status = {r["id"]: (r["status"], r["offline_reason"]) for r in world.ok("GET", "/api/runtimes")["items"]}
    assert status == {theirs.runtime_id: ("offline", {"code": "owner_left"}), mine.runtime_id: ("online", None)}
    assert mine.call("POST", "/api/daemon/heartbeat", {"runtime_id": mine.runtime_id}).status == 200


def test_the_last_owner_can_neither_leave_nor_step_down(world: World) -> None:
    me = world.me["user_id"]
    assert world.call("PATCH", f"/api/members/{me}", {"role": "member"}).error == "last_owner"
    assert world.call("DELETE", f"/api/members/{me}").error == "last_owner"
    _, other = newcomer(world)
    world.ok("PATCH", f"/api/members/{other}", {"role": "owner"})
    assert world.ok("PATCH", f"/api/members/{me}", {"role": "member"})["role"] == "member"


def test_a_member_changes_no_roles_and_an_admin_no_owners(world: World) -> None:
    member, member_id = newcomer(world)
    admin, _ = newcomer(world, "admin", "Cy")
    me = world.me["user_id"]
    assert world.call("PATCH", f"/api/members/{member_id}", {"role": "admin"}, member).status == 403
    assert world.call("PATCH", f"/api/members/{me}", {"role": "member"}, admin).status == 403
    assert world.call("DELETE", f"/api/members/{me}", token=admin).status == 403
    assert world.call("PATCH", f"/api/members/{member_id}", {"role": "admin"}, admin).status == 200


def test_another_workspaces_things_are_not_found(world: World, machine: Machine) -> None:
    task = world.enqueue()
    agent = world.ok("GET", "/api/agents/ada")
    elsewhere = world.ok("POST", "/api/workspaces", {"name": "elsewhere"})["id"]
    there = {"x-workspace-id": elsewhere}
    for path in (f"/api/tasks/{task['id']}", f"/api/tasks/{task['id']}/messages", f"/api/agents/{agent['id']}"):
        assert world.call("GET", path, headers=there).status == 404
    assert world.call("POST", f"/api/tasks/{task['id']}/cancel", headers=there).status == 404
    assert world.call("POST", f"/api/tasks/{task['id']}/rerun", headers=there).status == 404
    enqueue = {"agent": agent["id"], "prompt": "x"}
    assert world.call("POST", "/api/tasks", enqueue, headers=there).error == "agent_not_found"
    for path in ("/api/tasks", "/api/agents", "/api/runtimes", "/api/queue"):
        assert world.ok("GET", path, headers=there)["items"] == []
    assert world.call("GET", "/api/tasks", headers={"x-workspace-id": "nowhere"}).status == 404


def test_a_cursor_of_one_workspace_opens_no_other(world: World, machine: Machine) -> None:
    for _ in range(3):
        world.enqueue()
    cursor = world.ok("GET", "/api/tasks", query={"limit": 1})["next_cursor"]
    elsewhere = world.ok("POST", "/api/workspaces", {"name": "elsewhere"})["id"]
    query = {"cursor": cursor}
    answer = world.call("GET", "/api/tasks", query=query, headers={"x-workspace-id": elsewhere})
    assert (answer.status, answer.error) == (400, "invalid_cursor")
    for broken in ("!", "e30", cursor[:-4]):
        assert world.call("GET", "/api/tasks", query={"cursor": broken}).status == 400


def test_an_agents_token_is_confined_and_not_a_persons(world: World, machine: Machine) -> None:
    world.enqueue()
    mat = machine.claim()[0].payload["auth_token"]
    elsewhere = world.ok("POST", "/api/workspaces", {"name": "elsewhere"})["id"]
    assert world.ok("GET", "/api/me", token=mat, headers={"x-workspace-id": elsewhere})["workspace_id"] != elsewhere
    for method, path, body in [
        ("POST", "/api/tokens", {"name": "x"}),
        ("POST", "/api/invitations", {}),
        ("GET", "/api/audit", None),
        ("POST", "/api/workspaces", {"name": "x"}),
        ("POST", "/api/daemon/heartbeat", {"runtime_id": machine.runtime_id}),
        ("POST", "/api/daemon/tasks/claim", {"runtime_ids": [machine.runtime_id]}),
    ]:
        assert world.call(method, path, body, mat).status == 403, path


def test_workspace_context_reaches_every_claim(world: World, machine: Machine) -> None:
    world.ok("PATCH", "/api/workspaces/current", {"context": "We write Python.", "repos": [{"url": "u"}]})
    world.enqueue()
    payload = machine.claim()[0].payload
    assert (payload["workspace_context"], payload["repos"]) == ("We write Python.", [{"url": "u"}])


@pytest.mark.parametrize("path", ["agents", "runtimes", "tokens", "members", "workspaces", "audit", "tasks", "doctor"])
def test_a_cursor_nobody_gave_out_is_refused_and_never_an_outage(world: World, path: str) -> None:
    for cursor in ("x", "e30", "bnVsbA", "eyJwayI6MX0", *made_up(world, path)):
        answer = world.call("GET", f"/api/{path}", query={"cursor": cursor})
        assert (answer.status, answer.error) == (400, "invalid_cursor"), cursor


def made_up(world: World, path: str) -> Iterator[str]:
    """Cursors that name the right list and then something the table refuses to go on from."""
    workspace, user = f"WS#{world.workspace_id}", f"US#{world.me['user_id']}"
    partition = {
        "tokens": f"{user}#TO",
        "workspaces": user,
        "audit": f"{workspace}#AUDIT",
        "tasks": f"{workspace}#T",
        "doctor": f"{workspace}#T",
    }.get(path, workspace)
    here, there, odd = {"S": partition}, {"S": "WS#another"}, {"S": "zz"}
    for key in (
        {"pk": here},
        {"pk": here, "sk": {"S": ""}},
        {"pk": here, "sk": {"S": 5}},
        {"pk": {"S": partition, "N": "1"}, "sk": odd},
        {"pk": here, "sk": odd, "gpk": there, "gsk": odd},
        {"pk": there, "sk": odd, "gpk": here},
        {"pk": there, "sk": odd, "rpk": here, "rsk": odd},
    ):
        yield base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


@pytest.mark.parametrize("name", ["a\u202eb", "a\x00b", "a\nb", "\ud800"], ids=ascii)
def test_names_that_turn_the_line_around_or_are_invisible_are_refused(world: World, name: str) -> None:
    code = world.ok("POST", "/api/invitations", {})["code"]
    for path, body in (
        ("/api/workspaces", {"name": name}),
        ("/api/tokens", {"name": name}),
        ("/api/invitations/accept", {"code": code, "name": name}),
    ):
        assert world.call("POST", path, body).status in (400, 422), path
    assert world.call("PATCH", "/api/workspaces/current", {"name": name}).status in (400, 422)
    assert world.call("POST", "/api/workspaces", {"name": "x" * 10_000}).status == 422


def test_a_machines_odd_name_is_shown_plain(world: World) -> None:
    started = world.ok("POST", "/api/device/code", {"client_name": "box\u202e\nsays yes"}, "")
    assert world.ok("POST", "/api/device/lookup", {"user_code": started["user_code"]})["client_name"].isprintable()
