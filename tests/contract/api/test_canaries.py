"""A secret is where it belongs and nowhere else: not in logs, metrics, rows, answers or the audit log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("functions", "daemon", "adapters", "."))

SHOWN = {
    "mcp env": {
        "dmn claim",
        "{own} PATCH /api/agents/{agent}",
        "{own} PUT /api/agents/{agent}",
        "{own} GET /api/agents/{agent}",
        "{own} GET /api/agents/{agent_id}",
        "{own} GET /api/agents",
    },
    "env API_KEY": {"dmn claim", "{own} PUT /api/agents/{agent}/env", "{own} GET /api/agents/{agent_id}/env"},
    "gateway token": {"dmn claim"},
    "token task complete": {"dmn claim"},
    "token task fail": {"dmn claim"},
}
"""What → where it may be seen; ``{own}`` is whoever may change the agent. Nothing else planted is ever shown."""
SHOWN["mcp header"] = SHOWN["mcp env"]
SHOWN["env OTHER"] = SHOWN["env API_KEY"]
OWN = ("own", "adm", "aut")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a whole run leaves: ``table.sqlite`` and its log, ``report.json``, and ``printed``."""
    folder = tmp_path_factory.mktemp("canaries")
    env = {"PYTHONPATH": SOURCES, "POWERTOOLS_LOG_LEVEL": "DEBUG", "POWERTOOLS_METRICS_DISABLED": "false"}
    command = [sys.executable, "-m", "tests.contract.api.canary_run", str(folder)]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=55, env={**env, "PATH": os.environ["PATH"]}, cwd=ROOT
    )
    assert run.returncode == 0, run.stderr[-3000:]
    (folder / "printed").write_text(run.stdout + run.stderr)
    return folder


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "report.json").read_text())  # type: ignore[no-any-return]


def found(planted: dict[str, str], text: str) -> list[str]:
    return sorted(what for what, value in planted.items() if value in text)


def test_answers_show_a_secret_only_to_whom_it_belongs(report: dict[str, Any]) -> None:
    for what, places in report["shown"].items():
        allowed = {place.replace("{own}", actor) for place in SHOWN.get(what, set()) for actor in OWN}
        seen = {place.rpartition(" ")[0] for place in places}
        assert not seen - allowed, what
    assert set(report["shown"]) == set(SHOWN), "what has a place is seen there: the search does find something"
    assert report["answers"] > 200


def test_logs_and_metrics_hold_no_secret(folder: Path, report: dict[str, Any]) -> None:
    printed = (folder / "printed").read_text()
    for said in ('"location":"unexpected', "Traceback", "_aws", "SecretsUnavailable", "StoreUnavailable", "Contended"):
        assert said in printed, f"nothing of {said!r} was printed: then this proves nothing"
    assert found(report["planted"], printed) == []


def test_rows_hold_no_secret_but_the_mcp_configuration_in_its_agent(report: dict[str, Any]) -> None:
    places = {what: [row for row in report["rows"] if value in row] for what, value in report["planted"].items()}
    assert {what for what, rows in places.items() if rows} == {"mcp env", "mcp header"}
    assert all("AG#" in row and "'mc'" in row for what in ("mcp env", "mcp header") for row in places[what])


def test_the_files_on_disk_hold_no_secret_either(folder: Path, report: dict[str, Any]) -> None:
    """Rows that were replaced or deleted may still be in the database's file."""
    files = [path for path in folder.iterdir() if path.name not in ("report.json", "printed")]
    assert {"table.sqlite", "secrets.key"} <= {path.name for path in files}
    for path in files:
        held = [what for what, value in report["planted"].items() if value.encode() in path.read_bytes()]
        assert set(held) <= ({"mcp env", "mcp header"} if path.name.startswith("table.") else set()), path.name


def test_the_audit_log_says_that_a_secret_was_handled_and_not_which(report: dict[str, Any]) -> None:
    for deed in ("agent_env_updated", "agent_env_revealed", "agent_updated"):
        assert deed in report["audit"]
    assert found(report["planted"], report["audit"]) == []
