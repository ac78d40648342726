"""How an opencode-like CLI is launched and how its run is judged: shared by opencode and deveco."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from callboard_adapters import rendering
from callboard_adapters.base import (
    Adapter,
    CommandDone,
    FileContent,
    Outcome,
    Output,
    ProcessExit,
    ReadFiles,
    Relaunch,
    Request,
    RunCommand,
    RunContext,
    Stop,
    StopCause,
    Timer,
    Usage,
)
from callboard_adapters.dialects import run_json_config, run_json_database, run_json_errors, run_json_recovery
from callboard_adapters.dialects.run_json import RunJson, error_text, step_usage
from callboard_adapters.dialects.run_json_help import Help
from callboard_adapters.messages import FailureDetail, Message, MessageType, RunStatus, TokenUsage, add_usage
from callboard_adapters.options import ExecOptions
from callboard_adapters.rendering import Rendered
from callboard_wire.failures import FailureReason

_LEVEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_GONE = re.compile(r"session not found|(?<![a-z])notfounderror|resource not found", re.IGNORECASE)
"""What the CLI says about a session it does not have. `ProviderModelNotFoundError` is about a model."""
_LOCKED = re.compile(r"database is locked|SQLITE_BUSY|Failed query:\s*(?:CREATE|ALTER)")
"""Another run begins at the same moment in a new home, and both make the tables."""
_BLAMES_ITSELF = "Unexpected server error"  # all that 1.18.33 says of a model it does not know
LOOK_ELSEWHERE = Timer("elsewhere", 15.0)
"""Started with a resumed run: 1.18.33 resumes a session of another folder *there* and prints nothing, for ever."""
_GONE_TIMER = "gone"
_GONE_EXITS_WITHIN = 5.0  # seconds; 1.0.98 says it and then stays for ever


_SPELLED = {"oldString": "old_string", "newString": "new_string"}


class RunJsonAdapter(Adapter):
    """Subclasses say how the prompt gets in (`launch`); `product` makes the names of variables and files."""

    product: ClassVar[str]

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.reader = RunJson()
        self.requested = ""
        self.stderr_says_gone = False
        self.asks = False  # the user's configuration says something about permissions
        self.user_config: dict[str, Any] | None = None
        self.qualified = ""  # the model's full name, where the catalogue has exactly one
        self._notices: list[Message] = []
        self._pieces: list[str] = []  # of what was lost at the exit
        self._help = Help(self.product)  # printed instead of a run
        self._known: frozenset[str] | None = None  # the options of the installed version, once it has listed them
        self._users_words: tuple[str, ...] = ()
        self._model = ""  # as the CLI was asked for it
        self._no_such_model = False
        self._elsewhere = False  # the requested session works where its events are not seen
        self._sub_agents: dict[str, TokenUsage] = {}
        self._locked = 0  # how often another run held the database

    # before ------------------------------------------------------------------------

    def before_launch(self, options: ExecOptions) -> Sequence[Request]:
        """The user's rules must be known where they exist, and a bare model name needs the catalogue."""
        requests: list[Request] = []
        if options.model and "/" not in options.model:
            requests.append(RunCommand("models", ["models"], timeout=15))
        if options.mcp_config is not None and self._takes_mcp:
            requests.append(self._config_request())
        else:
            requests.append(
                ReadFiles(
                    "permissions",
                    run_json_config.files(self.context, self.product),
                    max_files=64,
                    max_bytes=1 << 16,
                    lines_with=[b"permission"],
                )
            )
        self.requested_model = options.model or ""
        return requests

    def files(self, purpose: str, found: Sequence[FileContent]) -> Sequence[Output]:
        inline = self.context.env.get(self._config_variable, "")
        if any(f.data for f in found) or '"permission"' in inline:
            self.asks = True
            return [self._config_request()]
        return ()

    def command(self, purpose: str, done: CommandDone) -> Sequence[Output]:
        text = done.stdout.decode("utf-8", "replace")
        if purpose == "lost":
            return self._recovered(run_json_recovery.piece(text))
        if purpose == "sub-agents":
            for model, part in run_json_database.steps(text):
                add_usage(self._sub_agents, model, step_usage(part))
            return [Usage(self._usage())] if self._sub_agents else ()
        if purpose == "unseen":
            return self._looked_elsewhere(run_json_database.begun(text))
        if purpose == "catalogue":
            self._no_such_model = run_json_config.lacks(self._model, text)
            return ()
        if purpose == "models":
            self.qualified = run_json_config.qualified(self.requested_model, text)
            return ()
        self.user_config = run_json_config.resolved(text)
        if self.user_config is None:
            what = f"could not read {self.product}'s resolved configuration; its rules on permissions stay as they are"
            self._notices.append(Message(MessageType.LOG, what, level="warn"))
        return ()

    # the command line ------------------------------------------------------------------

    def begin(self, options: ExecOptions) -> None:
        """Forget an earlier process of this run."""
        self.requested = options.resume_session_id or ""
        self.stderr_says_gone = False
        self._pieces = []
        self._help = Help(self.product)
        self._users_words = (*options.extra_args, *options.custom_args)
        self._model = self.qualified or options.model or ""
        self.reader = RunJson(self._model)

    def arguments(self, options: ExecOptions, notices: list[Message]) -> list[str]:
        """Everything but the prompt, the user's own arguments last."""
        args = ["run", "--format", "json"]
        # Renamed in 1.18, which still takes the old name; the configuration answers what neither does.
        args += self.if_known("--dangerously-skip-permissions") or self.if_known("--auto")
        args += self.if_known("--dir", self.context.cwd)
        args += self.flag("--model", self.qualified or options.model)
        level = options.thinking_level
        if level and _LEVEL.fullmatch(level):
            variant = self.if_known("--variant", level)
            args += variant
            if not variant:
                text = f"this version of {self.product} has no thinking levels; ignored"
                notices.append(Message(MessageType.LOG, text, level="warn"))
        elif level:
            notices.append(Message(MessageType.LOG, "ignored a thinking level that is no word", level="warn"))
        if options.max_turns:
            notices.append(Message(MessageType.LOG, f"{self.product} has no limit on turns; ignored", level="warn"))
        return args + self.flag("--session", options.resume_session_id)

    def if_known(self, *words: str) -> list[str]:
        """An option and its value, or nothing where the installed version has said that it has no such option."""
        return list(words) if self._known is None or words[0] in self._known else []

    def environment(self, options: ExecOptions, notices: list[Message]) -> dict[str, str]:
        """`PWD` (the CLI believes it over its real folder) and the run's configuration."""
        content: dict[str, Any] = {}
        if not self.asks or self.user_config is not None:
            content |= run_json_config.permissions(self.user_config)
        if options.mcp_config is not None:
            if not self._takes_mcp:
                notices.append(Message(MessageType.LOG, f"{self.product} takes no MCP servers; ignored", level="warn"))
            else:
                content |= run_json_config.managed(options.mcp_config, self.user_config, self.product)
        notices += self._notices
        variable = self._config_variable
        text = run_json_config.merged(self.context.env.get(variable, ""), content)
        if text is None:
            notices.append(Message(MessageType.LOG, f"{variable} was no JSON object and is replaced", level="warn"))
            text = json.dumps(content)
        env = {"PWD": self.context.cwd, variable: text}
        late = run_json_config.late_rules(self.context.env.get(f"{self.product.upper()}_PERMISSION", ""))
        return {**env, f"{self.product.upper()}_PERMISSION": late} if late else env

    # during ------------------------------------------------------------------------

    def receive(self, line: bytes) -> Sequence[Output]:
        if not self.reader.events and self._help.takes(line):
            return ()
        return self.reader.receive(line)

    def receive_stderr(self, line: bytes) -> Sequence[Output]:
        if not self.reader.events and self._help.takes(line):
            return ()
        if self.requested and not self.reader.events and _GONE.search(line.decode("utf-8", "replace")):
            self.stderr_says_gone = True
            return [Timer(_GONE_TIMER, _GONE_EXITS_WITHIN)]
        return ()

    def tick(self, timer: str) -> Sequence[Output]:
        if self.reader.events:
            return ()
        if timer == LOOK_ELSEWHERE.name:
            args = run_json_database.unseen(self.requested, self.context.started_at)
            return [] if args is None else [RunCommand("unseen", args)]
        error = f"{self.product} does not have the session that was to be resumed"
        return [Stop(FailureDetail(FailureReason.PROCESS, error))]

    def _looked_elsewhere(self, begun: int) -> Sequence[Output]:
        if self.reader.events:
            return ()
        if not begun:
            return [LOOK_ELSEWHERE]
        self._elsewhere = True
        error = f"the session belongs to another folder: {self.product} went on with it there, out of sight"
        return [Stop(FailureDetail(FailureReason.PROCESS, error))]

    def noise(self) -> tuple[int, int]:
        return self.reader.parser.noise, self.reader.parser.invalid_utf8

    # the end ---------------------------------------------------------------------------

    def after_exit(self, exit: ProcessExit) -> Sequence[Request]:
        """An exit in the middle of a step that calls itself good: the last lines were lost on their way to us."""
        reader = self.reader
        requests: list[Request] = []
        if exit.clean and reader.error is None and self._unfinished():
            requests += self._ask_for_lost()
        steps = run_json_database.sub_agents(reader.session_id, self.context.started_at) if reader.delegated else None
        if steps is not None:
            requests.append(RunCommand("sub-agents", steps, timeout=5 if exit.cause else 15))
        if self._model and reader.step is None and reader.error and _BLAMES_ITSELF in error_text(reader.error):
            requests.append(RunCommand("catalogue", ["models"], timeout=15))
        return requests

    def _ask_for_lost(self) -> list[Request]:
        offset = sum(map(len, self._pieces))
        args = run_json_recovery.query(self.reader.session_id, self.reader.last_part, offset)
        return [] if args is None else [RunCommand("lost", args)]

    def _recovered(self, piece: str) -> Sequence[Output]:
        self._pieces.append(piece)
        if len(piece) == run_json_recovery.PIECE:
            return self._ask_for_lost()
        lines = run_json_recovery.events(self._pieces, self.reader.session_id)
        # The process has gone: what a line means for it does not matter any more.
        return [o for line in lines for o in self.reader.receive(line) if isinstance(o, Message | Usage)]

    def finish(self, exit: ProcessExit) -> Outcome | Relaunch:
        if self._help.flags and not self.reader.events and exit.cause is None:
            return self._unknown_argument()
        if not self.reader.events and exit.cause is None and self._locked < 2 and _LOCKED.search(exit.stderr_tail):
            self._locked += 1
            return Relaunch("another run held the database")
        status, error, failure = self._judge(exit)
        rejected = status is RunStatus.FAILED and bool(self.requested) and self._rejected()
        return Outcome(
            status,
            output=self.reader.answer,
            error=error,
            failure=failure,
            session_id="" if rejected else self.reader.session_id,
            resume_rejected=rejected,
            usage=self._usage(),
        )

    def _usage(self) -> dict[str, TokenUsage]:
        total = self.reader.usage()
        for model, used in self._sub_agents.items():
            add_usage(total, model, used)
        return total

    def _unknown_argument(self) -> Outcome | Relaunch:
        """It printed its help and ran nothing: once more with what this version takes."""
        theirs = self._help.unknown(self._users_words)
        if self._known is None and not theirs:
            self._known = self._help.flags
            return Relaunch(f"this version of {self.product} does not know every option")
        if theirs:
            error = f"{self.product} does not know {', '.join(theirs)}: take it out of the agent's arguments"
            return Outcome(RunStatus.FAILED, error=error, failure=FailureDetail(FailureReason.MISSING_CONFIG, error))
        error = f"{self.product} {self.context.version_text} does not take the arguments of a run: update it"
        return Outcome(RunStatus.FAILED, error=error, failure=FailureDetail(FailureReason.VERSION, error))

    def _judge(self, exit: ProcessExit) -> tuple[RunStatus, str, FailureDetail | None]:
        reader, name = self.reader, self.capabilities.name
        if reader.error is not None and self._no_such_model:
            error = f"{name} knows no model {self._model!r}"
            return RunStatus.FAILED, error, FailureDetail(FailureReason.MODEL, error)
        if reader.error is not None:
            return run_json_errors.reported(reader.error, exit)
        if exit.cause is StopCause.WATCHDOG and reader.silent_after_tool:
            return run_json_errors.approval(name)
        if reader.step is None:
            return run_json_errors.silent(name, exit)
        unfinished = self._unfinished()
        if unfinished:
            error = f"{name} ended with {exit}: {unfinished}"
            ended_itself = exit.signal is None and exit.cause is None
            reason = FailureReason.NETWORK if ended_itself else FailureReason.PROCESS
            return RunStatus.FAILED, error, FailureDetail(reason, error)
        return RunStatus.COMPLETED, "", None

    def _unfinished(self) -> str:
        """Why the last step cannot be the end, else "". The stream broke where the CLI itself saw nothing wrong."""
        step = self.reader.step
        if step is None:
            return ""
        if step.open:
            return "opencode stream ended in the middle of a step"
        if step.wants_more:
            return f"opencode stream ended after a step that must go on ({step.reason})"
        if step.reason == "error":
            return "opencode stream ended with a step that failed"
        return "" if step.anything else "opencode stream ended with a step that holds nothing"

    def _rejected(self) -> bool:
        """Positive evidence that the requested session is gone: said before the first event, or as the only error."""
        if self.stderr_says_gone or self._elsewhere:
            return True
        error = self.reader.error
        if error is None or self.reader.step is not None:
            return False
        return bool(_GONE.search(f"{error.get('name')}: {error_text(error)}"))

    # beside the run --------------------------------------------------------------------

    @classmethod
    def render(cls, message: Message) -> Rendered:
        """Its edit tool writes `oldString` and `newString`."""
        given = message.input or {}
        if "oldString" in given or "newString" in given:
            changed = {_SPELLED.get(key, key): value for key, value in given.items()}
            return rendering.render(replace(message, input=changed))
        return rendering.render(message)

    # pieces ----------------------------------------------------------------------------

    @property
    def _takes_mcp(self) -> bool:
        return self.capabilities.mcp.value != "none"

    @property
    def _config_variable(self) -> str:
        return f"{self.product.upper()}_CONFIG_CONTENT"

    def _config_request(self) -> RunCommand:
        return RunCommand("config", ["debug", "config"], timeout=30)
