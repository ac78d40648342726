"""Skills: the workspace's library, what an agent has of it, and what a claim and a daemon get."""

from __future__ import annotations

import base64
import random
import threading
from typing import Any

import pytest

from callboard_control.store import table
from callboard_control.store.skill_items import BundlePart
from callboard_wire.skill_files import MAX_BUNDLE_BYTES, MAX_FILE_BYTES, MAX_FILES, MAX_SKILL_MD_BYTES
from tests.fakes.sim_world import Answer, Held, Machine, World
from tests.unit.control.test_people import newcomer

HEAD = "---\nname: {0}\ndescription: How to {0}.\n---\n\nDo it well.\n"
TEXT = HEAD.format("x")
BY_NAME = {"x-client-capabilities": "coalesced-comments-v1, skill-bundles-v1"}


def make(world: World, name: str = "review", **more: Any) -> Any:
    return world.ok("POST", "/api/skills", {"content": HEAD.format(name), **more})


def whole(world: World, skill: Any) -> Any:
    return world.ok("GET", f"/api/skills/{skill['id']}")


def give(world: World, *skills: Any, agent: str = "ada") -> Any:
    return world.ok("PUT", f"/api/agents/{agent}/skills", {"skill_ids": [skill["id"] for skill in skills]})


def claimed(world: World, machine: Machine, **headers: str) -> Held:
    world.enqueue()
    body = {"daemon_id": machine.daemon_id, "runtime_ids": [machine.runtime_id]}
    [task] = world.ok("POST", "/api/daemon/tasks/claim", body, machine.token, headers=headers)["tasks"]
    return Held(machine, task)


def resolve(held: Held, *refs: Any, **more: Any) -> Answer:
    path = f"/api/daemon/runtimes/{held.machine.runtime_id}/tasks/{held.id}/skill-bundles/resolve"
    return held.machine.call("POST", path, {**held.proof, "refs": list(refs), **more})


def parts_of(skill_id: str) -> list[str]:
    return [part.sk for part in table.rows(BundlePart, f"SK#{skill_id}", limit=100, consistent=True).items]


# ── the library ──────────────────────────────────────────────────────────────


def test_name_and_description_come_from_the_front_matter_unless_they_are_sent(world: World) -> None:
    from_head = make(world, "review")
    assert (from_head["name"], from_head["description"]) == ("review", "How to review.")
    body = {"content": TEXT, "name": "Release notes", "description": "When a release is near."}
    sent = world.ok("POST", "/api/skills", body)
    assert (sent["name"], sent["description"]) == ("Release notes", "When a release is near.")
    assert [s["name"] for s in world.ok("GET", "/api/skills")["items"]] == ["review", "Release notes"]
    assert world.ok("GET", "/api/skills/RELEASE NOTES".replace(" ", "%20"))["id"] == sent["id"]


def test_files_come_back_to_the_byte_as_text_or_base64(world: World) -> None:
    binary = base64.b64encode(bytes(range(256))).decode()
    files = [
        {"path": "assets/logo.png", "content": binary, "encoding": "base64"},
        {"path": "scripts/run.py", "content": "print('hé')\r\n"},
    ]
    shown = whole(world, make(world, files=files))
    assert shown["content"] == HEAD.format("review")
    assert shown["files"] == [{"encoding": "utf-8", **file} for file in files]
    assert (shown["file_count"], shown["size_bytes"]) == (2, len(HEAD.format("review")) + 256 + 14)
    large = [{"path": "a.md", "content": "語" * 300_000}]
    [file] = whole(world, make(world, "large", files=large))["files"]
    assert (base64.b64decode(file["content"]).decode(), file["encoding"]) == (large[0]["content"], "base64")


def test_the_same_content_has_the_same_hash_and_a_changed_byte_another(world: World) -> None:
    skill = make(world, files=[{"path": "a", "content": "1"}])
    path = f"/api/skills/{skill['id']}"
    changed = world.ok("PUT", path, {"files": [{"path": "a", "content": "2"}]})
    assert changed["hash"] != skill["hash"]
    back = world.ok("PUT", path, {"files": [{"path": "a", "content": "1"}]})
    assert back["hash"] == skill["hash"]
    assert whole(world, skill)["files"][0]["content"] == "1"


