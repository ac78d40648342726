"""The ACP client: bytes → messages over recorded turns, one chunk, a flood, and what its import costs."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callboard_adapters.dialects.acp import AcpClient
from callboard_adapters.dialects.acp_vendor import Ask
from tests.bench.harness import Row, run

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "transcripts"
MEGABYTES = 40
FLOOD = 100_000


def best_of(times: int, what: Callable[[], Any]) -> float:
    """Seconds of the fastest run."""
    best = float("inf")
    for _ in range(times):
        gc.collect()
        start = time.perf_counter()
        what()
        best = min(best, time.perf_counter() - start)
    return best


def running() -> AcpClient:
    """A client whose turn runs, in session s1."""
    client = AcpClient(Ask("hello", "/work-dir"))
    client.start()
    for request_id, result in enumerate(({}, {"sessionId": "s1"})):
        client.receive(json.dumps({"id": request_id, "result": result}).encode())
    return client


def turn_lines(megabytes: int) -> list[bytes]:
    """The updates of all recordings as ones of session s1, over and over, with call ids of their own."""
    block = []
    for file in sorted(RECORDINGS.glob("[ghk]*/*/stdout.jsonl")):
        for line in file.read_bytes().splitlines():
            message = json.loads(line)
            if message.get("method") == "session/update":
                message["params"]["sessionId"] = "s1"
                message["params"].pop("_meta", None)
                block.append(json.dumps(message, separators=(",", ":")).encode())
    times = megabytes * 1_000_000 // sum(map(len, block))
    return [line.replace(b'"toolCallId":"', b'"toolCallId":"%d-' % n) for n in range(times) for line in block]


def throughput() -> list[Row]:
    lines = turn_lines(MEGABYTES)
    megabytes = sum(map(len, lines)) / 1e6

    def bare() -> None:
        for line in lines:
            json.loads(line)

    def whole() -> None:
        receive = running().receive
        for line in lines:
            receive(line)

    plain, ours = best_of(2, bare), best_of(2, whole)
    note = f"{megabytes:.0f} MB, {len(lines):,} recorded updates of grok, hermes and kimi"
    return [
        Row("acp", "bare json.loads, same lines", megabytes / plain, "MB/s", note=note),
        Row("acp", "bytes → messages", megabytes / ours, "MB/s"),
        Row("acp", "of the bare loop", 100 * plain / ours, "%", "≥ 60 %"),
    ]


def chunks() -> list[Row]:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello world"}}
    params = {"sessionId": "s1", "update": update}
    line = json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode()

    def talk() -> None:
        receive = running().receive
        for _ in range(FLOOD):
            receive(line)

    return [Row("acp", "one text chunk", best_of(2, talk) / FLOOD * 1e6, "µs", note=f"of {FLOOD:,}")]


def import_cost() -> list[Row]:
    code = "import time; t = time.perf_counter(); import callboard_adapters.{0}; print(time.perf_counter() - t)"
    base = "import callboard_adapters.base; " + code.format("kiro")
    took = min(
        float(subprocess.run([sys.executable, "-c", base], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    )
    return [Row("acp", "import, after the library", took * 1000, "ms")]


def main() -> list[Row]:
    return [*throughput(), *chunks(), *import_cost()]


if __name__ == "__main__":
    run(main)
