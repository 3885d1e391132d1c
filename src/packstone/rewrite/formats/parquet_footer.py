"""Read Parquet footers: which files may be merged, how much memory an open file takes, and INT96 timestamps.

**Agreement.** Two files agree if a reader could not determine, from anything but the file's name, which of the two a
row came from: they have the same schema tree (names, repetition, physical and logical types, field ids, list and map
layout, decimal storage), codec, sort order, and the same *writer semantics*: Spark reads dates and timestamps
differently by the version and calendar keys in the footer, and Hive, Spark and Impala read INT96 timestamps by the
writer's name, so those must be equal too. Keys that only describe the writer (a version) may differ.

pandas stores an index of consecutive numbers as ``{"kind": "range", "start": 0, "stop": 100, "step": 1}`` and not as a
column. For rows without an index, pandas uses an unnamed range from 0: a merged file gets such a range over all its
rows. Any other range is data, and the only copy of it: two such ranges form one range only by chance, so such files
are left alone.

**INT96.** These timestamps are nanoseconds of a Julian day, which exceed the range of 64 bits. PyArrow decodes INT96
into 64-bit nanoseconds and silently wraps values that do not fit: 9999-12-31 becomes 1816. In microseconds the range
fits, but nanosecond digits are cut. And some writers (Flink, Paimon) store a time before 1970 as a negative number of
nanoseconds of the day after: PyArrow reads that correctly as nanoseconds, and as another century in any other unit.
None of this can be detected in decoded values, so the twelve bytes themselves are read: PyArrow returns them if the
footer that it is given declares the column as FIXED_LEN_BYTE_ARRAY. A column with nanosecond digits or such negative
times *and* a date outside the range of nanoseconds fits neither unit, and is left alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.blame_file import blame_file, one_line
from packstone.rewrite.formats.parquet_batches import check_expansion, is_bounded, read_batches
from packstone.rewrite.formats.parquet_checks import MAGIC, check_footer
from packstone.rewrite.formats.parquet_scan import scan_footer
from packstone.rewrite.formats.parquet_thrift import (
    I32,
    LIST,
    STRUCT,
    Struct,
    ThriftList,
    field_spans,
    read_struct,
    write_struct,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packstone.rewrite.formats.parquet_scan import FooterKind
    from packstone.storage.fileio import FileIO

_PANDAS_KEY: Final = b"pandas"
_ARROW_KEY: Final = b"ARROW:schema"
_DEFAULT_INDEX: Final = {"kind": "range", "name": None, "start": 0, "step": 1}
_SPARK_VERSION = b"org.apache.spark.version"
_PARQUET_MR = "parquet-mr"
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_HADOOP_LZ4 = "UNKNOWN"  # PyArrow's name; it reads these frames but cannot write them. Its LZ4 is LZ4_RAW
_SPARK_HYBRID_CALENDAR_ENDED = 3  # Spark 2 wrote the hybrid Julian calendar; only its version shows that
# Keys whose value describes the file or its writer, not its rows; the output keeps those of the first file.
_DESCRIPTIVE_KEYS = frozenset({_SPARK_VERSION, _PANDAS_KEY, _ARROW_KEY, b"writer.date", b"duckdb_version"})
# PyArrow prints the source of a logical type, which is not a property of the type. And an int64 that is annotated
# as a signed 64-bit integer (DuckDB does that) is an int64.
_NO_PROPERTY = re.compile(
    r", is_from_converted_type=\w+(?:, force_set_converted_type=\w+)?| \(Int\(bitWidth=(?:32|64), isSigned=true\)\)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterFacts:
    """The facts of one footer that planning needs."""

    rows: int
    agreement: str
    columns: str
    codec: str


def open_parquet(io: FileIO, path: str, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file for streaming; UnreadableFileError, with the reason, if it is not one."""
    with blame_file(path, "cannot be read"):
        source = io.open_input(path)
        check_footer(source, path)
    with blame_file(path, "has a broken Parquet footer"):
        # One read-ahead buffer per column costs memory and gains nothing on files this small.
        return pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True, **options)


