"""Running a gateway: uvicorn on a loopback socket until a signal, or in a thread of the caller's process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import uvicorn

from callboard_control.embedded import cores, logs
from callboard_control.embedded.announce import announce
from callboard_control.embedded.compose import compose
from callboard_control.embedded.folder import GatewayError, default_folder
from callboard_control.embedded.gateway import Gateway

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8722
DRAIN_S = 10.0
"""How long running requests may take after the signal."""
KEEP_ALIVE_S = 75.0
"""Longer than clients keep idle connections: a server that closes first races with the next request on it."""

OnReady = Callable[[Gateway], None]


def serve(
    data: Path | None = None,
    *,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    any_host: bool = False,
    on_ready: OnReady = announce,
    composed: Callable[[Path], Gateway] = compose,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain. Call it in the main thread of a process of its own.

    Args:
        data: the data folder; None = the platform's for this user.
        port: 0 = any free one.
        any_host: allow addresses that other machines can reach. There is no TLS: put something in front that has it.
        on_ready: called once requests are accepted.
        composed: makes the gateway for a data folder.

    Raises:
        GatewayError: the folder is in use or not writable, the port is taken, the host is public. One sentence.
    """
    _refuse_public(host, any_host)
    os.umask(0o077)  # whatever anything in this process writes is this user's alone
    cores.keep_to_one()
    gateway = composed(data or default_folder())
    logs.to_stderr()
    try:
        with _listen(host, port) as sock:
            gateway.url = _url(sock)
            asyncio.run(_Server(gateway, on_ready).serve(sockets=[sock]))
    finally:
        gateway.close()


class Running:
    """``with Running(gateway) as gateway:`` serves it in a thread and drains and closes it at the end.

    The port is any free one of 127.0.0.1; `gateway.url` has it. ``async with`` does the same without blocking the loop.
    """

    def __init__(self, gateway: Gateway, *, host: str = DEFAULT_HOST, port: int = 0) -> None:
        self._gateway = gateway
        self._address = (host, port)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._server = _Server(gateway, lambda _: self._ready.set())
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    def __enter__(self) -> Gateway:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self._gateway

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
        self._thread.join()

    async def __aenter__(self) -> Gateway:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _run(self) -> None:
        try:
            with _listen(*self._address) as sock:
                self._gateway.url = _url(sock)
                asyncio.run(self._server.serve(sockets=[sock]))
        except BaseException as failure:  # noqa: BLE001 - raised again in the thread that entered
            self._failure = failure
        finally:
            self._gateway.close()
            self._ready.set()


def running_gateway(data: Path, *, host: str = DEFAULT_HOST, port: int = 0) -> Running:
    """The whole control plane on `data`, in a thread: ``with running_gateway(folder) as gateway: … gateway.url``."""
    return Running(compose(data), host=host, port=port)


class _Server(uvicorn.Server):
    """uvicorn, except that a signal first lets go of the held polls, and that a drained stop is a success: uvicorn
    raises the signal again afterwards, and the process would end as killed by it."""

    def __init__(self, gateway: Gateway, on_ready: OnReady) -> None:
        super().__init__(
            uvicorn.Config(
                gateway.front,
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # it would let any local caller choose its own source address
                timeout_keep_alive=int(KEEP_ALIVE_S),
                timeout_graceful_shutdown=int(DRAIN_S),
                ws="none",
            )
        )
        self._gateway = gateway
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._gateway.start()
        self._on_ready(self._gateway)

    def stop(self) -> None:
        """Drain and end; a second time: end without draining. Safe from any thread."""
        if self.should_exit:
            self.force_exit = True
        self._gateway.drain()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


def _refuse_public(host: str, any_host: bool) -> None:
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and not any_host:
        raise GatewayError(
            f"{host} can be reached from other machines and this server has no TLS: "
            "keep to 127.0.0.1, or say --any-host if something in front of it does."
        )


def _listen(host: str, port: int) -> socket.socket:
    try:
        return _bound(*socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0])
    except OSError as failure:
        if failure.errno == errno.EADDRINUSE:
            raise GatewayError(
                f"Port {port} on {host} is taken: stop what uses it, or choose another with --port."
            ) from failure
        reason = failure.strerror or str(failure)
        raise GatewayError(
            f"Cannot listen on {host} port {port} ({reason}): choose others with --host, --port."
        ) from failure


def _bound(family: int, kind: int, protocol: int, _name: str, address: tuple[Any, ...]) -> socket.socket:
    # With its protocol named: asyncio turns Nagle's algorithm off only on such sockets, and with it on an answer's body
    # waits 40 ms for the client's delayed acknowledgement of the headers (seen: 55 ms a request, not 5).
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen()
    except OSError:
        sock.close()
        raise
    return sock


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
