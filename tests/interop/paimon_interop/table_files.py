"""A Paimon table's files as they are on disk: snapshots, manifests, data; read with fastavro and PyArrow only."""

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

from paimon_interop.binary_row import decode
from paimon_interop.rows import NANOS

ADD, DELETE = 0, 1
# What Hive and Paimon escape in the folder of a partition.
ESCAPED = frozenset([*map(chr, range(1, 32)), *"\"#%'*/:=?\\\x7f{[]^"])
Identity = tuple[Any, ...]


@dataclass(frozen=True)
class Entry:
    """One line of a manifest."""

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: dict[str, Any]

    @property
    def identity(self) -> Identity:
        """What a DELETE has to match; the level belongs to it."""
        file = self.file
        extra = tuple(file.get("_EXTRA_FILES") or ())
        place = file.get("_EXTERNAL_PATH")
        return self.partition, self.bucket, file["_LEVEL"], file["_FILE_NAME"], extra, place

    def __str__(self) -> str:
        return f"L{self.file['_LEVEL']} {self.file['_FILE_NAME']} of bucket {self.bucket}"


class TableFiles:
    """One table's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: dict[str, list[Entry]] = {}

    @cached_property
    def schemas(self) -> dict[int, dict[str, Any]]:
        """All schemas by their number."""
        found = [json.loads(file.read_text(encoding="utf-8")) for file in (self.path / "schema").glob("schema-*")]
        return {schema["id"]: schema for schema in found}

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The newest schema."""
        return self.schemas[max(self.schemas)]

    @cached_property
    def snapshots(self) -> list[dict[str, Any]]:
        """All snapshots, oldest first."""
        found = (json.loads(file.read_text("utf-8")) for file in (self.path / "snapshot").glob("snapshot-*"))
        return sorted(found, key=lambda snapshot: snapshot["id"])

    def types(self, names: list[str], schema_id: int | None = None) -> list[str]:
        """The SQL types of these columns."""
        schema = self.schema if schema_id is None else self.schemas[schema_id]
        types = {field["name"]: field["type"] for field in schema["fields"]}
        return [types[name] for name in names]

    @property
    def key_names(self) -> list[str]:
        """The primary key without the partition columns, as files are sorted by it."""
        return [name for name in self.schema["primaryKeys"] if name not in self.schema["partitionKeys"]]

    def manifests(self, list_name: str | None) -> list[dict[str, Any]]:
        """The lines of a manifest list."""
        return list(read_avro(self.path / "manifest" / list_name)) if list_name else []

    def entries(self, list_name: str | None) -> Iterator[Entry]:
        """The lines of all manifests of a list, in their order."""
        for manifest in self.manifests(list_name):
            yield from self.entries_of(manifest["_FILE_NAME"])

    def entries_of(self, manifest: str) -> list[Entry]:
        """The lines of one manifest; read once, because the base lists of a long history name it over and over."""
        if manifest not in self._entries:
            self._entries[manifest] = [
                Entry(line["_KIND"], line["_PARTITION"], line["_BUCKET"], line["_TOTAL_BUCKETS"], line["_FILE"])
                for line in read_avro(self.path / "manifest" / manifest)
            ]
        return self._entries[manifest]

    def partition(self, entry: Entry) -> list[Any]:
        """The values of an entry's partition."""
        return decode(entry.partition, self.types(self.schema["partitionKeys"]))

    def data_path(self, entry: Entry) -> Path:
        """Where an entry's file has to be."""
        names = zip(self.schema["partitionKeys"], self.partition(entry), strict=True)
        folders = [f"{escape(name)}={partition_text(value)}" for name, value in names]
        return self.path.joinpath(*folders, f"bucket-{entry.bucket}", entry.file["_FILE_NAME"])


def read_avro(path: Path) -> Iterator[dict[str, Any]]:
    """The records of an Avro file."""
    with path.open("rb") as file:
        yield from fastavro.reader(file)


def partition_text(value: Any) -> str:
    """A partition's value as the name of a folder; none and blank have a name of their own."""
    text = "" if value is None else str(value)
    return escape(text) if text.strip() else "__DEFAULT_PARTITION__"


def escape(text: str) -> str:
    """A name that a path can hold."""
    return "".join(f"%{ord(char):02X}" if char in ESCAPED else char for char in text)


def read_data(path: Path) -> dict[str, list[Any]]:
    """The columns of a data file in the comparable form of ``binary_row``."""
    if path.suffix == ".avro":
        records = list(read_avro(path))
        return {name: [comparable(record[name]) for record in records] for name in (records[0] if records else ())}
    table = pyarrow.orc.read_table(path) if path.suffix == ".orc" else read_parquet(path)
    return {name: comparable_column(table.column(name)) for name in table.column_names}


def read_parquet(path: Path) -> pa.Table:
    """As one file: ``read_table`` would take ``k=v`` folders for columns."""
    with pq.ParquetFile(path) as file:
        return file.read()


def comparable_column(column: pa.ChunkedArray) -> list[Any]:
    """Counting values as integers; everything else as it is."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return [None if value is None else value * NANOS[kind.unit] for value in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return column.cast(pa.int32()).to_pylist()
    return column.to_pylist()


def comparable(value: Any) -> Any:
    """The same for what fastavro gives."""
    if isinstance(value, dt.datetime):
        since = value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 10**3
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return value
