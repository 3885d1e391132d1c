"""What an executor does with a split: read it, test its rows, hand on Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from packstone.errors import RefusedError
from packstone.pruning.evaluate import select
from packstone.pruning.expression import FALSE, Expression
from packstone.rewrite.data_files.real_keys import with_real_keys
from packstone.rewrite.data_files.rows import read_rows
from packstone.rewrite.merge.deleted_positions import unpack_positions
from packstone.rewrite.merge.merge_spec import unpack_schema
from packstone.rewrite.merge.run_merge import read_merged
from packstone.scan.blocklet_scan import count_blocklets, scan_blocklets
from packstone.scan.caches import process_caches
from packstone.scan.pack_filter import unpack_filter
from packstone.scan.scanned_file import rows_without_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.scan.caches import ScanCaches
    from packstone.scan.scan_plan import ScanPlan, Split
    from packstone.storage.fileio import FileIO

# What is smaller is joined: Spark and Arrow take a batch of three rows as dearly as one of a thousand.
_SMALL_ROWS = 1024
_SMALL_BYTES = 1 << 20


def read_split(io: FileIO, split: Split, *, caches: ScanCaches | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows in the plan's schema; never an empty batch. Without columns, batches still have rows."""
    schema, expression = unpack_schema(split.schema), _filter_of(split)
    if expression == FALSE:
        return
    found = _read(io, split, schema=schema, expression=expression, caches=caches or process_caches())
    yield from _with_small_joined(found, schema)


def count_split(io: FileIO, split: Split, *, caches: ScanCaches | None = None) -> int:
    """How many rows match; what must match is not read."""
    expression, caches = _filter_of(split), caches or process_caches()
    if expression == FALSE:
        return 0
    rows = count_blocklets(io, split.files, filter_schema=_filter_schema(split), expression=expression, caches=caches)
    return rows + sum(batch.num_rows for batch in _read_rows(io, split, schema=pa.schema([]), expression=expression))


def check_pushed(plan: ScanPlan) -> None:
    """Refuse, by name, a filter of which a part needs Spark."""
    if plan.unpushed:
        construct = str(plan.unpushed[0])
        raise RefusedError(f"The test {construct} needs Spark; without it compare a column with literals of its type.")


def _read(
    io: FileIO, split: Split, *, schema: pa.Schema, expression: Expression | None, caches: ScanCaches
) -> Iterator[pa.RecordBatch]:
    yield from scan_blocklets(
        io, split.files, schema=schema, filter_schema=_filter_schema(split), expression=expression, caches=caches
    )
    yield from _read_rows(io, split, schema=schema, expression=expression)


def _read_rows(
    io: FileIO, split: Split, *, schema: pa.Schema, expression: Expression | None
) -> Iterator[pa.RecordBatch]:
    """Whole files of any format, and merges: all needed columns are decoded, then rows are tested."""
    tested = _filter_schema(split)
    needed = pa.schema([*tested, *(one for one in schema if one.name not in tested.names)])
    for file in split.inputs:
        if len(needed):
            for batch in read_rows(io, file, needed):
                yield from _matching(batch, schema, expression)
        elif left := file.rows - len(unpack_positions(file.deleted)):
            yield rows_without_columns(left)
    if split.merge is not None:
        for batch in read_merged(io, with_real_keys(io, split.merge)):
            yield from _matching(batch, schema, expression)


def _matching(batch: pa.RecordBatch, schema: pa.Schema, expression: Expression | None) -> Iterator[pa.RecordBatch]:
    if expression is not None:
        mask = select(expression, batch)
        if mask.true_count < batch.num_rows:
            batch = batch.filter(mask)
    if not batch.num_rows:
        return
    if not len(schema):
        yield rows_without_columns(batch.num_rows)
        return
    columns = [batch.column(batch.schema.get_field_index(one.name)) for one in schema]
    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_small_joined(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if not len(schema):
        yield from batches
        return
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows >= _SMALL_ROWS or size_bytes >= _SMALL_BYTES:
            yield from _join(waiting)
            waiting.clear()
            rows = size_bytes = 0
    if waiting:
        yield from _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) == 1:
        yield batches[0]
        return
    yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def _filter_of(split: Split) -> Expression | None:
    return unpack_filter(split.filter) if split.filter else None


def _filter_schema(split: Split) -> pa.Schema:
    return unpack_schema(split.filter_schema) if split.filter_schema else pa.schema([])
