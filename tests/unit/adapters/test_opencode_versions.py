"""opencode in versions other than the one whose recordings we have: what 1.0.98, 1.2.27 and 1.17.11 were seen to do."""

from __future__ import annotations

import pytest

from callboard_adapters.base import ProcessExit, Relaunch, Stop, StopCause, Timer
from callboard_adapters.messages import RunStatus
from callboard_adapters.opencode import OpencodeAdapter
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking
from tests.unit.adapters.test_opencode import START, done, text

# What 1.2.27 prints, on stdout, when it does not know an argument; later ones print it on stderr.
OLD_HELP = [
    "opencode run [message..]",
    "",
    "Options:",
    "  -s, --session     session id to continue                                                  [string]",
    "      --fork        fork the session before continuing (requires --continue or --session)  [boolean]",
    "  -m, --model       model to use in the format of provider/model                            [string]",
    '      --format      format: default (formatted) or json  [choices: "default", "json"] [default: "default"]',
    "      --thinking    show thinking blocks                                  [boolean] [default: false]",
]
ASKED = ExecOptions(cwd="/work-dir", model="p/m", thinking_level="high")
REFUSED = ProcessExit(1, None, None, False, "")


def told(lines: list[str], *, on_stderr: bool, options: ExecOptions = ASKED) -> Speaking:
    """A run that printed a help instead of events."""
    run = Speaking(OpencodeAdapter, options=options)
    return run.stderr(*lines) if on_stderr else run.line(*(line.encode() for line in lines))


@pytest.mark.parametrize("on_stderr", [False, True])
def test_a_version_that_lacks_some_options_is_started_again_without_them(on_stderr):
    run = told(OLD_HELP, on_stderr=on_stderr)
    assert "--dangerously-skip-permissions" in run.launch.args
    assert isinstance(run.adapter.finish(REFUSED), Relaunch)
    again = run.adapter.launch("hello", ASKED)
    assert list(again.args) == ["run", "--format", "json", "--model", "p/m", "--thinking"]
    assert any("thinking levels" in m.content for m in again.notices)
    ended = run.event(START, text("x"), done()).finish(0)
    assert (ended.status, ended.output) == (RunStatus.COMPLETED, "x")


def test_a_renamed_option_is_given_under_its_new_name():
    run = told([*OLD_HELP, "      --auto         auto-approve permissions"], on_stderr=True)
    assert isinstance(run.adapter.finish(REFUSED), Relaunch)
    assert "--auto" in run.adapter.launch("hello", ASKED).args


def test_a_version_that_refuses_its_own_options_is_too_old_and_is_not_tried_for_ever():
    run = told(OLD_HELP, on_stderr=False)
    run.adapter.finish(REFUSED)
    run.adapter.launch("hello", ASKED)
    outcome = run.line(*(line.encode() for line in OLD_HELP)).finish(1)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.VERSION)
    assert "update" in outcome.error


@pytest.mark.parametrize("words", [["--no-such"], ["--noSuch=1"], ["--title", "x", "--no-such"]])
def test_an_option_of_the_user_that_the_cli_does_not_know_is_named(words):
    help_text = [*OLD_HELP, "      --title       title for the session"]
    run = told(help_text, on_stderr=True, options=ExecOptions(cwd="/work-dir", custom_args=words))
    outcome = run.finish(1)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, FailureReason.MISSING_CONFIG)
    assert words[-1].partition("=")[0] in outcome.error
    assert "--title" not in outcome.error


def test_an_answer_that_quotes_the_help_is_an_answer():
    run = Speaking(OpencodeAdapter).event(START).line(OLD_HELP[0].encode()).event(text(OLD_HELP[0]), done())
    assert (run.finish(0).status, run.finish(0).output) == (RunStatus.COMPLETED, OLD_HELP[0])


@pytest.mark.parametrize(
    ("tokens", "output"),
    [
        ({"total": 2290, "input": 1234, "output": 49, "reasoning": 7, "cache": {"read": 1000, "write": 0}}, 56),
        ({"total": 2290, "input": 1234, "output": 56, "reasoning": 7, "cache": {"read": 1000, "write": 0}}, 56),
        ({"input": 10, "output": 49, "reasoning": 7, "cache": {"read": 0, "write": 0}}, 56),
        ({"total": 10, "input": 10, "output": 0, "reasoning": 7, "cache": {"read": 0, "write": 0}}, 7),
    ],
)
def test_reasoning_is_counted_once_whether_or_not_the_output_holds_it(tokens, output):
    """1.2.27 puts it into `output`, 1.18.33 beside it; the total tells which."""
    run = Speaking(OpencodeAdapter).event(START, text("x"), done("stop", tokens))
    [used] = run.finish(0).usage.values()
    assert used.output_tokens == output


def test_a_cli_that_stays_after_it_said_that_the_session_is_gone_is_not_waited_for():
    """1.0.98 prints the error and never ends."""
    run = Speaking(OpencodeAdapter, options=ExecOptions(cwd="/work-dir", resume_session_id="ses_gone"))
    run.stderr("NotFoundError: Resource not found: /home/u/.local/share/opencode/storage/session/ses_gone.json")
    [timer] = [o for o in run.outputs if isinstance(o, Timer)]
    run.tick(timer.name)
    assert isinstance(run.outputs[-1], Stop)
    outcome = run.finish(signal=15, cause=StopCause.ADAPTER)
    assert (outcome.resume_rejected, outcome.session_id) == (True, "")


def test_a_session_that_goes_on_after_such_a_word_is_not_stopped():
    run = Speaking(OpencodeAdapter, options=ExecOptions(cwd="/work-dir", resume_session_id="ses_1"))
    run.stderr("a plugin says: session not found").event(START)
    before = len(run.outputs)
    [timer] = [o for o in run.outputs if isinstance(o, Timer)]
    assert len(run.tick(timer.name).outputs) == before
