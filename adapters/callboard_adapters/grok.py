"""Grok Build (`grok agent stdio`, ACP).

Verified on 1.0.41; the recordings under `tests/fixtures/transcripts/grok` are its own output. It must be told to use
its login (`authenticate`) before a session, states the bill in `_meta` of the prompt's answer, and says much in
notifications of its own (`_x.ai/…`), of which retries, the usage of each call and its sub-agents matter here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callboard_adapters.base import Alive, Outcome, Output, ProcessExit, Timer, Usage
from callboard_adapters.capabilities import ArgMode, Capabilities, McpVia, ModelSource, PromptVia, UsageVia
from callboard_adapters.dialects.acp import AcpClient
from callboard_adapters.dialects.acp_adapter import TIMEOUTS, AcpAdapter
from callboard_adapters.dialects.acp_offer import mapping, text
from callboard_adapters.dialects.acp_usage import usage_of
from callboard_adapters.dialects.acp_vendor import LOAD, RESUME, Ask
from callboard_adapters.dialects.json_rpc import Answer, Notification, method_key
from callboard_adapters.grok_agents import Agents
from callboard_adapters.messages import FailureDetail, Message, MessageType, TokenUsage, add_usage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from callboard_wire.providers import models_of

_KEY_METHOD, _TOKEN_METHOD, _BROWSER_METHOD = "xai.api_key", "cached_token", "grok.com"
_OWN = "x.ai/"
_SESSION_EVENTS = frozenset({"x.ai/sessionnotification", "x.ai/session/update"})
_ALIVE: tuple[Output, ...] = (Alive(),)
_REFUSED = "The model provider refused to generate a response"  # grok's own words where the model said none
_WAKE_TIMER, _WAKE_WAIT = "wake", 30.0
"""Seconds in which grok must have finished the turn that a sub-agent's end begins; it begins at once."""

_BLOCKED = {
    **dict.fromkeys(
        ("agent", "stdio", "headless", "serve", "leader", "--always-approve", "--yolo", "--no-auto-update"),
        ArgMode.STANDALONE,
    ),
    **dict.fromkeys(
        ("--no-alt-screen", "-p", "--print", "-c", "--continue", "--fork-session"),
        ArgMode.STANDALONE,
    ),
    **dict.fromkeys(
        ("--single", "--output-format", "--permission-mode", "-m", "--model", "--reasoning-effort", "--effort"),
        ArgMode.VALUE,
    ),
    **dict.fromkeys(
        ("-r", "--resume", "-s", "--session-id", "--system-prompt-override", "--cwd", "--ref"),
        ArgMode.VALUE,
    ),
    **dict.fromkeys(("-w", "--worktree"), ArgMode.OPTIONAL),
}


