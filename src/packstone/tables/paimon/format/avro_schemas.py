"""The Avro schemas of Paimon's metadata files, with the record names that Java gives them.

A reader matches fields by name, ignores those it does not know and takes null for those that are missing; therefore
files of all versions are read by name, and we write all fields that any version knows.

A newer Paimon may write fields that we do not know: it adds fields at the end of its records and lets old readers skip
them. A reader may do that, but a writer that rewrites the record must not. So a value keeps such fields with their Avro
type and their bytes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from packstone.errors import InvalidInputError
from packstone.rewrite.formats.avro_file import without_logical_types

_NAME: Final = "org.apache.paimon.avro.generated.record"
FORMAT_VERSION: Final = 2  # of manifests and manifest lists; only tables older than any release have another
INDEX_FORMAT_VERSION: Final = 1


def _field(name: str, avro_type: object) -> dict[str, Any]:
    return {"name": name, "type": avro_type}


def _nullable(name: str, avro_type: object) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro_type], "default": None}


def _array(items: object) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _record(name: str, fields: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _stats(owner: str, name: str) -> dict[str, Any]:
    return _field(
        name,
        _record(
            f"{owner}_{name}",
            [
                _field("_MIN_VALUES", "bytes"),
                _field("_MAX_VALUES", "bytes"),
                _nullable("_NULL_COUNTS", _array(["null", "long"])),
            ],
        ),
    )


_FILE_NAME: Final = f"{_NAME}__FILE"
DATA_FILE: Final = _record(
    _FILE_NAME,
    [
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_ROW_COUNT", "long"),
        _field("_MIN_KEY", "bytes"),
        _field("_MAX_KEY", "bytes"),
        _stats(_FILE_NAME, "_KEY_STATS"),
        _stats(_FILE_NAME, "_VALUE_STATS"),
        _field("_MIN_SEQUENCE_NUMBER", "long"),
        _field("_MAX_SEQUENCE_NUMBER", "long"),
        _field("_SCHEMA_ID", "long"),
        _field("_LEVEL", "int"),
        _field("_EXTRA_FILES", _array("string")),
        _nullable("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
        _nullable("_DELETE_ROW_COUNT", "long"),
        _nullable("_EMBEDDED_FILE_INDEX", "bytes"),
        _nullable("_FILE_SOURCE", "int"),
        _nullable("_VALUE_STATS_COLS", _array("string")),
        _nullable("_EXTERNAL_PATH", "string"),
        _nullable("_FIRST_ROW_ID", "long"),
        _nullable("_WRITE_COLS", _array("string")),
        _nullable("_WRITE_COLS_SEQUENCES", _array("long")),
    ],
)
MANIFEST: Final = _record(
    _NAME,
    [
        _field("_VERSION", "int"),
        _field("_KIND", "int"),
        _field("_PARTITION", "bytes"),
        _field("_BUCKET", "int"),
        _field("_TOTAL_BUCKETS", "int"),
        _field("_FILE", DATA_FILE),
    ],
)
MANIFEST_LIST: Final = _record(
    _NAME,
    [
        _field("_VERSION", "int"),
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_NUM_ADDED_FILES", "long"),
        _field("_NUM_DELETED_FILES", "long"),
        _stats(_NAME, "_PARTITION_STATS"),
        _field("_SCHEMA_ID", "long"),
        _nullable("_MIN_BUCKET", "int"),
        _nullable("_MAX_BUCKET", "int"),
        _nullable("_MIN_LEVEL", "int"),
        _nullable("_MAX_LEVEL", "int"),
        _nullable("_MIN_ROW_ID", "long"),
        _nullable("_MAX_ROW_ID", "long"),
        _nullable("_TOTAL_BUCKETS", "int"),
        _nullable("_EXTRA_FILES", _array("string")),
    ],
)
_RANGE: Final = _record(
    f"{_NAME}__DELETIONS_VECTORS_RANGES",
    [_field("f0", "string"), _field("f1", "int"), _field("f2", "int"), _nullable("_CARDINALITY", "long")],
)
_GLOBAL_INDEX: Final = _record(
    f"{_NAME}__GLOBAL_INDEX",
    [
        _field("_ROW_RANGE_START", "long"),
        _field("_ROW_RANGE_END", "long"),
        _field("_INDEX_FIELD_ID", "int"),
        _nullable("_EXTRA_FIELD_IDS", _array("int")),
        _nullable("_INDEX_META", "bytes"),
        _nullable("_SOURCE_META", "bytes"),
    ],
)
INDEX_MANIFEST: Final = _record(
    _NAME,
    [
        _field("_VERSION", "int"),
        _field("_KIND", "int"),
        _field("_PARTITION", "bytes"),
        _field("_BUCKET", "int"),
        _field("_INDEX_TYPE", "string"),
        _field("_FILE_NAME", "string"),
        _field("_FILE_SIZE", "long"),
        _field("_ROW_COUNT", "long"),
        _nullable("_DELETIONS_VECTORS_RANGES", _array(["null", _RANGE])),
        _nullable("_EXTERNAL_PATH", "string"),
        _nullable("_GLOBAL_INDEX", _GLOBAL_INDEX),
    ],
)


# ---- unknown fields ----


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownField:
    """One unknown field of one record: its name, its Avro type as JSON, its value in Avro's bytes."""

    name: str
    avro_type: str
    value: bytes


def find_unknown(written: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Names and types of the fields that are in a file's schema but not in ours."""
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
    """Our schema with the unknown fields of records; each is nullable, for records without it."""
    more: dict[str, Any] = {}
    for fields in carried:
        for field in fields:
            _parsed(field.name, field.avro_type)  # raises if it cannot be written
            avro_type = json.loads(field.avro_type)
            branches = avro_type if isinstance(avro_type, list) else [avro_type]
            nullable = ["null", *(branch for branch in branches if branch != "null")]
            more.setdefault(field.name, {"name": field.name, "type": nullable, "default": None})
    return {**known, "fields": [*known["fields"], *more.values()]}


def put_unknown(record: dict[str, Any], carried: Iterable[UnknownField]) -> dict[str, Any]:
    """A record with its unknown fields."""
    return record | {field.name: _decode(field) for field in carried}


def _encode(value: object, name: str, avro_type: str) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _parsed(name, avro_type), value)
    return buffer.getvalue()


def _decode(field: UnknownField) -> object:
    return fastavro.schemaless_reader(io.BytesIO(field.value), _parsed(field.name, field.avro_type), None)


def _parsed(name: str, avro_type: str) -> Any:
    try:
        return fastavro.parse_schema(without_logical_types(json.loads(avro_type)))
    except (SchemaParseException, UnknownType) as error:
        raise InvalidInputError(f"The field {name} of a newer Paimon cannot be preserved.", field=name) from error
