"""What a skill may hold, held against what zip files, other systems and unkind people bring."""

from __future__ import annotations

import base64
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard_wire.skill_files import (
    MAX_BUNDLE_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_SKILL_MD_BYTES,
    Bundle,
    SkillRefused,
    check,
    check_path,
    check_paths,
    from_wire,
    to_wire,
)
from callboard_wire.skills import ResolvedSkills, SkillBody, SkillFile

LAMBDA_ANSWER_BYTES = 6 * 1024 * 1024


def bundle(**changes: object) -> Bundle:
    given = {"id": "s1", "name": "n", "description": "d", "content": "c", "files": {}}
    return Bundle(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [
        *("../evil", "a/../../evil", "..", "a/..", "./a", "a/./b", "a//b", "a/", ""),
        *("/etc/passwd", "\\\\host\\share", "C:\\x", "c:x", "C:/x", "~/x\\y", "a\\..\\b"),
        *("a\x00b", "a\nb", "a\x1b[31m", "a\u202eb", "a\u200db", ".g\u200cit/config", "a\ud800", "\ue000", "a\u2028b"),
        *("con", "NUL", "aux.txt", "a/COM1", "lpt9.md", "COM¹.txt", "conin$", "Nul .x"),
        *("a ", " a", "a.", "a./b", "a /b", "a<b", "a>b", 'a"b', "a|b", "a?b", "a*b", "a:b", "a:$DATA"),
        *("x" * 101, "é" * 51, "/".join("a" * 90 for _ in range(3)), "/".join("abcdefghijk")),
    ],
)
def test_a_path_that_some_system_reads_otherwise_is_refused(path: str) -> None:
    with pytest.raises(SkillRefused) as refused:
        check_path(path)
    assert refused.value.code == "invalid_path"
    assert refused.value.message.isprintable()


@pytest.mark.parametrize(
    "path", ["a", "scripts/run.py", ".hidden", "a b/c d", "日本/語.md", "a..b", "...a", "con-fig", "~"]
)
def test_an_ordinary_path_is_taken(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    "path", [".git/config", "a/.GIT/hooks/x", "GIT~1/config", ".DS_Store", "__MACOSX/._a", "a/Thumbs.db", ".svn/x"]
)
def test_leftovers_of_version_control_and_desktops_are_refused(path: str) -> None:
    with pytest.raises(SkillRefused) as refused:
        check_path(path)
    assert refused.value.code == "junk_path"


@pytest.mark.parametrize("path", ["SKILL.md", "skill.md", "Skill.MD"])
def test_the_skills_own_text_is_none_of_its_files(path: str) -> None:
    with pytest.raises(SkillRefused, match=r"SKILL\.md is the skill's own text"):
        check_path(path)
    check_path(f"example/{path}")


@pytest.mark.parametrize(
    "paths",
    [
        ("readme", "README"),
        ("a/B/x", "a/b/x"),
        ("Docs/a", "docs/b"),
        ("a", "a/b"),
        ("A", "a/b"),
        ("ß.md", "SS.md"),
        ("é.md", unicodedata.normalize("NFD", "é.md")),
        ("ﬁ", "FI"),
    ],
)
def test_two_paths_that_are_one_somewhere_are_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(SkillRefused) as refused:
        check_paths(paths)
    assert refused.value.code == "duplicate_path"


@pytest.mark.parametrize(
    ("files", "content", "code"),
    [
        ({f"f{n}": b"" for n in range(MAX_FILES + 1)}, "c", "too_many_files"),
        ({"f": bytes(MAX_FILE_BYTES + 1)}, "c", "file_too_large"),
        ({}, "x" * (MAX_SKILL_MD_BYTES + 1), "file_too_large"),
        ({f"f{n}": bytes(MAX_FILE_BYTES) for n in range(4)}, "c", "skill_too_large"),
        ({}, "a\x00b", "invalid_content"),
    ],
)
def test_a_skill_beyond_a_limit_is_refused(files: dict[str, bytes], content: str, code: str) -> None:
    with pytest.raises(SkillRefused) as refused:
        check(bundle(files=files, content=content))
    assert refused.value.code == code


def test_a_skill_at_every_limit_is_taken() -> None:
    room = MAX_BUNDLE_BYTES - MAX_SKILL_MD_BYTES
    sizes = [MAX_FILE_BYTES] * 3 + [room - 3 * MAX_FILE_BYTES] + [0] * (MAX_FILES - 4)
    check(bundle(content="x" * MAX_SKILL_MD_BYTES, files={f"f{n}": bytes(size) for n, size in enumerate(sizes)}))


def test_the_worst_skill_there_can_be_fits_into_a_functions_answer() -> None:
    """Binary files to the last byte, names that JSON writes seven times as long, a text of control characters."""
    room = MAX_BUNDLE_BYTES - MAX_SKILL_MD_BYTES
    sizes = [MAX_FILE_BYTES] * 3 + [room - 3 * MAX_FILE_BYTES] + [0] * (MAX_FILES - 4)
    files = {f"{'é' * 49}/{'é' * 49}/{n:03d}{'é' * 18}": b"\xff" * size for n, size in enumerate(sizes)}
    worst = bundle(name="é" * 64, description="é" * 1024, content="\x01" * MAX_SKILL_MD_BYTES, files=files)
    check(worst)
    body = SkillBody(
        id="i" * 36,
        name=worst.name,
        description=worst.description,
        content=worst.content,
        hash=worst.hash,
        files=[SkillFile(**to_wire(path, data, compact=True)) for path, data in worst.files.items()],
    )
    answer = json.dumps({"body": json.dumps(ResolvedSkills(bundles=[body]).model_dump(mode="json"))})
    assert len(answer) < LAMBDA_ANSWER_BYTES


def test_the_hash_changes_with_every_part_and_not_with_the_order_of_files() -> None:
    files = {"a": b"1", "b": b"2"}
    known = bundle(files=files).hash
    assert bundle(files=dict(reversed(files.items()))).hash == known
    others = [
        bundle(files=files, **{field: "other"}).hash for field in ("id", "name", "description", "content", "source")
    ]
    others += [
        bundle(files=f).hash for f in ({"a": b"12", "b": b""}, {"a": b"1"}, {"a": b"2", "b": b"1"}, {"ab": b"12"})
    ]
    others += [bundle(files=files, name="nd", description="").hash]
    assert len({known, *others}) == len(others) + 1


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_a_file_comes_back_as_it_was_and_compact_it_is_no_longer_than_base64(data: bytes) -> None:
    for compact in (False, True):
        sent = to_wire("f", data, compact=compact)
        assert from_wire("f", sent["content"], sent["encoding"]) == data
    assert len(json.dumps(json.dumps(sent["content"]))) <= len(base64.b64encode(data)) + 8


@pytest.mark.parametrize(
    ("content", "encoding"), [("%%%", "base64"), ("YQ", "base64"), ("a\ud800", "utf-8"), ("é", "base64")]
)
def test_a_file_that_is_not_what_it_says_is_refused(content: str, encoding: str) -> None:
    with pytest.raises(SkillRefused) as refused:
        from_wire("f", content, encoding)
    assert refused.value.code == "invalid_encoding"