def read_footer_facts(io: FileIO, path: str, *, codec: str = "keep", source: Any = None) -> FooterFacts:
    """Read one footer and reduce it to a digest that is equal for files that agree.

    UnfaithfulError, with the reason, if the file cannot be merged with any other. ``source`` is the open file, if any.
    """
    with blame_file(path, "cannot be read"):
        footer = scan_footer(source or io.open_input(path), path)
    remembered = footer.kind.remembered
    found = remembered.get(("facts", codec))
    if found is None:
        with open_parquet(io, path) as file:
            found = remembered["facts", codec] = _facts_of_kind(file, codec=codec)
    if isinstance(found, str):
        raise UnfaithfulError(found)
    if not is_bounded(footer):
        with open_parquet(io, path) as file:
            check_expansion(io, path, file)
    agreement, columns, codecs = found
    return FooterFacts(rows=footer.rows, agreement=agreement, columns=columns, codec=codecs)


def _facts_of_kind(file: pq.ParquetFile, *, codec: str) -> tuple[str, str, str] | str:
    """The agreement, columns and codec of all files whose footers are of one kind, or why they cannot be merged."""
    metadata = file.metadata
    why = _why_codec(metadata, wanted=codec) or _why_own_index((metadata.metadata or {}).get(_PANDAS_KEY))
    if why:
        return why
    tree = schema_tree(metadata.schema)
    facts = (
        tree,
        codecs_of(metadata) if codec == "keep" else codec,
        sorting_of(metadata),
        tuple(bloom_columns_of(metadata)),
        writer_semantics(metadata.metadata or {}),
        int96_writer(metadata),
        _ARROW_KEY in (metadata.metadata or {}) and _arrow_schema_text(file),
    )
    return (
        hashlib.sha256(repr(facts).encode()).hexdigest()[:16],
        hashlib.sha256(tree.encode()).hexdigest()[:8],
        "+".join(sorted(set(codecs_of(metadata).values()))) or "empty",
    )


def schema_tree(schema: pq.ParquetSchema) -> str:
    """The schema's tree as text, without the root's name and without the sources of types."""
    lines = str(schema).splitlines()[1:]
    return "\n".join(_plain_type(line) for line in lines[1:] if line.strip())


def _plain_type(line: str) -> str:
    """Remove from a line of the tree what is not part of the type; an int32 annotated as 64-bit is unchanged."""
    if "bitWidth=64" in line and " int64 " not in line:
        return line
    return _NO_PROPERTY.sub("", line)


def codecs_of(metadata: pq.FileMetaData) -> dict[str, str]:
    """The codec of every column that holds data (those of the first row group)."""
    if metadata.num_row_groups == 0:
        return {}
    group = metadata.row_group(0)
    columns = (group.column(i) for i in range(metadata.num_columns))
    return {column.path_in_schema: column.compression for column in columns}


def sorting_of(metadata: pq.FileMetaData) -> tuple[tuple[int, bool, bool], ...]:
    """The sort order that the row groups claim; empty unless all claim the same."""
    claims = {
        tuple((s.column_index, s.descending, s.nulls_first) for s in metadata.row_group(i).sorting_columns)
        for i in range(metadata.num_row_groups)
    }
    return claims.pop() if len(claims) == 1 else ()


def bloom_columns_of(metadata: pq.FileMetaData) -> dict[str, int]:
    """The columns that have a bloom filter, with the number of distinct values that its size is made for.

    Floating-point numbers may be equal and differ in their bits, which a filter holds: readers then miss -0.0 when they
    look for 0.0. So a filter of such a column is written only if every row group had one. Filters of booleans are not
    kept: parquet-mr writes an empty one if it has to write filters for all columns, and no reader asks it.
    """
    if metadata.num_row_groups == 0:
        return {}
    columns = (metadata.row_group(0).column(at) for at in range(metadata.num_columns))
    filtered = [
        (at, column)
        for at, column in enumerate(columns)
        if _has_bloom_filter(column) and column.physical_type != "BOOLEAN"
    ]
    groups = [metadata.row_group(at) for at in range(1, metadata.num_row_groups)] if filtered else []
    return {
        column.path_in_schema: _distinct_values(column)
        for at, column in filtered
        if column.physical_type not in _FLOATS or all(_has_bloom_filter(group.column(at)) for group in groups)
    }


def _has_bloom_filter(column: pq.ColumnChunkMetaData) -> bool:
    return getattr(column, "bloom_filter_offset", None) is not None


