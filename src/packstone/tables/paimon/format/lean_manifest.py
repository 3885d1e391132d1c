"""Fast reader of manifest entries without their statistics, for planning tables with hundreds of thousands of files.

Manifests of one schema are decoded together (see rewrite/formats/avro_file.py), up to a limit of bytes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import groupby
from typing import Any, Final, TypeAlias

import numpy as np

from packstone.errors import CorruptionError, InvalidInputError
from packstone.model.codec import checked_name
from packstone.rewrite.formats.avro_file import (
    AvroColumn,
    AvroColumns,
    Longs,
    read_bytes,
    read_columns,
    read_header,
    read_long,
)
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.format.avro_schemas import FORMAT_VERSION
from packstone.tables.paimon.format.data_file import (
    EMPTY_ROW,
    DataFileMeta,
    FileKind,
    FileSource,
    ManifestEntry,
    SimpleStats,
)

BucketPredicate: TypeAlias = Callable[[bytes, int], bool]

UNREAD_STATS: Final = SimpleStats(min_values=b"", max_values=b"", null_counts=None)
_GROUP_BYTES: Final = 8 * 1024 * 1024  # compressed; ten times as much in memory
_GROUP_FILES: Final = 1000
_ENTRY: Final = ("_VERSION", "_KIND", "_PARTITION", "_BUCKET", "_TOTAL_BUCKETS")
_KINDS: Final = {kind.value: kind for kind in FileKind}
_SOURCES: Final = {None: None} | {source.value: source for source in FileSource}


def read_lean_entries(
    io: FileIO, paths: Iterable[str], *, wanted: BucketPredicate | None = None
) -> Iterator[ManifestEntry]:
    """Yield the entries of manifests in order, without statistics."""
    for files in _groups(io, paths):
        table = _read(files, _WANTED)
        keys = _keys(table)
        if wanted is None:
            rows = np.arange(len(keys))
        else:
            answers = {key: wanted(*key) for key in dict.fromkeys(keys)}  # one call per bucket
            rows = np.array([row for row, key in enumerate(keys) if answers[key]], dtype=np.int64)
        try:
            yield from _entries(table, rows, keys)
        except (KeyError, ValueError) as error:
            raise CorruptionError(
                f"An entry of {files[0][0]} or of a manifest after it is invalid: {error!r}."
            ) from error


def read_buckets(io: FileIO, paths: Iterable[str]) -> Iterator[tuple[str, list[tuple[bytes, int]]]]:
    """Yield each manifest with the partition and bucket of each of its entries."""
    for files in _groups(io, paths):
        table = _read(files, frozenset({"_VERSION", "_PARTITION", "_BUCKET"}))
        keys = _keys(table)
        at = 0
        for (path, _), rows in zip(files, table.file_rows, strict=True):
            yield path, keys[at : at + rows]
            at += rows


def _groups(io: FileIO, paths: Iterable[str]) -> Iterator[list[tuple[str, bytes]]]:
    """Yield groups of consecutive manifests that have one schema, limited in bytes."""
    group: list[tuple[str, bytes]] = []
    size, schema = 0, ""
    for path in paths:
        try:
            data = io.read_bytes(path)
        except FileNotFoundError:
            raise CorruptionError(f"Manifest {path} is missing.", path=path) from None
        its_schema = read_header(data, path=path).schema
        full = len(group) >= _GROUP_FILES or size + len(data) > _GROUP_BYTES
        if group and (full or its_schema != schema):
            yield group
            group, size = [], 0
        group.append((path, data))
        size, schema = size + len(data), its_schema
    if group:
        yield group


def _read(files: list[tuple[str, bytes]], wanted: frozenset[str]) -> AvroColumns:
    table = read_columns(files, wanted=wanted)
    path = files[0][0]
    missing = [name for name in _REQUIRED if name in wanted and name not in table.columns]
    if missing:
        raise CorruptionError(f"Manifest {path} misses a field: {missing[0]}.", path=path)
    for version, _ in groupby(table.columns["_VERSION"].values.tolist()):
        if version != FORMAT_VERSION:
            raise InvalidInputError(f"Manifest {path} has format {version}, which cannot be read.", path=path)
    return table


def _keys(table: AvroColumns) -> list[tuple[bytes, int]]:
    """Partition and bucket of each row; equal pairs and equal partitions are one object."""
    seen: dict[tuple[bytes, int], tuple[bytes, int]] = {}
    partitions: dict[bytes, bytes] = {}
    keys = []
    every = np.arange(sum(table.file_rows))
    for partition, bucket in zip(_raw(table, "_PARTITION", every), _numbers(table, "_BUCKET", every), strict=True):
        key = (partitions.setdefault(partition, partition), bucket)
        keys.append(seen.setdefault(key, key))
    return keys


def _entries(table: AvroColumns, rows: Longs, keys: list[tuple[bytes, int]]) -> Iterator[ManifestEntry]:
    kinds, totals = _numbers(table, "_KIND", rows), _numbers(table, "_TOTAL_BUCKETS", rows)
    for row, kind, total, file in zip(rows.tolist(), kinds, totals, _files(table, rows), strict=True):
        partition, bucket = keys[row]
        yield ManifestEntry(kind=_KINDS[kind], partition=partition, bucket=bucket, total_buckets=total, file=file)


def _files(table: AvroColumns, rows: Longs) -> list[DataFileMeta]:
    """One object per row, filled through its slots: the constructor of a frozen class costs 4 s per million files.

    The garbage collector is off meanwhile: nothing here is garbage, and it would traverse all of it many times.
    """
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        return list(_make_files(table, rows))
    finally:
        if was_collecting:
            gc.enable()


def _make_files(table: AvroColumns, rows: Longs) -> Iterator[DataFileMeta]:
    columns = {name: read(table, f"_FILE.{avro}", rows) for name, (avro, read) in _FIELDS.items()}
    columns["file_source"] = [_SOURCES[source] for source in columns["file_source"]]
    columns["extra_files"] = [extra or () for extra in columns["extra_files"]]
    for name in ("min_key", "max_key"):  # one object for all files of an append table
        columns[name] = [EMPTY_ROW if key == EMPTY_ROW else key for key in columns[name]]
    unread = [UNREAD_STATS] * len(rows)
    columns |= {"key_stats": unread, "value_stats": unread, "value_stats_cols": [None] * len(rows)}
    columns["unknown"] = [()] * len(rows)
    setters = [vars(DataFileMeta)[field.name].__set__ for field in fields(DataFileMeta)]
    for values in zip(*(columns[field.name] for field in fields(DataFileMeta)), strict=True):
        file = object.__new__(DataFileMeta)
        for set_field, value in zip(setters, values):  # noqa: B905 - equal lengths, and strict costs time
            set_field(file, value)
        yield file


def _numbers(table: AvroColumns, name: str, rows: Longs) -> list[Any]:
    column = table.columns.get(name)
    if column is None or not column.present.any():
        return [None] * len(rows)
    values = column.values[rows].tolist()
    if column.present.all():
        return values
    return [value if present else None for value, present in zip(values, column.present[rows].tolist(), strict=True)]


def _spans(column: AvroColumn, rows: Longs) -> Iterator[tuple[int, int, bool]]:
    starts = column.starts[rows]
    ends = starts + column.values[rows]
    return zip(starts.tolist(), ends.tolist(), column.present[rows].tolist(), strict=True)


def _raw(table: AvroColumns, name: str, rows: Longs) -> list[Any]:
    column, body = table.columns.get(name), table.body
    if column is None or not column.present.any():
        return [None] * len(rows)
    return [body[start:end] if present else None for start, end, present in _spans(column, rows)]


def _texts(table: AvroColumns, name: str, rows: Longs) -> list[Any]:
    return [None if raw is None else raw.decode() for raw in _raw(table, name, rows)]


def _names(table: AvroColumns, name: str, rows: Longs) -> list[Any]:
    """Names of files in the bucket's folder; a name that leads elsewhere is an error, as files are removed by name."""
    return [None if text is None else checked_name(text) for text in _texts(table, name, rows)]


