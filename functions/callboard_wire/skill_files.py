"""What a skill may hold, and what names it: limits, names of files, and the hash of one of its states.

A skill is written on one machine and unpacked on many others, into folders where other programs look for code. So the
rules are those of the strictest file system it may meet, and every side applies them by itself: the command line for a
quick answer, the server because clients lie, the daemon because servers may too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from callboard_wire.answers import cost

MAX_NAME_CHARS: Final = 64
MAX_DESCRIPTION_CHARS: Final = 1024
"""As the Agent Skills format has them."""
MAX_FILES: Final = 256
MAX_FILE_BYTES: Final = 1024 * 1024
MAX_SKILL_MD_BYTES: Final = 128 * 1024
MAX_BUNDLE_BYTES: Final = 3_900_000
"""Of SKILL.md and all files, unpacked. A function takes and gives 6 MiB, in which the body is a string of JSON in a
string of JSON: base64 costs a third, and SKILL.md, which is always text, up to seven times its size. With these limits
the worst skill there can be still fits (a test makes it)."""
MAX_PATH_BYTES: Final = 240
MAX_SEGMENT_BYTES: Final = 100
MAX_DEPTH: Final = 10

MAIN_FILE: Final = "SKILL.md"
JUNK: Final = frozenset(
    {".git", "git~1", ".hg", ".svn", ".bzr", ".ds_store", "__macosx", "thumbs.db", "desktop.ini", "__pycache__"}
)
"""What version control and desktops leave lying about, case-folded. No file of a skill, and a `.git` in an agent's
folder would even be run: its configuration names commands."""

_FORBIDDEN: Final = frozenset('<>:"|?*\\')
_DEVICE: Final = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])( *\..*)?", re.IGNORECASE)
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SHOWN: Final = 120


class SkillRefused(ValueError):
    """A skill breaks a rule. `code` to decide by, `message` to read; `too_large`: it breaks one of size."""

    def __init__(self, code: str, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.too_large = too_large


@dataclass(frozen=True, slots=True)
class Bundle:
    """One state of a skill: `content` is SKILL.md, `files` what lies beside it, by path."""

    id: str
    name: str
    description: str
    content: str
    files: Mapping[str, bytes]
    source: str = "workspace"

    @property
    def size(self) -> int:
        """Bytes, unpacked."""
        return len(self.content.encode("utf-8", "replace")) + sum(map(len, self.files.values()))

    @property
    def hash(self) -> str:
        """SHA-256, in hex, over everything an agent will see. Each part is preceded by its length: without that
        ``ab`` + ``c`` and ``a`` + ``bc`` would be the same skill."""
        digest = hashlib.sha256()
        parts = [b"v1", *(text.encode("utf-8", "replace") for text in self._texts())]
        for path in sorted(self.files):
            data = self.files[path]
            parts += [path.encode("utf-8", "replace"), hashlib.sha256(data).hexdigest().encode(), data]
        for part in parts:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.hexdigest()

    def _texts(self) -> tuple[str, ...]:
        return self.source, self.id, self.name, self.description, self.content


def check(bundle: Bundle) -> None:
    """Raises `SkillRefused` for the first rule that `bundle` breaks."""
    if "\x00" in bundle.content:
        raise SkillRefused("invalid_content", f"{MAIN_FILE} holds a NUL; it has to be text.")
    if len(bundle.files) > MAX_FILES:
        raise SkillRefused(
            "too_many_files", f"The skill has {len(bundle.files)} files; {MAX_FILES} fit.", too_large=True
        )
    check_paths(bundle.files)
    sizes = [(MAIN_FILE, len(bundle.content.encode("utf-8", "replace")), MAX_SKILL_MD_BYTES)]
    sizes += [(path, len(data), MAX_FILE_BYTES) for path, data in bundle.files.items()]
    for path, size, limit in sizes:
        if size > limit:
            raise SkillRefused("file_too_large", f"{shown(path)} has {size} bytes; {limit} fit.", too_large=True)
    if bundle.size > MAX_BUNDLE_BYTES:
        raise SkillRefused(
            "skill_too_large", f"The skill has {bundle.size} bytes; {MAX_BUNDLE_BYTES} fit.", too_large=True
        )


# ── names of files ───────────────────────────────────────────────────────────


def check_paths(paths: Iterable[str]) -> None:
    """Raises `SkillRefused` for a path that some system could not hold, would read as another one or as a place outside
    the skill, and for two paths that could not lie side by side everywhere (``A`` and ``a``; ``a`` and ``a/b``)."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        check_path(path)
        same = files.setdefault(_folded(path), path)
        if same is not path:
            raise SkillRefused("duplicate_path", f"{shown(path)} and {shown(same)} are one file on some systems.")
        parts = path.split("/")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            if folders.setdefault(_folded(folder), folder) != folder:
                raise SkillRefused(
                    "duplicate_path", f"{shown(folder)} and {shown(folders[_folded(folder)])} are one folder somewhere."
                )
    for folded, path in files.items():
        if folded in folders:
            raise SkillRefused("duplicate_path", f"{shown(path)} is a file and a folder.")


