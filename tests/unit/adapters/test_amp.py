from __future__ import annotations

import json
from typing import Any

import pytest

from callboard_adapters.amp import AmpAdapter
from callboard_adapters.base import Stop
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking

SETTINGS = "/home/somebody/.config/amp/settings.json"
INIT = {"type": "system", "subtype": "init", "session_id": "T-1"}


def speaking(files: dict[str, bytes] | None = None, env: dict[str, str] | None = None, **options: Any) -> Speaking:
    return Speaking(AmpAdapter, options=ExecOptions(cwd="/work-dir", **options), files=files, env=env)


def settings(run: Speaking) -> dict[str, Any]:
    (file,) = run.launch.files
    assert (file.mode, file.after) == (0o600, "remove")
    assert run.launch.args[list(run.launch.args).index("--settings-file") + 1] == file.path
    return json.loads(file.content)


def test_a_request_to_log_in_ends_the_run_and_its_link_is_not_shown():
    run = speaking().line(
        b"No API key found. Starting login flow...",
        b"",
        b"https://ampcode.com/auth/cli-login?authToken=secret",
        b"When prompted, paste your code here: ",
    )
    (stop,) = run.outputs
    assert isinstance(stop, Stop)
    assert stop.failure.reason is FailureReason.AUTH
    assert "AMP_API_KEY" in stop.failure.detail


def test_an_answer_that_quotes_the_request_to_log_in_ends_nothing():
    block = {"type": "text", "text": "It says: No API key found"}
    run = speaking().event(INIT, {"type": "assistant", "message": {"content": [block]}})
    assert not [o for o in run.outputs if isinstance(o, Stop)]
    assert run.text() == "It says: No API key found"


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("Error: Invalid or missing API key. Run 'amp login' to authenticate.", FailureReason.AUTH),
        ("Error: Couldn't connect to the Amp server at https://ampcode.com/.", FailureReason.NETWORK),
        ("Error: API request for getUserInfo failed: 503", FailureReason.SERVER_ERROR),
    ],
)
def test_a_start_that_failed_is_classified_by_what_it_said(stderr, reason):
    outcome = speaking().finish(1, stderr=stderr)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, reason)
    assert stderr in outcome.error


def test_cached_input_is_not_counted_twice():
    usage = {
        "input_tokens": 12783,
        "cache_creation_input_tokens": 367,
        "cache_read_input_tokens": 12416,
        "output_tokens": 8,
    }
    answer = {"type": "assistant", "message": {"content": [{"type": "text", "text": "4"}], "usage": usage}}
    run = speaking().event(INIT, answer, {"type": "result", "subtype": "success", "is_error": False, "result": "4"})
    assert run.finish().usage == {"unknown": TokenUsage(0, 8, 12416, 367)}


def test_the_users_settings_are_kept_with_everything_allowed():
    own = b'{ // mine\n "amp.proxy": "http://p", "amp.mcpServers": {"a": {"command": "x"}}, }'
    made = settings(speaking({SETTINGS: own}))
    assert made == {
        "amp.proxy": "http://p",
        "amp.mcpServers": {"a": {"command": "x"}},
        "amp.dangerouslyAllowAll": True,
    }


@pytest.mark.parametrize("servers", [{}, {"b": {"command": "y"}}])
def test_managed_servers_take_the_place_of_the_users(servers):
    own = {SETTINGS: b'{"amp.mcpServers": {"a": {"command": "x"}}}'}
    assert settings(speaking(own, mcp_config={"mcpServers": servers}))["amp.mcpServers"] == servers


def test_settings_that_are_no_json_are_left_out_and_that_is_told():
    run = speaking({"/elsewhere.json": b"nonsense"}, env={"AMP_SETTINGS_FILE": "/elsewhere.json"})
    assert settings(run) == {"amp.dangerouslyAllowAll": True}
    assert "settings" in run.launch.notices[0].content


def test_a_thread_is_continued_and_the_model_is_a_mode():
    args = list(speaking(resume_session_id="T-1", model="high").launch.args)
    assert args[:5] == ["threads", "continue", "T-1", "--execute", "--stream-json-thinking"]
    assert args[-2:] == ["--mode", "high"]
    with pytest.raises(LaunchRefused):
        speaking(resume_session_id="--execute")


def test_the_prompt_is_never_an_argument():
    launch = speaking().launch
    assert launch.stdin == b"hello"
    assert "hello" not in launch.args
    assert list(launch.args)[1].startswith("-")  # else it would be taken for `--execute`'s message
