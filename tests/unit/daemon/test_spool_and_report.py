from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard_adapters.messages import Message, MessageType, TokenUsage
from callboard_daemon.report import Masker, Reporter, usage_rows
from callboard_daemon.spool import MAX_BATCH_BYTES, Spool
from callboard_wire.bodies import MAX_MESSAGE_BYTES, MAX_TOOL_OUTPUT_BYTES, MessagesRequest, TaskMessage

SECRET = "hunter2-hunter2"


def drained(spool: Spool, after: int = 0) -> list[TaskMessage]:
    spool.close()
    found: list[TaskMessage] = []
    while batch := spool.batch(after):
        found += batch
        spool.confirm()
    return found


def message(seq: int, content: str = "x") -> TaskMessage:
    return TaskMessage(seq=seq, type="text", content=content)


def reporting(tmp_path: Path, limit: int = 1 << 20) -> tuple[Reporter, Spool]:
    spool = Spool(tmp_path / "spool.jsonl", limit)
    return Reporter(spool, Masker([SECRET]), lambda: None), spool


def test_the_same_batch_comes_until_it_is_confirmed(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "s", 1 << 20)) as spool:
        for seq in range(1, 4):
            spool.append(message(seq))
        assert spool.batch() == spool.batch()
        spool.confirm()
        assert spool.batch() == []
        spool.append(message(4))
        assert [m.seq for m in spool.batch()] == [4]


def test_a_successor_reads_everything_and_skips_what_the_server_has(tmp_path: Path) -> None:
    first = Spool(tmp_path / "s", 8 << 20)
    for seq in range(1, 2001):
        first.append(message(seq, "y" * 800))
    first.close()
    second = Spool(tmp_path / "s", 8 << 20)
    assert second.last_seq() == 2000
    assert [m.seq for m in drained(second, after=1500)] == list(range(1501, 2001))


