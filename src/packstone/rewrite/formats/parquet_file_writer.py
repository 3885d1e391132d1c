"""Write a Parquet file with PyArrow, row group by row group, and edit its footer before it is written.

PyArrow writes the footer last. It is held back, edited where needed, and then written:

- statistics of floating-point columns follow the rule below;
- ``created_by`` can be that of the inputs, where readers derive the meaning of values from it;
- the caller may pass its own edit.

**Statistics of floating-point columns**, one rule for all Parquet files that Packstone writes. Readers skip row
groups, and take maxima, from a chunk's smallest and largest value. NaN is in neither, and readers do not agree about
its order: Spark, DuckDB, Polars and Java order it after every number, PyArrow does not order it. A reader that trusts
bounds of a chunk with a NaN loses rows of ``x = NaN`` and ``x > 5``, and finds too many of ``x < NaN``. Writers differ
too (PyArrow 26, DuckDB 2, Polars 2, parquet-mr from 1.10 on):

====================================  ===================  ==============
chunk                                 PyArrow, Polars      DuckDB, Spark
====================================  ===================  ==============
numbers                               bounds               bounds
numbers and NaN                       bounds without NaN   none
only NaN                              none                 none
====================================  ===================  ==============

So a chunk that holds a NaN gets no bounds, neither for the chunk nor for its pages. Bounds of other chunks are correct
in every order, and with them every reader finds what a full scan finds, with one exception: PyArrow evaluates
``x < NaN`` as true if a chunk has no null and states two different bounds. So a merge does not introduce such bounds
(``InputBounds``):

====================================================  =========================================================
an input chunk                                        the merged chunk states
====================================================  =========================================================
states no bounds, and holds more than nulls           none
states one value as both, or has a null               its own if they are one value again, or if it has a null
====================================================  =========================================================

Writers of new rows, which have no such inputs, state the actual bounds.

Bounds that span those of the inputs would not be enough where the inputs left a NaN out: DuckDB simplifies
``x <> NaN`` by the bounds of a table that is a single file but not by those of many, so it would be wrong only after
the merge.

Zeros have two signs, and -0.0 equals 0.0. A bound that is a zero is never declared *exact*: a lower bound of 0.0 is
written as -0.0, and DuckDB would show that as the minimum. And the footer does not declare that all pages of a chunk
are dictionary-encoded (``encoding_stats``) unless the chunk's bounds exclude zero: Spark would skip the chunk if the
dictionary does not hold exactly the zero that a query looks for. DuckDB and Polars do not declare it either.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from packstone.errors import CorruptionError
from packstone.rewrite.formats.parquet_checks import MAGIC
from packstone.rewrite.formats.parquet_scan import FooterChunks, find_chunks
from packstone.rewrite.formats.parquet_thrift import BINARY, STRUCT, Struct, read_struct, write_struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


# ---- statistics of floating-point columns ----

# ColumnChunk, ColumnMetaData
_META_DATA, _COLUMN_INDEX, _STATISTICS, _ENCODING_STATS = 3, (6, 7), 12, 13
# Statistics: the deprecated and the current bounds, and whether the current ones are exact
_NULL_COUNT, _MAX, _MIN = 3, 5, 6
_BOUNDS, _EXACT = (1, 2, _MAX, _MIN), (7, 8)
_SIGN_BYTE: Final = b"\x00\x80"


def float_leaves(schema: pa.Schema) -> tuple[int, ...]:
    """The numbers of the floating-point leaves, counted as in a footer."""
    kinds = (kind for field in schema for kind in _leaf_types(field.type))
    return tuple(at for at, kind in enumerate(kinds) if pt.is_floating(kind))


def nan_leaves(rows: pa.Table) -> frozenset[int]:
    """The numbers of the leaves that hold a NaN, counted as in a footer."""
    found, first = set(), 0
    for column in rows.columns:
        kinds = list(_leaf_types(column.type))
        if any(pt.is_floating(kind) for kind in kinds):
            for chunk in column.chunks:
                found |= {first + at for at, leaf in enumerate(_leaves(chunk)) if _holds_nan(leaf)}
        first += len(kinds)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class InputBounds:
    """The floating-point leaves, numbered from 0, for which an input chunk lacks bounds or has sound ones.

    ``sound`` bounds do not make PyArrow evaluate ``x < NaN`` as true.
    """

    missing: frozenset[int] = frozenset()
    sound: frozenset[int] = frozenset()

    def __or__(self, other: InputBounds) -> InputBounds:
        """The facts about the chunks of both."""
        return InputBounds(self.missing | other.missing, self.sound | other.sound)


def read_input_bounds(group: pq.RowGroupMetaData, leaves: Sequence[int]) -> InputBounds:
    """Read the statistics of the chunks of these floating-point leaves."""
    missing, sound = set(), set()
    for at, leaf in enumerate(leaves):
        chunk = group.column(leaf)
        found = chunk.statistics if chunk.is_stats_set else None
        if found is not None and found.has_min_max:
            if found.min_raw == found.max_raw or not found.has_null_count or found.null_count:
                sound.add(at)
        elif found is None or not found.has_null_count or found.null_count < chunk.num_values:
            missing.add(at)
    return InputBounds(frozenset(missing), frozenset(sound))


class BoundsOfRows:
    """The bounds that input chunks state, by the rows of the inputs in their order."""

    def __init__(self, schema: pa.Schema) -> None:
        self._leaves = float_leaves(schema)
        self._spans: deque[tuple[int, InputBounds]] = deque()

    def add(self, group: pq.RowGroupMetaData) -> None:
        """Add the rows of the next row group of the inputs."""
        if self._leaves and group.num_rows:
            self._spans.append((group.num_rows, read_input_bounds(group, self._leaves)))

    def take(self, rows: int) -> InputBounds:
        """Remove this many rows from the front; return the bounds of the chunks that they come from."""
        found = InputBounds()
        while rows and self._spans:
            length, bounds = self._spans.popleft()
            found |= bounds
            if length > rows:
                self._spans.appendleft((length - rows, bounds))
            rows -= min(rows, length)
        return found


def keep_true_statistics(chunk: Struct, *, has_bounds: bool, may_state_range: bool) -> None:
    """Apply the rule to the ColumnChunk that PyArrow wrote for a floating-point column."""
    metadata: Struct = chunk[_META_DATA][1]
    statistics: Struct = metadata.get(_STATISTICS, (STRUCT, {}))[1]
    if not has_bounds or (not may_state_range and _is_range_without_nulls(statistics)):
        for number in (*_BOUNDS, *_EXACT):
            statistics.pop(number, None)
        for number in _COLUMN_INDEX:
            chunk.pop(number, None)
    elif any(_is_zero(statistics[number][1]) for number in _BOUNDS if number in statistics):
        for number in _EXACT:
            statistics.pop(number, None)
    if not _excludes_zero(statistics):
        metadata.pop(_ENCODING_STATS, None)


def _is_range_without_nulls(statistics: Struct) -> bool:
    if statistics.get(_NULL_COUNT, (0, 0))[1] or _MAX not in statistics or _MIN not in statistics:
        return False
    low, high = statistics[_MIN][1], statistics[_MAX][1]
    return bool(low != high and not (_is_zero(low) and _is_zero(high)))


def _excludes_zero(statistics: Struct) -> bool:
    """Whether both bounds are above zero or both below; a lower bound of zero has a negative sign."""
    if _MAX not in statistics or _MIN not in statistics:
        return False
    return bool(statistics[_MAX][1][-1] >> 7 == statistics[_MIN][1][-1] >> 7)


def _is_zero(bound: bytes) -> bool:
    return not bound[:-1].strip(b"\x00") and bound[-1:] in _SIGN_BYTE


def _leaf_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaf_types(kind.storage_type)
    elif pt.is_dictionary(kind):
        yield from _leaf_types(kind.value_type)
    elif pt.is_map(kind):
        yield from _leaf_types(kind.key_type)
        yield from _leaf_types(kind.item_type)
    elif pt.is_nested(kind):
        for at in range(kind.num_fields):
            yield from _leaf_types(kind.field(at).type)
    else:
        yield kind


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The values of each leaf, in the order of ``_leaf_types``; for a dictionary, all its entries."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(array.storage)
    elif pt.is_dictionary(kind):
        yield from _leaves(array.dictionary)
    elif pt.is_struct(kind):
        for child in array.flatten():
            yield from _leaves(child)
    elif pt.is_map(kind):  # keys and items of a slice are those of the whole array
        begin, end = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
        for entries in (array.keys, array.items):
            yield from _leaves(entries.slice(begin, end - begin))
    elif pt.is_nested(kind):
        yield from _leaves(array.flatten())
    else:
        yield array


def _holds_nan(leaf: pa.Array) -> bool:
    if pt.is_float16(leaf.type):  # not every PyArrow version computes with it
        return bool(np.isnan(leaf.drop_null().to_numpy(zero_copy_only=False)).any())
    return pt.is_floating(leaf.type) and bool(pc.any(pc.is_nan(leaf)).as_py())


# ---- the writer ----

_TAIL_BYTES: Final = 8  # the footer's length and the magic
# FileMetaData, RowGroup
_ROW_GROUPS, _CREATED_BY, _COLUMNS = 4, 6, 1
_ROW_GROUPS_BEFORE: Final = b"\x45\x00"  # a field with the number of the row groups, for the fields after them
_NO_INPUTS: Final = InputBounds()


class ParquetFileWriter:
    """An open Parquet file; every table that is written becomes a row group."""

    def __init__(
        self,
        sink: Any,
        schema: pa.Schema,
        *,
        options: Mapping[str, Any],
        created_by: str | None = None,
        edit: Callable[[Struct], None] | None = None,
    ) -> None:
        self._floats = float_leaves(schema)
        self._created_by, self._own_edit = created_by, edit
        self._groups: list[
            tuple[frozenset[int], frozenset[int]]
        ] = []  # leaves without bounds, and leaves with sound ones
        self._sink = _TailSink(sink)
        if self._floats:
            # Then PyArrow writes no statistics into page headers, where they could not be edited any more.
            options = {**options, "write_page_index": True}
        self._writer = OutputWriter(self._sink, schema, **options)

    def write(self, rows: pa.Table, *, inputs: InputBounds = _NO_INPUTS) -> None:
        """Write one row group; ``inputs`` are the bounds of the chunks that its rows come from."""
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        of_nan = nan_leaves(rows) if self._floats else frozenset()
        without = {leaf for at, leaf in enumerate(self._floats) if at in inputs.missing}
        sound = frozenset(leaf for at, leaf in enumerate(self._floats) if at in inputs.sound)
        self._groups.append((of_nan | without, sound))

    def close(self, key_values: Mapping[bytes, bytes] | None = None) -> pq.FileMetaData:
        """Write the footer with these key-values, and return it."""
        if key_values:
            self._writer.add_key_value_metadata(dict(key_values))
        self._sink.hold()
        self._writer.close()
        tail = self._sink.held
        begin = len(tail) - _TAIL_BYTES - int.from_bytes(tail[-_TAIL_BYTES:-4], "little")
        footer = tail[begin:-_TAIL_BYTES]
        if self._floats or self._created_by is not None or self._own_edit is not None:
            footer = self._edit(footer)
        end = footer + len(footer).to_bytes(4, "little") + MAGIC
        self._sink.release(tail[:begin] + end)
        return pq.read_metadata(pa.BufferReader(MAGIC + end))

    def abandon(self) -> None:
        """Write nothing more: the file is no longer needed, or its storage failed."""
        self._sink.drop()

    def _edit(self, data: bytes) -> bytes:
        found = find_chunks(data) if self._own_edit is None else None
        if found is not None:
            return self._edit_chunks(data, found)
        footer = read_struct(data)[0]
        groups: list[Struct] = footer[_ROW_GROUPS][1].items
        self._check_groups(len(groups))
        for group, facts in zip(groups, self._groups, strict=True):
            for leaf in self._floats:
                _edit_statistics(group[_COLUMNS][1].items[leaf], leaf, facts)
        self._edit_writer(footer)
        if self._own_edit is not None:
            self._own_edit(footer)
        return write_struct(footer)

    def _edit_chunks(self, data: bytes, found: FooterChunks) -> bytes:
        """Edit the footer without reading the chunks of other columns: they would take longer than a small file."""
        self._check_groups(len(found.groups))
        parts: list[bytes] = []
        at = 0
        for chunks, facts in zip(found.groups, self._groups, strict=True):
            for leaf in self._floats:
                begin, end = chunks[leaf]
                chunk, _ = read_struct(data, begin)
                _edit_statistics(chunk, leaf, facts)
                parts += (data[at:begin], write_struct(chunk))
                at = end
        rest, _ = read_struct(_ROW_GROUPS_BEFORE + data[found.end :])
        self._edit_writer(rest)
        parts += (data[at : found.end], write_struct(dict(sorted(rest.items())))[len(_ROW_GROUPS_BEFORE) :])
        return b"".join(parts)

    def _check_groups(self, count: int) -> None:
        if count != len(self._groups):
            raise CorruptionError(f"PyArrow wrote {count} row groups, not {len(self._groups)}.")

    def _edit_writer(self, footer: Struct) -> None:
        if self._created_by:
            footer[_CREATED_BY] = BINARY, self._created_by.encode()
        elif self._created_by is not None:
            footer.pop(_CREATED_BY, None)


def _edit_statistics(chunk: Struct, leaf: int, facts: tuple[frozenset[int], frozenset[int]]) -> None:
    unbounded, sound = facts
    keep_true_statistics(chunk, has_bounds=leaf not in unbounded, may_state_range=leaf not in sound)


class _TailSink:
    """A file for PyArrow's writer: bytes pass through until ``hold`` is called, later bytes are kept."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._held: bytearray | None = None
        self._is_dropped = False
        self.closed = False

    def write(self, data: bytes) -> int:
        """Write the bytes, or keep them after ``hold``."""
        if self._held is not None:
            self._held += data
        elif not self._is_dropped:
            self._sink.write(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        """Leave the real file open: its owner closes it."""
        self.closed = True

    def hold(self) -> None:
        """Keep all following bytes instead of writing them."""
        self._held = bytearray()

    def release(self, tail: bytes) -> None:
        """Write this tail instead of the kept bytes."""
        self._held = None
        self._sink.write(tail)

    def drop(self) -> None:
        """Discard all following bytes."""
        self._held, self._is_dropped = None, True

    @property
    def held(self) -> bytes:
        """The kept bytes."""
        return bytes(self._held or b"")


class OutputWriter(pq.ParquetWriter):  # type: ignore[misc]  # pyarrow has no types
    """Writes and prints nothing when it is garbage-collected after a failure.

    PyArrow's own finalizer closes the writer: on a full disk that fails a second time, and since no code can catch it,
    Python prints a traceback. The code that opens a writer closes it, or abandons the file.
    """

    def __del__(self) -> None:
        """Leave the file as it is."""
