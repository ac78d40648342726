"""Tables and indexes: their keys, their SQL names, and reading a CreateTable request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callboard_control.embedded.engine import params
from callboard_control.embedded.engine.errors import bad_value, serialization, unsupported, validation

_TABLE_NAME = re.compile(r"[a-zA-Z0-9_.-]{3,255}", re.ASCII)
_MAX_INDEXES = 20
_MAX_KEY_NAME = 255
_MAX_INCLUDED = 100


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One key attribute: its name and its type (S, N or B)."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Index:
    """A global secondary index; `rows` is its SQL table."""

    name: str
    hash: KeyPart
    range: KeyPart | None
    projection: str
    included: tuple[str, ...]
    rows: str

    @property
    def keys(self) -> tuple[KeyPart, ...]:
        return (self.hash,) if self.range is None else (self.hash, self.range)


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `rows` is its SQL table, `ttl` the attribute items expire by, `created` seconds since the epoch."""

    id: int
    name: str
    hash: KeyPart
    range: KeyPart | None
    indexes: tuple[Index, ...]
    ttl: str | None
    created: float
    # Worked out once: every request asks for them several times.
    rows: str = field(init=False)
    keys: tuple[KeyPart, ...] = field(init=False)
    key_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        keys = (self.hash,) if self.range is None else (self.hash, self.range)
        object.__setattr__(self, "rows", f"t{self.id}")
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "key_names", tuple(part.name for part in keys))

    def index(self, name: str) -> Index:
        """The index called `name`; raises ValidationException."""
        for index in self.indexes:
            if index.name == name:
                return index
        raise validation(f"The table does not have the specified index: {name}")

    def projected(self, index: Index) -> set[str] | None:
        """Names of the attributes an index row holds, None for all."""
        if index.projection == "ALL":
            return None
        return {*self.key_names, *(part.name for part in index.keys), *index.included}


def table_name(request: Mapping[str, Any]) -> str:
    """The checked TableName of a request."""
    name = request.get("TableName")
    if name is None:
        raise validation(params.constraint("null", "tableName", "Member must not be null"))
    if not isinstance(name, str):
        raise serialization("Unexpected value type in payload: TableName takes a string")
    # Since 2024 an ARN is accepted where a name is: of the local table, only its name counts.
    name = name.rpartition(":table/")[2] if name.startswith("arn:") else name
    if not _TABLE_NAME.fullmatch(name):
        if not 3 <= len(name) <= 255:
            raise validation("TableName must be at least 3 characters long and at most 255 characters long")
        raise validation(
            params.constraint(
                f"'{name}'", "tableName", "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
            )
        )
    return name


def parse_create(request: Mapping[str, Any], table_id: int, created: float) -> Table:
    """The table a CreateTable request describes; raises ValidationException for what is wrong or not supported."""
    _refuse_unsupported(request)
    types = _attribute_types(request)
    hash_part, range_part = _key_schema(request.get("KeySchema"), types, "KeySchema")
    used = {part.name for part in (hash_part, range_part) if part}
    indexes: list[Index] = []
    for position, spec in enumerate(params.objects(request, "GlobalSecondaryIndexes")):
        index = _parse_index(spec, types, f"x{table_id}_{position}")
        if any(other.name == index.name for other in indexes):
            raise bad_value(f"Duplicate index name: {index.name}")
        used |= {part.name for part in index.keys}
        indexes.append(index)
    if len(indexes) > _MAX_INDEXES:
        raise bad_value("GlobalSecondaryIndex count exceeds the per-table limit of 20")
    if used != set(types):
        raise bad_value(
            "Number of attributes in KeySchema does not exactly match number of "
            "attributes defined in AttributeDefinitions"
        )
    return Table(table_id, table_name(request), hash_part, range_part, tuple(indexes), None, created)


def _refuse_unsupported(request: Mapping[str, Any]) -> None:
    if request.get("LocalSecondaryIndexes"):
        raise unsupported("LocalSecondaryIndexes")
    if (request.get("StreamSpecification") or {}).get("StreamEnabled"):
        raise unsupported("StreamSpecification")
    if (request.get("SSESpecification") or {}).get("Enabled"):
        raise unsupported("SSESpecification")
    if request.get("DeletionProtectionEnabled"):
        raise unsupported("DeletionProtectionEnabled")
    billing = request.get("BillingMode", "PROVISIONED")
    if billing not in ("PROVISIONED", "PAY_PER_REQUEST"):
        allowed = "Member must satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]"
        raise validation(params.constraint(f"'{billing}'", "billingMode", allowed))
    if billing == "PAY_PER_REQUEST" and request.get("ProvisionedThroughput"):
        raise bad_value(
            "Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"
        )


def _attribute_types(request: Mapping[str, Any]) -> dict[str, str]:
    types: dict[str, str] = {}
    for definition in params.objects(request, "AttributeDefinitions"):
        name, letter = definition.get("AttributeName"), definition.get("AttributeType")
        if not isinstance(name, str) or not 0 < len(name.encode(errors="replace")) <= _MAX_KEY_NAME:
            raise validation(f"A key attribute name must have 1 to {_MAX_KEY_NAME} bytes")
        if letter not in ("S", "N", "B"):
            allowed = "Member must satisfy enum value set: [B, N, S]"
            raise validation(params.constraint(f"'{letter}'", "attributeDefinitions.1.member.attributeType", allowed))
        if name in types:
            raise validation("Cannot have two attributes with the same name")
        types[name] = letter
    return types


