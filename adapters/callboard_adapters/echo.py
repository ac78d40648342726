"""The `echo` provider: a real process without a model, for demos and tests. `echo_cli.py` says what it understands.

It is started with this same Python. Its executable can be replaced like any other (`BackendConfig.executable`), and
must then behave as `python -m callboard_adapters.echo_cli` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from sys import executable
from typing import Any

from callboard_adapters.base import Launch
from callboard_adapters.capabilities import ArgMode, Capabilities, PromptVia, Timeouts, UsageVia
from callboard_adapters.dialects.json_values import count
from callboard_adapters.dialects.stream_json_adapter import StreamJsonAdapter
from callboard_adapters.dialects.stream_json_input import user_message
from callboard_adapters.messages import TokenUsage, add_usage
from callboard_adapters.options import ExecOptions

SCRIPT = str(Path(__file__).with_name("echo_cli.py"))


class EchoAdapter(StreamJsonAdapter):
    capabilities = Capabilities(
        name="echo",
        executable=executable,
        launch_header="echo (no model)",
        prompt=PromptVia.STDIN_LINE,
        version_args=("-I", SCRIPT, "--version"),
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        usage=UsageVia.STREAM,
        model_flag=False,
        context_file="AGENTS.md",
        blocked_args={"--resume": ArgMode.VALUE, "--version": ArgMode.STANDALONE},
        timeouts=Timeouts(handshake=30.0, term_grace=2.0),
        relevant_env=("CALLBOARD_ECHO_HOME",),
    )

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        self.begin(options)
        user, notices = self.user_args(options)
        # -I: a file called json.py in the workdir must not be imported instead of Python's own.
        args = ["-I", SCRIPT, *self.flag("--resume", options.resume_session_id), *user]
        return Launch(args, stdin=user_message(prompt), keep_stdin=True, notices=notices)

    def cancel(self) -> Sequence[Any]:
        return ()  # it hears nothing while it sleeps; the ladder is quicker

    def usage(self) -> dict[str, TokenUsage]:
        total: dict[str, TokenUsage] = {}
        names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
        for result in self.reader.results[-1:]:
            table = result.get("modelUsage")
            for model, used in table.items() if isinstance(table, dict) else ():
                if isinstance(used, dict):
                    add_usage(total, model, TokenUsage(*(count(used.get(name)) for name in names)))
        return total
