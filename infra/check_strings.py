"""Says which files hold what must not be in them: index addresses, machine paths, merge marks, private keys.

A lock file with an index address sends everybody to one person's mirror; one with a path works on one machine only.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LOCK_FILE_RULES = {
    "an address": re.compile(r"\w+://"),
    "an index option": re.compile(
        r"^\s*(-i|-f|--index-url|--extra-index-url|--find-links|--trusted-host)\b", re.MULTILINE
    ),
    "a path of a machine": re.compile(r"(^|[\s@])(/|\.\./|[A-Z]:\\)", re.MULTILINE),
}
RULES = {
    "a merge mark": re.compile(r"^(<{7}|>{7}) ", re.MULTILINE),
    # Put together here, so that this file does not find itself.
    "an address of a package index": re.compile(r"(files\.python" r"hosted|pypi\." r"org/simple|registry\.npm" r"js)"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE" r" KEY-----"),
}


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in listed.split("\0") if name]


def found(path: Path) -> list[str]:
    """What is wrong with one file, as ``path:line: what``; binary files have nothing to say."""
    try:
        text = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
        return []
    rules = RULES | LOCK_FILE_RULES if path.parts[0] == "requirements" and path.suffix == ".txt" else RULES
    if path.parts[0] == "tests":  # where keys that open nothing are planted, to see that they are redacted
        rules = {what: rule for what, rule in rules.items() if what != "a private key"}
    return [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {what}"
        for what, rule in rules.items()
        for match in rule.finditer(text)
    ]


def main() -> int:
    wrong = [line for path in tracked() for line in found(path)]
    print("\n".join(wrong) or "no forbidden strings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
