"""CLIs that misbehave, through the real daemon: every task ends and says why, nothing is left running, and the daemon
goes on with the next one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from callboard_wire.states import TaskStatus
from tests.fakes.cli import fake_cli
from tests.fakes.control_plane import PERSON_TOKEN, ControlPlane, control_plane
from tests.fakes.daemon_process import DaemonProcess, eventually, running_daemon
from tests.integration.daemon.test_faults import processes_of

# A prompt names the case: what the CLI then does, how its task ends, and a word of the error or the output.
CASES = {
    "exits-at-once": ("sys.exit(1)", TaskStatus.FAILED, "exit"),
    "exits-well-without-a-word": ("sys.exit(0)", TaskStatus.FAILED, ""),
    "killed": ("init(); os.kill(os.getpid(), signal.SIGKILL)", TaskStatus.FAILED, "signal"),
    "noise-only": ("raw(b'x\\n' * 500_000)", TaskStatus.FAILED, ""),
    "never-exits": ("init(); text('t'); result('done'); time.sleep(300)", TaskStatus.COMPLETED, "done"),
    "ignores-sigterm": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); init(); result('done'); time.sleep(300)",
        TaskStatus.COMPLETED,
        "done",
    ),
    "closes-stdout": ("init(); os.close(1); time.sleep(300)", TaskStatus.FAILED, ""),
    "grandchild-holds-stdout": (
        "init(); subprocess.Popen(['sleep', '300'], start_new_session=True); result('done')",
        TaskStatus.COMPLETED,
        "done",
    ),
    "no-utf8": ("init(); raw(b'{\\xff\\xfe\\n'); text('ok'); result('done')", TaskStatus.COMPLETED, "done"),
    "half-characters": (
        "init('s-\\ud83d'); text('a\\ud83d'); tool('\\udc00', '\\udc00'); tool_result('\\udc00', '\\udc00');"
        " result('done \\ud83d', session='s-\\ud83d')",
        TaskStatus.COMPLETED,
        "done",
    ),
    "long-session": ("init('s' * 5000); result('done', session='s' * 5000)", TaskStatus.COMPLETED, "done"),
    "nul": ("init(); text('a\\0b'); tool('\\0', '\\0'); result('done')", TaskStatus.COMPLETED, "done"),
    "bottomless": (
        "init(); raw(b'{\"type\":' * 50_000 + b'\\n'); raw(b'[' * 50_000 + b'\\n'); result('done')",
        TaskStatus.COMPLETED,
        "done",
    ),
    "deep-input": (
        "init(); d = 'x'\nfor _ in range(150): d = [d]\ntool('c', d); result('done')",
        TaskStatus.COMPLETED,
        "done",
    ),
    "wrong-types": (
        "init(5); say({'type': 'assistant', 'message': 7}); say({'type': ['x']}); say({'type': 'user', 'message':"
        " {'content': [None, 5, {'type': 'tool_result', 'content': {'a': 1}}]}}); result('done')",
        TaskStatus.COMPLETED,
        "done",
    ),
    "endless-number": (
        "init(); raw(b'{\"type\":\"assistant\",\"n\":' + b'9' * 6000 + b'}\\n');"
        " result('done', usage={'input_tokens': 1e400, 'output_tokens': -5}, total_cost_usd=float('nan'))",
        TaskStatus.COMPLETED,
        "done",
    ),
    "long-line": ("init(); text('y' * 40_000_000); result('done')", TaskStatus.COMPLETED, "done"),
    "long-answer": ("init(); result('z' * 30_000_000)", TaskStatus.COMPLETED, "zzz"),
}


# The CLI refuses root outside a sandbox, and so do we before it is started.
CLAUDE = {"provider": "claude", "agent": {"custom_env": {"IS_SANDBOX": "1"}}}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with control_plane() as plane:
        yield plane


@pytest.fixture(scope="module")
def daemon(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("daemon")
    body = "case = prompt()['message']['content']\ncase = case if isinstance(case, str) else case[0]['text']\n"
    for name, (action, _, _) in CASES.items():
        lines = "\n    ".join(action.split("\n"))
        body += f"if '<{name}>' in case:\n    {lines}\n"
    cli = fake_cli(home, body + "if '<fine>' in case:\n    init(); result('fine')\n")
    with running_daemon(home, plane.url, PERSON_TOKEN, claude_path=str(cli), providers="claude") as daemon:
        yield daemon


SLOW = ("ignores-sigterm", "long-line", "long-answer")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES])
def test_a_task_ends_whatever_its_cli_does(plane: ControlPlane, daemon: DaemonProcess, name: str) -> None:
    _, status, word = CASES[name]
    task = plane.wait_ended(plane.enqueue(f"<{name}>", **CLAUDE), timeout=45)
    assert task.status is status, (task.ending, daemon.log()[-2000:])
    assert word in str(task.ending.get("output", "")) + str(task.ending.get("error", "")), task.ending
    if status is TaskStatus.FAILED:
        assert task.ending["error"]
        assert task.ending["failure_reason"]
    eventually(lambda: processes_of(task.id) == [])
    fine = plane.wait_ended(plane.enqueue("<fine>", **CLAUDE))
    assert fine.ending["output"] == "fine"
    assert not [line for line in daemon.log().splitlines() if "Traceback" in line]
