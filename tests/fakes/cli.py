"""A fake coding-agent CLI for one test: a real process whose body the test writes.

The body runs after a prelude that answers `--version` and offers the words of claude's protocol:

    say(event)            one event as a line
    init(session="s-1")   the first event
    text("…"), tool("call-1", "ls"), tool_result("call-1", "out")
    result("…", **fields) the last event
    prompt()              the prompt line from stdin, parsed (blocks)
    until_eof()           read stdin to its end
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import dedent

from callboard_adapters.conformance.launcher import write_launcher

PRELUDE = """#!{python} -IS
import json, os, signal, subprocess, sys, time
if "--version" in sys.argv:
    print("2.1.332 (fake)")
    sys.exit(0)

def raw(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]

def say(event):
    raw(json.dumps(event).encode() + b"\\n")

def init(session="s-1"):
    say({{"type": "system", "subtype": "init", "session_id": session, "model": "m-1"}})

def text(content, **more):
    block = {{"type": "text", "text": content}}
    say({{"type": "assistant", "message": {{"role": "assistant", "model": "m-1", "content": [block]}}, **more}})

def tool(call, command, **more):
    block = {{"type": "tool_use", "id": call, "name": "Bash", "input": {{"command": command}}}}
    say({{"type": "assistant", "message": {{"role": "assistant", "model": "m-1", "content": [block]}}, **more}})

def tool_result(call, output, **more):
    block = {{"type": "tool_result", "tool_use_id": call, "content": output}}
    say({{"type": "user", "message": {{"role": "user", "content": [block]}}, **more}})

def result(answer, session="s-1", **more):
    say({{"type": "result", "subtype": "success", "is_error": False, "session_id": session, "result": answer, **more}})

def prompt():
    return json.loads(sys.stdin.buffer.readline())

def until_eof():
    while os.read(0, 65536):
        pass
"""


def fake_cli(folder: Path, body: str, name: str = "claude") -> Path:
    """Write the executable into `folder`; its path."""
    cli = folder / name
    text = PRELUDE.format(python=sys.executable) + dedent(body)
    if os.name == "nt":  # no first line there that names an interpreter
        script = folder / f"{name}.py"
        script.write_text(text, encoding="utf-8")
        return write_launcher(cli, [sys.executable, "-IS", str(script)])
    cli.write_text(text)
    cli.chmod(0o755)
    return cli