def _distinct_values(column: pq.ColumnChunkMetaData) -> int:
    """Estimate by about ten bits per value of a split-block filter; a common number if the size is not stated."""
    length_bytes = column.bloom_filter_length
    return max(64, length_bytes * 8 // 10) if length_bytes else 10_000


def has_page_index(metadata: pq.FileMetaData) -> bool:
    """Whether the first column carries an offset index (writers do all columns or none)."""
    return bool(metadata.num_row_groups and metadata.num_columns and metadata.row_group(0).column(0).has_offset_index)


def writer_semantics(keys: dict[bytes, bytes]) -> tuple[tuple[str, str], ...]:
    """The keys that change the meaning of the rows: all but descriptive ones, and Spark's calendar era."""
    kept = {
        k.decode("utf-8", "replace"): v.decode("utf-8", "replace")
        for k, v in keys.items()
        if k not in _DESCRIPTIVE_KEYS
    }
    kept["spark calendar"] = _spark_era(keys.get(_SPARK_VERSION))
    if _PANDAS_KEY in keys:
        kept["pandas"] = _without_range(keys[_PANDAS_KEY])
    return tuple(sorted(kept.items()))


def int96_columns(file: pq.ParquetFile) -> list[str]:
    """The leaf columns that are stored as INT96."""
    schema = file.metadata.schema
    return [schema.column(i).path for i in range(len(schema)) if schema.column(i).physical_type == "INT96"]


def int96_writer(metadata: pq.FileMetaData) -> str | None:
    """The writer that determines the meaning of INT96 timestamps; None if there are none.

    Hive converts only timestamps of ``parquet-mr`` to the reader's zone; Spark (``int96TimestampConversion``) and
    Impala, if so configured, convert those of all other writers.
    """
    schema = metadata.schema
    if all(schema.column(at).physical_type != "INT96" for at in range(len(schema))):
        return None
    created_by: str = metadata.created_by or ""
    return _PARQUET_MR if created_by.startswith(_PARQUET_MR) else created_by.partition(" version")[0]


def _why_codec(metadata: pq.FileMetaData, *, wanted: str) -> str:
    """Name a codec that PyArrow cannot read or write; ``check_footer`` refuses codec numbers unknown to it."""
    groups = (metadata.row_group(at) for at in range(metadata.num_row_groups))
    found = {group.column(at).compression for group in groups for at in range(group.num_columns)}
    if "LZO" in found:
        return "it is compressed with LZO, which PyArrow cannot read"
    if _HADOOP_LZ4 in found and wanted == "keep":
        return "it is compressed with Hadoop's LZ4, which PyArrow cannot write; set --codec to change it"
    return ""


def _spark_era(version: bytes | None) -> str:
    if version is None:
        return "not Spark"
    major = version.split(b".", 1)[0]
    return "hybrid" if major.isdigit() and int(major) < _SPARK_HYBRID_CALENDAR_ENDED else "proleptic"


def _arrow_schema_text(file: pq.ParquetFile) -> str:
    return str(file.schema_arrow.to_string(show_schema_metadata=False, truncate_metadata=False))


def _why_own_index(note: bytes | None) -> str:
    """Name the row index that would be lost if files with such pandas metadata were merged; empty if none."""
    for index in _index_ranges(_parse_note(note)):
        if {key: index.get(key) for key in _DEFAULT_INDEX} != _DEFAULT_INDEX:
            name = index.get("name")
            named = f" {name}" if name is not None else ""
            ends = f"{index.get('start')} to {index.get('stop')}"
            return f"pandas' row index{named} ({ends}) is only in its footer, and a merged file would have one for all"
    return ""


def _without_range(note: bytes) -> str:
    """The pandas metadata without what may differ between files that agree: the range's end, the writer's versions."""
    parsed = _parse_note(note)
    if parsed is None:
        return note.decode("utf-8", "replace")
    for index in _index_ranges(parsed):
        index.pop("stop", None)
    for key in ("creator", "pandas_version"):
        parsed.pop(key, None)
    return json.dumps(parsed, sort_keys=True)


def with_row_count(key_values: Mapping[bytes, bytes], rows: int) -> dict[bytes, bytes]:
    """The key-values for a file of this many rows; Arrow's own schema has a second copy of the pandas metadata."""
    change = {_PANDAS_KEY: _ending_at, _ARROW_KEY: _with_note_ending_at}
    return {key: change[key](value, rows) if key in change else value for key, value in key_values.items()}


def _with_note_ending_at(schema: bytes, rows: int) -> bytes:
    try:
        parsed = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))
    except (ValueError, OSError):
        return schema  # no reader can parse it, so it needs no change
    note = (parsed.metadata or {}).get(_PANDAS_KEY)
    if note is None or _ending_at(note, rows) == note:
        return schema
    changed = parsed.with_metadata({**parsed.metadata, _PANDAS_KEY: _ending_at(note, rows)})
    return base64.b64encode(changed.serialize().to_pybytes())


