"""A fake CLI: a real process that plays one recording, and misbehaves as it is told to.

    python -I -S player.py SPEC.json [the CLI's own arguments]

Started without site-packages, so it imports nothing of this package but the script beside it.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from script import Script  # type: ignore[import-not-found]

NOISE = (b"Warning: something else wrote this", b"\xff\xfe not text \x80", b"[plugin] loaded {a}", b"", b'{"cut": ')


class Player:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.how: dict[str, Any] = spec["how"]
        lines = [base64.b64decode(x) for x in spec["stdout"]]
        self.script = Script(lines, [x.encode() for x in spec["client"]], spec["sent_after"])
        self.said = 0
        self.total = len(lines)

    def play(self) -> int:
        if self.how.get("stubborn"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.how.get("close_stdin"):
            os.close(0)
        if self.how.get("big_line"):
            self.write(b"x" * self.how["big_line"] + b"\n")
        if self.how.get("stop_after") == 0:
            self.hang()
        if self.how.get("die_after") == 0:
            self.die()
        for line in self.conversation():
            self.line(line)
        os.write(2, self.spec["stderr"].encode())
        if self.how.get("leave_behind"):
            self.leave_behind()
        if self.how.get("close_stdout"):
            os.close(1)
            self.hang()
        if self.how.get("linger"):
            self.hang()
        # A recording that a signal ended waits for nobody.
        waits = self.spec["mode"] == "line" and not self.how.get("close_stdin") and 0 <= self.spec["exit"] < 128
        if waits and not self.how.get("no_last_newline"):  # half a line is only ever followed by the end
            while os.read(0, 1 << 16):
                pass
        return int(self.spec["exit"])

    def conversation(self) -> Iterator[bytes]:
        if self.spec["mode"] == "none" or self.how.get("close_stdin"):
            yield from self.everything()
            return
        if self.spec["mode"] == "eof":
            while os.read(0, 1 << 16):
                pass
            yield from self.everything()
            return
        yield from self.script.begin()
        for heard in client_lines():
            yield from self.script.hear(heard)
            if self.script.over:
                return

    def everything(self) -> Iterator[bytes]:
        yield from (base64.b64decode(x) for x in self.spec["stdout"])

    def line(self, line: bytes) -> None:
        if self.how.get("noise"):
            self.write(NOISE[self.said % len(NOISE)] + b"\n")
        self.said += 1
        if self.said == self.total:
            self.side_files()
            last = b"" if self.how.get("no_last_newline") else self.end()
        else:
            last = self.end()
        self.write(line + last)
        if self.how.get("die_after") == self.said:
            self.die()
        if self.how.get("stop_after") == self.said:
            self.hang()

    def end(self) -> bytes:
        return b"\r\n" if self.how.get("crlf") else b"\n"

    def write(self, data: bytes) -> None:
        chunk = self.how.get("chunk") or len(data)
        for at in range(0, len(data), chunk):
            piece = memoryview(data)[at : at + chunk]
            while piece:
                piece = piece[os.write(1, piece) :]

    def side_files(self) -> None:
        for name, content in self.spec["side_files"].items():
            path = Path(os.environ["HOME"], name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(content))

    def leave_behind(self) -> None:
        """Two processes that outlive this one: one in the group, one in a session of its own, both holding stdout."""
        if os.name == "nt":
            for own_group in (0, 0x208):  # no console, and a group of its own: what a program can leave there
                sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
                subprocess.Popen(sleep, stdin=subprocess.DEVNULL, creationflags=own_group)
            return
        for own_session in (False, True):
            if os.fork() == 0:
                if own_session:
                    os.setsid()
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(60)
                os._exit(0)

    def hang(self) -> None:
        while True:
            time.sleep(60)

    def die(self) -> None:
        if self.how.get("killed"):
            os.kill(os.getpid(), getattr(signal, "SIGKILL", 9))
        os._exit(1)


def client_lines() -> Iterator[bytes]:
    pending = b""
    while data := os.read(0, 1 << 16):
        *lines, pending = (pending + data).split(b"\n")
        yield from lines
    if pending:
        yield pending


def main(argv: list[str]) -> int:
    spec = json.loads(Path(argv[0]).read_bytes())
    if argv[1:] == spec["version_args"]:
        os.write(1, spec["version"].encode() + b"\n")
        return 0
    command = spec["commands"].get(" ".join(argv[1:]))
    if command is not None:
        os.write(1, command.encode())
        return 0
    try:
        return Player(spec).play()
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
