"""The head of a SKILL.md: YAML between two lines of ``---``, with `name` and `description` (the Agent Skills format).

Read as a stream of YAML's events, never built into objects: no tag can run anything, an alias is not followed, and
nothing grows beyond what was written. What is wanted are the scalars of the top level and where they stand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import yaml

from callboard_wire.skill_files import MAIN_FILE, SkillRefused

MAX_BYTES: Final = 16 * 1024
MAX_DEPTH: Final = 20
_FENCE: Final = re.compile(r"---[ \t]*\r?\n")
_END: Final = re.compile(r"^(---|\.\.\.)[ \t]*\r?(\n|\Z)", re.MULTILINE)
_NO: Final = frozenset({"", "false", "no", "off", "null", "~"})


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar of the top level; `text[start:end]` is how it is written there, with its `anchor` if it has one."""

    value: str
    start: int
    end: int
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """`start` and `end` are where the YAML lies in the text, between the two lines of ``---``."""

    start: int
    end: int
    values: dict[str, Value] = field(default_factory=dict)

    def get(self, key: str) -> str:
        """The key's scalar, stripped; "" where there is none."""
        found = self.values.get(key)
        return found.value.strip() if found else ""

    def flag(self, key: str) -> bool:
        return self.get(key).lower() not in _NO


def read(text: str) -> FrontMatter | None:
    """The front matter of a SKILL.md, None when it has none. Raises `SkillRefused` ``invalid_front_matter``."""
    begin = 1 if text.startswith("\ufeff") else 0
    fence = _FENCE.match(text, begin)
    if fence is None:
        return None
    end = _END.search(text, fence.end())
    if end is None:
        raise _refused("the line '---' that ends it is missing")
    head = text[fence.end() : end.start()]
    if len(head.encode("utf-8", "replace")) > MAX_BYTES:
        raise _refused(f"it is longer than {MAX_BYTES} bytes")
    return FrontMatter(fence.end(), end.start(), _top_level(head, fence.end()))


def body(text: str) -> str:
    """What follows the front matter, readable or not; the whole text when it has none."""
    fence = _FENCE.match(text, 1 if text.startswith("\ufeff") else 0)
    end = _END.search(text, fence.end()) if fence else None
    return text[end.end() :] if end else text


def _top_level(head: str, offset: int) -> dict[str, Value]:
    try:
        return _walk(head, offset)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark is not None else ""
        raise _refused(f"it is not YAML{where}: {getattr(error, 'problem', None) or 'unreadable'}") from error


def _walk(head: str, offset: int) -> dict[str, Value]:
    values: dict[str, Value] = {}
    depth, key, documents = 0, None, 0
    for event in yaml.parse(head, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        elif isinstance(event, yaml.CollectionStartEvent):
            if depth == 0 and not isinstance(event, yaml.MappingStartEvent):
                raise _refused("it is not a list of 'key: value'")
            depth += 1
            if depth > MAX_DEPTH:
                raise _refused(f"it is nested more than {MAX_DEPTH} deep")
            if depth == 2:  # a value, or a key nobody looks for
                key = "" if key is None else None
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.NodeEvent):
            key = _take(event, depth, key, values, offset)
    if documents > 1:
        raise _refused("it holds more than one document")
    return values


def _take(event: yaml.NodeEvent, depth: int, key: str | None, values: dict[str, Value], offset: int) -> str | None:
    """What is known of the key after a scalar or an alias: keys and values of the top level alternate."""
    scalar = event if isinstance(event, yaml.ScalarEvent) else None
    if depth == 0:
        raise _refused("it is not a list of 'key: value'")
    if depth > 1:
        return key
    if key is None:
        name = str(scalar.value) if scalar else ""
        if name and name in values:
            raise _refused(f"the key {name[:60]!r} stands in it twice")
        return name
    if scalar is not None and key and scalar.start_mark and scalar.end_mark:
        start, end = offset + scalar.start_mark.index, offset + scalar.end_mark.index
        values[key] = Value(scalar.value, start, end, scalar.anchor or "")
    return None


def _refused(why: str) -> SkillRefused:
    return SkillRefused("invalid_front_matter", f"The front matter of {MAIN_FILE} cannot be read: {why}.")
