"""A login that is used does not end: in its last week any command makes it last 90 days more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from callboard_daemon.cli.api import Api
from callboard_daemon.credentials import Credentials, write_credentials
from callboard_daemon.errors import ControlError, StateError
from callboard_daemon.paths import Paths

WITHIN: Final = timedelta(days=7)
"""Earlier the server changes nothing."""


def renew_in_time(paths: Paths, known: Credentials, api: Api) -> None:
    """Renew the stored login when its end is near. What goes wrong is left to the command itself to meet."""
    if known.expires_at is None or known.expires_at - datetime.now(UTC) > WITHIN:
        return
    try:
        renewed = api.renew_token()
        write_credentials(paths, known.model_copy(update={"expires_at": renewed.expires_at}))
    except (ControlError, StateError):
        pass
