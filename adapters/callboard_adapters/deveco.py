"""DevEco Code (`deveco run --format json`): a product on opencode's engine.

Built from the fact sheet, never driven here: the CLI cannot be installed on this machine. The prompt is the last
argument, so it is limited to 128 KiB and visible to every user of the machine; nobody has seen it read stdin.
"""

from __future__ import annotations

from callboard_adapters.base import Launch
from callboard_adapters.capabilities import ArgStyle, Capabilities, ModelSource, PromptVia, UsageVia
from callboard_adapters.dialects.run_json_adapter import RunJsonAdapter
from callboard_adapters.opencode import MODEL_FLAGS, RUN_BLOCKED, RUN_TIMEOUTS, RUN_VALUES
from callboard_adapters.options import ExecOptions


class DevecoAdapter(RunJsonAdapter):
    product = "deveco"
    capabilities = Capabilities(
        name="deveco",
        executable="deveco",
        launch_header="deveco run (json)",
        prompt=PromptVia.ARGV,
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        usage=UsageVia.STREAM,
        cost=True,
        model_source=ModelSource.COMMAND,
        context_file="AGENTS.md",
        skills_folder=".deveco/skills",
        user_skills_folder="~/.config/deveco/skills",
        tools_leave_group=True,
        runs_offline=False,
        blocked_args=RUN_BLOCKED,
        value_args=RUN_VALUES,
        arg_style=ArgStyle(attached_short=True, abbreviations=False),
        timeouts=RUN_TIMEOUTS,
        relevant_env=("DEVECO_CONFIG", "DEVECO_CONFIG_CONTENT", "XDG_CONFIG_HOME"),
        login_files=("~/.local/share/deveco/auth.json",),
        config_files=("~/.config/deveco/deveco.json",),
        login_hint="run `deveco auth login`",
    )

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        self.begin(options)
        user, notices = self.user_args(options, MODEL_FLAGS if options.model else None)
        env = self.environment(options, notices)
        # `--`: a prompt that begins with a dash is no flag.
        return Launch([*self.arguments(options, notices), *user, "--", prompt], env=env, notices=notices)
