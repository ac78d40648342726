"""Events that are told twice: a tool starts once and ends once, whatever the CLI repeats."""

from __future__ import annotations

import pytest

from callboard_adapters.capabilities import Timeouts
from callboard_adapters.messages import Message, MessageType
from callboard_adapters.options import ExecOptions
from callboard_adapters.run_state import RunState
from callboard_adapters.stream import MessageStream
from callboard_adapters.watchdogs import Limits, Watchdogs


def use(call_id: str = "c", command: str = "ls") -> Message:
    return Message(MessageType.TOOL_USE, tool="bash", call_id=call_id, input={"command": command})


def end(call_id: str = "c", output: str = "a.txt") -> Message:
    return Message(MessageType.TOOL_RESULT, call_id=call_id, output=output)


async def shown(*messages: Message, closed: bool = False) -> list[Message]:
    state = RunState(MessageStream(), Watchdogs(Limits.choose(ExecOptions(), Timeouts()), 0.0))
    for message in messages:
        state.say(message, 1.0)
    if closed:
        state.close()
    state.stream.end()
    return [message async for message in state.stream]


async def test_a_start_or_an_end_that_comes_again_is_shown_once():
    assert await shown(use(), use(), end(), end(), end(output="later")) == [use(), end()]


async def test_an_end_whose_start_was_not_told_is_shown_once():
    assert await shown(end(), end()) == [end()]


async def test_an_id_that_comes_again_after_its_end_is_another_call():
    assert await shown(use(), end(), use(), end()) == [use(), end(), use(), end()]


async def test_two_calls_at_once_under_one_id_are_two():
    """Models behind compatible APIs number their calls from 0 in every answer, or not at all."""
    both = [use(), use(command="pwd"), end(), end(output="/work")]
    assert await shown(*both) == both


@pytest.mark.parametrize("kind", [MessageType.TEXT, MessageType.LOG])
async def test_words_may_repeat_themselves(kind):
    assert await shown(Message(kind, "ha"), Message(kind, "ha")) == [Message(kind, "ha"), Message(kind, "ha")]


async def test_calls_without_an_id_are_all_shown():
    assert len(await shown(use(""), use(""), end(""), end(""))) == 4


async def test_what_still_runs_when_the_run_ends_is_ended_with_it():
    inner = use("d")
    inner.parent_call_id = "c"
    said = await shown(use(), inner, use("e"), end("e"), use("e"), closed=True)
    closing = [(m.call_id, m.parent_call_id, m.status) for m in said[5:]]
    assert closing == [("c", "", "failed"), ("d", "c", "failed"), ("e", "", "failed")]
    assert all(m.output for m in said[5:])
    assert await shown(use(), end(), use(""), closed=True) == [use(), end(), use("")]
