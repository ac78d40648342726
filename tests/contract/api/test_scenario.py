"""The same working day on the embedded engine and on ministack, over HTTP, with real threads and transactions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import ministack

ROOT = Path(__file__).parents[3]
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("functions", "daemon", "adapters", "."))


@pytest.mark.timeout(150)
@pytest.mark.parametrize("store", ["embedded", "ministack"])
def test_a_working_day_keeps_every_invariant(store: str, tmp_path: Path) -> None:
    if store == "embedded":
        report = _day(str(tmp_path / "day.sqlite"), {})
    else:
        with ministack.running(tmp_path) as endpoint:
            report = _day("aws", {"AWS_ENDPOINT_URL_DYNAMODB": endpoint})
    assert report["offences"] == []
    assert sum(report["tasks"].values()) == report["accepted"] > 20
    assert set(report["tasks"]) <= {"completed", "failed", "cancelled"}
    assert report["done"]["finished"] > 10


def _day(path: str, more: dict[str, str]) -> dict:  # type: ignore[type-arg]  # a JSON object
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCES, **more}
    command = [sys.executable, "-m", "tests.contract.api.scenario", path]
    run = subprocess.run(command, capture_output=True, text=True, timeout=140, env=environment, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])  # type: ignore[no-any-return]
