"""Paimon's column types: read from a schema's JSON, printed as SQL, mapped to Arrow.

A simple type is a string such as ``DECIMAL(10, 2) NOT NULL``; a nested one is an object that names its parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from packstone.errors import InvalidInputError

MAX_LENGTH: Final = 2**31 - 1
FIELD_ID_KEY: Final = b"PARQUET:field_id"


class TypeRoot(StrEnum):
    """The families of types."""

    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BOOLEAN = "BOOLEAN"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DECIMAL = "DECIMAL"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    VARIANT = "VARIANT"
    BLOB = "BLOB"
    ARRAY = "ARRAY"
    VECTOR = "VECTOR"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"


NESTED: Final = frozenset({TypeRoot.ARRAY, TypeRoot.VECTOR, TypeRoot.MULTISET, TypeRoot.MAP, TypeRoot.ROW})
# Types whose bytes in a row only Paimon's own readers can decode; statistics hold null for them.
OPAQUE: Final = NESTED | {TypeRoot.VARIANT, TypeRoot.BLOB}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataField:
    """One column, or one field of a row: matched by its id wherever names may have changed."""

    id: int
    name: str
    type: DataType
    description: str | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataType:
    """A type with its parameters; those that its root does not have are None."""

    root: TypeRoot
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    element: DataType | None = None
    key: DataType | None = None
    value: DataType | None = None
    fields: tuple[DataField, ...] = ()

    @property
    def is_atomic(self) -> bool:
        """Whether a key, a partition or a statistic can hold a value of it."""
        return self.root not in OPAQUE

    def __str__(self) -> str:
        return _sql(self) + ("" if self.nullable else " NOT NULL")


def parse_data_type(json_type: object) -> DataType:
    """Read a type as a schema file writes it; InvalidInputError for a type this version does not know."""
    if isinstance(json_type, str):
        return _parse_atomic(json_type)
    if isinstance(json_type, Mapping) and isinstance(json_type.get("type"), str):
        return _parse_nested(json_type)
    raise InvalidInputError(f"{json_type!r} is not a Paimon type.", value=str(json_type))


def parse_data_field(json_field: Mapping[str, Any]) -> DataField:
    """Read one column of a schema file."""
    return DataField(
        id=int(json_field["id"]),
        name=str(json_field["name"]),
        type=parse_data_type(json_field["type"]),
        description=json_field.get("description"),
    )


_ATOMIC: Final = re.compile(
    r"(?P<name>[A-Z_]+(?: PRECISION)?)\s*(?:\(\s*(?P<first>[0-9]+)\s*(?:,\s*(?P<second>[0-9]+)\s*)?\))?"
    r"(?P<zone> WITHOUT TIME ZONE| WITH LOCAL TIME ZONE| WITH TIME ZONE)?(?P<null> NOT NULL| NULL)?"
)
_ALIASES: Final = {
    "STRING": TypeRoot.VARCHAR,
    "BYTES": TypeRoot.VARBINARY,
    "INTEGER": TypeRoot.INT,
    "NUMERIC": TypeRoot.DECIMAL,
    "DEC": TypeRoot.DECIMAL,
    "DOUBLE PRECISION": TypeRoot.DOUBLE,
}
_LENGTHS: Final = {TypeRoot.CHAR: 1, TypeRoot.VARCHAR: 1, TypeRoot.BINARY: 1, TypeRoot.VARBINARY: 1}
_PRECISIONS: Final = {TypeRoot.DECIMAL: 10, TypeRoot.TIME: 0, TypeRoot.TIMESTAMP: 6, TypeRoot.TIMESTAMP_LTZ: 6}


def _parse_atomic(text: str) -> DataType:
    match = _ATOMIC.fullmatch(" ".join(text.upper().split()))
    name = match["name"] if match else ""
    if match is None or not (name in _ALIASES or name in TypeRoot.__members__) or name in NESTED:
        raise InvalidInputError(f"{text!r} is not a Paimon type that this version knows.", value=text)
    root = _ALIASES.get(name) or TypeRoot(name)
    if root is TypeRoot.TIMESTAMP and match["zone"] == " WITH LOCAL TIME ZONE":
        root = TypeRoot.TIMESTAMP_LTZ
    first = int(match["first"]) if match["first"] else None
    nullable = match["null"] != " NOT NULL"
    if name in {"STRING", "BYTES"}:
        return DataType(root=root, nullable=nullable, length=MAX_LENGTH)
    if root in _LENGTHS:
        return DataType(root=root, nullable=nullable, length=_LENGTHS[root] if first is None else first)
    if root in _PRECISIONS:
        precision = _PRECISIONS[root] if first is None else first
        scale = int(match["second"] or 0) if root is TypeRoot.DECIMAL else None
        return DataType(root=root, nullable=nullable, precision=precision, scale=scale)
    return DataType(root=root, nullable=nullable)


def _parse_nested(json_type: Mapping[str, Any]) -> DataType:
    text = json_type["type"].upper()
    word = text.split()[0]
    nullable = "NOT NULL" not in text
    match word:
        case "ARRAY" | "MULTISET":
            return DataType(root=TypeRoot(word), nullable=nullable, element=parse_data_type(json_type["element"]))
        case "VECTOR":
            element = parse_data_type(json_type["element"])
            return DataType(root=TypeRoot.VECTOR, nullable=nullable, element=element, length=int(json_type["length"]))
        case "MAP":
            key, value = parse_data_type(json_type["key"]), parse_data_type(json_type["value"])
            return DataType(root=TypeRoot.MAP, nullable=nullable, key=key, value=value)
        case "ROW":
            fields = tuple(parse_data_field(field) for field in json_type["fields"])
            return DataType(root=TypeRoot.ROW, nullable=nullable, fields=fields)
        case _:
            raise InvalidInputError(f"{text!r} is not a Paimon type that this version knows.", value=text)


def _sql(data_type: DataType) -> str:
    match data_type.root:
        case TypeRoot.VARCHAR | TypeRoot.VARBINARY if data_type.length == MAX_LENGTH:
            return "STRING" if data_type.root is TypeRoot.VARCHAR else "BYTES"
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return f"{data_type.root}({data_type.length})"
        case TypeRoot.DECIMAL:
            return f"DECIMAL({data_type.precision}, {data_type.scale})"
        case TypeRoot.TIME | TypeRoot.TIMESTAMP:
            return f"{data_type.root}({data_type.precision})"
        case TypeRoot.TIMESTAMP_LTZ:
            return f"TIMESTAMP({data_type.precision}) WITH LOCAL TIME ZONE"
        case TypeRoot.ARRAY | TypeRoot.MULTISET:
            return f"{data_type.root}<{data_type.element}>"
        case TypeRoot.VECTOR:
            return f"VECTOR<{data_type.element}, {data_type.length}>"
        case TypeRoot.MAP:
            return f"MAP<{data_type.key}, {data_type.value}>"
        case TypeRoot.ROW:
            return f"ROW<{', '.join(f'`{field.name}` {field.type}' for field in data_type.fields)}>"
        case _:
            return str(data_type.root)


_PLAIN_ARROW: Final = {
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.BLOB: pa.large_binary(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),  # Paimon keeps milliseconds whatever the precision
    TypeRoot.VARIANT: pa.struct([pa.field(name, pa.binary(), nullable=False) for name in ("value", "metadata")]),
}


def time_unit(data_type: DataType) -> str:
    """Arrow's unit of a timestamp: the coarsest that Java writes and that holds the precision."""
    precision = data_type.precision or 0
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"  # fractional digits of the units


