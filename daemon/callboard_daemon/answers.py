"""The border: what HTTP says becomes a body of the wire or one of our errors. Pure; the daemon and the CLI share it."""

from __future__ import annotations

import email.utils
import sys
import time
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from callboard_daemon.errors import (
    BadAnswer,
    Conflict,
    ControlError,
    Invalid,
    NotAuthorised,
    NotFound,
    Refused,
    ServerTrouble,
    StaleClaim,
    Unreachable,
)
from callboard_wire.bodies import ErrorBody

# httpx imports its own command line, and with it click, rich and pygments (5 MB resident, measured), whenever those
# are installed; nothing here uses it, and the idle daemon is promised small.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
import httpx as httpx  # noqa: E402  (after the line above; control.py takes it from here)

T = TypeVar("T", bound=BaseModel)

STALE_CLAIM: Final = "stale_claim"
TASK_NOT_FOUND: Final = "task_not_found"
CONTENDED: Final = "contended"
_LATER: Final = frozenset({408, 425, 429})
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def client_options(server_url: str, timeout: float) -> dict[str, Any]:
    """Arguments for `httpx.Client` and `httpx.AsyncClient`.

    A loopback server is never asked through a proxy, whatever the environment says: HTTP_PROXY without NO_PROXY is
    common and no proxy can reach our loopback. Certificates are only read for https.
    """
    parts = urlsplit(server_url)
    return {
        "base_url": server_url,
        "timeout": httpx.Timeout(timeout or None, connect=min(timeout or 10.0, 10.0)),  # 0 is no limit, as everywhere
        "trust_env": parts.hostname not in _LOOPBACK,
        "verify": parts.scheme == "https",
    }


def headers(token: str, version: str, platform: str) -> dict[str, str]:
    """Multica's client headers; `platform` is `cli` or `daemon`."""
    system = {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")
    sent = {"X-Client-Platform": platform, "X-Client-Version": version, "X-Client-OS": system}
    return sent | ({"Authorization": f"Bearer {token}"} if token else {})


def body_of(response: httpx.Response, kind: type[T]) -> T:
    """The answer as `kind`. Raises the `ControlError` the answer stands for, `BadAnswer` when it cannot be read."""
    if response.status_code >= 300:
        raise error_from_response(response)
    try:
        return kind.model_validate_json(response.content or b"{}")
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise BadAnswer(
            f"the server's answer to {response.request.url.path} is not what this version understands ({where})",
            hint="Is the server address right, and are both sides about the same version?",
        ) from None


def error_from_response(response: httpx.Response) -> ControlError:
    """The error an answer outside 2xx stands for; a body that is no `ErrorBody` (a proxy's page) still gives one."""
    status = response.status_code
    try:
        said = ErrorBody.model_validate_json(response.content)
    except ValidationError:
        said = ErrorBody(error="", message=f"{response.request.url.host} answered {status} {response.reason_phrase}")
    if status >= 500 or status in _LATER:
        return ServerTrouble(said.message, status=status, retry_after_s=_retry_after(response.headers))
    if status < 400:
        return BadAnswer(
            f"the server redirects to {response.headers.get('location', 'elsewhere')}", hint="Use that address instead."
        )
    kind = _kind(status, said.error)
    hint = "Log in again with `callboard login`." if status == 401 else ""
    return kind(said.message, status=status, code=said.error, request_id=said.request_id, hint=hint)


def error_from_exception(error: httpx.HTTPError | httpx.InvalidURL, server_url: str) -> ControlError:
    """The error for a request that got no answer."""
    if isinstance(error, httpx.TimeoutException):
        what = "did not answer in time"
    elif isinstance(error, httpx.ConnectError):
        what = f"cannot be reached ({error})"
    else:
        what = f"broke off ({error or type(error).__name__})"
    hint = "Is the address right and the network up? On one machine, start the server with `callboard up`."
    return Unreachable(f"the server at {server_url} {what}", hint=hint)


def _kind(status: int, code: str) -> type[Refused]:
    if status in (401, 403):
        return NotAuthorised
    if status == 404:
        return NotFound
    if status == 409:
        return StaleClaim if code == STALE_CLAIM else Conflict
    return Invalid


def _retry_after(sent: Mapping[str, str]) -> float | None:
    """Seconds from a Retry-After header in either of its two forms, at most an hour; None when there is none."""
    text = sent.get("retry-after", "")
    if text.isdigit():
        return min(float(text), 3600.0)
    try:
        at = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return min(max(0.0, at.timestamp() - time.time()), 3600.0)
