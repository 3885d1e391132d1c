"""Merge sorted runs whose rows may repeat: window by window, all rows kept, every run proved to be sorted.

As in ``merge_window`` a window takes from every run the rows up to the smallest last key of the open batches. Here a
key may go on in the next window: a run of one key only, however long, is merged in windows of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError
from packstone.rewrite.merge.key_words import I64
from packstone.rewrite.merge.merge_window import join_column
from packstone.rewrite.merge.run_cursor import BatchKeys, Piece, RowKey, RunCursor, cut_runs
from packstone.rewrite.numpy_columns import to_column
from packstone.rewrite.ordered.row_order import find_falling, make_words, order_rows

_NO_BREAKS: I64 = np.zeros(0, dtype=np.int64)


def merge_cursors(cursors: Sequence[RunCursor], sort_columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all runs in order; CorruptionError, with the file, where a run is not sorted."""
    for parts in cut_runs(cursors, sort_columns, may_repeat=True, complain=_unsorted):
        if len(parts) == 1:
            yield from check_order(parts[0], sort_columns)
        else:
            yield _merge(parts, sort_columns)


def check_order(pieces: Iterable[Piece], sort_columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Hand out the rows of one run, each piece proved to be sorted and not below the one before."""
    last: RowKey | None = None
    for piece in pieces:
        batch = piece.batch
        if last is not None and _key_at(batch, 0, sort_columns) < last:
            raise _unsorted(piece.path)
        last = _key_at(batch, batch.num_rows - 1, sort_columns)
        check_sorted(piece, sort_columns)
        yield batch


def check_sorted(piece: Piece, sort_columns: Sequence[str]) -> None:
    """Raise CorruptionError, with the file, unless the rows are in order."""
    words = make_words([piece.batch.column(name) for name in sort_columns])
    if find_falling(words, piece.batch.num_rows, _NO_BREAKS) is not None:
        raise _unsorted(piece.path)


def _merge(parts: Sequence[Sequence[Piece]], sort_columns: Sequence[str]) -> pa.RecordBatch:
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
    # Column by column: only one of them is in memory twice.
    columns = [
        (joined.pop(name) if name in joined else join_column(batches, name)).take(order) for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _key_at(batch: pa.RecordBatch, row: int, sort_columns: Sequence[str]) -> RowKey:
    return BatchKeys(batch.slice(row, 1), sort_columns).get(0)


def _unsorted(path: str) -> CorruptionError:
    return CorruptionError(f"{path} is not sorted by its sort columns; nothing was written.", file=path)
