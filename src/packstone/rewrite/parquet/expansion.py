"""How much memory the rows of a Parquet file take when they are decoded, where its size does not tell.

A megabyte can hold gigabytes: a list of a billion zeros, a text of a gigabyte that repeats one letter, a million rows
that name the same long dictionary entry. A row cannot be decoded in pieces, so a file is left alone if one row group
holds more than fits a task and is packed more densely than data is; where rows are small but dictionary entries are
long, batches get fewer rows.

=========================  =====================================================  =================================
column                     decoded bytes of a row group                           known from
=========================  =====================================================  =================================
lists and maps             number of values times their width                     footer
text without a dictionary  uncompressed bytes                                     footer
text with a dictionary     number of values times the mean length of an entry     the dictionary, if it may matter
others                     number of rows times their width                       nothing to fear
=========================  =====================================================  =================================

Cost: a few µs per file; files that may be affected have their dictionaries read, which is 1 % of decoding them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from packstone.errors import UnfaithfulError
from packstone.model.sizes import format_bytes
from packstone.rewrite.blame_file import blame_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4}  # all others: 8 bytes and more
_WIDTH: Final = 8
_LEVELS: Final = 4  # bytes for the levels of a value in a list
_DENSE: Final = 200  # decoded to stored; real data reaches 20, sparse vectors 100
# Limits for what is packed that densely.
_MAX_GROUP_BYTES: Final = 256 << 20  # lists and texts of a row group: it is decoded several times over, in 1 GB
_MAX_TEXT_BYTES: Final = 4 << 30  # dictionary entries: they are decoded batch by batch, so this bounds the time
_MAX_FILE_BYTES: Final = 32 << 30  # everything: about two minutes
_HARMLESS_BYTES: Final = 256 << 20
_BATCHES_OF_LONG_ENTRIES: Final = 8  # a batch of the longest entries only may be this many times a usual one


def check_expansion(io: FileIO, path: str, file: pq.ParquetFile) -> int:
    """Raise UnfaithfulError, with the number, if decoding takes too much; return the bytes a row takes at least.

    The number is 0 where the footer's own sizes say enough.
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
                if chunk.has_dictionary_page:
                    mean, longest = _entry_bytes(io, path, chunk.path_in_schema, group=number)
                    _check(path, chunk, chunk.num_values * mean, limit_bytes=_MAX_TEXT_BYTES)
                    total_bytes += chunk.num_values * mean
                    many = max(1, chunk.num_values // group.num_rows)
                    row_bytes = max(row_bytes, longest * many // _BATCHES_OF_LONG_ENTRIES)
    _check_total(io, path, total_bytes)
    return row_bytes


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
    """Mean and greatest length of the entries of a dictionary; (0, 0) if PyArrow does not show them."""
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
    """Return what a densely packed chunk takes when it is decoded, else 0; UnfaithfulError if that is too much."""
    stored = max(1, chunk.total_compressed_size)
    if decoded_bytes <= _DENSE * stored:
        return 0
    if beside + decoded_bytes > limit_bytes:
        raise UnfaithfulError(
            f"{path} holds {format_bytes(decoded_bytes)} in {format_bytes(stored)} of its column "
            f"{chunk.path_in_schema}, which is too much to decode"
        )
    return decoded_bytes
