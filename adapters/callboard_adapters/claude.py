"""Claude Code (`claude -p` with stream JSON both ways).

Verified on 2.1.332, tried on 2.0.0, 2.0.77, 2.1.100 and 2.1.220; the recordings under
`tests/fixtures/transcripts/claude` are the first one's own output. 2.0 announces no retries, so nothing ends a refused
login early there. Settings, read from the environment given to the backend:

`CALLBOARD_CLAUDE_AUTH_RETRIES`  after how many announced retries of a refused login the run is ended (default 2, about
                                 one second; 0 leaves it to the CLI, which goes on for three minutes).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from callboard_adapters import failures
from callboard_adapters.base import FileWrite, Launch, Output, ProcessExit, RunContext, Stop, Timer, TurnEnded
from callboard_adapters.capabilities import ArgMode, ArgStyle, Capabilities, McpVia, ModelSource, PromptVia, UsageVia
from callboard_adapters.dialects.json_values import anthropic_usage, count, word
from callboard_adapters.dialects.stream_json import StreamJson
from callboard_adapters.dialects.stream_json_adapter import StreamJsonAdapter
from callboard_adapters.dialects.stream_json_input import user_message
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import FailureDetail, Message, MessageType, TokenUsage, add_usage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from callboard_wire.providers import models_of

AUTH_RETRIES_SETTING = "CALLBOARD_CLAUDE_AUTH_RETRIES"
_AUTH_RETRIES = 2
_BACKGROUND_WAIT = 120.0  # seconds for background agents to come home after a result, before stdin is closed on them
_TICKS = 10**10  # per US dollar
_STATUS_IN_WORDS = re.compile(r"\bAPI Error: ([45]\d\d)\b")
_VAGUE = ("unknown", "invalid_request", "server_error")
_LEVEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_BLOCKED = {
    "-p": ArgMode.STANDALONE,
    "--print": ArgMode.STANDALONE,
    "--output-format": ArgMode.VALUE,
    "--input-format": ArgMode.VALUE,
    "--permission-mode": ArgMode.VALUE,
    "--permission-prompt-tool": ArgMode.VALUE,
    "--mcp-config": ArgMode.VALUE,
    "--effort": ArgMode.VALUE,
    "--resume": ArgMode.OPTIONAL,
    "-r": ArgMode.OPTIONAL,
    "--continue": ArgMode.STANDALONE,
    "-c": ArgMode.STANDALONE,
    "--session-id": ArgMode.VALUE,
    "--help": ArgMode.STANDALONE,
    "-h": ArgMode.STANDALONE,
    "--version": ArgMode.STANDALONE,
    "-v": ArgMode.STANDALONE,
}
_VALUES = frozenset(
    {
        "--model",
        "--fallback-model",
        "--allowedTools",
        "--allowed-tools",
        "--disallowedTools",
        "--disallowed-tools",
        "--tools",
        "--add-dir",
        "--append-system-prompt",
        "--system-prompt",
        "--settings",
        "--setting-sources",
        "--agent",
        "--agents",
        "--plugin-dir",
        "--betas",
        "--json-schema",
        "--max-turns",
        "--max-budget-usd",
    }
)


class _Reader(StreamJson):
    """Claude's own: it may keep working after a result, and retries a refused login for three minutes."""

    needs_a_person = ("AskUserQuestion",)

    def __init__(self) -> None:
        super().__init__()
        self.auth_retries = _AUTH_RETRIES

    def on_result(self, event: dict[str, Any]) -> Sequence[Output]:
        if self.background and not event.get("is_error"):
            # With stdin open the CLI waits for its background agents and prints another result; closing it kills them.
            notice = Message(MessageType.STATUS, f"waiting for background work: {self.background}", status="running")
            return [notice, Timer("background", _BACKGROUND_WAIT)]
        return [TurnEnded(), Timer("background", None)]

    def on_retry(self, event: dict[str, Any]) -> Sequence[Output]:
        refused = failures.classify("", http_status=self.api_status, provider_code=self.api_code)
        if refused.reason is not FailureReason.AUTH or not self.auth_retries or self.retries < self.auth_retries:
            return ()
        text = f"login refused: {self.api_text}; ended early ({AUTH_RETRIES_SETTING}={self.auth_retries})"
        return [Stop(failures.classify(text, http_status=self.api_status, provider_code=self.api_code))]


