"""What a Parquet footer tells: which files agree so fully that their rows may share one file.

Two files agree if a reader could not tell, from anything but the file's name, which of the two a row came
from: the same schema tree (names, repetition, physical and logical types, field ids, list and map layout,
decimal storage), codec, sort order, and the same *writer semantics*: Spark reads dates and timestamps
differently by the version and calendar keys in the footer, so those must be equal too. Keys that only
describe the writer (a version, pandas' row index) may differ.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import UnreadableFileError

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"
_MIN_BYTES = 12  # magic, an empty footer's length, magic
_SPARK_VERSION = b"org.apache.spark.version"
_SPARK_HYBRID_CALENDAR_ENDED = 3  # Spark 2 wrote the hybrid Julian calendar and said so by its version alone
# Keys whose value describes the file or its writer, not its rows; the output keeps the first file's.
_DESCRIPTIVE_KEYS = frozenset({_SPARK_VERSION, b"pandas", b"ARROW:schema", b"writer.date", b"duckdb_version"})
# pyarrow prints where it took a logical type from; that is no property of the type. And an int64 that is annotated
# as a signed 64-bit integer (DuckDB does that) is an int64.
_NO_PROPERTY = re.compile(
    r", is_from_converted_type=\w+(?:, force_set_converted_type=\w+)?| \(Int\(bitWidth=(?:32|64), isSigned=true\)\)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterFacts:
    """What planning needs of one footer."""

    rows: int
    agreement: str
    columns: str
    codec: str


def open_parquet(io: FileIO, path: str, **options: Any) -> pq.ParquetFile:  # noqa: ANN401 - pyarrow's options
    """Open a Parquet file for streaming; UnreadableFileError, with the reason, if it is none."""
    try:
        source = io.open_input(path)
        size_bytes = source.size()
        if size_bytes < _MIN_BYTES:
            raise UnreadableFileError(f"{path} is too short ({size_bytes} bytes) to be a Parquet file.", file=path)
        _check_magic(source, path, size_bytes)
        # One read-ahead buffer per column costs memory and gains nothing on files this small.
        return pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True, **options)
    except pa.ArrowException as error:
        raise UnreadableFileError(f"{path} has a broken Parquet footer: {one_line(error)}.", file=path) from error
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {one_line(error)}.", file=path) from error


def read_footer_facts(io: FileIO, path: str, *, codec: str = "keep") -> FooterFacts:
    """Read one footer and reduce it to a line that is equal for files that agree."""
    with open_parquet(io, path) as file:
        metadata = file.metadata
        tree = schema_tree(metadata.schema)
        facts = (
            tree,
            codecs_of(metadata) if codec == "keep" else codec,
            sorting_of(metadata),
            tuple(bloom_columns_of(metadata)),
            writer_semantics(metadata.metadata or {}),
            b"ARROW:schema" in (metadata.metadata or {}) and _arrow_schema_text(file),
        )
        return FooterFacts(
            rows=metadata.num_rows,
            agreement=hashlib.sha256(repr(facts).encode()).hexdigest()[:16],
            columns=hashlib.sha256(tree.encode()).hexdigest()[:8],
            codec="+".join(sorted(set(codecs_of(metadata).values()))) or "empty",
        )


def schema_tree(schema: pq.ParquetSchema) -> str:
    """Print the schema's tree without the root's name and without where types were learned from."""
    lines = str(schema).splitlines()[1:]
    return "\n".join(_plain_type(line) for line in lines[1:] if line.strip())


def _plain_type(line: str) -> str:
    """Drop from a line of the tree what does not belong to the type; an int32 annotated as 64-bit stays as it is."""
    if "bitWidth=64" in line and " int64 " not in line:
        return line
    return _NO_PROPERTY.sub("", line)


def codecs_of(metadata: pq.FileMetaData) -> dict[str, str]:
    """Name the codec of every column that holds data (the first row group speaks for the file)."""
    if metadata.num_row_groups == 0:
        return {}
    group = metadata.row_group(0)
    columns = (group.column(i) for i in range(metadata.num_columns))
    return {column.path_in_schema: column.compression for column in columns}


def sorting_of(metadata: pq.FileMetaData) -> tuple[tuple[int, bool, bool], ...]:
    """Tell the order the row groups claim; empty unless all claim the same."""
    claims = {
        tuple((s.column_index, s.descending, s.nulls_first) for s in metadata.row_group(i).sorting_columns)
        for i in range(metadata.num_row_groups)
    }
    return claims.pop() if len(claims) == 1 else ()


def bloom_columns_of(metadata: pq.FileMetaData) -> dict[str, int]:
    """Name the columns that carry a bloom filter, with the number of distinct values its size is made for."""
    if metadata.num_row_groups == 0:
        return {}
    group = metadata.row_group(0)
    columns = (group.column(i) for i in range(metadata.num_columns))
    filters = ((c.path_in_schema, getattr(c, "bloom_filter_offset", None), c) for c in columns)
    return {path: _distinct_values(column) for path, offset, column in filters if offset is not None}


def _distinct_values(column: pq.ColumnChunkMetaData) -> int:
    """A split-block filter takes about ten bits a value; a file that does not tell the size gets a common one."""
    length_bytes = column.bloom_filter_length
    return max(64, length_bytes * 8 // 10) if length_bytes else 10_000


def has_page_index(metadata: pq.FileMetaData) -> bool:
    """Whether the first column carries an offset index (writers do all columns or none)."""
    return bool(metadata.num_row_groups and metadata.num_columns and metadata.row_group(0).column(0).has_offset_index)


def writer_semantics(keys: dict[bytes, bytes]) -> tuple[tuple[str, str], ...]:
    """Keep what changes the meaning of the rows: all keys but descriptive ones, and Spark's calendar era."""
    kept = {
        k.decode("utf-8", "replace"): v.decode("utf-8", "replace")
        for k, v in keys.items()
        if k not in _DESCRIPTIVE_KEYS
    }
    kept["spark calendar"] = _spark_era(keys.get(_SPARK_VERSION))
    if b"pandas" in keys:
        kept["pandas"] = _pandas_without_range(keys[b"pandas"])
    return tuple(sorted(kept.items()))


