"""The page on idle costs says what the code's own intervals cost."""

from __future__ import annotations

from pathlib import Path

from callboard_control.costs import idle_costs, table

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "idle-cost.md"


def test_the_page_holds_the_figures_that_follow_from_the_code() -> None:
    assert table(0.125) in PAGE.read_text()


def test_a_bell_is_the_cheapest_way_and_a_held_poll_the_dearest() -> None:
    held, short, bell = (idle.dollars for idle in idle_costs(0.125))
    assert bell < short < held
