"""Grok Build (`grok agent stdio`, ACP).

Verified on 1.0.41; the recordings under `tests/fixtures/transcripts/grok` are its own output. It must be told to use
its login (`authenticate`) before a session, states the bill in `_meta` of the prompt's answer, and says much in
notifications of its own (`_x.ai/…`), of which retries and the usage of each call matter here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callboard_adapters.base import Alive, Output, Usage
from callboard_adapters.capabilities import ArgMode, Capabilities, McpVia, ModelSource, PromptVia, UsageVia
from callboard_adapters.dialects.acp import AcpClient
from callboard_adapters.dialects.acp_adapter import TIMEOUTS, AcpAdapter
from callboard_adapters.dialects.acp_offer import mapping, text
from callboard_adapters.dialects.acp_usage import usage_of
from callboard_adapters.dialects.acp_vendor import LOAD, RESUME, Ask
from callboard_adapters.dialects.json_rpc import method_key
from callboard_adapters.messages import FailureDetail, Message, MessageType, TokenUsage
from callboard_adapters.options import ExecOptions
from callboard_wire.failures import FailureReason
from callboard_wire.providers import models_of

_KEY_METHOD, _TOKEN_METHOD, _BROWSER_METHOD = "xai.api_key", "cached_token", "grok.com"
_OWN = "x.ai/"
_SESSION_EVENTS = frozenset({"x.ai/sessionnotification", "x.ai/session/update"})
_ALIVE: tuple[Output, ...] = (Alive(),)

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
        self._by_model: dict[str, TokenUsage] = {}

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
        if text(params.get("sessionId")) not in ("", self.session_id):
            return _ALIVE
        update = mapping(params.get("update"))
        kind = method_key(text(update.get("sessionUpdate")))
        if kind == "retrystate":
            return self._retry(update)
        if kind == "responsecompleted":
            self.called += usage_of(update.get("usage"))
            self.trouble = ""
            return [Usage(self.usage())]
        return _ALIVE

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
        if self._by_model:
            return self._by_model
        return {self.model(): self.called} if self.called.tokens else {}

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

    def prepare(self, client: AcpClient) -> None:
        assert isinstance(client, _Grok)
        client.has_api_key = bool(self.context.env.get("XAI_API_KEY", "").strip())
