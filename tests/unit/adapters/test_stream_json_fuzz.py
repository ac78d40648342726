"""Whatever is on a line, the reader neither raises nor forgets how to read the next one."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from callboard_adapters.dialects.json_values import count, flatten
from callboard_adapters.dialects.ndjson import LineParser
from callboard_adapters.dialects.stream_json import StreamJson
from callboard_adapters.messages import Message

WORDS = st.sampled_from(
    [
        "assistant",
        "user",
        "system",
        "result",
        "log",
        "control_request",
        "error",
        "init",
        "api_retry",
        "task_started",
        "task_notification",
        "text",
        "thinking",
        "tool_use",
        "tool_result",
        "message",
        "content",
        "rate_limit_event",
    ]
)
KEYS = st.sampled_from(
    [
        "type",
        "subtype",
        "message",
        "content",
        "text",
        "id",
        "usage",
        "model",
        "session_id",
        "error",
        "request",
        "request_id",
        "input",
        "log",
        "task_id",
        "is_error",
        "stop_reason",
        "parent_tool_use_id",
        "rate_limit_info",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS
VALUES = st.recursive(LEAVES, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=5), max_leaves=12)
EVENTS = st.dictionaries(KEYS, VALUES, max_size=8).flatmap(lambda body: WORDS.map(lambda kind: {**body, "type": kind}))


def still_reads(reader: StreamJson) -> bool:
    line = {"type": "assistant", "message": {"id": "z", "content": [{"type": "text", "text": "still here"}]}}
    return any(isinstance(o, Message) and o.content == "still here" for o in reader.receive(json.dumps(line).encode()))


@given(st.lists(EVENTS, max_size=5))
@settings(max_examples=100, deadline=None)
def test_events_of_any_shape_are_read_or_shown(events):
    reader = StreamJson()
    for event in events:
        reader.receive(json.dumps(event).encode())
    reader.usage_by_message()
    assert still_reads(reader)


@given(st.lists(st.binary(max_size=60), max_size=5))
@settings(deadline=None)
def test_bytes_of_any_kind_are_noise(lines):
    reader = StreamJson()
    for line in lines:
        reader.receive(line)
    assert still_reads(reader)


def test_what_the_fast_parser_refuses_and_clis_print_is_read_all_the_same():
    parser = LineParser()
    assert parser.parse(b'{"a": "\\ud83d", "\\udc4d": ["\\ud83d\\udc4d"]}') == {"a": "\ufffd", "\ufffd": ["\U0001f44d"]}
    assert str(parser.parse(b'{"a": NaN}')) == "{'a': nan}"
    assert parser.parse(b'{"a": "caf\xe9"}') == {"a": "caf\ufffd"}
    assert (parser.noise, parser.invalid_utf8) == (0, 1)


def test_bottomless_nesting_is_noise():
    reader = StreamJson()
    for depth in (190, 500, 900, 100_000):
        reader.receive(b'{"type":"user","message":' + b'{"a":' * depth + b"1" + b"}" * (depth + 1))
        reader.receive(b'{"type":"tool","x":' + b"[" * depth + b"]" * depth + b"}")
    assert reader.parser.noise == 6
    assert still_reads(reader)


def test_noise_is_told_once_and_counted_always():
    parser = LineParser()
    for line in (b"Warning: x", b"[1, 2]", b"3", b"", b"   ", b'{"cut": '):
        assert parser.parse(line) is None
    assert parser.noise == 4
    assert [n.content for n in parser.notices()] == ["output that is not the protocol's: Warning: x"]
    assert parser.notices() == []


def test_a_secret_in_the_first_noise_line_is_masked_in_its_notice():
    parser = LineParser()
    parser.parse(b"debug: OPENAI_API_KEY=sk-aaaaaaaaaaaaaaaaaaaaaaaa")
    assert "aaaa" not in parser.notices()[0].content


@given(VALUES)
def test_counts_and_texts_of_any_value_are_counts_and_texts(value):
    assert count(value) >= 0
    assert isinstance(flatten(value), str)
