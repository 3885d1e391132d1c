"""Prove that files hold exactly the rows of their inputs, in order, and that their index is correct.

=========  ================================================================================================
`content`  every value of every row: 128-bit fingerprints of the multisets before and after, the order of all
           rows, and all recorded facts of every row group
`count`    numbers of rows, the order, and the recorded facts of the sort columns; other columns are not read
=========  ================================================================================================

The kernel sorts words; the verification hashes rows, adds up the hashes, and compares neighbouring rows directly. The
two share only the decoding of Parquet; even the rows of a key range are found in another way (``KeyShare``). Without
sort columns the order must be that of the inputs, and an ordered digest proves it. Cost: inputs and outputs are read
once more; dictionary-encoded strings stay encoded.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import types

from packstone.errors import CorruptionError, VerificationError
from packstone.model.unit import Fingerprint, Verify
from packstone.rewrite.data_files.batches import read_ahead, to_column
from packstone.rewrite.formats.parquet_batches import read_batches
from packstone.rewrite.formats.parquet_checks import digest_footer, find_footer
from packstone.rewrite.formats.parquet_footer import open_parquet, sorting_of
from packstone.rewrite.merge_tree.spec import KeyRange, unpack_positions, unpack_schema, unpack_value
from packstone.rewrite.proof.check_metadata import BlockCheck, check_columns, check_order
from packstone.rewrite.proof.merged_view import blame_output, is_coded
from packstone.rewrite.proof.order_codes import Mask, is_below
from packstone.rewrite.proof.ordered_digest import digest_batches
from packstone.rewrite.proof.row_lanes import QuickLanes, Scratch
from packstone.rewrite.proof.verify_merge import Verified
from packstone.rewrite.sorted_merge.block_facts import bloom_checksum, find_wrong_bounds, page_index_checksum, read_part
from packstone.rewrite.sorted_merge.spec import OrderedFile, OrderedMergeSpec, WrittenBlockFile, WrittenBlocks

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO


class RowDigest:
    """The fingerprint of a multiset of rows, computed batch by batch."""

    def __init__(self, schema: pa.Schema) -> None:
        self._names = schema.names
        self._scratch = Scratch()
        self.fingerprint = Fingerprint.zero()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; strings may be dictionary-encoded."""
        if batch.num_rows:
            lanes = QuickLanes.start(batch.num_rows, scratch=self._scratch)
            lanes.add_columns([batch.column(name) for name in self._names])
            self.fingerprint += lanes.finish()


def verify_ordered(io: FileIO, spec: OrderedMergeSpec, files: tuple[WrittenBlockFile, ...]) -> Verified:
    """Raise VerificationError unless the files hold the rows of the inputs, in the spec's range, in order."""
    written = written_by(spec, files)
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


def written_by(spec: OrderedMergeSpec, files: tuple[WrittenBlockFile, ...]) -> WrittenBlocks:
    """The files that a spec wrote, with the parameters of the spec."""
    return WrittenBlocks(
        files=files,
        arrow_schema=spec.arrow_schema,
        sort_columns=spec.sort_columns,
        key_range=spec.key_range,
        memory_bytes=spec.memory_bytes,
        verify=spec.verify,
    )


def verify_written(io: FileIO, written: WrittenBlocks, expected: Fingerprint) -> Verified:
    """Raise VerificationError unless the files hold, in order, the rows of a RowDigest."""
    found, seconds = _verify(io, written, expected, in_any_order=True)
    return Verified(
        fingerprint_before=expected,
        fingerprint_after=found,
        rows=found.rows,
        seconds_before=0.0,
        seconds_after=seconds,
    )


def fingerprint_written(io: FileIO, written: WrittenBlocks) -> Fingerprint:
    """Fingerprint the rows of files like a merge does, after checking the order and the index of each file."""
    with blame_output():
        rows, schema = _read_outputs(io, written), unpack_schema(written.arrow_schema)
        return _reduce(rows, schema, verify=written.verify, is_ordered=not written.sort_columns)


def check_footer(io: FileIO, written: WrittenBlocks, file: WrittenBlockFile) -> None:
    """Raise CorruptionError unless size, columns, row groups and bounds of a file are those recorded; reads no rows."""
    schema = unpack_schema(written.arrow_schema)
    rows = WholeRows(io, schema, memory_bytes=written.memory_bytes)
    rows.check_file(file, schema, sort_columns=written.sort_columns)
    with open_parquet(io, file.path) as parquet:
        wrong = find_wrong_bounds(read_part(file.part), parquet.metadata, schema)
    if wrong is not None:
        raise VerificationError(
            f"{file.path}: nulls or bounds of the column {wrong} are not those recorded.", file=file.path
        )


def check_rows(io: FileIO, written: WrittenBlocks) -> int:
    """Read all rows of files; raise CorruptionError unless they are in order and have the recorded facts."""
    return sum(batch.num_rows for batch in _read_outputs(io, written))


