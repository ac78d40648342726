"""JSON-RPC bookkeeping against what servers really send."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard_adapters.dialects.json_rpc import (
    METHOD_NOT_FOUND,
    Answer,
    JsonRpc,
    Notification,
    ServerRequest,
    Stray,
    method_key,
)


def line(**message) -> bytes:
    return json.dumps(message).encode()


@pytest.fixture
def rpc() -> JsonRpc:
    return JsonRpc()


def test_ids_count_from_zero_and_requests_wait_in_order(rpc):
    first, sent = rpc.request("initialize", {"a": 1})
    second, _ = rpc.request("thread/start")
    assert (first, second) == (0, 1)
    assert json.loads(sent) == {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"a": 1}}
    assert sent.endswith(b"\n")
    assert sent.count(b"\n") == 1
    assert list(rpc.pending.values()) == ["initialize", "thread/start"]


@pytest.mark.parametrize("spelled", [0, 0.0, "0"])
def test_an_answer_settles_its_request_whether_its_id_is_int_float_or_text(rpc, spelled):
    rpc.request("initialize")
    assert rpc.receive(line(id=spelled, result={"x": 1})) == Answer(0, "initialize", {"x": 1})
    assert not rpc.pending


@pytest.mark.parametrize("wrong", [True, False, 1, 0.5, "zero", "٠", "0" * 5000, [], {}, -1])
def test_an_id_that_is_not_ours_settles_nothing(rpc, wrong):
    rpc.request("initialize")
    assert isinstance(rpc.receive(line(id=wrong, result={})), Stray)
    assert rpc.pending == {0: "initialize"}


def test_answers_may_come_out_of_order(rpc):
    for method in ("a", "b", "c"):
        rpc.request(method)
    assert [rpc.receive(line(id=i, result=i)).method for i in (2, 0, 1)] == ["c", "a", "b"]


def test_a_second_answer_is_nobodys(rpc):
    rpc.request("a")
    assert isinstance(rpc.receive(line(id=0, result=1)), Answer)
    assert isinstance(rpc.receive(line(id=0, error={"code": 1, "message": "late"})), Stray)


def test_an_answer_to_a_forgotten_request_is_nobodys(rpc):
    request_id, _ = rpc.request("a")
    rpc.forget(request_id)
    rpc.forget(request_id)
    assert isinstance(rpc.receive(line(id=request_id, result=1)), Stray)


def test_a_result_beside_an_error_does_not_make_it_a_success(rpc):
    rpc.request("a")
    answer = rpc.receive(line(id=0, result={"ok": True}, error={"code": -32600, "message": "no"}))
    assert (answer.result, answer.error.code, answer.fields) == (None, -32600, {})


def test_a_null_error_beside_a_result_is_none(rpc):
    rpc.request("a")
    assert rpc.receive(line(id=0, result={"ok": True}, error=None)) == Answer(0, "a", {"ok": True})


@pytest.mark.parametrize("result", [None, [], 3, "done"])
def test_a_result_that_is_no_object_has_no_fields(rpc, result):
    rpc.request("a")
    answer = rpc.receive(line(id=0, result=result))
    assert (answer.result, answer.fields, answer.error) == (result, {}, None)


def test_a_server_that_echoes_the_method_still_answers(rpc):
    rpc.request("a")
    assert isinstance(rpc.receive(line(id=0, method="a", result={})), Answer)


@pytest.mark.parametrize("request_id", [0, "0", "x-1", 1.5, -3, True])
def test_a_server_request_is_answered_with_its_id_as_it_came(rpc, request_id):
    rpc.request("ours")  # has id 0, too
    asked = rpc.receive(line(id=request_id, method="session/request_permission", params={"a": 1}))
    assert isinstance(asked, ServerRequest)
    assert json.loads(rpc.answer(asked, {"ok": 1}))["id"] == request_id
    refused = json.loads(rpc.refuse(asked, METHOD_NOT_FOUND, "no"))
    assert (refused["id"], refused["error"]) == (request_id, {"code": -32601, "message": "no"})
    assert rpc.pending == {0: "ours"}


@pytest.mark.parametrize("params", [[1, 2], "x", 5])
def test_params_that_are_no_object_are_kept_for_whoever_shows_the_message(rpc, params):
    note = rpc.receive(line(method="x", params=params))
    assert note == Notification("x", "x", {"params": params})


def test_a_message_without_params_has_empty_ones(rpc):
    assert rpc.receive(line(method="x", params=None)) == Notification("x", "x", {})
    assert rpc.receive(line(method="x")) == Notification("x", "x", {})


def test_a_null_id_makes_no_request(rpc):
    assert isinstance(rpc.receive(line(id=None, method="x")), Notification)


@pytest.mark.parametrize("spelled", ["session/update", "Session/Update", "session_/update", "SESSION/up-date"])
def test_methods_are_compared_without_their_casing_and_shown_as_sent(rpc, spelled):
    note = rpc.receive(line(method=spelled))
    assert (note.key, note.method) == ("session/update", spelled)
    assert method_key("agentMessageChunk") == method_key("agent_message_chunk")


@pytest.mark.parametrize("noise", [b"Warning: hello", b"[1,2]", b'"x"', b"\xff\xfe", b"{", b"null"])
def test_noise_is_counted_told_once_and_ends_nothing(rpc, noise):
    assert rpc.receive(noise) is None
    assert len([m for m in rpc.notices() if "not the protocol" in m.content]) == 1
    assert rpc.receive(noise) is None
    assert not [m for m in rpc.notices() if "not the protocol" in m.content]
    assert rpc.parser.noise == 2


def test_neither_method_nor_result_is_a_stray(rpc):
    assert isinstance(rpc.receive(b"{}"), Stray)
    assert isinstance(rpc.receive(line(id=0, method=7)), Stray)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ({"code": -32600, "message": "no rollout"}, "m: no rollout (code=-32600)"),
        ({"code": -32603.0, "message": "x", "data": "y"}, "m: x (code=-32603, data=y)"),
        ({"message": "x", "data": {"a": 1}}, 'm: x (data={"a": 1})'),
        ({"code": "E1", "message": ""}, "m: an error without a text"),
        ("just text", "m: just text"),
        (17, "m: an error without a text"),
    ],
)
def test_an_error_becomes_a_sentence_with_its_facts(rpc, error, sentence):
    rpc.request("m")
    answer = rpc.receive(line(id=0, error=error))
    assert answer.error.sentence(answer.method) == sentence


def test_a_prompt_with_a_lone_surrogate_can_be_sent(rpc):
    _, sent = rpc.request("turn/start", {"text": "\ud800 é"})
    assert json.loads(sent)["params"]["text"] == "\ud800 é"
    assert sent.isascii()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["id", "method", "params", "result", "error", "jsonrpc", "x"])


@given(st.lists(st.dictionaries(keys, values, max_size=6), max_size=8))
def test_whatever_an_object_holds_each_request_is_answered_at_most_once(messages):
    rpc = JsonRpc()
    for method in ("a", "b"):
        rpc.request(method)
    answered = []
    for message in messages:
        got = rpc.receive(json.dumps(message).encode())
        if isinstance(got, Answer):
            answered.append(got.id)
            assert got.error is None or got.error.sentence(got.method)
        elif isinstance(got, ServerRequest):
            assert json.loads(rpc.answer(got, None))["result"] is None
    assert len(answered) == len(set(answered))
    assert set(answered).isdisjoint(rpc.pending)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_raise_nothing(data):
    rpc = JsonRpc()
    rpc.request("a")
    rpc.receive(data)
    rpc.notices()
