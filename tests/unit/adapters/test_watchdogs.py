from __future__ import annotations

import pytest

from callboard_adapters import ExecOptions, Message, MessageType, Watchdog
from callboard_adapters.capabilities import Timeouts
from callboard_adapters.watchdogs import Limits, Watchdogs

LIMITS = Limits(hard=100, handshake=5, first_progress=10, semantic_inactivity=30, idle=20, tool=60)


def dogs(limits: Limits = LIMITS) -> Watchdogs:
    return Watchdogs(limits, 0.0)


def said(kind: MessageType, call_id: str = "") -> Message:
    return Message(kind, "x", call_id=call_id)


def test_before_anything_the_handshake_clock_runs():
    assert dogs().next() == (5, Watchdog.HANDSHAKE)


def test_ready_and_silent_the_first_word_is_awaited():
    w = dogs()
    w.ready(1)
    assert w.next() == (11, Watchdog.FIRST_PROGRESS)


def test_a_retry_is_life_and_no_progress():
    w = dogs()
    w.ready(1)
    w.message(said(MessageType.STATUS), 9)
    assert w.next() == (11, Watchdog.FIRST_PROGRESS)
    w.message(said(MessageType.TEXT), 10)
    for at in range(11, 39, 5):
        w.message(said(MessageType.STATUS), at)
    assert w.next() == (40, Watchdog.SEMANTIC_INACTIVITY)


def test_silence_after_a_word_trips_the_idle_clock():
    w = dogs()
    w.ready(1)
    w.message(said(MessageType.TEXT), 2)
    assert w.next() == (22, Watchdog.IDLE)
    w.alive(12)
    assert w.next() == (32, Watchdog.IDLE)


def test_while_a_tool_runs_only_the_wider_clock_counts():
    w = dogs()
    w.ready(1)
    w.message(said(MessageType.TOOL_USE, "a"), 2)
    w.message(said(MessageType.TOOL_USE, "b"), 3)
    w.message(said(MessageType.TOOL_RESULT, "a"), 4)
    assert w.next() == (64, Watchdog.TOOL)
    w.message(said(MessageType.TOOL_RESULT, "b"), 5)
    assert w.next() == (25, Watchdog.IDLE)


def test_the_hard_limit_is_moved_by_nothing():
    w = dogs()
    for at in range(0, 99, 3):
        w.ready(at)
        w.message(said(MessageType.TEXT), at)
    assert w.next() == (100, Watchdog.HARD)
    w.relaunched(97)
    assert w.next() == (100, Watchdog.HARD)


def test_a_relaunch_starts_the_other_clocks_anew():
    w = dogs()
    w.ready(1)
    w.message(said(MessageType.TOOL_USE, "a"), 2)
    w.relaunched(50)
    assert w.next() == (55, Watchdog.HANDSHAKE)


@pytest.mark.parametrize("off", [0, -1, -0.5])
def test_zero_or_less_is_none(off):
    options = ExecOptions(
        timeout=off,
        handshake_timeout=off,
        first_progress_timeout=off,
        semantic_inactivity_timeout=off,
        idle_watchdog_timeout=off,
        tool_watchdog_timeout=off,
    )
    w = dogs(Limits.choose(options, Timeouts(first_progress=1, semantic_inactivity=1)))
    assert w.next() is None
    w.ready(1)
    w.message(said(MessageType.TOOL_USE, "a"), 2)
    assert w.next() is None


def test_unset_limits_are_the_providers_and_there_is_no_hard_one():
    limits = Limits.choose(ExecOptions(idle_watchdog_timeout=7), Timeouts(handshake=3, tool=9))
    assert (limits.hard, limits.handshake, limits.idle, limits.tool) == (None, 3, 7, 9)
