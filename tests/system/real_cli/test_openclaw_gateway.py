"""The real OpenClaw and a real gateway on the loopback: what we write is taken, and the run is the gateway's."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from callboard_adapters import BackendConfig, ExecOptions, Result, create_backend, openclaw_config
from callboard_adapters.messages import RunStatus
from callboard_adapters.options import OpenclawGateway
from callboard_wire.failures import FailureReason
from tests.system.real_cli.expectations import Case, Want, wanted
from tests.system.real_cli.runs import left_alive
from tests.system.real_cli.worlds import World

# `${HOME}` is what a token may look like and OpenClaw's configuration reads as a variable.
TOKEN = "real-gateway-token-${HOME}"
READY_WITHIN = 120.0
STOPS_WITHIN = 30.0
THEIRS = {
    "mode": "local",
    "auth": {"mode": "password", "password": "the-users-own"},
    "remote": {"url": "wss://elsewhere.invalid", "password": "the-users-own"},
}
"""What the user of the machine has configured for their gateway: not where the run is to go."""

pytestmark = [pytest.mark.real_cli, pytest.mark.timeout(300, func_only=True)]


@dataclass(frozen=True)
class Raised:
    """A gateway that is up, and the world of a machine that has no model of its own."""

    world: World
    port: int

    def options(self, **gateway: object) -> ExecOptions:
        pin = replace(OpenclawGateway(port=self.port, token=TOKEN), **gateway)  # type: ignore[arg-type]  # its fields
        return ExecOptions(cwd=self.world.workdir, openclaw_mode="gateway", openclaw_gateway=pin, timeout=120)

    async def run(self, options: ExecOptions) -> Result:
        config = BackendConfig(executable=self.world.cli.executable, env=self.world.env)
        session = await create_backend("openclaw", config).execute("SCENARIO:text please", options)
        return await session.result()


@pytest.fixture
def raised(world_of: Callable[[str], World], tmp_path: Path) -> Iterator[Raised]:
    world = world_of("openclaw")
    mine = world.home / ".openclaw" / "openclaw.json"
    theirs = tmp_path / "gateway-home" / ".openclaw" / "openclaw.json"
    theirs.parent.mkdir(parents=True)
    port = _free_port()
    gateway = {"mode": "local", "bind": "loopback", "port": port, "auth": {"mode": "token"}}
    config = json.loads(mine.read_text())
    config["agents"]["defaults"] |= {"workspace": str(tmp_path / "gateway-work"), "skipBootstrap": True}
    theirs.write_text(json.dumps({**config, "gateway": gateway}))
    mine.write_text(json.dumps({"gateway": THEIRS}))
    env = {"PATH": world.env["PATH"], "HOME": str(theirs.parents[1]), "LANG": "C.UTF-8"}
    env["OPENCLAW_GATEWAY_TOKEN"] = TOKEN
    log = tmp_path / "gateway.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [world.cli.executable, "gateway", "run"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_ready(process, log)
        yield Raised(world, port)
    finally:
        _end(process)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while "http server listening" not in log.read_text(errors="replace"):
        waiting = process.poll() is None and time.monotonic() < deadline
        assert waiting, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOPS_WITHIN)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def test_a_run_is_done_by_the_gateway_that_the_agent_names_with_its_token(raised: Raised) -> None:
    """The machine's own configuration has no model: an answer can only be the gateway's."""
    want = wanted("openclaw", Case.TEXT)
    assert isinstance(want, Want)
    assert want.usage is not None
    result = await raised.run(raised.options())
    assert (result.status, result.output) == (RunStatus.COMPLETED, want.output), result
    [usage] = result.usage.values()
    assert (usage.input_tokens, usage.output_tokens) == (want.usage.input_tokens, want.usage.output_tokens)
    assert result.session_id
    assert await left_alive(raised.world) == []

    refused = await raised.run(raised.options(token="another-token"))
    assert (refused.status, refused.failure_reason) == (RunStatus.FAILED, FailureReason.AUTH), refused
    assert "token mismatch" in refused.error
    assert "another-token" not in str(refused)

    nobody = await raised.run(raised.options(port=_free_port()))
    assert (nobody.status, nobody.failure_reason) == (RunStatus.FAILED, FailureReason.NETWORK), nobody


@pytest.mark.parametrize(
    "gateway",
    [
        OpenclawGateway(host="claw.internal", port=9, tls=True, token=TOKEN),
        OpenclawGateway(host="fd00::7"),
        OpenclawGateway(token=TOKEN),
    ],
    ids=["named", "address of version 6", "token alone"],
)
def test_what_is_written_is_a_valid_configuration(
    world_of: Callable[[str], World], tmp_path: Path, gateway: OpenclawGateway
) -> None:
    world = world_of("openclaw")
    options = ExecOptions(openclaw_mode="gateway", openclaw_gateway=gateway)
    mine = world.home / ".openclaw" / "openclaw.json"
    active = "" if openclaw_config.names_a_gateway(options) else str(mine)
    section = openclaw_config.gateway(options)
    written = tmp_path / "written.json"
    written.write_bytes(openclaw_config.wrapper(active, str(world.workdir), None, None, (), section))
    env = {**world.env, "OPENCLAW_CONFIG_PATH": str(written), "OPENCLAW_INCLUDE_ROOTS": str(mine.parent)}
    done = subprocess.run(
        [world.cli.executable, "config", "validate"], env=env, capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, "Config valid" in done.stdout) == (0, True), done.stdout + done.stderr
