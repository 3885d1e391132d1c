"""Merge Parquet files by copying pages: choose the columns (``plan_splice``), join row groups (``splice_parquet``).

Copying decompresses, decodes and encodes nothing.

::

    a.parquet  id: [page]  day: [dict][page]           id:  [page][page][page]         copied
    b.parquet  id: [page]  day: [dict][page]    ->     day: [dict][page...]            decoded, encoded again
    c.parquet  id: [page]  day: [dict][page]           one row group, a new footer

**The plan** is made from the footers alone. A column qualifies if in all files its chunks hold only data pages that
need no dictionary, under one codec. A field with several columns (a struct, a list of structs) qualifies if all of them
do. The rest is decoded and encoded again, because a chunk can have only one dictionary. Whole files do not qualify if
copied pages would be read with a different meaning, or if something would be lost that encoding again keeps: see
``_check_file``.

The row groups of the inputs are joined to row groups of the usual size, so the output reads as well as an encoded one:
it keeps the pages of the inputs' writer, not their row groups. Its size is that of the inputs: encoding again might
find a dictionary for many files where one file had none.

Cost: the bytes are read and written once (0.1 s for 100 MB, where decoding and encoding take 1.3 s). Memory: one row
group, as it is stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from packstone.errors import UnreadableFileError
from packstone.rewrite.formats.parquet_batches import batch_rows_for, decoded_row_bytes, read_batches
from packstone.rewrite.formats.parquet_file_writer import InputBounds, float_leaves, nan_leaves, read_input_bounds
from packstone.rewrite.formats.parquet_footer import (
    has_page_index,
    int96_columns,
    open_parquet,
    schema_tree,
    sorting_of,
)
from packstone.rewrite.formats.parquet_pages import SELF_CONTAINED, PageCount, count_pages
from packstone.rewrite.formats.parquet_writer import WriterSettings, find_writer_settings
from packstone.rewrite.small_files.parquet_kernel import MAX_ROW_GROUP_ROWS, ROW_GROUP_BYTES
from packstone.rewrite.small_files.spliced_file import (
    CODEC_NUMBERS,
    CannotSpliceError,
    MergedStatistics,
    SplicedChunk,
    SplicedFile,
    encoded_fields,
    field_of,
    leaves_of,
    read_footer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

# Smaller pages slow readers down more than copying saves, and only encoding again makes bigger ones.
_MIN_PAGE_VALUES: Final = 1_000
_MIN_PAGE_BYTES: Final = 16 << 10
# Where less could be copied, there is little to gain.
_MIN_COPIED_PCT: Final = 20
# A row group is held in memory while its chunks are assembled.
_MAX_GROUP_BYTES: Final = 128 << 20
_PARQUET_MR: Final = re.compile(r"parquet-mr version (\d+)\.(\d+)")
_FIRST_GOOD_PARQUET_MR: Final = (1, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplicePlan:
    """What to copy and what to encode again."""

    copied: tuple[int, ...]  # numbers of columns, counted as in the footer
    encoded_fields: tuple[str, ...]  # names of top-level fields


@dataclass(slots=True)
class _Survey:
    """The columns that can still be copied after the footers read so far, and their totals."""

    codecs: list[str]
    candidates: set[int]
    values: list[int]
    plain_bytes: list[int]
    chunks: int = 0
    all_bytes: int = 0


def plan_splice(io: FileIO, paths: Sequence[str]) -> SplicePlan:
    """Read all footers and choose the columns; CannotSpliceError says why nothing, or too little, can be copied."""
    with open_parquet(io, paths[0]) as first:
        leaves = first.metadata.num_columns
        survey = _Survey(
            codecs=[""] * leaves, candidates=set(range(leaves)), values=[0] * leaves, plain_bytes=[0] * leaves
        )
        _check_schema(first)
        for path in paths:
            with open_parquet(io, path) as file:
                _check_file(file, first, path)
                _survey_file(file.metadata, survey)
            if not survey.candidates:
                raise CannotSpliceError("every column has a dictionary, a bloom filter or a codec of its own")
        if not survey.chunks:
            raise CannotSpliceError("there are no rows")
        for leaf in tuple(survey.candidates):
            if not has_good_pages(survey.values[leaf], survey.plain_bytes[leaf], pages=survey.chunks):
                survey.candidates.discard(leaf)
        return _choose_fields(first, survey)


def has_good_pages(values: int, plain_bytes: int, *, pages: int) -> bool:
    """Whether pages are on average long enough for readers, in values or in bytes."""
    return values >= _MIN_PAGE_VALUES * pages or plain_bytes >= _MIN_PAGE_BYTES * pages


def _check_schema(first: pq.ParquetFile) -> None:
    names = first.schema_arrow.names
    if len(set(names)) < len(names) or any(not name or "." in name for name in names):
        raise CannotSpliceError("its column names are not unique, are empty or contain a dot")
    if int96_columns(first):
        raise CannotSpliceError("it has INT96 columns")
    if _is_old_writer(first.metadata.created_by):
        raise CannotSpliceError(f"it was written by {first.metadata.created_by}, whose pages may depend on each other")


def _check_file(file: pq.ParquetFile, first: pq.ParquetFile, path: str) -> None:
    metadata, expected = file.metadata, first.metadata
    if metadata.created_by != expected.created_by:
        # Readers work around the bugs of a writer by its name, of which a file has only one.
        raise CannotSpliceError(f"{path} was written by {metadata.created_by}, not by the writer of the first file")
    if not metadata.schema.equals(expected.schema) and schema_tree(metadata.schema) != schema_tree(expected.schema):
        raise CannotSpliceError(f"{path} has a different schema than the first file")
    if sorting_of(metadata):
        raise CannotSpliceError("its row groups are sorted, and bigger ones must be sorted again")
    if has_page_index(metadata):
        raise CannotSpliceError("it has page indexes, which only encoding again writes")


def _is_old_writer(created_by: str) -> bool:
    """Whether pages may depend on the previous one: parquet-mr before 1.8 wrote such, unnamed writers might have."""
    version = _PARQUET_MR.match(created_by)
    if version is None:
        return not created_by or created_by.startswith("parquet-mr")
    return (int(version[1]), int(version[2])) < _FIRST_GOOD_PARQUET_MR


def _survey_file(metadata: pq.FileMetaData, survey: _Survey) -> None:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not group.num_rows:
            continue
        survey.chunks += 1
        survey.all_bytes += group.total_byte_size
        if group.total_byte_size > _MAX_GROUP_BYTES:
            raise CannotSpliceError("it has row groups that are too big for memory")
        for leaf in tuple(survey.candidates):
            chunk = group.column(leaf)
            if not _can_copy(chunk, survey.codecs[leaf]):
                survey.candidates.discard(leaf)
                continue
            survey.codecs[leaf] = chunk.compression
            survey.values[leaf] += chunk.num_values
            survey.plain_bytes[leaf] += chunk.total_uncompressed_size


def _can_copy(chunk: pq.ColumnChunkMetaData, codec: str) -> bool:
    return (
        chunk.compression in CODEC_NUMBERS
        and chunk.compression == (codec or chunk.compression)
        and not chunk.has_dictionary_page
        and all(encoding in SELF_CONTAINED for encoding in chunk.encodings)
        and getattr(chunk, "bloom_filter_offset", None) is None
        and not chunk.file_path
    )


def _choose_fields(first: pq.ParquetFile, survey: _Survey) -> SplicePlan:
    leaves = range(first.metadata.num_columns)
    mixed = {field_of(first, leaf) for leaf in leaves if leaf not in survey.candidates}
    copied = tuple(leaf for leaf in leaves if field_of(first, leaf) not in mixed)
    copied_bytes = sum(survey.plain_bytes[leaf] for leaf in copied)
    if copied_bytes * 100 < _MIN_COPIED_PCT * survey.all_bytes or not copied:
        raise CannotSpliceError(f"less than {_MIN_COPIED_PCT} % of the bytes could be copied")
    return SplicePlan(copied=copied, encoded_fields=encoded_fields(first, copied))


# ---- the merge ----

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