def _read_inputs(io: FileIO, spec: OrderedMergeSpec) -> Fingerprint:
    """Fingerprint the rows of all inputs that are in the key range."""
    whole = unpack_schema(spec.arrow_schema)
    share = KeyShare.of(whole, spec.sort_columns, spec.key_range)
    if spec.verify is Verify.COUNT:
        if share is None:
            return Fingerprint(rows=sum(file.live_rows for file in spec.files), lo=0, hi=0)
        schema = pa.schema([whole.field(spec.sort_columns[0])])
    else:
        schema = whole
    rows = WholeRows(io, schema, memory_bytes=spec.memory_bytes, share=share)
    batches = read_ahead(_each(rows, spec.files))
    return _reduce(batches, schema, verify=spec.verify, is_ordered=not spec.sort_columns)


def _each(rows: WholeRows, files: Sequence[OrderedFile]) -> Iterator[pa.RecordBatch]:
    for file in files:
        count = 0
        deleted = unpack_positions(file.deleted)
        for _, batch in rows.read(file.path):
            first = count + rows.skipped_rows
            count += batch.num_rows
            live = batch
            if len(deleted):
                live = batch.filter(to_column(~np.isin(np.arange(first, first + batch.num_rows), deleted)))
            if (inside := rows.inside(live)).num_rows:
                yield inside
        if count + rows.skipped_rows != file.rows:
            held = count + rows.skipped_rows
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
        raise VerificationError("An output file is listed twice.")
    with blame_output():
        rows, schema = _read_outputs(io, written), unpack_schema(written.arrow_schema)
        found = _reduce(rows, schema, verify=written.verify, is_ordered=is_ordered)
    if written.verify is Verify.COUNT:
        expected = Fingerprint(rows=expected.rows, lo=0, hi=0)
    if found != expected:
        raise VerificationError(f"The rows written are not those of the inputs: {expected} expected, {found} found.")
    return found, time.perf_counter() - began


