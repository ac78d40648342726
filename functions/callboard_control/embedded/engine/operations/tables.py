"""CreateTable, DescribeTable, DeleteTable, ListTables, UpdateTimeToLive, DescribeTimeToLive, and the TTL sweep."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Mapping
from typing import Any

from callboard_control.embedded.engine import params, rows, schema
from callboard_control.embedded.engine.core import Core
from callboard_control.embedded.engine.errors import EngineError, table_not_found, unsupported, validation
from callboard_control.embedded.engine.rows import Stored
from callboard_control.embedded.engine.schema import Table
from callboard_control.embedded.engine.storage import Plan, Statement

_CREATE = {
    "TableName",
    "AttributeDefinitions",
    "KeySchema",
    "GlobalSecondaryIndexes",
    "LocalSecondaryIndexes",
    "BillingMode",
    "ProvisionedThroughput",
    "StreamSpecification",
    "SSESpecification",
    "DeletionProtectionEnabled",
    "Tags",
}
# DynamoDB leaves items alone whose TTL lies more than five years back: such a number is more likely no time at all.
_TTL_REACH = 5 * 365 * 24 * 3600


def create_table(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """CreateTable. The table is ACTIVE at once."""
    params.only(request, _CREATE)
    if request.get("Tags"):
        raise unsupported("Tags")
    name = schema.table_name(request)
    created = core.clock()
    schema.parse_create(request, 0, created)

    def work(connection: sqlite3.Connection) -> Plan:
        if name in core.catalogue.all(connection):
            raise EngineError("ResourceInUseException", f"Table already exists: {name}")
        # AUTOINCREMENT: an id is never used twice, so a statement made for a dropped table cannot hit its successor.
        row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'catalogue'").fetchone()
        table = schema.parse_create(request, (row[0] if row else 0) + 1, created)
        entry: Statement = (
            "INSERT INTO catalogue (id, name, created, spec) VALUES (?, ?, ?, ?)",
            (table.id, name, created, schema.dump(table)),
        )
        core.catalogue.forget()
        return Plan({"TableDescription": schema.describe(table)}, [*rows.create_statements(table), entry])

    return core.storage.write(work)


def describe_table(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeTable."""
    params.only(request, {"TableName"})
    return {"Table": schema.describe(_table(core, schema.table_name(request)))}


def delete_table(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """DeleteTable. The table is gone at once."""
    params.only(request, {"TableName"})
    name = schema.table_name(request)

    def work(connection: sqlite3.Connection) -> Plan:
        table = _named(core, connection, name)
        core.catalogue.forget()
        gone: Statement = ("DELETE FROM catalogue WHERE id = ?", (table.id,))
        return Plan({"TableDescription": schema.describe(table, "DELETING")}, [*rows.drop_statements(table), gone])

    return core.storage.write(work)


def list_tables(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """ListTables, in name order."""
    params.only(request, {"ExclusiveStartTableName", "Limit"})
    limit = params.count(request, "Limit", most=100) or 100
    after = request.get("ExclusiveStartTableName") or ""
    with core.storage.read() as connection:
        names = sorted(name for name in core.catalogue.all(connection) if name > after)
    answer: dict[str, Any] = {"TableNames": names[:limit]}
    if len(names) > limit:
        answer["LastEvaluatedTableName"] = names[limit - 1]
    return answer


def update_time_to_live(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """UpdateTimeToLive: items expire by a number of seconds in an attribute, or no more."""
    params.only(request, {"TableName", "TimeToLiveSpecification"})
    name = schema.table_name(request)
    wish = params.mapping(request, "TimeToLiveSpecification")
    params.only(wish, {"AttributeName", "Enabled"})
    enabled = params.flag(wish, "Enabled", default=False)
    attribute = wish.get("AttributeName")
    if not isinstance(attribute, str) or not 0 < len(attribute.encode(errors="replace")) <= 255:
        raise validation("TimeToLiveSpecification AttributeName must have 1 to 255 bytes")

    def work(connection: sqlite3.Connection) -> Plan:
        table = _named(core, connection, name)
        _check_ttl_change(table, attribute, enabled=enabled)
        changed = dataclasses.replace(table, ttl=attribute if enabled else None)
        core.catalogue.forget()
        return Plan({"TimeToLiveSpecification": dict(wish)}, _ttl_statements(connection, changed))

    return core.storage.write(work)


def _check_ttl_change(table: Table, attribute: str, *, enabled: bool) -> None:
    if enabled and table.ttl is not None:
        raise validation("TimeToLive is already enabled")
    if not enabled and table.ttl is None:
        raise validation("TimeToLive is already disabled")
    if not enabled and table.ttl != attribute:
        raise validation(f"TimeToLive is active on a different AttributeName: current AttributeName is {table.ttl}")


def _ttl_statements(connection: sqlite3.Connection, table: Table) -> list[Statement]:
    """Record the setting and bring the `expires` column in line; the index is there only while the table has a TTL."""
    statements: list[Statement] = [
        ("UPDATE catalogue SET spec = ? WHERE id = ?", (schema.dump(table), table.id)),
        (f"UPDATE {table.rows} SET expires = NULL WHERE expires IS NOT NULL", ()),
        (f"DROP INDEX IF EXISTS {table.rows}_expires", ()),
    ]
    if table.ttl is None:
        return statements
    for hash_bytes, range_bytes, text in connection.execute(f"SELECT h, r, item FROM {table.rows}"):
        seconds = rows.expires(table, rows.load(text))
        if seconds is not None:
            statements.append(
                (f"UPDATE {table.rows} SET expires = ? WHERE h = ? AND r = ?", (seconds, hash_bytes, range_bytes))
            )
    index = f"CREATE INDEX {table.rows}_expires ON {table.rows} (expires) WHERE expires IS NOT NULL"
    return [*statements, (index, ())]


def describe_time_to_live(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeTimeToLive."""
    params.only(request, {"TableName"})
    table = _table(core, schema.table_name(request))
    if table.ttl is None:
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
    return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": table.ttl}}


def sweep_expired(core: Core, limit: int) -> int:
    """Delete up to `limit` items whose time to live has passed; return how many. Not an operation of DynamoDB's: it
    does so by itself, at its leisure.
    """
    now = int(core.clock())

    def work(connection: sqlite3.Connection) -> Plan:
        changes: list[rows.Change] = []
        for table in core.catalogue.all(connection).values():
            if table.ttl is None:
                continue
            due = connection.execute(
                f"SELECT h, r, item, size FROM {table.rows} WHERE expires < ? AND expires >= ? "
                "ORDER BY expires LIMIT ?",
                (now, now - _TTL_REACH, limit - len(changes)),
            )
            for hash_bytes, range_bytes, text, size in due.fetchall():
                stored = Stored(rows.load(text), size)
                changes.append(rows.change(table, (hash_bytes, range_bytes), stored, None, too_large=""))
        statements = [statement for changed in changes for statement in rows.statements(changed)]
        return Plan({"Deleted": len(changes)}, statements, changes)

    return int(core.storage.write(work)["Deleted"])


def _table(core: Core, name: str) -> Table:
    with core.storage.read() as connection:
        return _named(core, connection, name)


def _named(core: Core, connection: sqlite3.Connection, name: str) -> Table:
    table = core.catalogue.all(connection).get(name)
    if table is None:
        raise table_not_found(name)
    return table
