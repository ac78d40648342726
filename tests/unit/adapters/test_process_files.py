"""The disk work adapters ask for, the environment of a child, and what the system's refusals are called."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from callboard_adapters.base import FileWrite, ReadFiles
from callboard_adapters.errors import (
    ArgumentsTooLarge,
    ExecutableNotRunnable,
    ExecutionError,
    LaunchRefused,
    SpawnFailed,
)
from callboard_adapters.process.environment import child_env, chosen_env, default_env
from callboard_adapters.process.executable import spawn_error
from callboard_adapters.process.files import Written, read_files, write_files
from callboard_adapters.process.probe import parse_version, version_line


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for number, name in enumerate(("a/one.jsonl", "b/two.jsonl", "b/three.jsonl")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f'{{"n":{i},"kind":"{"usage" if i % 2 else "chat"}"}}\n' for i in range(4)))
        os.utime(path, (1000 + number, 1000 + number))
    return tmp_path


def test_files_are_found_by_pattern_newest_last_and_missing_ones_left_out(logs):
    found = read_files(ReadFiles("x", [f"{logs}/**/*.jsonl", f"{logs}/none"], max_files=2))
    assert [Path(f.path).name for f in found] == ["two.jsonl", "three.jsonl"]
    assert read_files(ReadFiles("x", [f"{logs}/none"])) == []


def test_reading_is_bounded_from_either_end(logs):
    path = f"{logs}/a/one.jsonl"
    (head,) = read_files(ReadFiles("x", [path], max_bytes=5))
    (tail,) = read_files(ReadFiles("x", [path], max_bytes=5, tail=True))
    (size,) = read_files(ReadFiles("x", [path], max_bytes=0))
    whole = Path(path).read_bytes()
    assert (head.data, tail.data, size.data) == (whole[:5], whole[-5:], b"")
    assert (head.size, tail.offset, size.size) == (len(whole), len(whole) - 5, len(whole))


def test_only_what_was_written_since_an_offset_is_read(logs):
    path = f"{logs}/a/one.jsonl"
    size = Path(path).stat().st_size
    with Path(path).open("a") as file:
        file.write("new\n")
    (found,) = read_files(ReadFiles("x", [path], offsets={path: size}))
    assert found.data == b"new\n"
    (shrunk,) = read_files(ReadFiles("x", [path], offsets={path: 10**9}))
    assert shrunk.data == b""


def test_a_huge_file_is_read_through_for_the_lines_that_matter(logs):
    path = f"{logs}/a/one.jsonl"
    (found,) = read_files(ReadFiles("x", [path], lines_with=[b'"usage"']))
    assert found.data.splitlines() == [b'{"n":1,"kind":"usage"}', b'{"n":3,"kind":"usage"}']
    one = len(b'{"n":1,"kind":"usage"}\n')
    (first,) = read_files(ReadFiles("x", [path], lines_with=[b'"usage"'], max_bytes=one))
    (last,) = read_files(ReadFiles("x", [path], lines_with=[b'"usage"'], max_bytes=one, tail=True))
    assert (first.data[5:6], last.data[5:6]) == (b"1", b"3")


def test_a_file_is_written_whole_and_a_link_in_its_place_is_not_followed(tmp_path):
    target = tmp_path / "theirs"
    target.write_text("theirs")
    (tmp_path / "settings").symlink_to(target)
    written = Written(tmp_path / "scratch")
    write_files([FileWrite(str(tmp_path / "settings"), b"ours")], (), written)
    assert target.read_text() == "theirs"
    assert (tmp_path / "settings").read_text() == "ours"
    written.undo()
    written.undo()
    assert not (tmp_path / "settings").exists()


def test_what_was_written_before_a_failure_is_undone(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    written = Written(tmp_path / "scratch")
    first, second = str(tmp_path / "scratch" / "a"), str(tmp_path / "file" / "b")
    with pytest.raises(OSError):
        write_files([FileWrite(first, b"1"), FileWrite(second, b"2")], (), written)
    assert Path(first).exists()
    written.undo()
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (OSError(errno.E2BIG, "x"), ArgumentsTooLarge, "larger than the system allows"),
        (OSError(errno.ENOEXEC, "x"), ExecutableNotRunnable, "exec format error"),
        (OSError(errno.ENOENT, "x"), ExecutableNotRunnable, "interpreter"),
        (OSError(errno.EACCES, "x"), ExecutableNotRunnable, "permission denied"),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), SpawnFailed, "Resource temporarily"),
        (OSError(errno.ENOSPC, "No space left on device"), SpawnFailed, "No space left"),
        (ValueError("embedded null byte"), LaunchRefused, "NUL byte"),
    ],
)
def test_the_systems_refusals_are_named_and_carry_a_reason(error, kind, words):
    made = spawn_error("claude", "/bin/claude", error)
    assert type(made) is kind
    assert words in str(made)
    assert isinstance(made, ExecutionError)
    assert made.provider == "claude"


def test_other_agents_marks_are_taken_out_and_the_users_settings_stay(monkeypatch):
    given = {
        "CLAUDECODE": "1",
        "CLAUDECODE_X": "1",
        "CLAUDE_CODE_SSE_PORT": "1",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "A": "b",
    }
    assert chosen_env(given) == {"CLAUDE_CODE_USE_BEDROCK": "1", "A": "b"}
    monkeypatch.setenv("MULTICA_TOKEN", "x")
    monkeypatch.setenv("CALLBOARD_DATA", "x")
    assert not [k for k in default_env() if k.startswith(("MULTICA_", "CALLBOARD_"))]
    assert chosen_env({"MULTICA_TOKEN": "of the task"}) == {"MULTICA_TOKEN": "of the task"}


def test_the_childs_environment_is_built_from_what_was_chosen():
    env = child_env({"A": "1", "B": "2", "PWD": "/old"}, {"C": "3"}, ["B", "none"], "/new", "run-1")
    assert env == {"A": "1", "C": "3", "PWD": "/new", "CALLBOARD_RUN_ID": "run-1"}


@pytest.mark.parametrize(
    ("printed", "line", "version"),
    [
        ("2.1.332 (Claude Code)\n", "2.1.332 (Claude Code)", (2, 1, 332)),
        ("Active code page: 65001\nv1.2.3-beta\n", "v1.2.3-beta", (1, 2, 3)),
        ("codex-cli 0.171.0", "codex-cli 0.171.0", (0, 171, 0)),
        ("2026.9.6", "2026.9.6", (2026, 9, 6)),
        ("no version", "", None),
        ("1.2", "", None),
        ("", "", None),
    ],
)
def test_a_version_is_found_among_noise(printed, line, version):
    assert (version_line(printed), parse_version(line)) == (line, version)
