"""GetItem, PutItem, UpdateItem, DeleteItem."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from callboard_control.embedded.engine import capacity, keys, params, rows, schema
from callboard_control.embedded.engine.core import Core
from callboard_control.embedded.engine.errors import validation
from callboard_control.embedded.engine.expressions.projections import project
from callboard_control.embedded.engine.expressions.scope import Scope
from callboard_control.embedded.engine.operations import writes
from callboard_control.embedded.engine.operations.writes import Write
from callboard_control.embedded.engine.rows import Change
from callboard_control.embedded.engine.storage import Plan
from callboard_control.embedded.engine.values import Item

_READ = {
    "TableName",
    "Key",
    "ConsistentRead",
    "ProjectionExpression",
    "ExpressionAttributeNames",
    "ReturnConsumedCapacity",
}
_WRITE = {
    "TableName",
    "ConditionExpression",
    "ExpressionAttributeNames",
    "ExpressionAttributeValues",
    "ReturnValues",
    "ReturnValuesOnConditionCheckFailure",
    "ReturnConsumedCapacity",
    "ReturnItemCollectionMetrics",
}
_RETURN_VALUES = ("ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW")


def get_item(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """GetItem."""
    params.only(request, _READ)
    name = schema.table_name(request)
    mode = capacity.mode(request)
    consistent = params.flag(request, "ConsistentRead", default=False)
    scope = Scope(request)
    paths = scope.projection()
    scope.finish()
    with core.storage.read() as connection:
        table = core.readable(connection, name)
        _, key = keys.given_key(table, params.mapping(request, "Key"))
        found = rows.find(connection, table, key)
    usage = capacity.Usage()
    usage.read(name, capacity.read_units(found.size if found else 0, consistent=consistent))
    answer: dict[str, Any] = usage.one(mode)
    if found is not None:
        answer["Item"] = found.item if paths is None else project(found.item, paths)
    return answer


def put_item(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """PutItem."""
    params.only(request, _WRITE | {"Item"})
    return _single(core, request, writes.PUT)


def delete_item(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """DeleteItem."""
    params.only(request, _WRITE | {"Key"})
    return _single(core, request, writes.DELETE)


def update_item(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """UpdateItem."""
    params.only(request, _WRITE | {"Key", "UpdateExpression"})
    return _single(core, request, writes.UPDATE)


def _single(core: Core, request: Mapping[str, Any], verb: str) -> dict[str, Any]:
    returns = params.choice(request, "ReturnValues", _RETURN_VALUES, "NONE")
    if verb != writes.UPDATE and returns not in ("NONE", "ALL_OLD"):
        raise validation("ReturnValues can only be ALL_OLD or NONE")
    # Item collection metrics exist for tables with a local secondary index; there are none here, so there is nothing
    # to say.
    params.choice(request, "ReturnItemCollectionMetrics", ("SIZE", "NONE"), "NONE")
    mode = capacity.mode(request)
    write = writes.read(verb, request)

    def work(connection: sqlite3.Connection) -> Plan:
        table = core.table(connection, write.table_name)
        key = write.locate(table)
        changed = write.decide(table, key, rows.find(connection, table, key))
        usage = capacity.Usage()
        usage.write(changed)
        answer = usage.one(mode)
        attributes = _returned(returns, write, changed)
        if attributes:
            answer["Attributes"] = attributes
        return Plan(answer, list(rows.statements(changed)), [changed])

    return core.storage.write(work)


def _returned(returns: str, write: Write, changed: Change) -> Item | None:
    if returns == "NONE":
        return None
    stored = changed.before if returns.endswith("OLD") else changed.after
    if stored is None:
        return None
    if returns.startswith("ALL"):
        return stored.item
    return project(stored.item, [action.path for action in write.actions])
