"""Some rows of a row group without decoding those before them: each column from the page on that holds the first one.

PyArrow reads a column chunk from its beginning. A task that merges the last quarter of the keys of files with one big
row group would decode all of each, and four tasks together two and a half times what there is. A page can be decoded on
its own, given the chunk's dictionary; so what PyArrow is shown is a file that is not there:

::

    file:     ... | dict, page 0, page 1, page 2, page 3 | dict, page 0, page 1 | ... footer
    rows:           k: 0          100     200     300      v: 0          250
    shown for rows 220 to 310:
              PAR1 | dict, page 2, page 3 | dict, page 0, page 1 | footer

Pages of several columns do not begin at the same rows, so each column is read alone, and its rows before the first one
wanted are dropped after decoding. The schema in the footer stays, so types are found as they are in the file itself.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import UnreadableFileError
from packstone.rewrite.data_files.parquet_spans import Chunk, ShownFile, find_pages, strip_group
from packstone.rewrite.parquet.batches import read_batches
from packstone.rewrite.parquet.footer import one_line
from packstone.rewrite.parquet.splice_plan import CannotSpliceError
from packstone.rewrite.parquet.spliced_file import read_footer
from packstone.rewrite.parquet.thrift_compact import Struct, read_struct, write_struct

_SCHEMA, _ROW_GROUPS, _GROUP_COLUMNS, _GROUP_ROWS = 2, 4, 1, 3  # fields in parquet.thrift
_HEAD_BYTES: Final = 1000  # that a column takes in the schema
_MOST_COLUMNS: Final = 200  # reading each alone has its price, also in Python

CountBelow = Callable[[pa.Array], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedFooter:
    """A footer to be kept, packed: reading one takes about 50 us for each column chunk, of all row groups."""

    head: Struct  # without row groups
    groups: tuple[bytes, ...]

    @classmethod
    def read(cls, source: Any) -> PagedFooter:  # noqa: ANN401 - a pyarrow file
        """Read it; CannotSpliceError, ValueError or TypeError if it is not understood."""
        footer = read_footer(source)
        groups = tuple(write_struct(strip_group(group)) for group in footer[_ROW_GROUPS][1].items)
        return cls(head={number: value for number, value in footer.items() if number != _ROW_GROUPS}, groups=groups)

    @property
    def nbytes(self) -> int:
        """Memory, about: the schema is in the form that Python has of it."""
        return sum(map(len, self.groups)) + _HEAD_BYTES * len(self.head[_SCHEMA][1].items)

    def unpack(self, group: int) -> Struct:
        """One row group."""
        return read_struct(self.groups[group])[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedGroup:
    """A row group of which any rows can be read."""

    source: Any
    path: str
    rows: int
    options: dict[str, Any]  # with which PyArrow opens the file
    footer: Struct
    group: Struct
    chunks: dict[str, Chunk] = field(default_factory=dict)

    def count_below(self, name: str, count: CountBelow) -> int:
        """Count the values of a sorted column that are below a bound; ``count`` does so for an array.

        Only a few pages are decoded: those on which a binary search by first values looks, and the last one whole.
        """
        starts = self.chunks[name].starts

        def count_in(first: int, last: int) -> int:
            found = self.batches([name], (first, min(last, self.rows)), batch_rows=max(1, last - first))
            return sum(count(batch.column(0)) for batch in found)

        later_pages = range(1, len(starts) - 1)
        page = bisect.bisect_left(later_pages, 1, key=lambda at: 1 - count_in(starts[at], starts[at] + 1))
        return starts[page] + count_in(starts[page], starts[page + 1])

    def batches(self, columns: Sequence[str], rows: tuple[int, int], *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the group from the first number up to, without it, the second."""
        first, last = rows
        if first >= last:
            return
        shown = ShownFile(self.footer, self.group, self.source)
        skips = [first - shown.add(self.chunks[name], first, last) for name in columns]
        with self._open(shown) as file:
            streams = [
                _Stream(read_batches(file, self.path, batch_rows=batch_rows, columns=[name], row_groups=(0,)))
                for name in columns
            ]
            for stream, skip in zip(streams, skips, strict=True):
                stream.skip(skip)
            for start in range(first, last, batch_rows):
                count = min(batch_rows, last - start)
                yield pa.RecordBatch.from_arrays([stream.take(count) for stream in streams], names=list(columns))

    def _open(self, shown: ShownFile) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(shown.finish(), pre_buffer=False, page_checksum_verification=True, **self.options)
        except (pa.ArrowException, OSError) as error:
            raise UnreadableFileError(f"{self.path} has broken pages: {one_line(error)}.", file=self.path) from error


def open_paged(
    source: Any,  # noqa: ANN401 - a pyarrow file
    file: pq.ParquetFile,
    *,
    path: str,
    group: int,
    columns: Sequence[str],
    options: dict[str, Any],
    footer: Callable[[], PagedFooter] | None = None,
) -> PagedGroup | None:
    """Look at a row group; None if one of these columns is nested, or if its pages are not all understood.

    Who reads several row groups of a file gives its ``footer``, which is asked for late.
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
        return None  # if something is broken, reading from the beginning will name it
    return PagedGroup(source=source, path=path, rows=rows, options=options, footer=head, group=found, chunks=pages)


def _is_flat(column: pq.ColumnSchema) -> bool:
    return bool(column.max_repetition_level == 0 and "." not in column.path)


class _Stream:
    """The values of one column, in whatever pieces are asked for."""

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
