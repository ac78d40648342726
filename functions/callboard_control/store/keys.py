"""Keys and ids: how a thing's id becomes its place in the table, and how ids and secrets are made."""

from __future__ import annotations

import hashlib
import secrets
import time
import unicodedata
import uuid
import zlib
from collections.abc import Callable
from typing import Final

from callboard_control.store.models import SHARDS

NAMESPACE: Final = uuid.UUID("6f2a1c1e-3d0b-4b59-9a53-1f1f6c0f2b7d")

TURN_PER_PRIORITY_MS: Final = 15 * 60 * 1000
"""A level of priority is worth this much waiting. A task's turn is its creation minus its priority's worth, so an
urgent task (4) overtakes everything that has waited less than an hour, and nothing waits for ever: after that hour a
task of no priority goes before every newer urgent one. The order never has to be rewritten as time passes."""

EARLIEST_MS: Final = 4 * TURN_PER_PRIORITY_MS


def system_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


_clock: Callable[[], int] = system_clock
_randbits: Callable[[int], int] = secrets.randbits


def use_source(clock: Callable[[], int], randbits: Callable[[int], int]) -> None:
    """Let a simulation repeat itself: make ids of its own time and chance. Tokens are always the system's."""
    global _clock, _randbits
    _clock, _randbits = clock, randbits


def new_id() -> str:
    """A UUIDv7 (RFC 9562): ids made later sort later, which keeps pages in order without reading them."""
    value = (_clock() & (1 << 48) - 1) << 80 | 0x7 << 76 | _randbits(12) << 64 | 0b10 << 62 | _randbits(62)
    return str(uuid.UUID(int=value))


def is_id(text: str) -> bool:
    """Whether `text` has the form of one of our ids (a name may, too)."""
    return len(text) == 36 and text.count("-") == 4


def derived_id(*parts: str) -> str:
    """The same id for the same parts, always: what makes a repeated call find what the first one made."""
    return str(uuid.uuid5(NAMESPACE, "\x1f".join(parts)))


def shard(of: str) -> int:
    return zlib.crc32(of.encode()) % SHARDS


def turn(created_ms: int, priority: int) -> str:
    return f"{created_ms + EARLIEST_MS - priority * TURN_PER_PRIORITY_MS:014d}"


def turn_before(created_ms: int) -> str:
    """The turn of a task without priority created at `created_ms`: whatever is older has one below it, and so have some
    younger ones of higher priority."""
    return turn(created_ms, 0)


def stamp(ms: int) -> str:
    return f"{ms:014d}"


def workspace(ws: str) -> str:
    return f"WS#{ws}"


def task(task_id: str) -> str:
    return f"TK#{task_id}"


def ready_of(runtime_id: str) -> str:
    return f"RT#{runtime_id}"


def usage_of(runtime_id: str) -> str:
    return f"RT#{runtime_id}#U"


def deferred_of(agent_id: str) -> str:
    return f"DF#{shard(agent_id)}"


def busy_of(daemon: str) -> str:
    return f"BUSY#{daemon}"


def tasks_of(ws: str) -> str:
    return f"WS#{ws}#T"


# ── secrets ──────────────────────────────────────────────────────────────────

PERSON, DAEMON, TASK = "mul", "mdt", "mat"


def mint(kind: str, owner_id: str) -> tuple[str, bytes]:
    """A token of `kind` for the item `owner_id` names, and the digest to store. 160 random bits; the digest needs no
    salt or stretching, for nobody can guess the input."""
    token = f"{kind}_{owner_id}_{secrets.token_hex(20)}"
    return token, digest(token)


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def split_token(token: str) -> tuple[str, str] | None:
    """(kind, id of the item that holds the digest), or None for anything that is not a token of ours."""
    parts = token.split("_")
    if len(parts) != 3 or parts[0] not in (PERSON, DAEMON, TASK) or len(parts[2]) != 40 or not 1 <= len(parts[1]) <= 64:
        return None
    return parts[0], parts[1]


def shard_name(lane: str) -> str:
    """A short name of a lane for an index row; two lanes may share one, so now and then one waits for the other."""
    return f"{zlib.crc32(lane.encode()):08x}"


def folded(name: str) -> str:
    """A name as it is compared: case, width and surrounding space do not make another name."""
    return unicodedata.normalize("NFKC", name).casefold().strip()
