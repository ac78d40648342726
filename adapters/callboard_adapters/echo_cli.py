"""A coding-agent CLI without a model: what the `echo` provider starts.

It speaks stream JSON as claude does (prompt as one line on stdin, a `result` at the end, exit when stdin is closed), so
a demo or a test goes through the whole path: pipes, framing, dialect, files on disk, usage, resume, cancel.

A prompt without directives is answered with `echo: <prompt>`. A line of the prompt that starts with `!` is a directive;
they run in order:

    !say TEXT                an assistant text
    !think TEXT              a thought
    !write PATH TEXT         write a file (relative to the workdir) as a tool call
    !append PATH TEXT        the same, at the end of a file
    !read PATH               read a file as a tool call
    !tool NAME TEXT          a tool call that does nothing and answers TEXT
    !sleep SECONDS           wait, silent
    !usage IN OUT [READ WRITE [MODEL]]   token counts (added up; without it 1 in, 1 out)
    !env NAME                say an environment variable's value (empty when unset)
    !spawn SECONDS           leave a background process in a session of its own
    !retry STATUS            announce a retry of the provider's API
    !log TEXT                a line on stderr
    !raw TEXT                a line of stdout that is not the protocol's
    !answer TEXT             the final answer (default: the last text said)
    !fail TEXT               end with an error result
    !status CODE             the HTTP status of that error
    !exit CODE               end at once with this code and no result

`\\n` and `\\t` in TEXT are a line feed and a tab. Sessions are remembered as files in `$HOME/.callboard-echo` (or
`$CALLBOARD_ECHO_HOME`), so a resume of an unknown id is refused as the real CLIs refuse it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TextIO

VERSION = "1.0.0 (Callboard echo)"
MODEL = "echo-1"
_INPUT_LIMIT = 64 << 20


class Echo:
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.said = ""
        self.answer: str | None = None
        self.error: str | None = None
        self.http_status: int | None = None
        self.usage: dict[str, list[int]] = {}
        self.calls = 0
        self.directives: dict[str, Callable[[str], None]] = {
            "say": self.say,
            "think": lambda t: self.block({"type": "thinking", "thinking": text_of(t), "signature": ""}),
            "write": lambda t: self.write(t, "Write", "w"),
            "append": lambda t: self.write(t, "Append", "a"),
            "read": self.read,
            "tool": self.tool,
            "sleep": lambda t: time.sleep(float(t)),
            "usage": self.count,
            "env": lambda t: self.say(os.environ.get(t, "")),
            "spawn": self.spawn,
            "retry": self.retry,
            "log": lambda t: put(text_of(t), sys.stderr),
            "raw": lambda t: put(text_of(t)),
            "answer": lambda t: setattr(self, "answer", text_of(t)),
            "fail": lambda t: setattr(self, "error", text_of(t)),
            "status": lambda t: setattr(self, "http_status", int(t)),
            "exit": lambda t: sys.exit(int(t or 0)),
        }

    def run(self, prompt: str) -> None:
        self.emit({"type": "system", "subtype": "init", "model": MODEL, "cwd": str(Path.cwd()), "tools": []})
        lines = [line for line in prompt.splitlines() if line.startswith("!")]
        if not lines:
            self.say(f"echo: {prompt}")
        for line in lines:
            name, _, rest = line[1:].partition(" ")
            directive = self.directives.get(name)
            if directive is None:
                self.error = f"unknown directive !{name}; known: {', '.join(sorted(self.directives))}"
                break
            directive(rest)
        self.result()

    # directives --------------------------------------------------------------

    def say(self, text: str) -> None:
        self.said = text_of(text)
        self.block({"type": "text", "text": self.said})

    def write(self, rest: str, tool: str, mode: str) -> None:
        path, _, content = rest.partition(" ")
        call = self.use(tool, {"file_path": path, "content": text_of(content)})
        try:
            place = Path(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open(mode, encoding="utf-8") as file:
                size = file.write(text_of(content))
            self.used(call, f"wrote {size} characters to {path}")
        except OSError as error:
            self.used(call, f"could not write {path}: {error.strerror}", failed=True)

    def read(self, path: str) -> None:
        call = self.use("Read", {"file_path": path})
        try:
            self.used(call, Path(path).read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            self.used(call, f"could not read {path}: {error.strerror}", failed=True)

    def tool(self, rest: str) -> None:
        name, _, output = rest.partition(" ")
        self.used(self.use(name, {"text": text_of(output)}), text_of(output))

    def count(self, rest: str) -> None:
        words = rest.split()
        numbers = [int(w) for w in words[:4]]
        model = words[4] if len(words) > 4 else MODEL
        row = self.usage.setdefault(model, [0, 0, 0, 0])
        for i, number in enumerate(numbers):
            row[i] += number

    def spawn(self, seconds: str) -> None:
        command = [sys.executable, "-I", "-S", "-c", f"import time; time.sleep({float(seconds)})"]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.Popen(command, start_new_session=True, **quiet)  # type: ignore[call-overload]  # three equal streams

    def retry(self, status: str) -> None:
        self.emit(
            {
                "type": "system",
                "subtype": "api_retry",
                "attempt": 1,
                "max_retries": 10,
                "error_status": int(status or 500),
            }
        )

    # the protocol ------------------------------------------------------------

    def use(self, name: str, tool_input: dict[str, Any]) -> str:
        self.calls += 1
        call = f"echo_{self.calls}"
        self.said = ""
        self.block({"type": "tool_use", "id": call, "name": name, "input": tool_input})
        return call

    def used(self, call: str, output: str, failed: bool = False) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": failed}
        self.emit({"type": "user", "message": {"role": "user", "content": [block]}})

    def block(self, block: dict[str, Any]) -> None:
        self.emit({"type": "assistant", "message": {"role": "assistant", "model": MODEL, "content": [block]}})

    def result(self) -> None:
        names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
        used = self.usage or {MODEL: [1, 1, 0, 0]}
        failed = self.error is not None
        self.emit(
            {
                "type": "result",
                "subtype": "error_during_execution" if failed else "success",
                "is_error": failed,
                "api_error_status": self.http_status,
                "result": self.error if failed else (self.said if self.answer is None else self.answer),
                "modelUsage": {model: dict(zip(names, row, strict=True)) for model, row in used.items()},
            }
        )

    def emit(self, event: dict[str, Any]) -> None:
        put(json.dumps({**event, "session_id": self.session_id}, ensure_ascii=False))


def put(line: str, stream: TextIO = sys.stdout) -> None:
    stream.write(line + "\n")
    stream.flush()


def text_of(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


def home() -> Path:
    return Path(os.environ.get("CALLBOARD_ECHO_HOME") or Path.home() / ".callboard-echo")


def refuse_session(session_id: str) -> NoReturn:
    error = f"No conversation found with session ID: {session_id}"
    event = {"type": "result", "subtype": "error_during_execution", "is_error": True, "session_id": session_id}
    put(json.dumps({**event, "errors": [error]}))
    put(error, sys.stderr)
    sys.exit(1)


def open_session(resume: str | None) -> str:
    """The session's id; a resumed one must have been seen here before."""
    session_id = resume or str(uuid.uuid4())
    marker = home() / f"{uuid.uuid5(uuid.NAMESPACE_URL, session_id)}.session"
    if resume and not marker.exists():
        refuse_session(resume)
    marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker.touch(mode=0o600)
    return session_id


def prompt_of(line: bytes) -> str:
    message = json.loads(line)["message"]
    return "".join(block.get("text", "") for block in message["content"])


def main(argv: list[str]) -> int:
    if "--version" in argv:
        put(VERSION)
        return 0
    resume = argv[argv.index("--resume") + 1] if "--resume" in argv else None
    session_id = open_session(resume)
    line = sys.stdin.buffer.readline(_INPUT_LIMIT)
    if not line:
        put("no prompt on stdin", sys.stderr)
        return 2
    echo = Echo(session_id)
    echo.run(prompt_of(line))
    sys.stdin.buffer.read()  # as the real one: it stays until its input is closed
    return 1 if echo.error is not None else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
