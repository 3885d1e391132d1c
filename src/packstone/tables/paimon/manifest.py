"""Manifest files: which data files were added and deleted, as Avro.

``read_manifest`` reads files of every version by field name. In *lean* mode the statistics are skipped, which is what
planning a large table needs; a lean file carries ``UNREAD_STATS``, and writing it back is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from packstone.errors import CorruptionError, InvalidInputError
from packstone.model.record_fields import checked_name
from packstone.storage.avro_container import AvroWriter, plain_schema, read_header, read_records
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.avro_schemas import DATA_FILE, FORMAT_VERSION, MANIFEST
from packstone.tables.paimon.data_file_meta import DataFileMeta, FileSource, SimpleStats
from packstone.tables.paimon.data_type import DataType
from packstone.tables.paimon.lean_manifest import UNREAD_STATS, BucketPredicate, read_lean_entries
from packstone.tables.paimon.manifest_entry import FileKind, ManifestEntry
from packstone.tables.paimon.manifest_file_meta import ManifestFileMeta
from packstone.tables.paimon.manifest_summary import ManifestSummary
from packstone.tables.paimon.unknown_fields import extend_schema, find_unknown, put_unknown, take_unknown

__all__ = [
    "DEFAULT_TARGET_BYTES",
    "UNREAD_STATS",
    "as_list",
    "read_manifest",
    "read_stats",
    "stats_record",
    "write_manifests",
]

_T = TypeVar("_T")

DEFAULT_TARGET_BYTES: Final = 8 * 1024 * 1024  # manifest.target-file-size
_ROLL_CHECK_ENTRIES: Final = 1000  # as Java: the size is looked at once in so many entries
_KINDS: Final = {kind.value: kind for kind in FileKind}
_SOURCES: Final = {None: None} | {source.value: source for source in FileSource}


def read_manifest(
    io: FileIO, path: str, *, wanted: BucketPredicate | None = None, lean: bool = False
) -> Iterator[ManifestEntry]:
    """Yield the entries of a manifest in order, all or those of wanted buckets."""
    if lean:
        yield from read_lean_entries(io, [path], wanted=wanted)
        return
    unknown, records = _read(io, path)
    try:
        for record in records:
            if wanted is None or wanted(record["_PARTITION"], record["_BUCKET"]):
                yield _entry(record, unknown)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptionError(f"Manifest {path} misses a field: {error}.", path=path) from error


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
    open_file: tuple[AvroWriter, ManifestSummary] | None = None
    carried: tuple[str, ...] = ()
    for number, entry in enumerate(entries, start=1):
        its_own = tuple(field.name for field in entry.file.unknown)
        if open_file is not None and its_own != carried:  # its fields need a schema of their own
            written.append(_publish(io, f"{folder}/{next(names)}", open_file))
            open_file = None
        if open_file is None:
            carried = its_own
            open_file = AvroWriter(_schema_for(entry), codec=codec), ManifestSummary(partition_types)
        open_file[0].write(_record(entry))
        open_file[1].add(entry)
        if number % _ROLL_CHECK_ENTRIES == 0 and open_file[0].size_bytes >= target_bytes:
            written.append(_publish(io, f"{folder}/{next(names)}", open_file))
            open_file = None
    if open_file is not None:
        written.append(_publish(io, f"{folder}/{next(names)}", open_file))
    return tuple(written)


def _schema_for(entry: ManifestEntry) -> Mapping[str, Any]:
    if not entry.file.unknown:
        return MANIFEST
    file = extend_schema(DATA_FILE, [entry.file.unknown])
    return {**MANIFEST, "fields": [*MANIFEST["fields"][:-1], {"name": "_FILE", "type": file}]}


def _publish(io: FileIO, path: str, open_file: tuple[AvroWriter, ManifestSummary]) -> ManifestFileMeta:
    writer, summary = open_file
    data = writer.finish()
    io.write_new(path, data)
    return summary.meta(file_name=path.rpartition("/")[2], file_size=len(data))


def _read(io: FileIO, path: str) -> tuple[tuple[tuple[str, str], ...], Iterator[dict[str, Any]]]:
    """The fields of its files that we do not know, and its records."""
    try:
        data = io.read_bytes(path)
    except FileNotFoundError:
        raise CorruptionError(f"Manifest {path} is missing.", path=path) from None
    schema = plain_schema(read_header(data, path=path), path=path, logical=True)
    files = [field["type"] for field in schema.get("fields", ()) if field["name"] == "_FILE"]
    if not files or not isinstance(files[0], dict):
        raise CorruptionError(f"{path} is no manifest: its records have no _FILE.", path=path)
    return find_unknown(files[0], DATA_FILE), _checked(read_records(data, path=path), path)


def _checked(records: Iterator[dict[str, Any]], path: str) -> Iterator[dict[str, Any]]:
    for record in records:
        if record.get("_VERSION", FORMAT_VERSION) != FORMAT_VERSION:
            raise InvalidInputError(
                f"Manifest {path} has format {record['_VERSION']}, which cannot be read.", path=path
            )
        yield record


def _entry(record: Mapping[str, Any], unknown: tuple[tuple[str, str], ...]) -> ManifestEntry:
    return ManifestEntry(
        kind=_KINDS[record["_KIND"]],
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        total_buckets=record["_TOTAL_BUCKETS"],
        file=_file(record["_FILE"], unknown),
    )


def _file(record: Mapping[str, Any], unknown: tuple[tuple[str, str], ...]) -> DataFileMeta:
    get = record.get
    extra, stats_cols, write_cols = get("_EXTRA_FILES"), get("_VALUE_STATS_COLS"), get("_WRITE_COLS")
    sequences = get("_WRITE_COLS_SEQUENCES")
    return DataFileMeta(
        file_name=checked_name(record["_FILE_NAME"]),
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
        extra_files=tuple(map(checked_name, extra)) if extra else (),
        creation_time_ms=get("_CREATION_TIME"),
        delete_row_count=get("_DELETE_ROW_COUNT"),
        embedded_file_index=get("_EMBEDDED_FILE_INDEX"),
        file_source=_SOURCES[get("_FILE_SOURCE")],
        value_stats_cols=None if stats_cols is None else tuple(stats_cols),
        external_path=get("_EXTERNAL_PATH"),
        first_row_id=get("_FIRST_ROW_ID"),
        write_cols=None if write_cols is None else tuple(write_cols),
        write_cols_sequences=None if sequences is None else tuple(sequences),
        unknown=take_unknown(record, unknown) if unknown else (),
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
    record = {
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
    return put_unknown(record, file.unknown) if file.unknown else record


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
