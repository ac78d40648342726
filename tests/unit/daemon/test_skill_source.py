"""A skill read from a folder or a zip file: what it is, and everything an archive can try."""

from __future__ import annotations

import os
import stat
import struct
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard_daemon.cli.skill_source import MAX_ENTRIES, read_skill
from callboard_wire.skill_files import MAX_FILE_BYTES, MAX_FILES, SkillRefused

TEXT = "---\nname: review\ndescription: How to review.\n---\nDo it well.\n"


def folder(path: Path, **files: bytes | str) -> Path:
    for name, data in {"SKILL.md": TEXT, **files}.items():
        target = path / name.replace("__", "/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def archive(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes | str], text: str = TEXT) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in [("SKILL.md", text), *entries] if text else entries:
            file.writestr(name, data)
    return path


def unix(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.create_system, entry.external_attr = 3, mode << 16
    return entry


def refused(path: Path) -> str:
    with pytest.raises(SkillRefused) as caught:
        read_skill(path)
    assert caught.value.message.isprintable()
    return caught.value.code


# ── what it is ───────────────────────────────────────────────────────────────


def test_a_folder_and_its_archive_are_the_same_skill(tmp_path: Path) -> None:
    source = folder(tmp_path / "review", scripts__run="#!/bin/sh\n", a__b__c=bytes(range(256)))
    packed = archive(tmp_path / "plain.zip", ("scripts/run", "#!/bin/sh\n"), ("a/b/c", bytes(range(256))))
    wrapped = archive(
        tmp_path / "wrapped.zip",
        ("review/", ""),
        ("review/SKILL.md", TEXT),
        ("review/scripts/run", "#!/bin/sh\n"),
        ("review/a/b/c", bytes(range(256))),
        text="",
    )
    skills = [read_skill(path) for path in (source, packed, wrapped)]
    assert skills[0].content == TEXT
    assert skills[0].files == {"scripts/run": b"#!/bin/sh\n", "a/b/c": bytes(range(256))}
    assert all(skill == skills[0] for skill in skills)


def test_leftovers_are_left_out_and_named(tmp_path: Path) -> None:
    source = folder(tmp_path / "s", a="1", **{".git__config": "[core]", "x__.DS_Store": "", "pycache": "kept"})
    (source / "lib" / "__pycache__").mkdir(parents=True)
    (source / "lib" / "__pycache__" / "a.pyc").write_bytes(b"\x00")
    skill = read_skill(source)
    assert sorted(skill.files) == ["a", "pycache"]
    assert sorted(skill.left_out) == [".git", "lib/__pycache__", "x/.DS_Store"]
    packed = read_skill(
        archive(tmp_path / "z", ("__MACOSX/._a", "x"), (".git/hooks/x", "x"), ("Thumbs.db", "x"), ("a", "1"))
    )
    assert packed.files == {"a": b"1"}
    assert packed.left_out == ("__MACOSX/._a", ".git/hooks/x", "Thumbs.db")


def test_a_byte_order_mark_and_small_letters_are_forgiven(tmp_path: Path) -> None:
    source = folder(tmp_path / "s")
    (source / "SKILL.md").rename(source / "skill.md")
    (source / "skill.md").write_text("\ufeff" + TEXT)
    assert read_skill(source).content == TEXT


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: path.mkdir(), "no_skill"),
        (lambda path: folder(path / "a") and folder(path / "b"), "no_skill"),
        (lambda path: folder(path, **{"skill.md": "again"}), "no_skill"),
        (lambda path: folder(path, **{"SKILL.md": b"\xff\xfe"}), "invalid_content"),
        (lambda path: path.write_bytes(b"not a zip"), "invalid_archive"),
        (lambda path: path.write_bytes(b""), "invalid_archive"),
        (lambda path: path.write_bytes(b"PK\x05\x06" + b"\xff" * 18), "invalid_archive"),
        (lambda path: path.write_bytes(bytes(9 * 1024 * 1024)), "skill_too_large"),
    ],
)
def test_what_is_no_skill_is_refused(tmp_path: Path, make: Callable[[Path], object], code: str) -> None:
    make(tmp_path / "s")
    assert refused(tmp_path / "s") == code


# ── folders ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", ["/etc/passwd", "/etc", "SKILL.md", "nowhere", "."])
def test_a_link_in_a_folder_is_refused_wherever_it_leads(tmp_path: Path, target: str) -> None:
    source = folder(tmp_path / "s", sub__a="1")
    (source / "sub" / "link").symlink_to(target)
    assert refused(source) == "not_a_file"


def test_a_link_to_the_folder_itself_is_what_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder(tmp_path / "s", a="1"))
    assert read_skill(tmp_path / "link").files == {"a": b"1"}


def test_the_skills_own_text_may_be_no_link(tmp_path: Path) -> None:
    source = folder(tmp_path / "s")
    (source / "SKILL.md").unlink()
    (source / "SKILL.md").symlink_to("/etc/passwd")
    assert refused(source) == "not_a_file"


def test_a_pipe_in_a_folder_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    source = folder(tmp_path / "s")
    os.mkfifo(source / "pipe")
    assert refused(source) == "not_a_file"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (b"a\xff.txt", "invalid_path"),
        (b"con.txt", "invalid_path"),
        (b"a\\b", "invalid_path"),
        (b"a:b", "invalid_path"),
        (b"a\nb", "invalid_path"),
        (b"trailing.", "invalid_path"),
        ("a\u202eb".encode(), "invalid_path"),
    ],
)
def test_a_name_in_a_folder_that_others_could_not_hold_is_refused(tmp_path: Path, name: bytes, code: str) -> None:
    source = folder(tmp_path / "s")
    with open(os.fsencode(source) + b"/" + name, "wb"):  # noqa: PTH123  (a Path cannot hold these bytes)
        pass
    assert refused(source) == code


