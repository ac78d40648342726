"""The table beside the table: every item as it is, held against the rules after each write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from callboard_control.embedded.engine import Engine
from callboard_control.tasks import invariants
from callboard_wire.states import HELD, TERMINAL
from tests.simulation.actors import Violation

Raw = Mapping[str, Any]


class Mirror:
    """What the engine held when it was last looked at. Reads go past the faults: the scheduler makes them."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, str], Any] = {}
        self.limits: dict[str, int] = {}

    def look(self, engine: Engine) -> None:
        """Take in the whole table."""
        items = engine.execute("Scan", {"TableName": "callboard"})["Items"]
        self._items = {(i["pk"]["S"], i["sk"]["S"]): i for i in items}

    def look_again(self, engine: Engine) -> None:
        """The engine was opened anew. Raises `Violation` unless it has what it had answered for, and nothing else."""
        before = self._items
        self.look(engine)
        if before != self._items:
            raise Violation("the reopened table is not what was answered for")

    def take_in(self, engine: Engine, request: Raw, by: str) -> None:
        """Take in what `request` has written. Raises `Violation` for whatever must not be."""
        for key in _written(request):
            found = engine.execute("GetItem", {"TableName": "callboard", "Key": key, "ConsistentRead": True})
            place = key["pk"]["S"], key["sk"]["S"]
            before, after = self._items.pop(place, None), found.get("Item")
            if after is not None:
                self._items[place] = after
            _terminal_stays(before, after)
        broken = [*map(str, invariants.check(self._items.values())), *self._beyond_limits()]
        if broken:
            raise Violation(f"after a write of {by}: " + "; ".join(broken))

    def tasks(self) -> list[Any]:
        return [item for (pk, sk), item in self._items.items() if sk == "T" and pk.startswith("TK#")]

    def active(self) -> list[Any]:
        return [task for task in self.tasks() if task["st"]["S"] not in TERMINAL]

    def fence_of(self, task_id: str) -> int:
        return int(self._items.get((f"TK#{task_id}", "T"), {}).get("fn", {}).get("N", 0))

    def _beyond_limits(self) -> Iterator[str]:
        """Not one of the doctor's rules: a runtime's limit that is lowered is passed by what runs already."""
        for runtime_id, limit in self.limits.items():
            held = [t["id"]["S"] for t in self.active() if t["rt"]["S"] == runtime_id and t["st"]["S"] in HELD]
            if len(held) > limit:
                yield f"the runtime holds {held}, its limit is {limit}"


def _terminal_stays(before: Any, after: Any) -> None:
    if before is None or before.get("st", {}).get("S") not in TERMINAL:
        return
    if after is None or after["st"] != before["st"] or after.get("mv") != before.get("mv"):
        raise Violation(f"the ended task {before['id']['S']} was moved")


def _written(request: Raw) -> list[Any]:
    """Keys a write request names, whichever operation it is."""
    if "TransactItems" in request:
        bodies = [
            body for entry in request["TransactItems"] for kind, body in entry.items() if kind != "ConditionCheck"
        ]
    else:
        bodies = [request]
    return [b["Key"] if "Key" in b else {"pk": b["Item"]["pk"], "sk": b["Item"]["sk"]} for b in bodies]
