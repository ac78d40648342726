"""The page about permissions names every reason an agent's readiness may give, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_names_every_reason_with_its_weight() -> None:
    source = (ROOT / "functions" / "callboard_control" / "agents" / "readiness.py").read_text()
    given = set(re.findall(r'code="(\w+)"', source)) | set(re.findall(r'_to_know\(\s*"(\w+)"', source))
    page = (ROOT / "docs" / "reference" / "permissions.md").read_text().partition("## Readiness")[2]
    told = set(re.findall(r"`(\w+)`", page.partition("| --- |")[2]))
    assert given == told
