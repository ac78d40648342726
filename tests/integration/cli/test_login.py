"""`callboard login` in all its ways, as processes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from callboard_control.embedded.gateway import Gateway
from callboard_daemon.cli.pasted import person_token
from callboard_daemon.errors import SettingError
from tests.integration.cli.conftest import Shell

MakeShell = Callable[[str], Shell]
WHOLE = "mul_0190f0e2-1111-7222-8333-444455556666_" + "a1" * 20


def code_of(waiting: object) -> str:
    """The code that a waiting login shows on stderr."""
    shown = ""
    for line in waiting.stderr:  # type: ignore[attr-defined]
        shown += line
        if found := re.search(r"Your code: ([A-Z]{4}-[A-Z]{4})", shown):
            return found.group(1)
    raise AssertionError(shown)


def test_a_machine_is_let_in_by_a_code_that_somebody_approves_elsewhere(
    gateway: Gateway, ann: Shell, shell: MakeShell
) -> None:
    box = shell("box")
    waiting = box.start("login", "--server", gateway.url)
    code = code_of(waiting)
    refused = ann.run("login", "--approve", code)
    assert (refused.code, "asks to log in as you" in refused.err, "--yes" in refused.err) == (5, True, True)
    assert "is let in" in ann.ok("login", "--approve", code.lower(), "--yes").err
    _, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 0, err
    assert box.json("whoami")["name"] == "Ann"
    assert ann.run("login", "--approve", code, "--yes").code == 4, "a code takes one answer"


def test_a_machine_that_is_turned_away_ends_with_the_code_for_invalid(
    gateway: Gateway, ann: Shell, shell: MakeShell
) -> None:
    waiting = shell("box").start("login", "--server", gateway.url)
    ann.ok("login", "--deny", code_of(waiting))
    _, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 5
    assert "refused" in err


def test_a_pasted_token_is_read_whatever_came_with_it(gateway: Gateway, ann: Shell, shell: MakeShell) -> None:
    token = ann.ok("token", "create", "laptop").out.strip()
    laptop = shell("laptop")
    pasted = f"\n  '{token[:30]}\r\n{token[30:]}' \n\n"
    laptop.ok("login", "--server", gateway.url, "--token-stdin", stdin=pasted)
    assert laptop.json("whoami")["name"] == "Ann"


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ("", "no token was given"),
        (" \n", "no token was given"),
        (WHOLE[:-3], "cut short: its last part has 37 of 40"),
        (WHOLE[:20], "cut short: its last part has 0 of 40"),
        (WHOLE + "ff", "more after its end"),
        (WHOLE.replace("mul_", "mdt_"), "a machine's token"),
        (WHOLE.replace("mul_", "mat_"), "a task's token"),
        ("awt_x", "a webhook's address"),
        ("sk-ant-secret-1", "not a person's token"),
        ("eyJhbGciOi", "not a person's token"),
    ],
)
def test_what_is_no_persons_token_is_named_and_never_repeated(pasted: str, said: str) -> None:
    with pytest.raises(SettingError) as refused:
        person_token(pasted)
    assert said in refused.value.message
    assert not pasted.strip() or pasted.strip() not in refused.value.message + refused.value.hint


@pytest.mark.parametrize(
    "around", ["{}", " {}\n", '"{}"', "`{}`", "Bearer {}", "\u200b{}\ufeff", "\t{}\r\n"], ids=lambda a: repr(a)
)
def test_what_is_pasted_around_a_token_is_dropped(around: str) -> None:
    assert person_token(around.format(WHOLE)) == WHOLE


def test_an_invitation_makes_somebody_new(gateway: Gateway, ann: Shell, shell: MakeShell) -> None:
    import httpx

    token = ann.ok("token", "create", "for the test").out.strip()
    answer = httpx.post(f"{gateway.url}/api/invitations", json={}, headers={"authorization": f"Bearer {token}"})
    bob = shell("bob")
    bob.ok("login", "--server", gateway.url, "--invitation", "-", "--name", "Bob", stdin=answer.json()["code"] + "\n")
    assert (bob.json("whoami")["name"], bob.json("whoami")["role"]) == ("Bob", "member")


def test_two_ways_in_at_once_are_refused(ann: Shell) -> None:
    done = ann.run("login", "--token-stdin", "--approve", "X")
    assert (done.code, "exclude each other" in done.err) == (5, True)


def test_a_login_in_its_last_week_is_renewed_by_being_used(gateway: Gateway, ann: Shell, shell: MakeShell) -> None:
    for days, renewed in ((30, False), (5, True)):
        box = shell(f"box{days}")
        token = ann.ok("token", "create", "box", "--days", str(days)).out
        box.ok("login", "--server", gateway.url, "--token-stdin", stdin=token)
        box.ok("agent", "list")
        ends = datetime.fromisoformat(box.json("whoami")["token_expires_at"]) - datetime.now(UTC)
        assert timedelta(days=89 if renewed else 29) < ends < timedelta(days=91 if renewed else 31)


def test_renewing_by_hand_changes_nothing_before_the_last_week(ann: Shell) -> None:
    assert "not renewed" in ann.ok("token", "renew").err
