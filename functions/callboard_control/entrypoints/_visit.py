"""What every call passes on its way in and out: who may call how often.

A token counts once it has been found valid; a call without one counts for its address. An address beyond its limit is
refused before anything is read, except for tokens that were valid a moment ago: behind one address many may sit, and
on one machine everybody does.
"""

from __future__ import annotations

import ipaddress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from callboard_control.errors import TooManyRequests
from callboard_control.identity import limits
from callboard_control.identity.authenticate import bearer
from callboard_control.store import keys


@dataclass(slots=True)
class Visit:
    """One call. `admitted`: a valid token came with it; `standing`: what the answer says of the limit it counts for."""

    address: str
    token_key: str
    admitted: bool = False
    standing: limits.Standing | None = None


current: ContextVar[Visit] = ContextVar("callboard_visit")


def enter(event: dict[str, Any]) -> Visit:
    """The visit an HTTP-API event begins."""
    context = event.get("requestContext") or {}
    headers = event.get("headers") or {}
    authorization = next((value for name, value in headers.items() if name.lower() == "authorization"), "")
    # The token alone: spaces around it and the scheme's case are the sender's to choose, and would choose a new count.
    token = bearer(authorization)
    token_key = keys.digest(token).hex()[:32] if token else ""
    return Visit(_network((context.get("http") or {}).get("sourceIp", "")), token_key)


def _network(address: str) -> str:
    """What one caller can choose among counts as one: an IPv6 caller has a whole /64."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(ip, ipaddress.IPv6Address):
        return str(ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False).network_address)
    return str(ip)


def check(visit: Visit) -> None:
    """Raises `TooManyRequests` for a caller who is known to be beyond a limit."""
    limiter = limits.current()
    if visit.token_key:
        limiter.check(limiter.rates.token, visit.token_key)
    if not (visit.token_key and limiter.remembers(visit.token_key)):
        limiter.check(limiter.rates.address, visit.address)


def admit() -> None:
    """The current call's token is valid. Raises `TooManyRequests`."""
    visit, limiter = current.get(), limits.current()
    if not visit.admitted:
        visit.admitted = True
        limiter.remember(visit.token_key)
        visit.standing = limiter.count(limiter.rates.token, visit.token_key)


def guest() -> None:
    """The current call is one that makes somebody known. Raises `TooManyRequests`."""
    visit, limiter = current.get(), limits.current()
    visit.standing = limiter.count(limiter.rates.login, visit.address)


def leave(visit: Visit, answer: dict[str, Any]) -> dict[str, Any]:
    """`answer` with what it says of the limit; a call that nobody was admitted with counts for its address."""
    if not visit.admitted:
        limiter = limits.current()
        try:
            standing = limiter.count(limiter.rates.address, visit.address)
            visit.standing = visit.standing or standing
        except TooManyRequests:
            pass  # this one is answered; the next is refused at the door
    if visit.standing is not None:
        answer.setdefault("headers", {}).update(headers(visit.standing))
    return answer


def headers(standing: limits.Standing) -> dict[str, str]:
    return {
        "RateLimit-Limit": str(standing.limit),
        "RateLimit-Remaining": str(standing.remaining),
        "RateLimit-Reset": str(standing.reset_s),
    }


def refusal(error: TooManyRequests) -> dict[str, str]:
    """The headers of a 429."""
    wait, limit = int(error.details["retry_after_s"]), int(error.details["limit"])
    return {"Retry-After": str(wait), **headers(limits.Standing(limit, 0, wait))}
