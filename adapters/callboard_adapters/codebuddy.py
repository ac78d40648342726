"""CodeBuddy Code (`codebuddy -p` with stream JSON both ways), a relative of Claude Code.

Verified on 2.163.0 and 2.117.0; the recordings under `tests/fixtures/transcripts/codebuddy` are their own output. Where
it differs from claude:

- It exits 0 after everything, also when a signal ended it: only a `result` is a success.
- A refused resume is one `error` event, after which it waits for more input for ever.
- It prints errors as messages of the assistant, under the model's name.
- Cached input is counted in `usage` of messages and results, not in `modelUsage`. `result.usage` is the whole
  session's, `modelUsage` this run's; 2.117 has no `modelUsage`, after a compaction it is all zero, and a call whose
  answer was empty is not in it.
- Where the model says nothing after its last tool, `result.result` repeats what it said before it.
- `--mcp-config` adds servers to the user's own. There is a strict flag; it also drops what the project needs, so it is
  not used and an empty set cannot be enforced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from callboard_adapters import failures
from callboard_adapters.base import FileWrite, Launch, Output, ProcessExit, RunContext, Timer
from callboard_adapters.capabilities import ArgMode, ArgStyle, Capabilities, McpVia, ModelSource, PromptVia, UsageVia
from callboard_adapters.dialects.json_values import count, flatten, uncached_usage, word
from callboard_adapters.dialects.stream_json import StreamJson
from callboard_adapters.dialects.stream_json_adapter import StreamJsonAdapter
from callboard_adapters.dialects.stream_json_input import user_message
from callboard_adapters.messages import FailureDetail, Message, MessageType, RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason

_BLOCKED = {
    "-p": ArgMode.STANDALONE,
    "--print": ArgMode.STANDALONE,
    "--output-format": ArgMode.VALUE,
    "--input-format": ArgMode.VALUE,
    "--permission-mode": ArgMode.VALUE,
    "--mcp-config": ArgMode.VALUE,
    "--strict-mcp-config": ArgMode.STANDALONE,
    "--effort": ArgMode.VALUE,
    "--resume": ArgMode.OPTIONAL,
    "-r": ArgMode.OPTIONAL,
    "--continue": ArgMode.STANDALONE,
    "-c": ArgMode.STANDALONE,
    "--session-id": ArgMode.VALUE,
    "--no-session-persistence": ArgMode.STANDALONE,
    "--acp": ArgMode.STANDALONE,
    "--serve": ArgMode.STANDALONE,
    "--bg": ArgMode.STANDALONE,
    "--background": ArgMode.STANDALONE,
    "--help": ArgMode.STANDALONE,
    "-h": ArgMode.STANDALONE,
    "--version": ArgMode.STANDALONE,
    "-v": ArgMode.STANDALONE,
    "-V": ArgMode.STANDALONE,
}
_VALUES = frozenset(
    {
        "--model",
        "--fallback-model",
        "--allowedTools",
        "--disallowedTools",
        "--tools",
        "--add-dir",
        "--append-system-prompt",
        "--system-prompt",
        "--system-prompt-file",
        "--settings",
        "--setting-sources",
        "--agent",
        "--agents",
        "--plugin-dir",
        "--json-schema",
        "--max-turns",
        "--autocompact",
        "--subagent-permission-mode",
        "--header",
        "-H",
    }
)
_LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")
# They wait for a person whatever the permission mode is, and plan mode cannot be left without one. One argument a
# tool: a comma-joined list matches nothing.
_NEEDS_A_PERSON = ("AskUserQuestion", "EnterPlanMode", "ExitPlanMode")
_OWN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REQUEST = "codebuddy.ai/conversationRequestId"
_MODEL_REQUEST = "codebuddy.ai/modelRequestId"
_HELD = "held"  # timer
_HOLD = 2.0  # seconds; what follows a model's words follows them at once


class _Reader(StreamJson):
    needs_a_person = _NEEDS_A_PERSON

    def __init__(self) -> None:
        super().__init__()
        self._handlers["file-history-snapshot"] = self._handlers["keep_alive"]
        self._told: set[int] = set()  # hashes of the texts of the run's own messages
        self._held: dict[str, Any] | None = None  # a message of which the next event tells whose it is
        self.interrupted = False  # on our wish

    def settle(self, own: bool) -> list[Output]:
        """Let go of the message that was held: as the CLI's `own` words, which are an error, or as the model's."""
        event, self._held = self._held, None
        if event is None:
            return []
        said = self._own_words(event, event["message"], MessageType.ERROR) if own else super()._assistant(event)
        return list(said)

    def _assistant(self, event: dict[str, Any]) -> Sequence[Output]:
        """2.117 signs nothing: its own words are a text under an id of its own that cost nothing. So is what a model
        says before a tool where its provider numbers messages in the same way, and then the tool has the same id."""
        message = event["message"]
        same = self._held is not None and self._held["message"].get("id") == message.get("id")
        before = self.settle(own=not same)
        if not same and self._may_be_its_own(event, message):
            self._held = event
            return [*before, Timer(_HELD, _HOLD)]
        return [*before, *super()._assistant(event)]

    def tick(self, timer: str) -> Sequence[Output]:
        return self.settle(own=True) if timer == _HELD else super().tick(timer)

    def _result(self, event: dict[str, Any]) -> Sequence[Output]:
        return [*self.settle(own=self.interrupted or bool(event.get("is_error"))), *super()._result(event)]

    def _may_be_its_own(self, event: dict[str, Any], message: dict[str, Any]) -> bool:
        content, usage = message.get("content"), message.get("usage")
        return (
            not event.get("_meta")
            and not event.get("parent_tool_use_id")
            and _OWN_ID.fullmatch(word(message.get("id"))) is not None
            and isinstance(content, list)
            and [block.get("type") for block in content if isinstance(block, dict)] == ["text"]
            and not (isinstance(usage, dict) and self.message_usage(usage).tokens)
        )

    def on_result(self, event: dict[str, Any]) -> Sequence[Output]:
        """After a thought the text's own event may be missing: the result is then the first to tell it."""
        said = event.get("result")
        if event.get("is_error") or not isinstance(said, str) or self._was_told(said.strip()):
            return super().on_result(event)
        return [Message(MessageType.TEXT, said), *super().on_result(event)]

    def _was_told(self, said: str) -> bool:
        answer = self.answer.strip()
        return said in answer or bool(answer and answer in said) or hash(said) in self._told

    def _note_answer(self, text: str, message_id: str) -> None:
        self._told.add(hash(text.strip()))
        super()._note_answer(text, message_id)

    def repeats(self, said: str) -> bool:
        """Whether a result only says again what came before the last tool call, after which nothing was said."""
        return not self.answer.strip() and bool(said.strip()) and said.strip() == self.narration.strip()

    def own_words(self, event: dict[str, Any], message: dict[str, Any]) -> MessageType | None:
        """What no model was asked for ("401 Unauthorized", "aborted", "Interrupted by user")."""
        meta = event.get("_meta")
        if isinstance(meta, dict) and _REQUEST in meta and _MODEL_REQUEST not in meta:
            return MessageType.ERROR
        return super().own_words(event, message)

    def tool_failed(self, block: dict[str, Any]) -> bool:
        """A command that failed is `is_error: false`; its exit code is the truth."""
        meta = block.get("_meta")
        raw = meta.get("rawResponse") if isinstance(meta, dict) else None
        raw = raw if isinstance(raw, dict) else {}
        return super().tool_failed(block) or raw.get("exitCode") not in (None, 0) or bool(raw.get("signal"))

    def message_usage(self, usage: dict[str, Any]) -> TokenUsage:
        return uncached_usage(usage)

    def permission(self, request: dict[str, Any]) -> dict[str, Any]:
        """It reads `allowed` and takes an answer without it for a refusal."""
        answer = super().permission(request)
        return {"allowed": answer["behavior"] == "allow", **answer}


