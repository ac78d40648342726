"""What a provider can do, as data: one frozen record per adapter, from which `docs/providers.md` is generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from callboard_wire.providers import Model


class PromptVia(StrEnum):
    STDIN_LINE = "stdin-line"  # one protocol line; stdin stays open until the result
    STDIN_EOF = "stdin"  # the text, then end of file
    RPC = "rpc"  # a request of the protocol
    FILE = "file"
    ARGV = "argv"  # last resort: 128 KiB at most, visible to every user of the machine


class McpVia(StrEnum):
    NONE = "none"
    FILE = "file"  # a 0600 file named on the command line
    ENV = "env"
    PROJECT_FILE = "project-file"  # a file the CLI looks for in the workdir
    CONFIG = "config"  # the CLI's own configuration file, in a folder of the run
    SESSION_PARAM = "session-param"  # a parameter of the protocol's session request


class UsageVia(StrEnum):
    NONE = "none"
    STREAM = "stream"
    SIDE_FILE = "side-file"


class ModelSource(StrEnum):
    NONE = "none"
    STATIC = "static"  # a list in the adapter
    COMMAND = "command"  # a subcommand of the CLI lists them
    PROTOCOL = "protocol"  # a request or the handshake lists them


class ArgMode(StrEnum):
    STANDALONE = "standalone"
    VALUE = "value"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class ArgStyle:
    """Which spellings of a flag the CLI's own parser accepts besides the exact one.

    `attached_short`: `-mfoo` means `-m foo`, and `-xp` is `-x -p`. `abbreviations`: `--perm` means
    `--permission-mode` where that is the only flag it can mean (argparse, yargs-with-strict-off …).
    """

    attached_short: bool = True
    abbreviations: bool = False


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Default limits in seconds; None means none. `ExecOptions` overrides each."""

    handshake: float | None = 60.0
    first_progress: float | None = None
    semantic_inactivity: float | None = None
    idle: float | None = 30 * 60.0
    tool: float | None = 2 * 3600.0
    cancel_grace: float = 3.0  # for the protocol's own cancel, before the ladder
    term_grace: float = 5.0  # between TERM and KILL


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One provider. Every field is shown in `docs/providers.md`; an honest blank is better than a guess."""

    name: str
    executable: str
    launch_header: str
    prompt: PromptVia
    version_args: tuple[str, ...] = ("--version",)
    minimum_version: str | None = None
    resume: bool = False
    resume_rejection: bool = False  # "this session is gone" is told apart from every other failure
    early_session_id: bool = False
    graceful_cancel: bool = False
    mcp: McpVia = McpVia.NONE
    usage: UsageVia = UsageVia.NONE
    cost: bool = False
    thinking_levels: tuple[str, ...] = ()
    model_source: ModelSource = ModelSource.NONE
    models: tuple[Model, ...] = ()  # those known without asking the CLI
    model_flag: bool = True
    max_turns: bool = False
    gateway: bool = False  # a run may be done by a gateway elsewhere: `ExecOptions.openclaw_mode`
    system_prompt: bool = False  # the adapter forwards `ExecOptions.system_prompt` itself
    context_file: str | None = None
    skills_folder: str | None = None
    user_skills_folder: str | None = None
    tools_leave_group: bool = False  # tools are started in a session of their own
    explicit_handshake: bool = False  # ready only when the adapter says `HandshakeDone`, not at the first line
    runs_offline: bool = True  # could be driven here against a loopback model; False: built from the fact sheets
    blocked_args: Mapping[str, ArgMode] = field(default_factory=dict)
    value_args: frozenset[str] = frozenset()  # other flags known to take a value: their value is never read as a flag
    arg_style: ArgStyle = ArgStyle()
    timeouts: Timeouts = Timeouts()
    relevant_env: tuple[str, ...] = ()
    login_env: tuple[str, ...] = ()  # any of these set means "credentials present"
    login_files: tuple[str, ...] = ()  # any of these present (~ allowed) means "logged in"
    config_files: tuple[str, ...] = ()
    login_hint: str = ""
