"""Logging in by a code: a machine without a login shows a short code, and somebody who is logged in lets it in.

    machine                       person
    start → device code, user code
    poll … authorization_pending
                                  look (who is asking?) → decide
    poll → a token, once

Both codes are stored as digests only. The device code has 256 random bits. The user code is short, because it is typed:
it is good for a quarter of an hour and one answer, only a person who is logged in may try one, and each of them may be
wrong ten times a minute (`limits.Rates.guess`): of 20⁸ codes that finds one in twenty thousand years.
"""

from __future__ import annotations

import os
import secrets
from typing import Final

from callboard_control import ports
from callboard_control.actor import Person
from callboard_control.errors import Conflict, InvalidRequest, NotFound
from callboard_control.identity import audit, limits
from callboard_control.identity.authenticate import SIGNIN_ISSUER, membership
from callboard_control.identity.tokens import DAY_MS, minted
from callboard_control.names import plain
from callboard_control.store import keys, table
from callboard_control.store.errors import ConditionFailed
from callboard_control.store.identity_items import DeviceItem, UserCodeItem
from callboard_control.store.models import SystemItem
from callboard_control.tasks.record import at
from callboard_wire.login import LoginToken, StartedLogin, StartLogin, WaitingLogin

D = DeviceItem
LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""RFC 8628, 6.1: no vowels, so that no code is a word; nothing that is mistaken for a digit."""
CODE_LENGTH: Final = 8
EXPIRES_S: Final = 900
INTERVAL_S: Final = 5
SLOWER_BY_S: Final = 5
SLOWEST_S: Final = 60
LOGGED_IN_FOR_MS: Final = 90 * DAY_MS


def start(request: StartLogin, address: str, base_url: str) -> StartedLogin:
    """Begin a login for a machine at `address`. Raises `Conflict` ``nobody_here`` where nobody could let it in."""
    if SIGNIN_ISSUER not in os.environ and table.get(SystemItem, "SYS", "BOOTSTRAP", consistent=False) is None:
        raise Conflict(
            "Nobody has logged in here yet, so nobody can let you in: begin with `callboard login --bootstrap FILE`.",
            code="nobody_here",
        )
    now = ports.now_ms()
    device_code = secrets.token_urlsafe(32)
    user_code = "".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH))
    expires = now + EXPIRES_S * 1000
    device = D(_device_key(device_code), "D", status="pending", client_name=plain(request.client_name) or "a machine")
    device.address = address
    device.interval_s, device.expires, device.created, device.ttl = INTERVAL_S, expires, now, expires // 1000
    code = UserCodeItem(_user_key(user_code), "C", device=device.pk, ttl=expires // 1000)
    table.transact([table.Put(device), table.Put(code, UserCodeItem.pk.does_not_exist())])
    shown = f"{user_code[:4]}-{user_code[4:]}"
    return StartedLogin(
        device_code=device_code,
        user_code=shown,
        verification_uri=f"{base_url}/device",
        verification_uri_complete=f"{base_url}/device?user_code={shown}",
        expires_in=EXPIRES_S,
        interval=INTERVAL_S,
    )


def poll(device_code: str) -> LoginToken:
    """The token, once somebody has let the machine in.

    Raises `InvalidRequest` with RFC 8628's codes: ``authorization_pending``, ``slow_down`` (5 s more between polls from
    here on), ``access_denied``, ``expired_token`` (also for a code that is used up or never was one).
    """
    device = table.get(D, _device_key(device_code), "D")
    now = ports.now_ms()
    if device is None or int(device.expires) <= now:
        raise _expired()
    match device.status:
        case "pending":
            raise _pending(device, now)
        case "approved":
            return _let_in(device, now)
        case _:
            table.delete(D(device.pk, "D"))
            raise _denied()


def _pending(device: DeviceItem, now: int) -> InvalidRequest:
    """What a machine that polls is told while nobody has answered. A second of its interval is forgiven: clocks and
    networks are not exact."""
    interval = int(device.interval_s)
    too_soon = device.polled is not None and now - int(device.polled) < (interval - 1) * 1000
    if too_soon:
        interval = min(interval + SLOWER_BY_S, SLOWEST_S)
    try:
        table.update(D(device.pk, "D"), [D.polled.set(now), D.interval_s.set(interval)], D.pk.exists())
    except ConditionFailed:
        return _expired()
    if too_soon:
        return InvalidRequest(f"Ask every {interval} s, not more often.", code="slow_down", interval=interval)
    return InvalidRequest("Nobody has answered yet.", code="authorization_pending", interval=interval)


def _let_in(device: DeviceItem, now: int) -> LoginToken:
    """Swap the device code for a token, in one transaction: a second poll at the same time gets nothing."""
    try:
        person = membership(device.user_id, device.workspace_id, device.approved_by_token or "")
    except NotFound:  # whoever let it in has left the workspace since
        raise _denied() from None
    made = minted(person.user_id, person.workspace_id, device.client_name, now + LOGGED_IN_FOR_MS)
    deed = audit.put(person, "token_created", f"token:{made.id}", name=device.client_name, by="device code")
    try:
        table.transact([table.Delete(D(device.pk, "D"), D.status == "approved"), table.Put(made.item), deed])
    except ConditionFailed as e:
        raise _expired() from e
    return LoginToken(
        access_token=made.token,
        token_id=made.id,
        user_id=person.user_id,
        workspace_id=person.workspace_id,
        expires_at=at(made.item.expires),
    )


def look(person: Person, user_code: str) -> WaitingLogin:
    """Who is asking. Raises `NotFound` ``user_code_not_found``, `TooManyRequests` after ten wrong codes."""
    return _view(_waiting(person, user_code))


def _view(device: DeviceItem) -> WaitingLogin:
    return WaitingLogin(
        client_name=device.client_name,
        address=device.address or "",
        started_at=at(device.created),
        expires_at=at(device.expires),
    )


def decide(person: Person, user_code: str, *, approve: bool) -> WaitingLogin:
    """Let the machine in as `person`, in the workspace of this call, or turn it away. A code takes one answer."""
    device = _waiting(person, user_code)
    actions = [D.status.set("approved" if approve else "denied")]
    if approve:
        actions += [D.user_id.set(person.user_id), D.workspace_id.set(person.workspace_id)]
        actions += [D.approved_by_token.set(person.token_id)] if person.token_id else []
    word = "login_approved" if approve else "login_denied"
    deed = audit.put(person, word, f"device:{device.client_name}", address=device.address or "")
    try:
        table.transact(
            [
                table.Update(D(device.pk, "D"), actions, D.status == "pending"),
                table.Delete(UserCodeItem(_user_key(user_code), "C"), UserCodeItem.pk.exists()),
                deed,
            ]
        )
    except ConditionFailed as e:
        raise _unknown() from e
    return _view(device)


def _waiting(person: Person, user_code: str) -> DeviceItem:
    limiter = limits.current()
    limiter.check(limiter.rates.guess, person.user_id)
    code = table.get(UserCodeItem, _user_key(user_code), "C")
    device = table.get(D, code.device, "D") if code is not None else None
    if device is None or device.status != "pending" or int(device.expires) <= ports.now_ms():
        limiter.count(limiter.rates.guess, person.user_id)
        raise _unknown()
    return device


def _device_key(device_code: str) -> str:
    return f"DV#{keys.digest(device_code).hex()}"


def _user_key(user_code: str) -> str:
    return f"UC#{keys.digest(''.join(c for c in user_code.upper() if c.isalnum())).hex()}"


def _unknown() -> NotFound:
    """The code itself is not repeated: it may be right in a moment, for another."""
    return NotFound(
        "There is no such code: it was typed wrong, answered already, or is over.", code="user_code_not_found"
    )


def _expired() -> InvalidRequest:
    return InvalidRequest("The code is used up or over; begin again.", code="expired_token")


def _denied() -> InvalidRequest:
    return InvalidRequest("The login was refused.", code="access_denied")
