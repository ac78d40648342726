"""Talking to this machine's daemon: is it there, how is it, end it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import psutil

from callboard_daemon.paths import Paths
from callboard_daemon.state import Record, is_running, read_record


def health(paths: Paths) -> dict[str, Any] | None:
    """What the running daemon says of itself; None when there is none, or it does not answer (yet)."""
    record = read_record(paths)
    if record is None or not is_running(paths):
        return None
    answer = _ask(record, "GET", "/health")
    return answer if answer is not None and answer.get("pid") == record.pid else None


def ask_to_end(paths: Paths) -> bool:
    """Ask the daemon to drain; the second time to hurry. False when nobody could be asked."""
    record = read_record(paths)
    if record is None or not is_running(paths):
        return False
    if _ask(record, "POST", "/shutdown") is not None:
        return True
    if not _is_the_process(record):
        return False
    os.kill(record.pid, signal.SIGTERM)
    return True


def ask_to_look(paths: Paths) -> bool:
    """Ask the daemon to look again for what it can offer. False when there is none to ask."""
    record = read_record(paths)
    return record is not None and is_running(paths) and _ask(record, "POST", "/look") is not None


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether `condition` became true within `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def _ask(record: Record, method: str, path: str) -> dict[str, Any] | None:
    connection = http.client.HTTPConnection("127.0.0.1", record.port, timeout=3.0)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {record.secret}"})
        response = connection.getresponse()
        body = json.loads(response.read())
        return body if response.status < 300 and isinstance(body, dict) else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def _is_the_process(record: Record) -> bool:
    """A pid may be reused: the process must also have started when the daemon did."""
    try:
        return abs(psutil.Process(record.pid).create_time() - record.created) < 1.0
    except psutil.Error:
        return False