class ClaudeAdapter(StreamJsonAdapter):
    capabilities = Capabilities(
        name="claude",
        executable="claude",
        launch_header="claude (stream-json)",
        prompt=PromptVia.STDIN_LINE,
        minimum_version="2.0.0",
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        graceful_cancel=True,
        mcp=McpVia.FILE,
        usage=UsageVia.STREAM,
        cost=True,
        thinking_levels=("low", "medium", "high", "xhigh", "max"),
        model_source=ModelSource.STATIC,
        models=models_of("claude"),
        max_turns=True,
        context_file="CLAUDE.md",
        skills_folder=".claude/skills",
        user_skills_folder="~/.claude/skills",
        blocked_args=_BLOCKED,
        value_args=_VALUES,
        arg_style=ArgStyle(attached_short=True, abbreviations=False),
        relevant_env=("ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "IS_SANDBOX", AUTH_RETRIES_SETTING),
        login_env=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK"),
        login_files=("~/.claude/.credentials.json", "~/.claude.json"),
        config_files=("~/.claude/settings.json",),
        login_hint="run `claude` once and log in, or set ANTHROPIC_API_KEY",
    )
    reader_class = _Reader
    reader: _Reader

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.resumed = False

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        self._refuse_root()
        self.begin(options)
        self.resumed = bool(options.resume_session_id)
        self.reader.auth_retries = self._auth_retries()
        settings = str(options.claude_settings_path or "")
        user, notices = self.user_args(options, {"--settings": ArgMode.VALUE} if settings else None)
        args = ["-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"]
        # Headless, a question to the user is answered with nothing and the agent goes on guessing.
        args += ["--permission-mode", "bypassPermissions", "--disallowedTools", "AskUserQuestion"]
        files = self._mcp_file(options)
        if files:
            args.append("--strict-mcp-config")
        args += self.flag("--model", options.model)
        args += self._effort(options, notices)
        if options.max_turns and options.max_turns > 0:
            args += ["--max-turns", str(options.max_turns)]
        args += self.flag("--resume", options.resume_session_id)
        args += user
        args += self.flag("--settings", settings)
        if files:
            args += ["--mcp-config", files[0].path]
        # Background work dies with the turn here, so tools are told to stay in the foreground.
        env = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
        if options.max_tokens and options.max_tokens > 0:
            env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(options.max_tokens)
        env = {name: value for name, value in env.items() if name not in self.context.env}  # the agent's own win
        return Launch(args, env=env, files=files, stdin=user_message(prompt), keep_stdin=True, notices=notices)

    def tick(self, timer: str) -> Sequence[Output]:
        return [TurnEnded()] if timer == "background" else super().tick(timer)

    def usage(self) -> dict[str, TokenUsage]:
        """This run's tokens. On resume `modelUsage` and `total_cost_usd` are the whole session's and are not used."""
        results = self.reader.results
        per_model = _per_model([r.get("model_usage_since_last_result") for r in results])
        if not per_model and results and not self.resumed:
            per_model = _per_model([results[-1].get("modelUsage")])
        stated = [anthropic_usage(r["usage"]) for r in results if isinstance(r.get("usage"), dict)]
        # Older CLIs count on from one result to the next, so the largest is the run's.
        whole = max(stated, key=lambda u: u.tokens, default=TokenUsage())
        # The table knows of more than the total (interrupted turns, small helpers): with less, a field was renamed.
        if whole.tokens > sum(u.tokens for u in per_model.values()):
            return {word(results[-1].get("model")) or self.reader.model or "unknown": whole}
        return per_model or self.reader.usage_by_message()

    def classified(self, error: str, exit: ProcessExit, status: int | None, code: str | None) -> FailureDetail:
        """Up to 2.1.1xx the status is in the sentence alone, and the name beside it may be as vague as "unknown"."""
        told = _STATUS_IN_WORDS.search(error) if status is None else None
        if told is not None:
            found = super().classified(error, exit, int(told[1]), None if code in _VAGUE else code)
            return replace(found, provider_code=code)
        if status is None and code in _VAGUE and "selected model" in error and "may not exist" in error:
            return FailureDetail(FailureReason.MODEL, error, provider_code=code)
        return super().classified(error, exit, status, code)

    # pieces of the command line --------------------------------------------------

    def _refuse_root(self) -> None:
        sandboxed = self.context.env.get("IS_SANDBOX", "").strip().lower() in ("1", "true", "yes", "on")
        if self.context.euid == 0 and not sandboxed:
            raise LaunchRefused(
                "claude does not run unattended as root",
                provider="claude",
                repair="use an ordinary user, or set IS_SANDBOX=1 where root is confined anyway",
                failure_reason=FailureReason.MISSING_CONFIG,
            )

    def _auth_retries(self) -> int:
        setting = self.context.env.get(AUTH_RETRIES_SETTING, "")
        return int(setting) if setting.isdecimal() else _AUTH_RETRIES

    def _effort(self, options: ExecOptions, notices: list[Message]) -> list[str]:
        level = options.thinking_level
        if not level:
            return []
        if not _LEVEL.fullmatch(level):
            notices.append(Message(MessageType.LOG, "ignored a thinking level that is no word", level="warn"))
            return []
        return ["--effort", level]

    def _mcp_file(self, options: ExecOptions) -> list[FileWrite]:
        """None inherits the user's servers; anything else, also `{}`, is exactly the set the agent gets."""
        if options.mcp_config is None:
            return []
        config = dict(options.mcp_config)
        config.setdefault("mcpServers", {})  # the CLI refuses a file without the key
        return [FileWrite(self.scratch_file("mcp.json"), json.dumps(config).encode())]


def _per_model(tables: Sequence[Any]) -> dict[str, TokenUsage]:
    """The sum of `modelUsage` tables; {} when any is missing, so that half a truth is never taken for the whole."""
    total: dict[str, TokenUsage] = {}
    for table in tables:
        if not isinstance(table, dict):
            return {}
        for model, used in table.items():
            if isinstance(used, dict) and model:
                add_usage(total, model, _model_usage(used))
    return total


def _model_usage(used: dict[str, Any]) -> TokenUsage:
    cost = used.get("costUSD")
    return TokenUsage(
        count(used.get("inputTokens")),
        count(used.get("outputTokens")),
        count(used.get("cacheReadInputTokens")),
        count(used.get("cacheCreationInputTokens")),
        round(cost * _TICKS) if isinstance(cost, int | float) and 0 <= cost < 1e6 else None,
    )