def test_what_is_absent_stays(world: World) -> None:
    skill = make(world, files=[{"path": "a", "content": "1"}])
    path = f"/api/skills/{skill['id']}"
    assert world.ok("PUT", path, {"description": "Other."})["name"] == "review"
    assert world.ok("PUT", path, {"name": "Reviewing"})["description"] == "Other."
    shown = whole(world, skill)
    assert (shown["content"], shown["file_count"]) == (HEAD.format("review"), 1)
    assert world.ok("PUT", path, {"files": []})["file_count"] == 0
    assert world.call("GET", "/api/skills/review").status == 404, "the old name is free"
    make(world, "review")


def test_a_name_is_one_skills_whatever_its_case(world: World) -> None:
    first = make(world, "review")
    assert world.call("POST", "/api/skills", {"content": HEAD.format("REVIEW")}).error == "name_taken"
    second = make(world, "other")
    assert world.call("PUT", f"/api/skills/{second['id']}", {"name": "Review"}).error == "name_taken"
    assert world.ok("PUT", f"/api/skills/{first['id']}", {"name": "Review"})["name"] == "Review"
    assert parts_of(second["id"]) != []
    assert whole(world, second)["name"] == "other"


def test_a_change_to_what_somebody_else_has_changed_is_refused(world: World) -> None:
    skill = make(world)
    path = f"/api/skills/{skill['id']}"
    world.ok("PUT", path, {"description": "Mine.", "hash": skill["hash"]})
    late = world.call("PUT", path, {"description": "Yours.", "hash": skill["hash"]})
    assert (late.status, late.error) == (409, "skill_changed")
    assert whole(world, skill)["description"] == "Mine."


