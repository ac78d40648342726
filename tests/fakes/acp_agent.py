"""A fake ACP agent: a real process that follows a script, method by method.

    python -I -S acp_agent.py SCRIPT.json [the CLI's own arguments]

SCRIPT.json is `{"says": {method: [step, …]}, "deaf": bool, "heard": path}`. For each message of the client the steps
of its method are done (and of `*` for a method without any). A step is an object with one of

    result, error   answer the message; with `to`, answer the latest message of that method instead
    update          a `session/update` for session `s1`, or for `session` beside it; `method` renames it
    send            any message; `times` repeats it (and update)
    raw             a line as it is
    pad             a line of that many bytes: `result` beside it, padded
    sleep           seconds
    close           stdout, and live on
    exit            leave with this code

`deaf`: neither the end of stdin nor TERM ends it. Every line it hears is appended to `heard`.
`Script` itself does no I/O, so that tests can also follow a script in memory.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Script:
    def __init__(self, says: dict[str, list[dict[str, Any]]]) -> None:
        self._says = says
        self._latest: dict[str, Any] = {}

    def hear(self, line: bytes) -> Iterator[tuple[str, Any]]:
        """(what to do, with what): `write` bytes, or sleep, close, exit."""
        message = json.loads(line)
        method = message.get("method", "answer")
        self._latest[method] = message.get("id")
        for step in self._says.get(method, self._says.get("*", [])):
            yield from self._step(step, message.get("id"))

    def _step(self, step: dict[str, Any], message_id: Any) -> Iterator[tuple[str, Any]]:
        for do in ("sleep", "close", "exit"):
            if do in step:
                yield do, step[do]
        if "raw" in step:
            yield "write", step["raw"].encode("latin-1")
        for _ in range(step.get("times", 1)):
            if "update" in step:
                params = {"sessionId": step.get("session", "s1"), "update": step["update"]}
                yield "write", _line({"method": step.get("method", "session/update"), "params": params})
            elif "send" in step:
                yield "write", _line(step["send"])
        if "result" in step or "error" in step:
            body = {key: step[key] for key in ("result", "error") if key in step}
            answered = self._latest.get(step["to"]) if "to" in step else message_id
            answer = _line({"id": answered, **body})
            yield "write", answer[:-1] + b" " * step.get("pad", 0) + b"}"


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode()


def install(folder: Path, says: dict[str, list[dict[str, Any]]], *, name: str = "agent", deaf: bool = False) -> Path:
    """Write an executable that follows `says` into `folder`; its path. What it hears lands in `folder/heard`."""
    spec = {"says": says, "deaf": deaf, "heard": str(folder / "heard")}
    (folder / "script.json").write_text(json.dumps(spec))
    # In here: as an agent this file runs without site-packages.
    from callboard_adapters.conformance.launcher import write_launcher

    command = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(folder / "script.json")]
    return write_launcher(folder / name, command)


def heard(folder: Path) -> list[dict[str, Any]]:
    """What the agent of `install` heard."""
    return [json.loads(line) for line in (folder / "heard").read_bytes().splitlines()]


def main(argv: list[str]) -> int:
    spec = json.loads(Path(argv[0]).read_bytes())
    if "--version" in argv:
        os.write(1, b"1.0.0\n")
        return 0
    if spec["deaf"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    script, pending = Script(spec["says"]), b""
    log = os.open(spec["heard"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while data := os.read(0, 1 << 16):
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            os.write(log, line + b"\n")
            for do, what in script.hear(line):
                if do == "exit":
                    return int(what)
                _do(do, what)
    while spec["deaf"]:
        time.sleep(60)
    return 0


def _do(do: str, what: Any) -> None:
    if do == "sleep":
        time.sleep(what)
    elif do == "close":
        os.close(1)
    else:
        rest = memoryview(what + b"\n")
        while rest:
            rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
