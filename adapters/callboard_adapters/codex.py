"""OpenAI Codex (`codex app-server`, JSON-RPC over stdio).

Verified on codex-cli 0.171.0; the recordings under `tests/fixtures/transcripts/codex` are its own output. Settings,
read from the environment given to the backend:

`CALLBOARD_ENV_ROOT`       the task's private folder, set by the daemon: the run's CODEX_HOME is `codex-home` in it and
                           outlives the run, so the conversation can be resumed. Without it the folder is the run's own
                           and conversations stay with the user's (`codex_home`).
`CALLBOARD_CODEX_SANDBOX`  `danger-full-access` (default), `workspace-write` or `read-only`. Always sent: left to codex,
                           an untrusted folder is read-only and the turn still "completes".

A thread that cannot be resumed is replaced by a new one in the same run and the agent is told. Two failures are
repeated inside the run because nothing can have been done yet: `initialize` without an answer, and a first turn that
hangs in codex's refresh of its model list.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence

from callboard_adapters import failures
from callboard_adapters.base import (
    Adapter,
    FileContent,
    Launch,
    Outcome,
    Output,
    ProcessExit,
    ReadFiles,
    Relaunch,
    Request,
    RunContext,
    StopCause,
    Usage,
)
from callboard_adapters.capabilities import ArgStyle, Capabilities, McpVia, ModelSource, PromptVia, Timeouts, UsageVia
from callboard_adapters.codex_args import BLOCKED, VALUES, owned_settings
from callboard_adapters.codex_errors import TurnError
from callboard_adapters.codex_home import Home, look_at, shell_variables
from callboard_adapters.codex_talk import Conversation, Wishes
from callboard_adapters.codex_usage import ROLLOUT_MARKS, from_rollout
from callboard_adapters.errors import LaunchRefused
from callboard_adapters.messages import FailureDetail, Message, MessageType, RunStatus, Watchdog
from callboard_adapters.options import ExecOptions
from callboard_wire.providers import models_of

_SANDBOXES = ("danger-full-access", "workspace-write", "read-only")
_LEVEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_THREAD_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")
_STALE_MODELS = b"failed to refresh available models"
_SANDBOX_SETTING, _ENV_ROOT = "CALLBOARD_CODEX_SANDBOX", "CALLBOARD_ENV_ROOT"


class CodexAdapter(Adapter):
    capabilities = Capabilities(
        name="codex",
        executable="codex",
        launch_header="codex app-server",
        prompt=PromptVia.RPC,
        minimum_version="0.100.0",
        resume=True,
        resume_rejection=True,
        early_session_id=True,
        graceful_cancel=True,
        mcp=McpVia.CONFIG,
        usage=UsageVia.STREAM,
        thinking_levels=("minimal", "low", "medium", "high", "xhigh", "max", "ultra"),
        model_source=ModelSource.COMMAND,
        models=models_of("codex"),
        model_flag=False,
        context_file="AGENTS.md",
        skills_folder=".agents/skills",  # skills/list of 0.171 calls it the repository's scope
        user_skills_folder="~/.codex/skills",
        tools_leave_group=True,
        explicit_handshake=True,
        blocked_args=BLOCKED,
        value_args=VALUES,
        arg_style=ArgStyle(attached_short=True, abbreviations=False),
        timeouts=Timeouts(handshake=30.0, first_progress=60.0, semantic_inactivity=600.0),
        relevant_env=("CODEX_HOME", _SANDBOX_SETTING),
        login_env=("CODEX_API_KEY", "OPENAI_API_KEY", "CODEX_ACCESS_TOKEN"),
        login_files=("~/.codex/auth.json",),
        config_files=("~/.codex/config.toml",),
        login_hint="run `codex login`, or set OPENAI_API_KEY and a model provider that uses it",
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        shared = context.env.get("CODEX_HOME") or f"{context.home}/.codex"
        root = context.env.get(_ENV_ROOT, "")
        own = root.startswith("/") and f"{root}/codex-home" != shared
        path = f"{root}/codex-home" if own else self.scratch_file("codex-home")
        self._home = Home(shared.rstrip("/"), path, own_sessions=own)
        self._options = ExecOptions()
        self._talk = Conversation(Wishes("", "", _SANDBOXES[0]))
        self._attempts = 0
        self._stale_models = False
        self._forget_thread = False
        self._too_long = False

    # the launch ----------------------------------------------------------------------

    def before_launch(self, options: ExecOptions) -> Sequence[Request]:
        return look_at(self._home.shared)

    def launch(self, prompt: str, options: ExecOptions) -> Launch:
        self._options = options
        self._attempts += 1
        self._stale_models = False
        sandbox = self._sandbox()
        user, notices = self.user_args(options)
        fast = options.service_tier == "priority"
        user, dropped = owned_settings(user, mcp=options.mcp_config is not None, fast=fast)
        args = ["app-server", "--listen", "stdio://", *user, *(("--enable", "fast_mode") if fast else ())]
        login = {*self.capabilities.login_env, *self._home.secret_variables()}
        variables = shell_variables(self.context.env, login, chosen=_ENV_ROOT in self.context.env)
        version = self.context.version
        files = self._home.files(mcp=options.mcp_config, variables=variables, sandbox=sandbox, version=version)
        self._talk = Conversation(self._wishes(prompt, options, sandbox, notices))
        return Launch(
            args,
            env={"CODEX_HOME": self._home.path},
            files=files,
            links=self._home.links(),
            stdin=self._talk.start(),
            keep_stdin=True,
            notices=[*notices, *dropped] if self._attempts == 1 else (),
        )

    def _wishes(self, prompt: str, options: ExecOptions, sandbox: str, notices: list[Message]) -> Wishes:
        resume = "" if self._forget_thread else options.resume_session_id or ""
        return Wishes(
            prompt,
            self.context.cwd,
            sandbox,
            model=options.model or "",
            effort=_word("thinking level", options.thinking_level, notices),
            tier=_word("service tier", options.service_tier, notices),
            name=(options.thread_name or "").strip(),
            resume=resume,
            resume_expected=options.resume_expected or self._forget_thread,
        )

    def _sandbox(self) -> str:
        chosen = self.context.env.get(_SANDBOX_SETTING, "").strip() or _SANDBOXES[0]
        if chosen not in _SANDBOXES:
            raise LaunchRefused(
                f"{_SANDBOX_SETTING} is {chosen!r}", provider="codex", repair=f"use one of {', '.join(_SANDBOXES)}"
            )
        return chosen

    # the run -------------------------------------------------------------------------

    def receive(self, line: bytes) -> Sequence[Output]:
        return self._talk.receive(line)

    def receive_stderr(self, line: bytes) -> Sequence[Output]:
        self._stale_models = self._stale_models or _STALE_MODELS in line.lower()
        return ()

    def tick(self, timer: str) -> Sequence[Output]:
        return self._talk.tick(timer)

    def ran_out(self, dog: Watchdog) -> Sequence[Output]:
        """The two failures after which nothing can have been done yet are repeated, once a run."""
        if self._attempts > 1:
            return ()
        if dog is Watchdog.HANDSHAKE and self._talk.step == "initialize":
            return [Relaunch("codex did not answer initialize")]
        turn = self._talk.turn
        stuck = dog is Watchdog.FIRST_PROGRESS and self._stale_models
        if stuck and turn is not None and turn.end is None and not turn.shown.progressed:
            # The stalled thread may hold the prompt already: in a second turn there the agent would read it twice.
            self._forget_thread = bool(self._options.resume_session_id)
            return [Relaunch("the first turn hung while codex refreshed its list of models")]
        return ()

    def cancel(self) -> Sequence[Output]:
        return self._talk.interrupt()

    def files(self, purpose: str, found: Sequence[FileContent]) -> Sequence[Output]:
        if purpose == "home":
            self._home.found(found)
            return ()
        turn = self._talk.turn
        if purpose != "rollout" or turn is None or not found:
            return ()
        lines = found[-1].data.splitlines()
        used = from_rollout(lines, turn.id, self.context.started_at, resumed=self._talk.is_resumed)
        return [Usage(used)] if used else ()

    def noise(self) -> tuple[int, int]:
        return self._talk.rpc.parser.noise, self._talk.rpc.parser.invalid_utf8

    # the end -------------------------------------------------------------------------

    def after_exit(self, exit: ProcessExit) -> Sequence[Request]:
        talk = self._talk
        if talk.turn is None or not talk.turn.is_requested or talk.usage.by_model():
            return ()
        if not _THREAD_ID.fullmatch(talk.thread_id):
            return ()
        folder = glob.escape(f"{self._home.path}/sessions")
        name = f"rollout-*-{talk.thread_id}.jsonl"
        patterns = [f"{folder}/{name}", f"{folder}/*/*/*/{name}"]
        return [ReadFiles("rollout", patterns, max_files=1, tail=True, lines_with=ROLLOUT_MARKS)]

    def finish(self, exit: ProcessExit) -> Outcome | Relaunch:
        talk = self._talk
        if exit.cause is StopCause.LINE_TOO_LONG and talk.step == "thread/resume":
            self._forget_thread = self._too_long = True
            return Relaunch("the earlier conversation is longer than can be read back: a new one begins")
        status, error, failure = self._judge(exit)
        return Outcome(
            status,
            output=talk.turn.shown.answer if talk.turn is not None else "",
            error=error,
            failure=failure,
            session_id=talk.thread_id,
            resume_rejected=talk.rejected or self._too_long,
        )

    def _judge(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        turn = self._talk.turn
        end = turn.end if turn is not None else None
        if turn is None or end is None:
            return self._without_end(exit)
        if end.status == "completed":
            return RunStatus.COMPLETED, "", None
        if end.status == "failed":
            problem = end.error or TurnError("codex ended the turn as failed and gave no reason")
            return RunStatus.FAILED, problem.text, problem.failure(exit=exit)
        if self._talk.interrupted:
            return RunStatus.ABORTED, "the turn was interrupted", None
        # Nobody here asked: whoever reads "cancelled" would think a person did it.
        sentence = "codex interrupted the turn by itself"
        if end.error is not None:
            sentence = f"{sentence}: {end.error.text}"
        if self._talk.answers.refused:
            sentence = f"{sentence}; it had asked for {', '.join(self._talk.answers.refused[:5])}"
        return RunStatus.FAILED, sentence, (end.error or TurnError(sentence)).failure(sentence, exit)

    def _without_end(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        talk = self._talk
        shown = talk.turn.shown if talk.turn is not None else None
        problem = shown and (shown.error or shown.retrying)
        if exit.cause is not None:  # the driver says why; ours is only what it cannot know
            sentence = f"codex had not answered {talk.step}" if talk.step else ""
        else:
            during = f"before it had answered {talk.step}" if talk.step else "before its turn had ended"
            sentence = f"the codex process exited ({exit}) {during}"
            if exit.stderr_tail:
                sentence = f"{sentence}; codex stderr: {exit.stderr_tail}"
        if problem:
            sentence = f"{problem.text}; {sentence}" if sentence else problem.text
            return RunStatus.FAILED, sentence, problem.failure(sentence, exit)
        return RunStatus.FAILED, sentence, failures.classify(sentence, exit) if sentence else None


def _word(what: str, value: str | None, notices: list[Message]) -> str:
    """`value` if it is one word, "" for none; what is no word is dropped with a notice."""
    if value and not _LEVEL.fullmatch(value):
        notices.append(Message(MessageType.LOG, f"ignored a {what} that is no word", level="warn"))
        return ""
    return value or ""
