"""Decode a Parquet file in batches of bounded size, and refuse a file for which that is impossible.

The size of a file does not show how much memory its rows take. A megabyte can hold gigabytes: a list of a billion
zeros, a text of a gigabyte that repeats one letter, a million rows that refer to the same long dictionary entry. A row
cannot be decoded in pieces, so a file is refused if one row group holds more than a task can hold and is packed more
densely than real data; where rows are small but dictionary entries are long, batches get fewer rows.

=========================  =====================================================  =================================
column                     decoded bytes of a row group                           known from
=========================  =====================================================  =================================
lists and maps             number of values times their width                     footer
text without a dictionary  uncompressed bytes                                     footer
text with a dictionary     number of values times the mean length of an entry     the dictionary, if it may matter
others                     number of rows times their width                       never too large
=========================  =====================================================  =================================

Cost: a few µs per file; for files that may be affected, their dictionaries are read, 1 % of the cost of decoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.model.sizes import format_bytes
from packstone.rewrite.blame_file import blame_file, one_line
from packstone.rewrite.formats.parquet_checks import BYTE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.rewrite.formats.parquet_scan import ScannedFooter
    from packstone.storage.fileio import FileIO

# 8 MiB of decoded rows fit the last-level cache; fewer, longer batches would not be faster.
_BATCH_BYTES = 8 << 20
_MAX_BATCH_ROWS = 65_536
_PROBED_ROWS = 256
_UNPROBED_BYTES = 64 << 20
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4}  # all others: 8 bytes and more
_WIDTH: Final = 8
_LEVELS: Final = 4  # bytes for the levels of a value in a list
_DENSE: Final = 200  # ratio of decoded to stored bytes; real data reaches 20, sparse vectors 100
# Limits for data that is packed that densely.
_MAX_GROUP_BYTES: Final = 256 << 20  # lists and texts of a row group: it is decoded several times over, in 1 GB
_MAX_TEXT_BYTES: Final = 4 << 30  # dictionary entries: they are decoded batch by batch, so this bounds the time
_MAX_FILE_BYTES: Final = 32 << 30  # the whole file: about two minutes
_HARMLESS_BYTES: Final = 256 << 20
_BATCHES_OF_LONG_ENTRIES: Final = 8  # a batch of only the longest entries may be this many times larger


def read_batches(
    file: pq.ParquetFile,
    path: str,
    *,
    batch_rows: int,
    columns: list[str] | None = None,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield rows, one row group at a time: PyArrow cannot make a batch of nested dictionaries from two row groups."""
    with blame_file(path, "has a broken data page"):
        try:
            for group in range(file.num_row_groups) if row_groups is None else row_groups:
                rows = 0
                for batch in file.iter_batches(
                    batch_size=batch_rows, row_groups=[group], columns=columns, use_threads=False
                ):
                    rows += batch.num_rows
                    yield batch
                if columns is None or columns:
                    check_decoded_rows(path, rows, file.metadata.row_group(group).num_rows)
        except pa.ArrowNotImplementedError as error:
            raise UnfaithfulError(f"PyArrow cannot read {path}: {one_line(error)}") from error


def check_decoded_rows(path: str, rows: int, stated_rows: int) -> None:
    """Raise if fewer rows were decoded than the footer states: PyArrow ends silently at a damaged page header."""
    if rows != stated_rows:
        raise UnreadableFileError(
            f"{path} has a broken data page: {rows:,} of {stated_rows:,} rows can be read", file=path
        )


