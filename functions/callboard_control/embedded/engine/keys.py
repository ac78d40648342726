"""Keys: from an item to the bytes its row is found by, with DynamoDB's rules for each part."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from callboard_control.embedded.engine import number, values
from callboard_control.embedded.engine.errors import bad_value, empty_key, serialization, validation
from callboard_control.embedded.engine.schema import Index, KeyPart, Table
from callboard_control.embedded.engine.values import Item, Value

RowKey = tuple[bytes, bytes]  # hash and range; the range is empty where the table has none
IndexKey = tuple[bytes, bytes]

_MAX_HASH_BYTES = 2048
_MAX_RANGE_BYTES = 1024
WRONG_KEY = "The provided key element does not match the schema"


def encode(value: Value) -> bytes:
    """Bytes that order as DynamoDB orders the key values of one type."""
    letter, content = next(iter(value.items()))
    if letter == "N":
        return number.sort_key(content)
    return base64.b64decode(content) if letter == "B" else values.utf8(content)


def given_key(table: Table, key: Any) -> tuple[Item, RowKey]:
    """The Key parameter of a request: exactly the table's key attributes, of the right types."""
    if not isinstance(key, Mapping):
        raise serialization("Unexpected value type in payload: Key takes an object")
    item = values.checked_item(key)
    if set(item) != set(table.key_names) or any(part.type not in item[part.name] for part in table.keys):
        raise validation(WRONG_KEY)
    return item, row_key(table, item)


def item_key(table: Table, item: Item) -> RowKey:
    """The key inside an item that is to be put."""
    for part in table.keys:
        if part.name not in item:
            raise bad_value(f"Missing the key {part.name} in the item")
        if part.type not in item[part.name]:
            actual = values.kind(item[part.name])
            raise bad_value(f"Type mismatch for key {part.name} expected: {part.type} actual: {actual}")
    return row_key(table, item)


def row_key(table: Table, item: Mapping[str, Value]) -> RowKey:
    """The checked bytes of the key of an item whose key types are right."""
    refuse_empty(table, item)
    hash_bytes = encode(item[table.hash.name])
    range_bytes = b"" if table.range is None else encode(item[table.range.name])
    _check_sizes(hash_bytes, range_bytes)
    return hash_bytes, range_bytes


def refuse_empty(table: Table, item: Mapping[str, Value]) -> None:
    """Refuse an empty string or binary value of a key attribute."""
    for part in table.keys:
        if item.get(part.name, {}).get(part.type) == "":
            raise empty_key("string" if part.type == "S" else "binary", f"Key: {part.name}")


def _check_sizes(hash_bytes: bytes, range_bytes: bytes) -> None:
    if len(hash_bytes) > _MAX_HASH_BYTES:
        raise bad_value(f"Size of hashkey has exceeded the maximum size limit of{_MAX_HASH_BYTES} bytes")
    if len(range_bytes) > _MAX_RANGE_BYTES:
        raise bad_value(f"Aggregated size of all range keys has exceeded the size limit of {_MAX_RANGE_BYTES} bytes")


def index_key(index: Index, item: Mapping[str, Value]) -> IndexKey | None:
    """Where an item stands in an index; None when it has not all of the index's key attributes (a sparse index)."""
    # Every key attribute that is there is checked, also when another one is missing.
    found = {part: value for part in index.keys if (value := item.get(part.name)) is not None}
    encoded = [_index_part(index, part, value) for part, value in found.items()]
    if len(encoded) < len(index.keys):
        return None
    hash_bytes, range_bytes = encoded if len(encoded) == 2 else (encoded[0], b"")
    _check_sizes(hash_bytes, range_bytes)
    return hash_bytes, range_bytes


def _index_part(index: Index, part: KeyPart, value: Value) -> bytes:
    if part.type not in value:
        raise bad_value(
            f"Type mismatch for Index Key {part.name} Expected: {part.type} Actual: {values.kind(value)} "
            f"IndexName: {index.name}"
        )
    if part.type != "N" and not value[part.type]:
        what = "string" if part.type == "S" else "binary"
        detail = "A value specified for a secondary index key is not supported. "
        raise empty_key(what, f"IndexName: {index.name}, IndexKey: {part.name}", detail=detail)
    return encode(value)