def one_line(error: BaseException) -> str:
    """Reduce an error to its first line without a closing dot."""
    text = str(error) or type(error).__name__
    return text.splitlines()[0].rstrip(". ")


def _check_magic(source: Any, path: str, size_bytes: int) -> None:  # noqa: ANN401 - a pyarrow file
    head, tail = source.read_at(4, 0), source.read_at(4, size_bytes - 4)
    if _ENCRYPTED_MAGIC in (head, tail):
        raise UnreadableFileError(f"{path} is an encrypted Parquet file; packstone has no key for it.", file=path)
    if head != MAGIC:
        raise UnreadableFileError(f"{path} is no Parquet file, although its name says so.", file=path)
    if tail != MAGIC:
        raise UnreadableFileError(f"{path} is a truncated Parquet file: its footer is missing.", file=path)


def _spark_era(version: bytes | None) -> str:
    if version is None:
        return "not Spark"
    major = version.split(b".", 1)[0]
    return "hybrid" if major.isdigit() and int(major) < _SPARK_HYBRID_CALENDAR_ENDED else "proleptic"


def _pandas_without_range(text: bytes) -> str:
    """Drop from pandas' note what differs between any two files: the range of the row index."""
    try:
        note = json.loads(text)
        note["index_columns"] = [c if isinstance(c, str) else "range" for c in note.get("index_columns", [])]
        for key in ("creator", "pandas_version"):
            note.pop(key, None)
        return json.dumps(note, sort_keys=True)
    except (ValueError, AttributeError, TypeError):
        return text.decode("utf-8", "replace")


def _arrow_schema_text(file: pq.ParquetFile) -> str:
    return str(file.schema_arrow.to_string(show_schema_metadata=False, truncate_metadata=False))