class CodebuddyAdapter(StreamJsonAdapter):
    capabilities = Capabilities(
        name="codebuddy",
        executable="codebuddy",
        launch_header="codebuddy (stream-json)",
        prompt=PromptVia.STDIN_LINE,
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        graceful_cancel=True,
        mcp=McpVia.FILE,
        usage=UsageVia.STREAM,
        thinking_levels=_LEVELS,
        model_source=ModelSource.STATIC,
        max_turns=True,
        context_file="CODEBUDDY.md",
        skills_folder=".codebuddy/skills",
        user_skills_folder="~/.codebuddy/skills",
        tools_leave_group=True,
        blocked_args=_BLOCKED,
        value_args=_VALUES,
        arg_style=ArgStyle(attached_short=True, abbreviations=False),
        relevant_env=("CODEBUDDY_BASE_URL", "CODEBUDDY_CONFIG_DIR", "CODEBUDDY_IS_SANDBOX"),
        login_env=("CODEBUDDY_API_KEY",),
        login_files=("~/.codebuddy/models.json",),
        config_files=("~/.codebuddy/models.json",),
        login_hint="run `codebuddy` once and /login, or set CODEBUDDY_API_KEY",
    )
    reader_class = _Reader
    reader: _Reader

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.resumed = False

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        self.begin(options)
        self.resumed = bool(options.resume_session_id)
        user, notices = self.user_args(options)
        args = ["-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]
        # The tool list takes every word up to the next flag, so a flag of ours must follow it.
        args += ["--disallowedTools", *_NEEDS_A_PERSON, "--permission-mode", "bypassPermissions"]
        args += self.flag("--model", options.model)
        args += self._effort(options, notices)
        if options.max_turns and options.max_turns > 0:
            args += ["--max-turns", str(options.max_turns)]
        args += self.flag("--resume", options.resume_session_id)
        args += user
        files = self._mcp_file(options, notices)
        if files:
            args += ["--mcp-config", files[0].path]
        env = {} if "DISABLE_AUTOUPDATER" in self.context.env else {"DISABLE_AUTOUPDATER": "1"}
        return Launch(args, env=env, files=files, stdin=user_message(prompt), keep_stdin=True, notices=notices)

    def usage(self) -> dict[str, TokenUsage]:
        """This run's tokens: `modelUsage`; where that is missing or all zero the messages' sum; on a fresh session the
        result's if it knows of more (calls without a message: empty answers, making room in a full context)."""
        results = self.reader.results
        stated = _per_model(results[-1].get("modelUsage")) if results else {}
        known = stated or self.reader.usage_by_message()
        if not results or self.resumed or not isinstance(results[-1].get("usage"), dict):
            return known
        whole = uncached_usage(results[-1]["usage"])
        if whole.tokens <= sum(u.tokens for u in known.values()):
            return known
        return {next(iter(known), "") or self.reader.model or "unknown": whole}

    def cancel(self) -> Sequence[Output]:
        self.reader.interrupted = True
        return [*self.reader.settle(own=False), *super().cancel()]

    def judge(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        self.reader.settle(own=True)  # its last words, where it died of them: they are part of the error
        return super().judge(exit)

    def output(self) -> str:
        said = super().output()
        return "" if self.reader.repeats(said) else said

    def rejected(self, error: str, exit: ProcessExit) -> bool:
        """It says so, in the one `error` event. Its id is no evidence: every event has one, also of other failures."""
        return self.says_gone(error, exit)

    def evidence(self, result: dict[str, Any]) -> tuple[int | None, str | None]:
        """`errors_info` (since 2.163) names the status; its category, or a system's error code, is the provider's."""
        errors = result.get("errors_info")
        if not (isinstance(errors, list) and errors and isinstance(errors[0], dict)):
            return super().evidence(result)
        first = errors[0]
        status, code = first.get("status"), first.get("code")
        named = code if isinstance(code, str) and code else first.get("category")
        return (status if type(status) is int and status >= 400 else None), flatten(named) or None

    def classified(self, error: str, exit: ProcessExit, status: int | None, code: str | None) -> FailureDetail:
        found = super().classified(error, exit, status, code)
        if status == 429 and failures.from_wording(error) is FailureReason.QUOTA:
            return replace(found, reason=FailureReason.QUOTA)  # an empty account and a busy minute are both a 429
        # Node.js says "aborted" of an answer that broke off; 2.117 says no more than that.
        dropped = (
            error == "aborted"
            or code == "network"
            or (code or "").upper() in ("ECONNRESET", "ECONNREFUSED", "ETIMEDOUT", "ENOTFOUND")
        )
        if dropped and found.reason in (FailureReason.UNKNOWN, FailureReason.SERVER_ERROR):
            return replace(found, reason=FailureReason.NETWORK)  # "502 connection refused": nobody answered at all
        return found

    # pieces of the command line --------------------------------------------------

    def _effort(self, options: ExecOptions, notices: list[Message]) -> list[str]:
        level = options.thinking_level
        if level in _LEVELS:
            return ["--effort", level]
        if level:
            text = f"codebuddy has no thinking level of that name, only {', '.join(_LEVELS)}; ignored"
            notices.append(Message(MessageType.LOG, text, level="warn"))
        return []

    def _mcp_file(self, options: ExecOptions, notices: list[Message]) -> list[FileWrite]:
        if options.mcp_config is None:
            return []
        config = {"mcpServers": {}, **options.mcp_config}
        if not config["mcpServers"]:
            text = "codebuddy still loads the MCP servers of the user and the project: it can only be given more"
            notices.append(Message(MessageType.LOG, text, level="warn"))
        return [FileWrite(self.scratch_file("mcp.json"), json.dumps(config).encode())]


def _per_model(table: Any) -> dict[str, TokenUsage]:
    """What `modelUsage` says was used, {} when that is nothing."""
    used = {
        model: TokenUsage(
            count(u.get("inputTokens")),
            count(u.get("outputTokens")),
            count(u.get("cacheReadInputTokens")),
            count(u.get("cacheCreationInputTokens")),
        )
        for model, u in (table.items() if isinstance(table, dict) else ())
        if isinstance(u, dict)
    }
    return {model: usage for model, usage in used.items() if usage.tokens}
