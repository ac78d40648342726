"""A stranger's adapter, installed from its own package outside the repository, passes the suite that ships."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "callboard-parrot"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("chosen", ["real", pytest.param("conforms", marks=pytest.mark.slow)])
def test_the_example_plugin_works_and_conforms_from_outside_the_repository(tmp_path, chosen):
    package, site = tmp_path / "package", tmp_path / "site"
    shutil.copytree(EXAMPLE, package, ignore=shutil.ignore_patterns("__pycache__"))
    install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--offline", "--no-deps", "--no-build-isolation"]
    install += ["--python", sys.executable, "--target", str(site), str(package)]
    subprocess.run(install, check=True, cwd=tmp_path)
    roots = [str(site), *(str(ROOT / part) for part in ("adapters", "functions"))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(roots), "PATH": f"{site}/bin:{os.environ['PATH']}"}
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, str(package / "tests")]
    done = subprocess.run(tests, cwd=package, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "passed" in done.stdout
