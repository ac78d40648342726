"""Tool calls: one use and one result each, whatever order the pieces come in."""

from __future__ import annotations

import json

import pytest

from callboard_adapters import Message
from callboard_adapters.base import Timer
from callboard_adapters.dialects.acp_content import content_text
from callboard_adapters.dialects.acp_names import common_name, tool_name
from callboard_adapters.dialects.acp_tools import Announces, Tools


def tools(announces: Announces = Announces.INPUT_LATER) -> Tools:
    return Tools(announces, common_name, lambda call: None)


def said(outputs: list) -> list[tuple]:
    return [(m.type.value, m.tool or m.status, m.input or m.output) for m in outputs if isinstance(m, Message)]


def test_an_input_in_the_first_frame_is_shown_at_once():
    first = {"toolCallId": "t", "title": "Shell", "rawInput": {"command": "ls"}}
    assert said(tools().frame(first)) == [("tool-use", "terminal", {"command": "ls"})]


def test_without_an_input_the_call_waits_and_is_shown_with_what_came():
    book = tools()
    waits = book.frame({"toolCallId": "t", "title": "Shell", "kind": "execute", "status": "pending"})
    assert said(waits) == []
    assert any(isinstance(o, Timer) for o in waits)
    later = book.frame({"toolCallId": "t", "status": "in_progress", "rawInput": {"command": "ls"}})
    assert said(later) == [("tool-use", "terminal", {"command": "ls"})]


def test_an_input_that_is_still_being_written_is_shown_once_the_call_runs():
    book = tools()
    pending = {"toolCallId": "t", "title": "bash", "kind": "execute", "status": "pending", "rawInput": {"cwd": "/w"}}
    assert said(book.frame(pending)) == []
    running = {"toolCallId": "t", "status": "in_progress", "rawInput": {"command": "ls", "cwd": "/w"}}
    assert said(book.frame(running)) == [("tool-use", "terminal", {"command": "ls", "cwd": "/w"})]
    book.frame({**pending, "toolCallId": "u"})
    assert said(book.flush()) == [("tool-use", "terminal", {"cwd": "/w"})], "but never longer than patience"


def test_a_call_that_stays_silent_is_shown_when_patience_ends():
    book = tools()
    book.frame({"toolCallId": "t", "title": "read: /a.txt", "kind": "read"})
    assert said(book.flush()) == [("tool-use", "read_file", {"text": "read: /a.txt"})]
    assert said(book.flush()) == []


def test_a_permission_shows_the_call_that_asks_for_it():
    book = tools()
    book.frame({"toolCallId": "t", "title": "Bash", "kind": "execute"})
    assert said(book.asked({"toolCallId": "t", "rawInput": {"command": "rm x"}})) == [
        ("tool-use", "terminal", {"command": "rm x"})
    ]
    assert book.asked({"toolCallId": "never seen"}) == []


def test_streamed_arguments_are_shown_once_they_are_whole():
    book = tools(Announces.STREAMED_INPUT)
    frames = ["", '{"command": "l', '{"command": "ls"}']
    shown = [
        said(book.frame({"toolCallId": "t", "title": "Bash", "content": [{"type": "text", "text": f}]})) for f in frames
    ]
    assert shown == [[], [], [("tool-use", "terminal", {"command": "ls"})]]


def test_a_call_without_arguments_has_no_input():
    book = tools(Announces.STREAMED_INPUT)
    book.frame({"toolCallId": "t", "title": "Bash", "content": [{"type": "text", "text": "{}"}]})
    assert said(book.frame({"toolCallId": "t", "status": "failed", "rawOutput": "no command"})) == [
        ("tool-use", "terminal", ""),
        ("tool-result", "failed", "no command"),
    ]


def test_an_end_without_a_beginning_makes_both():
    outputs = tools().frame({"toolCallId": "t", "status": "completed", "title": "Shell", "rawOutput": "done"})
    assert said(outputs) == [("tool-use", "terminal", ""), ("tool-result", "completed", "done")]


