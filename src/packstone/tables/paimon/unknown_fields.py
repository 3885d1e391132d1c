"""Fields of metadata records that a newer Paimon wrote and that we do not know: carried along, not lost.

Paimon adds fields at the end of its records and lets old readers skip them. A reader may do that; whoever writes the
record again must not. So a value keeps such fields with their Avro type and their bytes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from packstone.errors import InvalidInputError
from packstone.storage.avro_container import without_logical_types


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownField:
    """One field of one record: its name, its Avro type as JSON, its value in Avro's bytes."""

    name: str
    avro_type: str
    value: bytes


def find_unknown(written: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Names and types of the fields that a file's record has and ours has not."""
    names = {field["name"] for field in known["fields"]}
    return tuple(
        (field["name"], json.dumps(field["type"])) for field in written["fields"] if field["name"] not in names
    )


def take_unknown(record: Mapping[str, Any], unknown: Iterable[tuple[str, str]]) -> tuple[UnknownField, ...]:
    """The unknown fields of a record that was read."""
    return tuple(
        UnknownField(name=name, avro_type=avro_type, value=_encode(record[name], name, avro_type))
        for name, avro_type in unknown
    )


def extend_schema(known: Mapping[str, Any], carried: Iterable[Sequence[UnknownField]]) -> dict[str, Any]:
    """Our schema with the fields that records carry; each may be null, for those that do not carry it."""
    more: dict[str, Any] = {}
    for fields in carried:
        for field in fields:
            _parsed(field.name, field.avro_type)  # or it is refused
            avro_type = json.loads(field.avro_type)
            branches = avro_type if isinstance(avro_type, list) else [avro_type]
            nullable = ["null", *(branch for branch in branches if branch != "null")]
            more.setdefault(field.name, {"name": field.name, "type": nullable, "default": None})
    return {**known, "fields": [*known["fields"], *more.values()]}


def put_unknown(record: dict[str, Any], carried: Iterable[UnknownField]) -> dict[str, Any]:
    """A record with the fields that it carries."""
    return record | {field.name: _decode(field) for field in carried}


def _encode(value: object, name: str, avro_type: str) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _parsed(name, avro_type), value)
    return buffer.getvalue()


def _decode(field: UnknownField) -> object:
    return fastavro.schemaless_reader(io.BytesIO(field.value), _parsed(field.name, field.avro_type), None)


def _parsed(name: str, avro_type: str) -> Any:  # noqa: ANN401 - a parsed Avro schema
    try:
        return fastavro.parse_schema(without_logical_types(json.loads(avro_type)))
    except (SchemaParseException, UnknownType) as error:
        raise InvalidInputError(f"The field {name} of a newer Paimon cannot be carried along.", field=name) from error
