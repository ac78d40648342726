"""Sign-ins by an issuer of JWTs (on AWS a Cognito user pool): who one says it is, once its signature holds.

Imported only when a JWT is shown: PyJWT and cryptography cost a cold start what no other caller should pay.

Every rule here has been a hole somewhere: the algorithm is ours and never the token's (``none``, and HS256 with the
public key as its secret); the issuer and the client it was made for are compared; a key id nobody knows makes us ask
for the keys again, but not more than once a minute, or anybody could make us ask all day.
"""

from __future__ import annotations

import json
import logging
import os
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from threading import Lock
from typing import Any, Final

import jwt

from callboard_control import ports
from callboard_control.errors import Unauthenticated, Unavailable
from callboard_control.identity.authenticate import SIGNIN_ISSUER

CLIENT: Final = "CALLBOARD_SIGNIN_CLIENT"
ALGORITHM: Final = "RS256"
LEEWAY_S: Final = 60
"""How far the issuer's clock and ours may be apart."""
KEPT_MS: Final = 6 * 3600 * 1000
AGAIN_MS: Final = 60_000
AGAIN_AFTER_FAILURE_MS: Final = 5_000
FETCH_TIMEOUT_S: Final = 3.0
MAX_KEYS_BYTES: Final = 256 * 1024

logger: Final = logging.getLogger("callboard.signin")


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who has signed in. `email` is "" unless the issuer says that it is verified."""

    issuer: str
    subject: str
    name: str
    email: str


def verified(token: str) -> SignedIn:
    """Who `token` speaks for. Raises `Unauthenticated`, and `Unavailable` while the issuer's keys cannot be had."""
    issuer, client = os.environ[SIGNIN_ISSUER].rstrip("/"), os.environ.get(CLIENT, "")
    try:
        header = jwt.get_unverified_header(token)
        key_id = header.get("kid")
        if header.get("alg") != ALGORITHM or not isinstance(key_id, str):
            raise _refused()
        claims: dict[str, Any] = jwt.decode(
            token,
            _keys_of(issuer).key(key_id),
            algorithms=[ALGORITHM],
            issuer=issuer,
            # Whom it is for and its times are checked below: an access token has no `aud`, and time is the server's.
            options={
                "require": ["exp", "iat", "iss", "sub", "token_use"],
                "verify_aud": False,
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except jwt.InvalidTokenError as e:
        raise _refused() from e
    if not (_is_for(client, claims) and _is_now(claims)):
        raise _refused()
    return SignedIn(issuer, claims["sub"], _name(claims), _email(claims))


def _is_for(client: str, claims: dict[str, Any]) -> bool:
    """Cognito's two kinds: an ID token names its client as the audience, an access token as `client_id`."""
    match claims["token_use"]:
        case "id":
            return bool(claims.get("aud") == client)
        case "access":
            return bool(claims.get("client_id") == client)
        case _:
            return False


def _is_now(claims: dict[str, Any]) -> bool:
    now = ports.now_ms() / 1000
    begins = [claims["iat"], claims.get("nbf", claims["iat"])]
    if any(isinstance(at, bool) or not isinstance(at, int | float) for at in (claims["exp"], *begins)):
        return False
    return bool(now < claims["exp"] + LEEWAY_S and all(at - LEEWAY_S <= now for at in begins))


def _name(claims: dict[str, Any]) -> str:
    said = (claims.get(field) for field in ("name", "cognito:username", "username"))
    return next((name for name in said if isinstance(name, str) and name.strip()), "")


def _email(claims: dict[str, Any]) -> str:
    """Cognito writes the flag as a boolean, or as a text where the address comes from another provider."""
    email = claims.get("email")
    return email if isinstance(email, str) and claims.get("email_verified") in (True, "true") else ""


def _refused() -> Unauthenticated:
    return Unauthenticated("The sign-in is not valid here, or over. Sign in again.")


# ── the issuer's keys ────────────────────────────────────────────────────────


class Keys:
    """The keys of one issuer, fetched when first needed, again after six hours, and for a key id not known."""

    def __init__(self, url: str, fetch: Callable[[str], bytes]) -> None:
        self._url, self._fetch = url, fetch
        self._lock = Lock()
        self._known: dict[str, Any] = {}
        self._fetched = 0
        self._next = 0

    def key(self, key_id: str) -> Any:
        """Raises `Unauthenticated` for a key the issuer does not have, `Unavailable` while it does not say."""
        now = ports.now_ms()
        with self._lock:
            if (key_id not in self._known or now - self._fetched > KEPT_MS) and now >= self._next:
                self._refresh(now)
            if key_id in self._known:
                return self._known[key_id]
            if not self._known:
                raise Unavailable("The keys of the sign-in cannot be fetched now; try again in a moment.")
        raise _refused()

    def _refresh(self, now: int) -> None:
        try:
            found = jwt.PyJWKSet.from_dict(json.loads(self._fetch(self._url)))
        except (OSError, HTTPException, ValueError, AttributeError, jwt.PyJWTError):
            logger.warning("the keys at %s cannot be fetched", self._url, exc_info=True)
            self._next = now + AGAIN_AFTER_FAILURE_MS
            return
        self._known = {key.key_id: key.key for key in found.keys if key.key_id and key.key_type == "RSA"}
        self._fetched, self._next = now, now + AGAIN_MS


def _fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=FETCH_TIMEOUT_S) as answer:  # the deployer's own setting, not a caller's
        body: bytes = answer.read(MAX_KEYS_BYTES)
    return body


_issuers: dict[str, Keys] = {}


def _keys_of(issuer: str) -> Keys:
    return _issuers.setdefault(issuer, Keys(f"{issuer}/.well-known/jwks.json", _fetched))
