"""docs/reference/tasks.md says what the tables of states, moves and failures say."""

from __future__ import annotations

from infra import states


def test_the_page_of_states_moves_and_failures_is_up_to_date() -> None:
    assert states.TARGET.read_text() == states.text(), "run: .venv/bin/python infra/states.py"
