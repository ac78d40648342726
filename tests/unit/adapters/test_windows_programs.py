"""What npm leaves on Windows, read as text: these functions touch nothing of the system but files."""

from __future__ import annotations

import errno
import os

import pytest

from callboard_adapters.process.windows.programs import runnable, search

NPM = """@ECHO off
GOTO start
:find_dp0
SET dp0=%~dp0
EXIT /b
:start
SETLOCAL
CALL :find_dp0

IF EXIST "%dp0%\\node.exe" (
  SET "_prog=%dp0%\\node.exe"
) ELSE (
  SET "_prog=node"
  SET PATHEXT=%PATHEXT:;.JS;=;%
)

endLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & "%_prog%"  --no-warnings "%dp0%\\lib\\some cli\\cli.js" %*
"""
NATIVE = NPM.split("IF EXIST")[0] + '"%dp0%\\node_modules\\opencode\\bin\\opencode.exe"   %*\n'
OLD = """@IF EXIST "%~dp0\\node.exe" (
  "%~dp0\\node.exe"  "%~dp0\\..\\lib\\cli.js" %*
) ELSE (
  @SETLOCAL
  @SET PATHEXT=%PATHEXT:;.JS;=;%
  node  "%~dp0\\..\\lib\\cli.js" %*
)
"""
PROMPT = 'first\nsecond "quoted" %PATH% & del ^ | <x>'


def shim(folder, text, name="cli.cmd"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, newline="\r\n")
    return str(folder / name)


def program(folder, name):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"MZ")
    return str(folder / name)


def test_npm_s_batch_file_is_replaced_by_the_script_it_calls_and_every_argument_stays_whole(tmp_path):
    node = program(tmp_path / "bin", "node.exe")
    cmd = shim(tmp_path / "npm", NPM)
    called = runnable([cmd, "-p", PROMPT, "--after"], {"PATH": str(tmp_path / "bin")})
    script = os.path.join(tmp_path, "npm", "lib", "some cli", "cli.js")  # noqa: PTH118 - as text
    assert called == [node, "--no-warnings", script, "-p", PROMPT, "--after"]


def test_the_node_beside_the_batch_file_comes_before_that_of_path(tmp_path):
    program(tmp_path / "bin", "node.exe")
    node = program(tmp_path / "npm", "node.exe")
    for text in (NPM, OLD):
        assert runnable([shim(tmp_path / "npm", text)], {"PATH": str(tmp_path / "bin")})[0] == node


def test_a_batch_file_that_calls_a_program_is_replaced_by_it(tmp_path):
    (tmp_path / "npm" / "node_modules" / "opencode" / "bin").mkdir(parents=True)
    exe = program(tmp_path / "npm" / "node_modules" / "opencode" / "bin", "opencode.exe")
    assert runnable([shim(tmp_path / "npm", NATIVE), PROMPT], {}) == [exe, PROMPT]


def test_a_batch_file_whose_program_is_missing_says_which(tmp_path):
    with pytest.raises(OSError, match=r"calls .*node.exe or node, which is not there") as refused:
        runnable([shim(tmp_path, NPM)], {"PATH": str(tmp_path)})
    assert refused.value.errno == errno.ENOENT


@pytest.mark.parametrize(
    "text",
    [
        "@powershell -File %~dp0agent.ps1 %1 %2",
        '@"%TOOLS%\\agent.exe" "%~dp0\\x.js" %*\n@"%~dp0\\node.exe" "%TOOLS%\\x.js" %*',
        "echo nothing",
        "",
    ],
)
def test_any_other_batch_file_gets_plain_arguments_or_none(tmp_path, text):
    cmd = shim(tmp_path, text)
    plain = [cmd, "--version", "C:\\a b\\c.json", "--model", "x/y:1", "name@2.0"]
    assert runnable(plain, {"PATH": ""}) == plain
    for argument in ("a\nb", "100%", 'say "x"', "a&b", "a|b", "a^b", "<x>", "(x)", "a;b", "!x!", "a=b", "a,b"):
        with pytest.raises(OSError, match="is a batch file") as refused:
            runnable([cmd, argument], {"PATH": ""})
        assert refused.value.errno == errno.EINVAL


def test_a_program_is_started_as_it_is(tmp_path):
    assert runnable([str(tmp_path / "claude.exe"), PROMPT], {}) == [str(tmp_path / "claude.exe"), PROMPT]


def test_a_program_is_looked_for_in_path_and_nowhere_else(tmp_path, monkeypatch):
    """A repository one stands in must not choose the program: what an interactive shell does on Windows."""
    program(tmp_path / "repository", "claude.exe")
    monkeypatch.chdir(tmp_path / "repository")
    assert search("claude", str(tmp_path / "npm")) is None
    cmd = shim(tmp_path / "npm", NPM, "claude.cmd")
    assert search("claude", os.pathsep.join(["", str(tmp_path / "npm")])) == cmd
    assert search("claude.cmd", str(tmp_path / "npm")) == cmd


def test_the_shell_script_npm_puts_beside_a_batch_file_is_not_taken_for_the_program(tmp_path):
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    assert search("claude", str(tmp_path)) is None
    exe = program(tmp_path, "claude.exe")
    shim(tmp_path, NPM, "claude.cmd")
    assert search("claude", str(tmp_path)) == exe
