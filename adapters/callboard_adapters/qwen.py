"""Qwen Code (`qwen --output-format stream-json`, prompt by stdin).

Verified on 0.24.4, tried on 0.21.10 and 0.23.4; the recordings under `tests/fixtures/transcripts/qwen` are the first
one's own output. Where it differs from claude:

- It takes one prompt and no conversation, so a cancel goes straight to the process. What `qwen` starts is a launcher:
  ended alone it leaves the real process working, which is why the driver ends everything below it.
- Without `--yolo` a run that nobody watches has no shell and cannot write.
- A provider's error is printed as an answer, `[API Error: 401 …]`, and a failed result has no `result`.
- Input tokens hold the cached ones. `result.usage` is the whole session's and counts a hidden call that extracts
  memories after the answer; the messages are this run's, without that call.
- What the pipe does not hold when it exits is lost. A long answer is printed twice, so the second one, in the result,
  may be cut: a result that began as a success, an exit with 0 and the whole first answer are a success.
- What fails after some text is printed at the end of that text; what fails before it, in its place. Up to 0.21 the
  result then is a success and the exit status 0.
- A dropped stream is continued, and the answer is what came before the cut glued to what came after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from callboard_adapters.base import FileWrite, Launch, Output, ProcessExit, RunContext
from callboard_adapters.capabilities import ArgMode, ArgStyle, Capabilities, McpVia, PromptVia, UsageVia
from callboard_adapters.dialects.json_values import flatten, uncached_usage
from callboard_adapters.dialects.stream_json import StreamJson
from callboard_adapters.dialects.stream_json_adapter import StreamJsonAdapter
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import FailureDetail, MessageType, RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason


def _camel(flag: str) -> str:
    """`--output-format` as its parser (yargs) reads it too: `--outputFormat`."""
    return re.sub(r"(?<=\w)-(\w)", lambda found: found[1].upper(), flag)


_EXACT = {
    "-p": ArgMode.VALUE,
    "--prompt": ArgMode.VALUE,
    "-i": ArgMode.VALUE,
    "--prompt-interactive": ArgMode.VALUE,
    "-o": ArgMode.VALUE,
    "--output-format": ArgMode.VALUE,
    "--input-format": ArgMode.VALUE,
    "--json-fd": ArgMode.VALUE,
    "--json-file": ArgMode.VALUE,
    "--input-file": ArgMode.VALUE,
    "-m": ArgMode.VALUE,
    "--model": ArgMode.VALUE,
    "-r": ArgMode.OPTIONAL,
    "--resume": ArgMode.OPTIONAL,
    "-c": ArgMode.STANDALONE,
    "--continue": ArgMode.STANDALONE,
    "--session-id": ArgMode.VALUE,
    "--chat-recording": ArgMode.OPTIONAL,
    "--no-chat-recording": ArgMode.STANDALONE,
    "--mcp-config": ArgMode.VALUE,
    "--approval-mode": ArgMode.VALUE,
    "--core-tools": ArgMode.VALUE,
    "--safe-mode": ArgMode.STANDALONE,
    "--yolo": ArgMode.STANDALONE,
    "-y": ArgMode.STANDALONE,
    "--no-yolo": ArgMode.STANDALONE,
    "--acp": ArgMode.STANDALONE,
    "-l": ArgMode.STANDALONE,
    "--list-extensions": ArgMode.STANDALONE,
    "-h": ArgMode.STANDALONE,
    "--help": ArgMode.STANDALONE,
    "-v": ArgMode.STANDALONE,
    "--version": ArgMode.STANDALONE,
}
_BLOCKED = _EXACT | {_camel(flag): mode for flag, mode in _EXACT.items()}
_VALUES = frozenset(
    {
        "--fallback-model",
        "--system-prompt",
        "--append-system-prompt",
        "--output-style",
        "--proxy",
        "--auth-type",
        "--openai-api-key",
        "--openai-base-url",
        "--openai-logging-dir",
        "--allowed-mcp-server-names",
        "--allowed-tools",
        "--exclude-tools",
        "--extensions",
        "-e",
        "--include-directories",
        "--add-dir",
        "--json-schema",
        "--worktree",
        "--channel",
        "--max-session-turns",
        "--max-wall-time",
        "--max-tool-calls",
        "--max-subagent-depth",
    }
)
_API_ERROR = re.compile(r"\s*\[API Error: (?:(\d{3})\b)?")
_MARK = "[API Error: "
_CAUSE = re.compile(r"\(cause: (\w+): (?:(\d{3})\b)?")
_BY_EXIT_STATUS = {
    52: FailureReason.MISSING_CONFIG,
    53: FailureReason.ITERATION_LIMIT,  # the turns of a session
    55: FailureReason.ITERATION_LIMIT,  # its tool calls, or its time
}
_DROPPED = re.compile(r"UND_ERR|\bE(?:CONN|NOTFOUND|TIMEDOUT|AI_AGAIN)|terminated|fetch failed|other side closed")

_SUCCESS_BEGAN = re.compile(rb'\s*\{"type":"result","subtype":"success",[^{}]{0,300}"is_error":false,')


def _own_error(text: str, billed: bool) -> int:
    """Where the CLI's own error begins in a text, -1 where there is none.

    It is the whole text; in a message that cost nothing it may also be the end of one, or have a hint behind it. An
    answer of the model may quote one.
    """
    closed = text.rstrip().endswith("]")
    if _API_ERROR.match(text) and (closed or not billed):
        return 0
    return text.rfind(_MARK) if closed and not billed else -1


def _is_text(content: Any) -> bool:
    """Whether a message's content is text alone: what a tool is called with is none of the CLI's own words."""
    return type(content) is str or (type(content) is list and all(type(b) is dict and "text" in b for b in content))


class _Reader(StreamJson):
    def __init__(self) -> None:
        super().__init__()
        self.failed_with = ""  # the error that stands in place of the answer, or at its end

    def own_words(self, event: dict[str, Any], message: dict[str, Any]) -> MessageType | None:
        _, begins = self._failed(message)
        return MessageType.ERROR if begins == 0 else super().own_words(event, message)

    def _assistant(self, event: dict[str, Any]) -> Sequence[Output]:
        """What failed after some text is told at the end of that text: it is taken apart."""
        message = event["message"]
        text, begins = self._failed(message)
        if not event.get("parent_tool_use_id"):
            self.failed_with = text[begins:].strip() if begins >= 0 else ""
        if begins <= 0:
            return super()._assistant(event)
        said, failed = (
            {**event, "message": {**message, "content": [{"type": "text", "text": part}]}}
            for part in (text[:begins], text[begins:])
        )
        return [*super()._assistant(said), *super()._assistant(failed)]

    def _failed(self, message: dict[str, Any]) -> tuple[str, int]:
        """(text, where the CLI's own error begins in it or -1) of a message. Nearly all are told by one look for the
        mark: to work out what every message cost took as long as to parse it."""
        content = message.get("content")
        if not (_is_text(content) and _MARK in (text := flatten(content))):
            return "", -1
        usage = message.get("usage")
        return text, _own_error(text, isinstance(usage, dict) and self.message_usage(usage).tokens > 0)

    def message_usage(self, usage: dict[str, Any]) -> TokenUsage:
        return uncached_usage(usage)


class QwenAdapter(StreamJsonAdapter):
    capabilities = Capabilities(
        name="qwen",
        executable="qwen",
        launch_header="qwen (stream-json)",
        prompt=PromptVia.STDIN_EOF,
        minimum_version="0.20.0",
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        mcp=McpVia.FILE,
        usage=UsageVia.STREAM,
        max_turns=True,
        context_file="QWEN.md",
        skills_folder=".qwen/skills",
        user_skills_folder="~/.qwen/skills",
        tools_leave_group=True,
        blocked_args=_BLOCKED,
        value_args=_VALUES,
        arg_style=ArgStyle(attached_short=True, abbreviations=False),
        relevant_env=("OPENAI_BASE_URL", "OPENAI_MODEL", "QWEN_HOME"),
        login_env=("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "DASHSCOPE_API_KEY"),
        login_files=("~/.qwen/settings.json", "~/.qwen/oauth_creds.json"),
        config_files=("~/.qwen/settings.json",),
        login_hint="run `qwen` once and /auth, or set OPENAI_API_KEY and OPENAI_BASE_URL",
    )
    reader_class = _Reader
    reader: _Reader

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.resumed = False
        self.success_began = False

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        if not prompt.strip():
            raise LaunchRefused(
                "qwen takes an empty prompt for a wish to talk at a terminal",
                provider="qwen",
                failure_reason=FailureReason.API_INVALID_REQUEST,
            )
        self.begin(options)
        self.resumed = bool(options.resume_session_id)
        self.success_began = False
        user, notices = self.user_args(options)
        args = ["--output-format", "stream-json", "--yolo"]
        args += self.flag("--model", options.model)
        if options.max_turns and options.max_turns > 0:
            args += ["--max-session-turns", str(options.max_turns)]
        args += self.flag("--resume", options.resume_session_id)
        args += user
        files = self._mcp_file(options)
        if files:
            args += ["--mcp-config", files[0].path]
        env = {} if "QWEN_CODE_SUPPRESS_YOLO_WARNING" in self.context.env else {"QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"}
        return Launch(args, env=env, files=files, stdin=prompt.encode(), notices=notices)

    def receive(self, line: bytes) -> Sequence[Output]:
        self.success_began = self.success_began or _SUCCESS_BEGAN.match(line) is not None
        return super().receive(line)

    def cancel(self) -> Sequence[Output]:
        return ()  # its input has ended

    def usage(self) -> dict[str, TokenUsage]:
        """This run's tokens: on a fresh session the result's total, which knows of the hidden call; else the messages'
        sum, because a resumed session's total holds the earlier runs."""
        by_message = self.reader.usage_by_message()
        results = self.reader.results
        if not results or self.resumed or not isinstance(results[-1].get("usage"), dict):
            return by_message
        whole = uncached_usage(results[-1]["usage"])
        if whole.tokens <= sum(u.tokens for u in by_message.values()):
            return by_message
        return {self.reader.model or "unknown": whole}

    def judge(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        if not self.reader.results and self.success_began and exit.clean and self.reader.answer:
            status, error, failure = RunStatus.COMPLETED, "", None
        else:
            status, error, failure = super().judge(exit)
        if status is RunStatus.COMPLETED and (error := self._called_a_success()):
            return RunStatus.FAILED, error, self.classified(error, exit, None, None)
        return status, error, failure

    def _called_a_success(self) -> str:
        """The error that 0.21 printed as a successful answer, "" where there is none."""
        said = self.output()
        only_the_result = said != self.reader.answer and _own_error(said, billed=True) == 0
        return self.reader.failed_with or (said.strip() if only_the_result else "")

    def rejected(self, error: str, exit: ProcessExit) -> bool:
        """It says so on stderr and nothing else. A refused login comes under an id of its own and is no evidence."""
        return self.says_gone(error, exit)

    def classified(self, error: str, exit: ProcessExit, status: int | None, code: str | None) -> FailureDetail:
        api, cause = _API_ERROR.match(error), _CAUSE.search(error)
        if status is None:
            status = next((int(found[n]) for found, n in ((api, 1), (cause, 2)) if found and found[n]), None)
        found = super().classified(error, exit, status, code or (cause[1] if cause else None))
        if found.reason is FailureReason.UNKNOWN and _DROPPED.search(error):
            return replace(found, reason=FailureReason.NETWORK)
        if found.reason in (FailureReason.UNKNOWN, FailureReason.PROCESS) and exit.code in _BY_EXIT_STATUS:
            return replace(found, reason=_BY_EXIT_STATUS[exit.code])
        return found

    def _mcp_file(self, options: ExecOptions) -> list[FileWrite]:
        if options.mcp_config is None:
            return []
        return [FileWrite(self.scratch_file("mcp.json"), json.dumps({"mcpServers": {}, **options.mcp_config}).encode())]