def _name_arrays(table: AvroColumns, name: str, rows: Longs) -> list[Any]:
    found = _text_arrays(table, name, rows)
    return [None if names is None else tuple(map(checked_name, names)) for names in found]


def _text_arrays(table: AvroColumns, name: str, rows: Longs) -> list[Any]:
    return _arrays(table, name, rows, item=read_bytes)


def _long_arrays(table: AvroColumns, name: str, rows: Longs) -> list[Any]:
    return _arrays(table, name, rows, item=read_long)


def _arrays(table: AvroColumns, name: str, rows: Longs, *, item: Callable[[bytes, int], tuple[Any, int]]) -> list[Any]:
    column = table.columns.get(name)
    if column is None or not column.present.any():
        return [None] * len(rows)
    counts, starts, present = (each[rows].tolist() for each in (column.values, column.starts, column.present))
    return [
        None if not there else () if count == 0 else _array(table.body, start, item)
        for count, start, there in zip(counts, starts, present, strict=True)
    ]


def _array(body: bytes, at: int, item: Callable[[bytes, int], tuple[Any, int]]) -> tuple[Any, ...]:
    items: list[Any] = []
    while True:
        count, at = read_long(body, at)
        if count == 0:
            return tuple(value.decode() if isinstance(value, bytes) else value for value in items)
        if count < 0:  # then the size of this block in bytes follows
            _, at = read_long(body, at)
        for _ in range(abs(count)):
            value, at = item(body, at)
            items.append(value)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[AvroColumns, str, Longs], list[Any]]]]] = {
    "file_name": ("_FILE_NAME", _names),
    "file_size": ("_FILE_SIZE", _numbers),
    "row_count": ("_ROW_COUNT", _numbers),
    "min_key": ("_MIN_KEY", _raw),
    "max_key": ("_MAX_KEY", _raw),
    "min_sequence_number": ("_MIN_SEQUENCE_NUMBER", _numbers),
    "max_sequence_number": ("_MAX_SEQUENCE_NUMBER", _numbers),
    "schema_id": ("_SCHEMA_ID", _numbers),
    "level": ("_LEVEL", _numbers),
    "extra_files": ("_EXTRA_FILES", _name_arrays),
    "creation_time_ms": ("_CREATION_TIME", _numbers),
    "delete_row_count": ("_DELETE_ROW_COUNT", _numbers),
    "embedded_file_index": ("_EMBEDDED_FILE_INDEX", _raw),
    "file_source": ("_FILE_SOURCE", _numbers),
    "external_path": ("_EXTERNAL_PATH", _texts),
    "first_row_id": ("_FIRST_ROW_ID", _numbers),
    "write_cols": ("_WRITE_COLS", _text_arrays),
    "write_cols_sequences": ("_WRITE_COLS_SEQUENCES", _long_arrays),
}
_ALWAYS: Final = 9  # the first ones are in every version
_REQUIRED: Final = (*_ENTRY, *(f"_FILE.{avro}" for avro, _ in list(_FIELDS.values())[:_ALWAYS]))
_WANTED: Final = frozenset(_ENTRY) | {f"_FILE.{avro}" for avro, _ in _FIELDS.values()}
