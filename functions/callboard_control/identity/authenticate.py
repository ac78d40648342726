"""From a token to an actor: one read of the item the token names, one more for a person's membership. Where people sign
in elsewhere (``CALLBOARD_SIGNIN_ISSUER``), the token they bring from there is one of theirs, too."""

from __future__ import annotations

import hmac
import os

from callboard_control import ports
from callboard_control.actor import Actor, Daemon, Person, TaskAgent
from callboard_control.errors import NotFound, Unauthenticated
from callboard_control.store import keys, table
from callboard_control.store.models import DaemonItem, MemberItem, TaskItem, TokenItem
from callboard_control.tasks.claim import encode_digest
from callboard_wire.states import HELD

SIGNIN_ISSUER = "CALLBOARD_SIGNIN_ISSUER"
TASK_TOKEN_MS = 24 * 3600 * 1000
NOTE_USE_EVERY_MS = 10 * 60 * 1000


def authenticate(header: str | None, workspace_id: str | None) -> Actor:
    """The actor behind an ``Authorization`` header. `workspace_id` is what the client asks for: it chooses among a
    person's workspaces and is ignored for daemons and tasks, whose token says where they belong.

    Raises `Unauthenticated` with one message whatever was wrong, so that guessing learns nothing; `NotFound` for a
    workspace the person is not in.
    """
    token = bearer(header)
    if token.count(".") == 2 and os.environ.get(SIGNIN_ISSUER):
        return _signed_in(token, workspace_id)
    split = keys.split_token(token) if token else None
    if split is None:
        raise _refused()
    kind, owner_id = split
    match kind:
        case keys.PERSON:
            return _person(token, owner_id, workspace_id)
        case keys.DAEMON:
            return _daemon(token, owner_id)
        case _:
            return _task(token, owner_id)


def bearer(header: str | None) -> str:
    """The token of an ``Authorization`` header, or ""; pasted spaces and line ends around it are forgiven."""
    scheme, _, token = (header or "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _refused() -> Unauthenticated:
    return Unauthenticated("The token is missing, unknown, expired or revoked. Log in again: `callboard login`.")


def _signed_in(token: str, workspace_id: str | None) -> Person:
    # Not before one is shown: with what they import these two double the CPU of a cold start.
    from callboard_control.identity.arrivals import arrive
    from callboard_control.identity.signin import verified

    return arrive(verified(token), workspace_id)


def _person(token: str, token_id: str, workspace_id: str | None) -> Person:
    item = table.get(TokenItem, f"TO#{token_id}", "T")
    now = ports.now_ms()
    if item is None or not hmac.compare_digest(item.digest, keys.digest(token)) or item.revoked is not None:
        raise _refused()
    if item.expires is not None and int(item.expires) <= now:
        raise _refused()
    if now - int(item.last_used or 0) > NOTE_USE_EVERY_MS:
        table.update(TokenItem(item.pk, "T"), [TokenItem.last_used.set(now)], TokenItem.pk.exists())
    return membership(item.user_id, workspace_id or item.workspace_id, token_id)


def membership(user_id: str, workspace_id: str, token_id: str = "") -> Person:
    """The person as a member of `workspace_id`; `NotFound` when they are not, as if it did not exist."""
    member = table.get(MemberItem, keys.workspace(workspace_id), f"ME#{user_id}") if len(workspace_id) <= 64 else None
    if member is None:
        raise NotFound.of("workspace", workspace_id)
    return Person(user_id, workspace_id, member.role, token_id)


def _daemon(token: str, record: str) -> Daemon:
    item = table.get(DaemonItem, f"DM#{record}", "D")
    if item is None or item.digest is None or not hmac.compare_digest(item.digest, keys.digest(token)):
        raise _refused()
    return as_daemon(item)


def as_daemon(item: DaemonItem) -> Daemon:
    return Daemon(
        record=item.pk.removeprefix("DM#"),
        daemon_id=item.daemon_id,
        workspace_id=item.workspace_id,
        runtimes={rid: r["provider"] for rid, r in item.runtimes.items() if not r.get("offline")},
        seen=int(item.seen),
        withdrawn=frozenset(rid for rid, r in item.runtimes.items() if r.get("offline")),
        owner_id=item.owner_id or "",
        profiles_version=int(item.profiles_version or 0),
    )


def _task(token: str, task_id: str) -> TaskAgent:
    item = table.get(TaskItem, keys.task(task_id), "T")
    if item is None or item.status not in HELD or ports.now_ms() - int(item.dispatched or 0) > TASK_TOKEN_MS:
        raise _refused()
    wanted = encode_digest(keys.digest(token))
    if not any(hmac.compare_digest(wanted, known) for known in item.token_digests or ()):
        raise _refused()
    return TaskAgent(item.agent_id, item.id, item.workspace_id)
