"""Skills on the way from a claim to the folder where the agent's CLI looks: a real daemon, a real CLI process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from callboard_daemon.skill_cache import bundle_of
from callboard_wire.skills import SkillBody
from callboard_wire.states import TaskStatus
from tests.fakes.cli import fake_cli
from tests.fakes.control_plane import PERSON_TOKEN, ControlPlane, Fault, control_plane
from tests.fakes.daemon_process import DaemonProcess, running_daemon

# What the CLI finds, said as its answer: every file in its skills folder, and its brief.
LOOK = """
prompt()
found = {}
for folder, _, names in os.walk(".claude/skills"):
    for name in names:
        path = os.path.join(folder, name)
        found[os.path.relpath(path, ".claude/skills")] = open(path, errors="replace").read()
init()
result(json.dumps({"files": found, "brief": open("CLAUDE.md").read()}))
"""
TEXT = "---\nname: {0}\ndescription: How to {0}.\n---\n\nDo it well.\n"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with control_plane() as plane:
        yield plane


@pytest.fixture(scope="module")
def daemon(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("daemon")
    cli = fake_cli(home, LOOK)
    with running_daemon(home, plane.url, PERSON_TOKEN, claude_path=str(cli), providers="claude,echo") as daemon:
        yield daemon


def offer(plane: ControlPlane, name: str, **changes: Any) -> dict[str, Any]:
    """A skill of the plane's; the ref that a claim names it by."""
    given = {
        "id": f"sk-{name}",
        "name": name,
        "description": f"How to {name}.",
        "content": TEXT.format(name),
        **changes,
    }
    body = SkillBody.model_validate(given)
    body.hash = body.hash or bundle_of(body).hash
    plane.skills[body.id] = body
    return {"id": body.id, "source": "workspace", "name": name, "hash": body.hash, "size_bytes": 100}


def run(plane: ControlPlane, provider: str = "claude", **agent: Any) -> tuple[str, dict[str, Any]]:
    spec = {"custom_env": {"IS_SANDBOX": "1"}, **agent}
    task = plane.wait_ended(plane.enqueue("look", provider=provider, agent=spec), timeout=40)
    return task.status, json.loads(task.ending["output"]) if task.status is TaskStatus.COMPLETED else task.ending


def test_the_cli_finds_its_skills_in_its_own_folder_and_named_in_its_brief(
    plane: ControlPlane, daemon: DaemonProcess
) -> None:
    files = [{"path": "scripts/check.py", "content": "print(1)\n"}]
    refs = [offer(plane, "review", files=files), offer(plane, "Release Notes", content="No head.\n")]
    status, seen = run(plane, skill_refs=refs)
    assert status is TaskStatus.COMPLETED, seen
    assert seen["files"]["review/SKILL.md"] == TEXT.format("review")
    assert seen["files"]["review/scripts/check.py"] == "print(1)\n"
    assert seen["files"]["release-notes/SKILL.md"].startswith('---\nname: "release-notes"\n')
    assert ".claude/skills/review/SKILL.md" in seen["brief"]


def test_what_was_fetched_once_is_not_asked_for_again(plane: ControlPlane, daemon: DaemonProcess) -> None:
    ref = offer(plane, "cached")
    for _ in range(2):
        assert run(plane, skill_refs=[ref])[1]["files"] == {"cached/SKILL.md": TEXT.format("cached")}
    tasks = [
        plane.enqueue("look", provider="claude", agent={"custom_env": {"IS_SANDBOX": "1"}, "skill_refs": [ref]})
        for _ in range(3)
    ]
    assert {plane.wait_ended(task, timeout=40).status for task in tasks} == {TaskStatus.COMPLETED}
    assert plane.asked_skills.count(ref["id"]) == 1


def test_a_spoilt_cache_is_fetched_anew(plane: ControlPlane, daemon: DaemonProcess) -> None:
    ref = offer(plane, "spoilt")
    run(plane, skill_refs=[ref])
    file = daemon.paths.skills_dir / f"{ref['hash']}.json"
    file.write_text(file.read_text().replace("Do it well", "Do it never"))
    assert run(plane, skill_refs=[ref])[1]["files"]["spoilt/SKILL.md"] == TEXT.format("spoilt")
    assert plane.asked_skills.count(ref["id"]) == 2


