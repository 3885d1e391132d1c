"""Rows of Parquet files in the order of sort columns whose values may repeat: read them, sort them, merge sorted runs.

``OrderedReader`` reads one file in batches of bounded size, all of it or the rows of a key range. The ranges follow the
order of the sort, so every row is in exactly one range, NaN and both zeros included.

``merge_cursors`` merges sorted runs window by window, keeps all rows, and checks that every run is sorted. As in
merge_tree/window.py, a window takes from every run the rows up to the smallest last key of the open batches. Here a key
may continue in the next window: a run of a single key, however long, is merged in windows of bounded size.

``order_rows`` puts the number of a row into the low bits of its first word, so that one sort of plain numbers, which
processors vectorise, gives the order; equal rows keep their order. If the word is too long for that, its high bits are
sorted, and the later bits and words order the rows that are equal in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import CorruptionError, InvalidInputError
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.data_files.parquet_output import footer_value, to_plain_value
from packstone.rewrite.formats.parquet_batches import read_batches
from packstone.rewrite.formats.parquet_footer import open_parquet
from packstone.rewrite.merge_tree.cursor import BatchKeys, FileRows, RowKey, RunCursor, cut_runs
from packstone.rewrite.merge_tree.keys import (
    I64,
    U64,
    Component,
    Words,
    column_values,
    find_components,
    number_components,
    sort_inside,
    to_java_order,
)
from packstone.rewrite.merge_tree.spec import KeyRange, unpack_positions, unpack_value
from packstone.rewrite.merge_tree.window import join_column
from packstone.rewrite.proof.row_lanes import read_fixed
from packstone.rewrite.sorted_merge.block_facts import leaf_numbers
from packstone.rewrite.sorted_merge.spec import OrderedFile

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

# Many files are open at once, so a column chunk is read in pieces of this size.
_BUFFER_BYTES = 128 << 10
_MAX_BATCH_ROWS = 1 << 16
_PROBED_ROWS = 16


class OrderedReader:
    """Reads the files of one task; the row width measured in one file is used for the next."""

    def __init__(self, io: FileIO, schema: pa.Schema, *, key_range: OrderedRange | None = None) -> None:
        self._io, self._schema, self._range = io, schema, key_range
        self._row_bytes = 0

    def read(self, file: OrderedFile, *, batch_bytes: int, is_sorted: bool) -> Iterator[FileRows]:
        """Yield the rows that are not deleted; never an empty batch.

        All rows of the key range are found whatever their order: row groups are skipped only by their statistics, and
        reading never stops early. A batch that is cut is checked to be sorted if ``is_sorted``.
        """
        read, deleted = 0, unpack_positions(file.deleted)
        with open_parquet(self._io, file.path, buffer_size=_BUFFER_BYTES) as parquet:
            self._check_size(file)
            self._check_columns(parquet, file.path)
            for group in range(parquet.metadata.num_row_groups):
                if self._is_skipped(parquet, group):
                    read += parquet.metadata.row_group(group).num_rows
                    continue
                for batch in self._read_group(parquet, file.path, group=group, batch_bytes=batch_bytes):
                    live = _without(batch, deleted, first=read) if len(deleted) else batch
                    read += batch.num_rows
                    if not live.num_rows:
                        continue
                    piece = self._cut(FileRows(batch=live, path=file.path), is_sorted=is_sorted)
                    if piece.batch.num_rows:
                        yield piece
        if read != file.rows:
            raise CorruptionError(f"{file.path} holds {read} rows, its metadata say {file.rows}.", file=file.path)

    def _read_group(
        self, parquet: pq.ParquetFile, path: str, *, group: int, batch_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        metadata = parquet.metadata.row_group(group)
        encoded = metadata.total_byte_size // max(1, metadata.num_rows)
        if not self._row_bytes:
            # Each byte of a dictionary-encoded column may refer to a long string, so measure decoded rows.
            probe = next(
                read_batches(parquet, path, batch_rows=_PROBED_ROWS, columns=self._schema.names, row_groups=(group,)),
                None,
            )
            self._row_bytes = 1 if probe is None else max(1, probe.nbytes // max(1, probe.num_rows))
        width = max(self._row_bytes, encoded)
        rows = min(_MAX_BATCH_ROWS, max(1, batch_bytes // width))
        for batch in read_batches(parquet, path, batch_rows=rows, columns=self._schema.names, row_groups=(group,)):
            self._row_bytes = max(self._row_bytes, batch.nbytes // max(1, batch.num_rows))
            try:
                yield conform(batch, self._schema)
            except InvalidInputError as error:
                raise CorruptionError(f"{path}: {error.message}", file=path) from error

    def _cut(self, piece: FileRows, *, is_sorted: bool) -> FileRows:
        if self._range is None:
            return piece
        inside = self._range.find_inside(piece.batch)
        if inside.all():
            return piece
        if is_sorted and inside.any():
            check_sorted(piece, [self._range.column])
        return FileRows(batch=piece.batch.filter(to_column(inside)), path=piece.path)

    def _is_skipped(self, parquet: pq.ParquetFile, group: int) -> bool:
        if self._range is None:
            return False
        leaf = leaf_numbers(parquet.schema_arrow)[self._range.column]
        return self._range.excludes(parquet.metadata.row_group(group), leaf)

    def _check_size(self, file: OrderedFile) -> None:
        """Raise if the size differs: a file never changes after it is written, so it is another file."""
        found = self._io.stat(file.path)
        if found is not None and found.size_bytes != file.size_bytes:
            raise CorruptionError(
                f"{file.path} has {found.size_bytes} bytes, its metadata say {file.size_bytes}.", file=file.path
            )

    def _check_columns(self, parquet: pq.ParquetFile, path: str) -> None:
        missing = [name for name in self._schema.names if parquet.schema_arrow.get_field_index(name) < 0]
        if missing:
            raise CorruptionError(f"{path} has no column {', '.join(missing)}.", file=path)


def _without(batch: pa.RecordBatch, deleted: I64, *, first: int) -> pa.RecordBatch:
    """The rows of a batch, the first of which has this position in the file, that are not deleted."""
    begin, end = np.searchsorted(deleted, [first, first + batch.num_rows])
    if begin == end:
        return batch
    kept = np.ones(batch.num_rows, dtype=bool)
    kept[deleted[begin:end] - first] = False
    return batch.filter(to_column(kept))


Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRange:
    """Rows whose first sort column is in [lower, upper); nulls belong to the range without a lower bound."""

    column: str
    kind: pa.DataType
    lower: pa.Scalar | None
    upper: pa.Scalar | None

    @classmethod
    def of(cls, field: pa.Field, key_range: KeyRange | None) -> OrderedRange | None:
        """Read the bounds of a spec; None if there are none."""
        if key_range is None or (key_range.lower is None and key_range.upper is None):
            return None
        lower, upper = (None if text is None else unpack_value(text) for text in (key_range.lower, key_range.upper))
        for bound in (lower, upper):
            if bound is not None and (not bound.is_valid or bound.type != field.type):
                raise InvalidInputError(f"A bound of the range of {field.name} is not a value of type {field.type}.")
        return cls(column=field.name, kind=field.type, lower=lower, upper=upper)

    def find_inside(self, batch: pa.RecordBatch) -> Mask:
        """Whether each row is in the range."""
        column = batch.column(self.column)
        inside = np.ones(len(column), dtype=bool) if self.upper is None else _is_below(column, self.upper)
        if self.lower is not None:
            inside &= ~_is_below(column, self.lower)
        return inside

    def excludes(self, group: pq.RowGroupMetaData, leaf: int) -> bool:
        """Whether the statistics prove that no row of a row group is in the range."""
        kind, found = self.kind, group.column(leaf).statistics
        if found is None or not found.has_null_count or pt.is_floating(kind):  # statistics omit NaN
            return False
        if found.null_count == group.num_rows:
            return self.lower is not None
        if not found.has_min_max:
            return False
        low, high = _comparable(footer_value(found.min_raw, kind)), _comparable(footer_value(found.max_raw, kind))
        if self.lower is not None and high < _comparable(to_plain_value(self.lower)):
            return True
        has_nulls_inside = self.lower is None and found.null_count > 0
        return self.upper is not None and not has_nulls_inside and low >= _comparable(to_plain_value(self.upper))


def _comparable(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _is_below(column: pa.Array, bound: pa.Scalar) -> Mask:
    if pt.is_floating(column.type):
        dtype = np.dtype(f"f{column.type.bit_width // 8}")
        limit = to_java_order(np.array([bound.as_py()], dtype))[0]
        below: Mask = to_java_order(column_values(column, dtype)) < limit
        return below | column.is_null().to_numpy(zero_copy_only=False) if column.null_count else below
    return pc.less(column, bound).fill_null(fill_value=True).to_numpy(zero_copy_only=False)


_NO_BREAKS: I64 = np.zeros(0, dtype=np.int64)


def merge_cursors(cursors: Sequence[RunCursor], sort_columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all runs in order; CorruptionError names the file of a run that is not sorted."""
    for parts in cut_runs(cursors, sort_columns, may_repeat=True, make_error=_unsorted):
        if len(parts) == 1:
            yield from check_order(parts[0], sort_columns)
        else:
            yield _merge(parts, sort_columns)


