"""Tokens as people paste them: with line ends, quotes and invisible characters around and in them, cut short, or of
another kind. Nothing of what was pasted is ever repeated: it may be another secret."""

from __future__ import annotations

import re
from typing import Final

from callboard_daemon.errors import SettingError

PERSON: Final = "mul_"
_WHOLE: Final = re.compile(r"mul_[A-Za-z0-9-]{1,64}_[0-9a-f]{40}")
_SECRET_LENGTH: Final = 40
_OTHERS: Final = {
    "mdt_": "a machine's token, which its daemon alone uses",
    "mat_": "a task's token, which ends with its task",
    "awt_": "the token of a webhook's address",
}
_JWT: Final = re.compile(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


def is_signed_in(token: str) -> bool:
    """Whether it is a sign-in's own token (a JWT), which lasts for an hour or so, and not one of ours."""
    return _JWT.fullmatch(token) is not None


def person_token(text: str) -> str:
    """The token in `text`: a person's, or a sign-in's JWT. Raises `SettingError` that says what it is instead."""
    token = "".join(c for c in text if c.isprintable() and not c.isspace()).strip("\"'`")
    token = token.removeprefix("Bearer")
    if _WHOLE.fullmatch(token) or is_signed_in(token):
        return token
    if not token:
        raise SettingError("no token was given")
    for prefix, what in _OTHERS.items():
        if token.startswith(prefix):
            raise SettingError(
                f"that is {what}", hint=f"A person's tokens begin with {PERSON}: `callboard token create`."
            )
    if not token.startswith(PERSON):
        raise SettingError(f"that is not a person's token (they begin with {PERSON})")
    secret = len(token.rpartition("_")[2]) if token.count("_") == 2 else 0
    if secret > _SECRET_LENGTH:
        raise SettingError("that token has more after its end: was something else copied with it?")
    raise SettingError(
        f"that token is cut short: its last part has {secret} of {_SECRET_LENGTH} characters",
        hint="Copy the whole line, or pipe it in: callboard login --token-stdin < FILE",
    )
