"""Members, invitations, settings, the audit log and agents' environments, as commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from callboard_control.embedded.gateway import Gateway
from tests.integration.cli.conftest import Shell

MakeShell = Callable[[str], Shell]


@pytest.fixture(scope="module")
def api(gateway: Gateway, ann: Shell) -> Iterator[httpx.Client]:
    """Ann's API, to look at what the commands did."""
    token = ann.ok("token", "create", "looking").out.strip()
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=gateway.url, headers=headers, timeout=20) as client:
        yield client


@pytest.fixture(scope="module")
def agent(api: httpx.Client) -> str:
    machine = {"daemon_id": "box", "runtimes": [{"name": "echo", "type": "echo"}]}
    runtime = api.post("/api/daemon/register", json=machine).json()["runtimes"][0]["id"]
    made = api.post("/api/agents", json={"name": "scout", "runtime_id": runtime}).raise_for_status()
    return str(made.json()["id"])


def test_an_invitation_brings_somebody_in_who_is_given_a_role_and_taken_out(
    gateway: Gateway, ann: Shell, shell: MakeShell
) -> None:
    code = ann.ok("invite", "create").out.strip()
    bob = shell("bob")
    bob.ok("login", "--server", gateway.url, "--invitation", code, "--name", "Bob")
    assert "is admin now" in ann.ok("member", "role", "bob", "admin").err
    assert {m["name"]: m["role"] for m in bob.json("member", "list")} == {"Ann": "owner", "Bob": "admin"}
    assert ann.run("member", "remove", "Bob").code == 5, "nobody is asked without a terminal"
    assert ann.json("member", "remove", "Bob", "--yes")["removed"] is True
    assert bob.run("member", "list").code == 4
    assert ann.run("member", "role", "Bob", "owner").code == 4
    assert ann.run("member", "role", "Ann", "member").code == 1, "the last owner stays one"


def test_open_invitations_are_listed_and_revoked(ann: Shell) -> None:
    made = ann.json("invite", "create", "--role", "admin", "--uses", "3")
    [listed] = ann.json("invite", "list")
    assert (listed["id"], listed["code"], listed["uses_left"]) == (made["id"], "", 3)
    assert made["code"] not in ann.ok("invite", "list").out
    ann.ok("invite", "revoke", made["id"])
    assert ann.json("invite", "list") == []
    assert ann.run("invite", "accept", "-", stdin=made["code"]).code == 4


def test_settings_that_are_not_named_stay(ann: Shell) -> None:
    ann.ok("workspace", "settings", "set", "--context", "We write Python.", "--repo", "https://example.com/r.git")
    ann.ok("workspace", "settings", "set", "--always-redact-env")
    found = ann.json("workspace", "settings", "get")
    assert (found["context"], found["repos"]) == ("We write Python.", [{"url": "https://example.com/r.git"}])
    assert found["settings"] == {"always_redact_env": True}
    changed = ann.json("workspace", "settings", "set", "--context", "", "--no-repos", "--no-always-redact-env")
    assert (changed["context"], changed["repos"], changed["settings"]) == ("", [], {"always_redact_env": False})
    assert ann.run("workspace", "settings", "set").code == 5


def test_secrets_come_from_stdin_and_files_and_never_from_arguments(ann: Shell, agent: str, api: httpx.Client) -> None:
    ann.ok("agent", "env", "set", "scout", "API_KEY", stdin="line one\nline two\n\n")
    many = ann.home / "many.env"
    many.write_text("# comment\nexport PLAIN=a b # no comment\nQUOTED='it''s'\nEMPTY=\n\n")
    ann.ok("agent", "env", "set", "scout", "--env-file", str(many))
    key = ann.home / "key"
    key.write_bytes("ünïcode".encode())
    ann.ok("agent", "env", "set", "scout", "FROM_FILE", "--file", str(key))
    assert api.get(f"/api/agents/{agent}/env").json()["custom_env"] == {
        "API_KEY": "line one\nline two\n",
        "PLAIN": "a b # no comment",
        "QUOTED": "its",
        "EMPTY": "",
        "FROM_FILE": "ünïcode",
    }
    assert ann.ok("agent", "env", "get", "scout", "API_KEY").out == "line one\nline two\n"
    assert ann.json("agent", "env", "list", "scout") == ["API_KEY", "EMPTY", "FROM_FILE", "PLAIN", "QUOTED"]
    ann.ok("agent", "env", "unset", "scout", "PLAIN", "EMPTY")
    assert ann.json("agent", "env", "list", "scout") == ["API_KEY", "FROM_FILE", "QUOTED"]
    assert ann.run("agent", "env", "unset", "scout", "PLAIN").code == 4


@pytest.mark.parametrize(
    "args",
    [
        ("set", "scout", "TOKEN=zq-SECRET-1"),
        ("set", "scout", "TOKEN:zq-SECRET-1"),
        ("set", "scout", "A", "zq-SECRET-1"),
        ("get", "scout", "TOKEN=zq-SECRET-1"),
        ("unset", "scout", "TOKEN=zq-SECRET-1"),
    ],
    ids=str,
)
def test_a_value_in_the_wrong_place_is_refused_and_not_repeated(ann: Shell, agent: str, args: tuple[str, ...]) -> None:
    done = ann.run("agent", "env", *args, stdin="x")
    assert done.code in (4, 5)
    said = done.out + done.err
    assert args == ("set", "scout", "A", "zq-SECRET-1") or "zq-SECRET-1" not in said


def test_a_line_of_a_file_that_is_none_is_named_by_its_number(ann: Shell, agent: str) -> None:
    many = ann.home / "broken.env"
    many.write_text("A=1\nzq-SECRET-1\n")
    done = ann.run("agent", "env", "set", "scout", "--env-file", str(many))
    assert (done.code, "line 2" in done.err, "zq-SECRET-1" in done.err) == (5, True, False)


def test_an_agent_is_changed_put_away_and_brought_back(ann: Shell, agent: str, api: httpx.Client) -> None:
    ann.ok("agent", "update", "scout", "--description", "finds things", "--max-turns", "9", "--public")
    changed = ann.json("agent", "update", "scout", "--clear", "max-turns", "--private")
    assert (changed["description"], changed["max_turns"]) == ("finds things", None)
    assert changed["permission_mode"] == "private"
    assert ann.run("agent", "update", "scout").code == 5
    assert ann.run("agent", "update", "scout", "--model", "m", "--clear", "model").code == 5
    ann.ok("agent", "archive", "scout")
    assert api.get(f"/api/agents/{agent}").json()["archived"] is True
    assert ann.run("agent", "archive", "scout").code == 1
    assert ann.json("agent", "restore", "scout")["archived"] is False


def test_the_audit_log_is_filtered_and_exported_a_line_each(ann: Shell, agent: str) -> None:
    ann.ok("agent", "env", "set", "scout", "K", stdin="v")
    ann.ok("agent", "env", "get", "scout")
    shown = ann.json("audit", "list", "--thing", f"agent:{agent}", "--action", "agent_env_revealed", "--since", "1h")
    assert shown
    assert {(e["action"], e["thing"]) for e in shown} == {("agent_env_revealed", f"agent:{agent}")}
    lines = [json.loads(line) for line in ann.ok("audit", "export").out.splitlines()]
    assert len(lines) > 15
    assert [e["at_ms"] for e in lines] == sorted((e["at_ms"] for e in lines), reverse=True)
    assert ann.ok("audit", "export", "--until", "2020-01-01").out == ""
    assert ann.run("audit", "list", "--since", "yesterday").code == 5
