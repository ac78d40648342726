"""How an ACP run is launched and judged at its end: shared by hermes, kimi, kiro, qoder, traecli and grok.

"It ended its turn" is no success by itself: agents answer `end_turn` after a refused login, a full quota and an outage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from callboard_adapters import failures, redact
from callboard_adapters.base import Adapter, Launch, Outcome, Output, ProcessExit, RunContext
from callboard_adapters.capabilities import Timeouts
from callboard_adapters.dialects import acp_mcp
from callboard_adapters.dialects.acp import PROMPT, AcpClient
from callboard_adapters.dialects.acp_stderr import Stderr, without_echoes
from callboard_adapters.dialects.acp_vendor import Ask
from callboard_adapters.dialects.json_rpc import method_key
from callboard_adapters.messages import FailureDetail, RunStatus, TokenUsage, Watchdog
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason

HANDSHAKE = 60.0
"""Seconds for each request before the prompt. Agents start the user's MCP servers in `session/new`."""
TIMEOUTS = Timeouts(handshake=HANDSHAKE)
_PRINTED = 500  # characters of what is kept of other output
_TROUBLE = re.compile(
    "error|fail|abort|time.?out|cancel|interrupt|limit|exceed|max|block|denied|reject|crash|kill", re.I
)
_TURN_DONE = frozenset({"endturn", "maxtokens", "refusal", ""})


