"""A provider's conversation as a value that can be stored, restored and shown.

A session id alone is not enough: CLIs file their conversations under the folder they were started in, and an id of one
provider means nothing to another.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import PurePath

_SHOWN = 12


@dataclass(frozen=True, slots=True)
class StoredSession:
    provider: str
    session_id: str
    cwd: str

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> StoredSession:
        """Raises ValueError for anything `dump` did not write; unknown fields of a newer version are ignored."""
        value = json.loads(text)
        try:
            stored = cls(value["provider"], value["session_id"], value["cwd"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a stored session: {error}") from error
        if not all(isinstance(v, str) and v for v in (stored.provider, stored.session_id)):
            raise ValueError("not a stored session: provider and session_id must be words")
        return stored

    def resumable_in(self, provider: str, cwd: str) -> bool:
        """Whether `provider` started in `cwd` will find it. Both paths as the CLI sees them, links resolved alike."""
        return self.provider == provider and PurePath(self.cwd) == PurePath(cwd)


def display_id(session_id: str) -> str:
    """Short enough for a table, long enough to recognise: a path by its file name, anything else by its beginning."""
    name = PurePath(session_id).stem if "/" in session_id else session_id
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
