"""ministack, started for tests: an independent second opinion on what DynamoDB does.

Its own process on a free loopback port (its default is all interfaces), DynamoDB only, state in memory, files in
`folder`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import botocore.session
import httpx
from botocore.config import Config

VERSION = "1.5.33"  # the deviations in tests/contract/dynamodb were found in this one
_READY_SECONDS = 30.0


@contextlib.contextmanager
def running(folder: Path, services: str = "dynamodb", **more: str) -> Iterator[str]:
    """Start ministack with `services` (comma-separated; "" = all) and `more` of its settings, yield its endpoint URL,
    stop it by its pid.
    """
    found = version("ministack")
    if found != VERSION:
        raise RuntimeError(
            f"ministack {found} is installed, the known deviations are those of {VERSION}: check them anew"
        )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": services,
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        "LOG_LEVEL": "WARNING",
        **more,
    }
    endpoint = f"http://127.0.0.1:{port}"
    with (folder / "ministack.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ministack"], env=environment, cwd=folder, stdout=log, stderr=log
        )
    try:
        _wait_until_ready(process, endpoint, folder / "ministack.log")
        yield endpoint
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def client(endpoint: str) -> Any:
    """A botocore DynamoDB client for a running ministack; one a thread is the fastest, sharing is safe."""
    session = botocore.session.Session()
    session.set_credentials("test", "test")
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 1}, parameter_validation=False, max_pool_connections=128
    )
    return session.create_client("dynamodb", region_name="us-east-1", endpoint_url=endpoint, config=config)


def _wait_until_ready(process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"ministack ended with {process.returncode}: {log.read_text(errors='replace')[-2000:]}")
        try:
            if httpx.get(f"{endpoint}/_ministack/health", timeout=1.0).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError(f"ministack was not ready in {_READY_SECONDS} s: {log.read_text(errors='replace')[-2000:]}")
