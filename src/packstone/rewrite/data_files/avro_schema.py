"""Avro schemas and Arrow types, as Apache Paimon's writers map them.

Its writers annotate a timestamp without a zone as `timestamp-…` and one with the local zone as `local-timestamp-…`,
the other way round than Avro's words say. When reading, both are taken as plain numbers of their unit and get the zone
of the target; when writing we do as they do. A map whose keys are no strings is an array of (key, value) records.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import UnfaithfulError

AvroSchema: TypeAlias = Any  # a str, dict or list of JSON
_RECORD = "org.apache.paimon.avro.generated.record"
_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms"),
    "timestamp-micros": pa.timestamp("us"),
    "timestamp-nanos": pa.timestamp("ns"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}


def without_logical_types(schema: AvroSchema) -> AvroSchema:
    """Drop the annotations, so that a reader hands out numbers and bytes as they are stored."""
    if isinstance(schema, list):
        return [without_logical_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "logicalType"}
    for key in ("type", "items", "values"):
        if isinstance(kept.get(key), dict | list):
            kept[key] = without_logical_types(kept[key])
    if "fields" in kept:
        kept["fields"] = [{**field, "type": without_logical_types(field["type"])} for field in kept["fields"]]
    return kept


def to_arrow(schema: AvroSchema) -> pa.DataType:
    """The Arrow type of an Avro type; a union with null is the other type."""
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise UnfaithfulError(f"the Avro union {schema} has no Arrow type")
        return to_arrow(others[0])
    if isinstance(schema, str):
        if schema not in _PLAIN:
            raise UnfaithfulError(f"the Avro type {schema} has no Arrow type")
        return _PLAIN[schema]
    return _complex_to_arrow(schema)


def _complex_to_arrow(schema: dict[str, Any]) -> pa.DataType:
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "record":
        return pa.struct([pa.field(field["name"], to_arrow(field["type"])) for field in schema["fields"]])
    if kind == "array":
        items = schema["items"]
        if logical == "map":
            key, value = (next(f["type"] for f in items["fields"] if f["name"] == n) for n in ("key", "value"))
            return pa.map_(to_arrow(key), to_arrow(value))
        return pa.list_(to_arrow(items))
    if kind == "map":
        return pa.map_(pa.string(), to_arrow(schema["values"]))
    if kind == "fixed":
        return pa.binary(schema["size"])
    return to_arrow(kind)


def from_arrow(schema: pa.Schema) -> dict[str, Any]:
    """The Avro record of an Arrow schema."""
    return _record(_RECORD, list(schema))


def _record(name: str, fields: list[pa.Field]) -> dict[str, Any]:
    members = []
    for field in fields:
        member: dict[str, Any] = {"name": field.name, "type": _nullable(field, f"{name}_{field.name}")}
        if field.nullable:
            member["default"] = None
        members.append(member)
    return {"type": "record", "name": name, "fields": members}


def _nullable(field: pa.Field, name: str) -> AvroSchema:
    inner = _from_type(field.type, name)
    return ["null", inner] if field.nullable else inner


def _from_type(kind: pa.DataType, name: str) -> AvroSchema:
    if pt.is_struct(kind):
        return _record(name, list(kind))
    if pt.is_map(kind):
        return _from_map(kind, name)
    if pt.is_list(kind):
        return {"type": "array", "items": _nullable(kind.value_field, name)}
    return _from_plain_type(kind)


def _from_plain_type(kind: pa.DataType) -> AvroSchema:
    if pt.is_timestamp(kind) and kind.unit in {"ms", "us"}:
        unit = "millis" if kind.unit == "ms" else "micros"
        return {"type": "long", "logicalType": f"{'local-' if kind.tz else ''}timestamp-{unit}"}
    if pt.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pt.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    if pt.is_time32(kind):
        return {"type": "int", "logicalType": "time-millis"}
    if pt.is_integer(kind):
        return "long" if pt.is_int64(kind) else "int"
    for avro, plain in _PLAIN.items():
        if plain == kind:
            return avro
    raise UnfaithfulError(f"Avro data files hold no {kind}")


def _from_map(kind: pa.MapType, name: str) -> AvroSchema:
    if pt.is_string(kind.key_type):
        return {"type": "map", "values": _nullable(kind.item_field, name)}
    pair = _record(name, [pa.field("key", kind.key_type, nullable=False), kind.item_field.with_name("value")])
    return {"type": "array", "items": pair, "logicalType": "map"}
