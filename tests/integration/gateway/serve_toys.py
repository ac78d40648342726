"""Runs the real `serve` over the toys in a process of its own: ``python -m … DATA PORT [HOST]``.

Only the composition is replaced; arguments, signals, sockets and the data folder are the real ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

from callboard_control.embedded import server
from tests.integration.gateway.toys import Toys


def main(data: str, port: str, *hosts: str) -> int:
    toys = Toys()
    try:
        server.serve(Path(data), port=int(port), host=hosts[0] if hosts else "127.0.0.1", composed=toys.gateway)
    except server.GatewayError as refusal:
        print(refusal, file=sys.stderr)
        return 1
    print("drained", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
