"""Read the rows of Parquet data files, row group by row group.

**Only some rows of a row group.** PyArrow reads a column chunk from its beginning. A task that merges the last quarter
of the keys of files with one big row group would decode all of each, and four tasks together two and a half times the
data. A page can be decoded on its own, given the chunk's dictionary; so PyArrow is given a virtual file:

::

    file:     ... | dict, page 0, page 1, page 2, page 3 | dict, page 0, page 1 | ... footer
    rows:           k: 0          100     200     300      v: 0          250
    virtual file for rows 220 to 310:
              PAR1 | dict, page 2, page 3 | dict, page 0, page 1 | footer

Pages of several columns do not begin at the same rows, so each column is read alone, and its rows before the first
wanted row are dropped after decoding. The schema in the footer is unchanged, so types are found as in the real file.

**Duplicate columns.** A merge-tree file stores its key twice, as key columns and among the value columns. Where the
writer encoded both alike, their column chunks are the same bytes. That is quickly compared, and proves that they
decode to the same values, so only one of them is decoded.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.blame_file import one_line
from packstone.rewrite.formats.parquet_batches import check_expansion, decoded_row_bytes, read_batches
from packstone.rewrite.formats.parquet_footer import (
    fit_nanoseconds,
    int96_columns,
    open_parquet,
    open_raw_int96,
    raw_int96,
)
from packstone.rewrite.formats.parquet_pages import Chunk, VirtualFile, find_pages, strip_group
from packstone.rewrite.formats.parquet_thrift import Struct, read_struct, write_struct
from packstone.rewrite.merge_tree.cursor import FileShare, KeyBounds, count_below
from packstone.rewrite.small_files.spliced_file import CannotSpliceError, read_footer

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

# Many files are open at once: a column chunk is read in pieces of this size instead of as a whole.
_BUFFER_BYTES = 128 << 10
_MAX_BATCH_ROWS = 1 << 16


class ParquetRows:
    """An open Parquet file; batches come with the position of their first row."""

    def __init__(
        self, io: FileIO, path: str, columns: list[str], *, widths: RowWidths, coded: Sequence[str] = ()
    ) -> None:
        """Open a file; the string columns in ``coded`` are returned as dictionary arrays."""
        self._io, self._path, self._widths = io, path, widths
        self._source = io.open_input(path)
        self._options = {"buffer_size": _BUFFER_BYTES, "read_dictionary": list(coded)}
        self._file = open_parquet(io, path, **self._options)
        wanted = set(columns)
        self.schema = pa.schema([field for field in self._file.schema_arrow if field.name in wanted])
        fields = set(self.schema.names)
        self._int96 = [path for path in int96_columns(self._file) if {path, path.split(".", 1)[0]} & fields]

    def batches(self, *, batch_bytes: int, share: FileShare | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of about ``batch_bytes``; rows outside the share of keys are skipped where that is cheap."""
        metadata = self._file.metadata
        least_bytes = check_expansion(self._io, self._path, self._file)
        row_bytes = self._widths.of(self._io, self._file, self._path, schema=self.schema)
        at = 0
        for group in range(metadata.num_row_groups):
            group_rows = metadata.row_group(group).num_rows
            ends = None if share is None else _ends_of(metadata.row_group(group), share.column)
            if share is None or ends is None or not share.is_outside(*ends):
                rows = min(_MAX_BATCH_ROWS, max(1, batch_bytes // max(row_bytes, least_bytes)))
                cut_by = None if share is None or ends is None or share.is_inside(*ends) else share
                for start, batch in self._group_batches(group, rows, cut_by):
                    row_bytes = self._widths.note(batch)
                    yield at + start, batch
            at += group_rows

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)
        self._source.close()

    def _group_batches(
        self, group: int, batch_rows: int, share: FileShare | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        names = self.schema.names
        duplicates = find_duplicate_columns(self._source, self._file, group, schema=self.schema)
        decoded = [name for name in names if name not in duplicates]
        start = 0
        paged = None
        if share is not None and not self._int96:
            source, file, options = self._source, self._file, self._options
            paged = open_paged(source, file, path=self._path, group=group, columns=decoded, options=options)
        if paged is not None and share is not None:
            column = duplicates.get(share.column, share.column)
            start, end = _find_rows(paged, column, share.bounds)
            inside = paged.batches(decoded, (start, end), batch_rows=batch_rows)
            batches = _check_inside(inside, column, share.bounds, path=self._path)
        else:
            batches = read_batches(self._file, self._path, batch_rows=batch_rows, columns=decoded, row_groups=(group,))
        checks = self._raw_int96(group, batch_rows) if self._int96 else None
        for batch in batches:
            if checks is not None:
                _check_no_wrap(next(checks), self._path)
            yield start, add_duplicate_columns(batch, duplicates, names)
            start += batch.num_rows

    def _raw_int96(self, group: int, rows: int) -> Iterator[pa.RecordBatch]:
        """Read the INT96 columns again, as bytes, to find times that overflow nanoseconds silently."""
        with open_raw_int96(self._io, self._path) as file:
            yield from read_batches(file, self._path, batch_rows=rows, columns=self._int96, row_groups=(group,))


class RowWidths:
    """The width of decoded rows: measured in the first file, and raised when rows of other files are wider."""

    def __init__(self) -> None:
        self._row_bytes = 0

    def of(self, io: FileIO, file: pq.ParquetFile, path: str, *, schema: pa.Schema) -> int:
        """Estimate the width of a row of these columns."""
        if not self._row_bytes:
            whole = decoded_row_bytes(io, file, path, known=0)
            self._row_bytes = max(1, whole * len(schema) // max(1, len(file.schema_arrow)))
        return self._row_bytes

    def note(self, batch: pa.RecordBatch) -> int:
        """Raise the width if these decoded rows are wider; return the width."""
        self._row_bytes = max(self._row_bytes, batch.nbytes // max(1, batch.num_rows))
        return self._row_bytes


def _check_no_wrap(raw: pa.RecordBatch, path: str) -> None:
    for name in raw.schema.names:
        if not all(fit_nanoseconds(*both) for both in raw_int96(raw.select([name]))):
            raise UnfaithfulError(
                f"{path}: column {name} holds a time outside 1677-2262, which nanoseconds cannot hold"
            )


def _ends_of(group: pq.RowGroupMetaData, name: str) -> tuple[Any, Any] | None:
    """Smallest and largest value of a column by its statistics; None if the statistics do not cover all values."""
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema == name:
            found = column.statistics
            if found is None or not found.has_min_max or not found.has_null_count or found.null_count:
                return None  # nulls come before every value and are in no statistics
            return found.min, found.max
    return None


def _find_rows(paged: PagedGroup, column: str, bounds: KeyBounds) -> tuple[int, int]:
    """The range of rows of a sorted row group within the bounds; two tasks find the same row for one bound."""
    lower, upper = bounds.lower, bounds.upper
    start = 0 if lower is None else paged.count_below(column, lambda values: count_below(values, lower))
    end = paged.rows if upper is None else paged.count_below(column, lambda values: count_below(values, upper))
    return start, end


def _check_inside(
    batches: Iterator[pa.RecordBatch], column: str, bounds: KeyBounds, *, path: str
) -> Iterator[pa.RecordBatch]:
    """Check that rows selected by position are within the bounds; otherwise a row would be in no task's share."""
    for batch in batches:
        if bounds.find(batch.column(column)) != (0, batch.num_rows):
            raise UnreadableFileError(f"{path} is not sorted by its key.", file=path)
        yield batch


_SCHEMA, _ROW_GROUPS, _GROUP_COLUMNS, _GROUP_ROWS = 2, 4, 1, 3  # fields in parquet.thrift
_HEAD_BYTES: Final = 1000  # memory of a column in the parsed schema
_MOST_COLUMNS: Final = 200  # reading each column alone has a cost, also in Python

CountBelow = Callable[[pa.Array], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedFooter:
    """A packed footer that can be cached: parsing one takes about 50 us for each column chunk of all row groups."""

    head: Struct  # without row groups
    groups: tuple[bytes, ...]

    @classmethod
    def read(cls, source: Any) -> PagedFooter:
        """Read the footer; CannotSpliceError, ValueError or TypeError if it cannot be parsed."""
        footer = read_footer(source)
        groups = tuple(write_struct(strip_group(group)) for group in footer[_ROW_GROUPS][1].items)
        return cls(head={number: value for number, value in footer.items() if number != _ROW_GROUPS}, groups=groups)

    @property
    def nbytes(self) -> int:
        """The approximate memory; the schema is kept as Python objects."""
        return sum(map(len, self.groups)) + _HEAD_BYTES * len(self.head[_SCHEMA][1].items)

    def unpack(self, group: int) -> Struct:
        """One row group."""
        return read_struct(self.groups[group])[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedGroup:
    """A row group from which any range of rows can be read."""

    source: Any
    path: str
    rows: int
    options: dict[str, Any]  # with which PyArrow opens the file
    footer: Struct
    group: Struct
    chunks: dict[str, Chunk] = field(default_factory=dict)

    def count_below(self, name: str, count: CountBelow) -> int:
        """Count the values of a sorted column that are below a bound; ``count`` does so for an array.

        Only a few pages are decoded: the first value of each page that a binary search visits, and one whole page.
        """
        starts = self.chunks[name].starts

        def count_in(first: int, last: int) -> int:
            found = self.batches([name], (first, min(last, self.rows)), batch_rows=max(1, last - first))
            return sum(count(batch.column(0)) for batch in found)

        later_pages = range(1, len(starts) - 1)
        page = bisect.bisect_left(later_pages, 1, key=lambda at: 1 - count_in(starts[at], starts[at] + 1))
        return starts[page] + count_in(starts[page], starts[page + 1])

    def batches(self, columns: Sequence[str], rows: tuple[int, int], *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the group from the first number up to, but not including, the second."""
        first, last = rows
        if first >= last:
            return
        virtual = VirtualFile(self.footer, self.group, self.source)
        skips = [first - virtual.add(self.chunks[name], first, last) for name in columns]
        with self._open(virtual) as file:
            streams = [
                _Stream(read_batches(file, self.path, batch_rows=batch_rows, columns=[name], row_groups=(0,)))
                for name in columns
            ]
            for stream, skip in zip(streams, skips, strict=True):
                stream.skip(skip)
            for start in range(first, last, batch_rows):
                count = min(batch_rows, last - start)
                yield pa.RecordBatch.from_arrays([stream.take(count) for stream in streams], names=list(columns))

    def _open(self, virtual: VirtualFile) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(virtual.finish(), pre_buffer=False, page_checksum_verification=True, **self.options)
        except (pa.ArrowException, OSError) as error:
            raise UnreadableFileError(f"{self.path} has broken pages: {one_line(error)}.", file=self.path) from error


def open_paged(
    source: Any,
    file: pq.ParquetFile,
    *,
    path: str,
    group: int,
    columns: Sequence[str],
    options: dict[str, Any],
    footer: Callable[[], PagedFooter] | None = None,
) -> PagedGroup | None:
    """Open a row group by pages; None if one of these columns is nested, or if some page cannot be parsed.

    A caller that reads several row groups of a file passes its ``footer``, which is called only if it is needed.
    """
    schema = file.metadata.schema
    names = [schema.column(at).path for at in range(len(schema))]
    is_plain = all(names.count(name) == 1 and _is_flat(schema.column(names.index(name))) for name in columns)
    if not is_plain or len(names) > _MOST_COLUMNS:
        return None
    try:
        if footer is None:
            head = read_footer(source)
            found = strip_group(head[_ROW_GROUPS][1].items[group])
        else:
            kept = footer()
            head, found = kept.head, kept.unpack(group)
        rows = found[_GROUP_ROWS][1]
        chunks = found[_GROUP_COLUMNS][1].items
        pages = {name: find_pages(source, chunks, at=names.index(name), rows=rows) for name in columns}
    except (CannotSpliceError, ValueError, TypeError):
        return None  # if something is broken, reading from the beginning reports it
    return PagedGroup(source=source, path=path, rows=rows, options=options, footer=head, group=found, chunks=pages)


def _is_flat(column: pq.ColumnSchema) -> bool:
    return bool(column.max_repetition_level == 0 and "." not in column.path)


class _Stream:
    """The values of one column, taken in pieces of any size."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._waiting: pa.Array | None = None

    def skip(self, count: int) -> None:
        """Drop values."""
        while count:
            values = self._next()
            self._waiting = values.slice(count) if len(values) > count else None
            count -= min(count, len(values))

    def take(self, count: int) -> pa.Array:
        """Return the next values."""
        pieces = []
        while count:
            values = self._next()
            pieces.append(values.slice(0, count) if len(values) > count else values)
            self._waiting = values.slice(count) if len(values) > count else None
            count -= len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)

    def _next(self) -> pa.Array:
        if self._waiting is not None:
            return self._waiting
        return next(self._batches).column(0)


_COMPARED_BYTES = 1 << 20


def find_duplicate_columns(source: Any, file: pq.ParquetFile, group: int, *, schema: pa.Schema) -> dict[str, str]:
    """Map each column whose bytes equal those of an earlier column to that column; nested columns are ignored."""
    metadata = file.metadata.row_group(group)
    firsts: dict[tuple[object, ...], list[tuple[str, pq.ColumnChunkMetaData]]] = {}
    duplicates: dict[str, str] = {}
    paths = [metadata.column(at).path_in_schema for at in range(metadata.num_columns)]
    for at in range(metadata.num_columns):
        chunk = metadata.column(at)
        name = chunk.path_in_schema
        if schema.get_field_index(name) < 0 or paths.count(name) > 1:
            continue  # nested, not wanted, or a name with dots that a nested column has too
        column = file.schema.column(at)
        alike = firsts.setdefault(
            (
                schema.field(name).type,
                chunk.physical_type,
                column.max_definition_level,
                chunk.compression,
                chunk.total_compressed_size,
                chunk.total_uncompressed_size,
            ),
            [],
        )
        same = next((first for first, other in alike if _same_bytes(source, chunk, other)), None)
        if same is None:
            alike.append((name, chunk))
        else:
            duplicates[name] = same
    return duplicates


def add_duplicate_columns(batch: pa.RecordBatch, duplicates: dict[str, str], names: Sequence[str]) -> pa.RecordBatch:
    """Add the duplicate columns that were not decoded, and put all columns in order."""
    if not duplicates and batch.schema.names == list(names):
        return batch
    arrays = [batch.column(duplicates.get(name, name)) for name in names]
    return type(batch).from_arrays(arrays, names=list(names))


def _same_bytes(source: Any, one: pq.ColumnChunkMetaData, other: pq.ColumnChunkMetaData) -> bool:
    start, other_start = _start(one), _start(other)
    size = one.total_compressed_size
    for at in range(0, size, _COMPARED_BYTES):
        count = min(_COMPARED_BYTES, size - at)
        if source.read_at(count, start + at) != source.read_at(count, other_start + at):
            return False
    return True


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    """The offset of the first page: a dictionary precedes the data, and some writers state 0 if there is none."""
    offset = chunk.dictionary_page_offset
    return int(min(offset, chunk.data_page_offset) if offset else chunk.data_page_offset)
