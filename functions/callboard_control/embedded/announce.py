"""What a person sees when the gateway is up: where it is, and at the first start the very commands to type."""

from __future__ import annotations

import sys
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from callboard_control.embedded.gateway import Gateway

FIRST_STEPS = """
Nobody has logged in yet. In another terminal of this machine:

  callboard login --server {url} --bootstrap {secret_file}
  callboard daemon start
  callboard agent create scout
  callboard run "write a haiku about this folder" --agent scout --follow
"""

WAY_BACK = """
A new secret lies ready. It lets the first person in once more, as the owner of their workspace; tokens that are lost
stay good until they are revoked. In another terminal of this machine:

  callboard login --server {url} --bootstrap {secret_file}
  callboard token list
"""


def announcement(gateway: Gateway) -> str:
    data = gateway.data.absolute()  # the commands are typed in another terminal, in whatever folder that is
    text = f"Callboard is up at {gateway.url} (data in {data}). Ctrl-C stops it.\n"
    secret_file = gateway.bootstrap_secret_file
    if secret_file is not None:
        text += (WAY_BACK if gateway.somebody_was_here else FIRST_STEPS).format(
            url=gateway.url, secret_file=quote(str(secret_file.absolute()))
        )
    return text


def announce(gateway: Gateway) -> None:
    sys.stdout.write(announcement(gateway))
    sys.stdout.flush()
