"""Merge Parquet files: copy pages where possible, otherwise decode and encode again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from packstone.errors import UnreadableFileError
from packstone.model.unit import How, Verify
from packstone.rewrite.data_files.batches import read_ahead
from packstone.rewrite.formats.parquet_batches import batch_rows_for, decoded_row_bytes, read_batches
from packstone.rewrite.formats.parquet_bundle import DECODING_ERRORS, FileBundle, find_bundles
from packstone.rewrite.formats.parquet_file_writer import (
    BoundsOfRows,
    InputBounds,
    float_leaves,
    nan_leaves,
    read_input_bounds,
)
from packstone.rewrite.formats.parquet_footer import Int96Unit, int96_columns, open_parquet, raw_batches, with_row_count
from packstone.rewrite.formats.parquet_pages import PageCount, count_pages
from packstone.rewrite.formats.parquet_scan import scan_small_file
from packstone.rewrite.formats.parquet_writer import WriterSettings, find_writer_settings, sort_options
from packstone.rewrite.proof import verify_files as verify
from packstone.rewrite.small_files.merge_unit import Written
from packstone.rewrite.small_files.spliced_file import (
    CannotSpliceError,
    MergedStatistics,
    SplicedChunk,
    SplicedFile,
    SplicePlan,
    has_good_pages,
    leaves_of,
    plan_splice,
    read_footer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq

    from packstone.model.unit import UnitSpec
    from packstone.rewrite.formats.parquet_file_writer import ParquetFileWriter
    from packstone.rewrite.proof.fingerprint import Fingerprint
    from packstone.storage.fileio import FileIO


def write(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
    """Write the output: copy pages where possible, unless a codec was requested; otherwise encode again."""
    if spec.codec == "keep" and not _are_tiny(io, paths):
        try:
            plan = plan_splice(io, paths)

            splice_parquet(io, paths, output, plan=plan)
            done = Written(how=How.SPLICE, ordered=True, copied=plan.copied, checks_text=spec.checks_text)
            return _explain_size(io, paths, output, spec=spec, done=done)
        except CannotSpliceError:
            io.remove(output)
    proves = spec.verify is Verify.CONTENT
    done = _rewrite(io, paths, output, codec=spec.codec, proves=proves, checks_text=spec.checks_text)
    return _explain_size(io, paths, output, spec=spec, done=done)


def _are_tiny(io: FileIO, paths: Sequence[str]) -> bool:
    """Whether all inputs are small and none of their pages is worth copying, so that no splice need be planned."""
    for path in paths:
        footer = scan_small_file(io, path)
        if footer is None:
            return False
        chunks = (chunk for group in footer.groups for chunk in group.chunks)
        if any(has_good_pages(chunk.values, chunk.plain_bytes, pages=1) for chunk in chunks):
            return False
    return True


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


def check_same_shape(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:  # noqa: ARG001
    """Compare schema trees and key-value metadata."""
    verify.check_same_parquet_shape(io, paths, output)


def read_through(io: FileIO, path: str) -> None:
    """Decode all columns."""
    with open_parquet(io, path) as file:
        for _ in file.iter_batches(use_threads=False):
            pass


# ---- merge ----
# Merge Parquet files into one: copy pages where possible, otherwise decode and encode again.
#
# **Copying** (``splice_parquet``) decompresses, decodes and encodes nothing.
#
# ::
#
#     a.parquet  id: [page]  day: [dict][page]           id:  [page][page][page]         copied
#     b.parquet  id: [page]  day: [dict][page]    ->     day: [dict][page...]            decoded, encoded again
#     c.parquet  id: [page]  day: [dict][page]           one row group, a new footer
#
# ``plan_splice`` chooses the columns to copy. The row groups of the inputs are joined to row groups of the usual
# size, so the output reads as well as an encoded one: it keeps the pages of the inputs' writer, not their row groups.
# Its size is that of the inputs: encoding again might find a dictionary for many files where one file had none.
#
# Cost: the bytes are read and written once (0.1 s for 100 MB, where decoding and encoding take 1.3 s). Memory: one row
# group, as it is stored.
#
# **Encoding again** (``rewrite_parquet``) goes batch by batch, in the files' order. Memory is bounded by one row
# group, decoded and encoded, whatever the number and size of inputs. PyArrow starts a row group with every call that
# writes, so the batches of one row group are collected first: a merged file with one row group for each of its inputs
# would be as slow to read as they were.


_GAP_BYTES = 1 << 20  # read across a gap of up to this size rather than send the storage a second request


@dataclass(slots=True)
class _Piece:
    """One row group of one input: the bytes of its copied columns, the rows of the others."""

    group: pq.RowGroupMetaData
    schema: pq.ParquetSchema
    chunks: dict[int, memoryview]
    batches: list[pa.RecordBatch]
    size_bytes: int  # the memory that a reader of the merged row group needs for it
    with_nan: frozenset[int]  # the copied columns that hold a NaN
    bounds: InputBounds  # as stated by the chunks of the encoded floating-point columns


@dataclass(slots=True)
class _Group:
    """A row group of the output while it is being assembled."""

    rows: int = 0
    size_bytes: int = 0
    copied: dict[int, SplicedChunk] = field(default_factory=dict)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    bounds: InputBounds = field(default_factory=InputBounds)

    def has_room(self, piece: _Piece) -> bool:
        """Whether a piece still fits; the first always does."""
        return not self.rows or (
            self.rows + piece.group.num_rows <= MAX_ROW_GROUP_ROWS
            and self.size_bytes + piece.size_bytes <= ROW_GROUP_BYTES
        )

    def add(self, piece: _Piece) -> None:
        """Append a piece."""
        for leaf, data in piece.chunks.items():
            chunk = piece.group.column(leaf)
            if leaf not in self.copied:
                column = piece.schema.column(leaf)
                self.copied[leaf] = SplicedChunk(column, chunk.compression, MergedStatistics(column))
            holds_nan = leaf in piece.with_nan
            self.copied[leaf].add(data, _count_pages(data, chunk), chunk, holds_nan=holds_nan)
        self.rows += piece.group.num_rows
        self.size_bytes += piece.size_bytes
        self.batches += piece.batches
        self.bounds |= piece.bounds


def splice_parquet(io: FileIO, paths: Sequence[str], output: str, *, plan: SplicePlan) -> None:
    """Write the rows of all inputs, in order, to the output; CannotSpliceError if encoding again is better."""
    with open_parquet(io, paths[0]) as first, io.open_input(paths[0]) as source:
        settings = find_writer_settings(first, codec="keep", files=len(paths)).of_fields(plan.encoded_fields)
        footer = read_footer(source)
    totals = {leaf: PageCount() for leaf in plan.copied}
    with io.open_output(output) as sink:
        file = SplicedFile(sink, footer)
        for group in _gather(_read_pieces(io, paths, plan, settings=settings)):
            for leaf, chunk in group.copied.items():
                totals[leaf].add(chunk.pages)
            file.add_group(group.rows, group.copied, _encode(group, settings))
        file.finish()
    for pages in totals.values():
        if not has_good_pages(pages.values, pages.encoded_bytes, pages=pages.pages):
            raise CannotSpliceError("its pages are too small to be worth copying")


def _gather(pieces: Iterator[_Piece]) -> Iterator[_Group]:
    group = _Group()
    for piece in pieces:
        if not group.has_room(piece):
            yield group
            group = _Group()
        group.add(piece)
    if group.rows:
        yield group


def _read_pieces(io: FileIO, paths: Sequence[str], plan: SplicePlan, *, settings: WriterSettings) -> Iterator[_Piece]:
    row_bytes = 0
    for path in paths:
        with open_parquet(io, path) as file, io.open_input(path) as source:
            if plan.encoded_fields:
                row_bytes = decoded_row_bytes(io, file, path, known=row_bytes)
            encoded_floats = [leaf for leaf in float_leaves(file.schema_arrow) if leaf not in plan.copied]
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                if not group.num_rows:
                    continue
                batches: list[pa.RecordBatch] = []
                decoded_bytes = 0
                for found in _decode(
                    file, path, fields=plan.encoded_fields, group=number, batch_rows=batch_rows_for(max(1, row_bytes))
                ):
                    batch = settings.decode(found)
                    batches.append(batch)
                    decoded_bytes += batch.nbytes
                    if decoded_bytes > ROW_GROUP_BYTES:
                        raise CannotSpliceError("a row group is too big when it is decoded")
                chunks = _read_chunks(source, path, group=group, leaves=plan.copied)
                size_bytes = group.total_byte_size + decoded_bytes
                with_nan = _find_nan(file, path, leaves=plan.copied, group=number)
                bounds = read_input_bounds(group, encoded_floats)
                yield _Piece(group, file.metadata.schema, chunks, batches, size_bytes, with_nan, bounds)


def _decode(
    file: pq.ParquetFile, path: str, *, fields: tuple[str, ...], group: int, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    if not fields:
        return iter(())
    return read_batches(file, path, batch_rows=batch_rows, columns=list(fields), row_groups=(group,))


def _find_nan(file: pq.ParquetFile, path: str, *, leaves: tuple[int, ...], group: int) -> frozenset[int]:
    """Decode the floating-point columns that have bounds: no footer says whether the bounds ignore a NaN."""
    schema, metadata = file.schema_arrow, file.metadata.row_group(group)
    bounded = {
        leaf
        for leaf in set(float_leaves(schema)) & set(leaves)
        if metadata.column(leaf).is_stats_set and metadata.column(leaf).statistics.has_min_max
    }
    fields = [name for name in schema.names if bounded & set(leaves_of(file, name))]
    numbers = [leaf for name in fields for leaf in leaves_of(file, name)]
    row_bytes = sum(metadata.column(leaf).total_uncompressed_size for leaf in numbers) // metadata.num_rows
    found: set[int] = set()
    for batch in _decode(file, path, fields=tuple(fields), group=group, batch_rows=batch_rows_for(max(1, row_bytes))):
        found |= {numbers[at] for at in nan_leaves(pa.Table.from_batches([batch]))}
    return frozenset(found)


def _read_chunks(
    source: pa.NativeFile, path: str, *, group: pq.RowGroupMetaData, leaves: tuple[int, ...]
) -> dict[int, memoryview]:
    """Read the chunks of some columns, adjacent ones with one request."""
    chunks = {leaf: group.column(leaf) for leaf in leaves}
    found: dict[int, memoryview] = {}
    for run in _runs(sorted((c.data_page_offset, c.total_compressed_size, leaf) for leaf, c in chunks.items())):
        begin, size_bytes = run[0][0], run[-1][0] + run[-1][1] - run[0][0]
        data = memoryview(source.read_at(size_bytes, begin))
        if len(data) < size_bytes:
            raise UnreadableFileError(f"{path} ends before the last page that its footer lists.", file=path)
        found |= {leaf: data[at - begin : at - begin + size] for at, size, leaf in run}
    return found


def _runs(places: list[tuple[int, int, int]]) -> list[list[tuple[int, int, int]]]:
    """Split a list of (offset, size, column), sorted by offset, where the gap to the next is long."""
    runs: list[list[tuple[int, int, int]]] = []
    end = 0
    for place in places:
        if not runs or not 0 <= place[0] - end <= _GAP_BYTES:
            runs.append([])
        runs[-1].append(place)
        end = place[0] + place[1]
    return runs


def _count_pages(data: memoryview, chunk: pq.ColumnChunkMetaData) -> PageCount:
    try:
        found = count_pages(data)
    except ValueError as error:
        raise CannotSpliceError(f"the pages of {chunk.path_in_schema} cannot be copied: {error}") from error
    if found.values != chunk.num_values:
        raise CannotSpliceError(
            f"the pages of {chunk.path_in_schema} do not hold the number of values that the footer states"
        )
    return found


def _encode(group: _Group, settings: WriterSettings) -> memoryview:
    """Return the columns to be encoded again as a file of one row group that PyArrow writes."""
    if not group.batches:
        return memoryview(b"")
    sink = pa.BufferOutputStream()
    rows = pa.Table.from_batches(group.batches)
    writer = settings.open_writer(sink, rows)
    writer.write(rows, inputs=group.bounds)
    writer.close()
    group.batches.clear()
    return memoryview(sink.getvalue())


# A reader handles a row group at a time: 128 MiB decoded keeps its memory and the number of groups small.
ROW_GROUP_BYTES = 128 << 20
MAX_ROW_GROUP_ROWS = 1 << 20


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
    are_small = all(isinstance(part, FileBundle) or scan_small_file(io, part) is not None for part in parts)
    unit = _find_int96_unit(io, parts)
    with open_parquet(io, paths[0], coerce_int96_timestamp_unit=unit) as first:
        settings = find_writer_settings(first, codec=codec, files=len(paths))
    bounds = BoundsOfRows(settings.schema)
    source = _Decoder(io, unit=unit, bounds=bounds, proves=proves and are_small, checks_text=checks_text)
    decoded = source.read(parts)
    if not are_small:
        decoded = read_ahead(decoded)
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
    return Written(how=How.REWRITE, ordered=not settings.sorting, checks_text=checks_text, before=before)


def _find_int96_unit(io: FileIO, parts: Sequence[FileBundle | str]) -> str:
    """The unit that can hold all INT96 values of the files."""
    first = parts[0].paths[0] if isinstance(parts[0], FileBundle) else parts[0]
    unit = Int96Unit()
    with open_parquet(io, first) as file:
        if not int96_columns(file):
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
