"""From how a run ended to what is said about it, and what is tried again."""

from __future__ import annotations

import asyncio

import pytest

from callboard_adapters.messages import FailureDetail, Result, RunStatus, TokenUsage
from callboard_daemon.errors import Conflict, NotAuthorised, NotFound, ServerTrouble, StaleClaim, Unreachable
from callboard_daemon.execute import Ran
from callboard_daemon.finish import MAX_OUTPUT_CHARS, ending_of, ending_without_run
from callboard_daemon.report import Masker
from callboard_daemon.retry import LONGEST_S, Patience, pause, retrying, task_lost, worth_another_try
from callboard_daemon.runs import RunRecord
from callboard_daemon.slots import Slots
from callboard_daemon.stop import StopCause, StopSignal
from callboard_wire.failures import FailureReason

RECORD = RunRecord(
    task_id="t",
    runtime_id="r",
    workspace_id="w",
    agent_id="a",
    provider="claude",
    server_url="http://s",
    claim_id="c",
    fence=4,
    run_id="t.4",
    started=True,
    work_dir="/w",
    session_id="pinned",
)
MASK = Masker(["s3cret-value"])


@pytest.mark.parametrize("status", [s for s in RunStatus if s is not RunStatus.COMPLETED])
def test_only_completed_completes(status: RunStatus) -> None:
    made = ending_of(Ran(Result(status, output="partly", error="why")), RECORD, None, MASK)
    assert made.kind == "fail"
    assert made.fail is not None
    assert (made.fail.error, made.fail.output, made.fail.fence, made.fail.claim_id) == ("why", "partly", 4, "c")


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED])
def test_an_answer_that_is_cut_says_so_and_stays_within_the_limit(status: RunStatus) -> None:
    """B039"""
    long = "x" * (5 << 20)
    made = ending_of(Ran(Result(status, output=long, error="why")), RECORD, None, MASK)
    said = (made.complete or made.fail).output  # type: ignore[union-attr]  # one of them is there
    assert len(said) == MAX_OUTPUT_CHARS
    assert said.endswith(f"[cut here: the answer has {len(long)} characters]")


def test_session_workdir_and_usage_go_with_every_ending() -> None:
    result = Result(RunStatus.COMPLETED, output="ok", session_id="s", usage={"m": TokenUsage(1, 2)}, duration_ms=9)
    for cause, field in ((None, "complete"), (StopCause.CANCELLED, "cancel_ack")):
        made = ending_of(Ran(result, "old"), RECORD, cause, MASK)
        body = getattr(made, field)
        assert (body.session_id, body.work_dir) == ("s", "/w")
        assert made.usage[0].output_tokens == 2
    complete = ending_of(Ran(result, "old"), RECORD, None, MASK).complete
    assert complete is not None
    assert complete.retired_session_id == "old"


def test_a_drained_run_is_handed_back_for_another_attempt() -> None:
    made = ending_of(Ran(Result(RunStatus.CANCELLED)), RECORD, StopCause.DRAIN, MASK)
    assert made.fail is not None
    assert made.fail.failure_reason == FailureReason.RUNTIME_RECOVERY
    assert ending_of(Ran(Result(RunStatus.COMPLETED)), RECORD, StopCause.DRAIN, MASK).kind == "complete"


def test_a_timeout_without_a_reason_is_retryable_and_a_named_reason_is_kept() -> None:
    timeout = ending_of(Ran(Result(RunStatus.TIMEOUT)), RECORD, None, MASK)
    assert timeout.fail is not None
    assert timeout.fail.failure_reason == FailureReason.TIMEOUT
    named = Result(RunStatus.TIMEOUT, failure=FailureDetail(FailureReason.IDLE_WATCHDOG))
    kept = ending_of(Ran(named), RECORD, None, MASK)
    assert kept.fail is not None
    assert kept.fail.failure_reason == FailureReason.IDLE_WATCHDOG


def test_secrets_do_not_leave_with_the_ending() -> None:
    result = Result(RunStatus.FAILED, output="s3cret-value", error="bad s3cret-value")
    assert "s3cret" not in ending_of(Ran(result), RECORD, None, MASK).model_dump_json()


def test_what_never_started_keeps_the_session_that_was_pinned() -> None:
    made = ending_without_run(RECORD, None, "killed", FailureReason.RUNTIME_RECOVERY)
    assert made.fail is not None
    assert (made.fail.session_id, made.fail.error) == ("pinned", "killed")


async def test_losing_the_task_silences_every_other_cause() -> None:
    stop = StopSignal()
    stop.ask(StopCause.CANCELLED)
    stop.ask(StopCause.DRAIN)
    assert stop.cause is StopCause.CANCELLED
    stop.ask(StopCause.LOST)
    await asyncio.wait_for(stop.wait(), 1)
    assert stop.cause is StopCause.LOST


# ── trying again ─────────────────────────────────────────────────────────────


def test_pauses_double_up_to_a_bound_and_honour_the_server() -> None:
    assert all(0 < pause(n) <= LONGEST_S for n in range(1, 200))
    assert pause(1) < pause(8)
    assert pause(1, ServerTrouble("busy", status=429, retry_after_s=77)) == 77


def test_only_the_servers_clear_word_means_that_a_task_is_lost() -> None:
    stale = StaleClaim("", status=409, code="stale_claim")
    gone = NotFound("", status=404, code="task_not_found")
    portal = NotFound("", status=404, code="")
    assert [task_lost(e) for e in (stale, gone, portal, Unreachable(""))] == [True, True, False, False]
    assert worth_another_try(portal)
    assert worth_another_try(NotAuthorised("", status=401, code="unauthenticated"))
    assert not worth_another_try(NotAuthorised("", status=403, code="forbidden"))
    assert not worth_another_try(Conflict("", status=409, code="wrong_state"))
    assert worth_another_try(Conflict("", status=409, code="contended"))


def test_a_request_that_is_answered_with_500_for_too_long_is_given_up_and_an_outage_is_not() -> None:
    bug, away = ServerTrouble("", status=500), ServerTrouble("", status=503)
    assert Patience(1000)(bug)
    assert not Patience(0)(bug)
    assert Patience(0)(away)
    assert Patience(0)(Unreachable(""))


async def test_retrying_gives_the_answer_or_the_last_error() -> None:
    tried: list[int] = []

    async def ask() -> str:
        tried.append(1)
        if len(tried) < 3:
            raise Unreachable("away")
        return "here"

    assert await retrying(ask) == "here"
    with pytest.raises(Conflict):
        await retrying(_refuse)


async def _refuse() -> None:
    raise Conflict("no", status=409, code="wrong_state")


# ── places ───────────────────────────────────────────────────────────────────


async def test_places_are_taken_lowest_first_and_waited_for() -> None:
    slots = Slots(3)
    assert await slots.take_all_free(2) == [0, 1]
    assert await slots.take_all_free(9) == [2]
    waiting = asyncio.create_task(slots.take_all_free(9))
    await asyncio.sleep(0)
    assert not waiting.done()
    slots.give_back(1)
    assert await waiting == [1]
    assert slots.taken == 3


@pytest.mark.parametrize("session", ["s" * 10_000, "half \ud83d"])
def test_a_session_id_the_server_cannot_keep_does_not_cost_the_ending(session: str) -> None:
    for status in (RunStatus.COMPLETED, RunStatus.FAILED):
        made = ending_of(Ran(Result(status, output="ok", session_id=session)), RECORD, None, MASK)
        assert '"session_id":""' in made.model_dump_json()
