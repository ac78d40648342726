"""Skills on a machine: the cache, the folder they are written into, and the head of their SKILL.md."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard_daemon.errors import PrepareError
from callboard_daemon.execenv.brief import render_brief
from callboard_daemon.execenv.skill_text import skill_md
from callboard_daemon.execenv.skills import FALLBACK, NOTE, Placed, place_skills, slug
from callboard_daemon.skill_cache import SkillCache, bundle_of
from callboard_wire import front_matter
from callboard_wire.skill_files import Bundle, SkillRefused
from callboard_wire.skills import SkillBody
from tests.unit.daemon.test_execenv import claimed

NATIVE = ".claude/skills"
TEXT = "---\nname: code-review\ndescription: How we review.\n---\n\nRead it twice.\n"


def bundle(name: str = "code-review", content: str = TEXT, **changes: Any) -> Bundle:
    given = {"id": f"id-{name}", "description": "How we review.", "files": {}}
    return Bundle(name=name, content=content, **{**given, **changes})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "workdir").mkdir(parents=True)
    return tmp_path / "root"


def place(root: Path, *bundles: Bundle, folder: str | None = NATIVE) -> list[Placed]:
    return place_skills(root, root / "workdir", folder, bundles)


# ── in the workdir ───────────────────────────────────────────────────────────


def test_a_skill_lies_in_the_providers_folder_with_its_files(root: Path) -> None:
    files = {"scripts/deep/run.py": b"print(1)\r\n", "logo.png": bytes(range(256))}
    [placed] = place(root, bundle(files=files))
    assert placed == Placed("code-review", "How we review.", f"{NATIVE}/code-review/SKILL.md", native=True, told=True)
    folder = root / "workdir" / NATIVE / "code-review"
    assert (folder / "SKILL.md").read_text() == TEXT
    assert {path: (folder / path).read_bytes() for path in files} == files
    assert stat.S_IMODE((folder / "logo.png").stat().st_mode) & 0o111 == 0


def test_without_a_folder_of_the_providers_the_brief_says_what_lies_where(root: Path) -> None:
    native, [placed] = place(root, bundle()), place(root, bundle(), folder=None)
    assert placed.path == f"{FALLBACK}/code-review/SKILL.md"
    assert (root / "workdir" / placed.path).is_file()
    assert f"- `{placed.path}`: How we review." in render_brief(claimed(), [placed])
    assert f"- `{NATIVE}/code-review/SKILL.md`\n" in render_brief(claimed(), native) + "\n"
    assert render_brief(claimed(), []) == render_brief(claimed())


def test_the_next_run_has_the_skills_of_now_and_the_agents_own_work(root: Path) -> None:
    place(root, bundle("one"), bundle("two", files={"a": b"old", "b": b"gone"}))
    skills = root / "workdir" / NATIVE
    (skills / "own").mkdir()
    (skills / "own" / "SKILL.md").write_text("mine")
    (skills / "two" / "left-by-the-agent").write_text("x")
    placed = place(root, bundle("two", files={"a": b"new"}), bundle("three"))
    assert [skill.name for skill in placed] == ["two", "three"]
    assert sorted(path.name for path in skills.iterdir()) == ["own", "three", "two"]
    assert sorted(path.name for path in (skills / "two").iterdir()) == ["SKILL.md", "a"]
    assert (skills / "two" / "a").read_bytes() == b"new"
    place(root)
    assert sorted(path.name for path in skills.iterdir()) == ["own"]
    assert not (root / NOTE).exists()


def test_names_that_meet_are_told_apart_the_same_way_every_time(root: Path) -> None:
    skills = root / "workdir" / NATIVE
    (skills / "Code-Review").mkdir(parents=True)
    (skills / "Code-Review" / "SKILL.md").write_text("the user's own")
    twins = [bundle("Code Review"), bundle("code review!"), bundle("CODE.REVIEW"), bundle("審査"), bundle("检查")]
    for _ in range(2):
        names = [skill.name for skill in place(root, *twins)]
        assert names == [
            *("code-review-callboard", "code-review-callboard-2", "code-review-callboard-3"),
            *("skill", "skill-callboard"),
        ]
    assert (skills / "Code-Review" / "SKILL.md").read_text() == "the user's own"


@pytest.mark.parametrize("link", [".claude", ".claude/skills"])
def test_a_link_in_the_way_is_never_followed(root: Path, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    (outside / "skills").mkdir(parents=True)
    place_of_link = root / "workdir" / link
    place_of_link.parent.mkdir(exist_ok=True)
    place_of_link.symlink_to(outside)
    [placed] = place(root, bundle(files={"a/b": b"x"}))
    assert placed.path == f"{FALLBACK}/code-review/SKILL.md"
    assert not placed.native
    assert [path for path in outside.rglob("*") if path.is_file()] == []


def test_where_nothing_is_left_to_write_to_the_run_fails_with_the_reason(root: Path) -> None:
    (root / "workdir" / ".claude").symlink_to("/etc")
    (root / "workdir" / ".agent_context").write_text("a file")
    with pytest.raises(PrepareError, match=r"\.claude/skills and \.agent_context/skills are links or files"):
        place(root, bundle())


def test_a_skill_turned_into_a_link_is_not_deleted_through(root: Path, tmp_path: Path) -> None:
    place(root, bundle())
    outside = tmp_path / "outside"
    (outside / "code-review").mkdir(parents=True)
    (outside / "code-review" / "precious").write_text("x")
    skill = root / "workdir" / NATIVE / "code-review"
    (skill / "SKILL.md").unlink()
    skill.rmdir()
    skill.symlink_to(outside / "code-review")
    assert [placed.name for placed in place(root, bundle())] == ["code-review-callboard"]
    assert (outside / "code-review" / "precious").exists()


@pytest.mark.parametrize(
    "note",
    [
        b"{",
        b"[]",
        b'{"folder": 7}',
        b"\xff",
        json.dumps({"folder": "../outside", "names": ["precious"]}).encode(),
        json.dumps({"folder": "/tmp", "names": ["x"]}).encode(),
        json.dumps({"folder": NATIVE, "names": ["../../../../outside/precious", "..", ".", ""]}).encode(),
        json.dumps({"folder": "", "names": ["src"]}).encode(),
    ],
)
def test_a_note_that_an_agent_has_rewritten_deletes_nothing_else(root: Path, tmp_path: Path, note: bytes) -> None:
    precious = [tmp_path / "outside" / "precious", root / "workdir" / "src"]
    for folder in precious:
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    (root / NOTE).write_bytes(note)
    assert [placed.name for placed in place(root, bundle())] == ["code-review"]
    assert all((folder / "file").exists() for folder in precious)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_something_else_in_the_notes_place_is_not_waited_for(root: Path, kind: str) -> None:
    note = root / NOTE
    match kind:
        case "pipe":
            os.mkfifo(note)
        case "link":
            note.symlink_to("/dev/zero")
        case "folder":
            note.mkdir()
    if kind == "folder":
        with pytest.raises(OSError, match="directory"):
            place(root, bundle())
    else:
        assert [placed.name for placed in place(root, bundle())] == ["code-review"]
        assert note.is_file()
        assert not note.is_symlink()


@given(st.text(max_size=80))
def test_a_folder_name_is_one_by_the_skills_format(name: str) -> None:
    made = slug(name)
    assert 1 <= len(made) <= 48
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert not made.startswith("-")
    assert not made.endswith("-")
    assert "--" not in made


# ── the head of SKILL.md ─────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (TEXT, TEXT),
        ("Do it.\n", '---\nname: "code-review"\ndescription: "How we review."\n---\n\nDo it.\n'),
        (
            "---\n# ours\nname: 'Old Name' # why\ndescription: d\nmetadata:\n  name: inner\n---\nx",
            '---\n# ours\nname: "code-review" # why\ndescription: d\nmetadata:\n  name: inner\n---\nx',
        ),
        (
            "---\r\nname: Old\r\ndescription: d\r\n---\r\nx\r\n",
            '---\r\nname: "code-review"\r\ndescription: d\r\n---\r\nx\r\n',
        ),
        ("---\nname: >\n  Old\n  Name\ndescription: d\n---\nx", '---\nname: "code-review"\ndescription: d\n---\nx'),
        (
            "---\nname: &n Old\ndescription: d\nalso: *n\n---\nx",
            '---\nname: &n "code-review"\ndescription: d\nalso: *n\n---\nx',
        ),
        ("---\nlicense: MIT\n---\nx", '---\nname: "code-review"\ndescription: "How we review."\nlicense: MIT\n---\nx'),
        (
            "---\nname: code-review\ndescription:\n---\nx",
            '---\nname: code-review\ndescription: "How we review."\n---\nx',
        ),
        (
            "---\nname: code-review\ndescription: ''\n---\nx",
            '---\nname: code-review\ndescription: "How we review."\n---\nx',
        ),
        # What cannot be changed in place is made anew.
        (
            "---\nother: &n Old\nname: *n\n---\nx",
            '---\nname: "code-review"\ndescription: "How we review."\n---\n\nx',
        ),
        ("---\n{license: MIT}\n---\nx", '---\nname: "code-review"\ndescription: "How we review."\n---\n\nx'),
        ("---\nname: a: b\n---\nx", '---\nname: "code-review"\ndescription: "How we review."\n---\n\nx'),
        ("---\nname: a\nx", '---\nname: "code-review"\ndescription: "How we review."\n---\n\n---\nname: a\nx'),
    ],
)
def test_only_the_name_is_changed_and_what_cannot_be_is_made_anew(content: str, expected: str) -> None:
    assert skill_md(bundle(content=content), "code-review") == (expected, True)


@given(
    st.text(max_size=60),
    st.sampled_from(["", "name: x\n", "license: MIT\n", "name: >\n  a\n", "description:\n", "{a: b}\n", "name: [\n"]),
)
def test_whatever_was_written_the_result_can_be_read_and_says_its_folders_name(description: str, head: str) -> None:
    text, _ = skill_md(bundle(content=f"---\n{head}---\nx", description=description), "the-name")
    found = front_matter.read(text)
    assert found is not None
    assert found.get("name") == "the-name"
    if head == "license: MIT\n" and description:
        assert found.values["description"].value == description.encode("utf-8", "replace").decode()


def test_a_skill_that_only_people_may_call_is_there_and_not_in_the_brief(root: Path) -> None:
    hidden = bundle(content="---\nname: code-review\ndescription: d\ndisable-model-invocation: true\n---\nx")
    [placed] = place(root, hidden, folder=None)
    assert (root / "workdir" / placed.path).is_file()
    assert render_brief(claimed(), [placed]) == render_brief(claimed())


# ── the cache ────────────────────────────────────────────────────────────────


def test_the_cache_gives_back_what_was_kept_and_others_cannot_read_it(tmp_path: Path) -> None:
    cache = SkillCache(tmp_path / "skills")
    known = bundle(files={"a": b"\x00\xff", "b/c.md": "é".encode()})
    assert cache.load(known.hash) is None
    cache.store(known)
    assert cache.load(known.hash) == known
    assert SkillCache(tmp_path / "skills").load(known.hash) == known, "after a restart"
    [file] = (tmp_path / "skills").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("spoil", ["cut", "byte", "empty", "other", "folder", "link", "pipe", "huge"])
def test_a_spoilt_file_is_no_hit_and_no_harm(tmp_path: Path, spoil: str) -> None:
    cache = SkillCache(tmp_path / "skills")
    known, other = bundle(), bundle("other")
    cache.store(known)
    cache.store(other)
    file = tmp_path / "skills" / f"{known.hash}.json"
    match spoil:
        case "cut":
            file.write_bytes(file.read_bytes()[:-9])
        case "byte":
            file.write_text(file.read_text().replace("Read it twice", "Read it never"))
        case "empty":
            file.write_bytes(b"")
        case "other":
            file.write_bytes((file.parent / f"{other.hash}.json").read_bytes())
        case "folder":
            file.unlink()
            file.mkdir()
        case "link":
            file.unlink()
            file.symlink_to("/dev/zero")
        case "pipe":
            file.unlink()
            os.mkfifo(file)
        case "huge":
            with file.open("wb") as hole:
                hole.truncate(1 << 40)
    assert cache.load(known.hash) is None
    cache.store(known)
    assert cache.load(known.hash) == (None if spoil == "folder" else known)
    assert cache.load(other.hash) == other


@pytest.mark.parametrize("digest", ["", "..", "../../etc/passwd", "A" * 64, "a" * 63, "a" * 64 + "\n", "\x00"])
def test_a_hash_that_is_none_is_never_a_path(tmp_path: Path, digest: str) -> None:
    assert SkillCache(tmp_path).load(digest) is None


def test_the_least_recently_used_make_room(tmp_path: Path) -> None:
    cache = SkillCache(tmp_path / "skills", limit_bytes=35_000)
    known = [bundle(f"s{n}", files={"a": b"x" * 10_000}) for n in range(4)]
    for age, each in enumerate(known[:3]):
        cache.store(each)
        os.utime(tmp_path / "skills" / f"{each.hash}.json", (1000 + age, 1000 + age))
    (tmp_path / "skills" / ".half-written").write_bytes(b"x" * 10_000)
    os.utime(tmp_path / "skills" / ".half-written", (1, 1))
    assert cache.load(known[0].hash) == known[0], "used just now"
    cache.store(known[3])
    assert [cache.load(each.hash) is not None for each in known] == [True, False, True, True]
    assert not (tmp_path / "skills" / ".half-written").exists()
    large = bundle("large", files={"a": b"x" * 50_000})
    cache.store(large)
    assert cache.load(large.hash) == large, "what is needed now is kept, whatever its size"


def test_a_cache_that_cannot_be_written_is_none_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "skills").write_text("a file")
    cache = SkillCache(tmp_path / "skills")
    cache.store(bundle())
    assert cache.load(bundle().hash) is None


def test_many_threads_and_processes_keep_and_read_the_same_skill(tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    known = [bundle(f"s{n}", files={"a": bytes([n]) * 20_000}) for n in range(4)]
    script = (
        "import sys; from pathlib import Path; from callboard_daemon.skill_cache import SkillCache\n"
        "from tests.unit.daemon.test_skills import bundle\n"
        "cache = SkillCache(Path(sys.argv[1]), limit_bytes=90_000)\n"
        "for turn in range(60):\n"
        "    each = bundle(f's{turn % 4}', files={'a': bytes([turn % 4]) * 20_000})\n"
        "    cache.store(each)\n"
        "    assert cache.load(each.hash) in (each, None)\n"
    )
    others = [subprocess.Popen([sys.executable, "-c", script, str(folder)]) for _ in range(2)]
    wrong: list[object] = []

    def work() -> None:
        cache = SkillCache(folder, limit_bytes=90_000)
        for turn in range(60):
            each = known[turn % 4]
            cache.store(each)
            if cache.load(each.hash) not in (each, None):
                wrong.append(each.name)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [other.wait(50) for other in others] == [0, 0]
    assert wrong == []
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


# ── what a server may send ───────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["../../.bashrc", "/etc/cron.d/x", "a/../../x", ".git/hooks/post-checkout", "a\\b", "a\x00", "A\u202e"]
)
def test_a_server_cannot_write_outside_a_skill(path: str) -> None:
    body = SkillBody.model_validate({"id": "s", "name": "n", "files": [{"path": path, "content": "x"}]})
    with pytest.raises(SkillRefused):
        bundle_of(body)


def test_what_is_not_what_its_hash_says_is_refused_and_skill_md_among_the_files_is_left_out() -> None:
    files = [{"path": "SKILL.md", "content": "again"}, {"path": "a", "content": "x"}]
    body = SkillBody.model_validate({"id": "s", "name": "n", "content": "c", "files": files})
    whole = bundle_of(body)
    assert whole.files == {"a": b"x"}
    assert bundle_of(body.model_copy(update={"hash": whole.hash})) == whole
    with pytest.raises(SkillRefused, match="not what its hash says"):
        bundle_of(body.model_copy(update={"hash": "0" * 64}))
