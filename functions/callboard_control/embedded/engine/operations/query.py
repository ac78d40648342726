"""Query and Scan, on a table or an index, a page at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callboard_control.embedded.engine import capacity, key_conditions, keys, params, rows, schema, values
from callboard_control.embedded.engine.core import Core
from callboard_control.embedded.engine.errors import bad_value, serialization, validation
from callboard_control.embedded.engine.expressions import conditions, syntax
from callboard_control.embedded.engine.expressions.projections import project
from callboard_control.embedded.engine.expressions.scope import Scope
from callboard_control.embedded.engine.expressions.syntax import Condition, Path
from callboard_control.embedded.engine.schema import Index, Table
from callboard_control.embedded.engine.values import Item

PAGE_BYTES = 1024 * 1024
_COMMON = {
    "TableName",
    "IndexName",
    "Select",
    "Limit",
    "ConsistentRead",
    "ExclusiveStartKey",
    "FilterExpression",
    "ProjectionExpression",
    "ExpressionAttributeNames",
    "ExpressionAttributeValues",
    "ReturnConsumedCapacity",
}
_SELECTS = ("SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES")


@dataclass(slots=True)
class _Page:
    """What one page read: the matching items, how many rows and bytes it took, and the last row if there may be
    more.
    """

    items: list[Item]
    scanned: int = 0
    size: int = 0
    last: Item | None = None


@dataclass(frozen=True, slots=True)
class _Reading:
    """The checked parameters that Query and Scan share."""

    table_name: str
    index_name: str | None
    select: str | None
    limit: int | None
    consistent: bool
    start: Mapping[str, Any] | None
    condition: Condition | None
    filter: Condition | None
    paths: tuple[Path, ...] | None
    mode: str


def query(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """Query."""
    params.only(request, _COMMON | {"KeyConditionExpression", "ScanIndexForward"})
    forward = params.flag(request, "ScanIndexForward", default=True)
    reading = _read(request, with_key_condition=True)
    if reading.condition is None:
        raise validation(
            "Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."
        )
    table, index = _target(core, reading)
    hash_part, range_part = (index.hash, index.range) if index else (table.hash, table.range)
    wanted = key_conditions.key_range(reading.condition, hash_part, range_part)
    _check_filter(reading.filter, {hash_part.name} | ({range_part.name} if range_part else set()))
    _check_projection(reading, table, index)
    start = _start(reading, table, index)
    if start is not None and (start[0] != wanted.hash or not wanted.holds(start[1])):
        raise validation("The provided starting key is outside query boundaries based on provided conditions")
    after = None if start is None else (start[1:] if index else start[1:2])
    columns = ("ih", "ir", "h, r") if index else ("h", "r", "")
    where, arguments = key_conditions.where(wanted, *columns, after, forward=forward)
    way = "ASC" if forward else "DESC"
    order = ", ".join(f"{column} {way}" for column in (("ir", "h", "r") if index else ("r",)))
    sql = f"SELECT item, size FROM {(index or table).rows} WHERE {where} ORDER BY {order} LIMIT ?"
    return _run(core, reading, table, index, sql, arguments)


def scan(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """Scan, in key order. Never on a request path: for checks and tests."""
    params.only(request, _COMMON)
    reading = _read(request, with_key_condition=False)
    table, index = _target(core, reading)
    _check_projection(reading, table, index)
    start = _start(reading, table, index)
    columns = "ih, ir, h, r" if index else "h, r"
    where, arguments = "", list(start or ())
    if start is not None:
        where = f"WHERE ({columns}) > ({', '.join('?' * len(start))})"
    sql = f"SELECT item, size FROM {(index or table).rows} {where} ORDER BY {columns} LIMIT ?"
    return _run(core, reading, table, index, sql, arguments)


def _read(request: Mapping[str, Any], *, with_key_condition: bool) -> _Reading:
    name = schema.table_name(request)
    index_name = request.get("IndexName")
    if index_name is not None and not isinstance(index_name, str):
        raise serialization("Unexpected value type in payload: IndexName takes a string")
    select = request.get("Select")
    if select is not None:
        params.choice(request, "Select", _SELECTS, "")
    start = request.get("ExclusiveStartKey")
    if start is not None:
        start = values.checked_item(start)
    scope = Scope(request)
    condition = scope.condition("KeyConditionExpression") if with_key_condition else None
    filtering = scope.condition("FilterExpression")
    paths = scope.projection()
    scope.finish()
    _check_select(select, index_name, has_projection=paths is not None)
    return _Reading(
        name,
        index_name,
        select,
        params.count(request, "Limit"),
        params.flag(request, "ConsistentRead", default=False),
        start,
        condition,
        filtering,
        paths,
        capacity.mode(request),
    )


def _check_select(select: str | None, index_name: str | None, *, has_projection: bool) -> None:
    if has_projection and select not in (None, "SPECIFIC_ATTRIBUTES"):
        raise validation(f"Cannot specify the ProjectionExpression when choosing to get {select}")
    if select == "SPECIFIC_ATTRIBUTES" and not has_projection:
        raise validation(
            "Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES"
        )
    if select == "ALL_PROJECTED_ATTRIBUTES" and index_name is None:
        raise validation("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")


def _target(core: Core, reading: _Reading) -> tuple[Table, Index | None]:
    with core.storage.read() as connection:
        table = core.readable(connection, reading.table_name)
    if reading.index_name is None:
        return table, None
    index = table.index(reading.index_name)
    if reading.consistent:
        raise validation("Consistent reads are not supported on global secondary indexes")
    return table, index


def _check_filter(condition: Condition | None, key_names: set[str]) -> None:
    """A filter may not look at the key attributes: that is the key condition's part."""
    for path in syntax.paths(condition or ()):
        name = path.elements[0]
        if name in key_names:
            raise validation(
                f"Filter Expression can only contain non-primary key attributes: Primary key attribute: {name}"
            )


