"""TransactWriteItems and TransactGetItems: all or nothing, with one reason an action when it is nothing."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from callboard_control.embedded.engine import capacity, keys, params, rows, schema
from callboard_control.embedded.engine.core import Core
from callboard_control.embedded.engine.errors import EngineError, serialization, transaction_canceled, validation
from callboard_control.embedded.engine.expressions.projections import project
from callboard_control.embedded.engine.expressions.scope import Scope
from callboard_control.embedded.engine.operations import writes
from callboard_control.embedded.engine.operations.writes import Write
from callboard_control.embedded.engine.rows import Change
from callboard_control.embedded.engine.storage import Plan, Statement

_MAX_ACTIONS = 100
_MAX_BYTES = 4 * 1024 * 1024
_TOKEN_SECONDS = 600  # "a client request token is valid for 10 minutes after the first request that uses it"
_COMMON = {
    "TableName",
    "ConditionExpression",
    "ExpressionAttributeNames",
    "ExpressionAttributeValues",
    "ReturnValuesOnConditionCheckFailure",
}
_ACTIONS = {
    writes.PUT: _COMMON | {"Item"},
    writes.UPDATE: _COMMON | {"Key", "UpdateExpression"},
    writes.DELETE: _COMMON | {"Key"},
    writes.CHECK: _COMMON | {"Key"},
}
_REQUIRED = {writes.UPDATE: "UpdateExpression", writes.CHECK: "ConditionExpression"}
_REASONS = {"ConditionalCheckFailedException": "ConditionalCheckFailed", "ValidationException": "ValidationError"}
_DUPLICATE = "Transaction request cannot include multiple operations on one item"


def transact_write_items(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """TransactWriteItems. With a ClientRequestToken, a repeat within 10 minutes answers again and changes nothing."""
    params.only(
        request, {"TransactItems", "ClientRequestToken", "ReturnConsumedCapacity", "ReturnItemCollectionMetrics"}
    )
    params.choice(request, "ReturnItemCollectionMetrics", ("SIZE", "NONE"), "NONE")
    mode = capacity.mode(request)
    token = _token(request)
    asked = [_action(entry) for entry in _entries(request)]
    if sum(write.payload for write in asked) > _MAX_BYTES:
        raise validation("Transaction payload size cannot exceed 4 MB")
    digest = _digest(request)

    def work(connection: sqlite3.Connection) -> Plan:
        located = _located(core, connection, asked)
        now = core.clock()
        if token is not None and (seen := _seen(connection, token, digest, now)) is not None:
            return Plan(_repeated(seen, mode))
        changes = _decide(connection, located)
        usage = capacity.Usage()
        for changed in changes:
            usage.write(changed, factor=2)
        statements = [statement for changed in changes for statement in _statements(changed)]
        if token is not None:
            statements += _remember(token, digest, now, changes)
        return Plan(usage.many(mode, transaction=True), statements, changes)

    return core.storage.write(work)


def _entries(request: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = params.objects(request, "TransactItems")
    if not 1 <= len(entries) <= _MAX_ACTIONS:
        raise validation(params.constraint(f"'[{len(entries)} items]'", "transactItems", params.length(_MAX_ACTIONS)))
    return entries


def _action(entry: Mapping[str, Any]) -> Write:
    given = [name for name, value in entry.items() if value is not None]
    if len(given) != 1:
        raise validation("TransactItems can only contain one of Check, Put, Update or Delete")
    verb = given[0]
    if verb not in _ACTIONS:
        raise validation(f"TransactItems can only contain one of Check, Put, Update or Delete, not {verb}")
    part = params.mapping(entry, verb)
    params.only(part, _ACTIONS[verb])
    required = _REQUIRED.get(verb)
    if required is not None and part.get(required) is None:
        path = f"transactItems.1.member.{verb[0].lower()}{verb[1:]}.{required[0].lower()}{required[1:]}"
        raise validation(params.constraint("null", path, "Member must not be null"))
    return writes.read(verb, part)


_Located = list[tuple[Write, schema.Table, keys.RowKey]]


def _located(core: Core, connection: sqlite3.Connection, asked: list[Write]) -> _Located:
    """Where each action goes. The first that does not suit its table cancels the transaction before any is tried."""
    located: _Located = []
    seen: set[tuple[str, keys.RowKey]] = set()
    tables = core.catalogue.all(connection)
    for write in asked:
        keys.refuse_empty(tables[write.table_name], write.source)  # an error of the request, seen on AWS
    for position, write in enumerate(asked):
        table = tables[write.table_name]
        try:
            key = write.locate(table)
        except EngineError as error:
            reasons: list[dict[str, Any]] = [{"Code": "None"} for _ in asked]
            reasons[position] = _reason(error)
            raise transaction_canceled(reasons) from None
        if (table.name, key) in seen:
            raise validation(_DUPLICATE)
        seen.add((table.name, key))
        located.append((write, table, key))
    return located


def _decide(connection: sqlite3.Connection, located: _Located) -> list[Change]:
    changes: list[Change] = []
    reasons: list[dict[str, Any]] = []
    for write, table, key in located:
        try:
            changes.append(write.decide(table, key, rows.find(connection, table, key)))
            reasons.append({"Code": "None"})
        except EngineError as error:
            reasons.append(_reason(error))
    if len(changes) < len(located):
        raise transaction_canceled(reasons)
    return changes


def _reason(error: EngineError) -> dict[str, Any]:
    """How the error of one action is told among the reasons; raises what concerns the request as a whole."""
    if error.code not in _REASONS:
        raise error
    return {"Code": _REASONS[error.code], "Message": error.message, **error.fields}


def _statements(changed: Change) -> list[Statement]:
    # A condition check leaves before and after the same object.
    return [] if changed.after is changed.before else list(rows.statements(changed))


# Request tokens


def _token(request: Mapping[str, Any]) -> str | None:
    token = request.get("ClientRequestToken")
    if token is None:
        return None
    if not isinstance(token, str):
        raise serialization("Unexpected value type in payload: ClientRequestToken takes a string")
    if not 1 <= len(token) <= 36:
        raise validation(params.constraint(f"'{token}'", "clientRequestToken", params.length(36)))
    return token


def _digest(request: Mapping[str, Any]) -> bytes:
    """A fingerprint of everything in the request but the token."""
    rest = {name: value for name, value in request.items() if name != "ClientRequestToken"}
    return hashlib.blake2b(json.dumps(rest, sort_keys=True, default=list).encode(), digest_size=16).digest()


def _seen(connection: sqlite3.Connection, token: str, digest: bytes, now: float) -> str | None:
    """What is remembered of this very request, None when it is new."""
    row = connection.execute(
        "SELECT digest, created, repeat_units FROM request_tokens WHERE token = ?", (token,)
    ).fetchone()
    if row is None or now - row[1] > _TOKEN_SECONDS:
        return None
    if row[0] != digest:
        raise EngineError(
            "IdempotentParameterMismatchException",
            "The request uses the same client token as a previous, but non-identical request. Do not reuse a client "
            "token with different requests, unless the requests are identical",
        )
    return str(row[2])


def _remember(token: str, digest: bytes, now: float, changes: list[Change]) -> list[Statement]:
    """Keep the token, and what a repeat costs: reading what was written, by the sizes of the first time."""
    units: dict[str, float] = {}
    for changed in changes:
        size = max(stored.size if stored else 0 for stored in (changed.before, changed.after))
        name = changed.table.name
        units[name] = units.get(name, 0.0) + 2 * capacity.read_units(size, consistent=True)
    return [
        ("DELETE FROM request_tokens WHERE created < ?", (now - _TOKEN_SECONDS,)),
        (
            "INSERT OR REPLACE INTO request_tokens (token, digest, created, repeat_units) VALUES (?, ?, ?, ?)",
            (token, digest, now, json.dumps(units)),
        ),
    ]


def _repeated(units: str, mode: str) -> dict[str, Any]:
    usage = capacity.Usage()
    for name, read in json.loads(units).items():
        usage.read(name, read)
    return usage.many(mode, transaction=True)


# Reading


def transact_get_items(core: Core, request: Mapping[str, Any]) -> dict[str, Any]:
    """TransactGetItems: all items as of one moment."""
    params.only(request, {"TransactItems", "ReturnConsumedCapacity"})
    mode = capacity.mode(request)
    asked = []
    for entry in _entries(request):
        params.only(entry, {"Get"})
        part = params.mapping(entry, "Get")
        params.only(part, {"TableName", "Key", "ProjectionExpression", "ExpressionAttributeNames"})
        scope = Scope(part)
        paths = scope.projection()
        scope.finish()
        asked.append((schema.table_name(part), params.mapping(part, "Key"), paths))
    usage = capacity.Usage()
    responses: list[dict[str, Any]] = []
    size = 0
    with core.storage.read(snapshot=True) as connection:
        seen: set[tuple[str, keys.RowKey]] = set()
        tables = core.catalogue.all(connection)
        for name, given, paths in asked:
            table = tables[name]
            _, key = keys.given_key(table, given)
            if (name, key) in seen:
                raise validation(_DUPLICATE)
            seen.add((name, key))
            stored = rows.find(connection, table, key)
            size += stored.size if stored else 0
            usage.read(name, 2 * capacity.read_units(stored.size if stored else 0, consistent=True))
            if stored is None:
                responses.append({})
            else:
                responses.append({"Item": stored.item if paths is None else project(stored.item, paths)})
    if size > _MAX_BYTES:
        raise validation("Total size of the items in the transaction exceeds the limit of 4 MB")
    return {"Responses": responses, **usage.many(mode, transaction=True)}