def _read_outputs(io: FileIO, written: WrittenBlocks) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the outputs, after checking their range, order and recorded facts."""
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


_READ_SHARE = 16  # memory / batch; some batches are decoded ahead
_MAX_BATCH_BYTES = 8 << 20
_MAX_BATCH_ROWS = 1 << 16
_PROBED_ROWS = 16
_BUFFER_BYTES = 128 << 10


class WholeRows:
    """Reads Parquet files row group by row group; with a key range, only row groups that may hold rows of it."""

    def __init__(
        self,
        io: FileIO,
        schema: pa.Schema,
        *,
        memory_bytes: int,
        share: KeyShare | None = None,
        plain: Collection[str] = (),
    ) -> None:
        self._io, self._schema, self._share = io, schema, share
        self._plain = {*plain, *([share.column] if share is not None else ())}
        self._batch_bytes = min(_MAX_BATCH_BYTES, max(1, memory_bytes // _READ_SHARE))
        self._row_bytes = 0
        self.skipped_rows = 0  # of the file that was read last

    def read(self, path: str) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches, each with the number of its row group."""
        self.skipped_rows = 0
        with open_parquet(self._io, path) as parquet:
            coded = [f.name for f in self._schema if f.name not in self._plain and is_coded(parquet, f)]
        with open_parquet(self._io, path, read_dictionary=coded, buffer_size=_BUFFER_BYTES) as parquet:
            for group in range(parquet.metadata.num_row_groups):
                metadata = parquet.metadata.row_group(group)
                if self._share is not None and not self._share.may_hold(_chunk(metadata, self._share.column)):
                    self.skipped_rows += metadata.num_rows
                    continue
                for batch in self._read_group(parquet, path, group):
                    self._row_bytes = max(self._row_bytes, batch.nbytes // max(1, batch.num_rows))
                    yield group, batch.select(self._schema.names)

    def inside(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the batch that are in the key range."""
        if self._share is None:
            return batch
        kept = self._share.is_inside(batch.column(self._share.column))
        return batch if kept.all() else batch.filter(to_column(kept))

    def check_file(self, file: WrittenBlockFile, schema: pa.Schema, *, sort_columns: Sequence[str]) -> None:
        """Raise VerificationError unless the file has the expected size, columns and stated order."""
        found = self._io.stat(file.path)
        if found is None or found.size_bytes != file.size_bytes:
            size = "does not exist" if found is None else f"has {found.size_bytes} bytes"
            raise VerificationError(f"{file.path} {size}, but {file.size_bytes} bytes were recorded.", file=file.path)
        with open_parquet(self._io, file.path) as parquet:
            self._check_tail(file, parquet.metadata)
            if parquet.metadata.num_rows != file.rows:
                raise VerificationError(
                    f"{file.path} has {parquet.metadata.num_rows} rows, but {file.rows} were recorded.", file=file.path
                )
            check_columns(parquet, file.path, list(schema))
            _check_offsets(parquet.metadata, file)
            paths = [parquet.metadata.schema.column(at).path for at, _, _ in sorting_of(parquet.metadata)]
            if paths != list(sort_columns):
                raise VerificationError(f"{file.path} states an order by {paths}, not {sort_columns}.", file=file.path)

    def _check_tail(self, file: WrittenBlockFile, metadata: pq.FileMetaData) -> None:
        """Compare what has no checksums of its own: readers skip rows by a footer, page indexes and bloom filters."""
        if not file.bloom_crc and not file.footer_digest:
            return
        wrong = ""
        with self._io.open_input(file.path) as source:
            footer, begin = find_footer(source, file.path)
            if file.footer_digest and digest_footer(footer, begin).hex() != file.footer_digest:
                wrong = "its footer is not the one that was written"
            elif file.bloom_crc and bloom_checksum(source, metadata) != file.bloom_crc:
                wrong = "its bloom filters are not those that were written"
            elif file.footer_digest and (
                page_index_checksum(source, metadata, footer_begin=begin) != file.page_index_crc
            ):
                wrong = "its page indexes are not those that were written"
        if wrong:
            raise VerificationError(f"{file.path} is damaged: {wrong}.", file=file.path)

    def _read_group(self, parquet: pq.ParquetFile, path: str, group: int) -> Iterator[pa.RecordBatch]:
        columns, groups = self._schema.names, (group,)
        if not self._row_bytes:
            probe = next(read_batches(parquet, path, batch_rows=_PROBED_ROWS, columns=columns, row_groups=groups), None)
            self._row_bytes = 1 if probe is None else max(1, probe.nbytes // max(1, probe.num_rows))
        metadata = parquet.metadata.row_group(group)
        encoded = metadata.total_byte_size // max(1, metadata.num_rows)
        # The encoded width is that of whole rows, so it applies only if all columns are read.
        width = max(self._row_bytes, encoded if len(columns) == len(parquet.schema_arrow) else 1)
        rows = min(_MAX_BATCH_ROWS, max(1, self._batch_bytes // width))
        yield from read_batches(parquet, path, batch_rows=rows, columns=columns, row_groups=groups)


def _check_offsets(footer: pq.FileMetaData, file: WrittenBlockFile) -> None:
    part = read_part(file.part)
    names = ("rows", "size_bytes", "offset")
    recorded = list(zip(*(part.column(name).to_pylist() for name in names), strict=True))
    found = []
    for at in range(footer.num_row_groups):
        group = footer.row_group(at)
        chunks = [group.column(leaf) for leaf in range(footer.num_columns)]
        first = chunks[0].dictionary_page_offset or chunks[0].data_page_offset  # the first page of the first column
        found.append((group.num_rows, sum(chunk.total_compressed_size for chunk in chunks), first))
    if found != recorded:
        raise VerificationError(
            f"{file.path}: rows, sizes and offsets of row groups are not those recorded.", file=file.path
        )


def _chunk(group: pq.RowGroupMetaData, column: str) -> pq.ColumnChunkMetaData:
    return next(chunk for at in range(group.num_columns) if (chunk := group.column(at)).path_in_schema == column)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShare:
    """Rows whose first sort column is in [lower, upper); nulls belong to the range without a lower bound."""

    column: str
    kind: pa.DataType
    lower: pa.Scalar | None
    upper: pa.Scalar | None

    @classmethod
    def of(cls, schema: pa.Schema, sort_columns: Sequence[str], key_range: KeyRange | None) -> KeyShare | None:
        """Read the bounds; None if all rows are in the range."""
        if key_range is None or not sort_columns or (key_range.lower is None and key_range.upper is None):
            return None
        lower, upper = (None if text is None else unpack_value(text) for text in (key_range.lower, key_range.upper))
        return cls(column=sort_columns[0], kind=schema.field(sort_columns[0]).type, lower=lower, upper=upper)

    def is_inside(self, column: pa.Array) -> Mask:
        """Whether each value is in the range."""
        inside = np.ones(len(column), dtype=np.bool_)
        if self.upper is not None:
            inside &= is_below(column, self.upper)
        if self.lower is not None:
            inside &= ~is_below(column, self.lower)
        return inside

    def may_hold(self, chunk: pq.ColumnChunkMetaData) -> bool:
        """Whether a column chunk may hold values of the range, by its statistics."""
        found = chunk.statistics if chunk.is_stats_set else None
        if found is None or not found.has_null_count or not found.has_min_max or not _is_plain(self.kind):
            return True
        try:
            ends = pa.array([found.min, found.max], type=self.kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return True
        has_nulls = self.lower is None and found.null_count > 0
        is_above = self.upper is not None and not is_below(ends.slice(0, 1), self.upper)[0]
        is_under = self.lower is not None and bool(is_below(ends.slice(1), self.lower)[0])
        return has_nulls or not (is_above or is_under)


def _is_plain(kind: pa.DataType) -> bool:
    """Whether statistics of this type cover every value; those of floats omit NaN."""
    return bool(
        types.is_signed_integer(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
    )
