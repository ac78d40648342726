from __future__ import annotations

import asyncio

from callboard_adapters import Message, MessageType
from callboard_adapters.stream import MAX_WAITING, MAX_WAITING_BYTES, MERGE_FROM, MessageStream

TEXT, TOOL = MessageType.TEXT, MessageType.TOOL_USE


async def drained(stream: MessageStream) -> list[Message]:
    return [m async for m in stream]


async def test_a_reader_who_keeps_up_gets_every_message_as_it_was():
    stream, got = MessageStream(), []

    async def read():
        async for message in stream:
            got.append(message.content)

    reader = asyncio.create_task(read())
    for word in "abc":
        stream.put(Message(TEXT, word))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    stream.end()
    await reader
    assert (got, stream.folded) == (["a", "b", "c"], 0)


async def test_waiting_deltas_of_one_speaker_are_merged_and_counted():
    stream = MessageStream()
    for number in range(MERGE_FROM):
        stream.put(Message(TOOL, tool="t", call_id=str(number)))
    for content, parent in (("a", ""), ("b", ""), ("c", "t-1"), ("d", "t-1")):
        stream.put(Message(TEXT, content, parent_call_id=parent))
    stream.put(Message(MessageType.THINKING, "e"))
    stream.end()
    last = (await drained(stream))[MERGE_FROM:]
    assert [(m.content, m.parent_call_id) for m in last] == [("ab", ""), ("cd", "t-1"), ("e", "")]
    assert stream.folded == 2


async def test_a_reader_a_little_behind_still_gets_deltas_one_by_one():
    stream = MessageStream()
    for word in "abcdef":
        stream.put(Message(TEXT, word))
    stream.end()
    assert [m.content for m in await drained(stream)] == list("abcdef")


async def test_what_does_not_fit_is_replaced_by_a_message_that_says_how_much():
    stream = MessageStream()
    for number in range(MAX_WAITING + 10):
        stream.put(Message(TOOL, tool="t", call_id=str(number), input={"x": "yy"}))
    stream.end()
    got = await drained(stream)
    assert len(got) == MAX_WAITING + 1
    assert got[-1].type is MessageType.LOG
    assert "10 messages (20 characters)" in got[-1].content
    assert stream.folded == 10


async def test_one_message_larger_than_the_bound_is_delivered_to_a_reader_who_keeps_up():
    stream = MessageStream()
    stream.put(Message(TEXT, "x" * (MAX_WAITING_BYTES + 1)))
    stream.end()
    (only,) = await drained(stream)
    assert len(only.content) == MAX_WAITING_BYTES + 1


async def test_messages_after_an_overflow_keep_their_order():
    stream = MessageStream()
    for number in range(MAX_WAITING + 1):
        stream.put(Message(TOOL, tool="t", call_id=str(number)))
    for _ in range(5):
        await anext(stream)
    stream.put(Message(TEXT, "later"))
    stream.end()
    got = await drained(stream)
    assert [m.type for m in got[-2:]] == [MessageType.LOG, TEXT]


async def test_the_end_wakes_a_waiting_reader_and_may_be_read_again():
    stream = MessageStream()
    reader = asyncio.create_task(drained(stream))
    await asyncio.sleep(0)
    stream.end()
    assert await reader == []
    assert await drained(stream) == []
    stream.put(Message(TEXT, "too late"))
    assert await drained(stream) == []


async def test_a_cancelled_reader_loses_nothing_for_the_next():
    stream = MessageStream()
    first = asyncio.create_task(anext(stream))
    await asyncio.sleep(0)
    first.cancel()
    stream.put(Message(TEXT, "a"))
    stream.end()
    assert [m.content for m in await drained(stream)] == ["a"]
