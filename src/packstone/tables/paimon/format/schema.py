"""One version of a table's schema: ``schema/schema-<id>``, JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from packstone.errors import CorruptionError, InvalidInputError
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.format.data_type import DataField, DataType, TypeRoot, parse_data_field, to_arrow_field
from packstone.tables.paimon.format.snapshot import list_numbered

KEY_PREFIX: Final = "_KEY_"
KEY_FIELD_ID_START: Final = 1_073_741_823  # a key column's id is this plus the id of the column it mirrors
SEQUENCE_NUMBER: Final = DataField(
    id=2_147_483_646, name="_SEQUENCE_NUMBER", type=DataType(root=TypeRoot.BIGINT, nullable=False)
)
VALUE_KIND: Final = DataField(
    id=2_147_483_645, name="_VALUE_KIND", type=DataType(root=TypeRoot.TINYINT, nullable=False)
)
# Schema versions that imply old defaults; a schema file without `version` has the first.
_VERSION_07: Final = 1
_VERSION_08: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """Columns, keys and options of a table."""

    id: int
    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    time_millis: int = 0
    version: int = 3

    @property
    def is_primary_key(self) -> bool:
        """Whether rows have a key: a merge tree; otherwise rows are only appended."""
        return bool(self.primary_keys)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without partition columns: the sort order of files."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The partition columns, in the order of the folders."""
        return tuple(self.field(name) for name in self.partition_keys)

    @property
    def partition_types(self) -> tuple[DataType, ...]:
        """The types of a partition's row."""
        return tuple(field.type for field in self.partition_fields)

    @property
    def trimmed_key_fields(self) -> tuple[DataField, ...]:
        """The columns of the trimmed key under their own names and ids."""
        return tuple(self.field(name) for name in self.trimmed_primary_keys)

    @property
    def key_types(self) -> tuple[DataType, ...]:
        """The types of a file's smallest and largest key."""
        return tuple(field.type for field in self.trimmed_key_fields)

    @property
    def key_fields(self) -> tuple[DataField, ...]:
        """The key columns as a data file names them: ``_KEY_id``."""
        return tuple(
            DataField(id=KEY_FIELD_ID_START + field.id, name=KEY_PREFIX + field.name, type=field.type)
            for field in self.trimmed_key_fields
        )

    @property
    def value_fields(self) -> tuple[DataField, ...]:
        """The value columns of a data file: all columns of the table."""
        return self.fields

    @property
    def file_fields(self) -> tuple[DataField, ...]:
        """All columns of a data file, in order."""
        if not self.is_primary_key:
            return self.fields
        return (*self.key_fields, SEQUENCE_NUMBER, VALUE_KIND, *self.fields)

    @property
    def arrow_file_schema(self) -> Any:
        """The Arrow schema of a data file."""
        return pa.schema([to_arrow_field(field) for field in self.file_fields])

    def field(self, name: str) -> DataField:
        """Find a column by its name."""
        for field in self.fields:
            if field.name == name:
                return field
        raise InvalidInputError(f"The table has no column {name!r}.", column=name)

    def option(self, name: str) -> str | None:
        """The value of an option as it was written, or None."""
        return dict(self.options).get(name)

    def __str__(self) -> str:
        keys = f", key {', '.join(self.primary_keys)}" if self.primary_keys else ""
        return f"schema {self.id}: {', '.join(map(str, self.fields))}{keys}"


def parse_schema(data: bytes, *, path: str) -> TableSchema:
    """Read the bytes of a schema file; CorruptionError names the file if it is not a schema."""
    try:
        return _build(json.loads(data))
    except InvalidInputError as error:
        raise InvalidInputError(f"Schema {path}: {error.message}", path=path) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"{path} is not a Paimon schema: {error!r}.", path=path) from error


def read_schema(io: FileIO, table: str, schema_id: int) -> TableSchema:
    """Read one version of a table's schema."""
    path = f"{table}/schema/schema-{schema_id}"
    try:
        data = io.read_bytes(path)
    except FileNotFoundError:
        raise CorruptionError(f"Schema file {path} is missing.", path=path) from None
    return parse_schema(data, path=path)


def list_schema_ids(io: FileIO, table: str) -> tuple[int, ...]:
    """All versions that a table has, in order; empty if there is no schema folder."""
    return list_numbered(io, f"{table}/schema", "schema-")


def read_latest_schema(io: FileIO, table: str) -> TableSchema:
    """Read the newest version; InvalidInputError if this is not a Paimon table."""
    ids = list_schema_ids(io, table)
    if not ids:
        raise InvalidInputError(
            f"{table} is not a Paimon table: it has no schema folder with a schema in it.", table=table
        )
    return read_schema(io, table, ids[-1])


def _build(content: Mapping[str, Any]) -> TableSchema:
    version = content.get("version") or _VERSION_07
    fields = tuple(parse_data_field(field) for field in content["fields"])
    return TableSchema(
        version=version,
        id=int(content["id"]),
        fields=fields,
        partition_keys=tuple(content.get("partitionKeys") or ()),
        primary_keys=tuple(content.get("primaryKeys") or ()),
        options=tuple((str(key), str(value)) for key, value in _options(content, version).items()),
        time_millis=int(content.get("timeMillis") or 0),
    )


def _options(content: Mapping[str, Any], version: int) -> dict[str, str]:
    options = dict(content.get("options") or {})
    if version <= _VERSION_07:
        options.setdefault("bucket", "1")  # the default of Paimon up to 0.7
    if version <= _VERSION_08:
        options.setdefault("file.format", "orc")  # the default of Paimon up to 0.8
    return options
