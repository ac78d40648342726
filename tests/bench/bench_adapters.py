"""The adapters' figures: dialect throughput, the peer library on the same fake CLI, latency, what a quiet run costs.

The peer is measured only where it is installed (`claude-agent-sdk`, dependency group `bench`).
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import tempfile
import time
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from callboard_adapters import BackendConfig, ExecOptions, Session, create_backend
from callboard_adapters.dialects.stream_json import StreamJson
from callboard_adapters.process.framing import LineFramer
from tests.bench.harness import Row, percentile, run
from tests.fakes.cli import fake_cli

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "transcripts" / "claude"
MEGABYTES = 200
PEER_MESSAGES = 40_000
SESSIONS = 20
LINES_EACH = 100
QUIET = 10
QUIET_SECONDS = 10.0


def recorded_like(megabytes: int) -> bytes:
    """The assistant and user events of all recordings, over and over."""
    lines = [
        line
        for file in sorted(RECORDINGS.glob("*/stdout.jsonl"))
        for line in file.read_bytes().splitlines()
        if json.loads(line)["type"] in ("assistant", "user")
    ]
    block = b"".join(line + b"\n" for line in lines)
    return block * (megabytes * 1_000_000 // len(block))


def best_of(times: int, what: Callable[[], Any]) -> float:
    """Seconds of the fastest run."""
    best = float("inf")
    for _ in range(times):
        gc.collect()
        start = time.perf_counter()
        what()
        best = min(best, time.perf_counter() - start)
    return best


def dialect() -> list[Row]:
    data = recorded_like(MEGABYTES)
    lines = data.splitlines()

    def bare() -> None:
        loads = json.loads
        for line in lines:
            loads(line)

    def ours() -> None:
        framer, reader = LineFramer(), StreamJson()
        for at in range(0, len(data), 1 << 16):
            for line in framer.feed(data[at : at + (1 << 16)]):
                reader.receive(line)

    plain, full = best_of(2, bare), best_of(2, ours)
    megabytes = len(data) / 1e6
    return [
        Row("stream_json", "bytes → messages", megabytes / full, "MB/s", note=f"{megabytes:.0f} MB, 64 KiB reads"),
        Row("stream_json", "bare json.loads, same lines", megabytes / plain, "MB/s"),
        Row("stream_json", "of the bare loop", 100 * plain / full, "%", "≥ 60 %"),
    ]


# ── the peer ─────────────────────────────────────────────────────────────────

CHATTY = f"""
    request = sys.stdin.buffer.readline()
    said = json.loads(request)
    while said.get("type") == "control_request":
        answer = {{"subtype": "success", "request_id": said["request_id"], "response": {{}}}}
        say({{"type": "control_response", "response": answer}})
        said = json.loads(sys.stdin.buffer.readline())
    init()
    block = {{"type": "text", "text": "word " * 60}}
    message = {{"role": "assistant", "model": "m-1", "content": [block]}}
    line = json.dumps({{"type": "assistant", "message": message, "session_id": "s-1"}}).encode() + b"\\n"
    for _ in range({PEER_MESSAGES} // 200):
        raw(line * 200)
    result("done", duration_ms=1, duration_api_ms=1, num_turns=1, total_cost_usd=0.0)
    until_eof()
"""


def environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "IS_SANDBOX": "1"}


async def start(folder: Path, body: str) -> Session:
    cli = folder / "claude"
    if not cli.exists():
        fake_cli(folder, body)
    backend = create_backend("claude", BackendConfig(executable=cli, env=environment(folder)))
    return await backend.execute("hello", ExecOptions(cwd=folder))


async def our_messages(folder: Path) -> float:
    begun = time.perf_counter()
    session = await start(folder, CHATTY)
    letters = 0
    async for message in session.messages:
        letters += len(message.content)
    result = await session.result()
    assert result.output == "done"
    assert letters >= PEER_MESSAGES * 300
    return PEER_MESSAGES / (time.perf_counter() - begun)


async def peer_messages(folder: Path) -> float:
    from claude_agent_sdk import ClaudeAgentOptions, query

    options = ClaudeAgentOptions(cli_path=str(folder / "claude"), cwd=str(folder), env=environment(folder))
    begun = time.perf_counter()
    count = 0
    async for _ in query(prompt="hello", options=options):
        count += 1
    assert count >= PEER_MESSAGES
    return PEER_MESSAGES / (time.perf_counter() - begun)


def fastest(measure: Callable[[Path], Coroutine[Any, Any, float]], folder: Path) -> tuple[float, float]:
    """(messages a second, µs of this process's CPU a message), the best of each in four tries."""
    rates, cpus = [], []
    for _ in range(4):
        before = time.process_time()
        rates.append(asyncio.run(measure(folder)))
        cpus.append((time.process_time() - before) / PEER_MESSAGES * 1e6)
    return max(rates), min(cpus)


def peer() -> list[Row]:
    what = "messages, whole path"
    with tempfile.TemporaryDirectory() as folder:
        ours, our_cpu = fastest(our_messages, Path(folder))
        rows = [
            Row(what, "callboard", ours, "/s", note="process start and end included"),
            Row(what, "callboard, CPU", our_cpu, "µs each"),
        ]
        if find_spec("claude_agent_sdk") is None:
            return [*rows, Row(what, "claude-agent-sdk", 0, "/s", note="not installed")]
        theirs, their_cpu = fastest(peer_messages, Path(folder))
    return [
        *rows,
        Row(what, "claude-agent-sdk, same fake CLI", theirs, "/s"),
        Row(what, "claude-agent-sdk, CPU", their_cpu, "µs each"),
        Row(what, "times the peer", ours / theirs, "×", "≥ 2 ×"),
        Row(what, "times the peer, by CPU", their_cpu / our_cpu, "×", note="holds on a busy machine too"),
    ]


# ── latency and what a quiet run costs ─────────────────────────────────────────

TICKING = f"""
    prompt()
    init()
    begin = time.time() // 5 * 5 + 10  # all together, when all have been started
    time.sleep(begin - time.time())
    for _ in range({LINES_EACH}):
        time.sleep(0.03)
        text(str(time.monotonic_ns()))
    time.sleep(2)  # none ends while others are measured
    result("done")
    until_eof()
"""


async def latencies() -> list[float]:
    """Milliseconds from just before a line is written to its message being in the reader's hands."""
    taken: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        sessions = [await start(Path(folder), TICKING) for _ in range(SESSIONS)]

        async def read(session: Session) -> None:
            async for message in session.messages:
                now = time.monotonic_ns()
                if message.content.isdecimal():
                    taken.append((now - int(message.content)) / 1e6)
            await session.result()

        await asyncio.gather(*map(read, sessions))
    return taken


async def floor() -> list[float]:
    """The same lines read by nothing but asyncio's own pipes: what this machine takes at this moment."""
    taken: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        cli = fake_cli(Path(folder), TICKING)

        async def read() -> None:
            pipe = asyncio.subprocess.PIPE
            child = await asyncio.create_subprocess_exec(cli, stdin=pipe, stdout=pipe)
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(b"{}\n")
            async for line in child.stdout:
                now = time.monotonic_ns()
                blocks = json.loads(line).get("message", {}).get("content", [])
                taken.extend((now - int(b["text"])) / 1e6 for b in blocks)
                if b'"result"' in line:
                    child.stdin.close()
            await child.wait()

        await asyncio.gather(*(read() for _ in range(SESSIONS)))
    return taken


async def quiet() -> tuple[float, float]:
    """(MB of our memory, percent of a core) of one run whose CLI says nothing."""
    body = "init(); time.sleep(600)"
    me = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        warm = await start(Path(folder), body)
        await asyncio.sleep(1)
        gc.collect()
        before = me.memory_info().rss
        sessions = [await start(Path(folder), body) for _ in range(QUIET)]
        await asyncio.sleep(1)
        gc.collect()
        grown = (me.memory_info().rss - before) / QUIET / 1e6
        cpu = sum(me.cpu_times()[:2])
        await asyncio.sleep(QUIET_SECONDS)
        used = (sum(me.cpu_times()[:2]) - cpu) / QUIET_SECONDS / (QUIET + 1)
        for session in (warm, *sessions):
            await session.cancel()
        await asyncio.gather(*(s.result() for s in (warm, *sessions)))
    return max(grown, 0.0), 100 * used


def main() -> list[Row]:
    memory, cpu = asyncio.run(quiet())  # first: memory freed by the others would hide its growth
    rows = dialect() + peer()
    bare = asyncio.run(floor())
    taken = asyncio.run(latencies())
    return [
        *rows,
        Row("line → message", "p50 of bare asyncio pipes", percentile(bare, 50), "ms"),
        Row("line → message", "p99 of bare asyncio pipes", percentile(bare, 99), "ms", note="the machine's own noise"),
        Row("line → message", f"p50, {SESSIONS} sessions", percentile(taken, 50), "ms"),
        Row("line → message", f"p99, {SESSIONS} sessions", percentile(taken, 99), "ms", "≤ 2 ms"),
        Row("one quiet session", "memory", memory, "MB", "≤ 3 MB"),
        Row("one quiet session", "CPU of a core", cpu, "%", "≤ 0.3 %"),
    ]


if __name__ == "__main__":
    run(main)
