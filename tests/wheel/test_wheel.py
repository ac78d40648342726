"""The wheel: what is in it, and what it needs once it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("callboard_wire", "callboard_control", "callboard_daemon", "callboard_adapters")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this checkout, without isolation and so without an index."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    [built] = folder.glob("*.whl")
    return built


def contents(wheel: Path) -> dict[str, str]:
    """Path in the wheel → text ("" for what is no text)."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}


def test_every_module_of_the_four_packages_is_in_it_and_they_are_typed(wheel: Path) -> None:
    names = contents(wheel).keys()
    for package in PACKAGES:
        [source] = [
            ROOT / top / package for top in ("functions", "daemon", "adapters") if (ROOT / top / package).is_dir()
        ]
        modules = {path.relative_to(source.parent).as_posix() for path in source.rglob("*.py")}
        assert modules <= names
        assert f"{package}/py.typed" in names


def test_nothing_else_is_in_it(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in contents(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert not [name for name in contents(wheel) if name.endswith((".pyc", ".db", ".log"))]


def test_it_brings_the_command_the_licence_and_the_group_for_other_peoples_adapters(wheel: Path) -> None:
    files = contents(wheel)
    [info] = {name.partition("/")[0] for name in files if ".dist-info/" in name}
    assert "callboard = callboard_daemon.cli.main:main" in files[f"{info}/entry_points.txt"]
    assert "Apache License" in files[f"{info}/licenses/LICENSE"]


def test_the_daemon_alone_needs_a_short_list_and_the_server_is_an_extra(wheel: Path) -> None:
    files = contents(wheel)
    [metadata] = [text for name, text in files.items() if name.endswith(".dist-info/METADATA")]
    needs = Parser().parsestr(metadata).get_all("Requires-Dist") or []
    plain = {need.partition(">")[0] for need in needs if "extra ==" not in need}
    extra = {need.partition(">")[0] for need in needs if "extra == 'server'" in need}
    assert len(plain) <= 10
    assert {"boto3", "pynamodb", "uvicorn", "aws-lambda-powertools"} <= extra
    assert not plain & extra


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_installed_alone_the_daemon_runs_and_loads_nothing_of_the_control_plane(wheel: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements/daemon.txt")], check=True)
    subprocess.run([*pip, "--no-index", str(wheel)], check=True)
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def output(*command: str) -> str:
        done = subprocess.run(command, env=clean, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    callboard = str(python.parent / "callboard")
    assert "0.1.0" in output(callboard, "version")
    assert "Exit codes" in output(callboard, "--help")
    program = (
        "import json, sys, pkgutil, importlib, callboard_daemon, callboard_adapters\n"
        "for package in (callboard_daemon, callboard_adapters):\n"
        "    for found in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        if not (found.name.endswith('__main__') or '.process.windows.' in found.name):\n"  # not here
        "            importlib.import_module(found.name)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    loaded = set(json.loads(output(str(python), "-c", program)))
    assert not loaded & {"boto3", "botocore", "pynamodb", "uvicorn", "aws_lambda_powertools", "callboard_control"}
    refused = subprocess.run([callboard, "up"], env=clean, cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "callboard[server]" in refused.stderr
