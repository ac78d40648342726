"""`callboard up` as a process: what it says to a person, what it logs, and what it refuses."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Callable

from tests.integration.cli.conftest import Shell

MakeShell = Callable[[str], Shell]


def test_stdout_is_for_people_and_the_log_is_json_on_stderr(shell: MakeShell) -> None:
    box = shell("box")
    process = box.start("up", "--data", str(box.home / "data"), "--port", "0")
    assert process.stdout
    first = process.stdout.readline()
    port = re.search(r"http://127.0.0.1:(\d+)", first)
    assert port, first
    with socket.create_connection(("127.0.0.1", int(port.group(1)))) as client:
        client.sendall(b"this is no HTTP\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "{" not in first + out
    [line] = [json.loads(line) for line in err.splitlines()]
    assert (line["level"], line["message"]) == ("WARNING", "Invalid HTTP request received.")
    assert {"timestamp", "service"} <= set(line)


def test_a_folder_that_is_not_named_is_not_the_current_one(shell: MakeShell) -> None:
    box = shell("box")
    done = box.run("up", "--data", "")
    assert (done.code, "no folder is named" in done.err) == (5, True)
    assert list(box.home.iterdir()) == []


def test_a_new_secret_is_announced_as_the_way_back_in(shell: MakeShell) -> None:
    box = shell("box")
    data = str(box.home / "data")
    for options, said in (((), "Nobody has logged in yet"), (("--new-secret",), "lets the first person in once more")):
        process = box.start("up", "--data", data, "--port", "0", *options)
        assert process.stdout
        shown = process.stdout.readline()
        while "--bootstrap" not in shown:
            shown += process.stdout.readline()
        assert said in shown
        url = re.search(r"http://[^ ]+", shown)
        assert url
        box.ok("login", "--server", url.group(), "--bootstrap", f"{data}/bootstrap.secret")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0
