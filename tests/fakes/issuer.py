"""An issuer of JWTs on loopback: real RSA keys, real HTTP, and the forgeries that issuers' callers send."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

CLIENT = "callboard-client"


class Issuer:
    """`url` is the ``iss`` of what it signs. `asked` counts how often its keys were fetched; `down` answers 500."""

    def __init__(self, whose: str) -> None:
        self.url = ""
        self._whose = whose
        self.asked = 0
        self.down = False
        self.keys: dict[str, RSAPrivateKey] = {}
        self.rotate("k1")

    def rotate(self, key_id: str) -> None:
        """From now on it signs with a new key, and publishes that one only."""
        self.keys = {key_id: _key(self._whose, key_id)}

    def jwks(self) -> bytes:
        keys = []
        for key_id, key in self.keys.items():
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
            keys.append({**public, "kid": key_id, "use": "sig", "alg": "RS256"})
        return json.dumps({"keys": keys}).encode()

    def claims(self, now_s: float, **changed: Any) -> dict[str, Any]:
        """An ID token's, an hour long; None takes a claim away."""
        usual = {
            "iss": self.url,
            "sub": "subject-1",
            "aud": CLIENT,
            "token_use": "id",
            "iat": int(now_s),
            "exp": int(now_s) + 3600,
            "name": "Ann",
            "email": "ann@example.com",
            "email_verified": True,
        }
        return {name: value for name, value in (usual | changed).items() if value is not None}

    def sign(self, claims: dict[str, Any], key_id: str = "") -> str:
        [(own_id, key)] = self.keys.items()
        return jwt.encode(claims, key, algorithm="RS256", headers={"kid": key_id or own_id})

    def unsigned(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, "", algorithm="none", headers={"kid": next(iter(self.keys))})

    def signed_with_the_public_key(self, claims: dict[str, Any]) -> str:
        """HS256 whose secret is what everybody may read. By hand: libraries refuse to make it."""
        [(key_id, key)] = self.keys.items()
        secret = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        parts = [{"alg": "HS256", "typ": "JWT", "kid": key_id}, claims]
        body = ".".join(_b64(json.dumps(part).encode()) for part in parts)
        return f"{body}.{_b64(hmac.new(secret, body.encode(), hashlib.sha256).digest())}"


@cache
def _key(whose: str, key_id: str) -> RSAPrivateKey:
    """Made once a process: half a second of CPU each."""
    return generate_private_key(65537, 2048)


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@contextmanager
def running_issuer(whose: str = "ours") -> Iterator[Issuer]:
    issuer = Issuer(whose)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += 1
            known = self.path == "/.well-known/jwks.json" and not issuer.down
            self.send_response(200 if known else 500)
            self.end_headers()
            self.wfile.write(issuer.jwks() if known else b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
