"""A SKILL.md with the name of its folder in its head.

CLIs ask for it: OpenCode drops a skill whose head has no name, Codex one whose head is no YAML or has no description,
and a name that is not the folder's made one skill two that can be called (seen elsewhere).
"""

from __future__ import annotations

from typing import Final

from callboard_wire import front_matter
from callboard_wire.skill_files import Bundle, SkillRefused

_SPECIAL: Final = frozenset({'"', "\\"})


def skill_md(bundle: Bundle, name: str) -> tuple[str, bool]:
    """SKILL.md under `name`, and whether the model may be told of it. Where only the name has to be changed, nothing
    else is: comments, line ends and other keys stay as they were written."""
    told = True
    try:
        head = front_matter.read(bundle.content)
        if head is not None:
            told = not head.flag("disable-model-invocation")
            text = _with(bundle.content, "description", bundle.description, replace=False)
            text = _with(text, "name", name, replace=True)
            changed = front_matter.read(text)
            if changed is not None and changed.get("name") == name:
                return text, told
    except SkillRefused:
        pass  # another server's (ours takes none such), or written so that a line more breaks it
    return _made(bundle, name), told


def _with(text: str, key: str, value: str, *, replace: bool) -> str:
    """`text` with the key in its head: put in as the first line, or, if `replace`, in the place of another value."""
    head = front_matter.read(text)
    if head is None or not value:
        return text
    quoted = _quoted(value)
    end = "\r\n" if text[: head.start].endswith("\r\n") else "\n"
    found = head.values.get(key)
    if found is None:
        return f"{text[: head.start]}{key}: {quoted}{end}{text[head.start :]}"
    if found.value == value or (found.value.strip() and not replace):
        return text
    anchor = f"&{found.anchor} " if found.anchor else ""
    before = " " if text[found.start - 1] == ":" else ""  # there was no value
    after = end if text[found.start : found.end].endswith("\n") else ""  # a block reaches over its line's end
    return f"{text[: found.start]}{before}{anchor}{quoted}{after}{text[found.end :]}"


def _made(bundle: Bundle, name: str) -> str:
    """With a head of our own, instead of one that no YAML reader takes or that could not be changed in place."""
    head = {"name": name, "description": bundle.description}
    lines = "".join(f"{key}: {_quoted(value)}\n" for key, value in head.items())
    return f"---\n{lines}---\n\n{front_matter.body(bundle.content).lstrip()}"


def _quoted(text: str) -> str:
    """Text as a YAML scalar in double quotes. JSON's form would not do: YAML takes no half of a surrogate pair, no
    DEL, and reads three more characters than JSON as the end of a line."""
    readable = text.encode("utf-8", "replace").decode()
    return f'"{"".join(c if c.isprintable() and c not in _SPECIAL else _escaped(c) for c in readable)}"'


def _escaped(character: str) -> str:
    if character in _SPECIAL:
        return f"\\{character}"
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
