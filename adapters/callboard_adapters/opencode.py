"""opencode (`opencode run --format json`, prompt by stdin).

Verified on 1.18.33; the recordings under `tests/fixtures/transcripts/opencode` are its own output. It says nothing at
all, not even a session id, until the model has begun to answer (seventy seconds while a provider is down), so there is
no handshake clock; a tool is told when it has ended, so ten silent minutes are the limit for a tool too.
"""

from __future__ import annotations

from callboard_adapters.base import Launch
from callboard_adapters.capabilities import (
    ArgMode,
    ArgStyle,
    Capabilities,
    McpVia,
    ModelSource,
    PromptVia,
    Timeouts,
    UsageVia,
)
from callboard_adapters.dialects.run_json_adapter import LOOK_ELSEWHERE, RunJsonAdapter
from callboard_adapters.options import ExecOptions

RUN_BLOCKED = {
    "--format": ArgMode.VALUE,
    "--dir": ArgMode.VALUE,
    "--variant": ArgMode.VALUE,
    "--dangerously-skip-permissions": ArgMode.STANDALONE,
    "--dangerouslySkipPermissions": ArgMode.STANDALONE,
    "--no-dangerously-skip-permissions": ArgMode.STANDALONE,
    "--auto": ArgMode.STANDALONE,
    "--no-auto": ArgMode.STANDALONE,
    "--session": ArgMode.VALUE,
    "-s": ArgMode.VALUE,
    "--continue": ArgMode.STANDALONE,
    "-c": ArgMode.STANDALONE,
    "--fork": ArgMode.STANDALONE,
    "--attach": ArgMode.VALUE,
    "--interactive": ArgMode.STANDALONE,
    "-i": ArgMode.STANDALONE,
    "--mini": ArgMode.STANDALONE,
    "--help": ArgMode.STANDALONE,
    "-h": ArgMode.STANDALONE,
    "--version": ArgMode.STANDALONE,
    "-v": ArgMode.STANDALONE,
}
"""Its parser (yargs) takes camelCase and `--no-` forms; a second --format makes a list of both and it gives up."""
RUN_VALUES = frozenset(
    {
        "--model",
        "-m",
        "--agent",
        "--file",
        "-f",
        "--title",
        "--command",
        "--log-level",
        "--port",
        "--password",
        "-p",
        "--username",
        "-u",
    }
)
MODEL_FLAGS = {"--model": ArgMode.VALUE, "-m": ArgMode.VALUE}
RUN_TIMEOUTS = Timeouts(handshake=None, idle=600.0)


class OpencodeAdapter(RunJsonAdapter):
    product = "opencode"
    capabilities = Capabilities(
        name="opencode",
        executable="opencode",
        launch_header="opencode run (json)",
        prompt=PromptVia.STDIN_EOF,
        minimum_version="0.0.0",
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        mcp=McpVia.ENV,
        usage=UsageVia.STREAM,
        cost=True,
        thinking_levels=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
        model_source=ModelSource.COMMAND,
        context_file="AGENTS.md",
        skills_folder=".opencode/skills",
        user_skills_folder="~/.config/opencode/skills",
        tools_leave_group=True,
        blocked_args={**RUN_BLOCKED, "--thinking": ArgMode.STANDALONE, "--no-thinking": ArgMode.STANDALONE},
        value_args=RUN_VALUES,
        arg_style=ArgStyle(attached_short=True, abbreviations=False),
        timeouts=RUN_TIMEOUTS,
        relevant_env=("OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME"),
        login_env=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENCODE_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"),
        login_files=("~/.local/share/opencode/auth.json",),
        config_files=("~/.config/opencode/opencode.json", "~/.config/opencode/opencode.jsonc"),
        login_hint="run `opencode auth login`, or set the API key of your provider",
    )

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        self.begin(options)
        user, notices = self.user_args(options, MODEL_FLAGS if options.model else None)
        env = self.environment(options, notices)
        args = self.arguments(options, notices)
        args += self.if_known("--thinking")
        timers = [LOOK_ELSEWHERE] if options.resume_session_id else []
        return Launch([*args, *user], env=env, stdin=prompt.encode(), notices=notices, timers=timers)
