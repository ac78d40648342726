from __future__ import annotations

from pathlib import Path

from callboard_adapters.matrix import tables
from callboard_adapters.registry import BUILT_IN

PAGE = Path(__file__).parents[3] / "docs" / "providers.md"


def test_the_page_of_providers_is_what_their_capabilities_say():
    assert PAGE.read_text() == tables(), "python -m callboard_adapters.matrix > docs/providers.md"


def test_every_provider_has_a_row_in_every_table():
    page = tables()
    for name in BUILT_IN:
        assert page.count(f"\n| {name} |") == page.count("\n## ")
