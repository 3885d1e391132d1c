"""Prove that files hold exactly the rows they were made from, in order, and that the index says the truth of them.

=========  ================================================================================================
`content`  every value of every row: 128-bit fingerprints of the multisets before and after, the order of all
           rows, and of every row group all that is recorded
`count`    numbers of rows, the order, and what is recorded of the sort columns; other columns are not read
=========  ================================================================================================

The kernel sorts words; here rows are hashed, summed up, and neighbours compared as they stand. The two share the
decoding of Parquet and nothing else. Without sort columns the order must be that of the inputs, and an ordered digest
proves it. Cost: inputs and outputs are read once more, strings as codes where the file has them so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from packstone.errors import CorruptionError, VerificationError
from packstone.model.unit import Verify
from packstone.rewrite.merge.merge_spec import unpack_schema
from packstone.rewrite.merged_view.check_blocks import BlockCheck, check_order
from packstone.rewrite.merged_view.key_share import KeyShare
from packstone.rewrite.merged_view.read_view import blame_output
from packstone.rewrite.merged_view.row_lanes import Lanes, Scratch
from packstone.rewrite.merged_view.verify_merge import Verified
from packstone.rewrite.merged_view.whole_rows import WholeRows
from packstone.rewrite.ordered.ordered_spec import OrderedFile, OrderedMergeSpec, WrittenBlockFile, WrittenBlocks
from packstone.rewrite.proof.fingerprint import Fingerprint
from packstone.rewrite.proof.ordered_digest import digest_batches
from packstone.rewrite.read_ahead import read_ahead

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


class RowDigest:
    """The fingerprint of a multiset of rows, batch after batch."""

    def __init__(self, schema: pa.Schema) -> None:
        self._names = schema.names
        self._scratch = Scratch()
        self.fingerprint = Fingerprint.zero()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in more rows; strings may be codes."""
        if batch.num_rows:
            lanes = Lanes.start(batch.num_rows, scratch=self._scratch)
            lanes.add_columns([batch.column(name) for name in self._names])
            self.fingerprint += lanes.finish()


def verify_ordered(io: FileIO, spec: OrderedMergeSpec, files: tuple[WrittenBlockFile, ...]) -> Verified:
    """Raise VerificationError unless the files hold the rows of the inputs, in the spec's range, in order."""
    written = WrittenBlocks(
        files=files,
        arrow_schema=spec.arrow_schema,
        sort_columns=spec.sort_columns,
        key_range=spec.key_range,
        memory_bytes=spec.memory_bytes,
        verify=spec.verify,
    )
    began = time.perf_counter()
    expected = _read_inputs(io, spec)
    seconds_before = time.perf_counter() - began
    found, seconds_after = _verify(io, written, expected)
    return Verified(
        fingerprint_before=expected,
        fingerprint_after=found,
        rows=found.rows,
        seconds_before=seconds_before,
        seconds_after=seconds_after,
    )


def verify_written(io: FileIO, written: WrittenBlocks, expected: Fingerprint) -> Verified:
    """Raise VerificationError unless the files hold, in order, the rows of which a RowDigest was made."""
    found, seconds = _verify(io, written, expected, in_any_order=True)
    return Verified(
        fingerprint_before=expected,
        fingerprint_after=found,
        rows=found.rows,
        seconds_before=0.0,
        seconds_after=seconds,
    )


def _read_inputs(io: FileIO, spec: OrderedMergeSpec) -> Fingerprint:
    """Fingerprint the rows of all inputs that are in the range."""
    whole = unpack_schema(spec.arrow_schema)
    share = KeyShare.of(whole, spec.sort_columns, spec.key_range)
    if spec.verify is Verify.COUNT:
        if share is None:
            return Fingerprint(rows=sum(file.rows for file in spec.files), lo=0, hi=0)
        schema = pa.schema([whole.field(spec.sort_columns[0])])
    else:
        schema = whole
    rows = WholeRows(io, schema, memory_bytes=spec.memory_bytes, share=share)
    batches = read_ahead(_each(rows, spec.files))
    return _reduce(batches, schema, verify=spec.verify, is_ordered=not spec.sort_columns)


def _each(rows: WholeRows, files: Sequence[OrderedFile]) -> Iterator[pa.RecordBatch]:
    for file in files:
        count = 0
        for _, batch in rows.read(file.path):
            count += batch.num_rows
            if (inside := rows.inside(batch)).num_rows:
                yield inside
        if count + rows.left_out_rows != file.rows:
            held = count + rows.left_out_rows
            raise CorruptionError(f"{file.path} holds {held} rows, its metadata say {file.rows}.", file=file.path)


def _reduce(batches: Iterator[pa.RecordBatch], schema: pa.Schema, *, verify: Verify, is_ordered: bool) -> Fingerprint:
    if verify is Verify.COUNT:
        return Fingerprint(rows=sum(batch.num_rows for batch in batches), lo=0, hi=0)
    if is_ordered:
        return digest_batches(batches)
    digest = RowDigest(schema)
    for batch in batches:
        digest.add(batch)
    return digest.fingerprint


def _verify(
    io: FileIO, written: WrittenBlocks, expected: Fingerprint, *, in_any_order: bool = False
) -> tuple[Fingerprint, float]:
    began = time.perf_counter()
    is_ordered = not written.sort_columns and not in_any_order
    if len({file.path for file in written.files}) < len(written.files):
        raise VerificationError("An output is listed twice.")
    with blame_output():
        rows, schema = _read_outputs(io, written), unpack_schema(written.arrow_schema)
        found = _reduce(rows, schema, verify=written.verify, is_ordered=is_ordered)
    if written.verify is Verify.COUNT:
        expected = Fingerprint(rows=expected.rows, lo=0, hi=0)
    if found != expected:
        raise VerificationError(f"The rows written are not those of the inputs: {expected} expected, {found} found.")
    return found, time.perf_counter() - began


def _read_outputs(io: FileIO, written: WrittenBlocks) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the outputs, each proved to be where it belongs."""
    whole = unpack_schema(written.arrow_schema)
    names = whole.names if written.verify is Verify.CONTENT else list(written.sort_columns) or whole.names[:1]
    rows = WholeRows(
        io,
        pa.schema([whole.field(name) for name in names]),
        memory_bytes=written.memory_bytes,
        plain=written.sort_columns,
    )
    share = KeyShare.of(whole, written.sort_columns, written.key_range)
    last: list[pa.Array] | None = None
    for file in written.files:
        rows.check_file(file, whole, sort_columns=written.sort_columns)
        check = BlockCheck(file, whole, sort_columns=written.sort_columns, seen=names)
        group = 0
        for number, batch in read_ahead(rows.read(file.path)):
            while group < number:
                check.end_group()
                group += 1
            if share is not None and not share.is_inside(batch.column(share.column)).all():
                raise VerificationError(f"{file.path} has rows outside of its range of keys.", file=file.path)
            if written.sort_columns:
                keys = [batch.column(name) for name in written.sort_columns]
                check_order(file, keys, last)
                last = [key.slice(len(key) - 1) for key in keys]
            check.add(batch)
            yield batch
        while group < check.groups:
            check.end_group()
            group += 1
