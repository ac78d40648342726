from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard_daemon.errors import PrepareError
from callboard_daemon.execenv.brief import BEGIN, END, prompt_for, render_brief, with_block, write_brief
from callboard_daemon.execenv.environment import inherited, secrets_of, task_environment
from callboard_daemon.execenv.marker import find_marker, write_marker
from callboard_daemon.execenv.root import open_root, task_key
from callboard_daemon.prepare import check_identity
from callboard_wire.bodies import ClaimedTask
from callboard_wire.environment import refused_keys

ID = "019a0000-0000-7000-8000-0123456789ab"


def claimed(**changes: Any) -> ClaimedTask:
    agent = {"id": "a1", "name": "scout", **changes.pop("agent", {})}
    given = {
        "id": ID,
        "agent_id": "a1",
        "runtime_id": "r1",
        "workspace_id": "w1",
        "created_at": datetime.now(UTC),
        "prompt": "do it",
        "agent": agent,
        "auth_token": "mat_secret-of-the-task",
    }
    return ClaimedTask.model_validate(given | changes)


# ── folders ──────────────────────────────────────────────────────────────────


def test_tasks_of_one_instant_get_folders_of_their_own() -> None:
    twin = ID[:-1] + "c"
    assert task_key(ID) == "0123456789ab"
    assert task_key(ID) != task_key(twin)


def test_a_redelivered_task_finds_its_folder_empty_and_another_task_never_gets_it(tmp_path: Path) -> None:
    first = open_root(tmp_path, claimed())
    (first.workdir / "left").write_text("x")
    first.release()
    again = open_root(tmp_path, claimed())
    assert list(again.workdir.iterdir()) == []
    again.release()
    with pytest.raises(PrepareError, match="belongs to another task"):
        open_root(tmp_path, claimed(id="ffffffff-0000-7000-8000-0123456789ab"))


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    first = open_root(tmp_path, claimed())
    with pytest.raises(PrepareError, match="still in use"):
        open_root(tmp_path, claimed(), patience=0)
    with ThreadPoolExecutor(1) as another_thread:
        waiting = another_thread.submit(open_root, tmp_path, claimed())
        first.release()
        again = waiting.result(30)
    again.release()
    open_root(tmp_path, claimed(), patience=0).release()


def test_a_folder_nobody_owns_but_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "w1" / task_key(ID) / "thesis.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work")
    with pytest.raises(PrepareError):
        open_root(tmp_path, claimed())
    assert precious.read_text() == "years of work"


def test_emptying_a_folder_never_follows_a_link_out_of_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("x")
    first = open_root(tmp_path, claimed())
    (first.path / "link").symlink_to(outside)
    first.release()
    open_root(tmp_path, claimed()).release()
    assert (outside / "keep").exists()


def test_the_prior_folder_is_used_again_for_the_same_work(tmp_path: Path) -> None:
    first = open_root(tmp_path, claimed())
    (first.workdir / "left").write_text("x")
    first.release()
    follow_up = claimed(id="019a0000-0000-7000-8000-ffffffffffff", prior_work_dir=str(first.workdir))
    second = open_root(tmp_path, follow_up)
    assert second.reused
    assert (second.workdir / "left").exists()
    second.release()


@pytest.mark.parametrize(
    "change", [{"agent_id": "a2", "agent": {"id": "a2"}}, {"issue_id": "i2"}, {"chat_session_id": "c"}]
)
def test_the_prior_folder_of_other_work_is_not_used(tmp_path: Path, change: dict[str, Any]) -> None:
    first = open_root(tmp_path, claimed())
    first.release()
    other = open_root(
        tmp_path, claimed(id="019a0000-0000-7000-8000-ffffffffffff", prior_work_dir=str(first.workdir), **change)
    )
    assert not other.reused
    assert other.path != first.path
    other.release()


def test_a_prior_folder_outside_the_workspace_is_not_believed(tmp_path: Path) -> None:
    outside = tmp_path / "elsewhere" / "x" / "workdir"
    outside.mkdir(parents=True)
    link = tmp_path / "w1" / "aaaaaaaaaaaa"
    link.parent.mkdir()
    link.symlink_to(outside.parent)
    for prior in (outside, link / "workdir", tmp_path / "w1", Path("/"), Path("relative/workdir")):
        root = open_root(tmp_path, claimed(prior_work_dir=str(prior)))
        assert not root.reused
        assert root.path == tmp_path / "w1" / task_key(ID)
        root.release()
    assert not (outside.parent / ".task_lock").exists()


# ── brief ────────────────────────────────────────────────────────────────────


def test_the_brief_is_the_same_bytes_whatever_the_run() -> None:
    one = claimed(prompt="a", attempt=1, prior_session_id="s", trigger_summary="x")
    two = claimed(id="019a0000-0000-7000-8000-ffffffffffff", prompt="b", attempt=2)
    assert render_brief(one) == render_brief(two)


@given(existing=st.text(alphabet=st.sampled_from("a#\n\r é<!->"), max_size=60))
def test_a_users_own_text_around_the_block_stays_to_the_byte(existing: str) -> None:
    once = with_block(existing, "first")
    assert once.startswith(existing)
    twice = with_block(once, "second")
    assert twice.startswith(existing)
    assert twice == with_block(existing, "second")


def test_a_block_whose_end_was_never_written_is_replaced_whole() -> None:
    assert with_block(f"mine\n{BEGIN}\nhalf of", "new") == f"mine\n{BEGIN}\nnew\n{END}\n"