def _ending_at(note: bytes, rows: int) -> bytes:
    """End the range at the number of rows; metadata that needs no change is returned byte for byte."""
    parsed = _parse_note(note)
    ranges = _index_ranges(parsed)
    if all(index.get("stop") == rows for index in ranges):
        return note
    for index in ranges:
        index["stop"] = rows
    return json.dumps(parsed).encode()


def _parse_note(note: bytes | None) -> dict[str, Any] | None:
    try:
        found = json.loads(note or b"")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _index_ranges(note: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The parts of the index that are not columns."""
    indexes = (note or {}).get("index_columns")
    return [index for index in indexes if isinstance(index, dict)] if isinstance(indexes, list) else []


# ---- memory of an open file ----

_PAGE_BYTES = 256 << 10
_VALUES_BETWEEN_CHECKS = 1024  # a writer checks the size of a page after this many values, however big they are
_DICTIONARY_BYTES = 1 << 20  # most writers stop using a bigger one
_COLUMN_BYTES = 48 << 10  # buffers and a decompressor


def held_bytes(group: pq.RowGroupMetaData) -> int:
    """Estimate the memory of an open file, besides its batches, from one of its row groups.

    The file is read batch by batch and in small buffers. Each column holds a page, stored and decoded, and often a
    dictionary.
    """
    return sum(_column_bytes(group.column(at)) for at in range(group.num_columns))


def _column_bytes(chunk: pq.ColumnChunkMetaData) -> int:
    size_bytes = int(chunk.total_uncompressed_size)
    dictionary = max(_DICTIONARY_BYTES, _dictionary_bytes(chunk)) if chunk.has_dictionary_page else 0
    page = max(_PAGE_BYTES, size_bytes // max(1, chunk.num_values) * _VALUES_BETWEEN_CHECKS)
    return min(2 * size_bytes, dictionary + 2 * page) + _COLUMN_BYTES


def _dictionary_bytes(chunk: pq.ColumnChunkMetaData) -> int:
    """Estimate the size of a decompressed dictionary from its offset and that of the data pages."""
    stored = max(0, chunk.data_page_offset - (chunk.dictionary_page_offset or chunk.data_page_offset))
    return int(stored * chunk.total_uncompressed_size // max(1, chunk.total_compressed_size))


# ---- INT96 ----

_US_LIMIT = (2**63 - 1) // 1000
_DAY_US = 86_400_000_000
_MAX_DAYS_NS = _US_LIMIT // _DAY_US
_MAX_DAYS_US = (2**63 - 1) // _DAY_US - 1
_JULIAN_1970 = 2_440_588
_INT96_BYTES = 12
_INT96 = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_BATCH_ROWS = 65_536
_TAIL_BYTES = 8  # the footer's length and the magic
# FileMetaData, RowGroup, ColumnChunk, ColumnMetaData
_SCHEMA, _ROW_GROUPS, _KEY_VALUES, _COLUMN_ORDERS = 2, 4, 5, 7
_COLUMNS, _SORTING_COLUMNS, _META_DATA, _STATISTICS = 1, 4, 3, 12
# SchemaElement (and ColumnMetaData), and the numbers of the physical types
_TYPE, _TYPE_LENGTH, _NUM_CHILDREN, _INT96_TYPE, _BINARY_TYPE = 1, 2, 5, 3, 7
_MEANING = (6, 7, 8, 10)  # converted type, scale, precision, logical type


class Int96Unit:
    """Finds the unit ("us" or "ns") that can hold all INT96 values that it is shown."""

    def __init__(self) -> None:
        self._needs_nanos = self._needs_range = False

    def add(self, path: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Add values as raw bytes; UnfaithfulError, with the reason, if no unit can hold all of them."""
        for days, nanos in (one for batch in batches for one in raw_int96(batch)):
            if bool((np.abs(days) > _MAX_DAYS_US).any()):
                raise UnfaithfulError(f"{path} has an INT96 date beyond the year 294246, which no Arrow type holds")
            self._needs_nanos = self._needs_nanos or bool(((nanos % 1000 != 0) | (nanos < 0)).any())
            self._needs_range = self._needs_range or not fit_nanoseconds(days, nanos)
        if self._needs_nanos and self._needs_range:
            raise UnfaithfulError(
                "an INT96 column holds nanosecond digits as well as dates outside 1677-2262, which no Arrow type holds"
            )

    def __str__(self) -> str:
        return "ns" if self._needs_nanos else "us"


def find_int96_unit(io: FileIO, paths: Sequence[str]) -> str:
    """The unit ("us" or "ns") that can hold all INT96 values of the files."""
    unit = Int96Unit()
    for path in paths:
        unit.add(path, raw_batches(io, path))
    return str(unit)


def raw_batches(io: FileIO, path: str) -> Iterator[pa.RecordBatch]:
    """Yield the fields of a file that hold INT96, as raw twelve bytes."""
    with blame_file(path, "cannot be read"):
        source = io.open_input(path)
        check_footer(source, path)
    with _open_raw(source, path, only_int96=True) as file:
        yield from read_batches(file, path, batch_rows=_BATCH_ROWS)


def open_raw_int96(io: FileIO, path: str) -> pq.ParquetFile:
    """Open a file that ``open_parquet`` can open, with its INT96 columns as raw twelve bytes."""
    return _open_raw(io.open_input(path), path)


def open_stored_values(source: Any, path: str) -> pq.ParquetFile:
    """Open a checked file whose values are read as Parquet stores them, whatever they mean.

    A decimal, UUID, half float or INT96 is read as bytes, a date as an integer: PyArrow then returns plain arrays of
    seven types, with which it can compute, and no value is converted.
    """
    return _open_raw(source, path, keeps_meaning=False)


def _open_raw(source: Any, path: str, *, only_int96: bool = False, keeps_meaning: bool = True) -> pq.ParquetFile:
    """Open a checked file with INT96 as raw bytes.

    ``only_int96``: without the top-level columns that have none. ``keeps_meaning``: with the logical types of values.
    """
    size_bytes = source.size()
    length = int.from_bytes(source.read_at(4, size_bytes - _TAIL_BYTES), "little")
    try:
        footer, _ = read_struct(source.read_at(length, size_bytes - _TAIL_BYTES - length))
        if only_int96:
            _keep_int96_fields(footer)
        if not keeps_meaning:
            _drop_meaning(footer)
        data = write_struct(_as_binaries(footer))
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + data + len(data).to_bytes(4, "little") + MAGIC))
        return pq.ParquetFile(source, metadata=metadata, pre_buffer=False, page_checksum_verification=True)
    except (ValueError, KeyError, pa.ArrowException) as error:
        raise UnreadableFileError(f"{path} has a broken Parquet footer: {one_line(error)}.", file=path) from error


