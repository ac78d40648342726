"""Kimi Code (`kimi acp`).

Verified on 2.1.0; the recordings under `tests/fixtures/transcripts/kimi` are its own output. Over ACP it states no
usage and answers `end_turn` after a refused quota, an outage and an empty answer alike. Its own log of the session,
`<KIMI_CODE_HOME>/sessions/<workspace>/<session id>/agents/<agent>/wire.jsonl`, has both and is read after the exit.
Before about 0.40 it did not say how a turn ended: that is a line of `logs/kimi-code.log` beside the agents there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from callboard_adapters import failures
from callboard_adapters.base import FileContent, Output, ProcessExit, ReadFiles, Request, RunContext
from callboard_adapters.capabilities import ArgMode, Capabilities, McpVia, ModelSource, PromptVia, UsageVia
from callboard_adapters.dialects.acp import AcpClient
from callboard_adapters.dialects.acp_adapter import TIMEOUTS, AcpAdapter
from callboard_adapters.dialects.acp_offer import mapping, text
from callboard_adapters.dialects.acp_tools import Announces
from callboard_adapters.dialects.json_values import count
from callboard_adapters.messages import FailureDetail, RunStatus, TokenUsage, add_usage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason

_BEFORE, _AFTER, _WORDS = "wire-before", "wire", "wire-words"
_TOLD = "log"
_MAX_AGENTS = 64  # sub-agents write files of their own
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MARKS = (b'"usage.record"', b'"turn.ended"', b'"turn.step.retrying"', b'"attempt":"')
_MAIN = "/agents/main/"
_FAILED_TURN = b"turn ended with failed reason"
_ERROR_OF_IT = re.compile(r'error=("\{.*\}")')
_REASONS = {
    "context.overflow": FailureReason.CONTEXT_OVERFLOW,
    "provider.filtered": FailureReason.AGENT_BLOCKED,  # the model's own or its provider's refusal
}


class _Kimi(AcpClient):
    announces = Announces.STREAMED_INPUT


class KimiAdapter(AcpAdapter):
    capabilities = Capabilities(
        name="kimi",
        executable="kimi",
        launch_header="kimi acp",
        prompt=PromptVia.RPC,
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        graceful_cancel=True,
        mcp=McpVia.SESSION_PARAM,
        usage=UsageVia.SIDE_FILE,
        thinking_levels=("off", "on", "low", "medium", "high", "max"),
        model_source=ModelSource.PROTOCOL,
        model_flag=False,
        system_prompt=True,
        context_file="AGENTS.md",
        skills_folder=".kimi-code/skills",
        user_skills_folder="~/.kimi-code/skills",
        tools_leave_group=True,
        explicit_handshake=True,
        blocked_args={"acp": ArgMode.STANDALONE},
        timeouts=TIMEOUTS,
        relevant_env=("KIMI_CODE_HOME", "KIMI_MODEL_NAME", "KIMI_MODEL_BASE_URL", "KIMI_MODEL_API_KEY"),
        login_env=("KIMI_MODEL_API_KEY",),
        login_files=("~/.kimi-code/credentials/kimi-code.json",),
        config_files=("~/.kimi-code/config.toml",),
        login_hint="run `kimi login`",
    )
    client_class = _Kimi

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._offsets: dict[str, int] = {}
        self._logged: dict[str, TokenUsage] = {}
        self._turn_end: dict[str, Any] = {}
        self._retried = False
        self._last_step = ("", "")  # (id, its words)

    # the log -------------------------------------------------------------------------

    def before_launch(self, options: ExecOptions) -> Sequence[Request]:
        resumed = options.resume_session_id or ""
        patterns = [*self._wire(resumed), *self._log(resumed)]
        return [ReadFiles(_BEFORE, patterns, max_files=_MAX_AGENTS, max_bytes=0)] if patterns else ()

    def after_exit(self, exit: ProcessExit) -> Sequence[Request]:
        patterns = self._wire(self.client.session_id)
        if not patterns or not self.client.prompted:
            return ()
        return [ReadFiles(_AFTER, patterns, max_files=_MAX_AGENTS, offsets=self._offsets, lines_with=_MARKS)]

    def files(self, purpose: str, found: Sequence[FileContent]) -> Sequence[Output]:
        if purpose == _BEFORE:
            # What is there already was billed to earlier runs.
            self._offsets = {file.path: file.size for file in found}
            return ()
        if purpose == _TOLD:
            for line in (line for file in found for line in file.data.splitlines()):
                self._read_log(line)
            return ()
        for file in found:
            for line in file.data.splitlines():
                self._read(line, main=_MAIN in file.path)
        if purpose != _AFTER:
            return ()
        return [*self._where_the_answer_begins(found), *self._how_it_ended()]

    def _where_the_answer_begins(self, found: Sequence[FileContent]) -> Sequence[Output]:
        if not self._retried:
            return ()
        # A stream that broke off is asked for again and both are sent: only the log knows where the answer begins.
        main = [file.path for file in found if _MAIN in file.path]
        return [ReadFiles(_WORDS, main, tail=True, offsets=self._offsets, lines_with=(b'"content.part"',))]

    def _how_it_ended(self) -> Sequence[Output]:
        if self._turn_end:
            return ()
        log = self._log(self.client.session_id)
        return [ReadFiles(_TOLD, log, tail=True, offsets=self._offsets, lines_with=(_FAILED_TURN,))]

    def _wire(self, session_id: str) -> list[str]:
        return self._in_session(session_id, "agents/*/wire.jsonl")

    def _log(self, session_id: str) -> list[str]:
        return self._in_session(session_id, "logs/kimi-code.log")

    def _in_session(self, session_id: str, name: str) -> list[str]:
        if not _PLAIN_ID.fullmatch(session_id):
            return []  # it becomes part of a path
        home = self.context.env.get("KIMI_CODE_HOME") or f"{self.context.home}/.kimi-code"
        return [f"{home}/sessions/*/{session_id}/{name}"]

    def _read_log(self, line: bytes) -> None:
        """`… WARN  acp: turn ended with failed reason  error="{\\"code\\":…}"`: the error as JSON in a JSON string."""
        found = _ERROR_OF_IT.search(line.decode("utf-8", "replace"))
        try:
            error = from_json(from_json(found[1])) if found else {}
        except (TypeError, ValueError):
            error = {}
        self._turn_end = {"reason": "failed", "error": error}

    def _read(self, line: bytes, *, main: bool) -> None:
        try:
            record = mapping(from_json(line))
        except ValueError:
            return  # the last line of a process that was killed
        kind = record.get("type")
        if kind == "usage.record":
            used = mapping(record.get("usage"))
            read, written = count(used.get("inputCacheRead")), count(used.get("inputCacheCreation"))
            tokens = TokenUsage(count(used.get("inputOther")), count(used.get("output")), read, written)
            add_usage(self._logged, text(record.get("model")) or self.client.model(), tokens)
        elif not main:
            return
        elif kind == "turn.ended":
            self._turn_end = record
        elif kind == "turn.step.retrying" or (kind == "llm.request" and record.get("attempt")):
            self._retried = True
        elif kind == "context.append_loop_event":
            self._read_words(mapping(record.get("event")))

    def _read_words(self, event: dict[str, Any]) -> None:
        part, step = mapping(event.get("part")), text(event.get("stepUuid"))
        if event.get("type") != "content.part" or part.get("type") != "text":
            return
        before = self._last_step[1] if step == self._last_step[0] else ""
        self._last_step = (step, before + text(part.get("text")))

    # the end -------------------------------------------------------------------------

    def usage(self) -> Mapping[str, TokenUsage]:
        return self.client.usage() or self._logged

    def output(self, status: RunStatus) -> str:
        return self._last_step[1].strip("\n") or super().output(status)

    def turn_failure(self, exit: ProcessExit) -> FailureDetail | None:
        reason = self._turn_end.get("reason")
        if reason == "failed":
            return self._logged_failure()
        return None if reason == "completed" else super().turn_failure(exit)

    def _logged_failure(self) -> FailureDetail:
        error = mapping(self._turn_end.get("error"))
        status = mapping(error.get("details")).get("statusCode")
        status = status if type(status) is int else None
        code = text(error.get("code"))
        said = text(error.get("message")) or "the turn failed and kimi's log does not say why"
        detail = f"{code}: {said}" if code else said
        # An empty account is a 429 as well as a full minute is; the error's name tells them apart.
        reason = FailureReason.QUOTA if "Quota" in text(error.get("name")) else _REASONS.get(code)
        if reason is not None:
            return FailureDetail(reason, detail, status, code)
        return failures.classify(detail, http_status=status, provider_code=code)
