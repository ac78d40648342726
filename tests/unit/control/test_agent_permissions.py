"""Who may see, use and change an agent, and who may put one on a runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.fakes.sim_world import Machine, World
from tests.unit.control.test_people import newcomer


@dataclass
class People:
    """Everybody of the workspace beside Ann, its owner. Cy is admin; Au has made `ada`, private."""

    world: World
    machine: Machine
    tokens: dict[str, str]
    ids: dict[str, str]
    path: str

    def share(self, **fields: Any) -> Any:
        return self.world.ok("PATCH", self.path, fields, self.tokens["au"])

    def statuses(self, method: str, tail: str = "", body: Any = None) -> dict[str, int]:
        return {
            who: self.world.call(method, self.path + tail, body, token).status for who, token in self.tokens.items()
        }

    def enqueues(self) -> dict[str, int]:
        body = {"agent": "ada", "prompt": "p"}
        return {who: self.world.call("POST", "/api/tasks", body, token).status for who, token in self.tokens.items()}

    def listed(self) -> dict[str, int]:
        lists = {who: self.world.ok("GET", "/api/agents", token=token) for who, token in self.tokens.items()}
        return {who: len(found["items"]) for who, found in lists.items()}


@pytest.fixture
def people(world: World) -> People:
    machine = world.machine(public=True)
    tokens, ids = {"ann": world.token}, {"ann": world.me["user_id"]}
    for who, role in (("cy", "admin"), ("au", "member"), ("bo", "member")):
        tokens[who], ids[who] = newcomer(world, role, who)
    body = {"name": "ada", "runtime_id": machine.runtime_id}
    made = world.ok("POST", "/api/agents", body, tokens["au"])
    return People(world, machine, tokens, ids, f"/api/agents/{made['id']}")


def test_an_agent_is_private_by_default_which_its_owner_alone_may_use_and_admins_see(people: People) -> None:
    shown = people.world.ok("GET", people.path)
    assert (shown["permission_mode"], shown["visibility"], shown["invocation_targets"]) == ("private", "private", [])
    assert people.enqueues() == {"ann": 403, "cy": 403, "au": 201, "bo": 403}
    assert people.statuses("GET") == {"ann": 200, "cy": 200, "au": 200, "bo": 403}
    assert people.listed() == {"ann": 1, "cy": 1, "au": 1, "bo": 0}
    answer = people.world.call("POST", "/api/tasks", {"agent": "ada", "prompt": "p"}, people.tokens["cy"])
    assert answer.error == "agent_private"


def test_open_to_the_workspace_is_open_to_every_member(people: People) -> None:
    shared = people.share(permission_mode="public_to")
    assert shared["visibility"] == "workspace"
    assert shared["invocation_targets"] == [{"target_type": "workspace", "target_id": people.world.workspace_id}]
    assert set(people.enqueues().values()) == {201}
    assert set(people.listed().values()) == {1}


def test_open_to_a_member_is_open_to_that_one(people: People) -> None:
    target = {"target_type": "member", "target_id": people.ids["bo"]}
    shared = people.share(permission_mode="public_to", invocation_targets=[target, target])
    assert (shared["visibility"], shared["invocation_targets"]) == ("private", [target])
    assert people.enqueues() == {"ann": 403, "cy": 403, "au": 201, "bo": 201}
    assert people.share(permission_mode="private")["invocation_targets"] == []
    assert people.enqueues()["bo"] == 403


def test_a_run_of_an_agent_is_seen_by_those_who_may_see_the_agent(people: People) -> None:
    task = people.world.ok("POST", "/api/tasks", {"agent": "ada", "prompt": "hush"}, people.tokens["au"])["id"]
    world, bo, cy = people.world, people.tokens["bo"], people.tokens["cy"]
    for method, path in [("GET", ""), ("GET", "/messages"), ("POST", "/cancel"), ("POST", "/rerun")]:
        assert world.call(method, f"/api/tasks/{task}{path}", token=bo).error == "agent_private", path
    assert world.call("GET", "/api/tasks", token=bo, query={"agent": "ada"}).status == 403
    for path in ("/api/tasks", "/api/queue"):
        assert world.ok("GET", path, token=bo)["items"] == []
        assert len(world.ok("GET", path, token=cy)["items"]) == 1
    assert world.ok("POST", "/api/tasks/cancel", {"task_ids": [task]}, bo) == {"cancelled": 0, "task_ids": []}
    assert world.ok("GET", f"/api/tasks/{task}", token=cy)["status"] == "queued"


def test_a_rerun_needs_the_same_invitation_as_a_new_task_and_refused_changes_nothing(people: People) -> None:
    """An admin sees the run, and must not have it repeated on what the owner is logged in to."""
    world = people.world
    task = world.ok("POST", "/api/tasks", {"agent": "ada", "prompt": "p"}, people.tokens["au"])["id"]
    assert world.call("POST", f"/api/tasks/{task}/rerun", token=people.tokens["cy"]).error == "agent_private"
    assert world.ok("GET", f"/api/tasks/{task}", token=people.tokens["cy"])["status"] == "queued"


@pytest.mark.parametrize(
    "fields", [{"permission_mode": "public_to"}, {"visibility": "workspace"}, {"invocation_targets": []}]
)
def test_an_admin_does_not_open_anothers_agent_and_may_send_its_form_back(
    people: People, fields: dict[str, Any]
) -> None:
    world, cy = people.world, people.tokens["cy"]
    answer = world.call("PATCH", people.path, fields, cy)
    assert (answer.status, answer.error) == (
        (200, "") if fields == {"invocation_targets": []} else (403, "agent_owner_only")
    )
    people.share(
        permission_mode="public_to", invocation_targets=[{"target_type": "member", "target_id": people.ids["bo"]}]
    )
    form = world.ok("GET", people.path, token=cy)
    sent = {k: form[k] for k in ("permission_mode", "visibility", "invocation_targets")} | {"description": "d"}
    assert world.ok("PUT", people.path, sent, cy)["invocation_targets"] == form["invocation_targets"]


def test_an_older_clients_form_does_not_close_an_agent_open_to_single_members(people: People) -> None:
    target = {"target_type": "member", "target_id": people.ids["bo"]}
    people.share(permission_mode="public_to", invocation_targets=[target])
    assert people.share(visibility="private", description="d")["invocation_targets"] == [target]
    assert people.share(visibility="workspace")["visibility"] == "workspace"
    assert people.share(visibility="private")["permission_mode"] == "private"


def test_a_form_that_still_names_somebody_who_left_can_be_sent_back(people: People) -> None:
    targets = [{"target_type": "member", "target_id": people.ids[who]} for who in ("bo", "cy")]
    people.share(permission_mode="public_to", invocation_targets=targets)
    people.world.ok("DELETE", f"/api/members/{people.ids['bo']}")
    form = people.world.ok("GET", people.path, token=people.tokens["au"])["invocation_targets"]
    assert people.share(invocation_targets=form, description="d")["invocation_targets"] == form
    people.share(invocation_targets=[targets[1]])
    body = {"invocation_targets": form}
    assert people.world.call("PATCH", people.path, body, people.tokens["au"]).error == "member_not_found"


@pytest.mark.parametrize(
    ("targets", "error"),
    [
        ([{"target_type": "member", "target_id": "nobody"}], "member_not_found"),
        ([{"target_type": "workspace", "target_id": "another"}], "workspace_of_another"),
        ([{"target_type": "team", "target_id": "t"}], "validation_failed"),
    ],
)
def test_an_agent_is_not_opened_to_strangers(people: People, targets: list[dict[str, str]], error: str) -> None:
    body = {"permission_mode": "public_to", "invocation_targets": targets}
    assert people.world.call("PATCH", people.path, body, people.tokens["au"]).error == error


def test_an_agent_sees_its_colleagues_and_changes_none(people: People) -> None:
    people.world.ok("POST", "/api/tasks", {"agent": "ada", "prompt": "p"}, people.tokens["au"])
    mat = people.machine.claim()[0].payload["auth_token"]
    people.world.ok("POST", "/api/agents", {"name": "eve", "runtime_id": people.machine.runtime_id})
    assert [a["name"] for a in people.world.ok("GET", "/api/agents", token=mat)["items"]] == ["ada", "eve"]
    assert people.world.call("PATCH", people.path, {"description": "d"}, mat).error == "human_only"
    assert people.world.call("POST", "/api/tasks", {"agent": "eve", "prompt": "p"}, mat).error == "human_only"


def test_an_agent_reads_to_its_owner_no_run_that_the_owner_may_not_see(people: People) -> None:
    world, bo = people.world, people.tokens["bo"]
    hidden = world.ok("POST", "/api/tasks", {"agent": "ada", "prompt": "hush"}, people.tokens["au"])["id"]
    body = {"name": "bos", "runtime_id": people.machine.runtime_id}
    world.ok("POST", "/api/agents", body, bo)
    own = world.ok("POST", "/api/tasks", {"agent": "bos", "prompt": "p"}, bo)["id"]
    mat = {held.id: held.payload["auth_token"] for held in people.machine.claim(2)}[own]
    for path in ("", "/messages"):
        assert world.call("GET", f"/api/tasks/{hidden}{path}", token=mat).error == "agent_private"
    assert world.call("GET", "/api/tasks", token=mat, query={"agent": "ada"}).error == "agent_private"
    assert [task["id"] for task in world.ok("GET", "/api/tasks", token=mat)["items"]] == [own]
    people.share(permission_mode="public_to")
    assert world.ok("GET", f"/api/tasks/{hidden}", token=mat)["prompt"] == "hush"


def test_a_list_goes_on_behind_what_it_leaves_out(people: People) -> None:
    """The page is filled from behind the hidden ones; an empty page with a cursor would look like the end."""
    for n in range(6):
        people.world.ok("POST", "/api/agents", {"name": f"mine-{n}", "runtime_id": people.machine.runtime_id})
    body = {"name": "shown", "runtime_id": people.machine.runtime_id, "permission_mode": "public_to"}
    people.world.ok("POST", "/api/agents", body)
    found = people.world.ok("GET", "/api/agents", token=people.tokens["bo"], query={"limit": 2})
    assert [a["name"] for a in found["items"]] == ["shown"]


def test_archived_agents_are_listed_when_asked_for(people: People) -> None:
    people.world.ok("POST", f"{people.path}/archive")
    assert people.listed() == {"ann": 0, "cy": 0, "au": 0, "bo": 0}
    found = people.world.ok("GET", "/api/agents", query={"include_archived": "true"})["items"]
    assert [(a["name"], a["archived"]) for a in found] == [("ada", True)]


# ── runtimes ─────────────────────────────────────────────────────────────────


def test_a_private_runtime_takes_its_owners_agents_alone_on_create_and_on_update(people: People) -> None:
    world = people.world
    theirs = world.machine("bos", token=people.tokens["bo"])
    body = {"name": "eve", "runtime_id": theirs.runtime_id}
    for who in ("ann", "cy", "au"):
        assert world.call("POST", "/api/agents", body, people.tokens[who]).error == "runtime_private", who
        answer = world.call("PATCH", people.path, {"runtime_id": theirs.runtime_id}, people.tokens[who])
        assert (answer.status, answer.error) == (403, "runtime_private"), who
    assert world.ok("POST", "/api/agents", body, people.tokens["bo"])["name"] == "eve"
    world.ok("PATCH", f"/api/runtimes/{theirs.runtime_id}", {"visibility": "public"}, people.tokens["bo"])
    assert people.share(runtime_id=theirs.runtime_id)["runtime_id"] == theirs.runtime_id


def test_an_agent_stays_on_a_runtime_that_became_private_and_is_told(people: People) -> None:
    world = people.world
    world.ok("PATCH", f"/api/runtimes/{people.machine.runtime_id}", {"visibility": "private"})
    changed = people.share(description="d", runtime_id=people.machine.runtime_id)
    assert changed["readiness"]["state"] == "ready"
    assert [r["code"] for r in changed["readiness"]["reasons"]] == ["runtime_private", "no_model"]


def test_a_provider_finds_only_runtimes_one_may_use(people: People) -> None:
    world = people.world
    world.machine("bos", "claude", token=people.tokens["bo"])
    body = {"name": "eve", "provider": "claude"}
    assert world.call("POST", "/api/agents", body, people.tokens["au"]).error == "agent_runtime_required"
    assert world.ok("POST", "/api/agents", body, people.tokens["bo"])["provider"] == "claude"


def test_a_runtime_of_another_workspace_is_not_there(people: People) -> None:
    world = people.world
    far = world.ok("POST", "/api/workspaces", {"name": "far"})["id"]
    body = {"name": "eve", "runtime_id": people.machine.runtime_id}
    answer = world.call("POST", "/api/agents", body, headers={"x-workspace-id": far})
    assert (answer.status, answer.error) == (400, "runtime_not_found")
