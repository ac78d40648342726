"""The reference pages are what the program says of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from callboard_daemon.cli.main import EXIT_CODES
from callboard_daemon.cli.reference import cli_reference, settings_reference
from callboard_daemon.errors import ExitCode

DOCS = Path(__file__).parents[3] / "docs" / "reference"


@pytest.mark.parametrize(("page", "text"), [("cli.md", cli_reference), ("settings.md", settings_reference)])
def test_the_page_is_what_the_program_prints(page: str, text: object) -> None:
    assert callable(text)
    again = "run `python -m callboard_daemon.cli.reference docs/reference`"
    assert (DOCS / page).read_text() == text(), again


def test_every_exit_code_is_documented() -> None:
    assert set(EXIT_CODES) >= {int(code) for code in ExitCode}


def test_showing_the_version_imports_neither_http_nor_tables_nor_models() -> None:
    code = (
        "import sys\nfrom callboard_daemon.cli.main import main\n"
        "try: main(['version'])\nexcept SystemExit as e: assert e.code == 0\n"
        "print([m for m in ('httpx', 'rich', 'pydantic', 'asyncio', 'psutil') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.splitlines()[-1] == "[]"
