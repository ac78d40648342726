"""Everything the daemon and the command line raise.

    CallboardError                 says what happened, to which thing, and what to do; carries the exit code
    ├── SettingError               a setting cannot be read (names the variable or the key)
    ├── StateError                 the state folder cannot be used
    │   └── AlreadyRunning         another daemon holds this profile
    ├── NotLoggedIn                there is no token to use
    ├── HumanOnly                  the command is not for agents
    ├── PrepareError               a task's folder could not be made ready (carries `failure_reason`)
    └── ControlError               the control plane did not do what was asked
        ├── Unreachable            no answer: connection, DNS, TLS, timeout
        ├── ServerTrouble          an answer that a later try may better: 5xx, 408, 425, 429 (carries `retry_after_s`)
        ├── BadAnswer              2xx with a body that is not the wire's
        └── Refused                any other 4xx (carries the wire's `error` code)
            ├── NotAuthorised      401, 403
            ├── NotFound           404
            ├── StaleClaim         409 `stale_claim`: somebody else holds the task now
            ├── Conflict           any other 409
            └── Invalid            400, 413, 415, 422 …

`answers` is the only place where HTTP becomes one of these.
"""

from __future__ import annotations

from enum import IntEnum

from callboard_wire.failures import FailureReason


class ExitCode(IntEnum):
    """What the process ends with; documented in docs/reference/cli.md."""

    OK = 0
    ERROR = 1
    NETWORK = 2
    AUTH = 3
    NOT_FOUND = 4
    INVALID = 5


class CallboardError(Exception):
    """Root of the tree. `hint` is one sentence on what to do, shown after the message."""

    exit_code = ExitCode.ERROR

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class SettingError(CallboardError):
    exit_code = ExitCode.INVALID


class StateError(CallboardError):
    pass


class AlreadyRunning(StateError):
    """`pid` is 0 when the other process has not written its record yet."""

    def __init__(self, profile: str, pid: int) -> None:
        who = f"pid {pid}" if pid else "it is just starting"
        super().__init__(
            f"a daemon of profile {profile or 'default'!r} already runs on this machine ({who})",
            hint="See `callboard daemon status`; stop it with `callboard daemon stop`, or use another --profile.",
        )
        self.pid = pid


class NotLoggedIn(CallboardError):
    exit_code = ExitCode.AUTH


class HumanOnly(CallboardError):
    exit_code = ExitCode.AUTH


class PrepareError(CallboardError):
    """The message goes to the server as the task's error, so it names paths of this machine but never a secret."""

    def __init__(self, message: str, *, failure_reason: FailureReason, hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.failure_reason = failure_reason


class ControlError(CallboardError):
    """`transient`: the same request may succeed later."""

    transient = False


class Unreachable(ControlError):
    exit_code = ExitCode.NETWORK
    transient = True


class ServerTrouble(ControlError):
    exit_code = ExitCode.NETWORK
    transient = True

    def __init__(self, message: str, *, status: int, retry_after_s: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after_s = retry_after_s


class BadAnswer(ControlError):
    pass


class Refused(ControlError):
    """`code` is the wire's `error` (decide by it, never by the message); `status` the HTTP status."""

    def __init__(self, message: str, *, status: int, code: str, request_id: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.request_id = request_id


class NotAuthorised(Refused):
    exit_code = ExitCode.AUTH


class NotFound(Refused):
    exit_code = ExitCode.NOT_FOUND


class StaleClaim(Refused):
    pass


class Conflict(Refused):
    pass


class Invalid(Refused):
    exit_code = ExitCode.INVALID
