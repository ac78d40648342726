"""The audit log is complete, filtered, paged, and the way secrets are handled leaves a row or does not happen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from callboard_control.embedded.engine.faults import Fault
from callboard_control.embedded.secrets import LocalSecrets
from callboard_control.store import table
from callboard_control.store.models import Item
from tests.fakes.meanwhile import Meanwhile
from tests.fakes.sim_world import Clock, World
from tests.unit.control.test_people import newcomer


@pytest.fixture
def world(clock: Clock, tmp_path: Path) -> Any:
    world = World(clock=clock, secrets=LocalSecrets(tmp_path / "key"))
    yield world
    world.close()


def rows(world: World, **query: Any) -> list[dict[str, Any]]:
    return list(world.ok("GET", "/api/audit", query={"limit": 100, **query})["items"])


def actions(world: World, **query: Any) -> list[str]:
    """Oldest first."""
    return [row["action"] for row in reversed(rows(world, **query))]


def test_every_deed_on_people_agents_runtimes_tasks_and_secrets_leaves_a_row(world: World) -> None:
    machine = world.machine()
    agent = world.agent("ada", machine)["id"]
    env = f"/api/agents/{agent}/env"
    token = world.ok("POST", "/api/tokens", {"name": "ci"})["id"]
    world.ok("DELETE", f"/api/tokens/{token}")
    _, bob = newcomer(world)
    world.ok("PATCH", f"/api/members/{bob}", {"role": "admin"})
    link = world.ok("POST", "/api/invitations", {})["id"]
    world.ok("DELETE", f"/api/invitations/{link}")
    world.ok("PATCH", "/api/workspaces/current", {"context": "c"})
    world.ok("PUT", env, {"custom_env": {"K": "v"}})
    world.ok("GET", env)
    world.ok("GET", env, query={"masked": "true"})
    world.ok("PATCH", f"/api/agents/{agent}", {"description": "d"})
    task = world.enqueue()["id"]
    world.ok("POST", f"/api/tasks/{task}/cancel")
    world.ok("POST", f"/api/tasks/{task}/cancel")
    world.ok("PATCH", f"/api/runtimes/{machine.runtime_id}", {"custom_name": "box"})
    world.ok("POST", f"/api/agents/{agent}/archive")
    world.ok("POST", f"/api/agents/{agent}/restore")
    world.ok("DELETE", f"/api/members/{bob}")
    assert actions(world) == [
        "workspace_created",
        "machine_registered",
        "agent_created",
        "token_created",
        "token_revoked",
        "invitation_made",
        "member_joined",
        "role_changed",
        "invitation_made",
        "invitation_revoked",
        "workspace_updated",
        "agent_env_updated",
        "agent_env_revealed",
        "agent_updated",
        "task_cancelled",
        "runtime_updated",
        "agent_archived",
        "agent_restored",
        "member_removed",
    ]
    me = f"member:{world.me['user_id']}"
    assert {row["actor"] for row in rows(world)} == {me, f"member:{bob}"}
    assert all(row["token_id"] for row in rows(world) if row["actor"] == me)


def test_the_log_is_filtered_by_deed_actor_thing_and_time_over_all_its_pages(world: World, clock: Clock) -> None:
    tokens = []
    for n in range(30):
        tokens.append(world.ok("POST", "/api/tokens", {"name": f"t{n}"})["id"])
        world.ok("PATCH", "/api/workspaces/current", {"context": str(n)})
        clock.forward(60)
    assert actions(world, action="token_created", limit=7) == ["token_created"] * 7
    assert [row["thing"] for row in rows(world, thing=f"token:{tokens[3]}")] == [f"token:{tokens[3]}"]
    assert len(rows(world, thing="token:")) == 30
    assert rows(world, actor="member:nobody") == []
    at = datetime.fromtimestamp(clock.seconds() - 10 * 60, UTC).isoformat()
    assert len(rows(world, since=at)) == 20
    assert len(rows(world, until=at)) == 41
    for odd in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        assert world.call("GET", "/api/audit", query={"since": odd}).status == 200
    for wrong in ("yesterday", "2026-11-30T12:00:00"):
        assert world.call("GET", "/api/audit", query={"since": wrong}).status == 422


def test_an_export_follows_the_cursor_and_meets_every_row_once(world: World) -> None:
    for n in range(25):
        world.ok("POST", "/api/tokens", {"name": f"t{n}"})
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = world.ok("GET", "/api/audit", query={"limit": 10, "action": "token_created", **cursor})
        seen += [row["thing"] for row in page["items"]]
        if not page["next_cursor"]:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert len(seen) == len(set(seen)) == 25


class NoRows:
    """A store that takes no row of the audit log."""

    def fault(self, operation: str, request: Mapping[str, Any]) -> Fault | None:
        return Fault.UNAVAILABLE if "#AUDIT" in str(request) and operation != "Query" else None

    def wrote(self, table: str, index: str) -> None:
        pass

    def index_lag(self, table: str, index: str, ages: Sequence[float]) -> int:
        return 0


def test_without_its_row_nothing_is_revealed_made_or_cancelled(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Item.Meta, "max_retry_attempts", 0)  # this outage is no shorter than any number of tries
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile, secrets=LocalSecrets(tmp_path / "key"))
    world.agent("ada", world.machine())
    world.ok("PUT", "/api/agents/ada/env", {"custom_env": {"K": "canary"}})
    task = world.enqueue()["id"]
    broken = NoRows()
    meanwhile.fault = broken.fault  # type: ignore[method-assign]
    for method, path, body in (
        ("GET", "/api/agents/ada/env", None),
        ("POST", "/api/tokens", {"name": "x"}),
        ("POST", f"/api/tasks/{task}/cancel", None),
        ("PATCH", "/api/agents/ada", {"description": "d"}),
    ):
        answer = world.call(method, path, body)
        assert (answer.status, "canary" in str(answer.body)) == (503, False), path
    assert world.task(task)["status"] == "queued"
    world.close()
    monkeypatch.undo()
    table.reconnect()


def test_two_admins_who_edit_an_environment_at_once_lose_nothing(clock: Clock, tmp_path: Path) -> None:
    """Whoever comes second is told, whether they said which version they had read or not."""
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile, secrets=LocalSecrets(tmp_path / "key"))
    world.agent("ada", world.machine())
    admin, _ = newcomer(world, "admin")
    path = "/api/agents/ada/env"
    version = world.ok("PUT", path, {"custom_env": {"A": "1"}})["version"]
    for said in ({"version": version}, {}):
        theirs = {"custom_env": {"A": "****", "THEIRS": str(len(said))}}
        meanwhile.before("TransactWriteItems", lambda body=theirs: world.ok("PUT", path, body, admin))
        answer = world.call("PUT", path, {"custom_env": {"A": "****", "MINE": "3"}, **said})
        assert (answer.status, answer.error) == (409, "env_changed")
        assert world.ok("GET", path)["custom_env"] == {"A": "1", "THEIRS": str(len(said))}
        version = world.ok("GET", path, query={"masked": "true"})["version"]
    world.close()
    table.reconnect()


def test_two_admins_who_change_settings_at_once_lose_nothing(clock: Clock) -> None:
    meanwhile = Meanwhile()
    world = World(clock=clock, faults=meanwhile)
    admin, _ = newcomer(world, "admin")
    path = "/api/workspaces/current"
    meanwhile.before("TransactWriteItems", lambda: world.ok("PATCH", path, {"settings": {"theirs": 1}}, admin))
    assert world.call("PATCH", path, {"settings": {"mine": 1}}).error == "contended"
    assert world.ok("PATCH", path, {"settings": {"mine": 1}})["settings"] == {"theirs": 1, "mine": 1}
    assert world.ok("PATCH", path, {"settings": {"theirs": None}})["settings"] == {"mine": 1}
    assert world.call("PATCH", path, {"settings": {"always_redact_env": "yes"}}).error == "invalid_setting"
    world.close()
    table.reconnect()


def test_a_map_of_masks_reveals_nothing(world: World) -> None:
    world.agent("ada", world.machine())
    world.ok("PUT", "/api/agents/ada/env", {"custom_env": {"A": "canary", "B": "2"}})
    answer = world.ok("PUT", "/api/agents/ada/env", {"custom_env": {"A": "****", "B": "3", "C": "****"}})
    assert answer["custom_env"] == {"A": "****", "B": "3"}
    assert world.ok("GET", "/api/agents/ada/env")["custom_env"] == {"A": "canary", "B": "3"}
    assert world.ok("GET", "/api/agents/ada/env", query={"masked": "true"})["custom_env"] == {"A": "****", "B": "****"}