def test_of_many_changes_at_once_one_is_in_force_and_whole(world: World) -> None:
    """Each writes its own files; what is read afterwards is one's, not a mixture, and nothing else stays lying."""
    skill = make(world)
    path, answers = f"/api/skills/{skill['id']}", []

    def change(n: int) -> None:
        files = [{"path": f"f{n}", "content": str(n) * 1000}]
        answers.append(world.call("PUT", path, {"files": files, "description": str(n)}))

    threads = [threading.Thread(target=change, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} <= {200, 409}
    assert any(answer.status == 200 for answer in answers)
    shown = whole(world, skill)
    n = shown["description"]
    assert shown["files"] == [{"path": f"f{n}", "content": n * 1000, "encoding": "utf-8"}]
    world.ok("PUT", path, {"files": []})
    assert len(parts_of(skill["id"])) == 1


def test_a_large_skill_lies_in_several_items_and_leaves_none_behind(world: World) -> None:
    rng = random.Random(1)
    files = [
        {"path": f"f{n}", "content": base64.b64encode(rng.randbytes(1_000_000)).decode(), "encoding": "base64"}
        for n in range(3)
    ]
    skill = make(world, files=files)
    assert len(parts_of(skill["id"])) > 8
    assert whole(world, skill)["files"] == files
    world.ok("PUT", f"/api/skills/{skill['id']}", {"files": []})
    assert len(parts_of(skill["id"])) == 1
    world.ok("DELETE", f"/api/skills/{skill['id']}")
    assert parts_of(skill["id"]) == []
    assert world.call("GET", f"/api/skills/{skill['id']}").status == 404


def test_only_its_maker_and_admins_change_a_skill_and_all_read_it(world: World) -> None:
    (maker, _), (other, _) = newcomer(world), newcomer(world)
    skill = world.ok("POST", "/api/skills", {"content": HEAD.format("mine")}, maker)
    path = f"/api/skills/{skill['id']}"
    assert world.call("PUT", path, {"description": "x"}, other).status == 403
    assert world.call("DELETE", path, token=other).status == 403
    assert world.ok("GET", path, token=other)["content"]
    assert world.call("PUT", path, {"description": "x"}, maker).status == 200
    assert world.call("DELETE", path).status == 200, "the workspace's owner"


def test_every_change_is_in_the_audit(world: World) -> None:
    skill = make(world)
    world.ok("PUT", f"/api/skills/{skill['id']}", {"description": "x"})
    world.ok("DELETE", f"/api/skills/{skill['id']}")
    rows = [e for e in world.ok("GET", "/api/audit")["items"] if e["thing"] == f"skill:{skill['id']}"]
    assert [row["action"] for row in rows] == ["skill_deleted", "skill_updated", "skill_created"]


# ── bad input: what the command line refuses is refused here by itself ───────


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ([("../x", "")], "invalid_path"),
        ([("/etc/x", "")], "invalid_path"),
        ([("a\\b", "")], "invalid_path"),
        ([("C:x", "")], "invalid_path"),
        ([("a/con.txt", "")], "invalid_path"),
        ([("a\x00", "")], "invalid_path"),
        ([("a\u202e", "")], "invalid_path"),
        ([(".git/config", "")], "junk_path"),
        ([("skill.md", "")], "reserved_path"),
        ([("a", ""), ("a", "")], "duplicate_path"),
        ([("a", ""), ("A", "")], "duplicate_path"),
        ([("a", ""), ("a/b", "")], "duplicate_path"),
    ],
)
def test_a_file_with_a_bad_name_is_refused(world: World, files: list[tuple[str, str]], code: str) -> None:
    sent = [{"path": path, "content": content} for path, content in files]
    answer = world.call("POST", "/api/skills", {"content": HEAD.format("x"), "files": sent})
    assert (answer.status, answer.error) == (400, code)
    skill = make(world)
    answer = world.call("PUT", f"/api/skills/{skill['id']}", {"files": sent})
    assert (answer.status, answer.error) == (400, code)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"content": "no head"}, 400, "invalid_skill"),
        ({"content": "---\nname: x\n---\n"}, 400, "invalid_skill"),
        ({"content": "---\nname: x: y\n---\n"}, 400, "invalid_front_matter"),
        ({"content": "x", "name": "a\u202eb", "description": "d"}, 400, "invalid_name"),
        ({"content": "x", "name": "a", "description": "d\x1b[31m"}, 400, "invalid_skill"),
        ({"content": "x\x00", "name": "a", "description": "d"}, 400, "invalid_content"),
        ({"content": f"---\nname: {'n' * 65}\ndescription: d\n---\n"}, 400, "invalid_skill"),
        ({"content": f"---\nname: n\ndescription: {'d' * 1025}\n---\n"}, 400, "invalid_skill"),
        ({"content": "x", "name": "n" * 65, "description": "d"}, 422, "validation_failed"),
        ({"content": "x" * (MAX_SKILL_MD_BYTES + 1), "name": "n", "description": "d"}, 422, "validation_failed"),
        ({"content": "é" * MAX_SKILL_MD_BYTES, "name": "n", "description": "d"}, 413, "file_too_large"),
        ({"content": TEXT, "files": [{"path": "a", "content": "?", "encoding": "base64"}]}, 400, "invalid_encoding"),
        ({"content": TEXT, "files": [{"path": "a", "content": "", "encoding": "latin-1"}]}, 422, "validation_failed"),
        (
            {"content": TEXT, "files": [{"path": f"f{n}", "content": ""} for n in range(MAX_FILES + 1)]},
            422,
            "validation_failed",
        ),
        ({"content": TEXT, "files": [{"path": "a", "content": "x" * (MAX_FILE_BYTES + 1)}]}, 413, "file_too_large"),
        (
            {"content": TEXT, "files": [{"path": f"{n}", "content": "x" * MAX_FILE_BYTES} for n in range(4)]},
            413,
            "skill_too_large",
        ),
    ],
)
def test_a_skill_that_breaks_a_rule_is_refused_and_leaves_nothing(
    world: World, body: dict[str, Any], status: int, code: str
) -> None:
    answer = world.call("POST", "/api/skills", body)
    assert (answer.status, answer.error) == (status, code)
    assert world.ok("GET", "/api/skills")["items"] == []


# ── what an agent has ────────────────────────────────────────────────────────


def test_an_agent_has_its_skills_in_their_order(world: World, machine: Machine) -> None:
    one, two, three = (make(world, name) for name in ("one", "two", "three"))
    given = give(world, three, one, two, one)
    assert [skill["name"] for skill in given["skills"]] == ["three", "one", "two"]
    assert world.ok("GET", "/api/agents/ada/skills") == given
    assert give(world) == {"skills": []}


def test_an_unknown_skill_and_another_workspaces_are_refused_alike(world: World, machine: Machine) -> None:
    mine = make(world)
    there = {"x-workspace-id": world.ok("POST", "/api/workspaces", {"name": "there"})["id"]}
    theirs = world.ok("POST", "/api/skills", {"content": HEAD.format("theirs")}, headers=there)
    for skill_id in (theirs["id"], "nobodys"):
        answer = world.call("PUT", "/api/agents/ada/skills", {"skill_ids": [mine["id"], skill_id]})
        assert (answer.status, answer.error) == (400, "skill_not_found")
        assert answer["details"] == {"skill_ids": [skill_id]}
    assert world.ok("GET", "/api/agents/ada/skills") == {"skills": []}
    assert world.call("GET", f"/api/skills/{theirs['id']}").status == 404
    assert world.call("PUT", "/api/agents/ada/skills", {"skill_ids": ["x"] * 51}).status == 422


