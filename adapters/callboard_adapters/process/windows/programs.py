"""Finding a program on Windows, and starting what npm installs there. Plain functions, tested on every system.

npm installs a CLI as a batch file (`claude.cmd`) that calls `node script.js` or an `.exe` with `%*`. Windows runs a
batch file through cmd.exe, which ends the command line at the first line feed and gives `%`, `&`, `|`, `^`, `<`, `>`
and quotes meanings of their own: CLIs have answered as if no question had been asked, and flags after it have vanished.
So what the batch file would call is called directly; one that cannot be read that way gets plain arguments or none.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_ENDINGS = (".exe", ".com", ".cmd", ".bat")
"""What can be started, best first. npm puts a shell script without an ending beside each `.cmd`."""
_BATCH = (".cmd", ".bat")
_MAX_SHIM = 1 << 16  # bytes; npm's have less than a kilobyte
_CALL = re.compile(r"^(?:.*&)?\s*@?(?P<call>(?:(?:\"[^\"]*\"|[^\s\"]+)\s+)+)%\*\s*$")
_WORD = re.compile(r"\"([^\"]*)\"|([^\s\"]+)")
_PROGRAM = re.compile(r"^\s*@?SET\s+\"_prog=([^\"]*)\"\s*$", re.IGNORECASE | re.MULTILINE)
_HERE = re.compile(r"%(?:~dp0|dp0%)\\?", re.IGNORECASE)
_PLAIN = re.compile(r"[\w .:/\\@+~-]*")
"""Not `=` and `,` either: for `%1` they divide arguments."""


def search(name: str, path: str) -> str | None:
    """The absolute path of program `name`, with or without its ending, in `path` (folders as in PATH), or None.

    Only there: `shutil.which` looks into the current folder first, where a repository may have put a `claude.exe`.
    """
    names = [name] if name.lower().endswith(_ENDINGS) else [name + ending for ending in _ENDINGS]
    for folder in filter(None, path.split(os.pathsep)):
        for candidate in (Path(folder, n) for n in names):
            if candidate.is_file():
                return str(candidate.absolute())
    return None


def runnable(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """`argv` as it can be started: an npm batch file replaced by what it calls. `argv[0]` is an absolute path.

    Raises OSError: ENOENT when what it calls is not there, EINVAL when a batch file would not get its arguments whole.
    """
    if not argv[0].lower().endswith(_BATCH):
        return list(argv)
    called = _called_by(Path(argv[0]), env.get("PATH", ""))
    if called is not None:
        return [*called, *argv[1:]]
    if not all(_PLAIN.fullmatch(arg) for arg in argv[1:]):
        raise OSError(
            errno.EINVAL,
            f"{argv[0]} is a batch file, which would not get every argument whole, and not one of npm's: "
            "set the path of the program it starts",
        )
    return list(argv)


def _called_by(shim: Path, path: str) -> list[str] | None:
    """The command an npm batch file calls, without the arguments it passes on; None if it is another kind of file."""
    try:
        with shim.open(encoding="utf-8") as file:
            text = file.read(_MAX_SHIM)
    except UnicodeDecodeError:
        return None
    calls = [found for line in text.splitlines() if (found := _CALL.match(line))]
    if not calls:
        return None
    # An old one has two calls: with the node beside it, where there is one, and with that of PATH.
    first, *rest = [quoted or bare for quoted, bare in _WORD.findall(calls[-1]["call"])]
    programs = _PROGRAM.findall(text) if first.lower() == "%_prog%" else [first]
    words = [_HERE.sub(lambda _: f"{shim.parent}{os.sep}", word).replace("\\", os.sep) for word in [*programs, *rest]]
    if any("%" in word for word in words[len(programs) :]):
        return None
    program = _first_there(words[: len(programs)], shim.parent, path)
    if program is None:
        raise OSError(errno.ENOENT, f"{shim} calls {' or '.join(words[: len(programs)])}, which is not there")
    return [program, *words[len(programs) :]]


def _first_there(programs: Sequence[str], beside: Path, path: str) -> str | None:
    for program in programs:
        if os.sep in program:
            found = program if Path(program).is_file() else None
        else:
            found = search(program, os.pathsep.join([str(beside), path]))
        if found is not None:
            return found
    return None
