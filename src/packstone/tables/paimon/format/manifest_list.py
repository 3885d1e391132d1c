"""Manifest lists and index manifests of a snapshot, as Avro.

A manifest list names the manifests that make up a snapshot; an index manifest is the full list of its live index files
(deletion vectors, hash indexes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from packstone.errors import CorruptionError, InvalidInputError
from packstone.model.codec import checked_name
from packstone.rewrite.formats.avro_file import plain_schema, read_header, read_records, write_records
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.format.avro_schemas import (
    FORMAT_VERSION,
    INDEX_FORMAT_VERSION,
    INDEX_MANIFEST,
    MANIFEST_LIST,
    extend_schema,
    find_unknown,
    put_unknown,
    take_unknown,
)
from packstone.tables.paimon.format.data_file import FileKind, ManifestFileMeta
from packstone.tables.paimon.format.manifest import as_list, read_stats, stats_record
from packstone.tables.paimon.format.snapshot import Snapshot


def read_manifest_list(io: FileIO, path: str) -> tuple[ManifestFileMeta, ...]:
    """The manifests of a list, in order: an entry of a later one may delete what an earlier one added."""
    try:
        data = io.read_bytes(path)
    except FileNotFoundError:
        raise CorruptionError(f"Manifest list {path} is missing.", path=path) from None
    try:
        schema = plain_schema(read_header(data, path=path), path=path, logical=True)
        unknown = find_unknown(schema, MANIFEST_LIST)
        return tuple(_meta(record, unknown, path) for record in read_records(data, path=path))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptionError(f"Manifest list {path} misses a field: {error}.", path=path) from error


def read_all_manifests(io: FileIO, table: str, snapshot: Snapshot) -> tuple[ManifestFileMeta, ...]:
    """All manifests of a snapshot: those of its base (tables/scan_source.py leaves it out), then those of its delta."""
    folder = f"{table}/manifest"
    base = read_manifest_list(io, f"{folder}/{snapshot.base_manifest_list}") if snapshot.base_manifest_list else ()
    return base + read_manifest_list(io, f"{folder}/{snapshot.delta_manifest_list}")


def write_manifest_list(
    io: FileIO, folder: str, metas: Iterable[ManifestFileMeta], *, name: str, codec: str = "zstd"
) -> tuple[str, int]:
    """Write a manifest list (an empty one is legal); return its name and size."""
    lines = tuple(metas)
    schema = extend_schema(MANIFEST_LIST, (meta.unknown for meta in lines))
    data = write_records(schema, map(_record, lines), codec=codec)
    io.write_new(f"{folder}/{name}", data)
    return name, len(data)


def _meta(record: Mapping[str, Any], unknown: tuple[tuple[str, str], ...], path: str) -> ManifestFileMeta:
    if record.get("_VERSION", FORMAT_VERSION) != FORMAT_VERSION:
        raise InvalidInputError(
            f"Manifest list {path} has format {record['_VERSION']}, which cannot be read.", path=path
        )
    extra = record.get("_EXTRA_FILES")
    return ManifestFileMeta(
        file_name=checked_name(record["_FILE_NAME"]),
        file_size=record["_FILE_SIZE"],
        num_added_files=record["_NUM_ADDED_FILES"],
        num_deleted_files=record["_NUM_DELETED_FILES"],
        partition_stats=read_stats(record["_PARTITION_STATS"]),
        schema_id=record["_SCHEMA_ID"],
        min_bucket=record.get("_MIN_BUCKET"),
        max_bucket=record.get("_MAX_BUCKET"),
        min_level=record.get("_MIN_LEVEL"),
        max_level=record.get("_MAX_LEVEL"),
        min_row_id=record.get("_MIN_ROW_ID"),
        max_row_id=record.get("_MAX_ROW_ID"),
        total_buckets=record.get("_TOTAL_BUCKETS"),
        extra_files=None if extra is None else tuple(map(checked_name, extra)),
        unknown=take_unknown(record, unknown),
    )


def _record(meta: ManifestFileMeta) -> dict[str, Any]:
    record = {
        "_VERSION": FORMAT_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": stats_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": meta.min_row_id,
        "_MAX_ROW_ID": meta.max_row_id,
        "_TOTAL_BUCKETS": meta.total_buckets,
        "_EXTRA_FILES": as_list(meta.extra_files),
    }
    return put_unknown(record, meta.unknown)


# ---- index manifest ----


DELETION_VECTORS: Final = "DELETION_VECTORS"
HASH: Final = "HASH"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorRange:
    """The position of one data file's deletion vector in an index file."""

    data_file: str
    offset: int
    length: int  # unused: it includes size and checksum of a 64-bit vector, but not of a 32-bit one
    cardinality: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalIndex:
    """Metadata that only data-evolution tables have; kept as it was read."""

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
    data = write_records(INDEX_MANIFEST, map(_index_record, entries), codec=codec)
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


def _index_record(entry: IndexEntry) -> dict[str, Any]:
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
