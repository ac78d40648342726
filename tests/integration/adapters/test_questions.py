"""B027: a question in a run that nobody watches is neither waited for nor overlooked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from callboard_adapters.messages import RunStatus
from tests.integration.adapters.running import run

BLOCK = {"type": "tool_use", "id": "t1", "name": "AskUserQuestion", "input": {"options": ["red", "blue"]}}
ASKS = f"""
init(); prompt()
say({{"type": "assistant", "message": {{"role": "assistant", "model": "m", "content": [{BLOCK!r}]}}}})
open("heard", "wb").write(sys.stdin.buffer.readline())
result("I took red.")
"""
SETTLES = f"""
init(); prompt()
say({{"type": "assistant", "message": {{"role": "assistant", "model": "m", "content": [{BLOCK!r}]}}}})
tool_result("t1", "No such tool", is_error=True)
time.sleep(1.5)
result("I took red.")
open("heard", "wb").write(sys.stdin.buffer.readline())
"""


async def test_a_question_that_the_cli_leaves_open_is_denied(tmp_path):
    ended = await run(tmp_path, ASKS)
    [block] = json.loads(Path(tmp_path, "heard").read_text())["message"]["content"]
    assert (block["tool_use_id"], block["is_error"]) == ("t1", True)
    assert "Nobody can answer" in block["content"]
    assert (ended.result.status, ended.result.output) == (RunStatus.COMPLETED, "I took red.")
    assert any("nobody can answer" in m.content for m in ended.of("log"))


async def test_a_question_that_the_cli_answers_by_itself_is_left_to_it(tmp_path):
    ended = await run(tmp_path, SETTLES)
    assert Path(tmp_path, "heard").read_text() == ""
    assert ended.result.output == "I took red."


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("Shall I delete the old files?", True),
        ("Done.\n\n**Do you want me to push?**\n", True),
        ("要我继续吗？", True),
        ("Done. (Was that all? Yes.)", False),
        ("Done.", False),
        ("", False),
    ],
)
async def test_an_answer_that_ends_with_a_question_says_that_input_is_wanted(tmp_path, answer, wanted):
    ended = await run(tmp_path, f"init(); prompt(); result({answer!r})")
    assert ended.result.status is RunStatus.COMPLETED
    assert ([m.content for m in ended.of("status") if m.status == "input_wanted"] != []) is wanted
