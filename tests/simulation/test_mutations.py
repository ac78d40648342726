"""Every named condition is needed: with one taken away, the simulation breaks an invariant.

A condition that no storm needs would be dead weight, or a promise nobody tests. Those that only a direct test can show
are named with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from callboard_control.store.models import TaskItem
from callboard_control.tasks import conditions
from tests.simulation.actors import Violation
from tests.simulation.sim import KINDS, Simulation

SEEDS = range(40)
STEPS = 500


def always(*_: Any) -> Any:
    return TaskItem.pk.exists() | TaskItem.pk.does_not_exist()


def breaks(kinds: tuple[str, ...]) -> bool:
    """Whether some seed with these kinds of trouble finds a violation."""
    for seed in SEEDS:
        try:
            Simulation(seed, STEPS, kinds).run()
        except Violation:
            return True
    return False


NEEDED_IN_THE_STORM: dict[str, tuple[str, ...]] = {
    "is_new": KINDS,
    "in_state": KINDS,
    # Where little but the agent's own capacity keeps a task back: a wall is seen before a claim writes, so it takes
    # claims that have all looked already.
    "has_room": tuple(k for k in KINDS if k not in ("issues", "chats", "runtime_limit", "owner_leaves")),
    "place_is_free": KINDS,
}
SHOWN_DIRECTLY = {
    "lane_is_free": "tests/unit/control/test_races.py: two machines that look at the same time",
    "fence_is": "tests/unit/control/test_races.py: a fail that was frozen while the task was claimed anew",
    "lease_over": "tests/unit/control/test_races.py: a renewal between the look and the write",
    "held_under": "tests/unit/control/test_finish.py: late words of a stale claim",
    "of_machine": "tests/unit/control/test_finish.py: another machine with the right proof",
    "unsaid": "tests/unit/control/test_claim.py: a second wish that is repeated joins once",
    "takes_wishes": "tests/unit/control/test_wishes.py: wishes beyond what one task takes",
    "is_open": "the archive of an agent closes its slot",
    "unwritten_since": "tests/unit/control/test_places.py: two claims at once stay within the runtime's limit",
    "slot_is_empty": "tests/unit/control/test_sweep.py: a slot that fills while it is being forgotten stays known",
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NEEDED_IN_THE_STORM)
def test_the_storm_breaks_an_invariant_without_the_condition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, name, always)
    assert breaks(NEEDED_IN_THE_STORM[name])


def test_every_condition_is_needed_by_a_storm_or_shown_directly() -> None:
    named = {
        name
        for name, value in vars(conditions).items()
        if isinstance(value, Callable) and getattr(value, "__module__", "") == conditions.__name__  # type: ignore[arg-type]
    }
    assert named - {"all_of"} == {*NEEDED_IN_THE_STORM, *SHOWN_DIRECTLY}