def _key_schema(schema: Any, types: Mapping[str, str], where: str) -> tuple[KeyPart, KeyPart | None]:
    if not isinstance(schema, list | tuple) or not 1 <= len(schema) <= 2:
        raise validation(f"{where} must have one HASH and at most one RANGE element")
    parts: list[KeyPart] = []
    for element, due in zip(schema, ("HASH", "RANGE"), strict=False):
        name = element.get("AttributeName") if isinstance(element, Mapping) else None
        if not isinstance(name, str) or element.get("KeyType") != due:
            raise validation(f"Invalid {where}: element {len(parts) + 1} is not a {due} key type")
        if name not in types:
            raise bad_value(
                "Some index key attributes are not defined in AttributeDefinitions. "
                f"Keys: [{name}], AttributeDefinitions: [{', '.join(types)}]"
            )
        parts.append(KeyPart(name, types[name]))
    if len(parts) == 2 and parts[0].name == parts[1].name:
        raise validation("Both the Hash Key and the Range Key element in the KeySchema have the same name")
    return parts[0], parts[1] if len(parts) == 2 else None


def _parse_index(spec: Mapping[str, Any], types: Mapping[str, str], rows: str) -> Index:
    params.only(spec, {"IndexName", "KeySchema", "Projection", "ProvisionedThroughput", "OnDemandThroughput"})
    name = spec.get("IndexName")
    if not isinstance(name, str) or not _TABLE_NAME.fullmatch(name):
        raise validation("IndexName must be at least 3 characters long and at most 255 characters long")
    hash_part, range_part = _key_schema(spec.get("KeySchema"), types, "KeySchema of index " + name)
    projection = spec.get("Projection")
    if not isinstance(projection, Mapping):
        raise bad_value(f"Unknown ProjectionType: null of index {name}")
    kind = projection.get("ProjectionType")
    included = tuple(projection.get("NonKeyAttributes") or ())
    if kind not in ("ALL", "KEYS_ONLY", "INCLUDE"):
        raise bad_value(f"Unknown ProjectionType: {kind}")
    if (kind == "INCLUDE") != bool(included):
        problem = "NonKeyAttributes is not specified" if kind == "INCLUDE" else "NonKeyAttributes is specified"
        raise bad_value(f"ProjectionType is {kind}, but {problem}")
    if len(included) > _MAX_INCLUDED or not all(isinstance(attribute, str) for attribute in included):
        raise validation(f"NonKeyAttributes takes at most {_MAX_INCLUDED} names")
    return Index(name, hash_part, range_part, kind, included, rows)


def dump(table: Table) -> str:
    """The JSON a table is kept as in the catalogue (its id, name and creation time are columns there)."""
    return json.dumps(
        {
            "keys": [[part.name, part.type] for part in table.keys],
            "ttl": table.ttl,
            "indexes": [
                {
                    "name": index.name,
                    "keys": [[part.name, part.type] for part in index.keys],
                    "projection": index.projection,
                    "included": list(index.included),
                    "rows": index.rows,
                }
                for index in table.indexes
            ],
        }
    )


def load(table_id: int, name: str, created: float, spec: str) -> Table:
    """The table `dump` wrote."""
    data = json.loads(spec)
    indexes = tuple(
        Index(entry["name"], *_parts(entry["keys"]), entry["projection"], tuple(entry["included"]), entry["rows"])
        for entry in data["indexes"]
    )
    return Table(table_id, name, *_parts(data["keys"]), indexes, data["ttl"], created)


def _parts(keys: list[list[str]]) -> tuple[KeyPart, KeyPart | None]:
    parts = [KeyPart(name, letter) for name, letter in keys]
    return parts[0], parts[1] if len(parts) == 2 else None


def describe(table: Table, status: str = "ACTIVE") -> dict[str, Any]:
    """A TableDescription. ItemCount and TableSizeBytes are left out: counting would read the whole table."""
    arn = f"arn:aws:dynamodb:local:000000000000:table/{table.name}"
    parts = {part.name: part.type for index in table.indexes for part in index.keys}
    parts |= {part.name: part.type for part in table.keys}
    description: dict[str, Any] = {
        "TableName": table.name,
        "TableStatus": status,
        "TableArn": arn,
        "TableId": f"00000000-0000-0000-0000-{table.id:012}",
        "CreationDateTime": table.created,
        "KeySchema": _described_keys(table.keys),
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": letter} for name, letter in sorted(parts.items())
        ],
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
        "ProvisionedThroughput": {"NumberOfDecreasesToday": 0, "ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
    }
    if table.indexes:
        description["GlobalSecondaryIndexes"] = [_described_index(index, arn) for index in table.indexes]
    return description


def _described_keys(keys: tuple[KeyPart, ...]) -> list[dict[str, str]]:
    return [{"AttributeName": part.name, "KeyType": kind} for part, kind in zip(keys, ("HASH", "RANGE"), strict=False)]


def _described_index(index: Index, arn: str) -> dict[str, Any]:
    projection: dict[str, Any] = {"ProjectionType": index.projection}
    if index.included:
        projection["NonKeyAttributes"] = list(index.included)
    return {
        "IndexName": index.name,
        "IndexStatus": "ACTIVE",
        "IndexArn": f"{arn}/index/{index.name}",
        "KeySchema": _described_keys(index.keys),
        "Projection": projection,
        "ProvisionedThroughput": {"NumberOfDecreasesToday": 0, "ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
    }
