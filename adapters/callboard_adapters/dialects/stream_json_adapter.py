"""How a stream-JSON run is judged at its end: shared by claude and its relatives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from callboard_adapters import failures
from callboard_adapters.base import Adapter, Outcome, Output, ProcessExit, Reply, RunContext
from callboard_adapters.dialects.json_values import error_text, flatten, word
from callboard_adapters.dialects.stream_json import StreamJson
from callboard_adapters.dialects.stream_json_input import interrupt_request
from callboard_adapters.messages import FailureDetail, RunStatus, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason

_TURNS_USED_UP = re.compile(r"\bmax(?:imum)?(?: number of)?(?: session)? turns\b", re.IGNORECASE)
_CONTEXT_FULL = frozenset({"prompt_too_long", "model_context_window_exceeded"})


class StreamJsonAdapter(Adapter):
    """Subclasses launch, name their reader and count the usage. Call `begin` from `launch`."""

    reader_class: ClassVar[type[StreamJson]] = StreamJson
    rejections: ClassVar[tuple[str, ...]] = (
        "no conversation found",
        "no saved session found",
        "已绑定另外",  # "is already bound to another (account)", as the CLI printed it after an account switch
        "bound to another account",
        "bound to a different account",
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.reader = self.reader_class()
        self.requested = ""

    def begin(self, options: ExecOptions) -> None:
        """Forget an earlier process of this run."""
        self.reader = self.reader_class()
        self.requested = options.resume_session_id or ""

    def receive(self, line: bytes) -> Sequence[Output]:
        return self.reader.receive(line)

    def tick(self, timer: str) -> Sequence[Output]:
        return self.reader.tick(timer)

    def cancel(self) -> Sequence[Output]:
        return [Reply(interrupt_request())]

    def noise(self) -> tuple[int, int]:
        return self.reader.parser.noise, self.reader.parser.invalid_utf8

    def finish(self, exit: ProcessExit) -> Outcome:
        status, error, failure = self.judge(exit)
        failed = status is RunStatus.FAILED
        rejected = bool(failed and self.requested and self.rejected(error, exit))
        return Outcome(
            status=status,
            output="" if failed and not self.reader.background.dropped else self.output(),
            error=error,
            failure=failure,
            session_id="" if rejected else self.reader.session_id,
            resume_rejected=rejected,
            usage=self.usage(),
        )

    # the parts -------------------------------------------------------------------

    def usage(self) -> dict[str, TokenUsage]:
        """This run's tokens per model."""
        return self.reader.usage_by_message()

    def output(self) -> str:
        """The structured answer, else the last assistant message that called no tool, else nothing at all."""
        said = self.reader.results[-1].get("result") if self.reader.results else None
        return said if isinstance(said, str) and said.strip() else self.reader.answer

    def rejected(self, error: str, exit: ProcessExit) -> bool:
        """Positive evidence that the requested session is gone. A refused login or a full quota is none."""
        if self.says_gone(error, exit):
            return True
        return bool(self.reader.session_id) and self.reader.session_id != self.requested and not self.reader.api_code

    def says_gone(self, error: str, exit: ProcessExit) -> bool:
        """Whether the CLI said in so many words that it does not have the requested session."""
        texts = f"{error}\n{exit.stderr_tail}".lower()
        return any(phrase in texts for phrase in self.rejections)

    def evidence(self, result: dict[str, Any]) -> tuple[int | None, str | None]:
        """(HTTP status, provider's code) of a failure: the result's own, else the last one announced."""
        status = result.get("api_error_status")
        return (
            status if type(status) is int else self.reader.api_status,
            result.get("api_error_type") or result.get("api_error") or self.reader.api_code,
        )

    def classified(self, error: str, exit: ProcessExit, status: int | None, code: str | None) -> FailureDetail:
        """The failure of an error sentence. Relatives whose words tell more than their status override this."""
        resets_at = self.reader.resets_at
        retry_after = None if resets_at is None else max(0.0, resets_at - self.context.started_at)
        return failures.classify(error, exit, http_status=status, provider_code=code, retry_after_s=retry_after)

    def judge(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        """(status, error, failure), from the most to the least structured evidence."""
        reader = self.reader
        if not reader.results:
            return self._without_result(exit)
        result = reader.results[-1]
        ended = word(result.get("terminal_reason"))
        reasons = (ended, word(result.get("stop_reason")), reader.stop_reason)
        full = next((r for r in reasons if r in _CONTEXT_FULL), None)
        if full:
            text = self.error_of(result, exit)
            error = f"{full}: {text}" if text else str(full)
            return RunStatus.FAILED, error, failures.classify(error, exit, provider_code=full)
        if ended.startswith("aborted"):
            error = "the turn was interrupted"
            return RunStatus.ABORTED, error, self._api_failure(result, error, exit)
        # `subtype` says "success" on refused logins and full quotas: only `is_error` can be believed, and where a
        # version should leave it out, what the provider's API said.
        status = result.get("api_error_status")
        refused = ended.startswith("api_error") or (type(status) is int and status >= 400)
        if result.get("is_error") or refused or str(result.get("subtype") or "success") != "success":
            error = self.error_of(result, exit) or "the agent reported an error without a text"
            return RunStatus.FAILED, error, self._api_failure(result, error, exit)
        dropped = [*reader.background.dropped, *reader.background.running.values()]
        if dropped:
            error = f"the run ended while background work was still going on and took it along: {'; '.join(dropped)}"
            return RunStatus.FAILED, error, FailureDetail(FailureReason.PROCESS, error)
        return RunStatus.COMPLETED, "", None

    def error_of(self, result: dict[str, Any], exit: ProcessExit) -> str:
        """The sentence a failed result carries: `result`, else `error`, else `errors`, else stderr."""
        for said in (result.get("result"), result.get("error") and error_text(result), result.get("errors")):
            text = "; ".join(map(flatten, said)) if isinstance(said, list) else flatten(said)
            if text.strip():
                return text.strip()
        return exit.stderr_tail or str(result.get("subtype") or "")

    def _without_result(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        reader = self.reader
        name = self.capabilities.name
        if reader.error_event is not None:
            error = error_text(reader.error_event)
        elif exit.cause is not None:
            error = reader.api_text  # we ended it: how it died says nothing
        else:
            error = f"{name} ended with {exit} and no result"
            if reader.api_text:
                error = f"{reader.api_text}; {error}"
        if exit.stderr_tail and exit.stderr_tail not in error:
            error = "; ".join(p for p in (error, f"{name} stderr: {exit.stderr_tail}") if p)
        return RunStatus.FAILED, error, self._api_failure({}, error, exit)

    def _api_failure(self, result: dict[str, Any], error: str, exit: ProcessExit) -> FailureDetail:
        if "max_turns" in (word(result.get("subtype")).removeprefix("error_"), word(result.get("terminal_reason"))):
            return FailureDetail(FailureReason.ITERATION_LIMIT, error)
        status, code = self.evidence(result)
        if status is None and code is None and _TURNS_USED_UP.search(error):
            return FailureDetail(FailureReason.ITERATION_LIMIT, error)
        refused = "refusal" in (word(result.get("stop_reason")), self.reader.stop_reason)
        if refused and status is None and code in (None, "invalid_request"):
            return FailureDetail(FailureReason.AGENT_BLOCKED, error, provider_code=code)
        return self.classified(error, exit, status, code)
