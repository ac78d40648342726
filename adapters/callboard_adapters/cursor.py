"""Cursor Agent (`cursor-agent -p --output-format stream-json`, prompt by stdin).

Built from the fact sheet and the published format: its agent loop needs Cursor's own service, so nothing of it could be
recorded here. The result is the end of the run: a worker may linger behind it for ever. `result` repeats everything
that was said, narration included, so the answer is what was said after the last tool call.

How it refuses an unknown session was never seen; a run that comes under another id than the requested one says so.
Settings, read from the environment given to the backend:

`CALLBOARD_ENV_ROOT`       the task's private folder, set by the daemon: with managed MCP servers the run's data folder
                           is `cursor-data` in it, else one that ends with the run
`CURSOR_MCP_AUTH_SOURCE`   the user's MCP tokens (a file, or the folder that holds `mcp-auth.json`) for managed servers
"""

from __future__ import annotations

from collections.abc import Sequence

from callboard_adapters import cursor_mcp, failures
from callboard_adapters.base import (
    Adapter,
    FileContent,
    FileLink,
    FileWrite,
    Launch,
    Outcome,
    Output,
    ProcessExit,
    ReadFiles,
    Request,
    RunContext,
)
from callboard_adapters.capabilities import ArgMode, ArgStyle, Capabilities, McpVia, ModelSource, PromptVia, UsageVia
from callboard_adapters.cursor_stream import CursorStream, error_text
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import FailureDetail, Message, MessageType, RunStatus
from callboard_adapters.options import ExecOptions
from callboard_wire.providers import models_of

_ENV_ROOT = "CALLBOARD_ENV_ROOT"
_BLOCKED = {
    "-p": ArgMode.STANDALONE,
    "--print": ArgMode.STANDALONE,
    "--output-format": ArgMode.VALUE,
    # It repeats each text in pieces and then whole.
    "--stream-partial-output": ArgMode.STANDALONE,
    "--yolo": ArgMode.STANDALONE,
    "--force": ArgMode.STANDALONE,
    "-f": ArgMode.STANDALONE,
    "--workspace": ArgMode.VALUE,
    "--resume": ArgMode.OPTIONAL,
    "--continue": ArgMode.STANDALONE,
    "--list-models": ArgMode.STANDALONE,
    "-h": ArgMode.STANDALONE,
    "--help": ArgMode.STANDALONE,
    "-v": ArgMode.STANDALONE,
    "--version": ArgMode.STANDALONE,
}
_VALUES = frozenset({"--model", "-m", "--mode", "--api-key", "-a", "--header", "-H", "--sandbox"})


