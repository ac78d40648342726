"""Every adapter that reads JSON lines: its recorded events over and over, beside a bare `json.loads` of the same."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from callboard_adapters import ExecOptions, registry
from callboard_adapters.base import Adapter, Alive, Output, Usage
from callboard_adapters.conformance import Recording
from callboard_adapters.conformance.pure import PureRun, context
from callboard_adapters.messages import Message
from callboard_adapters.process.framing import LineFramer
from tests.bench.harness import Row, run

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "transcripts"
MEGABYTES, ROUNDS = 20, 5
PREFERRED = ("tool", "write", "text", "thinking")


@dataclass
class Heard(PureRun):
    """Notes which lines the adapter took for nothing but news: those can be told again."""

    log: list[Output] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    news: list[bool] = field(default_factory=list)

    def _receive(self, line: bytes) -> None:
        before = len(self.log)
        super()._receive(line)
        said = self.log[before:]
        self.lines.append(line)
        self.news.append(bool(said) and all(isinstance(o, Message | Alive | Usage) for o in said))

    def _do(self, outputs: Sequence[Output]) -> None:
        self.log.extend(outputs)
        super()._do(outputs)


def heard(adapter: type[Adapter], recording: Recording) -> Heard:
    player = Heard(adapter(context(adapter, recording)), recording)
    player.play()
    return player


def is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def measure(name: str) -> Row | None:
    adapter = registry.adapter_class(name)
    present = [n for n in PREFERRED if (RECORDINGS / name / n).is_dir()]
    if not present:
        return None
    player = heard(adapter, Recording.load(RECORDINGS / name / present[0]))
    news = [line for line, fit in zip(player.lines, player.news, strict=True) if fit and is_json(line)]
    if not news:
        return None
    last = max(i for i, fit in enumerate(player.news) if fit)
    fresh = PureRun.of(adapter, player.recording).adapter
    fresh.launch(player.recording.prompt, ExecOptions(cwd="/work-dir"))
    for line in player.lines[: last + 1]:
        fresh.receive(line)
    block = b"".join(line + b"\n" for line in news)
    data = block * max(1, MEGABYTES * 1_000_000 // len(block) // ROUNDS)
    plain = full = 0.0
    for _ in range(ROUNDS):  # turn and turn about, in CPU time: what others do on the machine is in neither
        plain += cpu(lambda: parse(data))
        full += cpu(lambda: receive(data, fresh))
    note = (
        f"{ROUNDS * len(data) / 1e6 / full:.0f} MB/s, {len(news)} kinds of line, {len(block) // len(news)} bytes each"
    )
    return Row(name, "of a bare json.loads loop", 100 * plain / full, "%", "≥ 60 %", note)


def parse(data: bytes) -> None:
    for line in data.splitlines():
        json.loads(line)


def receive(data: bytes, adapter: Adapter) -> None:
    framer = LineFramer()
    for at in range(0, len(data), 1 << 16):
        for line in framer.feed(data[at : at + (1 << 16)]):
            adapter.receive(line)


def cpu(work: Callable[[], None]) -> float:
    """Seconds of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> list[Row]:
    return [row for name in registry.providers() if (row := measure(name)) is not None]


if __name__ == "__main__":
    run(main)
