"""A task's item is made in one place, and every field says what becomes of it when the task is tried again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pynamodb.attributes import Attribute, ListAttribute, UnicodeSetAttribute

from callboard_control.store import keys, table
from callboard_control.store.models import TaskItem
from callboard_control.tasks import build
from tests.fakes.sim_world import Machine, World

SETS = (build.COPIED, build.SAID, build.MADE, build.LATER)


def fields() -> dict[str, Attribute[Any]]:
    return dict(TaskItem.get_attributes())


def stored(task_id: str) -> TaskItem:
    found = table.get(TaskItem, keys.task(task_id), "T")
    assert found is not None
    return found


def test_every_field_of_a_task_is_copied_or_said_or_made_or_comes_later_and_only_one_of_them() -> None:
    declared = Counter(name for names in SETS for name in names)
    assert {name for name, times in declared.items() if times > 1} == set()
    assert declared.keys() == fields().keys()


def full() -> TaskItem:
    """A task with something in every field."""
    item = TaskItem()
    for name, attribute in fields().items():
        value: Any = f"old {name}"
        if isinstance(attribute, ListAttribute):
            value = [value]
        elif isinstance(attribute, UnicodeSetAttribute):
            value = {value}
        elif attribute.attr_type in ("N", "BOOL"):
            value = 7
        elif attribute.attr_type == "B":
            value = b"old"
        setattr(item, name, value)
    return item


def test_a_task_made_from_another_has_its_wish_and_nothing_of_its_run(world: World) -> None:
    source = full()
    made = build.build("t-1", "do it", "system", source=source)
    left = {name for name in fields() if getattr(made, name) is not None}
    assert {name: getattr(made, name) for name in build.COPIED} == {n: getattr(source, n) for n in build.COPIED}
    assert left - build.COPIED <= build.MADE
    # The keys of its places are made of what was copied; nothing else of the old one is left.
    assert {name for name in left - build.COPIED if "old" in str(getattr(made, name))} <= {"gpk", "rpk", "rsk"}


def test_a_field_that_comes_with_the_run_cannot_be_given_to_a_new_task(world: World) -> None:
    with pytest.raises(TypeError, match="claim_id"):
        build.build("t-1", "do it", "system", workspace_id="w", agent_id="a", runtime_id="r", claim_id="c")


@pytest.mark.parametrize("way", ["retry", "rerun"])
def test_a_second_try_keeps_all_that_the_wish_asked_for(world: World, machine: Machine, way: str) -> None:
    asked: dict[str, Any] = {"priority": 2, "thread_name": "T", "issue_id": "i-1", "max_attempts": 3, "timeout_s": 60.5}
    first = world.enqueue(**asked)
    [held] = machine.claim()
    held.say("start")
    held.say("fail", error="gone", failure_reason="timeout" if way == "retry" else "agent_error.unknown")
    if way == "retry":
        second = world.task(first["id"])["retried_by_task_id"]
    else:
        second = world.ok("POST", f"/api/tasks/{first['id']}/rerun")["id"]
    old, made = stored(first["id"]), stored(second)
    assert {name: getattr(made, name) for name in build.COPIED} == {name: getattr(old, name) for name in build.COPIED}
