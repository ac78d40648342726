"""TRAE CLI (`traecli acp serve --yolo`), ByteDance's official one; the open-source `trae-cli` is another program.

Built from public reports of 0.120.42: it could not be run here. It reads `.trae/rules/` and no AGENTS.md, so the brief
goes into the prompt; it may state its cost in the usage of the prompt's answer.
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
from callboard_adapters.dialects.acp_vendor import LOAD, RESUME


class _Traecli(AcpClient):
    opens_with = (LOAD, RESUME)
    grace = 2.0  # it may hold its pipes for ever


class TraecliAdapter(AcpAdapter):
    capabilities = Capabilities(
        name="traecli",
        executable="traecli",
        launch_header="traecli acp serve",
        prompt=PromptVia.RPC,
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        graceful_cancel=True,
        mcp=McpVia.SESSION_PARAM,
        usage=UsageVia.STREAM,
        cost=True,
        model_source=ModelSource.PROTOCOL,
        model_flag=False,
        system_prompt=True,
        context_file="AGENTS.md",
        skills_folder=".traecli/skills",
        user_skills_folder="~/.traecli/skills",
        explicit_handshake=True,
        runs_offline=False,
        blocked_args={
            **dict.fromkeys(("acp", "serve", "-y", "--yolo", "-p", "--print"), ArgMode.STANDALONE),
            **dict.fromkeys(("--output-format", "--permission-mode"), ArgMode.VALUE),
        },
        timeouts=Timeouts(handshake=HANDSHAKE, term_grace=2.0),
        login_hint="run `traecli` once and log in",
    )
    client_class = _Traecli
    arguments = ("acp", "serve", "--yolo")