def _check_projection(reading: _Reading, table: Table, index: Index | None) -> None:
    if index is None:
        return
    names = table.projected(index)
    if names is None:
        return
    if reading.select == "ALL_ATTRIBUTES":
        raise bad_value(
            "Select type ALL_ATTRIBUTES is not supported for global secondary index "
            f"{index.name} because its projection type is not ALL"
        )
    missing = [str(path.elements[0]) for path in reading.paths or () if path.elements[0] not in names]
    if missing:
        raise bad_value(f"Global secondary index {index.name} does not project [{', '.join(missing)}]")


def _start(reading: _Reading, table: Table, index: Index | None) -> tuple[bytes, ...] | None:
    """The row to start after: (ih, ir, h, r) in an index, (h, r) in a table."""
    start = reading.start
    if start is None:
        return None
    parts = {part.name: part.type for part in (*table.keys, *(index.keys if index else ()))}
    if set(start) != set(parts) or any(letter not in start[name] for name, letter in parts.items()):
        raise validation("The provided starting key is invalid: The provided key element does not match the schema")
    key = keys.row_key(table, start)
    if index is None:
        return key
    place = keys.index_key(index, start)
    if place is None:
        raise AssertionError("all index keys were just seen")
    return (*place, *key)


def _run(
    core: Core, reading: _Reading, table: Table, index: Index | None, sql: str, arguments: Sequence[Any]
) -> dict[str, Any]:
    with core.reading(table, index) as connection:
        page = _page(connection, sql, arguments, reading)
    usage = capacity.Usage()
    units = capacity.read_units(page.size, consistent=reading.consistent)
    if index is None:
        usage.read(table.name, units)
    else:
        usage.read_index(table.name, index.name, units)
    answer: dict[str, Any] = {"Count": len(page.items), "ScannedCount": page.scanned, **usage.one(reading.mode)}
    if reading.select != "COUNT":
        paths = reading.paths
        answer["Items"] = page.items if paths is None else [project(item, paths) for item in page.items]
    if page.last is not None:
        names = {*table.key_names, *(part.name for part in (index.keys if index else ()))}
        answer["LastEvaluatedKey"] = {name: page.last[name] for name in names}
    return answer


def _page(connection: sqlite3.Connection, sql: str, arguments: Sequence[Any], reading: _Reading) -> _Page:
    page = _Page([])
    item: Item = {}
    # -1 is SQLite's "no limit". A page ends at Limit rows read (not matched), or before it would pass 1 MB.
    for text, size in connection.execute(sql, (*arguments, reading.limit or -1)):
        if page.scanned and page.size + size > PAGE_BYTES:
            page.last = item
            break
        item = rows.load(text)
        page.scanned += 1
        page.size += size
        if reading.filter is None or conditions.holds(reading.filter, item):
            page.items.append(item)
    # DynamoDB gives a LastEvaluatedKey whenever it stopped at Limit, even after the very last row.
    if page.last is None and reading.limit is not None and page.scanned == reading.limit:
        page.last = item
    return page