def int96_schema(kind: FooterKind) -> tuple[bytes, bytes, tuple[int, ...]]:
    """The bytes before and after the row groups of a footer with only the fields that hold INT96, as raw bytes.

    And the numbers of the leaves that it has.
    """
    found = kind.remembered.get("int96 schema")
    if found is None:
        footer, _ = read_struct(kind.prefix + b"\x16\x00\x19\x0c" + kind.suffix)  # no rows, no row groups
        leaves = _keep_int96_fields(footer)
        data = write_struct(_as_binaries(footer))
        spans = field_spans(data)
        found = kind.remembered["int96 schema"] = (
            data[: spans[_SCHEMA][1]],
            data[spans[_ROW_GROUPS][1] :],
            tuple(leaves),
        )
    prefix, suffix, numbers = found
    return prefix, suffix, numbers


def _keep_int96_fields(footer: Struct) -> list[int]:
    """Remove the top-level fields without INT96: most of a small footer, which would be written and read again.

    Return the numbers of the leaves that are kept.
    """
    root, *elements = footer[_SCHEMA][1].items
    kept: list[Struct] = []
    chunks: list[int] = []  # numbers of the leaves in the kept fields
    at = leaves = fields = 0
    while at < len(elements):
        end = _end_of_field(elements, at)
        field = elements[at:end]
        count = sum(_TYPE in element for element in field)
        if any(element.get(_TYPE) == (I32, _INT96_TYPE) for element in field):
            kept += field
            chunks += range(leaves, leaves + count)
            fields += 1
        at, leaves = end, leaves + count
    root[_NUM_CHILDREN] = I32, fields
    footer[_SCHEMA] = LIST, ThriftList(STRUCT, [root, *kept])
    footer.pop(_COLUMN_ORDERS, None)  # one for each leaf, and of no use for reading
    for group in footer[_ROW_GROUPS][1].items:
        columns = group[_COLUMNS][1].items
        group[_COLUMNS] = LIST, ThriftList(STRUCT, [columns[number] for number in chunks])
        group.pop(_SORTING_COLUMNS, None)  # they number the leaves
    return chunks