@given(sizes=st.lists(st.integers(0, 300_000), max_size=12))
def test_batches_are_bounded_in_order_and_complete(sizes: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    spool = Spool(tmp_path_factory.mktemp("spool") / "s", 64 << 20)
    for seq, size in enumerate(sizes, 1):
        spool.append(message(seq, "é" * (size // 2)))
    spool.close()
    seen: list[int] = []
    while batch := spool.batch():
        body = MessagesRequest(messages=batch)
        assert len(batch) == 1 or len(body.model_dump_json(exclude_defaults=True).encode()) <= MAX_BATCH_BYTES + 4096
        seen += [m.seq for m in batch]
        spool.confirm()
    assert seen == list(range(1, len(sizes) + 1))


def test_a_torn_line_keeps_its_number_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = [message(seq).model_dump_json(exclude_defaults=True) for seq in range(1, 4)]
    lines[1] = lines[1][:9]
    (tmp_path / "s").write_text("\n".join(lines) + "\n")
    found = drained(Spool(tmp_path / "s", 1 << 20))
    assert [(m.seq, m.type) for m in found] == [(1, "text"), (2, "log"), (3, "text")]


def test_beyond_the_limit_messages_are_counted_and_numbers_have_no_gap(tmp_path: Path) -> None:
    reporter, spool = reporting(tmp_path, limit=3000)
    for n in range(50):
        reporter.accept(Message(MessageType.LOG, content=f"{n} " + "z" * 200))
    reporter.close()
    found = drained(spool)
    assert [m.seq for m in found] == list(range(1, len(found) + 1))
    assert found[-1].content.startswith(f"{50 - len(found) + 1} messages were left out")


async def test_adjacent_text_is_one_message_and_order_is_kept(tmp_path: Path) -> None:
    reporter, spool = reporting(tmp_path)
    for piece in ("Hel", "lo"):
        reporter.accept(Message(MessageType.TEXT, content=piece))
    reporter.accept(Message(MessageType.TOOL_USE, tool="Bash", call_id="c", input={"command": "ls"}))
    reporter.accept(Message(MessageType.TOOL_RESULT, call_id="c", output="a"))
    reporter.accept(Message(MessageType.STATUS, status="running"))
    reporter.accept(Message(MessageType.STATUS, "the provider said 500: attempt 1 of 10", status="retrying"))
    reporter.accept(Message(MessageType.THINKING, content="hm"))
    reporter.accept(Message(MessageType.TEXT, content="sub", parent_call_id="c"))
    reporter.accept(Message(MessageType.TEXT, content="main"))
    reporter.close()
    found = drained(spool)
    shown = [(m.seq, m.type, m.content or m.tool) for m in found]
    assert shown == [
        (1, "text", "Hello"),
        (2, "tool_use", "Bash"),
        (3, "tool_result", "Bash"),
        (4, "log", "the provider said 500: attempt 1 of 10"),  # a state with a sentence is for people
        (5, "thinking", "hm"),
        (6, "text", "sub"),
        (7, "text", "main"),
    ]
    assert reporter.tools_used == 1


async def test_text_is_spooled_by_itself_soon_after_it_stops(tmp_path: Path) -> None:
    spooled = asyncio.Event()
    spool = Spool(tmp_path / "s", 1 << 20)
    reporter = Reporter(spool, Masker([]), spooled.set)
    reporter.accept(Message(MessageType.TEXT, content="alone"))
    await asyncio.wait_for(spooled.wait(), 10)
    assert [m.content for m in drained(spool)] == ["alone"]


@pytest.mark.parametrize("size", [0, 1, MAX_MESSAGE_BYTES, 5 * MAX_MESSAGE_BYTES])
async def test_long_text_is_split_and_nothing_of_it_is_lost(tmp_path: Path, size: int) -> None:
    reporter, spool = reporting(tmp_path)
    text = "aé€😀" * (size // 10) + "."
    reporter.accept(Message(MessageType.TEXT, content=text))
    reporter.close()
    found = drained(spool)
    assert "".join(m.content for m in found) == text
    assert all(len(m.content.encode()) <= MAX_MESSAGE_BYTES for m in found)


async def test_secrets_are_masked_everywhere_and_huge_things_are_cut(tmp_path: Path) -> None:
    reporter, spool = reporting(tmp_path)
    token = "mat_" + "a1" * 20
    reporter.accept(Message(MessageType.TEXT, content=f"it is {SECRET[:8]}"))
    reporter.accept(Message(MessageType.TEXT, content=f"{SECRET[8:]} and {token}"))
    nested = {"deep": [{"api_key": "plain", SECRET: SECRET}], "big": "b" * 100_000}
    reporter.accept(Message(MessageType.TOOL_USE, tool="Write", call_id="c", input=nested))
    reporter.accept(Message(MessageType.TOOL_RESULT, call_id="c", output=f"{SECRET}\n" + "€" * 20_000))
    reporter.accept(Message(MessageType.ERROR, content=f"failed: {SECRET}"))
    reporter.close()
    found = drained(spool)
    everything = (tmp_path / "spool.jsonl").read_text() + json.dumps([m.model_dump(mode="json") for m in found])
    assert SECRET not in everything
    assert token not in everything
    assert len(found[2].output.encode()) <= MAX_TOOL_OUTPUT_BYTES
    assert "bytes cut" in found[2].output
    assert len(json.dumps(found[1].input)) < MAX_MESSAGE_BYTES


async def test_half_a_surrogate_pair_does_not_stop_the_transcript(tmp_path: Path) -> None:
    reporter, spool = reporting(tmp_path)
    reporter.accept(Message(MessageType.TEXT, content="cut \ud83d here"))
    reporter.accept(Message(MessageType.TOOL_USE, tool="t", input={"\udc00": "\udc00"}))
    reporter.close()
    assert len(drained(spool)) == 2


@pytest.mark.parametrize("odd", ["\ud83d", "t" * 1_000_000, "a\0b"])
async def test_names_and_ids_nobody_would_choose_do_not_stop_the_transcript(tmp_path: Path, odd: str) -> None:
    reporter, spool = reporting(tmp_path)
    reporter.accept(Message(MessageType.TEXT, content="one ", parent_call_id=odd))
    reporter.accept(Message(MessageType.TEXT, content="text", parent_call_id=odd))
    reporter.accept(Message(MessageType.TOOL_USE, tool=odd, call_id=odd, input={}))
    reporter.accept(Message(MessageType.TOOL_RESULT, call_id=odd, status=odd, output=odd))
    reporter.accept(Message(MessageType.LOG, content="x", level=odd))
    reporter.close()
    found = drained(spool)
    assert [m.content for m in found if m.content] == ["one text", "x"]
    assert all(len(m.model_dump_json()) < MAX_TOOL_OUTPUT_BYTES + 4 * 1024 for m in found)
    assert len(usage_rows("claude", {odd: TokenUsage(1)})[0].model_dump_json()) < 1024


@pytest.mark.parametrize("depth", [30, 300, 990])
async def test_a_tool_input_of_any_depth_is_kept_down_to_where_a_reader_can_follow(tmp_path: Path, depth: int) -> None:
    reporter, spool = reporting(tmp_path)
    nested: object = "bottom"
    for _ in range(depth):
        nested = [nested]
    reporter.accept(Message(MessageType.TOOL_USE, tool="t", call_id="c", input={"top": "seen", "nested": nested}))
    reporter.close()
    [found] = drained(spool)
    assert found.input["top"] == "seen"
    assert ("bottom" in json.dumps(found.input)) is (depth <= 30)


def test_usage_has_a_row_a_model_and_none_for_nothing() -> None:
    usage = {"a": TokenUsage(1, 2, 3, 4), "b": TokenUsage(), "c": TokenUsage(cost_usd_ticks=5)}
    rows = usage_rows("claude", usage)
    assert [(r.model, r.input_tokens, r.cost_usd_ticks) for r in rows] == [("a", 1, None), ("c", 0, 5)]
