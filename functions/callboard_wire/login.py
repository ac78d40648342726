"""Bodies of logging in by a code, in the shape of RFC 8628 (OAuth 2.0 device authorization grant).

The refusals of a poll are errors of the same names as there: `authorization_pending`, `slow_down`, `expired_token`,
`access_denied`.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from callboard_wire.bodies import Body, Name


class StartLogin(Body):
    """`client_name`: what the person who is asked is shown, such as the machine's name."""

    client_name: Name = "a machine"


class StartedLogin(Body):
    """`device_code` is the asking machine's secret; `user_code` is what a person types. Seconds."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


class PollLogin(Body):
    device_code: str = Field(min_length=1, max_length=200)


class LoginToken(Body):
    """Given once: whoever asks again with the same code is refused."""

    access_token: str
    token_type: str = "Bearer"  # noqa: S105 - the kind, not a token
    token_id: str
    user_id: str
    workspace_id: str
    expires_at: datetime | None = None


class UserCode(Body):
    """As a person types it: case, spaces and dashes do not matter."""

    user_code: str = Field(min_length=1, max_length=40)


class DecideLogin(UserCode):
    approve: bool = True


class WaitingLogin(Body):
    """Who is asking to be let in, as far as they say and their address shows."""

    client_name: str
    address: str = ""
    started_at: datetime
    expires_at: datetime
