"""What `login` stored: which server, and a person's token for it. 0600, one file a profile."""

from __future__ import annotations

import json
import os
from datetime import datetime

from pydantic import BaseModel, Field, ValidationError

from callboard_daemon.errors import NotLoggedIn, StateError
from callboard_daemon.files import private_dir, write_atomic
from callboard_daemon.paths import Paths
from callboard_daemon.settings import Settings


class Credentials(BaseModel):
    server_url: str
    token: str = Field(repr=False)
    workspace_id: str = ""
    workspace_name: str = ""
    user_name: str = ""
    expires_at: datetime | None = None


def read_credentials(paths: Paths) -> Credentials | None:
    """None when nobody is logged in. Raises `StateError` for a file that is there but cannot be read."""
    try:
        return Credentials.model_validate_json(paths.credentials_file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        raise StateError(f"cannot read {paths.credentials_file}", hint="Log in again with `callboard login`.") from None


def write_credentials(paths: Paths, credentials: Credentials) -> None:
    """Raises `StateError` when the config folder cannot be written."""
    try:
        private_dir(paths.config_dir)
        write_atomic(paths.credentials_file, json.dumps(credentials.model_dump(mode="json")).encode(), durable=True)
    except OSError as error:
        raise StateError(f"cannot write {paths.credentials_file}: {os.strerror(error.errno or 0)}") from error


def server_of(paths: Paths, settings: Settings) -> str:
    """The server to talk to: the setting, else the login's. Raises `NotLoggedIn` when there is neither."""
    if settings.server_url:
        return settings.server_url
    if (known := read_credentials(paths)) is not None:
        return known.server_url
    raise NotLoggedIn(
        "no server is known",
        hint="Run `callboard login --server URL`, or set CALLBOARD_SERVER_URL and CALLBOARD_TOKEN.",
    )
