"""Pi's answer of two megabytes, which is 219 MB of stdout, through a real process; OpenClaw's document; plain text."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from callboard_adapters import BackendConfig, ExecOptions, create_backend
from callboard_adapters.dialects.transcript import PlainText
from callboard_adapters.openclaw_document import Finder
from callboard_adapters.process.framing import LineFramer
from tests.bench.harness import Row, run

RECORDING = Path(__file__).parents[1] / "fixtures" / "transcripts" / "openclaw" / "tool" / "stdout.jsonl"
DELTAS, ANSWER = 100, 2_000_000
ROUNDS = 5
PI = f"""#!{sys.executable} -IS
import json, sys
out = sys.stdout.buffer
def say(event): out.write(json.dumps(event, separators=(",", ":")).encode() + b"\\n"); out.flush()
def message(text): return {{"role": "assistant", "content": [{{"type": "text", "text": text}}], "model": "m"}}
sys.stdin.read()
say({{"type": "session", "id": "01a2-uuid"}})
say({{"type": "turn_start"}})
piece, text = "big " * ({ANSWER} // 4 // {DELTAS}), ""
for _ in range({DELTAS}):
    text += piece
    part = {{"type": "text_delta", "contentIndex": 0, "delta": piece, "partial": message(text)}}
    say({{"type": "message_update", "assistantMessageEvent": part, "message": message(text)}})
usage = {{"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0}}
whole = {{**message(text), "usage": usage, "stopReason": "stop"}}
say({{"type": "message_end", "message": whole}})
say({{"type": "turn_end", "message": whole, "toolResults": []}})
say({{"type": "agent_end", "messages": [whole]}})
"""


def peak() -> float:
    """This process's largest resident size so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _pi() -> tuple[float, float, int]:
    with tempfile.TemporaryDirectory() as folder:
        cli = Path(folder) / "pi"
        cli.write_text(PI)
        cli.chmod(0o755)
        backend = create_backend("pi", BackendConfig(executable=cli, env={"PATH": os.environ["PATH"], "HOME": folder}))
        begun = time.perf_counter()
        session = await backend.execute("hello", ExecOptions(cwd=folder))
        letters = 0
        async for message in session.messages:
            letters += len(message.content)
        result = await session.result()
        assert (len(result.output), letters) == (ANSWER, ANSWER), result.error
        return time.perf_counter() - begun, peak(), result.counts.bytes


def pi() -> list[Row]:
    seconds, megabytes, size = asyncio.run(_pi())
    note = f"{size / 1e6:.0f} MB of stdout in {seconds:.1f} s, the fake CLI's own time included"
    return [Row("pi, a 2 MB answer", "our memory at its peak", megabytes, "MB", "≤ 150 MB", note)]


def openclaw() -> list[Row]:
    document = RECORDING.read_bytes()
    block = document + b"[plugins] loaded {a}\n"
    times = 4_000_000 // len(block)
    data = block * times
    plain = full = 0.0
    for _ in range(ROUNDS):  # turn and turn about, in CPU time: what others do on the machine is in neither
        begun = time.process_time()
        for _ in range(times):
            json.loads(document)
        plain += time.process_time() - begun
        framer, finder, found = LineFramer(indented=True), Finder(), 0
        begun = time.process_time()
        for at in range(0, len(data), 1 << 16):
            for piece in framer.feed(data[at : at + (1 << 16)]):
                found += finder.feed(piece) is not None
        full += time.process_time() - begun
        assert found == times
    speed = ROUNDS * len(data) / 1e6 / full
    note = f"{speed:.0f} MB/s; four hundred lines of 30 bytes, and one document a run"
    return [
        Row("openclaw", "of a bare json.loads loop", 100 * plain / full, "%", "≥ 60 %", note),
        Row("openclaw", "one document, bytes → answer", 1000 * full / times / ROUNDS, "ms"),
    ]


def text() -> list[Row]:
    data = ("A line of an answer, as long as lines are.\n" * 8 + "\n") * 50_000
    lines = data.encode().split(b"\n")
    reader = PlainText()
    begun = time.perf_counter()
    for line in lines:
        reader.receive(line)
    seconds = time.perf_counter() - begun
    return [Row("antigravity", "plain text → messages", len(data) / 1e6 / seconds, "MB/s")]


def main() -> list[Row]:
    return [*pi(), *openclaw(), *text()]


if __name__ == "__main__":
    run(main)
