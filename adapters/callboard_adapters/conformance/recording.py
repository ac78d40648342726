"""One recorded run of a real CLI, as a folder:

recording.json   prompt, resume (id or null), exit, version; for a conversation `sent_after`: how many lines of
                 stdout came before each line of stdin.jsonl; optionally `commands` (arguments → output, for what
                 an adapter runs before the launch), `side_files` (path under HOME → file in this folder), `env`,
                 `text` (true: stdout is the answer itself, so foreign lines cannot be told from it)
stdout.jsonl     raw
stdin.jsonl      what the client sent, one line a message (only for protocols with a conversation)
stderr.txt       raw
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callboard_adapters.capabilities import Capabilities, PromptVia
from callboard_adapters.conformance.launcher import write_launcher

_PLAYER = Path(__file__).with_name("player.py")
_MODES = {PromptVia.STDIN_LINE: "line", PromptVia.RPC: "line", PromptVia.STDIN_EOF: "eof"}


@dataclass(frozen=True)
class Recording:
    """`lines` and `client` are without line ends."""

    name: str
    lines: tuple[bytes, ...]
    client: tuple[bytes, ...] = ()
    sent_after: tuple[int, ...] = ()
    stderr: str = ""
    prompt: str = "hello"
    resume: str | None = None
    exit: int = 0
    version: str = "9999.0.0"
    text: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    side_files: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: str | Path) -> Recording:
        """Raises OSError or ValueError when the folder is not a recording."""
        folder = Path(folder)
        about = json.loads((folder / "recording.json").read_bytes())
        return cls(
            name=folder.name,
            lines=_lines(folder / "stdout.jsonl"),
            client=_lines(folder / "stdin.jsonl") if about.get("sent_after") else (),
            sent_after=tuple(about.get("sent_after", ())),
            stderr=_text(folder / "stderr.txt"),
            prompt=about["prompt"],
            resume=about.get("resume"),
            exit=about.get("exit", 0),
            version=about.get("version", "9999.0.0"),
            text=about.get("text", False),
            env=about.get("env", {}),
            commands=about.get("commands", {}),
            side_files={k: (folder / v).read_bytes() for k, v in about.get("side_files", {}).items()},
        )

    def fake_cli(self, folder: Path, capabilities: Capabilities, **how: Any) -> Path:
        """Write an executable into `folder` that plays this recording to an adapter; its path.

        `how` makes it misbehave: `chunk` bytes a write, `noise`, `crlf`, `no_last_newline`, `big_line` bytes first,
        `close_stdin`, `close_stdout`, `stop_after` lines (then hang), `die_after` lines (with `killed` by SIGKILL),
        `stubborn` (deaf to TERM), `linger` (never exits), `leave_behind` (processes that hold its stdout).
        """
        folder.mkdir(parents=True, exist_ok=True)
        spec = {
            "stdout": [base64.b64encode(x).decode() for x in self.lines],
            "client": [x.decode("utf-8", "replace") for x in self.client],
            "sent_after": list(self.sent_after),
            "stderr": self.stderr,
            "exit": self.exit,
            # A CLI that dies without a word has not read its input either.
            "mode": _MODES.get(capabilities.prompt, "none") if self.lines else "none",
            "version": self.version,
            "version_args": list(capabilities.version_args),
            "commands": dict(self.commands),
            "side_files": {k: base64.b64encode(v).decode() for k, v in self.side_files.items()},
            "how": how,
        }
        (folder / "spec.json").write_text(json.dumps(spec))
        command = [sys.executable, "-I", "-S", str(_PLAYER), str(folder / "spec.json")]
        return write_launcher(folder / capabilities.name, command)


def _lines(path: Path) -> tuple[bytes, ...]:
    data = path.read_bytes()
    return tuple(data.removesuffix(b"\n").split(b"\n")) if data else ()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