class CursorAdapter(Adapter):
    capabilities = Capabilities(
        name="cursor",
        executable="cursor-agent",
        launch_header="cursor-agent (stream-json)",
        prompt=PromptVia.STDIN_EOF,
        resume=True,
        early_session_id=True,
        mcp=McpVia.PROJECT_FILE,
        usage=UsageVia.STREAM,
        model_source=ModelSource.COMMAND,
        models=models_of("cursor"),
        context_file="AGENTS.md",
        skills_folder=".cursor/skills",
        user_skills_folder="~/.cursor/skills",
        runs_offline=False,
        blocked_args=_BLOCKED,
        value_args=_VALUES,
        arg_style=ArgStyle(attached_short=True, abbreviations=False),
        relevant_env=("CURSOR_DATA_DIR", cursor_mcp.AUTH_SOURCE),
        login_env=("CURSOR_API_KEY",),
        login_files=("~/.cursor/cli-config.json", "~/.config/cursor/auth.json"),
        config_files=("~/.cursor/mcp.json",),
        login_hint="run `cursor-agent login`, or set CURSOR_API_KEY",
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.stream = CursorStream()
        self.requested = ""
        self.marks: list[str] = []
        self.own_servers: bytes | None = None  # what is in the project's file already

    # before ------------------------------------------------------------------------

    def before_launch(self, options: ExecOptions) -> Sequence[Request]:
        if options.mcp_config is None:
            return ()
        marks = cursor_mcp.git_marks(self.context.cwd)
        return [ReadFiles("project", marks, max_files=len(marks), max_bytes=0)]

    def files(self, purpose: str, found: Sequence[FileContent]) -> Sequence[Output]:
        if purpose == "servers":
            self.own_servers = found[0].data if found else None
            return ()
        self.marks = [f.path for f in found]
        return [ReadFiles("servers", [f"{self._root()}/.cursor/mcp.json"], max_files=1)]

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        self.stream = CursorStream(options.model or "")
        self.requested = options.resume_session_id or ""
        user, notices = self.user_args(options)
        args = ["-p", "--output-format", "stream-json", "--yolo", "--workspace", self.context.cwd]
        args += [*self.flag("--model", options.model), *self.flag("--resume", self.requested), *user]
        for wish, what in ((options.thinking_level, "thinking level"), (options.max_turns, "limit on turns")):
            if wish:
                notices.append(Message(MessageType.LOG, f"cursor-agent has no {what}; ignored", level="warn"))
        files, links, env = self._mcp(options)
        return Launch(args, env=env, files=files, links=links, stdin=prompt.encode(), notices=notices)

    # during ------------------------------------------------------------------------

    def receive(self, line: bytes) -> Sequence[Output]:
        return self.stream.receive(line)

    def noise(self) -> tuple[int, int]:
        return self.stream.parser.noise, self.stream.parser.invalid_utf8

    # the end ---------------------------------------------------------------------------

    def finish(self, exit: ProcessExit) -> Outcome:
        stream = self.stream
        status, error, failure = self._judge(exit)
        return Outcome(
            status,
            output="" if status is RunStatus.FAILED else stream.answer,
            error=error,
            failure=failure,
            session_id=stream.session_id,
            resume_rejected=bool(self.requested and stream.session_id and stream.session_id != self.requested),
            usage=stream.usage(),
        )

    def _judge(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        stream = self.stream
        if stream.result is not None and not stream.failed:
            return RunStatus.COMPLETED, "", None
        if stream.result is not None:
            error = error_text(stream.result) or stream.error or "cursor-agent reported an error without a text"
            return RunStatus.FAILED, error, failures.classify(error, exit)
        # Tools may have run: whoever tries again should know.
        ended = (
            f"cursor-agent ended with {exit} and no result (last event: {stream.last or 'none'}); its work stays done"
        )
        parts = [stream.error, "" if exit.cause else ended]
        if exit.stderr_tail:
            parts.append(f"cursor-agent stderr: {exit.stderr_tail}")
        error = "; ".join(p for p in parts if p)
        return RunStatus.FAILED, error, failures.classify(error, exit)

    # managed servers ---------------------------------------------------------------------

    def _root(self) -> str:
        return cursor_mcp.project_root(self.context.cwd, self.marks)

    def _mcp(self, options: ExecOptions) -> tuple[list[FileWrite], list[FileLink], dict[str, str]]:
        config = options.mcp_config
        if config is None:
            return [], [], {}
        root = self._root()
        servers = cursor_mcp.servers_file(root, config)
        if self.own_servers not in (None, servers.content):  # the same bytes: left behind by a run that was killed
            raise LaunchRefused(
                f"{root}/.cursor/mcp.json exists: cursor-agent takes managed servers from this file alone",
                provider="cursor",
                repair="move its servers into the agent's MCP configuration",
            )
        env_root = self.context.env.get(_ENV_ROOT)
        data = f"{env_root}/cursor-data" if env_root else self.scratch_file("cursor-data")
        files = [
            servers,
            *cursor_mcp.data_files(data, root, config, self.context.started_at),
        ]
        links = cursor_mcp.auth_link(data, root, self.context.env.get(cursor_mcp.AUTH_SOURCE, ""))
        return files, links, {"CURSOR_DATA_DIR": data}
