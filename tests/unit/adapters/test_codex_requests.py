"""What codex asks in the middle of a turn is answered at once, by policy, in the words of its generation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard_adapters.codex_requests import NOBODY, Answers
from callboard_adapters.dialects.json_rpc import JsonRpc, ServerRequest


def asked(method: str, request_id: Any = 0, **params: Any) -> ServerRequest:
    request = JsonRpc().receive(json.dumps({"id": request_id, "method": method, "params": params}).encode())
    assert isinstance(request, ServerRequest)
    return request


def answered(answers: Answers, method: str, **params: Any) -> Any:
    line, _ = answers.answer(asked(method, **params))
    return json.loads(line)


@pytest.mark.parametrize(
    ("method", "allowed", "declined", "cancelled"),
    [
        ("item/commandExecution/requestApproval", "accept", "decline", "cancel"),
        ("item/fileChange/requestApproval", "accept", "decline", "cancel"),
        ("execCommandApproval", "approved", "denied", "abort"),
        ("applyPatchApproval", "approved", "denied", "abort"),
    ],
)
def test_both_generations_of_approvals_get_their_own_words(method, allowed, declined, cancelled):
    assert answered(Answers(allow=True), method)["result"] == {"decision": allowed}
    assert answered(Answers(allow=False), method)["result"] == {"decision": declined}
    stopped = Answers(allow=True)
    stopped.closed = True
    assert answered(stopped, method)["result"] == {"decision": cancelled}


@pytest.mark.parametrize(
    ("offered", "decision"),
    [
        (["accept", "acceptForSession", "decline"], "accept"),
        (["acceptForSession", {"acceptWithExecpolicyAmendment": {}}, "cancel"], "cancel"),
        (["acceptForSession", "decline"], "decline"),
        ([], "decline"),
    ],
)
def test_what_would_hold_for_good_is_never_granted(offered, decision):
    got = answered(Answers(allow=True), "item/commandExecution/requestApproval", availableDecisions=offered)
    assert got["result"] == {"decision": decision}


def test_only_the_permissions_asked_for_are_granted_for_the_turn():
    wanted = {"network": {"enabled": True}, "fileSystem": None, "camera": {"enabled": True}}
    got = answered(Answers(allow=True), "item/permissions/requestApproval", permissions=wanted)
    assert got["result"] == {"permissions": {"network": {"enabled": True}}, "scope": "turn"}
    for answers, permissions in ((Answers(allow=False), wanted), (Answers(allow=True), "everything")):
        got = answered(answers, "item/permissions/requestApproval", permissions=permissions)
        assert got["result"] == {"permissions": {}, "scope": "turn"}


def test_a_question_to_the_user_is_answered_that_nobody_is_there():
    questions = [
        {"id": "q1", "question": "Which colour?", "options": [{"label": "red"}]},
        {"id": "q2", "question": "Why?"},
    ]
    line, message = Answers(allow=True).answer(asked("item/tool/requestUserInput", questions=questions))
    assert json.loads(line)["result"] == {"answers": {"q1": {"answers": [NOBODY]}, "q2": {"answers": [NOBODY]}}}
    assert "Which colour?" in message.content


@pytest.mark.parametrize(
    ("params", "action"),
    [
        ({"mode": "form", "requestedSchema": {"type": "object", "properties": {}}}, "accept"),
        ({}, "accept"),
        ({"mode": "form", "requestedSchema": {"properties": {"name": {"type": "string"}}}}, "decline"),
        ({"mode": "url", "url": "https://x"}, "decline"),
        ({"mode": "openai/userVerification", "challenge": "c"}, "decline"),
    ],
)
def test_a_yes_or_no_of_an_mcp_server_is_accepted_and_what_needs_a_person_is_not(params, action):
    got = answered(Answers(allow=True), "mcpServer/elicitation/request", message="may I?", **params)
    assert got["result"] == {"action": action, "content": None, "_meta": None}


def test_inside_a_sandbox_an_mcp_server_gets_no_yes():
    got = answered(Answers(allow=False), "mcpServer/elicitation/request", message="may I?")
    assert got["result"]["action"] == "decline"


def test_a_tool_of_the_client_that_does_not_exist_fails_like_a_tool():
    assert answered(Answers(allow=True), "item/tool/call", tool="x", callId="c")["result"]["success"] is False


@pytest.mark.parametrize("method", ["account/chatgptAuthTokens/refresh", "attestation/generate", "future/thing"])
def test_what_nobody_here_can_answer_is_refused_and_remembered(method):
    answers = Answers(allow=True)
    assert answered(answers, method)["error"]["code"] == -32601
    assert answers.refused == [method]


@pytest.mark.parametrize("questions", [5, "x", {"a": 1}, [None], [{"id": None}]])
def test_parameters_of_an_unknown_shape_are_still_answered(questions):
    got = answered(Answers(allow=True), "item/tool/requestUserInput", questions=questions)
    assert "result" in got or got["error"]["code"] == -32602