def test_a_fault_on_the_way_is_waited_out(plane: ControlPlane, daemon: DaemonProcess) -> None:
    ref = offer(plane, "waited")
    plane.fail_next("resolve", Fault.NO_ANSWER, Fault.UNAVAILABLE, Fault.ANSWER_LOST)
    assert run(plane, skill_refs=[ref])[1]["files"]["waited/SKILL.md"] == TEXT.format("waited")


def test_a_skill_changed_since_the_claim_is_the_newer_one(plane: ControlPlane, daemon: DaemonProcess) -> None:
    old = offer(plane, "moving")
    new = offer(plane, "moving", content=TEXT.format("moving") + "And faster.\n")
    assert old["hash"] != new["hash"]
    assert "And faster." in run(plane, skill_refs=[old])[1]["files"]["moving/SKILL.md"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"files": [{"path": "../../../.bashrc", "content": "x"}]}, ".bashrc"),
        ({"hash": "0" * 64}, "not what its hash says"),
        ({"id": "sk-another"}, "could not be had"),
    ],
)
def test_what_a_server_must_not_send_ends_the_task_with_the_reason(
    plane: ControlPlane, daemon: DaemonProcess, changes: dict[str, Any], words: str
) -> None:
    body = SkillBody(id="sk-bad", name="bad", description="d", content="c").model_copy(update={"hash": ""})
    plane.skills["sk-bad"] = SkillBody.model_validate({**body.model_dump(), **changes})
    status, ending = run(plane, skill_refs=[{"id": "sk-bad", "name": "bad", "hash": "1" * 64}])
    assert status is TaskStatus.FAILED
    assert ending["failure_reason"] == "skill_bundle_unavailable"
    assert words in ending["error"]
    assert "'bad'" in ending["error"]


def test_a_skill_that_is_gone_ends_the_task_at_once_and_as_worth_another_try(
    plane: ControlPlane, daemon: DaemonProcess
) -> None:
    status, ending = run(plane, skill_refs=[{"id": "sk-gone", "name": "gone", "hash": "2" * 64}])
    assert (status, ending["failure_reason"]) == (TaskStatus.FAILED, "skill_bundle_unavailable")
    assert plane.asked_skills.count("sk-gone") == 1


def test_a_task_lost_while_its_skills_are_fetched_is_not_reported(plane: ControlPlane, daemon: DaemonProcess) -> None:
    ref = offer(plane, "lost")
    plane.fail_next("resolve", *[Fault.UNAVAILABLE] * 3)
    task_id = plane.enqueue("look", provider="claude", agent={"skill_refs": [ref]})
    plane.wait_for(lambda: plane.tasks[task_id].status is TaskStatus.DISPATCHED)
    plane.give_to_another(task_id)
    plane.wait_for(lambda: daemon.logged("not ours any more", task_id), timeout=30)
    assert not {"fail", "complete", "start"} & set(plane.tasks[task_id].calls)


def test_skills_that_came_whole_with_the_claim_are_placed_as_well(plane: ControlPlane, daemon: DaemonProcess) -> None:
    """Another server's: without hashes, with the skill's text once more among its files."""
    files = [{"path": "SKILL.md", "content": "again"}, {"path": "a.txt", "content": "hi"}]
    whole = {"id": "s1", "name": "whole", "description": "d", "content": "Do it.", "files": files}
    seen = run(plane, skills=[whole])[1]["files"]
    assert sorted(seen) == ["whole/SKILL.md", "whole/a.txt"]
    assert seen["whole/SKILL.md"].endswith("Do it.")


def test_a_cli_without_a_skills_folder_is_told_where_they_are(plane: ControlPlane, daemon: DaemonProcess) -> None:
    ref = offer(plane, "echoed")
    agent = {"skill_refs": [ref]}
    script = "!read AGENTS.md\n!read .agent_context/skills/echoed/SKILL.md\n!answer ok"
    task = plane.wait_ended(plane.enqueue(script, agent=agent), timeout=40)
    assert task.status is TaskStatus.COMPLETED, task.ending
    read = [message.output for message in task.messages if message.type == "tool_result"]
    assert "`.agent_context/skills/echoed/SKILL.md`: How to echoed." in read[0]
    assert read[1] == TEXT.format("echoed")
