"""Manifest files: which data files were added and deleted, as Avro.

``read_manifest`` reads files of every version by field name. In *lean* mode the statistics are skipped, which is what
planning a large table needs; a lean file carries ``UNREAD_STATS``, and writing it back is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from packstone.errors import CorruptionError, InvalidInputError
from packstone.storage.avro_container import AvroWriter, read_records
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.avro_schemas import FORMAT_VERSION, MANIFEST
from packstone.tables.paimon.data_file_meta import DataFileMeta, FileSource, SimpleStats
from packstone.tables.paimon.data_type import DataType
from packstone.tables.paimon.manifest_entry import FileKind, ManifestEntry
from packstone.tables.paimon.manifest_file_meta import ManifestFileMeta
from packstone.tables.paimon.manifest_summary import ManifestSummary

_T = TypeVar("_T")
BucketPredicate: TypeAlias = Callable[[bytes, int], bool]

UNREAD_STATS: Final = SimpleStats(min_values=b"", max_values=b"", null_counts=None)
DEFAULT_TARGET_BYTES: Final = 8 * 1024 * 1024  # manifest.target-file-size
_ROLL_CHECK_ENTRIES: Final = 1000  # as Java: the size is looked at once in so many entries
_STATS: Final = frozenset({"_KEY_STATS", "_VALUE_STATS", "_VALUE_STATS_COLS"})
_KINDS: Final = {kind.value: kind for kind in FileKind}
_SOURCES: Final = {None: None} | {source.value: source for source in FileSource}


def read_manifest(
    io: FileIO, path: str, *, wanted: BucketPredicate | None = None, lean: bool = False
) -> Iterator[ManifestEntry]:
    """Yield the entries of a manifest in order, all or those of wanted buckets."""
    records = _read(io, path, _without_stats if lean else None)
    try:
        for record in records:
            if wanted is None or wanted(record["_PARTITION"], record["_BUCKET"]):
                yield _entry(record)
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"Manifest {path} misses a field: {error}.", path=path) from error


def read_manifest_buckets(io: FileIO, path: str) -> Iterator[tuple[bytes, int]]:
    """Yield partition and bucket of every entry, and skip the rest: a first pass over a large table."""
    for record in _read(io, path, _only_buckets):
        yield record["_PARTITION"], record["_BUCKET"]


def write_manifests(
    io: FileIO,
    folder: str,
    entries: Iterable[ManifestEntry],
    *,
    names: Iterator[str],
    partition_types: tuple[DataType, ...],
    target_bytes: int = DEFAULT_TARGET_BYTES,
    codec: str = "zstd",
) -> tuple[ManifestFileMeta, ...]:
    """Write entries in order into as many manifests as the target size asks for; nothing for no entries.

    A name is taken from ``names`` before its file is created.
    """
    written: list[ManifestFileMeta] = []
    writer, summary = AvroWriter(MANIFEST, codec=codec), ManifestSummary(partition_types)
    for number, entry in enumerate(entries, start=1):
        writer.write(_record(entry))
        summary.add(entry)
        if number % _ROLL_CHECK_ENTRIES == 0 and writer.size_bytes >= target_bytes:
            written.append(_publish(io, f"{folder}/{next(names)}", writer, summary=summary))
            writer, summary = AvroWriter(MANIFEST, codec=codec), ManifestSummary(partition_types)
    if summary.entries:
        written.append(_publish(io, f"{folder}/{next(names)}", writer, summary=summary))
    return tuple(written)


def _publish(io: FileIO, path: str, writer: AvroWriter, *, summary: ManifestSummary) -> ManifestFileMeta:
    data = writer.finish()
    io.write_new(path, data)
    return summary.meta(file_name=path.rpartition("/")[2], file_size=len(data))


def _read(
    io: FileIO, path: str, wanted: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None
) -> Iterator[dict[str, Any]]:
    try:
        data = io.read_bytes(path)
    except FileNotFoundError:
        raise CorruptionError(f"Manifest {path} is missing.", path=path) from None
    for record in read_records(data, path=path, wanted=wanted):
        if record.get("_VERSION", FORMAT_VERSION) != FORMAT_VERSION:
            raise InvalidInputError(
                f"Manifest {path} has format {record['_VERSION']}, which cannot be read.", path=path
            )
        yield record


def _without_stats(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    fields = [
        {**field, "type": _dropping(field["type"], _STATS)} if field["name"] == "_FILE" else field
        for field in schema["fields"]
    ]
    return {**schema, "fields": fields}


def _only_buckets(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**schema, "fields": [field for field in schema["fields"] if field["name"] in {"_PARTITION", "_BUCKET"}]}


def _dropping(record: Mapping[str, Any], names: frozenset[str]) -> Mapping[str, Any]:
    return {**record, "fields": [field for field in record["fields"] if field["name"] not in names]}


def _entry(record: Mapping[str, Any]) -> ManifestEntry:
    return ManifestEntry(
        kind=_KINDS[record["_KIND"]],
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        total_buckets=record["_TOTAL_BUCKETS"],
        file=_file(record["_FILE"]),
    )


def _file(record: Mapping[str, Any]) -> DataFileMeta:
    get = record.get
    extra, stats_cols, write_cols = get("_EXTRA_FILES"), get("_VALUE_STATS_COLS"), get("_WRITE_COLS")
    sequences = get("_WRITE_COLS_SEQUENCES")
    return DataFileMeta(
        file_name=record["_FILE_NAME"],
        file_size=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        min_key=record["_MIN_KEY"],
        max_key=record["_MAX_KEY"],
        key_stats=_stats(get("_KEY_STATS")),
        value_stats=_stats(get("_VALUE_STATS")),
        min_sequence_number=record["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=record["_MAX_SEQUENCE_NUMBER"],
        schema_id=record["_SCHEMA_ID"],
        level=record["_LEVEL"],
        extra_files=tuple(extra) if extra else (),
        creation_time_ms=get("_CREATION_TIME"),
        delete_row_count=get("_DELETE_ROW_COUNT"),
        embedded_file_index=get("_EMBEDDED_FILE_INDEX"),
        file_source=_SOURCES[get("_FILE_SOURCE")],
        value_stats_cols=None if stats_cols is None else tuple(stats_cols),
        external_path=get("_EXTERNAL_PATH"),
        first_row_id=get("_FIRST_ROW_ID"),
        write_cols=None if write_cols is None else tuple(write_cols),
        write_cols_sequences=None if sequences is None else tuple(sequences),
    )


def _stats(record: Mapping[str, Any] | None) -> SimpleStats:
    if record is None:
        return UNREAD_STATS
    counts = record.get("_NULL_COUNTS")
    return SimpleStats(
        min_values=record["_MIN_VALUES"],
        max_values=record["_MAX_VALUES"],
        null_counts=None if counts is None else tuple(counts),
    )


def _record(entry: ManifestEntry) -> dict[str, Any]:
    return {
        "_VERSION": FORMAT_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": _file_record(entry.file),
    }


def _file_record(file: DataFileMeta) -> dict[str, Any]:
    if UNREAD_STATS in {file.key_stats, file.value_stats}:
        raise InvalidInputError(f"{file.file_name} was read without its statistics and cannot be written back.")
    return {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": stats_record(file.key_stats),
        "_VALUE_STATS": stats_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": file.creation_time_ms,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_file_index,
        "_FILE_SOURCE": None if file.file_source is None else int(file.file_source),
        "_VALUE_STATS_COLS": as_list(file.value_stats_cols),
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": as_list(file.write_cols),
        "_WRITE_COLS_SEQUENCES": as_list(file.write_cols_sequences),
    }


def stats_record(stats: SimpleStats) -> dict[str, Any]:
    """Statistics as an Avro record."""
    counts = as_list(stats.null_counts)
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": counts}


def as_list(values: tuple[_T, ...] | None) -> list[_T] | None:
    """An array for fastavro, to which a tuple in a union means something else."""
    return None if values is None else list(values)


def read_stats(record: Mapping[str, Any]) -> SimpleStats:
    """Statistics of an Avro record."""
    return _stats(record)
