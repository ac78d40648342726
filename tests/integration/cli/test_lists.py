"""Commands over many things: a part of a list says that it is one, and one bad name costs the others nothing."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from callboard_control.embedded.gateway import Gateway
from tests.integration.cli.conftest import Shell


@pytest.fixture(scope="module")
def ann(gateway: Gateway, shell: Callable[[str], Shell]) -> Shell:
    ann = shell("ann")
    assert gateway.bootstrap_secret_file
    ann.ok("login", "--server", gateway.url, "--bootstrap", str(gateway.bootstrap_secret_file), "--name", "Ann")
    for name in ("one", "two"):
        (ann.home / name).mkdir()
        (ann.home / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\n")
        ann.ok("skill", "import", name)
    return ann


@pytest.fixture(scope="module")
def waiting(ann: Shell, gateway: Gateway) -> list[str]:
    """Ids of two tasks that wait for a day to come."""
    token = ann.ok("token", "create", "machine").out.strip()
    headers = {"authorization": f"Bearer {token}"}
    machine = {"daemon_id": "box", "runtimes": [{"name": "echo", "type": "echo"}]}
    httpx.post(f"{gateway.url}/api/daemon/register", json=machine, headers=headers).raise_for_status()
    ann.ok("agent", "create", "scout")
    ann.ok("agent", "create", "it's a & b")
    return [ann.ok("run", "x", "--agent", "scout", "--at", "2300-01-01").out.strip() for _ in range(2)]


@pytest.mark.parametrize("listed", ["agent", "task", "skill", "audit"])
@pytest.mark.usefixtures("waiting")
def test_a_list_that_ends_before_its_end_says_so(ann: Shell, listed: str) -> None:
    part = ann.ok("--output", "json", listed, "list", "--limit", "1")
    assert len(part.json) == 1
    assert "there are more" in part.err
    whole = ann.ok("--output", "json", listed, "list", "--limit", "1000")
    assert len(whole.json) > 1
    assert whole.err == ""
    exact = ann.ok("--output", "json", listed, "list", "--limit", str(len(whole.json)))
    assert exact.err == ""
    assert ann.run(listed, "list", "--limit", "9" * 20).code == 5


def test_one_task_that_is_not_there_keeps_no_other_from_being_cancelled(ann: Shell, waiting: list[str]) -> None:
    done = ann.run("--output", "json", "task", "cancel", "nobody", waiting[0], "nothing", waiting[1])
    assert (done.code, [t["id"] for t in done.json]) == (4, waiting)
    assert "nobody" in done.err
    assert "nothing" in done.err


def test_the_command_that_is_shown_to_be_tried_can_be_pasted(ann: Shell, waiting: list[str]) -> None:
    assert """--agent='it'"'"'s a & c'""" in ann.ok("agent", "create", "it's a & c").err


@pytest.mark.usefixtures("waiting")
def test_what_a_machine_says_of_itself_moves_no_terminal(ann: Shell, gateway: Gateway) -> None:
    """A machine's version, names and reason are its daemon's to choose, and everybody in the workspace lists them."""
    evil = "1\x1b]0;owned\x07\x1b[2J\u202e"
    token = ann.ok("token", "create", "evil").out.strip()
    with httpx.Client(base_url=gateway.url, headers={"authorization": f"Bearer {token}"}, timeout=20) as client:
        offer = {"name": evil, "type": "echo", "version": evil}
        sent = {"daemon_id": "evil", "device_name": evil, "runtimes": [offer]}
        made = client.post("/api/daemon/register", json=sent).raise_for_status().json()
        runtime = made["runtimes"][0]["id"]
        said = {"runtime_ids": [runtime], "offline_reasons": {runtime: {"code": evil, "message": evil}}}
        daemon = {"authorization": f"Bearer {made['daemon_token']}"}
        client.post("/api/daemon/deregister", json=said, headers=daemon).raise_for_status()
    for command in (["list"], ["get", runtime]):
        shown = ann.ok("runtime", *command)
        assert "owned" in shown.out
        assert not {"\x1b", "\x07", "\u202e"} & set(shown.out + shown.err)


UNSET = [
    ("task", "list", "--agent"),
    ("queue", "--agent"),
    ("queue", "--runtime"),
    ("audit", "list", "--actor"),
    ("audit", "export", "--thing"),
    ("login", "--approve"),
    ("login", "--deny"),
    ("login", "--invitation"),
    ("login", "--server"),
]
"""`--agent "$UNSET"` is not everybody's, and a code that is not there begins no login."""


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (("doctor", "nobody"), 5, "known: "),
        (("doctor", ""), 5, "known: "),
        (("doctor", "--server", "claude"), 5, "one of them"),
        (("queue", "--runtime", "nobody"), 4, "no runtime"),
        (("run", "x", "--agent", "scout", "--idempotency-key", ""), 5, "idempotency_key"),
        (("run", "x", "--agent", "scout", "--at", "9999-12-31T23:59:59"), 5, "fire_at"),
        *(((*command, ""), 5, "it is empty") for command in UNSET),
        (("invite", "accept", "nothing"), 4, "lets nobody in"),
        (("model-profile", "delete", "nothing"), 4, "no model profile"),
    ],
)
def test_what_cannot_be_meant_is_said(ann: Shell, command: tuple[str, ...], code: int, said: str) -> None:
    done = ann.run(*command)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", [["task", "list"], ["task", "list", "--output", "json"], ["version"]], ids=str)
@pytest.mark.usefixtures("waiting")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
def test_an_output_that_cannot_be_written_is_an_error_and_no_bug(ann: Shell, command: list[str]) -> None:
    line = shlex.join([sys.executable, "-P", "-m", "callboard_daemon", *command])
    for to, code in ((">/dev/full", 1), (">&-", 0), ("<&- >/dev/null", 0), (">/dev/null 2>&-", 0)):
        done = subprocess.run(
            ["/bin/sh", "-c", f"{line} {to}"], env=ann.env(), capture_output=True, text=True, timeout=50
        )
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), (to, done.stderr)
        assert ("cannot be written" in done.stderr) == (code == 1)