class AcpAdapter(Adapter):
    """Subclasses name their arguments and client, and override the parts of `judge` that differ."""

    client_class: ClassVar[type[AcpClient]] = AcpClient
    arguments: ClassVar[tuple[str, ...]] = ("acp",)
    inlines_system_prompt: ClassVar[bool] = True

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.client = self.client_class(Ask("", context.cwd))
        self.stderr = Stderr()
        self._printed = ""  # beside the protocol

    # the driver's calls --------------------------------------------------------------

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        servers, notices = acp_mcp.servers(options.mcp_config, self.capabilities.name)
        user, dropped = self.user_args(options)
        ask = Ask(
            prompt=prompt,
            cwd=self.context.cwd,
            system=(options.system_prompt or "") if self.inlines_system_prompt else "",
            expected=options.resume_expected,
            model=options.model or "",
            effort=self.effort(options),
            resume=options.resume_session_id or "",
            fresh=self.client.fresh,  # of the process before, when this is another start
            servers=tuple(servers),
        )
        self.client = self.client_class(ask)
        self.prepare(self.client)
        self.stderr = Stderr()
        self._printed = ""
        return Launch(
            self.command_line(options, user),
            env=self.environment(),
            stdin=self.client.start(),
            keep_stdin=True,
            notices=[*notices, *dropped],
        )

    def receive(self, line: bytes) -> Sequence[Output]:
        parser = self.client.rpc.parser
        noise = parser.noise
        outputs = self.client.receive(line)
        if parser.noise > noise and len(self._printed) < _PRINTED:
            shown = redact.diagnostic(line.decode("utf-8", "replace").strip())
            self._printed = f"{self._printed} {shown}".strip()[:_PRINTED]
        return outputs

    def receive_stderr(self, line: bytes) -> Sequence[Output]:
        return self.stderr.take(line)

    def tick(self, timer: str) -> Sequence[Output]:
        return self.client.tick(timer)

    def ran_out(self, dog: Watchdog) -> Sequence[Output]:
        return self.client.ran_out(dog)

    def cancel(self) -> Sequence[Output]:
        return self.client.cancel()

    def noise(self) -> tuple[int, int]:
        return self.client.rpc.parser.noise, self.client.rpc.parser.invalid_utf8

    def finish(self, exit: ProcessExit) -> Outcome:
        status, error, failure = self.judge(exit)
        client = self.client
        rejected = client.rejected and status is RunStatus.FAILED
        return Outcome(
            status=status,
            output=self.output(status),
            error=error,
            failure=failure,
            session_id=self._session_id(rejected),
            resume_rejected=rejected,
            usage=self.usage(),
        )

    # what differs ----------------------------------------------------------------------

    def command_line(self, options: ExecOptions, user: list[str]) -> list[str]:
        return [*self.arguments, *user]

    def environment(self) -> Mapping[str, str]:
        return {}

    def effort(self, options: ExecOptions) -> str:
        """The thinking level to ask for in the protocol, "" where the command line takes it."""
        return options.thinking_level or ""

    def prepare(self, client: AcpClient) -> None:
        """Give the new process's client what its vendor needs of the world."""

    def usage(self) -> Mapping[str, TokenUsage]:
        return self.client.usage()

    def output(self, status: RunStatus) -> str:
        """The answer, as far as it came."""
        return self.client.updates.answer.strip("\n")

    def turn_failure(self, exit: ProcessExit) -> FailureDetail | None:
        """Why a turn that ended in the ordinary way failed nevertheless, None when it did not."""
        updates = self.client.updates
        if updates.did_something or self.client.usage():
            return None
        name = self.capabilities.name
        said = self.stderr.provider_error
        text = f"{name} ended its turn without a word, a tool call or any usage: it returned empty output"
        if not said:
            return FailureDetail(FailureReason.EMPTY_OUTPUT, text)
        found = failures.classify(said)
        vague = found.reason is FailureReason.UNKNOWN
        return FailureDetail(FailureReason.EMPTY_OUTPUT if vague else found.reason, f"{text}; {name} stderr: {said}")

    # the parts -------------------------------------------------------------------------

    def judge(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        """(status, error, failure) of the last process."""
        client = self.client
        if client.error is not None:
            return RunStatus.FAILED, client.error.detail, client.error
        if not client.answered:
            return self._cut_off(exit)
        reason = method_key(client.stop_reason)
        if reason in ("cancelled", "canceled"):
            return RunStatus.ABORTED, "the agent's side cancelled the turn", None
        if reason == "maxturnrequests":
            return _failed(FailureReason.ITERATION_LIMIT, "the turn was ended at the limit of model requests")
        failure = self._strange_end() if reason not in _TURN_DONE else None
        failure = failure or self.turn_failure(exit)
        if failure is not None:
            return RunStatus.FAILED, failure.detail, failure
        if reason == "refusal" and not self.client.updates.answer.strip():
            return _failed(FailureReason.AGENT_BLOCKED, "the agent refused the prompt and said nothing")
        if reason == "maxtokens" and not self.client.updates.answer.strip():
            return _failed(FailureReason.EMPTY_OUTPUT, "the answer's token limit was reached before a word was said")
        return RunStatus.COMPLETED, "", None

    def _strange_end(self) -> FailureDetail | None:
        """What a stop reason outside the protocol means. One that names a trouble is one; any other, of an agent that
        has given an answer, is another word for having ended: the answer counts."""
        said = self.client.stop_reason
        text = f"the turn ended with {said!r}"
        found = failures.classify(said.replace("_", " "), provider_code=said)
        if found.reason is FailureReason.UNKNOWN and not _TROUBLE.search(said) and self.client.updates.answer.strip():
            return None
        return FailureDetail(found.reason, text, provider_code=said)

    def _cut_off(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        name, waiting = self.capabilities.name, self.client.waiting_for
        if self.client.trouble and exit.cause is not None:
            return _failed(None, f"{name} kept asking its model again: {self.client.trouble}")
        what = "the answer to its prompt" if waiting == PROMPT else f"the answer to {waiting or 'initialize'}"
        error = f"{name} ended with {exit} before {what} came"
        if exit.signal is not None:
            return _failed(FailureReason.PROCESS, error)
        if waiting == "initialize" and self._printed:
            error = f"{error}; it printed: {self._printed}"
        tail = without_echoes(exit.stderr_tail)
        if tail:
            error = f"{error}; {name} stderr: {tail}"
        return RunStatus.FAILED, error, failures.classify(error, exit)

    def _session_id(self, rejected: bool) -> str:
        client = self.client
        if rejected:
            return client.session_id if client.keeps_session else ""
        if client.prompted or client.resumed:
            return client.session_id
        # Not opened for another reason (a refused login): the conversation is still there.
        return "" if client.fresh else client.ask.resume


def _failed(reason: FailureReason | None, text: str) -> tuple[RunStatus, str, FailureDetail]:
    detail = failures.classify(text) if reason is None else FailureDetail(reason, text)
    return RunStatus.FAILED, text, detail