def test_a_folder_beyond_the_limits_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    many = folder(tmp_path / "many", **{f"f{n}": "" for n in range(MAX_FILES + 1)})
    assert refused(many) == "too_many_files"
    crowd = folder(tmp_path / "crowd")
    for n in range(MAX_ENTRIES + 1):
        (crowd / f"d{n}").mkdir()
    assert refused(crowd) == "too_many_files"
    huge = folder(tmp_path / "huge")
    with (huge / "hole").open("wb") as hole:
        hole.truncate(1 << 40)
    assert refused(huge) == "file_too_large"
    large = folder(tmp_path / "large", **{f"f{n}": bytes(MAX_FILE_BYTES) for n in range(4)})
    assert refused(large) == "skill_too_large"


# ── archives ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name",
    [
        *("../evil", "a/../../evil", "/etc/cron.d/x", "C:/x", "\\\\host\\x", "a\\..\\b", "./a", "a//b"),
        *("con", "NUL.txt", "a ", "a.", "a<b", "a\x1bb", "a\u202eb"),
    ],
)
def test_a_name_in_an_archive_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    assert refused(archive(tmp_path / "z", (name, "x"))) == "invalid_path"


def test_a_name_is_read_as_it_is_written_not_up_to_its_nul(tmp_path: Path) -> None:
    packed = archive(tmp_path / "z", ("fine.txtX.sh", "x"))
    packed.write_bytes(packed.read_bytes().replace(b"fine.txtX.sh", b"fine.txt\x00.sh"))
    assert refused(packed) == "invalid_path"


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    packed = archive(tmp_path / "z", ("fileX", "x"))
    packed.write_bytes(packed.read_bytes().replace(b"fileX", b"file\x81"))
    assert refused(packed) == "invalid_path"
    flagged = archive(tmp_path / "f", ("fileé", "x"))
    flagged.write_bytes(flagged.read_bytes().replace("fileé".encode(), b"file\xff\xfe"))
    assert refused(flagged) == "invalid_archive"


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_a_link_or_device_in_an_archive_is_refused(tmp_path: Path, kind: int) -> None:
    assert refused(archive(tmp_path / "z", (unix("x", kind | 0o777), "/etc/passwd"))) == "not_a_file"
    assert refused(archive(tmp_path / "m", (unix("SKILL.md", kind | 0o777), "/etc/passwd"), text="")) == "not_a_file"


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("a", "a"), "duplicate_path"),
        (("SKILL.md",), "duplicate_path"),
        (("skill.md",), "no_skill"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_in_an_archive_is_refused(tmp_path: Path, names: tuple[str, ...], code: str) -> None:
    assert refused(archive(tmp_path / "z", *[(name, "x") for name in names])) == code


def test_a_bomb_is_refused_by_its_ratio_by_its_size_and_by_its_sum(tmp_path: Path) -> None:
    assert refused(archive(tmp_path / "ratio", ("a", bytes(MAX_FILE_BYTES)))) == "zip_bomb"
    rows = b"".join(os.urandom(4) + bytes(40) for _ in range(40_000))
    assert refused(archive(tmp_path / "size", ("a", rows))) == "file_too_large"
    parts = [(f"f{n}", b"".join(os.urandom(4) + bytes(40) for _ in range(22_000))) for n in range(5)]
    assert refused(archive(tmp_path / "sum", *parts)) == "skill_too_large"
    assert refused(archive(tmp_path / "count", *[(f"f{n}", "") for n in range(MAX_FILES + 1)])) == "too_many_files"
    crowd = [(f"d{n}/", "") for n in range(MAX_ENTRIES + 1)]
    assert refused(archive(tmp_path / "crowd", *crowd)) == "too_many_files"


def test_a_bomb_that_lies_about_its_size_is_counted(tmp_path: Path) -> None:
    """Both heads say 1000 bytes; the stream holds a megabyte of zeros."""
    packed = archive(tmp_path / "z", ("a", bytes(MAX_FILE_BYTES)))
    raw = packed.read_bytes()
    lied = raw.replace(struct.pack("<I", MAX_FILE_BYTES), struct.pack("<I", 1000))
    assert lied != raw
    packed.write_bytes(lied)
    assert refused(packed) == "invalid_archive"


def test_an_archive_nobody_can_read_is_refused(tmp_path: Path) -> None:
    packed = archive(tmp_path / "z", ("a", os.urandom(2000)))
    whole = packed.read_bytes()
    packed.write_bytes(whole[:-30])
    assert refused(packed) == "invalid_archive"
    broken = bytearray(whole)
    broken[400] ^= 0xFF
    packed.write_bytes(bytes(broken))
    assert refused(packed) == "invalid_archive"
    with zipfile.ZipFile(tmp_path / "bz", "w", zipfile.ZIP_BZIP2) as file:
        file.writestr("SKILL.md", TEXT)
    assert refused(tmp_path / "bz") == "invalid_archive"
    locked = bytearray(archive(tmp_path / "l").read_bytes())
    for head, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(head) + at] |= 1
    (tmp_path / "l").write_bytes(bytes(locked))
    assert refused(tmp_path / "l") == "invalid_archive"


def test_names_as_a_mac_writes_them_are_taken(tmp_path: Path) -> None:
    name = unicodedata.normalize("NFD", "é.md")
    assert read_skill(archive(tmp_path / "z", (name, "x"))).files == {name: b"x"}
