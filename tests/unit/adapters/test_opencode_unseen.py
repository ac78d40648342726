"""What opencode's stream does not show: sub-agents, models it does not know, a session at work in another folder."""

from __future__ import annotations

import json

import pytest

from callboard_adapters.base import ProcessExit, Relaunch, RunCommand, Stop, StopCause, Timer
from callboard_adapters.dialects import run_json_database
from callboard_adapters.messages import MessageType, RunStatus, TokenUsage
from callboard_adapters.opencode import OpencodeAdapter
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from tests.unit.adapters.speaking import Speaking
from tests.unit.adapters.test_opencode import START, done, error, text, tool

MODEL = ExecOptions(cwd="/work-dir", model="p/m")
RESUMED = ExecOptions(cwd="/work-dir", resume_session_id="ses_1")
CHILD = {"metadata": {"sessionId": "ses_2", "parentSessionId": "ses_1"}, "output": "done"}
TOKENS = json.dumps({"total": 2290, "input": 1234, "output": 49, "reasoning": 7, "cache": {"read": 1000, "write": 0}})
MAIN = TokenUsage(10, 6, 3, 1)


def answering(rows: object) -> Speaking:
    """A run whose every question to the database gets these rows."""
    run = Speaking(OpencodeAdapter, options=MODEL)
    args = run_json_database.sub_agents("ses_1", run.adapter.context.started_at)
    assert args is not None
    run.commands[" ".join(args)] = (0, json.dumps(rows))
    return run


def test_what_sub_agents_used_is_the_run_s_too():
    rows = [{"model": "p/m", "tokens": TOKENS, "cost": 0.5}, {"model": "q/n", "tokens": TOKENS, "cost": 0}]
    run = answering(rows).event(START, tool(state=CHILD), done("tool-calls"), START, text("x"), done())
    usage = run.finish(0).usage
    assert usage["q/n"] == TokenUsage(1234, 56, 1000)
    assert usage["p/m"] == TokenUsage(1254, 68, 1006, 2, 5_000_000_000)


@pytest.mark.parametrize("rows", [[], {}, "no", [{"model": None, "tokens": "{broken", "cost": "x"}], [3]])
def test_an_answer_that_is_none_leaves_the_usage_as_the_stream_told_it(rows):
    run = answering(rows).event(START, tool(state=CHILD), done("tool-calls"), START, text("x"), done())
    assert sum(run.finish(0).usage.values(), TokenUsage()) == MAIN + MAIN


def test_a_run_without_sub_agents_asks_nothing_of_the_database():
    run = Speaking(OpencodeAdapter).event(START, tool(), done("tool-calls"), START, text("x"), done())
    run.finish(0)
    assert not [asked for asked in run.asked if isinstance(asked, RunCommand)]


@pytest.mark.parametrize(
    ("catalogue", "reason"),
    [("p/other\nq/m\n", FailureReason.MODEL), ("p/m\n", FailureReason.UNKNOWN), ("", FailureReason.UNKNOWN)],
)
def test_an_error_that_blames_the_server_is_the_model_s_where_the_catalogue_lacks_it(catalogue, reason):
    run = Speaking(OpencodeAdapter, options=MODEL, commands={"models": (0, catalogue)})
    outcome = run.event(error("UnknownError", "Unexpected server error. Check server logs for details.")).finish(1)
    assert (outcome.status, outcome.failure.reason) == (RunStatus.FAILED, reason)
    assert ("p/m" in outcome.error) is (reason is FailureReason.MODEL)


@pytest.mark.parametrize("said", ["database is locked", "Failed query: \n CREATE TABLE `workspace`"])
def test_two_runs_that_make_the_database_at_once_do_not_fail_each_other(said):
    run = Speaking(OpencodeAdapter)
    locked = ProcessExit(1, None, None, False, f"Error: Unexpected error\n\n{said}")
    assert isinstance(run.adapter.finish(locked), Relaunch)
    run.adapter.launch("hello", ExecOptions(cwd="/work-dir"))
    assert run.event(START, text("x"), done()).finish(0).status is RunStatus.COMPLETED
    cancelled = ProcessExit(None, 15, StopCause.CANCEL, False, said)
    assert not isinstance(Speaking(OpencodeAdapter).adapter.finish(cancelled), Relaunch)


def resumed(begun: int) -> Speaking:
    run = Speaking(OpencodeAdapter, options=RESUMED)
    args = run_json_database.unseen("ses_1", run.adapter.context.started_at)
    assert args is not None
    run.commands[" ".join(args)] = (0, json.dumps([{"begun": begun}]))
    return run


def test_a_session_that_goes_on_in_another_folder_is_not_waited_for():
    """1.18.33 works there, with its tools, and prints nothing here."""
    run = resumed(1)
    [timer] = run.launch.timers
    assert isinstance(run.tick(timer.name).outputs[-1], Stop)
    outcome = run.finish(signal=15, cause=StopCause.ADAPTER)
    assert (outcome.status, outcome.resume_rejected, outcome.session_id) == (RunStatus.FAILED, True, "")


def test_a_provider_that_is_slow_to_answer_is_waited_for():
    run = resumed(0)
    [timer] = run.launch.timers
    assert run.tick(timer.name).outputs == [timer]
    before = len(run.event(START).outputs)
    assert len(run.tick(timer.name).outputs) == before
    assert not [o for o in Speaking(OpencodeAdapter).launch.timers if isinstance(o, Timer)]


@pytest.mark.parametrize("odd", ["ses_1' or '1'='1", "", "ses-1;"])
def test_an_id_that_is_none_never_becomes_part_of_a_query(odd):
    assert run_json_database.unseen(odd, 0.0) is None
    assert run_json_database.sub_agents(odd, 0.0) is None


def test_a_call_that_fits_no_tool_is_shown_under_the_name_it_was_made_with_and_has_failed():
    call = tool(state={"input": {"tool": "NoSuchTool", "error": "unavailable"}, "output": "The arguments are invalid"})
    call["part"]["tool"] = "invalid"
    run = Speaking(OpencodeAdapter).event(START, call)
    assert run.of(MessageType.TOOL_USE)[0].tool == "NoSuchTool"
    assert (run.of(MessageType.TOOL_RESULT)[0].tool, run.of(MessageType.TOOL_RESULT)[0].status) == (
        "NoSuchTool",
        "failed",
    )
