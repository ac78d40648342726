"""`python -m tests.fakes.model_server [PORT]`: serve until interrupted, printing what is asked."""

from __future__ import annotations

import sys
import time

from tests.fakes.model_server import ModelServer


def main(argv: list[str]) -> None:
    """Serve on the port given (else one of the system's choosing) and print a line a request."""
    with ModelServer(int(argv[0]) if argv else 0) as server:
        print(f"anthropic: {server.url}\nopenai:    {server.openai_url}", flush=True)
        shown = 0
        try:
            while True:
                requests = server.requests
                for one in requests[shown:]:
                    kind = f" {one.scenario}{' (auxiliary)' if one.auxiliary else ''}" if one.scenario else ""
                    print(f"{one.status} {one.method} {one.path}{kind} tools={','.join(one.tools)}", flush=True)
                shown = len(requests)
                time.sleep(0.2)
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
