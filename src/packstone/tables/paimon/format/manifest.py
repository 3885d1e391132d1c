"""Manifest files: which data files were added and deleted, as Avro.

``read_manifest`` reads files of every version by field name. In *lean* mode it skips the statistics, as planning a
large table requires; a file read in lean mode has ``UNREAD_STATS``, and writing it back is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from packstone.errors import CorruptionError, InvalidInputError
from packstone.model.codec import checked_name
from packstone.rewrite.formats.avro_file import AvroWriter, plain_schema, read_header, read_records
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.format.avro_schemas import (
    DATA_FILE,
    FORMAT_VERSION,
    MANIFEST,
    extend_schema,
    find_unknown,
    put_unknown,
    take_unknown,
)
from packstone.tables.paimon.format.binary_row import Value, comparable_key, decode_row, encode_row
from packstone.tables.paimon.format.data_file import (
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from packstone.tables.paimon.format.data_type import DataType
from packstone.tables.paimon.format.lean_manifest import UNREAD_STATS, BucketPredicate, read_lean_entries

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
_ROLL_CHECK_ENTRIES: Final = 1000  # the size is checked once per this many entries, as in Java
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
    """Write entries in order into as many manifests as the target size requires; without entries, write nothing.

    A name is taken from ``names`` before its file is created.
    """
    written: list[ManifestFileMeta] = []
    open_file: tuple[AvroWriter, ManifestSummary] | None = None
    carried: tuple[str, ...] = ()
    for number, entry in enumerate(entries, start=1):
        unknown = tuple(field.name for field in entry.file.unknown)
        if open_file is not None and unknown != carried:  # its unknown fields need another schema
            written.append(_publish(io, f"{folder}/{next(names)}", open_file))
            open_file = None
        if open_file is None:
            carried = unknown
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
    """The unknown fields of a manifest's data files, and its records."""
    try:
        data = io.read_bytes(path)
    except FileNotFoundError:
        raise CorruptionError(f"Manifest {path} is missing.", path=path) from None
    schema = plain_schema(read_header(data, path=path), path=path, logical=True)
    files = [field["type"] for field in schema.get("fields", ()) if field["name"] == "_FILE"]
    if not files or not isinstance(files[0], dict):
        raise CorruptionError(f"{path} is not a manifest: its records have no _FILE.", path=path)
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
    """The values as a list, because fastavro interprets a tuple in a union differently."""
    return None if values is None else list(values)


def read_stats(record: Mapping[str, Any]) -> SimpleStats:
    """Statistics of an Avro record."""
    return _stats(record)


class ManifestSummary:
    """Collects a manifest's entry in the manifest list while the manifest is written."""

    def __init__(self, partition_types: tuple[DataType, ...]) -> None:
        self._types = partition_types
        self._kinds: Counter[FileKind] = Counter()
        self._partitions: Counter[bytes] = Counter()
        self._buckets: set[int] = set()
        self._totals: set[int] = set()
        self._levels: set[int] = set()
        self._schema_id = 0
        self._row_ids: tuple[int, int] | None = None
        self._all_have_row_ids = True

    @property
    def entries(self) -> int:
        """Number of entries added."""
        return self._kinds.total()

    def add(self, entry: ManifestEntry) -> None:
        """Count one entry."""
        file = entry.file
        self._kinds[entry.kind] += 1
        self._partitions[entry.partition] += 1
        self._buckets.add(entry.bucket)
        self._totals.add(entry.total_buckets)
        self._levels.add(file.level)
        self._schema_id = max(self._schema_id, file.schema_id)
        if file.first_row_id is None:
            self._all_have_row_ids = False
        else:
            first, last = self._row_ids or (file.first_row_id, file.first_row_id)
            end = file.first_row_id + file.row_count - 1
            self._row_ids = min(first, file.first_row_id), max(last, end)

    def meta(self, *, file_name: str, file_size: int) -> ManifestFileMeta:
        """The entry of the manifest list."""
        row_ids = self._row_ids if self._all_have_row_ids else None
        total = next(iter(self._totals)) if len(self._totals) == 1 else None  # after a rescale there are several
        return ManifestFileMeta(
            file_name=file_name,
            file_size=file_size,
            num_added_files=self._kinds[FileKind.ADD],
            num_deleted_files=self._kinds[FileKind.DELETE],
            partition_stats=_partition_stats(self._partitions, self._types),
            schema_id=self._schema_id,
            min_bucket=min(self._buckets),
            max_bucket=max(self._buckets),
            min_level=min(self._levels),
            max_level=max(self._levels),
            min_row_id=row_ids[0] if row_ids else None,
            max_row_id=row_ids[1] if row_ids else None,
            total_buckets=total if total and total > 0 else None,
        )


def _partition_stats(partitions: Counter[bytes], types: tuple[DataType, ...]) -> SimpleStats:
    rows = [(decode_row(partition, types), count) for partition, count in partitions.items()]
    columns = range(len(types))
    return SimpleStats(
        min_values=encode_row([_extreme((r[i] for r, _ in rows), types[i], last=False) for i in columns], types),
        max_values=encode_row([_extreme((r[i] for r, _ in rows), types[i], last=True) for i in columns], types),
        null_counts=tuple(sum(count for row, count in rows if row[i] is None) for i in columns),
    )


def _extreme(values: Iterable[Value], data_type: DataType, *, last: bool) -> Value:
    present = [value for value in values if value is not None]
    if not present:
        return None
    return (max if last else min)(present, key=lambda value: comparable_key([value], [data_type]))
