"""From a request to what a skill will hold. Everything the command line checks is checked here again."""

from __future__ import annotations

from collections.abc import Iterable

from callboard_control import names
from callboard_control.errors import ApiError, InvalidRequest, TooLarge
from callboard_wire import front_matter
from callboard_wire.skill_files import (
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    Bundle,
    SkillRefused,
    check,
    from_wire,
)
from callboard_wire.skills import CreateSkillRequest, SkillFile, UpdateSkillRequest


def created(skill_id: str, request: CreateSkillRequest) -> Bundle:
    """The first state of a skill. Raises `InvalidRequest`, `TooLarge`."""
    try:
        head = front_matter.read(request.content)
        name = request.name or (head.get("name") if head else "")
        description = request.description or (head.get("description") if head else "")
        return _checked(Bundle(skill_id, name, description, request.content, files_of(request.files)))
    except SkillRefused as e:
        raise _answer(e) from e


def changed(before: Bundle, request: UpdateSkillRequest) -> Bundle:
    """The next state: what was sent over what was there. Raises as `created` does."""
    try:
        content = before.content if request.content is None else request.content
        front_matter.read(content)
        return _checked(
            Bundle(
                before.id,
                request.name or before.name,
                request.description or before.description,
                content,
                before.files if request.files is None else files_of(request.files),
            )
        )
    except SkillRefused as e:
        raise _answer(e) from e


def files_of(files: Iterable[SkillFile]) -> dict[str, bytes]:
    """Files by path. Raises `SkillRefused`, also for the same path twice."""
    found: dict[str, bytes] = {}
    for file in files:
        if file.path in found:
            raise SkillRefused("duplicate_path", f"{file.path!r} is there twice.")
        found[file.path] = from_wire(file.path, file.content, file.encoding)
    return found


def _checked(bundle: Bundle) -> Bundle:
    for what, text, limit in (
        ("name", bundle.name, MAX_NAME_CHARS),
        ("description", bundle.description, MAX_DESCRIPTION_CHARS),
    ):
        if not text:
            raise SkillRefused("invalid_skill", f"The skill has no {what}: send one, or write it in its front matter.")
        if len(text) > limit:
            raise SkillRefused("invalid_skill", f"The {what} has {len(text)} characters; {limit} fit.")
    names.refuse_odd(bundle.name)
    lines = bundle.description.splitlines()
    if any(names.plain(line) != line.strip() for line in lines):
        raise SkillRefused("invalid_skill", "The description has control or direction characters.")
    check(bundle)
    return bundle


def _answer(refused: SkillRefused) -> ApiError:
    kind = TooLarge if refused.too_large else InvalidRequest
    return kind(refused.message, code=refused.code)
