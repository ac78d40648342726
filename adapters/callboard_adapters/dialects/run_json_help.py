"""The help that an opencode-like CLI prints instead of a run when it does not know an argument.

Its parser (yargs, strict) does not say which argument it was: the help of `run` is all, on stdout in 1.2.27 and on
stderr in 1.17.11, with exit status 1. 1.2.27 has no `--dangerously-skip-permissions`, 1.0.98 no `--dir` and no
`--variant` either. So the help itself says what the installed version takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_LINES = 400  # a help is some fifty
_FLAG = re.compile(r"(?<![\w-])--([A-Za-z][\w-]*)")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Help:
    """Collects the lines of a help that came where events were expected."""

    def __init__(self, product: str) -> None:
        self._title = f"{product} run".encode()
        self._lines: list[str] = []

    def takes(self, line: bytes) -> bool:
        """Whether a line is part of the help; it is kept then."""
        if not self._lines and not line.startswith(self._title):
            return False
        if len(self._lines) < _LINES:
            self._lines.append(line.decode("utf-8", "replace"))
        return True

    @property
    def flags(self) -> frozenset[str]:
        """The long options it lists, as `--name`; empty when no help came."""
        return frozenset(f"--{name}" for line in self._lines for name in _FLAG.findall(line))

    def unknown(self, words: Iterable[str]) -> list[str]:
        """The long options among `words` that the help does not list. yargs takes `--no-x` and `--someName` too."""
        listed = self.flags
        names = [word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 2]
        return [name for name in names if not {name, *_spellings(name)} & listed]


def _spellings(name: str) -> set[str]:
    kebab = _CAMEL.sub("-", name).lower()
    return {kebab, f"--{kebab.removeprefix('--no-')}"}