def check_path(path: str) -> None:
    """Raises `SkillRefused` for a path that no file of a skill may have."""
    why = _fault(path)
    if why:
        raise SkillRefused("invalid_path", f"{shown(path)}: {why}")
    if _folded(path) == _folded(MAIN_FILE):
        raise SkillRefused("reserved_path", f"{shown(path)}: {MAIN_FILE} is the skill's own text, not one of its files")
    if is_junk(path):
        raise SkillRefused("junk_path", f"{shown(path)}: left over from version control or a desktop; leave it out")


def is_junk(path: str) -> bool:
    """Whether `path` lies in, or is, something of `JUNK`."""
    return any(_folded(part) in JUNK for part in path.split("/"))


def shown(path: str) -> str:
    """A path as it may be shown: it is somebody's input, and a terminal obeys control characters."""
    return repr(path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…")


def _fault(path: str) -> str:
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        return "the name is not UTF-8"
    if length > MAX_PATH_BYTES:
        return f"the path is longer than {MAX_PATH_BYTES} bytes"
    if path.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", path):
        return "the path is absolute"
    parts = path.split("/")
    if len(parts) > MAX_DEPTH:
        return f"more than {MAX_DEPTH} folders deep"
    return next((why for part in parts if (why := _fault_of_segment(part))), "")


def _fault_of_segment(part: str) -> str:
    if part in ("", ".", ".."):
        return "a path has no empty part, no '.' and no '..'"
    if len(part.encode()) > MAX_SEGMENT_BYTES:
        return f"a name is longer than {MAX_SEGMENT_BYTES} bytes"
    if any(unicodedata.category(c) in _INVISIBLE for c in part):
        return "a name holds an invisible character"
    if not _FORBIDDEN.isdisjoint(part):
        return 'a name holds one of < > : " | ? * and the backslash'
    if part != part.strip() or part.endswith("."):
        return "a name begins or ends with a space, or ends with a dot"
    if _DEVICE.fullmatch(part):
        return "Windows takes the name for a device"
    return ""


def _folded(path: str) -> str:
    """A path as the least exact file system compares it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


# ── on the wire ──────────────────────────────────────────────────────────────


def to_wire(path: str, data: bytes, *, compact: bool) -> dict[str, Any]:
    """A file as it travels: text as text, anything else as base64. `compact`: text as well, where it would be longer
    than base64 once it stands in two layers of JSON (a function's answer is JSON inside JSON, with every character
    beyond ASCII escaped)."""
    text = as_text(data)
    packed = base64.b64encode(data).decode()
    if text is None or (compact and cost(text) > len(packed) + 8):
        return {"path": path, "content": packed, "encoding": "base64"}
    return {"path": path, "content": text, "encoding": "utf-8"}


def as_text(data: bytes) -> str | None:
    """The text that `data` is; None when it is none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def from_wire(path: str, content: str, encoding: str) -> bytes:
    """The bytes of a file. Raises `SkillRefused`."""
    try:
        return base64.b64decode(content, validate=True) if encoding == "base64" else content.encode()
    except (binascii.Error, ValueError) as error:
        raise SkillRefused("invalid_encoding", f"{shown(path)} is not {encoding}.") from error
