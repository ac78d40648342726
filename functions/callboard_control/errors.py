"""What the control plane says no with. Subjects raise these; `entrypoints/_http.py` turns them into answers.

    ApiError                     status  error (the code to decide by)
    ├── InvalidRequest           400     invalid_request, or a more exact code
    ├── Unauthenticated          401     unauthenticated
    ├── Forbidden                403     forbidden
    ├── NotFound                 404     <thing>_not_found; also another tenant's thing
    ├── Conflict                 409     wrong_state, stale_claim, sequence_gap, name_taken, …
    ├── TooLarge                 413     too_large
    ├── TooManyRequests          429     too_many_requests: wait `retry_after_s` seconds
    └── Unavailable              503     unavailable: the same call may succeed in a moment

The daemon takes a 404 for "this runtime or task was deleted" and ends the agent, so a store that did not answer must
never become one; and it takes a 400 for permanent, so an outage must never become that either.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

_SHOWN: Final = 100
"""Characters of an id that a refusal repeats: callers may send megabytes."""


class ApiError(Exception):
    status: ClassVar[int] = 500
    code: str = "internal_error"

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.details = details


class InvalidRequest(ApiError):
    status = 400
    code = "invalid_request"


class Unauthenticated(ApiError):
    status = 401
    code = "unauthenticated"


class Forbidden(ApiError):
    status = 403
    code = "forbidden"


class NotFound(ApiError):
    status = 404
    code = "not_found"

    @classmethod
    def of(cls, thing: str, thing_id: str) -> NotFound:
        thing_id = thing_id if len(thing_id) <= _SHOWN else f"{thing_id[:_SHOWN]}…"
        named = thing.replace("_", " ")
        return cls(f"There is no {named} {thing_id!r} here.", code=f"{thing}_not_found", **{f"{thing}_id": thing_id})


class Conflict(ApiError):
    status = 409
    code = "conflict"


class TooLarge(ApiError):
    status = 413
    code = "too_large"


class TooManyRequests(ApiError):
    status = 429
    code = "too_many_requests"


class Unavailable(ApiError):
    status = 503
    code = "unavailable"
