"""Kiro CLI (`kiro-cli acp`).

Built from public reports of 2.1.1 to 2.13.0: it could not be run here. Its documentation and its binary disagree on
the key of the prompt's blocks, so both are sent; a finished task may still be answered with "Internal error" because
the model's closing words failed.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from callboard_adapters.capabilities import ArgMode, Capabilities, McpVia, ModelSource, PromptVia, UsageVia
from callboard_adapters.dialects.acp import AcpClient
from callboard_adapters.dialects.acp_adapter import TIMEOUTS, AcpAdapter
from callboard_adapters.dialects.acp_errors import evidence
from callboard_adapters.dialects.acp_names import KIRO, common_name
from callboard_adapters.dialects.acp_tools import Call
from callboard_adapters.dialects.acp_vendor import LOAD, RESUME, Ask
from callboard_adapters.dialects.json_rpc import INTERNAL_ERROR, RpcError

_PLATFORM_CLIS = frozenset({"callboard", "multica"})
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_GOAL_TOOL = "goal_complete"


class _Kiro(AcpClient):
    opens_with = (LOAD, RESUME)

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask)
        self.finished = ""  # how the latest call that finishes a task ended: completed, failed, "" for none

    def prompt_params(self, blocks: list[dict[str, Any]]) -> dict[str, Any]:
        return {"prompt": blocks, "content": blocks}

    def tool_name(self, title: str, kind: str, name: str) -> str:
        return common_name(name, "", "", KIRO) if name else common_name(title, kind, name, KIRO)

    def on_tool_over(self, call: Call) -> None:
        command = (call.input or {}).get("command")
        if call.tool == _GOAL_TOOL or (isinstance(command, str) and posts_a_comment(command)):
            self.finished = call.status

    def forgives(self, error: RpcError) -> bool:
        """The work was reported already and only the model's last words failed."""
        internal = error.code == INTERNAL_ERROR and error.message.strip().lower() == "internal error"
        late = internal and "failed to generate a response" in evidence(error).lower()
        return late and self.finished == "completed"


class KiroAdapter(AcpAdapter):
    capabilities = Capabilities(
        name="kiro",
        executable="kiro-cli",
        launch_header="kiro-cli acp",
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
        skills_folder=".kiro/skills",
        user_skills_folder="~/.kiro/skills",
        explicit_handshake=True,
        runs_offline=False,
        # `-a` means trust-all in 2.1.1; `--agent` is the user's.
        blocked_args={
            "acp": ArgMode.STANDALONE,
            "-a": ArgMode.STANDALONE,
            "--trust-all-tools": ArgMode.STANDALONE,
            "--trust-tools": ArgMode.VALUE,
        },
        timeouts=TIMEOUTS,
        login_hint="run `kiro-cli login`",
    )
    client_class = _Kiro
    arguments = ("acp", "--trust-all-tools")


def posts_a_comment(command: str) -> bool:
    """Whether a shell command is the platform CLI's `issue comment add`: behind assignments, in one `sh -c "…"`."""
    words = _words(command)
    if len(words) == 3 and _name(words[0]) in _SHELLS and words[1] in ("-c", "-lc"):
        words = _words(words[2])
    return bool(words) and _name(words[0]) in _PLATFORM_CLIS and words[1:4] == ["issue", "comment", "add"]


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words.pop(0)
    return words


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
