"""What a caller may ask of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class BackendConfig:
    """How to start one provider's CLI on this machine.

    `executable` is a path or a name to find on PATH; None means the provider's usual name. `env` is the whole
    environment of the child; None means this process's environment without what must not leak into a child
    (`process.environment`). `launch_prefix` are fixed arguments between the executable and the protocol's own, for
    wrappers such as `wrap start q36`.
    """

    executable: str | Path | None = None
    env: Mapping[str, str] | None = None
    launch_prefix: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class OpenclawGateway:
    """Where an OpenClaw gateway is. What is empty (or 0) is OpenClaw's own: this machine, port 18789; with the token
    alone, the gateway of the user's configuration."""

    host: str = ""
    port: int = 0
    tls: bool = False
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ExecOptions:
    """One run. A provider consumes what it supports and ignores the rest.

    Times are seconds. For `timeout` None means no limit; for the others None means the provider's default; 0 or
    less always means none. `max_tokens` are those of one answer. `mcp_config` has three states: None inherits the
    user's own configuration, `{}` allows no server, anything else is the managed set (`{"mcpServers": {...}}`).
    `extra_args` are the machine's, `custom_args` the agent's: both pass the provider's filter. `resume_expected`
    says that a conversation should have existed even though no id is given. `openclaw_mode` "gateway" gives the run to
    an OpenClaw gateway: `openclaw_gateway`, or the user's own. `run_id` marks every process of the run
    in its environment, so that `process.reap_run` finds them after a crash of the caller; one is made up when it is
    None.
    """

    cwd: str | Path | None = None
    model: str | None = None
    system_prompt: str | None = None
    thread_name: str | None = None
    max_turns: int | None = None
    max_tokens: int | None = None
    timeout: float | None = None
    handshake_timeout: float | None = None
    first_progress_timeout: float | None = None
    semantic_inactivity_timeout: float | None = None
    idle_watchdog_timeout: float | None = None
    tool_watchdog_timeout: float | None = None
    resume_session_id: str | None = None
    resume_expected: bool = False
    extra_args: Sequence[str] = ()
    custom_args: Sequence[str] = ()
    mcp_config: Mapping[str, Any] | None = None
    thinking_level: str | None = None
    service_tier: str | None = None
    openclaw_mode: str | None = None
    openclaw_gateway: OpenclawGateway | None = None
    claude_settings_path: str | Path | None = None
    run_id: str | None = None
