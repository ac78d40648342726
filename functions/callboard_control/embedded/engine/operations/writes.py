"""One write, whether it stands alone, in a batch or in a transaction: check the request, then decide on the stored
item.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callboard_control.embedded.engine import keys, params, rows, schema, values
from callboard_control.embedded.engine.errors import bad_value, condition_failed, validation
from callboard_control.embedded.engine.expressions import conditions, updates
from callboard_control.embedded.engine.expressions.scope import Scope
from callboard_control.embedded.engine.expressions.syntax import Action, Condition
from callboard_control.embedded.engine.keys import RowKey
from callboard_control.embedded.engine.rows import Change, Stored
from callboard_control.embedded.engine.schema import Table
from callboard_control.embedded.engine.values import Item

PUT, UPDATE, DELETE, CHECK = "Put", "Update", "Delete", "ConditionCheck"
_TOO_LARGE = "Item size has exceeded the maximum allowed size"
_TOO_LARGE_UPDATE = "Item size to update has exceeded the maximum allowed size"


@dataclass(frozen=True, slots=True)
class Write:
    """A checked write.

    `source` is the item of a put and the key of anything else; `payload` its size in bytes, with the values its
    expressions bring along.
    """

    verb: str
    table_name: str
    source: Item
    condition: Condition | None
    actions: tuple[Action, ...]
    returns_item: bool
    payload: int

    def locate(self, table: Table) -> RowKey:
        """The row this write is about; raises ValidationException when the key or the update does not suit the
        table.
        """
        if self.verb == PUT:
            return keys.item_key(table, self.source)
        _, key = keys.given_key(table, self.source)
        for action in self.actions:
            if action.path.elements[0] in table.key_names:
                name = action.path.elements[0]
                raise bad_value(f"Cannot update attribute {name}. This attribute is part of the key")
        return key

    def decide(self, table: Table, key: RowKey, before: Stored | None) -> Change:
        """What the write does to the stored item; raises ConditionalCheckFailedException or ValidationException."""
        old = {} if before is None else before.item
        if self.condition is not None and not conditions.holds(self.condition, old):
            raise condition_failed(old if before is not None and self.returns_item else None)
        match self.verb:
            case "Put":
                return rows.change(table, key, before, self.source, too_large=_TOO_LARGE)
            case "Update":
                return rows.change(table, key, before, self._updated(before), too_large=_TOO_LARGE_UPDATE)
            case "Delete":
                return rows.change(table, key, before, None, too_large=_TOO_LARGE)
            case _:
                return Change(table, key, before, before, ())

    def _updated(self, before: Stored | None) -> Item | None:
        if before is not None:
            return updates.apply(self.actions, before.item, exists=True)
        new = updates.apply(self.actions, self.source, exists=False)
        return new if updates.creates(self.actions) else None


def read(verb: str, request: Mapping[str, Any]) -> Write:
    """The write a request's parameters describe (single operation or transaction action: they are named alike)."""
    scope = Scope(request)
    condition = scope.condition()
    actions = scope.update() if verb == UPDATE else ()
    scope.finish()
    returns = params.choice(request, "ReturnValuesOnConditionCheckFailure", ("ALL_OLD", "NONE"), "NONE")
    part = "Item" if verb == PUT else "Key"
    source = values.checked_item(params.mapping(request, part))
    size = values.item_size(source)
    if verb == PUT and size > values.MAX_ITEM_BYTES:
        raise validation(_TOO_LARGE)
    payload = size + scope.size
    return Write(verb, schema.table_name(request), source, condition, actions, returns == "ALL_OLD", payload)