class _Grok(AcpClient):
    opens_with = (LOAD, RESUME)
    grace = 4.0  # it takes about 2 s to leave

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        self.has_api_key = False
        self.called = TokenUsage()  # the calls so far, for a run that ends without an answer
        self.agents = Agents()
        self._by_model: dict[str, TokenUsage] = {}
        self._held: Answer | None = None  # the prompt's, while sub-agents work on
        self._retried_at = -1  # the number of the event that announced the last retry

    def auth_method(self) -> str | FailureDetail | None:
        offered = self.offer.auth_methods
        if not offered:
            return None
        usable = [m for m in (_TOKEN_METHOD, self.offer.default_auth) if m in offered]
        if _KEY_METHOD in offered:
            # Offered without the variable, too, where config.toml holds the key: then it is the last resort.
            usable.insert(0 if self.has_api_key else len(usable), _KEY_METHOD)
        if usable:
            return usable[0]
        others = ", ".join(m for m in offered if m != _BROWSER_METHOD)
        also = f" (it offers {others}, which this client cannot use)" if others else ""
        said = f"grok is not logged in: run `grok` once and log in, or set XAI_API_KEY{also}"
        return FailureDetail(FailureReason.AUTH, said)

    def on_extension(self, key: str, params: dict[str, Any]) -> Sequence[Output] | None:
        if not key.startswith(_OWN):
            return None
        if key not in _SESSION_EVENTS or not self.prompted or self.answered:
            return _ALIVE  # on load it repeats the old turn's events
        if mapping(params.get("_meta")).get("isReplay") is True:
            return _ALIVE
        update = mapping(params.get("update"))
        kind = method_key(text(update.get("sessionUpdate")))
        session = text(params.get("sessionId"))
        if session not in ("", self.session_id):
            if kind == "responsecompleted" and self.agents.knows(session):
                self.agents.spent(session, usage_of(update.get("usage")))
                return [Usage(self.usage())]
            return _ALIVE
        if kind == "retrystate":
            self._retried_at = self._number(params)
            return self._retry(update)
        if kind == "responsecompleted":
            self._called(usage_of(update.get("usage")))
            return [Usage(self.usage())]
        return self._of_agents(kind, update)

    def _number(self, params: dict[str, Any]) -> int:
        """The number of an event of the run's session (`<session>-<number>`), -1 for any other."""
        session, _, number = text(mapping(params.get("_meta")).get("eventId")).rpartition("-")
        known = session == self.session_id and number.isascii() and number.isdecimal() and len(number) < 16
        return int(number) if known else -1

    def _called(self, used: TokenUsage) -> None:
        self.trouble = ""
        if self._held is None:
            self.called += used
        else:
            self.agents.called_later(used)

    def _of_agents(self, kind: str, update: dict[str, Any]) -> Sequence[Output]:
        if kind == "subagentspawned":
            self.agents.spawned(update)
        elif kind == "subagentfinished":
            self.agents.finished(update)
        elif kind == "turncompleted":
            self.agents.turned(update)
        if self._held is None:
            return _ALIVE
        if not self.agents.pending:
            return self.settle()
        return _ALIVE if self.agents.working else [Alive(), Timer(_WAKE_TIMER, _WAKE_WAIT)]

    def _notified(self, said: Notification) -> Sequence[Output]:
        outputs = super()._notified(said)
        if 0 <= self._number(said.params) < self._retried_at:
            self.updates.restart()  # a piece of the answer that broke off, sent after the news that it did
        return outputs

    def _on_prompt(self, answer: Answer) -> Sequence[Output]:
        self.agents.answered()
        if answer.error is not None or self.cancelled or not self.agents.pending:
            return super()._on_prompt(answer)
        self._held = answer
        self.updates.next_turn()
        said = "grok ended its turn while sub-agents work on: it is woken when they are done"
        waiting = Message(MessageType.STATUS, said, status="waiting")
        return [waiting, *([] if self.agents.working else [Timer(_WAKE_TIMER, _WAKE_WAIT)])]

    def settle(self) -> Sequence[Output]:
        """Take the answer that was held back: nothing more is to come."""
        answer, self._held = self._held, None
        return () if answer is None else [Timer(_WAKE_TIMER, None), *super()._on_prompt(answer)]

    def tick(self, timer: str) -> Sequence[Output]:
        return self.settle() if timer == _WAKE_TIMER else super().tick(timer)

    def cancel(self) -> Sequence[Output]:
        return [*super().cancel(), *self.settle()]

    def on_result(self, result: dict[str, Any]) -> None:
        super().on_result(result)
        meta = mapping(result.get("_meta"))
        total = self.updates.usage.total
        split = {m: usage_of(u) for m, u in mapping(mapping(meta.get("usage")).get("modelUsage")).items() if m}
        name = self.ask.model or self.session.current_model or text(meta.get("modelId")) or "unknown"
        if len(split) == 1:
            name = next(iter(split))
        whole = sum(u.tokens for u in split.values()) == total.tokens
        if len(split) > 1 and whole:
            self._by_model = split
        elif total.tokens or total.cost_usd_ticks:
            self._by_model = {name: total}

    def usage(self) -> dict[str, TokenUsage]:
        called = {self.model(): self.called} if self.called.tokens else {}
        total = dict(self._by_model or called)
        if self.agents.beyond.tokens:
            add_usage(total, next(iter(total), self.model()), self.agents.beyond)
        return total

    def _retry(self, update: dict[str, Any]) -> Sequence[Output]:
        reason = text(update.get("reason")) or text(update.get("message")) or "no reason given"
        if method_key(text(update.get("type"))) != "retrying":
            return _ALIVE  # `failed`: the prompt's answer says the same
        self.updates.restart()
        self.trouble = reason
        said = f"attempt {update.get('attempt', '?')} of {update.get('max_retries', '?')} failed: {reason}"
        return [Message(MessageType.STATUS, said, status="retrying")]


class GrokAdapter(AcpAdapter):
    capabilities = Capabilities(
        name="grok",
        executable="grok",
        launch_header="grok agent stdio",
        prompt=PromptVia.RPC,
        minimum_version="0.2.89",
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        graceful_cancel=True,
        mcp=McpVia.SESSION_PARAM,
        usage=UsageVia.STREAM,
        cost=True,
        thinking_levels=("low", "medium", "high", "xhigh"),
        model_source=ModelSource.PROTOCOL,
        models=models_of("grok"),
        model_flag=False,
        system_prompt=True,
        context_file="AGENTS.md",
        skills_folder=".grok/skills",
        user_skills_folder="~/.grok/skills",
        tools_leave_group=True,
        explicit_handshake=True,
        blocked_args=_BLOCKED,
        timeouts=TIMEOUTS,
        relevant_env=("XAI_API_KEY", "GROK_HOME"),
        config_files=("~/.grok/config.toml",),
        login_hint="run `grok` once and log in, or set XAI_API_KEY",
    )
    client_class = _Grok

    def command_line(self, options: ExecOptions, user: list[str]) -> list[str]:
        effort = self.flag("--effort", options.thinking_level)
        # A background update was seen to stall the start; the flag is the root command's and comes first.
        return ["--no-auto-update", "agent", "--always-approve", *effort, *user, "stdio"]

    def environment(self) -> Mapping[str, str]:
        # Since 1.0 it reads AGENTS.md and skills only in folders that somebody has trusted at a terminal, and a task's
        # folder is new each time. `--trust` would add each to the user's own list; this is for the one process.
        return {"GROK_FOLDER_TRUST": "0"}

    def effort(self, options: ExecOptions) -> str:
        return ""  # on the command line

    def turn_failure(self, exit: ProcessExit) -> FailureDetail | None:
        said = self.client.updates.answer.strip()
        if method_key(self.client.stop_reason) == "refusal" and said.startswith(_REFUSED):
            return FailureDetail(FailureReason.AGENT_BLOCKED, said)
        return super().turn_failure(exit)

    def finish(self, exit: ProcessExit) -> Outcome:
        assert isinstance(self.client, _Grok)
        self.client.settle()  # it left before its sub-agents were done: its turn had ended all the same
        return super().finish(exit)

    def prepare(self, client: AcpClient) -> None:
        assert isinstance(client, _Grok)
        client.has_api_key = bool(self.context.env.get("XAI_API_KEY", "").strip())
