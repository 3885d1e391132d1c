"""Merge Parquet files: copy pages where possible, otherwise decode and encode again."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from packstone.model.unit import How, Verify
from packstone.rewrite.blame_file import blame_file
from packstone.rewrite.data_files.batches import read_ahead
from packstone.rewrite.formats.parquet_batches import batch_rows_for, decoded_row_bytes, is_harmless, read_batches
from packstone.rewrite.formats.parquet_bundle import DECODING_ERRORS, FileBundle, find_bundles
from packstone.rewrite.formats.parquet_file_writer import (
    BoundsOfRows,
)
from packstone.rewrite.formats.parquet_footer import Int96Unit, int96_columns, open_parquet, raw_batches, with_row_count
from packstone.rewrite.formats.parquet_pages import CHECKSUM_WITHIN, has_checksum
from packstone.rewrite.formats.parquet_scan import scan_file, scan_small_file
from packstone.rewrite.formats.parquet_writer import WriterSettings, find_writer_settings, sort_options
from packstone.rewrite.proof import verify_files as verify
from packstone.rewrite.small_files.merge_unit import Written, has_grown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.model.unit import Fingerprint, UnitSpec
    from packstone.rewrite.formats.parquet_file_writer import ParquetFileWriter
    from packstone.storage.fileio import FileIO


def write(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
    """Write the output: copy pages where possible, unless a codec was requested; otherwise encode again."""
    note = ""
    if spec.codec == "keep" and not _are_tiny(io, paths):
        from packstone.rewrite.small_files.parquet_splice import plan_splice, splice_parquet
        from packstone.rewrite.small_files.spliced_file import CannotSpliceError

        try:
            plan = plan_splice(io, paths)
            spliced = splice_parquet(io, paths, output, plan=plan)
            for max_rows in _FEWER_ROWS:
                if not has_grown(io, output, spec=spec):
                    break
                spliced = splice_parquet(io, paths, output, plan=plan, max_rows=max_rows)
            done = Written(
                how=How.SPLICE,
                ordered=True,
                copied=spliced.copied,
                recoded=() if spec.verify is Verify.CONTENT else tuple(sorted({*plan.spliced} - {*spliced.copied})),
                columns=spliced.note,
                checks_text=spec.checks_text,
            )
            return _explain_size(io, paths, output, spec=spec, done=done)
        except CannotSpliceError as error:
            note = f"all encoded ({error.message})"
            io.remove(output)
    proves = spec.verify is Verify.CONTENT
    done = _rewrite(io, paths, output, codec=spec.codec, proves=proves, checks_text=spec.checks_text)
    return _explain_size(io, paths, output, spec=spec, done=replace(done, columns=note))


def _are_tiny(io: FileIO, paths: Sequence[str]) -> bool:
    """Whether all inputs are small and none of their pages is worth copying, so that no splice need be planned."""
    from packstone.rewrite.small_files.parquet_splice import has_good_pages

    for path in paths:
        footer = scan_small_file(io, path)
        if footer is None:
            return False
        chunks = [group.chunks for group in footer.groups if group.chunks.values]
        if any(has_good_pages(max(one.values), max(one.plain_bytes), pages=1) for one in chunks):
            return False
    return True


def _explain_size(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec, done: Written) -> Written:
    found = io.stat(output)
    if spec.codec != "keep" or found is None or not spec.is_bigger(found.size_bytes):
        return done
    from packstone.rewrite.formats.parquet_encodings import explain_growth

    return replace(done, why_bigger=explain_growth(io, paths, (output,)))


def check_readable(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
    """Decode pages that were copied or recoded and that no fingerprint decodes: an input may have been damaged."""
    if written.how is How.SPLICE:
        from packstone.rewrite.small_files import verify_splice

        leaves = sorted((*written.copied, *written.recoded))
        verify_splice.check_readable(io, output, paths, leaves=leaves, checks_text=written.checks_text)


def count(io: FileIO, paths: Sequence[str], *, written: Written) -> int:  # noqa: ARG001 - the same however written
    """Add up the row counts that the footers state."""
    return verify.count_parquet(io, paths)


def compare_copy(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
    """Return None: every page is placed anew, so rows are proved by their fingerprint."""


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
        rows = batch_rows_for(decoded_row_bytes(io, file, path, known=0))
        for _ in read_batches(file, path, batch_rows=rows):
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
# A spliced file that would be discarded for its size is made again with smaller row groups, at last with those of its
# inputs: a dictionary for fewer files has shorter codes, and one file with small row groups is still better than many
# files.
_FEWER_ROWS = (25_000, 1)


def rewrite_parquet(io: FileIO, paths: Sequence[str], output: str, *, codec: str) -> bool:
    """Write the rows of all inputs to the output; return whether they kept their order (False: groups were sorted)."""
    return _rewrite(io, paths, output, codec=codec).ordered


def _rewrite(
    io: FileIO, paths: Sequence[str], output: str, *, codec: str, proves: bool = False, checks_text: bool = False
) -> Written:
    """Write the rows of all inputs to the output.

    ``proves``: the rows of small inputs are decoded once, and digested before anything else is done with them.
    """
    parts = find_bundles(io, paths)
    are_small = all(isinstance(part, FileBundle) or _is_small(io, part) for part in parts)
    unit = _find_int96_unit(io, parts)
    with open_parquet(io, paths[0], coerce_int96_timestamp_unit=unit) as first:
        settings = find_writer_settings(first, codec=codec, files=len(paths), has_checksums=_has_checksums(io, paths))
    bounds = BoundsOfRows(settings.schema)
    source = _Decoder(io, unit=unit, bounds=bounds, proves=proves and are_small, checks_text=checks_text)
    decoded = source.read(parts)
    clock = _Stopwatch()
    decoded = clock.measure(decoded) if are_small else read_ahead(decoded)
    with io.open_output(output) as sink:
        groups = _RowGroups(sink, settings, bounds, is_like_others=are_small)
        try:
            rows = groups.write(decoded)
            before = verify.fingerprint_rows(rows, ordered=not settings.sorting) if source.proves else None
            deque(rows, maxlen=0)
            groups.close()
        except BaseException:
            groups.abandon()
            raise
    return Written(
        how=How.REWRITE,
        ordered=not settings.sorting,
        checks_text=checks_text,
        before=before,
        read_seconds=clock.seconds,
    )


@dataclass(slots=True)
class _Stopwatch:
    """Adds up how long an iterator takes for its items."""

    seconds: float = 0.0

    def measure(self, items: Iterator[_Decoded]) -> Iterator[_Decoded]:
        """Yield the same items."""
        began = time.perf_counter()
        for item in items:
            self.seconds += time.perf_counter() - began
            yield item
            began = time.perf_counter()


def _is_small(io: FileIO, path: str) -> bool:
    """Whether a file is small, and its rows are too: a few bytes can stand for gigabytes."""
    footer = scan_small_file(io, path)
    return footer is not None and is_harmless(footer)


def _find_int96_unit(io: FileIO, parts: Sequence[FileBundle | str]) -> str:
    """The unit that can hold all INT96 values of the files."""
    unit = Int96Unit()
    if not _has_int96(io, parts[0]):
        return str(unit)
    for part in parts:
        if isinstance(part, FileBundle):
            try:
                unit.add("", part.open_raw_int96(io).iter_batches(use_threads=False))
                continue
            except DECODING_ERRORS:
                pass  # each file is read on its own, which names the one that is to blame
        for path in part.paths if isinstance(part, FileBundle) else (part,):
            unit.add(path, raw_batches(io, path))
    return str(unit)


def _has_int96(io: FileIO, part: FileBundle | str) -> bool:
    if isinstance(part, FileBundle):
        return part.kind.has_int96
    with open_parquet(io, part) as file:
        return bool(int96_columns(file))


def _has_checksums(io: FileIO, paths: Sequence[str]) -> bool:
    """Whether the first page of the first rows has a checksum: a writer gives one to all pages or to none."""
    for path in paths:
        for group in scan_file(io, path).groups:
            if group.rows and group.chunks.values:
                with blame_file(path, "cannot be read"), io.open_input(path) as source:
                    return has_checksum(source.read_at(CHECKSUM_WITHIN, group.chunks.begin(0)))
    return False


_Decoded = tuple[Sequence[pa.RecordBatch], Sequence[pa.RecordBatch]]  # rows to be digested, the same to be written


@dataclass(slots=True)
class _Decoder:
    """Decodes inputs, bundle by bundle or batch by batch; with the rows to be digested, if they are."""

    io: FileIO
    unit: str
    bounds: BoundsOfRows
    proves: bool
    checks_text: bool
    row_bytes: int = 0

    def read(self, parts: Sequence[FileBundle | str]) -> Iterator[_Decoded]:
        """Yield the rows twice: as they are digested, and as they are written."""
        for part in parts:
            if not isinstance(part, FileBundle):
                yield from self._read_file(part)
                continue
            try:
                found = self._read_bundle(part)
            except DECODING_ERRORS:
                for path in part.paths:  # reading each file on its own names the one that is to blame
                    yield from self._read_file(path)
                continue
            finally:
                part.close()
            yield found

    def _read_bundle(self, bundle: FileBundle) -> _Decoded:
        file = bundle.open(self.io, unit=self.unit)
        rows = file.read(use_threads=False)
        bundle.check_last(self.io, rows, unit=self.unit)
        digested: Sequence[pa.RecordBatch] = ()
        if self.proves:
            if self.checks_text:
                for batch in rows.to_batches():
                    verify.check_text(batch, bundle.paths[0])
            digested = verify.digested_rows(self.io, bundle, rows, unit=self.unit)
        for number in range(file.num_row_groups):
            self.bounds.add(file.metadata.row_group(number))
        return digested, rows.to_batches()

    def _read_file(self, path: str) -> Iterator[_Decoded]:
        digested = list(verify.all_rows(self.io, [path], checks_text=self.checks_text)) if self.proves else ()
        with open_parquet(self.io, path, coerce_int96_timestamp_unit=self.unit) as file:
            self.row_bytes = decoded_row_bytes(self.io, file, path, known=self.row_bytes)
            for number in range(file.num_row_groups):  # before its first row is passed on to the writer's thread
                self.bounds.add(file.metadata.row_group(number))
            for batch in read_batches(file, path, batch_rows=batch_rows_for(self.row_bytes)):
                self.row_bytes = max(self.row_bytes, batch.nbytes // max(1, batch.num_rows))
                yield digested, (batch,)
                digested = ()
        if digested:
            yield digested, ()


class _RowGroups:
    """Collects batches until they fill a row group, measured by their actual size in memory, and writes it."""

    def __init__(self, sink: Any, settings: WriterSettings, bounds: BoundsOfRows, *, is_like_others: bool) -> None:
        self._sink, self._settings, self._bounds, self._is_like_others = sink, settings, bounds, is_like_others
        self._writer: ParquetFileWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._size_bytes = self._rows = self._written_rows = 0

    def write(self, decoded: Iterator[_Decoded]) -> Iterator[pa.RecordBatch]:
        """Yield the rows to be digested, each before the same rows are written."""
        for digested, batches in decoded:
            yield from digested
            for batch in batches:
                self._add(self._settings.decode(batch))

    def close(self) -> None:
        """Write the last row group and the footer."""
        if self._rows:
            self._write_group()
        if self._writer is None:
            self._writer = self._settings.open_writer(self._sink, self._settings.schema.empty_table())
        self._writer.close(with_row_count(self._settings.key_values, self._written_rows))

    def abandon(self) -> None:
        """Write nothing more."""
        if self._writer is not None:
            self._writer.abandon()

    def _add(self, batch: pa.RecordBatch) -> None:
        while batch.num_rows > (room := MAX_ROW_GROUP_ROWS - self._rows):
            self._add(batch.slice(0, room))
            batch = batch.slice(room)
        self._waiting.append(batch)
        self._size_bytes += batch.nbytes
        self._rows += batch.num_rows
        if self._size_bytes >= ROW_GROUP_BYTES or self._rows >= MAX_ROW_GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        group = _sorted_group(pa.Table.from_batches(self._waiting), self._settings)
        self._waiting.clear()  # or two row groups would be in memory while the next one is collected
        if self._writer is None:
            self._writer = self._settings.open_writer(self._sink, group, is_like_others=self._is_like_others)
        self._writer.write(group, inputs=self._bounds.take(group.num_rows))
        self._written_rows += group.num_rows
        self._size_bytes = self._rows = 0


def _sorted_group(group: pa.Table, settings: WriterSettings) -> pa.Table:
    """Sort a row group if the inputs declare a sort order for theirs, so that the declaration stays true."""
    if not settings.sorting:
        return group
    whole = group.combine_chunks()
    return whole.take(pc.sort_indices(whole, options=sort_options(settings)))
