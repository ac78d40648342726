"""Amp (`amp --execute --stream-json-thinking`, prompt by stdin).

Built from its help text, its published example output and its failures: its agent loop runs on Amp's own server, so no
answer of it could be recorded here. What is known and what follows from it:

- The stream is claude's. In its published example `input_tokens` is the sum of what was read from and written to the
  cache, so the cached part is taken out. Results state no usage.
- Without a key it prints a link on stdout and waits for a pasted code for ever, whatever stdin is: the run is ended.
- Permissions and MCP servers are settings. The run gets a private copy of the user's settings with everything allowed
  and, if servers were given, with those instead of the user's.
- A model cannot be chosen, only a mode that implies one: the model is passed as `--mode`.
- How it refuses an unknown thread was never seen, so no refusal is recognised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from callboard_adapters.base import (
    FileContent,
    FileWrite,
    Launch,
    Output,
    ProcessExit,
    ReadFiles,
    Request,
    RunContext,
    Stop,
)
from callboard_adapters.capabilities import ArgMode, ArgStyle, Capabilities, McpVia, ModelSource, PromptVia, UsageVia
from callboard_adapters.dialects.json_values import uncached_usage
from callboard_adapters.dialects.stream_json import StreamJson
from callboard_adapters.dialects.stream_json_adapter import StreamJsonAdapter
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import FailureDetail, Message, MessageType, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason

_BLOCKED = {
    "-x": ArgMode.OPTIONAL,
    "--execute": ArgMode.OPTIONAL,
    "-ox": ArgMode.STANDALONE,
    "--orb-execute": ArgMode.STANDALONE,
    "--executor": ArgMode.VALUE,
    "--no-tui": ArgMode.STANDALONE,
    "--stream-json": ArgMode.STANDALONE,
    "--stream-json-thinking": ArgMode.STANDALONE,
    "--stream-json-input": ArgMode.STANDALONE,
    "--settings-file": ArgMode.VALUE,
    "--mcp-config": ArgMode.VALUE,
    "-V": ArgMode.STANDALONE,
    "-v": ArgMode.STANDALONE,
    "--version": ArgMode.STANDALONE,
    "-h": ArgMode.STANDALONE,
    "--help": ArgMode.STANDALONE,
}
_VALUES = frozenset(
    {
        "--visibility",
        "--log-level",
        "--log-file",
        "-m",
        "--mode",
        "--features",
        "--attach",
        "--orb-size",
        "--title",
        "-l",
        "--label",
        "--runner-dir",
    }
)
_LOGIN_FLOW = re.compile(rb"No API key found|Starting login flow|/auth/cli-login")
_NO_LOGIN = "amp is not logged in: it asked for a login instead of working"
_REFUSED = re.compile(r"invalid or missing api key|run 'amp login'", re.IGNORECASE)
_UNREACHABLE = re.compile(r"couldn't connect to the amp server", re.IGNORECASE)
_SERVER_SAID = re.compile(r"API request for \w+ failed: ([45]\d\d)\b")

_STRING = r'("(?:[^"\\]|\\.)*")'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMA_TOO_MANY = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")


class _Reader(StreamJson):
    def message_usage(self, usage: dict[str, Any]) -> TokenUsage:
        return uncached_usage(usage)


class AmpAdapter(StreamJsonAdapter):
    capabilities = Capabilities(
        name="amp",
        executable="amp",
        launch_header="amp -x (stream-json)",
        prompt=PromptVia.STDIN_EOF,
        resume=True,
        early_session_id=True,
        mcp=McpVia.CONFIG,
        usage=UsageVia.STREAM,
        model_source=ModelSource.STATIC,
        context_file="AGENTS.md",
        skills_folder=".agents/skills",
        user_skills_folder="~/.config/amp/skills",
        runs_offline=False,
        blocked_args=_BLOCKED,
        value_args=_VALUES,
        arg_style=ArgStyle(attached_short=True, abbreviations=False),
        relevant_env=("AMP_URL", "AMP_SETTINGS_FILE"),
        login_env=("AMP_API_KEY",),
        login_files=("~/.local/share/amp/secrets.json",),
        config_files=("~/.config/amp/settings.json",),
        login_hint="run `amp login`, or set AMP_API_KEY",
    )
    reader_class = _Reader

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.settings = b""
        self.asked_to_log_in = False

    def before_launch(self, options: ExecOptions) -> Sequence[Request]:
        own = self.context.env.get("AMP_SETTINGS_FILE") or f"{self.context.home}/.config/amp/settings.json"
        return [ReadFiles("settings", [own], max_files=1)]

    def files(self, purpose: str, found: Sequence[FileContent]) -> Sequence[Output]:
        self.settings = found[-1].data if found else b""
        return ()

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        if not prompt.strip():
            raise LaunchRefused(
                "amp does not run without a prompt", provider="amp", failure_reason=FailureReason.API_INVALID_REQUEST
            )
        self.begin(options)
        self.asked_to_log_in = False
        user, notices = self.user_args(
            options, {"--mode": ArgMode.VALUE, "-m": ArgMode.VALUE} if options.model else None
        )
        settings = self._settings(options, notices)
        if options.max_turns:
            notices.append(Message(MessageType.LOG, "amp has no limit on turns; ignored", level="warn"))
        # The id stands alone before the flags; a leading "-" is refused like a flag's value.
        args = ["threads", *self.flag("continue", self.requested)] if self.requested else []
        # `--execute` takes an optional message: a flag must follow it, the prompt comes on stdin.
        args += ["--execute", "--stream-json-thinking", "--settings-file", settings.path]
        args += self.flag("--mode", options.model)
        return Launch([*args, *user], files=[settings], stdin=prompt.encode(), notices=notices)

    def receive(self, line: bytes) -> Sequence[Output]:
        if not self.reader.session_id and not self.asked_to_log_in and _LOGIN_FLOW.search(line):
            self.asked_to_log_in = True
            # What it prints goes no further: the link holds a token.
            return [Stop(FailureDetail(FailureReason.AUTH, f"{_NO_LOGIN}; {self.capabilities.login_hint}"))]
        return () if self.asked_to_log_in else super().receive(line)

    def cancel(self) -> Sequence[Output]:
        return ()  # its input has ended

    def rejected(self, error: str, exit: ProcessExit) -> bool:
        return False

    def classified(self, error: str, exit: ProcessExit, status: int | None, code: str | None) -> FailureDetail:
        said = _SERVER_SAID.search(error)
        found = super().classified(error, exit, int(said[1]) if said and status is None else status, code)
        if _REFUSED.search(error):
            return replace(found, reason=FailureReason.AUTH)
        if _UNREACHABLE.search(error):
            return replace(found, reason=FailureReason.NETWORK)
        return found

    def _settings(self, options: ExecOptions, notices: list[Message]) -> FileWrite:
        """The user's settings with what a run that nobody watches needs. May hold secrets: private, and gone after."""
        settings = _object(self.settings)
        if settings is None:
            text = "amp's settings file is no JSON object; this run does without it"
            notices.append(Message(MessageType.LOG, text, level="warn"))
            settings = {}
        settings["amp.dangerouslyAllowAll"] = True
        if options.mcp_config is not None:
            settings["amp.mcpServers"] = options.mcp_config.get("mcpServers") or {}
        return FileWrite(self.scratch_file("amp-settings.json"), json.dumps(settings).encode())


def _object(data: bytes) -> dict[str, Any] | None:
    """The settings: JSON, or JSON with comments and commas too many, as editors leave it."""
    text = data.decode("utf-8", "replace")
    if not text.strip():
        return {}
    for candidate in (text, _COMMA_TOO_MANY.sub(_kept, _COMMENT.sub(_kept, text))):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else None
    return None


def _kept(found: re.Match[str]) -> str:
    return found[1] or ""
