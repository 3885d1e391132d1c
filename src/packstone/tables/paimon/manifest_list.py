"""Manifest lists: which manifests make up a snapshot, as Avro."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from packstone.errors import CorruptionError, InvalidInputError
from packstone.model.record_fields import checked_name
from packstone.storage.avro_container import plain_schema, read_header, read_records, write_records
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.avro_schemas import FORMAT_VERSION, MANIFEST_LIST
from packstone.tables.paimon.manifest import as_list, read_stats, stats_record
from packstone.tables.paimon.manifest_file_meta import ManifestFileMeta
from packstone.tables.paimon.snapshot import Snapshot
from packstone.tables.paimon.unknown_fields import extend_schema, find_unknown, put_unknown, take_unknown


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
    """All manifests of a snapshot: those of its base (added_rows.py leaves it out), then those of its delta."""
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
