"""BatchGetItem and BatchWriteItem: many independent requests in one call."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from callboard_control.embedded.engine import capacity, keys, params, rows, schema
from callboard_control.embedded.engine.core import Core
from callboard_control.embedded.engine.errors import serialization, validation
from callboard_control.embedded.engine.expressions.projections import project
from callboard_control.embedded.engine.expressions.scope import Scope
from callboard_control.embedded.engine.expressions.syntax import Path
from callboard_control.embedded.engine.operations import writes
from callboard_control.embedded.engine.operations.writes import Write
from callboard_control.embedded.engine.schema import Table
from callboard_control.embedded.engine.storage import Plan
from callboard_control.embedded.engine.values import Item

_MAX_GETS = 100
_MAX_WRITES = 25
_MAX_BYTES = 16 * 1024 * 1024
_KEYS_AND_ATTRIBUTES = {"Keys", "ConsistentRead", "ProjectionExpression", "ExpressionAttributeNames"}
_DUPLICATES = "Provided list of item keys contains duplicates"


def batch_get_item(core: Core, request: Mapping[str, Any], *, unprocessed: bool = False) -> dict[str, Any]:
    """BatchGetItem. Past 16 MB the rest is given back as UnprocessedKeys; with `unprocessed`, the second half is (a
    fault).
    """
    params.only(request, {"RequestItems", "ReturnConsumedCapacity"})
    mode = capacity.mode(request)
    wanted = _wanted(request)
    count = sum(len(spec["Keys"]) for spec, _ in wanted.values())
    if count > _MAX_GETS:
        raise validation("Too many items requested for the BatchGetItem call")
    budget = (count + 1) // 2 if unprocessed else count
    found: dict[str, list[Item]] = {name: [] for name in wanted}
    left: dict[str, Any] = {}
    usage = capacity.Usage()
    size = 0
    with core.storage.read() as connection:
        for name, spec, paths, given, key in _located(core, connection, wanted):
            stored = rows.find(connection, core.readable(connection, name), key) if budget > 0 else None
            if budget <= 0 or (stored is not None and size + stored.size > _MAX_BYTES):
                budget = 0
                left.setdefault(name, {**spec, "Keys": []})["Keys"].append(given)
                continue
            budget -= 1
            usage.read(
                name, capacity.read_units(stored.size if stored else 0, consistent=bool(spec.get("ConsistentRead")))
            )
            if stored is not None:
                size += stored.size
                found[name].append(stored.item if paths is None else project(stored.item, paths))
    return {"Responses": found, "UnprocessedKeys": left, **usage.many(mode)}


_Wanted = dict[str, tuple[Mapping[str, Any], tuple[Path, ...] | None]]


def _wanted(request: Mapping[str, Any]) -> _Wanted:
    wanted: _Wanted = {}
    for name, spec in _request_items(request).items():
        if not isinstance(spec, Mapping):
            raise serialization("Unexpected value type in payload: RequestItems takes objects")
        params.only(spec, _KEYS_AND_ATTRIBUTES)
        params.flag(spec, "ConsistentRead", default=False)
        if not params.objects(spec, "Keys"):
            rule = "Member must have length greater than or equal to 1"
            raise validation(params.constraint("'[]'", f"requestItems.{name}.member.keys", rule))
        scope = Scope(spec)
        paths = scope.projection()
        scope.finish()
        wanted[schema.table_name({"TableName": name})] = (spec, paths)
    return wanted


def _request_items(request: Mapping[str, Any]) -> Mapping[str, Any]:
    items = params.mapping(request, "RequestItems")
    if not items:
        rule = "Member must have length greater than or equal to 1"
        raise validation(params.constraint("'{}'", "requestItems", rule))
    return items


def _located(
    core: Core, connection: sqlite3.Connection, wanted: _Wanted
) -> Iterator[tuple[str, Mapping[str, Any], tuple[Path, ...] | None, Mapping[str, Any], keys.RowKey]]:
    """Every key with its table, all checked before the first is read."""
    located = []
    for name, (spec, paths) in wanted.items():
        table = core.readable(connection, name)
        found = [keys.given_key(table, key)[1] for key in spec["Keys"]]
        if len(set(found)) < len(found):
            raise validation(_DUPLICATES)
        located += [(name, spec, paths, given, key) for given, key in zip(spec["Keys"], found, strict=True)]
    return iter(located)


def batch_write_item(core: Core, request: Mapping[str, Any], *, unprocessed: bool = False) -> dict[str, Any]:
    """BatchWriteItem: puts and deletes without conditions. With `unprocessed`, the second half is given back (a
    fault).
    """
    params.only(request, {"RequestItems", "ReturnConsumedCapacity", "ReturnItemCollectionMetrics"})
    params.choice(request, "ReturnItemCollectionMetrics", ("SIZE", "NONE"), "NONE")
    mode = capacity.mode(request)
    asked = list(_asked(request))
    if len(asked) > _MAX_WRITES:
        raise validation("Too many items requested for the BatchWriteItem call")
    done = (len(asked) + 1) // 2 if unprocessed else len(asked)

    def work(connection: sqlite3.Connection) -> Plan:
        usage = capacity.Usage()
        changes: list[rows.Change] = []
        seen: set[tuple[str, keys.RowKey]] = set()
        size = 0
        tables = core.catalogue.all(connection)
        for position, (write, _) in enumerate(asked):
            table = tables[write.table_name]
            key = _key(table, write)
            if (table.name, key) in seen:
                raise validation(_DUPLICATES)
            seen.add((table.name, key))
            changed = write.decide(table, key, rows.find(connection, table, key))
            size += changed.after.size if changed.after else 0
            if size > _MAX_BYTES:
                raise validation("Size of the BatchWriteItem request exceeds the limit of 16 MB")
            if position < done:
                changes.append(changed)
                usage.write(changed)
        statements = [statement for changed in changes for statement in rows.statements(changed)]
        return Plan({"UnprocessedItems": _given_back(asked[done:]), **usage.many(mode)}, statements, changes)

    return core.storage.write(work)


def _key(table: Table, write: Write) -> keys.RowKey:
    """The row of a write; a batch has one message for whatever is wrong with a key's attributes."""
    if any(part.type not in write.source.get(part.name, {}) for part in table.keys):
        raise validation(keys.WRONG_KEY)
    return write.locate(table)


def _asked(request: Mapping[str, Any]) -> Iterator[tuple[Write, Mapping[str, Any]]]:
    for name, requests in _request_items(request).items():
        if not params.objects({"requests": requests}, "requests"):
            raise validation(params.constraint("'[]'", f"requestItems.{name}.member", params.length(25)))
        for entry in requests:
            if set(entry) == {"PutRequest"}:
                part = params.mapping(entry, "PutRequest")
                params.only(part, {"Item"})
                yield writes.read(writes.PUT, {"TableName": name, **part}), entry
            elif set(entry) == {"DeleteRequest"}:
                part = params.mapping(entry, "DeleteRequest")
                params.only(part, {"Key"})
                yield writes.read(writes.DELETE, {"TableName": name, **part}), entry
            else:
                raise validation("An entry of RequestItems takes exactly one of PutRequest and DeleteRequest")


def _given_back(asked: list[tuple[Write, Mapping[str, Any]]]) -> dict[str, list[Mapping[str, Any]]]:
    left: dict[str, list[Mapping[str, Any]]] = {}
    for write, entry in asked:
        left.setdefault(write.table_name, []).append(entry)
    return left
