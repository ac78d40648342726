"""The loopback model keeps its own promises: what the real-CLI suite asserts about a CLI rests on them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.fakes.model_server import ModelServer, ModelServerError, Scenario, scenarios

SHELL = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
BROKEN_CONNECTIONS = (Scenario.HANG, Scenario.CUT, Scenario.CUT_ONCE)  # tested one by one below
PATHS = ("/v1/messages", "/v1/chat/completions", "/v1/responses")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def body(path: str, word: str, *, stream: bool = False, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """A request of the dialect at `path` with one shell tool."""
    content, schema = f"SCENARIO:{word} please", schema or SHELL
    asked: dict[str, Any] = {"model": "m", "stream": stream}
    if path == "/v1/messages":
        return {**asked, "messages": [{"role": "user", "content": content}], "tools": [_anthropic(schema)]}
    if path == "/v1/responses":
        tool = {"type": "function", "name": "exec_command", "parameters": schema}
        return {**asked, "input": [{"role": "user", "content": content}], "tools": [tool]}
    tool = {"type": "function", "function": {"name": "shell", "parameters": schema}}
    return {**asked, "messages": [{"role": "user", "content": content}], "tools": [tool]}


def _anthropic(schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": "Bash", "input_schema": schema}


def ask(server: ModelServer, path: str, request: dict[str, Any]) -> httpx.Response:
    return httpx.post(server.url + path, json=request, headers={"authorization": "Bearer secret-word"}, timeout=10)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("scenario", [one for one in Scenario if one not in BROKEN_CONNECTIONS])
def test_every_scenario_is_served_in_every_dialect(server: ModelServer, path: str, scenario: Scenario) -> None:
    response = ask(server, path, body(path, scenario))
    refused = scenario in scenarios.FAILURES or scenario.endswith("once")
    assert (response.status_code == 200) is not refused
    assert response.json()


@pytest.mark.parametrize("path", PATHS)
def test_the_token_counts_of_a_stream_are_those_of_the_plan(server: ModelServer, path: str) -> None:
    seen = events(ask(server, path, body(path, "text", stream=True)))
    numbers = json.dumps(seen)
    first = scenarios.FIRST_CALL
    anthropic = path == "/v1/messages"
    wanted = first.uncached if anthropic else first.uncached + first.cache_read
    assert f": {wanted}" in numbers
    assert f": {first.cache_read}" in numbers
    assert (f": {first.cache_write}" in numbers) is anthropic
    assert f": {first.output}" in numbers


@pytest.mark.parametrize(
    ("path", "answered"),
    [
        ("/v1/messages", {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]}]}),
        ("/v1/chat/completions", {"messages": [{"role": "tool", "tool_call_id": "1", "content": "done"}]}),
        ("/v1/responses", {"input": [{"type": "function_call_output", "call_id": "1", "output": "done"}]}),
    ],
)
def test_a_tool_result_turns_the_tool_call_into_the_last_answer(
    server: ModelServer, path: str, answered: dict[str, list[Any]]
) -> None:
    request = body(path, "tool")
    assert f"echo {scenarios.TOOL_OUTPUT}" in ask(server, path, request).text
    [key] = answered
    after = ask(server, path, {**request, key: [*request[key], *answered[key]]})
    assert scenarios.FINISHED in after.text
    assert [call.tool_done for call in server.main_calls()] == [False, True]


def test_arguments_a_tool_requires_beside_the_command_are_filled_by_type(server: ModelServer) -> None:
    schema = {
        "properties": {"cmd": {"type": "array"}, "background": {"type": "boolean"}, "why": {"type": "string"}},
        "required": ["cmd", "background", "why"],
    }
    path = "/v1/chat/completions"
    message = ask(server, path, body(path, "tool", schema=schema)).json()["choices"][0]["message"]
    arguments = json.loads(message["tool_calls"][0]["function"]["arguments"])
    assert arguments["cmd"] == ["bash", "-lc", f"echo {scenarios.TOOL_OUTPUT}"]
    assert arguments["background"] is False
    assert arguments["why"]


def test_a_once_scenario_fails_the_first_main_call_alone(server: ModelServer) -> None:
    path = "/v1/chat/completions"
    title = {**body(path, "429once"), "tools": []}
    statuses = [ask(server, path, one).status_code for one in (title, body(path, "429once"), body(path, "429once"))]
    assert statuses == [200, 429, 200]
    assert [call.auxiliary for call in server.requests] == [True, False, False]


def test_a_call_without_tools_is_auxiliary_and_has_its_own_price(server: ModelServer) -> None:
    path = "/v1/chat/completions"
    answer = ask(server, path, {**body(path, "tool"), "tools": []}).json()
    assert answer["choices"][0]["message"]["content"] == scenarios.AUXILIARY
    assert answer["usage"]["prompt_tokens"] == scenarios.AUXILIARY_CALL.uncached
    assert server.main_calls() == []


def test_a_cut_answer_ends_in_its_text_without_the_last_chunk(server: ModelServer) -> None:
    path = "/v1/messages"
    received: list[bytes] = []
    call = httpx.stream("POST", server.url + path, json=body(path, "midcut", stream=True), timeout=10)
    with call as response, pytest.raises(httpx.RemoteProtocolError):
        received.extend(response.iter_raw())
    assert b"".join(received).count(b"text_delta") == 2
    assert b"message_stop" not in b"".join(received)


def test_a_hanging_call_is_let_go_when_the_server_stops() -> None:
    with ModelServer() as server:
        calling = threading.Thread(target=_ask_and_lose, args=(server,))
        calling.start()
        assert server.wait_for_call("hang", timeout=10).scenario == "hang"
    calling.join(timeout=10)
    assert not calling.is_alive()


def _ask_and_lose(server: ModelServer) -> None:
    with pytest.raises(httpx.HTTPError):
        ask(server, "/v1/messages", body("/v1/messages", "hang", stream=True))


def test_no_secret_is_kept_of_a_request(server: ModelServer) -> None:
    ask(server, "/v1/messages", body("/v1/messages", "text"))
    [request] = server.requests
    assert request.auth == "authorization"
    assert "secret-word" not in repr(request)
    assert "secret-word" not in f"{request.headers}{request.body}"


def test_an_unknown_path_is_a_404_and_is_recorded(server: ModelServer) -> None:
    assert ask(server, "/v1/embeddings", {}).status_code == 404
    assert [one.status for one in server.requests] == [404]


def test_a_bug_in_the_server_is_not_taken_for_a_bug_in_the_cli() -> None:
    server = ModelServer()
    with pytest.raises(httpx.HTTPError):
        ask(server, "/v1/messages", {**body("/v1/messages", "text"), "messages": ["not a message"]})
    with pytest.raises(ModelServerError):
        server.close()
