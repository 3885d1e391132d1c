"""What a Parquet footer tells: which files agree so fully that their rows may share one file.

Two files agree if a reader could not tell, from anything but the file's name, which of the two a row came
from: the same schema tree (names, repetition, physical and logical types, field ids, list and map layout,
decimal storage), codec, sort order, and the same *writer semantics*: Spark reads dates and timestamps
differently by the version and calendar keys in the footer, and Hive, Spark and Impala read INT96 timestamps by the
writer's name, so those must be equal too. Keys that only describe the writer (a version) may differ.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from packstone.errors import UnfaithfulError
from packstone.rewrite.blame_file import blame_file
from packstone.rewrite.blame_file import one_line as one_line  # noqa: PLC0414 - many import it from here
from packstone.rewrite.parquet.check_footer import check_footer
from packstone.rewrite.parquet.expansion import check_expansion
from packstone.rewrite.parquet.pandas_note import PANDAS_KEY, why_own_index, without_range

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_SPARK_VERSION = b"org.apache.spark.version"
_PARQUET_MR = "parquet-mr"
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_HADOOP_LZ4 = "UNKNOWN"  # to PyArrow, which reads its frames and cannot write them; what it calls LZ4 is LZ4_RAW
_SPARK_HYBRID_CALENDAR_ENDED = 3  # Spark 2 wrote the hybrid Julian calendar and said so by its version alone
# Keys whose value describes the file or its writer, not its rows; the output keeps the first file's.
_DESCRIPTIVE_KEYS = frozenset({_SPARK_VERSION, PANDAS_KEY, b"ARROW:schema", b"writer.date", b"duckdb_version"})
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
    with blame_file(path, "cannot be read"):
        source = io.open_input(path)
        check_footer(source, path)
    with blame_file(path, "has a broken Parquet footer"):
        # One read-ahead buffer per column costs memory and gains nothing on files this small.
        return pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True, **options)


def read_footer_facts(io: FileIO, path: str, *, codec: str = "keep") -> FooterFacts:
    """Read one footer and reduce it to a line that is equal for files that agree.

    UnfaithfulError, with the reason, if the file cannot be merged with any other.
    """
    with open_parquet(io, path) as file:
        metadata = file.metadata
        why = _why_codec(metadata, wanted=codec) or why_own_index((metadata.metadata or {}).get(PANDAS_KEY))
        if why:
            raise UnfaithfulError(why)
        check_expansion(io, path, file)
        tree = schema_tree(metadata.schema)
        facts = (
            tree,
            codecs_of(metadata) if codec == "keep" else codec,
            sorting_of(metadata),
            tuple(bloom_columns_of(metadata)),
            writer_semantics(metadata.metadata or {}),
            int96_writer(metadata),
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
    """Name the columns that carry a bloom filter, with the number of distinct values its size is made for.

    Floating-point numbers may be equal and differ in their bits, which a filter holds: readers then miss -0.0 when they
    ask for 0.0. So a filter of such a column is made only for rows that had one, in every row group.
    """
    if metadata.num_row_groups == 0:
        return {}
    columns = (metadata.row_group(0).column(at) for at in range(metadata.num_columns))
    filtered = [(at, column) for at, column in enumerate(columns) if _has_bloom_filter(column)]
    groups = [metadata.row_group(at) for at in range(1, metadata.num_row_groups)] if filtered else []
    return {
        column.path_in_schema: _distinct_values(column)
        for at, column in filtered
        if column.physical_type not in _FLOATS or all(_has_bloom_filter(group.column(at)) for group in groups)
    }


def _has_bloom_filter(column: pq.ColumnChunkMetaData) -> bool:
    return getattr(column, "bloom_filter_offset", None) is not None


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
    if PANDAS_KEY in keys:
        kept["pandas"] = without_range(keys[PANDAS_KEY])
    return tuple(sorted(kept.items()))


def int96_writer(metadata: pq.FileMetaData) -> str | None:
    """Name the writer that gives INT96 timestamps their meaning; None if there are none.

    Hive converts those of ``parquet-mr`` to the reader's zone, and nobody else's; Spark
    (``int96TimestampConversion``) and Impala, if so configured, all but those.
    """
    schema = metadata.schema
    if all(schema.column(at).physical_type != "INT96" for at in range(len(schema))):
        return None
    created_by: str = metadata.created_by or ""
    return _PARQUET_MR if created_by.startswith(_PARQUET_MR) else created_by.partition(" version")[0]


def _why_codec(metadata: pq.FileMetaData, *, wanted: str) -> str:
    """Say which codec PyArrow cannot read, or not write; numbers that it does not know end in ``check_footer``."""
    groups = (metadata.row_group(at) for at in range(metadata.num_row_groups))
    found = {group.column(at).compression for group in groups for at in range(group.num_columns)}
    if "LZO" in found:
        return "it is compressed with LZO, which PyArrow cannot read"
    if _HADOOP_LZ4 in found and wanted == "keep":
        return "it is compressed with Hadoop's LZ4, which PyArrow cannot write; give --codec to change it"
    return ""


def _spark_era(version: bytes | None) -> str:
    if version is None:
        return "not Spark"
    major = version.split(b".", 1)[0]
    return "hybrid" if major.isdigit() and int(major) < _SPARK_HYBRID_CALENDAR_ENDED else "proleptic"


def _arrow_schema_text(file: pq.ParquetFile) -> str:
    return str(file.schema_arrow.to_string(show_schema_metadata=False, truncate_metadata=False))
