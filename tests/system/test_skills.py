"""A skill's whole way, as its people type it: from a folder, through the gateway and a daemon, to the agent's CLI."""

from __future__ import annotations

import json
import signal
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.cli import fake_cli
from tests.integration.daemon.test_skills import LOOK, TEXT
from tests.system.test_one_machine import Machine, start_gateway


@dataclass
class WithClaude(Machine):
    """A machine on which `claude` says which skills it finds, instead of `echo`."""

    cli: Path = Path()

    @property
    def env(self) -> dict[str, str]:
        own = {"CALLBOARD_PROVIDERS": "claude", "CALLBOARD_CLAUDE_PATH": str(self.cli), "IS_SANDBOX": "1"}
        return super().env | own


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithClaude]:
    home = tmp_path_factory.mktemp("home")
    gateway, url = start_gateway(home)
    machine = WithClaude(home, url, gateway, fake_cli(home, LOOK))
    try:
        secret = home / "server" / "bootstrap.secret"
        for command in (
            ("login", "--server", url, "--bootstrap", str(secret), "--name", "ada"),
            ("daemon", "start"),
            ("agent", "create", "scout"),
        ):
            done = machine.run(*command)
            assert done.returncode == 0, done.stderr
        yield machine
    finally:
        machine.run("daemon", "stop", "--now")
        machine.gateway.send_signal(signal.SIGTERM)
        machine.gateway.communicate(timeout=30)


def skill_folder(machine: Machine, name: str, **files: str) -> Path:
    folder = machine.home / "skills" / name
    for path, text in {"SKILL.md": TEXT.format(name), **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def seen(machine: Machine) -> dict[str, Any]:
    """What the agent's CLI finds in its skills folder, and its brief."""
    done = machine.run("run", "look", "--agent", "scout", "--follow", "--output", "json")
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(json.loads(done.stdout)["output"])
    return found


def test_an_imported_skill_is_in_the_folder_where_the_agents_cli_looks(machine: WithClaude) -> None:
    review = skill_folder(machine, "review", **{"scripts/check.py": "print(1)\n", ".git/config": "[core]\n"})
    done = machine.run("skill", "import", str(review))
    assert done.returncode == 0, done.stderr
    assert "Left out: .git" in done.stderr
    notes = machine.home / "notes.zip"
    with zipfile.ZipFile(notes, "w") as archive:
        archive.writestr("release-notes/SKILL.md", TEXT.format("release-notes"))
    assert machine.run("skill", "import", str(notes), "--name", "Release notes").returncode == 0
    assert [skill["name"] for skill in machine.json("skill", "list")] == ["review", "Release notes"]
    given = machine.run("agent", "skills", "set", "scout", "release NOTES", "review")
    assert given.returncode == 0, given.stderr
    assert [skill["name"] for skill in machine.json("agent", "skills", "list", "scout")] == ["Release notes", "review"]
    found = seen(machine)
    assert found["files"]["review/SKILL.md"] == TEXT.format("review")
    assert found["files"]["review/scripts/check.py"] == "print(1)\n"
    assert found["files"]["release-notes/SKILL.md"] == TEXT.format("release-notes")
    assert "`.claude/skills/release-notes/SKILL.md`\n- `.claude/skills/review/SKILL.md`" in found["brief"]


@pytest.mark.slow
def test_a_replaced_skill_is_the_next_runs_and_a_taken_one_is_gone(machine: WithClaude) -> None:
    folder = skill_folder(machine, "moving")
    assert machine.run("skill", "import", str(folder)).returncode == 0
    machine.run("agent", "skills", "set", "scout", "--none")
    assert machine.run("agent", "skills", "add", "scout", "moving").returncode == 0
    assert list(seen(machine)["files"]) == ["moving/SKILL.md"]
    (folder / "extra.md").write_text("more")
    again = machine.run("skill", "import", str(folder))
    assert again.returncode == 1
    assert "already" in again.stderr
    assert machine.run("skill", "import", str(folder), "--replace").returncode == 0
    assert sorted(seen(machine)["files"]) == ["moving/SKILL.md", "moving/extra.md"]
    assert machine.run("agent", "skills", "remove", "scout", "Moving").returncode == 0
    assert seen(machine)["files"] == {}


@pytest.mark.slow
def test_an_exported_skill_is_the_folder_it_came_from(machine: WithClaude) -> None:
    folder = skill_folder(machine, "around", **{"a/b.md": "é\r\n"})
    (folder / "logo.bin").write_bytes(bytes(range(256)))
    assert machine.run("skill", "import", str(folder)).returncode == 0
    assert machine.run("skill", "export", "around", "out").returncode == 0
    out = machine.home / "out"
    files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()} == files
    assert machine.run("skill", "export", "around", "out").returncode == 5
    assert "logo.bin" in machine.run("skill", "get", "around").stdout
    refused = machine.run("skill", "delete", "around", stdin="n\n")
    assert refused.returncode == 130
    assert machine.run("skill", "delete", "around", "--yes").returncode == 0
    assert machine.run("skill", "get", "around").returncode == 4


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["skill", "import", "nowhere"], 5, "nowhere"),
        (["skill", "import", "skills"], 5, "no SKILL.md"),
        (["skill", "import", "link"], 5, "link"),
        (["skill", "import", "bomb.zip"], 5, "unpack"),
        (["skill", "import", "headless"], 5, "--name"),
        (["skill", "import", "broken"], 5, "line 2"),
        (["skill", "get", "no/body"], 4, "no skill 'no/body'"),
        (["skill", "export", "nobody", "x"], 4, "nobody"),
        (["agent", "skills", "set", "scout", "nobody"], 4, "no skill 'nobody'"),
        (["agent", "skills", "set", "scout"], 5, "--none"),
        (["agent", "skills", "list", "nobody"], 4, "nobody"),
    ],
)
def test_every_error_is_a_sentence_with_its_exit_code(
    machine: WithClaude, args: list[str], code: int, words: str
) -> None:
    link = skill_folder(machine, "../link") / "x"
    link.unlink(missing_ok=True)
    link.symlink_to("/etc/passwd")
    for name, text in (("headless", "Do it.\n"), ("broken", "---\nname: a: b\n---\n")):
        (skill_folder(machine, f"../{name}") / "SKILL.md").write_text(text)
    with zipfile.ZipFile(machine.home / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("SKILL.md", TEXT.format("bomb"))
        archive.writestr("zeros", bytes(1_000_000))
    for name in ("one", "two"):
        skill_folder(machine, name)
    done = machine.run(*args)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "root:" not in done.stderr