def check_order(pieces: Iterable[FileRows], sort_columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one run, after checking that each piece is sorted and not below the previous one."""
    last: RowKey | None = None
    for piece in pieces:
        batch = piece.batch
        if last is not None and _key_at(batch, 0, sort_columns) < last:
            raise _unsorted(piece.path)
        last = _key_at(batch, batch.num_rows - 1, sort_columns)
        check_sorted(piece, sort_columns)
        yield batch


def check_sorted(piece: FileRows, sort_columns: Sequence[str]) -> None:
    """Raise CorruptionError, which names the file, unless the rows are in order."""
    words = make_words([piece.batch.column(name) for name in sort_columns])
    if find_falling(words, piece.batch.num_rows, _NO_BREAKS) is not None:
        raise _unsorted(piece.path)


def _merge(parts: Sequence[Sequence[FileRows]], sort_columns: Sequence[str]) -> pa.RecordBatch:
    pieces = [piece for part in parts for piece in part]
    batches = [piece.batch for piece in pieces]
    run_rows = np.cumsum([0, *(sum(piece.batch.num_rows for piece in part) for part in parts)])
    joined = {name: join_column(batches, name) for name in sort_columns}
    extremes = [int(row) for start, end in pairwise(run_rows) for row in (start, end - 1)]
    words = make_words(list(joined.values()), extremes=extremes)
    count = int(run_rows[-1])
    wrong = find_falling(words, count, run_rows[:-1])
    if wrong is not None:
        ends = np.cumsum([batch.num_rows for batch in batches])
        raise _unsorted(pieces[int(np.searchsorted(ends, wrong, side="right"))].path)
    order = to_column(order_rows(words, count))
    schema = batches[0].schema
    # Column by column, so that only one of them is in memory twice.
    columns = [
        (joined.pop(name) if name in joined else join_column(batches, name)).take(order) for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _key_at(batch: pa.RecordBatch, row: int, sort_columns: Sequence[str]) -> RowKey:
    return BatchKeys(batch.slice(row, 1), sort_columns).get(0)


def _unsorted(path: str) -> CorruptionError:
    return CorruptionError(f"{path} is not sorted by its sort columns; nothing was written.", file=path)


_WORD_BITS = 64
_LONG_BYTES = 256  # a column with longer strings is ranked: they would need a word for every eight bytes


def make_words(columns: Sequence[pa.Array], *, extremes: Sequence[int] | None = None) -> Words:
    """The words of rows by these columns; ``extremes`` as in find_components."""
    return Words(
        component for at, column in enumerate(columns) for component in _components(column, None if at else extremes)
    )


def order_rows(words: Words, count: int) -> I64:
    """The rows in sorted order; equal rows keep their order."""
    first = words.get(0)
    if first is None or count <= 1:
        return np.arange(count)
    number_bits = (count - 1).bit_length()
    too_long = max(0, int(first.max()).bit_length() + number_bits - _WORD_BITS)
    packed = first >> np.uint64(too_long) if too_long else first.copy()
    packed <<= np.uint64(number_bits)
    packed |= np.arange(count, dtype=np.uint64)
    packed.sort()
    rows = (packed & np.uint64((1 << number_bits) - 1)).view(np.int64)
    packed >>= np.uint64(number_bits)
    same = packed[1:] == packed[:-1]
    for word in _later_words(words, first if too_long else None):
        if not same.any():
            break
        ordered = word[rows]
        falling = same & (ordered[1:] < ordered[:-1])
        if falling.any():
            rows, ordered = sort_inside(rows, ordered, same=same, falling=falling)
        same &= ordered[1:] == ordered[:-1]
    return rows


def find_falling(words: Words, count: int, breaks: I64) -> int | None:
    """Find a row that is below the previous row; ``breaks`` are the first rows of runs."""
    settled = np.zeros(max(0, count - 1), dtype=bool)
    settled[breaks[breaks > 0] - 1] = True
    at = 0
    while not settled.all() and (word := words.get(at)) is not None:
        falling = ~settled & (word[1:] < word[:-1])
        if falling.any():
            return int(np.argmax(falling)) + 1
        settled |= word[1:] > word[:-1]
        at += 1
    return None


def _later_words(words: Words, first: U64 | None) -> Iterator[U64]:
    """Yield, on demand, the words that order the rows that the first sort left equal."""
    if first is not None:
        yield first
    at = 1
    while (word := words.get(at)) is not None:
        yield word
        at += 1


def _components(column: pa.Array, extremes: Sequence[int] | None) -> Iterator[Component]:
    if not _has_long_strings(column):
        yield from find_components(column, extremes=extremes)
        return
    ranks = pc.rank(column.cast(pa.large_binary()), sort_keys="ascending", tiebreaker="dense").to_numpy()
    # Ranks begin at 1, so 0 puts nulls first.
    known = column.is_valid().to_numpy(zero_copy_only=False)
    yield from number_components(np.where(known, ranks, 0).astype(np.int64))


def _has_long_strings(column: pa.Array) -> bool:
    kind = column.type
    if not (pt.is_string(kind) or pt.is_binary(kind) or pt.is_large_string(kind) or pt.is_large_binary(kind)):
        return False
    return bool((pc.max(pc.binary_length(column)).as_py() or 0) > _LONG_BYTES)


# ---- conform batch ----
# Convert batches to the types of a table; only the encoding and layout of values may change.


_TEXTS = (pt.is_string, pt.is_large_string, pt.is_string_view)
_BINARIES = (pt.is_binary, pt.is_large_binary, pt.is_binary_view)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give rows the fields of the schema; InvalidInputError where that would change a value."""
    if batch.schema.equals(schema, check_metadata=False):
        return batch
    return pa.RecordBatch.from_arrays([_conform_column(batch, field) for field in schema], schema=schema)


def conform_parts(batch: pa.RecordBatch, schema: pa.Schema, *, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Conform a batch in parts: once decoded, a dictionary column may be far larger than the batch seems to be."""
    size_bytes = _decoded_bytes(batch)
    count = min(batch.num_rows, -(-size_bytes // max(1, max_bytes)))
    if count <= 1:
        yield conform(batch, schema)
        return
    half = batch.num_rows // 2
    for part in (batch.slice(0, half), batch.slice(half)):
        yield from conform_parts(part, schema, max_bytes=max_bytes)


def _decoded_bytes(batch: pa.RecordBatch) -> int:
    return sum(_coded_bytes(column) if pt.is_dictionary(column.type) else column.nbytes for column in batch.columns)


def _coded_bytes(column: pa.DictionaryArray) -> int:
    """Bytes of a dictionary column once it is decoded."""
    values = column.dictionary
    if not any(test(values.type) for test in (*_TEXTS, *_BINARIES)):
        return len(column) * max(1, values.nbytes // max(1, len(values)))
    lengths = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    codes = column.indices.drop_null()
    return int(lengths[read_fixed(codes)].sum(dtype=np.int64)) + len(column) * 4 if len(codes) else len(column)


def _conform_column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if batch.schema.get_field_index(field.name) < 0:
        raise InvalidInputError(f"The input has no column {field.name}, or more than one.")
    column = batch.column(field.name)
    if column.type == field.type:
        return column
    plain = column.type.value_type if pt.is_dictionary(column.type) else column.type
    if not _is_like(plain, field.type):
        raise InvalidInputError(f"Column {field.name} is {column.type}, not {field.type}.")
    return column.cast(field.type)


def _is_like(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pt.is_nested(found) or pt.is_nested(wanted):
        return pt.is_nested(found) and pt.is_nested(wanted)
    families = (_TEXTS, _BINARIES)
    return found == wanted or any(
        any(test(found) for test in family) and any(test(wanted) for test in family) for family in families
    )