def test_skills_are_added_and_taken_away_one_by_one(world: World, machine: Machine) -> None:
    one, two = make(world, "one"), make(world, "two")
    give(world, one)
    path = "/api/agents/ada/skills"
    assert [s["name"] for s in world.ok("POST", f"{path}/add", {"skill_ids": [two["id"], one["id"]]})["skills"]] == [
        "one",
        "two",
    ]
    assert world.call("POST", f"{path}/add", {"skill_ids": ["nobodys"]}).error == "skill_not_found"
    left = world.ok("DELETE", f"{path}/{one['id']}")
    assert [s["name"] for s in left["skills"]] == ["two"]
    assert world.ok("DELETE", f"{path}/{one['id']}") == left, "again changes nothing"
    assert world.ok("GET", path) == left


def test_what_many_people_add_at_once_is_all_there(world: World, machine: Machine) -> None:
    skills = [make(world, f"s{n}") for n in range(4)]
    path = "/api/agents/ada/skills/add"
    threads = [threading.Thread(target=world.ok, args=("POST", path, {"skill_ids": [s["id"]]})) for s in skills]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {s["name"] for s in world.ok("GET", "/api/agents/ada/skills")["skills"]} == {"s0", "s1", "s2", "s3"}


def test_an_agent_has_no_more_skills_than_a_claim_can_name(world: World, machine: Machine) -> None:
    skills = [make(world, f"s{n}") for n in range(51)]
    give(world, *skills[:50])
    answer = world.call("POST", "/api/agents/ada/skills/add", {"skill_ids": [skills[50]["id"]]})
    assert (answer.status, answer.error) == (400, "too_many_skills")


def test_a_deleted_skill_is_no_agents_any_more(world: World, machine: Machine) -> None:
    kept, gone = make(world, "kept"), make(world, "gone")
    give(world, gone, kept)
    world.ok("DELETE", f"/api/skills/{gone['id']}")
    assert [s["name"] for s in world.ok("GET", "/api/agents/ada/skills")["skills"]] == ["kept"]
    assert [r["name"] for r in claimed(world, machine, **BY_NAME).payload["agent"]["skill_refs"]] == ["kept"]


# ── the claim, and the daemon ────────────────────────────────────────────────


def test_a_daemon_that_can_ask_gets_names_and_asks_for_what_they_hold(world: World, machine: Machine) -> None:
    skill = make(world, files=[{"path": "a/b.txt", "content": "hi"}])
    give(world, skill)
    held = claimed(world, machine, **BY_NAME)
    assert held.payload["agent"]["skills"] == []
    [ref] = held.payload["agent"]["skill_refs"]
    named = {name: skill[name] for name in ("id", "name", "hash", "size_bytes", "file_count")}
    assert ref == {"source": "workspace", **named}
    answer = resolve(held, ref)
    assert answer.status == 200
    [bundle] = answer["bundles"]
    assert (bundle["hash"], bundle["content"]) == (skill["hash"], HEAD.format("review"))
    assert bundle["files"] == [{"path": "a/b.txt", "content": "hi", "encoding": "utf-8"}]


def test_a_daemon_that_cannot_ask_gets_them_whole(world: World, machine: Machine) -> None:
    logo = {"path": "b", "content": "/w==", "encoding": "base64"}  # it would be written down as these four letters
    give(world, make(world, files=[{"path": "a", "content": "hi"}, logo]))
    agent = claimed(world, machine).payload["agent"]
    assert agent["skill_refs"] == []
    [skill] = agent["skills"]
    assert (skill["name"], skill["content"]) == ("review", HEAD.format("review"))
    assert skill["files"] == [{"path": "a", "content": "hi", "encoding": "utf-8"}]


def test_what_is_too_much_for_an_old_daemon_is_missed_in_words(world: World, machine: Machine) -> None:
    large = [{"path": f"{n}", "content": "\n" * 900_000} for n in range(2)]
    give(world, make(world, "large", files=large), make(world, "small"))
    first, second = claimed(world, machine).payload["agent"]["skills"]
    assert (first["name"], first["files"]) == ("large", [])
    assert "could not be delivered" in first["content"]
    assert second["content"] == HEAD.format("small")


def test_a_skill_changed_since_the_claim_comes_in_its_newer_state(world: World, machine: Machine) -> None:
    skill = make(world)
    give(world, skill)
    held = claimed(world, machine, **BY_NAME)
    changed = world.ok("PUT", f"/api/skills/{skill['id']}", {"content": "new", "name": "review"})
    [bundle] = resolve(held, *held.payload["agent"]["skill_refs"])["bundles"]
    assert (bundle["hash"], bundle["content"]) == (changed["hash"], "new")


