"""Agents' secrets on one machine: AES-256-GCM under a key file, kept as items of the same table.

The key file is 0600 beside the database; a copy of the database alone opens nothing. The name and version are bound
into each ciphertext, so one cannot be put in another's place.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from callboard_control.ports.secrets import SecretsLost, SecretsUnavailable
from callboard_control.store import table
from callboard_control.store.errors import ConditionFailed, StoreError
from callboard_control.store.models import SecretItem

NONCE_BYTES: Final = 12


class LocalSecrets:
    """`Secrets` for one machine."""

    def __init__(self, key_file: Path) -> None:
        self._cipher = AESGCM(_key(key_file))

    def read(self, name: str, version: str) -> dict[str, str]:
        try:
            item = table.get(SecretItem, f"SC#{name}", version)
        except StoreError as e:
            raise SecretsUnavailable("the table did not answer") from e
        if item is None:
            raise SecretsLost("the version is not there")
        nonce, body = item.body[:NONCE_BYTES], item.body[NONCE_BYTES:]
        try:
            found: dict[str, str] = json.loads(self._cipher.decrypt(nonce, body, _bound(name, version)))
        except InvalidTag as e:
            raise SecretsLost("it was encrypted under another key file") from e
        return found

    def write(self, name: str, version: str, values: dict[str, str]) -> None:
        nonce = os.urandom(NONCE_BYTES)
        body = nonce + self._cipher.encrypt(nonce, json.dumps(values).encode(), _bound(name, version))
        try:
            table.put(SecretItem(f"SC#{name}", version, body=body), SecretItem.pk.does_not_exist())
        except ConditionFailed:
            pass  # written before: a version never changes
        except StoreError as e:
            raise SecretsUnavailable("the table did not answer") from e


def _bound(name: str, version: str) -> bytes:
    return f"{name}\x1f{version}".encode()


def _key(path: Path) -> bytes:
    """The key in `path`, made on the first start, never readable by others, never replaced."""
    if not path.exists():
        _make_key(path)
    return bytes.fromhex(path.read_text().strip())


def _make_key(path: Path) -> None:
    """Written whole beside its place and then linked into it: a crash leaves no half key, and a second maker none."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(AESGCM.generate_key(256).hex())
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(beside, path)
    except FileExistsError:
        pass  # somebody else's is there: that one counts
    finally:
        beside.unlink()
