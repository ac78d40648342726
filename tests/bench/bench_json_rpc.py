"""JSON-RPC figures: the shared bookkeeping and a whole codex conversation, against bare parsing of the same lines."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from callboard_adapters.codex_talk import Conversation, Wishes
from callboard_adapters.dialects.json_rpc import JsonRpc
from tests.bench.harness import Row, run

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "transcripts" / "codex"
MEGABYTES = 60
FLOOD = 100_000


def turn_lines(megabytes: int) -> list[bytes]:
    """The item and delta notifications of all recordings, over and over, with item ids of their own."""
    block = [
        line
        for file in sorted(RECORDINGS.glob("*/stdout.jsonl"))
        for line in file.read_bytes().splitlines()
        if b'"method":"item/' in line
    ]
    times = megabytes * 1_000_000 // sum(map(len, block))
    return [line.replace(b'"id":"', b'"id":"%d-' % n) for n in range(times) for line in block]


def best_of(times: int, what: Callable[[], Any]) -> float:
    """Seconds of the fastest run."""
    best = float("inf")
    for _ in range(times):
        gc.collect()
        start = time.perf_counter()
        what()
        best = min(best, time.perf_counter() - start)
    return best


def running(thread: bytes = b"th-1") -> Conversation:
    """A conversation whose turn runs, and whose turn carries no id, so that every recorded notification is its own."""
    talk = Conversation(Wishes("hello", "/work-dir", "danger-full-access"))
    talk.start()
    for request_id, result in enumerate(({}, {"thread": {"id": thread.decode()}}, {})):
        talk.receive(json.dumps({"id": request_id, "result": result}).encode())
    return talk


def addressed(line: bytes) -> bytes:
    """The notification as one of the running turn."""
    note = json.loads(line)
    note["params"] |= {"threadId": "th-1", "turnId": ""}
    return json.dumps(note).encode()


def throughput() -> list[Row]:
    ours = [
        json.dumps(
            {**(note := json.loads(line)), "params": {**note["params"], "threadId": "th-1", "turnId": ""}}
        ).encode()
        for line in turn_lines(MEGABYTES)
    ]
    megabytes = sum(map(len, ours)) / 1e6

    def bare() -> None:
        loads = json.loads
        for line in ours:
            loads(line)

    def bookkeeping() -> None:
        receive = JsonRpc().receive
        for line in ours:
            receive(line)

    def conversation() -> None:
        receive = running().receive
        for line in ours:
            receive(line)

    plain, books, whole = best_of(2, bare), best_of(2, bookkeeping), best_of(2, conversation)
    return [
        Row("json_rpc", "bare json.loads, same lines", megabytes / plain, "MB/s", note=f"{megabytes:.0f} MB of items"),
        Row("json_rpc", "bytes → answers, requests, notifications", megabytes / books, "MB/s"),
        Row("codex", "bytes → messages", megabytes / whole, "MB/s"),
        Row("codex", "of the bare loop", 100 * plain / whole, "%", "≥ 60 %"),
    ]


def flood() -> list[Row]:
    delta = {"threadId": "th-1", "turnId": "", "itemId": "m", "delta": "word "}
    line = json.dumps({"method": "item/agentMessage/delta", "params": delta}).encode()

    def play() -> None:
        receive = running().receive
        for _ in range(FLOOD):
            receive(line)

    return [Row("codex", f"{FLOOD} notifications in one turn", best_of(2, play), "s")]


def main() -> list[Row]:
    return [*throughput(), *flood()]


if __name__ == "__main__":
    run(main)