def to_arrow(data_type: DataType) -> Any:
    """Arrow's type for it; whether it is nullable belongs to the Arrow field."""
    if data_type.root in _PLAIN_ARROW:
        return _PLAIN_ARROW[data_type.root]
    match data_type:
        case DataType(root=TypeRoot.DECIMAL):
            return pa.decimal128(data_type.precision, data_type.scale)
        case DataType(root=TypeRoot.TIMESTAMP):
            return pa.timestamp(time_unit(data_type))
        case DataType(root=TypeRoot.TIMESTAMP_LTZ):
            return pa.timestamp(time_unit(data_type), tz="UTC")
        case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
            return pa.list_(pa.field("element", to_arrow(element), element.nullable))
        case DataType(root=TypeRoot.VECTOR, element=DataType() as element, length=int() as length):
            return pa.list_(pa.field("element", to_arrow(element), element.nullable), length)
        case DataType(root=TypeRoot.MULTISET, element=DataType() as element):
            return pa.map_(to_arrow(element), pa.field("value", pa.int32(), nullable=False))
        case DataType(root=TypeRoot.MAP, key=DataType() as key, value=DataType() as value):
            return pa.map_(to_arrow(key), pa.field("value", to_arrow(value), value.nullable))
        case _:
            return pa.struct([to_arrow_field(field) for field in data_type.fields])


def to_arrow_field(field: DataField) -> Any:
    """Arrow's field, with Paimon's id where Parquet keeps it."""
    metadata = {FIELD_ID_KEY: str(field.id).encode()}
    return pa.field(field.name, to_arrow(field.type), field.type.nullable, metadata)
