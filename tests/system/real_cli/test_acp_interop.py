"""Our ACP client against a server nobody wrote for it: the example agent of the protocol's own SDK.

It needs no model. Its turn is scripted: text, a tool call, text, a call it asks permission for (under request id 0),
closing words, about a second apart; it reports no usage and cannot load sessions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from callboard_adapters import Message, MessageType, RunStatus
from tests.fakes.model_server import ModelServer
from tests.system.real_cli.install import ensure
from tests.system.real_cli.recipes import EXAMPLE_AGENT
from tests.system.real_cli.runs import drive, left_alive
from tests.system.real_cli.worlds import World, make_world

TIMEOUT = 40.0  # seconds
OPENING, CLOSING = "I'll help you with that.", "Perfect! I've successfully updated the configuration."
PLAIN_CLIENTS = ["kiro", "traecli"]  # the ones that add least to the protocol

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(3 * TIMEOUT, func_only=True)]


@pytest.fixture(params=PLAIN_CLIENTS)
def world(request: pytest.FixtureRequest, model: ModelServer, tmp_path: Path) -> World:
    """The example agent in the place of a provider's CLI."""
    return make_world(replace(ensure(EXAMPLE_AGENT), provider=request.param), model, tmp_path)


def _has_spoken(messages: list[Message]) -> bool:
    return any(one.type is MessageType.TEXT for one in messages)


async def test_a_scripted_turn_arrives_with_its_text_its_calls_and_its_permission(world: World) -> None:
    run = await drive(world, "anything", timeout=TIMEOUT)
    assert run.result.status is RunStatus.COMPLETED, run.describe()
    assert OPENING in run.text()
    assert CLOSING in run.result.output, run.describe()
    assert len(run.of(MessageType.TOOL_USE)) == 2
    assert [one.status for one in run.of(MessageType.TOOL_RESULT)] == ["completed", "completed"], run.describe()
    assert run.result.session_id
    assert run.result.usage == {}
    assert await left_alive(world) == []


async def test_a_turn_cancelled_in_the_middle_is_cancelled_and_leaves_nothing(world: World) -> None:
    run = await drive(world, "anything", timeout=TIMEOUT, cancel_when=_has_spoken)
    assert run.result.status is RunStatus.CANCELLED, run.describe()
    assert CLOSING not in run.text()
    assert await left_alive(world) == []


async def test_a_session_of_a_server_that_cannot_load_any_is_lost_and_said_so(world: World) -> None:
    run = await drive(world, "anything", timeout=TIMEOUT, resume="never-loaded")
    assert run.result.resume_rejected, run.describe()
    assert run.result.session_id != "never-loaded"
    assert await left_alive(world) == []