def _end_of_field(elements: list[Struct], at: int) -> int:
    """The position after a field of a schema, which is written depth first."""
    left = 1
    while left:
        left += elements[at].get(_NUM_CHILDREN, (I32, 0))[1] - 1
        at += 1
    return at


def raw_int96(batch: pa.RecordBatch) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Yield, for each column of twelve bytes, the days since 1970 and the nanoseconds of the day, without nulls."""
    for column in batch.columns:
        for leaf in _binary_leaves(column):
            values = leaf.drop_null()
            raw = np.frombuffer(values.buffers()[1] or b"", _INT96)[values.offset : values.offset + len(values)]
            yield raw["day"].astype(np.int64) - _JULIAN_1970, raw["nanos"]


def fit_nanoseconds(days: np.ndarray[Any, Any], nanos: np.ndarray[Any, Any]) -> bool:
    """Whether all of these times fit 64-bit nanoseconds since 1970."""
    if bool((np.abs(days) > _MAX_DAYS_NS).any()):
        return False
    micros = days * _DAY_US + nanos // 1000
    return not bool((np.abs(micros) > _US_LIMIT).any())


def read_in_unit(io: FileIO, path: str, unit: str, *, columns: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the INT96 columns decoded in a unit, in the same batches as a read in any other unit."""
    with open_parquet(io, path, coerce_int96_timestamp_unit=unit) as file:
        yield from read_batches(file, path, batch_rows=batch_rows, columns=columns)


def _as_binaries(footer: Struct) -> Struct:
    """Declare INT96 as a binary of twelve bytes, in the schema and in every column chunk."""
    for element in footer[_SCHEMA][1].items:
        if element.get(_TYPE) == (I32, _INT96_TYPE):
            element[_TYPE] = I32, _BINARY_TYPE
            element[_TYPE_LENGTH] = I32, _INT96_BYTES
            ordered = sorted(element.items())
            element.clear()
            element.update(ordered)
    for group in footer[_ROW_GROUPS][1].items:
        for chunk in group[_COLUMNS][1].items:
            metadata = chunk[_META_DATA][1]
            if metadata[_TYPE] == (I32, _INT96_TYPE):
                metadata[_TYPE] = I32, _BINARY_TYPE
                metadata.pop(_STATISTICS, None)
    footer.pop(_KEY_VALUES, None)  # `ARROW:schema` declares timestamps
    return footer


def _drop_meaning(footer: Struct) -> None:
    """Remove the logical types of values; those of lists and maps are kept."""
    for element in footer[_SCHEMA][1].items:
        if _TYPE in element:
            for field in _MEANING:
                element.pop(field, None)


def _binary_leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The fixed-size binary arrays inside structs, lists and maps."""
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        yield array
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            yield from _binary_leaves(child)
    elif pa.types.is_map(kind):
        yield from _binary_leaves(array.keys)
        yield from _binary_leaves(array.items)
    elif pa.types.is_nested(kind):
        yield from _binary_leaves(array.flatten())