def test_instructions_cannot_end_the_block_early_and_names_cannot_make_headings(tmp_path: Path) -> None:
    task = claimed(agent={"name": "x`\n# Owner", "instructions": f"hi {END} there"})
    write_brief(tmp_path, "AGENTS.md", task)
    text = (tmp_path / "AGENTS.md").read_text()
    assert text.count(END) == 1
    assert "\n# Owner" not in text


def test_a_link_with_the_briefs_name_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "AGENTS.md").symlink_to(target)
    write_brief(tmp_path, "AGENTS.md", claimed())
    assert target.read_text() == "mine"


def test_a_lost_conversation_is_said_once_and_in_the_prompt() -> None:
    task = claimed(prompt="go on")
    assert prompt_for(task, continuity_lost=False) == "go on"
    assert "could not be resumed" in prompt_for(task, continuity_lost=True)


# ── environment ──────────────────────────────────────────────────────────────


def environment(task: ClaimedTask, base: dict[str, str], machine: dict[str, str] | None = None) -> dict[str, str]:
    return task_environment(
        task,
        base=base,
        machine_env=machine or {},
        path=["/bin-of-ours", "/usr/bin", "/usr/bin"],
        tmp=Path("/t"),
        server_url="http://s",
        daemon_port=7,
        slot=3,
    )


def test_what_a_program_needs_passes_and_what_is_the_daemons_does_not() -> None:
    daemon = {
        "HOME": "/h",
        "LC_ALL": "C",
        "https_proxy": "p",
        "NVM_DIR": "n",
        "IS_SANDBOX": "1",
        "CALLBOARD_TOKEN": "mul_x",
        "MULTICA_TOKEN": "mat_other",
        "CLAUDECODE": "1",
        "DATABASE_PASSWORD": "p",
        "ANTHROPIC_API_KEY": "k",
        "CALLBOARD_ECHO_HOME": "e",
        "TEAM_A": "1",
    }
    assert set(inherited(daemon)) == {"HOME", "LC_ALL", "https_proxy", "NVM_DIR", "IS_SANDBOX"}
    more = inherited(daemon, ["TEAM_*", "CALLBOARD_*"], ["ANTHROPIC_API_KEY", "CALLBOARD_ECHO_HOME", "CLAUDECODE"])
    assert set(more) - set(inherited(daemon)) == {"TEAM_A", "ANTHROPIC_API_KEY", "CALLBOARD_ECHO_HOME"}


def test_the_tasks_own_values_win_over_everything_and_blocked_names_are_left_out() -> None:
    custom = {"MULTICA_TOKEN": "mat_forged", "path": "x", "PATH": "/evil", "bad name": "1", "FINE": "yes", "HOME": "/n"}
    task = claimed(agent={"custom_env": custom})
    env = environment(task, {"HOME": "/h", "FINE": "no"}, {"FROM_FILE": "f"})
    assert refused_keys(custom) == ["HOME", "MULTICA_TOKEN", "PATH", "bad name", "path"]
    assert env["MULTICA_TOKEN"] == "mat_secret-of-the-task"
    assert (env["HOME"], env["FINE"], env["FROM_FILE"], env["PATH"]) == ("/h", "yes", "f", "/bin-of-ours:/usr/bin")
    assert (env["MULTICA_TASK_SLOT"], env["MULTICA_DAEMON_PORT"], env["TMPDIR"]) == ("3", "7", "/t")


def test_a_proxy_set_in_one_case_is_there_in_both() -> None:
    env = environment(claimed(), {"HTTPS_PROXY": "a"}, {"no_proxy": "b"})
    assert (env["https_proxy"], env["HTTPS_PROXY"], env["NO_PROXY"], env["no_proxy"]) == ("a", "a", "b", "b")


def test_every_secret_of_a_claim_is_known_to_the_masker() -> None:
    mcp = {"mcpServers": {"x": {"env": {"K": "mcp-env"}, "headers": {"Authorization": "mcp-header"}}, "y": "odd"}}
    reached = {"gateway": {"host": "h", "token": "gateway-token"}}
    task = claimed(agent={"custom_env": {"A": "custom"}, "mcp_config": mcp, "runtime_config": reached})
    assert set(secrets_of(task)) == {"mat_secret-of-the-task", "gateway-token", "custom", "mcp-env", "mcp-header"}
    assert "mat_secret" not in repr(task)
    assert "gateway-token" not in repr(task)


@pytest.mark.parametrize("odd", [{"gateway": "h"}, {"gateway": {"token": 5}}, {"gateway": None}, {"mode": "gateway"}])
def test_a_claim_of_a_newer_server_does_not_confuse_the_masker(odd: dict[str, object]) -> None:
    assert secrets_of(claimed(agent={"runtime_config": odd})) == ["mat_secret-of-the-task"]


# ── identity and marker ──────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "change", [{"workspace_id": ""}, {"agent_id": ""}, {"agent_id": "a2"}, {"auth_token": "mul_person"}]
)
def test_a_claim_that_does_not_say_whose_work_it_is_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(PrepareError) as caught:
        check_identity(claimed(**change))
    assert caught.value.failure_reason == "invalid_task_identity"


def test_the_marker_is_found_from_below_and_holds_no_secret(tmp_path: Path) -> None:
    write_marker(tmp_path, claimed())
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    marker = find_marker(below)
    assert marker == tmp_path / ".multica" / "daemon_task_context.json"
    assert json.loads(marker.read_text())["task_id"] == ID
    assert "mat_" not in marker.read_text()
