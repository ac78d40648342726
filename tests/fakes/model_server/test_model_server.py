"""The loopback model keeps its own promises: what the real-CLI suite asserts about a CLI rests on them."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.fakes.model_server import ModelServer, ModelServerError, Scenario, scenarios

SHELL = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
BROKEN_CONNECTIONS = (Scenario.HANG, Scenario.CUT, Scenario.CUT_ONCE)  # tested one by one below
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading the machine's certificates costs more than a call
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


def with_tool(path: str, request: dict[str, Any], name: str) -> dict[str, Any]:
    """The request with one more tool, which takes a text."""
    schema = {"properties": {"prompt": {"type": "string"}, "text": {"type": "string"}}, "required": ["description"]}
    if path == "/v1/messages":
        tool: dict[str, Any] = {"name": name, "input_schema": schema}
    elif path == "/v1/responses":
        tool = {"type": "function", "name": name, "parameters": schema}
    else:
        tool = {"type": "function", "function": {"name": name, "parameters": schema}}
    return {**request, "tools": [*request["tools"], tool]}


def answered(path: str, request: dict[str, Any], results: int) -> dict[str, Any]:
    """The request with this many tool results after it."""
    if path == "/v1/messages":
        blocks = [{"type": "tool_result", "tool_use_id": f"{one}"} for one in range(results)]
        return {**request, "messages": [*request["messages"], {"role": "user", "content": blocks}]}
    if path == "/v1/responses":
        items = [{"type": "function_call_output", "call_id": f"{one}", "output": "done"} for one in range(results)]
        return {**request, "input": [*request["input"], *items]}
    messages = [{"role": "tool", "tool_call_id": f"{one}", "content": "done"} for one in range(results)]
    return {**request, "messages": [*request["messages"], *messages]}


def calls_in(path: str, document: dict[str, Any]) -> list[tuple[str, Any]]:
    """(tool, arguments) of every call in a whole answer; arguments that are no JSON stay text."""
    if path == "/v1/messages":
        return [(one["name"], one["input"]) for one in document["content"] if one["type"] == "tool_use"]
    if path == "/v1/responses":
        found = [(one["name"], one["arguments"]) for one in document["output"] if one["type"] == "function_call"]
    else:
        calls = document["choices"][0]["message"].get("tool_calls", [])
        found = [(one["function"]["name"], one["function"]["arguments"]) for one in calls]
    return [(name, _json_or_text(arguments)) for name, arguments in found]


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def ask(server: ModelServer, path: str, request: dict[str, Any]) -> httpx.Response:
    headers = {"authorization": "Bearer secret-word"}
    return httpx.post(server.url + path, json=request, headers=headers, timeout=10, verify=NO_TLS)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("scenario", [one for one in Scenario if one not in BROKEN_CONNECTIONS])
def test_every_scenario_is_served_in_every_dialect(server: ModelServer, path: str, scenario: Scenario) -> None:
    request = with_tool(path, with_tool(path, body(path, scenario), "Agent"), "mcp__loopback__say")
    response = ask(server, path, request)
    refused = scenario in scenarios.FAILURES or scenario.endswith("once") or scenario is Scenario.ERROR_EVENT
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


@pytest.mark.parametrize("path", PATHS)
def test_a_tool_result_turns_the_tool_call_into_the_last_answer(server: ModelServer, path: str) -> None:
    request = body(path, "tool")
    assert f"echo {scenarios.TOOL_OUTPUT}" in ask(server, path, request).text
    assert scenarios.FINISHED in ask(server, path, answered(path, request, 1)).text
    assert [call.tool_done for call in server.main_calls()] == [False, True]


@pytest.mark.parametrize("path", PATHS)
def test_two_parallel_calls_are_two_calls_of_one_answer(server: ModelServer, path: str) -> None:
    request = body(path, "parallel")
    calls = calls_in(path, ask(server, path, request).json())
    assert [arguments["command"][-2:] for _, arguments in calls] == ["-0", "-1"]
    assert scenarios.FINISHED in ask(server, path, answered(path, request, 2)).text
    streamed = [one for one in events(ask(server, path, {**request, "stream": True})) if "echo" in json.dumps(one)]
    assert len(streamed) >= 2


@pytest.mark.parametrize("path", PATHS)
def test_a_loop_is_three_rounds_and_every_call_has_its_own_price(server: ModelServer, path: str) -> None:
    request = body(path, "loop")
    whole = [ask(server, path, answered(path, request, done)).json() for done in range(scenarios.ROUNDS + 1)]
    assert [len(calls_in(path, one)) for one in whole] == [1, 1, 1, 0]
    assert len({json.dumps(one["usage"]) for one in whole}) == scenarios.ROUNDS + 1


@pytest.mark.parametrize("path", PATHS)
def test_after_its_only_tool_the_model_says_nothing(server: ModelServer, path: str) -> None:
    silent = ask(server, path, answered(path, body(path, "toolonly"), 1)).json()
    assert calls_in(path, silent) == []
    assert scenarios.FINISHED not in json.dumps(silent)
    assert str(scenarios.AFTER_TOOL.output) in json.dumps(silent["usage"])


@pytest.mark.parametrize("path", PATHS)
def test_broken_arguments_are_no_json_and_the_next_ones_are(server: ModelServer, path: str) -> None:
    request = body(path, "badargs")
    [[(_, broken)], [(_, right)], none] = [calls_in(path, ask(server, path, request).json()) for _ in range(3)]
    assert isinstance(broken, str)
    assert scenarios.TOOL_OUTPUT in right["command"]
    assert none == []


@pytest.mark.parametrize("path", PATHS)
def test_an_unknown_tool_is_called_once_and_then_the_shell(server: ModelServer, path: str) -> None:
    request = body(path, "unknowntool")
    [[(unknown, _)], [(shell, _)]] = [calls_in(path, ask(server, path, request).json()) for _ in range(2)]
    assert unknown == scenarios.UNKNOWN_TOOL
    assert shell != unknown


@pytest.mark.parametrize("path", PATHS)
def test_a_sub_agent_and_an_mcp_tool_are_called_by_the_names_they_were_offered_under(
    server: ModelServer, path: str
) -> None:
    for word, name, said in (
        ("subagent", "Task", {"prompt": scenarios.SUBAGENT_PROMPT}),
        ("mcp", "loopback_say", {"text": scenarios.TOOL_OUTPUT}),
    ):
        [(called, arguments)] = calls_in(path, ask(server, path, with_tool(path, body(path, word), name)).json())
        assert called == name
        assert said.items() <= arguments.items()
        assert arguments["description"]


def test_an_mcp_tool_that_was_not_offered_is_looked_for_and_called_through_what_the_cli_offers(
    server: ModelServer,
) -> None:
    path = "/v1/messages"
    looking = with_tool(path, body(path, "mcp"), "ToolSearch")
    calling = with_tool(path, answered(path, body(path, "mcp"), 1), "tool_call")
    [[(_, sought)], [(_, called)]] = [calls_in(path, ask(server, path, one).json()) for one in (looking, calling)]
    assert sought == {"query": "select:mcp__loopback__say"}
    assert called == {"name": "mcp__loopback__say", "arguments": {"text": scenarios.TOOL_OUTPUT}}


@pytest.mark.parametrize(
    ("path", "word", "reason"),
    [
        ("/v1/messages", "refusal", "refusal"),
        ("/v1/messages", "refusalempty", "refusal"),
        ("/v1/messages", "maxtokens", "max_tokens"),
        ("/v1/chat/completions", "refusal", "content_filter"),
        ("/v1/chat/completions", "refusalempty", "content_filter"),
        ("/v1/chat/completions", "maxtokens", "length"),
        ("/v1/responses", "refusal", "content_filter"),
        ("/v1/responses", "refusalempty", "content_filter"),
        ("/v1/responses", "maxtokens", "max_output_tokens"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_ended_early_says_why_in_the_words_of_its_api(
    server: ModelServer, path: str, word: str, reason: str, stream: bool
) -> None:
    assert f'"{reason}"' in ask(server, path, body(path, word, stream=stream)).text


@pytest.mark.parametrize(
    ("path", "word", "status", "kind"),
    [
        ("/v1/messages", "403", 403, "permission_error"),
        ("/v1/messages", "404", 404, "not_found_error"),
        ("/v1/messages", "400", 400, "invalid_request_error"),
        ("/v1/messages", "413", 413, "request_too_large"),
        ("/v1/chat/completions", "404", 404, "model_not_found"),
        ("/v1/responses", "404", 404, "model_not_found"),
    ],
)
def test_a_refusal_has_the_status_and_the_kind_of_its_api(
    server: ModelServer, path: str, word: str, status: int, kind: str
) -> None:
    response = ask(server, path, body(path, word, stream=True))
    assert response.status_code == status
    assert kind in response.text


@pytest.mark.parametrize(
    ("path", "last"),
    [
        ("/v1/messages", {"type": "error"}),
        ("/v1/chat/completions", {}),
        ("/v1/responses", {"type": "response.failed", "sequence_number": 5}),
    ],
)
def test_an_error_event_is_the_last_one_of_a_stream_that_had_begun(
    server: ModelServer, path: str, last: dict[str, Any]
) -> None:
    seen = events(ask(server, path, body(path, "erroreventonce", stream=True)))
    assert scenarios.HELLO[:8] in json.dumps(seen[:-1])
    assert last.items() <= seen[-1].items()
    assert scenarios.FAILURES[Scenario.OVERLOADED].message in json.dumps(seen[-1])
    assert scenarios.HELLO[-4:] in json.dumps(events(ask(server, path, body(path, "erroreventonce", stream=True))))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("text", [scenarios.UNICODE, scenarios.SURROGATE, scenarios.JSON_LIKE])
def test_every_character_of_a_difficult_answer_is_sent(server: ModelServer, path: str, text: str) -> None:
    words = {scenarios.UNICODE: "unicode", scenarios.SURROGATE: "surrogate", scenarios.JSON_LIKE: "json"}
    assert text in _strings(ask(server, path, body(path, words[text])).json())


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [one for part in inside for one in _strings(part)]


def test_the_huge_output_is_coloured_and_300_kilobytes() -> None:
    command = scenarios.commands("mark")[Scenario.HUGE_OUTPUT]
    said = subprocess.run(command, shell=True, stdout=subprocess.PIPE, check=True).stdout
    assert len(said) >= 300_000
    assert said.startswith(b"\033[30mline 000000")


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