def test_a_daemon_gets_the_skills_of_the_tasks_agent_and_of_no_other(world: World, machine: Machine) -> None:
    give(world, make(world, "mine"))
    other = make(world, "others")
    held = claimed(world, machine, **BY_NAME)
    answer = resolve(held, {"id": other["id"], "hash": other["hash"]})
    assert (answer.status, answer.error) == (404, "skill_not_found")
    give(world)
    assert resolve(held, *held.payload["agent"]["skill_refs"]).status == 404


def test_skills_are_given_out_while_the_task_is_prepared_under_this_claim(world: World, machine: Machine) -> None:
    give(world, make(world))
    held = claimed(world, machine, **BY_NAME)
    [ref] = held.payload["agent"]["skill_refs"]
    assert resolve(held, ref, fence=0).error == "stale_claim"
    assert resolve(held, ref, claim_id=None, fence=None).status == 200
    assert held.say("start").status == 200
    assert (resolve(held, ref).status, resolve(held, ref).error) == (409, "wrong_state")


def test_an_answer_holds_as_many_bundles_as_fit_and_at_least_one(world: World, machine: Machine) -> None:
    files = [{"path": f"{n}", "content": "x" * 900_000} for n in range(3)]
    skills = [make(world, name, files=files) for name in ("one", "two")]
    assert skills[0]["size_bytes"] * 2 > MAX_BUNDLE_BYTES
    give(world, *skills)
    held = claimed(world, machine, **BY_NAME)
    refs = held.payload["agent"]["skill_refs"]
    assert [b["name"] for b in resolve(held, *refs)["bundles"]] == ["one"]
    assert [b["name"] for b in resolve(held, *refs[1:])["bundles"]] == ["two"]


def test_tasks_of_one_agent_in_one_answer_are_each_told_of_its_skills(world: World, machine: Machine) -> None:
    give(world, make(world))
    for _ in range(3):
        world.enqueue()
    body = {"daemon_id": machine.daemon_id, "runtime_ids": [machine.runtime_id], "max_tasks": 3}
    tasks = world.ok("POST", "/api/daemon/tasks/claim", body, machine.token, headers=BY_NAME)["tasks"]
    assert [[ref["name"] for ref in task["agent"]["skill_refs"]] for task in tasks] == [["review"]] * 3


# ── from the start ───────────────────────────────────────────────────────────


def test_a_new_agent_has_the_skills_it_was_made_with_in_their_order(world: World, machine: Machine) -> None:
    review, release = make(world, "review"), make(world, "release")
    wanted = [release["id"], review["id"], release["id"]]
    made = world.agent("bob", machine, skill_ids=wanted)
    own = [{"id": s["id"], "name": s["name"], "description": s["description"]} for s in (release, review)]
    assert made["skills"] == own
    assert [s["id"] for s in world.ok("GET", "/api/agents/bob/skills")["skills"]] == wanted[:2]
    changed = world.ok("PATCH", f"/api/agents/{made['id']}", {"description": "d"})
    assert changed["skills"] == own, "an answer without them reads as if they had been taken away"
    listed = {a["name"]: [s["name"] for s in a["skills"]] for a in world.ok("GET", "/api/agents")["items"]}
    assert listed == {"ada": [], "bob": ["release", "review"]}
    world.ok("DELETE", f"/api/skills/{release['id']}")
    assert [s["name"] for s in world.ok("GET", "/api/agents/bob")["skills"]] == ["review"]


def test_a_new_agent_gets_no_skill_that_is_not_the_workspaces(world: World, machine: Machine) -> None:
    theirs = world.ok("POST", "/api/workspaces", {"name": "far"})
    elsewhere = world.ok("POST", "/api/skills", {"content": TEXT}, headers={"x-workspace-id": theirs["id"]})
    body = {"name": "bob", "runtime_id": machine.runtime_id, "skill_ids": [make(world)["id"], elsewhere["id"], "none"]}
    answer = world.call("POST", "/api/agents", body)
    assert (answer.status, answer.error) == (400, "skill_not_found")
    assert answer["details"]["skill_ids"] == sorted([elsewhere["id"], "none"])
    assert world.call("POST", "/api/agents", {**body, "skill_ids": ["x"] * 51}).status == 422
    assert world.call("GET", "/api/agents/bob").status == 404
