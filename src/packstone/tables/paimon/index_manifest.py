"""Index manifests: the full list of a snapshot's live index files (deletion vectors, hash indexes), as Avro."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from packstone.errors import CorruptionError, InvalidInputError
from packstone.model.record_fields import checked_name
from packstone.storage.avro_container import read_records, write_records
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.avro_schemas import INDEX_FORMAT_VERSION, INDEX_MANIFEST
from packstone.tables.paimon.manifest_entry import FileKind

DELETION_VECTORS: Final = "DELETION_VECTORS"
HASH: Final = "HASH"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorRange:
    """Where in an index file the deletion vector of one data file stands."""

    data_file: str
    offset: int
    length: int  # of a 64-bit vector it counts size and checksum too, of a 32-bit one it does not: we do not use it
    cardinality: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndex:
    """What only data-evolution tables have; carried along."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    source_meta: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """One index file of one bucket."""

    kind: FileKind
    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    ranges: tuple[DeletionVectorRange, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndex | None = None

    def __str__(self) -> str:
        return f"{self.kind.name} {self.index_type} bucket-{self.bucket} {self.file_name} {self.row_count} entries"


def read_index_manifest(io: FileIO, path: str) -> tuple[IndexEntry, ...]:
    """All entries of an index manifest."""
    try:
        data = io.read_bytes(path)
    except FileNotFoundError:
        raise CorruptionError(f"Index manifest {path} is missing.", path=path) from None
    try:
        return tuple(_entry(record, path) for record in read_records(data, path=path))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptionError(f"Index manifest {path} misses a field: {error}.", path=path) from error


def write_index_manifest(
    io: FileIO, folder: str, entries: Iterable[IndexEntry], *, name: str, codec: str = "zstd"
) -> tuple[str, int]:
    """Write an index manifest; return its name and size."""
    data = write_records(INDEX_MANIFEST, map(_record, entries), codec=codec)
    io.write_new(f"{folder}/{name}", data)
    return name, len(data)


def _entry(record: Mapping[str, Any], path: str) -> IndexEntry:
    if record.get("_VERSION", INDEX_FORMAT_VERSION) != INDEX_FORMAT_VERSION:
        raise InvalidInputError(
            f"Index manifest {path} has format {record['_VERSION']}, which cannot be read.", path=path
        )
    ranges, index = record.get("_DELETIONS_VECTORS_RANGES"), record.get("_GLOBAL_INDEX")
    return IndexEntry(
        kind=FileKind(record["_KIND"]),
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        index_type=record["_INDEX_TYPE"],
        file_name=checked_name(record["_FILE_NAME"]),
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        ranges=None if ranges is None else tuple(map(_range, ranges)),
        external_path=record.get("_EXTERNAL_PATH"),
        global_index=None if index is None else _global_index(index),
    )


def _range(record: Mapping[str, Any]) -> DeletionVectorRange:
    return DeletionVectorRange(
        data_file=record["f0"], offset=record["f1"], length=record["f2"], cardinality=record.get("_CARDINALITY")
    )


def _global_index(record: Mapping[str, Any]) -> GlobalIndex:
    extra = record.get("_EXTRA_FIELD_IDS")
    return GlobalIndex(
        row_range_start=record["_ROW_RANGE_START"],
        row_range_end=record["_ROW_RANGE_END"],
        index_field_id=record["_INDEX_FIELD_ID"],
        extra_field_ids=None if extra is None else tuple(extra),
        index_meta=record.get("_INDEX_META"),
        source_meta=record.get("_SOURCE_META"),
    )


def _record(entry: IndexEntry) -> dict[str, Any]:
    return {
        "_VERSION": INDEX_FORMAT_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": entry.index_type,
        "_FILE_NAME": entry.file_name,
        "_FILE_SIZE": entry.file_size,
        "_ROW_COUNT": entry.row_count,
        "_DELETIONS_VECTORS_RANGES": None if entry.ranges is None else list(map(_range_record, entry.ranges)),
        "_EXTERNAL_PATH": entry.external_path,
        "_GLOBAL_INDEX": None if entry.global_index is None else _global_index_record(entry.global_index),
    }


def _range_record(item: DeletionVectorRange) -> dict[str, Any]:
    return {"f0": item.data_file, "f1": item.offset, "f2": item.length, "_CARDINALITY": item.cardinality}


def _global_index_record(index: GlobalIndex) -> dict[str, Any]:
    return {
        "_ROW_RANGE_START": index.row_range_start,
        "_ROW_RANGE_END": index.row_range_end,
        "_INDEX_FIELD_ID": index.index_field_id,
        "_EXTRA_FIELD_IDS": None if index.extra_field_ids is None else list(index.extra_field_ids),
        "_INDEX_META": index.index_meta,
        "_SOURCE_META": index.source_meta,
    }
