"""What the command line does when a server asks it to wait."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.integration.cli.conftest import Shell

ME = {"actor": "member", "workspace_id": "w", "name": "Ann"}


@contextmanager
def busy(wait_s: int) -> Iterator[tuple[str, list[float]]]:
    """A server that answers 429 for `wait_s` from its first call on: its address, and when it was called."""
    calls: list[float] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            calls.append(time.monotonic())
            early = calls[-1] - calls[0] < wait_s - 0.1
            body = {"error": "too_many_requests", "message": "Too many: wait."} if early else ME
            self.send_response(429 if early else 200)
            self.send_header("Content-Type", "application/json")
            if early:
                self.send_header("Retry-After", str(wait_s))
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", calls
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def ann(shell: Callable[[str], Shell]) -> Shell:
    return shell("ann")


def test_a_command_waits_as_long_as_the_server_asks_and_says_so(ann: Shell) -> None:
    with busy(6) as (server, calls):
        done = ann.run("login", "--server", server, "--token-stdin", stdin="mul_x_" + "0" * 40)
    assert done.code == 0, done
    assert len(calls) == 2
    assert "Trying again in 6 s" in done.err


def test_no_limit_of_a_request_is_no_limit_and_not_no_time(ann: Shell) -> None:
    with busy(0) as (server, _):
        (ann.home / "config").mkdir(exist_ok=True)
        (ann.home / "config" / "config.toml").write_text("http_timeout = 0\n")
        done = ann.run("login", "--server", server, "--token-stdin", stdin="mul_x_" + "0" * 40)
    assert done.code == 0, done


def test_a_command_that_would_wait_too_long_ends_at_once(ann: Shell) -> None:
    with busy(3600) as (server, calls):
        done = ann.run("login", "--server", server, "--token-stdin", stdin="mul_x_" + "0" * 40)
    assert (done.code, len(calls)) == (2, 1)
