"""Hermes Agent (`hermes acp`, from the `hermes-agent[acp]` package).

Verified on 0.19.0; the recordings under `tests/fixtures/transcripts/hermes` are its own output. It sends a provider's
refusal as the agent's words and ends the turn as if all were well, replays the history on `session/resume`, and
answers the resume of a session it does not know with a new one, which only its `_meta` betrays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from callboard_adapters import failures, redact
from callboard_adapters.base import Output, ProcessExit
from callboard_adapters.capabilities import ArgMode, Capabilities, McpVia, ModelSource, PromptVia, UsageVia
from callboard_adapters.dialects.acp import AcpClient
from callboard_adapters.dialects.acp_adapter import TIMEOUTS, AcpAdapter
from callboard_adapters.dialects.acp_names import tool_name
from callboard_adapters.dialects.acp_offer import first_text, mapping
from callboard_adapters.dialects.acp_tools import Announces
from callboard_adapters.dialects.acp_vendor import Ask
from callboard_adapters.dialects.json_rpc import method_key
from callboard_adapters.messages import FailureDetail, Message, MessageType, RunStatus
from callboard_wire.failures import FailureReason

_ERROR_TEXT = re.compile(
    r"\s*(?:HTTP \d{3}: |API call failed after \d+ retr|Context length exceeded \(|Request payload too large \(413\)"
    r"|⚠️?\s*(?:No reply: |The model declined to respond)|\(empty\)\s*$)"
)
_NO_REPLY = re.compile(r"⚠️?\s*No reply|\(empty\)")  # 0.18, and before it
_CUT_SHORT = re.compile(
    r"Model declined to respond \(finish_reason=\w+\)|Response truncated \(finish_reason='length'\).*"
    r"|Streaming failed after partial delivery, not retrying: .*"
)
"""What it says on stderr when an answer did not reach its end."""
_DELEGATED = re.compile(r'"status": ?"dispatched", ?"mode": ?"background"')
_LEFT_BEHIND = (
    "hermes handed work to agents in the background: over ACP their results come to nobody once the turn has ended, "
    "and their tokens are in no bill"
)
_STATUS = re.compile(r"(?:HTTP |too large \()(\d{3})")
_LINEAGE = ("currentHermesSessionId", "rootHermesSessionId", "parentHermesSessionId")


class _Hermes(AcpClient):
    announces = Announces.EVERYTHING

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        self.genuine = True  # Hermes itself, not another program of its family
        self._delegated = False

    def receive(self, line: bytes) -> Sequence[Output]:
        outputs = super().receive(line)
        for output in outputs:
            if type(output) is not Message:
                continue
            if output.type is MessageType.TEXT and _ERROR_TEXT.match(output.content):
                output.type = MessageType.ERROR
            elif (
                output.type is MessageType.TOOL_RESULT
                and not self._delegated
                and _DELEGATED.search(output.output[:400])
            ):
                self._delegated = True
                outputs = [*outputs, Message(MessageType.LOG, _LEFT_BEHIND, level="warn")]
        return outputs

    def landed(self, fields: dict[str, Any]) -> str:
        """Its own word for which session this is. After a compression the id changes and the lineage names the old."""
        provenance = mapping(mapping(mapping(fields.get("_meta")).get("hermes")).get("sessionProvenance"))
        opened = first_text((fields.get("sessionId"), provenance.get("acpSessionId"))) or self.ask.resume
        known = [opened, *(provenance.get(key) for key in _LINEAGE)]
        return opened if self.ask.resume in known else ""

    def takes_remote_mcp(self) -> bool:
        return self.genuine and not self.offer.remote_mcp_stated

    def tool_name(self, title: str, kind: str, name: str) -> str:
        return tool_name(title, kind, name)


class HermesAdapter(AcpAdapter):
    capabilities = Capabilities(
        name="hermes",
        executable="hermes",
        launch_header="hermes acp",
        prompt=PromptVia.RPC,
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        graceful_cancel=True,
        mcp=McpVia.SESSION_PARAM,
        usage=UsageVia.STREAM,
        model_source=ModelSource.PROTOCOL,
        model_flag=False,
        context_file="AGENTS.md",
        skills_folder=None,  # only its own home is searched
        user_skills_folder="~/.hermes/skills",
        tools_leave_group=True,
        explicit_handshake=True,
        blocked_args={"acp": ArgMode.STANDALONE},
        timeouts=TIMEOUTS,
        relevant_env=("HERMES_HOME", "HERMES_YOLO_MODE", "OPENROUTER_API_KEY"),
        login_files=("~/.hermes/config.yaml", "~/.hermes/.env"),
        config_files=("~/.hermes/config.yaml",),
        login_hint="run `hermes setup`, or `hermes model` to choose a provider",
    )
    client_class = _Hermes
    _cut_short = ""  # why the model's answer did not reach its end, as stderr tells it
    # It reads AGENTS.md itself; the same text twice was seen to trip its safety filter.
    inlines_system_prompt = False

    def environment(self) -> Mapping[str, str]:
        return {"HERMES_YOLO_MODE": "1"}  # its own prompts before a dangerous command; edits still ask over ACP

    def prepare(self, client: AcpClient) -> None:
        assert isinstance(client, _Hermes)
        client.genuine = PurePath(self.context.executable).stem == "hermes" and not self.context.launch_prefix
        if not client.genuine:
            client.updates.tools.announces = Announces.INPUT_LATER

    def receive_stderr(self, line: bytes) -> Sequence[Output]:
        outputs = super().receive_stderr(line)
        told = any(type(o) is Message and o.level != "debug" for o in outputs)  # its INFO records quote prompts
        found = _CUT_SHORT.search(line.decode("utf-8", "replace")) if told else None
        if found:
            self._cut_short = redact.diagnostic(found[0])
        return outputs

    def output(self, status: RunStatus) -> str:
        """Nothing of a turn that ended as failed: its words are the provider's refusal. What was cut off from outside
        is kept as far as it came."""
        said = super().output(status)
        spoils = status is RunStatus.FAILED and (self.client.answered or _ERROR_TEXT.match(said))
        return "" if spoils else said

    def turn_failure(self, exit: ProcessExit) -> FailureDetail | None:
        client, said = self.client, self.client.updates.answer.strip()
        if method_key(client.stop_reason) == "refusal" and client.resumed and not client.updates.did_something:
            # Older versions answer the resume of a lost session without a trace, and its prompt with this.
            client.rejected = True
            text = f"session not found: hermes refused the prompt to session {client.ask.resume} without a word"
            return FailureDetail(FailureReason.UNKNOWN, text)
        error_text = said if _ERROR_TEXT.match(said) else ""
        if "usage" in client.result:
            # A model that answers nothing is billed and reported in words.
            if _NO_REPLY.match(error_text):
                return FailureDetail(FailureReason.EMPTY_OUTPUT, f"the model returned empty output: {error_text}")
            return super().turn_failure(exit)
        announced = self.stderr.provider_error if self.stderr.final or self.stderr.attempt else ""
        # Every turn that reached its end states its usage; without it, whatever was said is not the answer.
        states_usage = client.offer.agent.startswith("hermes-agent")
        if not (error_text or announced or states_usage):
            return super().turn_failure(exit)
        return self._provider_failure(error_text or announced or self._cut_short or said, f"{error_text} {announced}")

    def _provider_failure(self, detail: str, error: str) -> FailureDetail:
        status = _STATUS.search(error)
        code = self.stderr.provider_code if status else None
        lost = "hermes ended its turn without usage: the model's answer was lost"
        text = f"hermes provider error: {detail}" if detail else lost
        found = failures.classify(text, http_status=int(status.group(1)) if status else None, provider_code=code)
        if found.reason is FailureReason.UNKNOWN:
            return FailureDetail(FailureReason.NETWORK, text, found.http_status, code)
        return found
