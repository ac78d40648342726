"""Secrets out of text that is stored or shown. What the agent's own process gets is never touched.

Order matters: a whole private key goes before the patterns that would eat a line of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

MASK: Final = "[REDACTED]"
_MAX_DEPTH = 32
_NAMES = (
    "API_KEY|API_SECRET|SECRET_KEY|SECRET|ACCESS_TOKEN|AUTH_TOKEN|PRIVATE_KEY|DATABASE_URL|DB_PASSWORD|DB_URL|REDIS_URL"
    "|PASSWORD|TOKEN"
)

_WHOLE: Final = [
    re.compile(p)
    for p in (
        r"\bAKIA[A-Z0-9]{16}\b",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----",
        r"\bgh[pousr]_[A-Za-z0-9]{36,255}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,255}",
        r"\bsk-[A-Za-z0-9_-]{20,}",
        r"\bxox[bporase]-[A-Za-z0-9-]{10,}",
        r"\bxapp-[A-Za-z0-9-]{10,}",
        r"\bglpat-[A-Za-z0-9_-]{20,}",
        r"\bAIza[A-Za-z0-9_-]{35}",
        r"\b(?:sk|rk)_live_[A-Za-z0-9]{16,}",
        r"\bey[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"\b(?:mul|mdt|mat|awt)_[A-Za-z0-9_-]{16,}",  # this project's own tokens
    )
]
# (pattern, replacement): the name stays, the value goes.
_PARTS: Final = [
    (re.compile(r"(?i)\b((?:aws_)?secret_access_key\s*[=:]\s*[\"']?)[A-Za-z0-9/+=]{40}"), rf"\g<1>{MASK}"),
    (re.compile(r"(?i)\b(Bearer\s+)[A-Za-z0-9._~+/=-]{8,}"), rf"\g<1>{MASK}"),
    (
        re.compile(r"(?i)\b((?:postgres(?:ql)?|mysql|mongodb(?:\+srv)?|rediss?|amqps?)://)[^\s:@/]*:[^\s@/]+@"),
        rf"\g<1>{MASK}@",
    ),
    (
        re.compile(rf"(?i)\b((?:[A-Z0-9]+_)*(?:{_NAMES})\s*[=:]\s*)(?:\"[^\"\n]+\"|'[^'\n]+'|[^\s\"',;]+)"),
        rf"\g<1>{MASK}",
    ),
]
_DIAGNOSTIC: Final = [
    (re.compile(r"(?im)\b((?:proxy-)?authorization\s*:\s*)\S.*$"), rf"\g<1>{MASK}"),
    (re.compile(r"(?i)(\"(?:token|auth|authorization|api_?key|secret|password)\"\s*:\s*\")[^\"]*"), rf"\g<1>{MASK}"),
    (
        re.compile(r"(?i)\b((?:token|auth|authorization|api_?key|secret|password)\s*[:=]\s*)[^\s\"',;]+"),
        rf"\g<1>{MASK}",
    ),
]
_HINTS = re.compile(
    r"(?i)key|secret|token|password|bearer|://|_url|ey[A-Z]|AKIA|gh[pousr]_|github_pat|sk[-_]|xox|xapp|glpat|AIza|rk_|m[dau][tl]_|awt_"
)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def text(value: str) -> str:
    """`value` with every known kind of secret masked, and the user's name out of the home path."""
    if _HINTS.search(value):
        for whole in _WHOLE:
            value = whole.sub(MASK, value)
        for part, replacement in _PARTS:
            value = part.sub(replacement, value)
    return _home(value)


def value(item: Any, depth: int = 0) -> Any:
    """A deep copy of JSON-like data with every string through `text`; deeper than 32 levels becomes a mask."""
    if depth > _MAX_DEPTH:
        return MASK
    if isinstance(item, str):
        return text(item)
    if isinstance(item, Mapping):
        return {k: _named(k, v, depth) for k, v in item.items()}
    if isinstance(item, list | tuple):
        return [value(v, depth + 1) for v in item]
    return item


def diagnostic(message: str) -> str:
    """For stderr and error texts: control characters out, credentials in headers and JSON out, then `text`."""
    message = _CONTROL.sub("", message)
    for pattern, replacement in _DIAGNOSTIC:
        message = pattern.sub(replacement, message)
    return text(message)


_SECRET_NAME = re.compile(rf"(?i)^(?:[A-Z0-9]+[_-])*(?:{_NAMES}|AUTHORIZATION|APIKEY)$")


def _named(name: Any, item: Any, depth: int) -> Any:
    """A string under a secret's name is a secret whatever it looks like: {"api_key": "hunter2"}."""
    if isinstance(item, str) and item and isinstance(name, str) and _SECRET_NAME.match(name):
        return MASK
    return value(item, depth + 1)


def _home(value: str) -> str:
    home = str(Path.home())
    user = Path(home).name
    if not user or home in ("/", "/root") or home not in value:
        return value
    return value.replace(home, str(Path(home).with_name("****")))