def test_a_second_end_and_news_after_the_end_are_nothing():
    book = tools()
    book.frame({"toolCallId": "t", "rawInput": {"a": 1}})
    assert len(said(book.frame({"toolCallId": "t", "status": "failed", "content": "no"}))) == 1
    assert said(book.frame({"toolCallId": "t", "status": "completed", "rawOutput": "yes"})) == []
    assert said(book.frame({"toolCallId": "t", "rawInput": {"b": 2}})) == []


def test_what_still_runs_when_the_turn_ends_is_ended():
    book = tools()
    book.frame({"toolCallId": "t", "rawInput": {"a": 1}})
    assert said(book.close("the turn ended")) == [("tool-result", "failed", "the turn ended")]
    assert book.close("again") == []


@pytest.mark.parametrize(
    ("update", "output"),
    [
        ({"rawOutput": "text"}, "text"),
        ({"output": {"items": [1]}}, json.dumps({"items": [1]})),
        ({"rawOutput": {"type": "Bash", "output": [104]}, "content": [{"type": "text", "text": "h"}]}, "h"),
        ({"content": [{"type": "diff", "path": "a", "oldText": "é", "newText": "xyz"}]}, "a (edited: 2 -> 3 bytes)"),
        ({"content": [{"type": "diff", "path": "a", "newText": "xyz"}]}, "a (new file, 3 bytes)"),
        (
            {"content": [{"type": "content", "content": {"type": "image", "mimeType": "image/png"}}]},
            "[image image/png]",
        ),
        ({"rawOutput": ""}, ""),
        ({}, ""),
    ],
)
def test_a_result_is_text_before_it_is_json(update, output):
    [_, result] = [
        m for m in tools().frame({"toolCallId": "t", "status": "completed", **update}) if isinstance(m, Message)
    ]
    assert result.output == output


def test_content_is_named_where_it_is_no_text():
    assert content_text({"type": "resource_link", "uri": "file:///a"}) == "[file:///a]"
    assert content_text({"type": "resource", "resource": {"text": "inside"}}) == "inside"
    assert content_text([{"type": "terminal", "terminalId": "1"}, "plain", None, 7]) == "plain"


@pytest.mark.parametrize(
    ("title", "kind", "name", "plain", "common"),
    [
        ("terminal: ls", "execute", "", "terminal", "terminal"),
        ("read: /a.txt", "read", "", "read_file", "read_file"),
        ("Running: ls", "execute", "", "terminal", "terminal"),
        ("Bash", "execute", "", "terminal", "terminal"),
        ("Run Shell Command", "", "", "Run Shell Command", "terminal"),
        ("patch v4a: a.py", "edit", "", "patch", "edit_file"),
        ("execute code", "", "", "execute_code", "execute_code"),
        ("My Own Tool", "other", "", "My Own Tool", "my_own_tool"),
        ("", "", "read_file", "read_file", "read_file"),
        ("", "fetch", "x", "web_search", "web_search"),
        ("", "", "", "", ""),
    ],
)
def test_names_come_from_title_kind_and_name(title, kind, name, plain, common):
    assert tool_name(title, kind, name) == plain
    assert common_name(title, kind, name) == common


@pytest.mark.parametrize("raw", [{"exit_code": 3, "output": "x"}, {"exitCode": 1}])
def test_a_command_that_exits_badly_is_shown_as_failed_though_its_tool_completed(raw):
    ended = tools().frame({"toolCallId": "t", "title": "Shell", "status": "completed", "rawOutput": raw})
    assert ended[-1].status == "failed"


def test_a_command_that_exits_well_is_completed():
    raw = {"exit_code": 0, "output": "x"}
    ended = tools().frame({"toolCallId": "t", "title": "Shell", "status": "completed", "rawOutput": raw})
    assert ended[-1].status == "completed"
