"""A fake `codex app-server` for one test: a real process whose body the test writes.

    hear(method)              the next message of the client with that method (others are answered `{}`); ends at EOF
    answer(request, result)   refuse(request, code, text)
    note(method, **params)    ask(id, method, **params) → what the client answers
    begin(thread="th-1", turn="tu-1")   the whole startup up to the started turn; the client's turn/start
    say_text(text, turn=…)    one whole agent message            done(turn=…, status="completed", **turn_fields)
    until_eof()               starts()    how often this fake has been started in its home, this time included
    heard                     every line of the client so far, parsed; also in `heard.jsonl` beside the fake

Times are in no test: a body that waits for something waits for a message.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

PRELUDE = """#!{python} -IS
import json, os, signal, subprocess, sys, time
if "--version" in sys.argv:
    print("codex-cli 0.171.0 (fake)")
    sys.exit(0)
HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
THREAD, TURN = "th-1", "tu-1"
heard = []
pending = b""
with open(HERE + "/starts", "a") as file:
    file.write(str(os.getpid()) + "\\n")

def starts():
    return len(open(HERE + "/starts").read().split())

def raw(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]

def say(message):
    raw(json.dumps(message).encode() + b"\\n")

def line():
    global pending
    while b"\\n" not in pending:
        data = os.read(0, 65536)
        if not data:
            return None
        pending += data
    one, _, pending = pending.partition(b"\\n")
    with open(HERE + "/heard.jsonl", "ab") as file:
        file.write(one + b"\\n")
    heard.append(json.loads(one))
    return heard[-1]

def hear(method):
    while True:
        message = line()
        if message is None:
            sys.exit(0)
        if message.get("method") == method:
            return message
        if "method" in message and "id" in message:
            answer(message, {{}})

def hear_answer(request_id):
    while True:
        message = line()
        if message is None:
            sys.exit(0)
        if "method" not in message and message.get("id") == request_id and type(message["id"]) is type(request_id):
            return message

def answer(request, result):
    say({{"id": request["id"], "result": result}})

def refuse(request, code, text):
    say({{"id": request["id"], "error": {{"code": code, "message": text}}}})

def note(method, **params):
    say({{"method": method, "params": params}})

def ask(request_id, method, **params):
    say({{"id": request_id, "method": method, "params": params}})
    return hear_answer(request_id)

def begin(thread=THREAD, turn=TURN):
    answer(hear("initialize"), {{}})
    start = hear("thread/start")
    answer(start, {{"thread": {{"id": thread}}, "model": "m-1"}})
    request = hear("turn/start")
    answer(request, {{"turn": {{"id": turn}}}})
    note("turn/started", threadId=thread, turn={{"id": turn}})
    return request

def item(kind, item_id, turn=TURN, thread=THREAD, when="completed", **fields):
    note("item/" + when, threadId=thread, turnId=turn, item={{"type": kind, "id": item_id, **fields}})

def say_text(text, item_id="msg-1", **more):
    item("agentMessage", item_id, text=text, phase=None, **more)

def tokens(total, last, turn=TURN, thread=THREAD):
    def counts(numbers):
        names = ("inputTokens", "cachedInputTokens", "outputTokens")
        return dict(zip(names, numbers))
    usage = {{"total": counts(total), "last": counts(last)}}
    note("thread/tokenUsage/updated", threadId=thread, turnId=turn, tokenUsage=usage)

def done(turn=TURN, status="completed", thread=THREAD, **fields):
    note("turn/completed", threadId=thread, turn={{"id": turn, "items": [], "status": status, **fields}})

def until_eof():
    while line() is not None:
        pass
"""


def codex_server(folder: Path, body: str) -> Path:
    """Write the executable into `folder`; its path."""
    cli = folder / "codex"
    cli.write_text(PRELUDE.format(python=sys.executable) + dedent(body))
    cli.chmod(0o755)
    return cli


def heard(folder: Path) -> list[dict[str, Any]]:
    """What the fake in `folder` has been told, over all its starts."""
    path = folder / "heard.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def starts(folder: Path) -> int:
    path = folder / "starts"
    return len(path.read_text().split()) if path.exists() else 0
