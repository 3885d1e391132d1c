"""Merge Parquet files: copy pages where possible, otherwise decode and encode again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from packstone.model.unit import How
from packstone.rewrite.data_files.batches import read_ahead
from packstone.rewrite.formats.parquet_batches import batch_rows_for, decoded_row_bytes, read_batches
from packstone.rewrite.formats.parquet_file_writer import (
    BoundsOfRows,
)
from packstone.rewrite.formats.parquet_footer import int96_columns, open_parquet, with_row_count
from packstone.rewrite.formats.parquet_writer import WriterSettings, find_writer_settings, sort_options
from packstone.rewrite.proof import verify_files as verify
from packstone.rewrite.small_files.merge_unit import Written

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.model.unit import UnitSpec
    from packstone.rewrite.proof.fingerprint import Fingerprint
    from packstone.storage.fileio import FileIO


def write(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
    """Write the output: copy pages where possible, unless a codec was requested; otherwise encode again."""
    if spec.codec == "keep":
        from packstone.rewrite.small_files.parquet_splice import plan_splice, splice_parquet
        from packstone.rewrite.small_files.spliced_file import CannotSpliceError

        try:
            spliced = splice_parquet(io, paths, output, plan=plan_splice(io, paths))
            done = Written(
                how=How.SPLICE,
                ordered=True,
                copied=spliced.copied,
                columns=spliced.note,
                checks_text=spec.checks_text,
            )
            return _explain_size(io, paths, output, spec=spec, done=done)
        except CannotSpliceError:
            io.remove(output)
    ordered = rewrite_parquet(io, paths, output, codec=spec.codec)
    done = Written(how=How.REWRITE, ordered=ordered, checks_text=spec.checks_text)
    return _explain_size(io, paths, output, spec=spec, done=done)


def _explain_size(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec, done: Written) -> Written:
    found = io.stat(output)
    if spec.codec != "keep" or found is None or not spec.is_bigger(found.size_bytes):
        return done
    from packstone.rewrite.formats.parquet_encodings import explain_growth

    return replace(done, why_bigger=explain_growth(io, paths, (output,)))


def check_readable(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
    """Decode pages that were copied undecoded: an input may have been damaged already."""
    if written.how is How.SPLICE:
        from packstone.rewrite.small_files import verify_splice

        verify_splice.check_readable(io, output, paths, copied=written.copied, checks_text=written.checks_text)


def count(io: FileIO, paths: Sequence[str], *, written: Written) -> int:  # noqa: ARG001 - the same however written
    """Add up the row counts that the footers state."""
    return verify.count_parquet(io, paths)


def fingerprint(io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:
    """Fingerprint the rows; for a splice, also the bytes of the copied columns."""
    if written.how is How.SPLICE:
        from packstone.rewrite.small_files import verify_splice

        return verify_splice.fingerprint_splice(io, paths, copied=written.copied, checks_text=written.checks_text)
    return verify.fingerprint_parquet(io, paths, ordered=written.ordered, checks_text=written.checks_text)


def check_same_shape(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
    """Compare schema trees and key-value metadata; for a splice, also all that its footer and indexes state."""
    verify.check_same_parquet_shape(io, paths, output)
    if written.how is How.SPLICE:
        from packstone.rewrite.proof.verify_statistics import check_statistics

        check_statistics(io, paths, output)


def read_through(io: FileIO, path: str) -> None:
    """Decode all columns."""
    with open_parquet(io, path) as file:
        for _ in file.iter_batches(use_threads=False):
            pass


# ---- merge ----
# Merge Parquet files into one: copy pages where possible, otherwise decode and encode again.
#
# ``parquet_splice`` copies pages; this part decodes and encodes.
#
# **Encoding again** (``rewrite_parquet``) goes batch by batch, in the files' order. Memory is bounded by one row
# group, decoded and encoded, whatever the number and size of inputs. PyArrow starts a row group with every call that
# writes, so the batches of one row group are collected first: a merged file with one row group for each of its inputs
# would be as slow to read as they were.


# A reader handles a row group at a time: 128 MiB decoded keeps its memory and the number of groups small.
ROW_GROUP_BYTES = 128 << 20
MAX_ROW_GROUP_ROWS = 1 << 20


def rewrite_parquet(io: FileIO, paths: Sequence[str], output: str, *, codec: str) -> bool:
    """Write the rows of all inputs to the output; return whether they kept their order (False: groups were sorted)."""
    unit = "us"
    with open_parquet(io, paths[0]) as first:
        if int96_columns(first):
            from packstone.rewrite.formats.parquet_footer import find_int96_unit

            unit = find_int96_unit(io, paths)
    with open_parquet(io, paths[0], coerce_int96_timestamp_unit=unit) as first:
        settings = find_writer_settings(first, codec=codec, files=len(paths))
    bounds = BoundsOfRows(settings.schema)
    batches = read_ahead(_read_batches(io, paths, unit=unit, settings=settings, bounds=bounds))
    _write_groups(io, output, _cut_row_groups(batches), settings=settings, bounds=bounds)
    return not settings.sorting


def _read_batches(
    io: FileIO, paths: Sequence[str], *, unit: str, settings: WriterSettings, bounds: BoundsOfRows
) -> Iterator[pa.RecordBatch]:
    row_bytes = 0
    for path in paths:
        with open_parquet(io, path, coerce_int96_timestamp_unit=unit) as file:
            row_bytes = decoded_row_bytes(io, file, path, known=row_bytes)
            for number in range(file.num_row_groups):  # before its first row is passed on to the writer's thread
                bounds.add(file.metadata.row_group(number))
            for found in read_batches(file, path, batch_rows=batch_rows_for(row_bytes)):
                batch = settings.decode(found)
                row_bytes = max(row_bytes, batch.nbytes // max(1, batch.num_rows))
                yield batch


def _cut_row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Collect batches until they fill a row group, measured by their actual size in memory."""
    waiting: list[pa.RecordBatch] = []
    size_bytes = rows = 0
    for batch in batches:
        waiting.append(batch)
        size_bytes += batch.nbytes
        rows += batch.num_rows
        if size_bytes >= ROW_GROUP_BYTES or rows >= MAX_ROW_GROUP_ROWS:
            group, waiting, size_bytes, rows = pa.Table.from_batches(waiting), [], 0, 0
            yield group
            del group
    if rows:
        yield pa.Table.from_batches(waiting)


def _write_groups(
    io: FileIO, output: str, groups: Iterator[pa.Table], *, settings: WriterSettings, bounds: BoundsOfRows
) -> None:
    with io.open_output(output) as sink:
        writer, rows = None, 0
        try:
            for found in groups:
                group = _sorted_group(found, settings)
                writer = writer or settings.open_writer(sink, group)
                writer.write(group, inputs=bounds.take(group.num_rows))
                rows += group.num_rows
                del found, group  # or two would be in memory while the next one is collected
            writer = writer or settings.open_writer(sink, settings.schema.empty_table())
            writer.close(with_row_count(settings.key_values, rows))
        except BaseException:
            if writer is not None:
                writer.abandon()
            raise


def _sorted_group(group: pa.Table, settings: WriterSettings) -> pa.Table:
    """Sort a row group if the inputs declare a sort order for theirs, so that the declaration stays true."""
    if not settings.sorting:
        return group
    whole = group.combine_chunks()
    return whole.take(pc.sort_indices(whole, options=sort_options(settings)))
