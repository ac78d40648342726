"""The ACP adapters against an agent that nobody wrote for them: the example agent of the protocol's own TypeScript SDK.

It checks every message it gets against the protocol's schema and takes about five seconds a turn: words, a tool call,
more words, a tool call that needs permission, last words.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from callboard_adapters import BackendConfig, ExecOptions, MessageType, RunStatus, Session, create_backend
from callboard_adapters.process import tree
from tests.system.real_cli.install import InstalledCli, ensure
from tests.system.real_cli.recipes import EXAMPLE_AGENT

ACP = ("grok", "hermes", "kimi", "kiro", "qoder", "traecli")

pytestmark = [pytest.mark.real_cli, pytest.mark.skipif(sys.platform == "win32", reason="needs a shebang")]


@pytest.fixture(scope="module")
def agent() -> InstalledCli:
    return ensure(EXAMPLE_AGENT)


async def start(agent: InstalledCli, provider: str, folder: Path, resume: str | None = None) -> Session:
    env = {"PATH": agent.path(), "HOME": str(folder), "LANG": os.environ.get("LANG", "C.UTF-8")}
    backend = create_backend(provider, BackendConfig(executable=agent.executable, env=env))
    return await backend.execute("Improve it", ExecOptions(cwd=folder, timeout=60, resume_session_id=resume))


@pytest.mark.parametrize("provider", ACP)
async def test_a_turn_with_a_tool_and_a_permission_is_told_whole(tmp_path, agent, provider):
    session = await start(agent, provider, tmp_path)
    messages = [message async for message in session.messages]
    result = await session.result()
    assert (result.status, result.error) == (RunStatus.COMPLETED, "")
    assert result.output.strip().startswith("Perfect!"), "the permission was given"
    said = [m.content for m in messages if m.type is MessageType.TEXT]
    assert len(said) == 3
    uses = {m.call_id: m for m in messages if m.type is MessageType.TOOL_USE}
    results = {m.call_id: m for m in messages if m.type is MessageType.TOOL_RESULT}
    assert list(uses) == list(results) == ["call_1", "call_2"]
    assert uses["call_1"].input == {"path": "/project/README.md"}
    assert results["call_1"].output.startswith("# My Project")
    assert "Configuration updated" in results["call_2"].output
    assert len(result.session_id) == 32
    assert not tree.run_processes(session.run_id)


@pytest.mark.parametrize("provider", ACP)
async def test_a_cancelled_turn_ends_in_the_protocols_own_words(tmp_path, agent, provider):
    session = await start(agent, provider, tmp_path)
    async for message in session.messages:
        if message.type is MessageType.TEXT:
            await session.cancel()
    result = await session.result()
    assert result.status is RunStatus.CANCELLED
    assert result.exit_signal is None, "it answered, and left when its input ended"
    assert not tree.run_processes(session.run_id)


@pytest.mark.parametrize("provider", ACP)
async def test_an_agent_that_keeps_no_sessions_is_not_asked_for_one(tmp_path, agent, provider):
    session = await start(agent, provider, tmp_path, resume="0123456789abcdef0123456789abcdef")
    result = await session.result()
    assert (result.status, result.resume_rejected, result.session_id) == (RunStatus.FAILED, True, "")