def decoded_row_bytes(io: FileIO, file: pq.ParquetFile, path: str, *, known: int) -> int:
    """Estimate the decoded size of a row: from the footer, and from what is known of earlier files.

    The footer states encoded sizes, and each byte of a dictionary-encoded column may refer to a long string. So the
    first rows of the first file are decoded. UnfaithfulError if decoding takes too much.
    """
    before, known = known, max(known, check_expansion(io, path, file))
    metadata = file.metadata
    encoded = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    row_bytes = max(known, encoded // max(1, metadata.num_rows), 1)
    is_little = metadata.num_rows * encoded <= _UNPROBED_BYTES  # if every row had every byte of the file
    if before or metadata.num_rows <= _PROBED_ROWS or is_little:
        return row_bytes
    probed = min(_PROBED_ROWS, batch_rows_for(row_bytes))
    first = next(read_batches(file, path, batch_rows=probed), None)
    return row_bytes if first is None else max(row_bytes, first.nbytes // max(1, first.num_rows))


def batch_rows_for(row_bytes: int) -> int:
    """The number of rows of a batch that fits the cache."""
    return min(_MAX_BATCH_ROWS, max(1, _BATCH_BYTES // row_bytes))


def check_expansion(io: FileIO, path: str, file: pq.ParquetFile) -> int:
    """Raise UnfaithfulError, with the size, if decoding takes too much; return the minimum bytes of a row.

    The minimum is 0 where the footer's own sizes are sufficient.
    """
    metadata = file.metadata
    row_bytes = total_bytes = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not group.num_rows:
            continue
        total_bytes += group.num_rows * metadata.num_columns * _WIDTH
        dense_bytes = 0
        for chunk, width in _repeated(file, group):
            decoded_bytes = chunk.num_values * width
            total_bytes += decoded_bytes
            dense_bytes += _check(path, chunk, decoded_bytes, limit_bytes=_MAX_GROUP_BYTES, beside=dense_bytes)
            row_bytes = max(row_bytes, decoded_bytes // group.num_rows)
        if group.num_rows * group.total_byte_size > _HARMLESS_BYTES:
            for chunk in _text_chunks(file, group):
                size_bytes = chunk.total_uncompressed_size
                dense_bytes += _check(path, chunk, size_bytes, limit_bytes=_MAX_GROUP_BYTES, beside=dense_bytes)
                if chunk.dictionary_page_offset:  # 0 if there is none, in files of some writers
                    mean, longest = _entry_bytes(io, path, chunk.path_in_schema, group=number)
                    _check(path, chunk, chunk.num_values * mean, limit_bytes=_MAX_TEXT_BYTES)
                    total_bytes += chunk.num_values * mean
                    many = max(1, chunk.num_values // group.num_rows)
                    row_bytes = max(row_bytes, longest * many // _BATCHES_OF_LONG_ENTRIES)
    _check_total(io, path, total_bytes)
    return row_bytes


def is_bounded(footer: ScannedFooter) -> bool:
    """Whether ``check_expansion`` accepts a file whatever its dictionaries hold: no entry is longer than its chunk."""
    total_bytes = 0
    for group in footer.groups:
        dense_bytes = 0
        chunks = group.chunks
        for leaf, values, plain_bytes in zip(footer.kind.leaves, chunks.values, chunks.plain_bytes, strict=True):
            total_bytes += group.rows * _WIDTH
            if leaf.repetition:
                dense_bytes += values * (_LEVELS + _WIDTH)
            if leaf.kind == BYTE_ARRAY:
                dense_bytes += plain_bytes
                if values * plain_bytes > _MAX_TEXT_BYTES:
                    return False
                total_bytes += values * plain_bytes
        total_bytes += dense_bytes
        if dense_bytes > _MAX_GROUP_BYTES:
            return False
    return total_bytes <= _MAX_FILE_BYTES


def is_harmless(footer: ScannedFooter) -> bool:
    """Whether a file can be decoded in memory whatever its columns are."""
    rows = sum(group.rows for group in footer.groups)
    values = sum(sum(group.chunks.values) for group in footer.groups)
    return (
        values * (_LEVELS + _WIDTH) <= _MAX_GROUP_BYTES
        and rows * len(footer.kind.leaves) * _WIDTH <= _MAX_GROUP_BYTES
        and all(group.rows * group.plain_bytes <= _HARMLESS_BYTES for group in footer.groups)
    )


def _check_total(io: FileIO, path: str, total_bytes: int) -> None:
    """Bound the time: row groups of a few bytes can state any number of rows."""
    if total_bytes <= _MAX_FILE_BYTES:
        return
    found = io.stat(path)
    if found is not None and total_bytes > _DENSE * found.size_bytes:
        raise UnfaithfulError(
            f"{path} holds {format_bytes(total_bytes)} in {format_bytes(found.size_bytes)}, which is too much to decode"
        )


def _repeated(file: pq.ParquetFile, group: pq.RowGroupMetaData) -> Iterator[tuple[pq.ColumnChunkMetaData, int]]:
    schema = file.schema
    for leaf in range(len(schema)):
        column = schema.column(leaf)
        if column.max_repetition_level:
            yield group.column(leaf), _LEVELS + _WIDTHS.get(column.physical_type, _WIDTH)


def _text_chunks(file: pq.ParquetFile, group: pq.RowGroupMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    schema = file.schema
    for leaf in range(len(schema)):
        if schema.column(leaf).physical_type == "BYTE_ARRAY":
            chunk = group.column(leaf)
            if chunk.num_values * chunk.total_uncompressed_size > _HARMLESS_BYTES:
                yield chunk


def _entry_bytes(io: FileIO, path: str, column: str, *, group: int) -> tuple[int, int]:
    """Mean and greatest length of the entries of a dictionary; (0, 0) if PyArrow does not expose them."""
    with (
        blame_file(path, "has a broken data page"),
        io.open_input(path) as source,
        pq.ParquetFile(source, pre_buffer=False, read_dictionary=[column]) as coded,
    ):
        batches = coded.iter_batches(batch_size=1, row_groups=[group], columns=[column], use_threads=False)
        first = next(batches, None)
        if first is None or not first.num_columns or not hasattr(first.column(0), "dictionary"):
            return 0, 0
        lengths = pc.binary_length(first.column(0).dictionary)
        return int(pc.mean(lengths).as_py() or 0), int(pc.max(lengths).as_py() or 0)


def _check(path: str, chunk: pq.ColumnChunkMetaData, decoded_bytes: int, *, limit_bytes: int, beside: int = 0) -> int:
    """Return the decoded size of a densely packed chunk, else 0; UnfaithfulError if that is too much."""
    stored = max(1, chunk.total_compressed_size)
    if decoded_bytes <= _DENSE * stored:
        return 0
    if beside + decoded_bytes > limit_bytes:
        raise UnfaithfulError(
            f"{path} holds {format_bytes(decoded_bytes)} in {format_bytes(stored)} of its column "
            f"{chunk.path_in_schema}, which is too much to decode"
        )
    return decoded_bytes
