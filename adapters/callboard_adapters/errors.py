"""Everything this library raises.

    AdapterError
    ├── UnknownProvider            no adapter of that name; lists the known
    ├── ProviderClash              a plugin claims a built-in's name
    └── ExecutionError             the run could not be started (carries `failure_reason`)
        ├── ExecutableNotFound     no such file, or not on PATH
        ├── ExecutableNotRunnable  there, but the system refuses to execute it
        ├── WorkdirMissing         `ExecOptions.cwd` is not a directory
        ├── ArgumentsTooLarge      argv or environment over the system's limit
        ├── VersionUnsupported     the CLI is older than the adapter needs
        ├── LaunchRefused          the adapter knows that this launch cannot work, or its configuration is invalid
        └── SpawnFailed            the system could not make a process (memory, process limit, full disk)

Once `execute` has returned a session nothing is raised any more: whatever happens is in the one `Result`.
"""

from __future__ import annotations

from callboard_wire.failures import FailureReason


class AdapterError(Exception):
    """Root of the tree."""


class UnknownProvider(AdapterError):
    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"unknown provider {name!r}; known: {', '.join(known)}")
        self.name = name
        self.known = known


class ProviderClash(AdapterError):
    def __init__(self, name: str, distribution: str) -> None:
        super().__init__(
            f"plugin {distribution!r} registers {name!r}, which is built in; rename the plugin's entry point"
        )
        self.name = name
        self.distribution = distribution


class ExecutionError(AdapterError):
    """The run could not be started.

    `failure_reason` is the closed reason, `provider` the adapter's name, `repair` one sentence on what to do.
    """

    failure_reason = FailureReason.UNKNOWN

    def __init__(
        self, message: str, *, provider: str = "", repair: str = "", failure_reason: FailureReason | None = None
    ) -> None:
        super().__init__(f"{message} ({repair})" if repair else message)
        self.provider = provider
        self.repair = repair
        if failure_reason is not None:
            self.failure_reason = failure_reason


class ExecutableNotFound(ExecutionError):
    failure_reason = FailureReason.MISSING_EXECUTABLE


class ExecutableNotRunnable(ExecutionError):
    failure_reason = FailureReason.MISSING_EXECUTABLE


class WorkdirMissing(ExecutionError):
    failure_reason = FailureReason.PROCESS


class ArgumentsTooLarge(ExecutionError):
    failure_reason = FailureReason.PROCESS


class VersionUnsupported(ExecutionError):
    """`found` and `needed` are version texts such as `1.9.3`."""

    failure_reason = FailureReason.VERSION

    def __init__(self, provider: str, found: str, needed: str) -> None:
        super().__init__(
            f"{provider} {found} is below the minimum supported version {needed}",
            provider=provider,
            repair=f"update {provider} to {needed} or newer",
        )
        self.found = found
        self.needed = needed


class LaunchRefused(ExecutionError):
    failure_reason = FailureReason.MISSING_CONFIG


class SpawnFailed(ExecutionError):
    failure_reason = FailureReason.PROCESS
