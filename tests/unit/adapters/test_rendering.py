from __future__ import annotations

import pytest

from callboard_adapters import Message, MessageType
from callboard_adapters.codec import StoredSession, display_id
from callboard_adapters.rendering import Kind, render

USE = MessageType.TOOL_USE


@pytest.mark.parametrize(
    ("tool", "given", "title", "kind", "form"),
    [
        ("Bash", {"command": "ls -l"}, "Bash: ls -l", Kind.COMMAND, "terminal"),
        ("shell", {"command": ["bash", "-lc", "ls"]}, "shell: bash -lc ls", Kind.COMMAND, "terminal"),
        ("Read", {"file_path": "/a"}, "Read: /a", Kind.READ, "json"),
        ("Write", {"file_path": "/a", "content": "x"}, "Write: /a", Kind.EDIT, "code"),
        ("Edit", {"file_path": "/a", "old_string": "x", "new_string": "y"}, "Edit: /a", Kind.EDIT, "diff"),
        ("apply_patch", {"patch": "@@"}, "apply_patch", Kind.EDIT, "diff"),
        ("Grep", {"pattern": "x"}, "Grep: x", Kind.SEARCH, "json"),
        ("WebFetch", {"url": "https://e.org"}, "WebFetch: https://e.org", Kind.FETCH, "json"),
        ("Task", {"description": "look"}, "Task: look", Kind.AGENT, "json"),
        ("mystery", {"a": [1, {"b": None}]}, "mystery", Kind.TOOL, "json"),
    ],
)
def test_a_tool_call_shows_what_it_does(tool, given, title, kind, form):
    shown = render(Message(USE, tool=tool, input=given))
    assert (shown.title, shown.kind, shown.blocks[0].form) == (title, kind, form)


def test_an_edit_is_shown_as_a_diff():
    shown = render(Message(USE, tool="Edit", input={"path": "f", "old_string": "a\nb", "new_string": "a\nc"}))
    assert shown.blocks[0].text.splitlines() == ["--- f", "+++ f", "@@ -1,2 +1,2 @@", " a", "-b", "+c"]


@pytest.mark.parametrize("kind", list(MessageType))
def test_every_kind_of_message_can_be_shown_even_when_empty(kind):
    assert render(Message(kind)).kind
    assert render(Message(kind, content="x\ny", tool="t", output="o", input={"command": 3})).kind


def test_a_title_is_one_short_line():
    assert len(render(Message(MessageType.TEXT, "word " * 100 + "\nmore")).title) == 80


def test_a_stored_session_comes_back_and_knows_where_it_can_be_resumed():
    stored = StoredSession("claude", "s-1", "/w/a")
    assert StoredSession.load(stored.dump()) == stored
    assert stored.resumable_in("claude", "/w/a/")
    assert not stored.resumable_in("claude", "/w/b")
    assert not stored.resumable_in("codex", "/w/a")


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", '{"provider":"x","session_id":"","cwd":"/"}', '{"provider":1}'])
def test_what_is_no_stored_session_is_refused(text):
    with pytest.raises(ValueError):
        StoredSession.load(text)


def test_ids_are_shown_short_and_paths_by_their_name():
    assert display_id("8b4846fa-c4c8-46ce-a49a-79a85f095b44") == "8b4846fa-c4c…"
    assert display_id("/home/x/.pi/sessions/20261130.jsonl") == "20261130"
    assert display_id("s-1") == "s-1"
