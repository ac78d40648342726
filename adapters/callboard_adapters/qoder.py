"""Qoder CLI (`qodercli --yolo --acp`).

Verified on 1.1.52 as far as it goes without an account: it refuses the session, and then heeds neither the end of its
input nor TERM. Updates of older versions come as `session/notification` in PascalCase, which the dialect reads too.
"""

from __future__ import annotations

from callboard_adapters.capabilities import (
    ArgMode,
    Capabilities,
    McpVia,
    ModelSource,
    PromptVia,
    Timeouts,
    UsageVia,
)
from callboard_adapters.dialects.acp import AcpClient
from callboard_adapters.dialects.acp_adapter import HANDSHAKE, AcpAdapter


class _Qoder(AcpClient):
    grace = 2.0  # it may hold its pipes for ever


class QoderAdapter(AcpAdapter):
    capabilities = Capabilities(
        name="qoder",
        executable="qodercli",
        launch_header="qodercli --acp",
        prompt=PromptVia.RPC,
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        graceful_cancel=True,
        mcp=McpVia.SESSION_PARAM,
        usage=UsageVia.STREAM,
        model_source=ModelSource.PROTOCOL,
        model_flag=False,
        system_prompt=True,
        context_file="AGENTS.md",
        skills_folder=".qoder/skills",
        user_skills_folder="~/.qoder/skills",
        explicit_handshake=True,
        runs_offline=False,
        blocked_args=dict.fromkeys(("--acp", "acp", "--yolo"), ArgMode.STANDALONE),
        timeouts=Timeouts(handshake=HANDSHAKE, term_grace=2.0),
        relevant_env=("QODER_PERSONAL_ACCESS_TOKEN",),
        login_env=("QODER_PERSONAL_ACCESS_TOKEN",),
        login_hint="run `qodercli` once and log in, or set QODER_PERSONAL_ACCESS_TOKEN",
    )
    client_class = _Qoder
    arguments = ("--yolo", "--acp")
