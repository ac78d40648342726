"""Which option is chosen when an agent asks for permission, and that everything else is refused at once."""

from __future__ import annotations

import json

import pytest

from callboard_adapters.dialects.acp_requests import answer, choose
from callboard_adapters.dialects.json_rpc import JsonRpc


def option(option_id: str, kind: str) -> dict[str, str]:
    return {"optionId": option_id, "kind": kind, "name": option_id}


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        (
            [("approve_always", "allow_always"), ("approve_once", "allow_once"), ("reject", "reject_once")],
            "approve_once",
        ),
        ([("ok1", "allow_once"), ("allow_session", "allow_always")], "ok1"),
        ([("allow_session", "allow_always"), ("no", "reject_once")], "allow_session"),
        ([("approve_for_session", "allow_always"), ("always", "allow_always")], "approve_for_session"),
        ([("always", "allow_always"), ("no", "reject_once"), ("never", "reject_always")], "no"),
        ([("yes", "AllowOnce")], "yes"),
        ([("always", "allow_always"), ("never", "reject_always")], None),
        ([("yes", "some_new_kind")], None),
        ([("", "allow_once")], None),
        ([], None),
    ],
)
def test_only_an_offered_option_is_chosen_and_never_a_lasting_grant(options, chosen):
    found = choose([option(*o) for o in options])
    assert (found and found[0]) == chosen


def test_options_of_a_wrong_shape_are_no_options():
    assert (
        choose([{"kind": "allow_once"}, {"optionId": 7, "kind": "allow_once"}, {"optionId": "x", "kind": None}]) is None
    )


@pytest.mark.parametrize(
    "method",
    ["fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create", "_x.ai/ask_user_question"],
)
def test_what_was_not_advertised_is_refused_at_once(method):
    request = JsonRpc().receive(json.dumps({"id": 0, "method": method, "params": {}}).encode())
    line, notices = answer(request, over=False)
    assert json.loads(line) == {"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, "message": "method not found"}}
    assert method in notices[0].content


def test_a_permission_without_a_usable_option_is_an_error_and_not_the_end_of_the_turn():
    request = JsonRpc().receive(b'{"id":"p","method":"session/request_permission","params":{"options":"none"}}')
    line, [notice] = answer(request, over=False)
    assert json.loads(line)["error"]["code"] == -32603
    assert notice.level == "warn"
