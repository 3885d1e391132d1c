"""Merge Parquet files without decoding values: copy pages, give codes new numbers, join row groups.

::

    a.parquet  id: [page]  day: [dict][page]           id:  [page][page][page]         copied
    b.parquet  id: [page]  day: [dict][page]    ->     day: [dict][page][page][page]   recoded
    c.parquet  id: [page]  day: [dict][page]           one row group, a new footer

Each column of each row group of the output is made in one of three ways:

========  =================================================  ========================================================
way       pages                                              when
========  =================================================  ========================================================
copied    unchanged                                          no page of the inputs needs a dictionary
recoded   dictionaries merged, codes replaced                pages with codes come first; plain pages that follow
          (``formats.parquet_codes``); levels, and plain     them, where a dictionary had grown too big, come last
          pages after a dictionary overflow, unchanged
encoded   decoded and encoded again by PyArrow               all other cases; all columns of its field with it
========  =================================================  ========================================================

**Order.** A page with codes never follows a plain one in a chunk: Spark's vectorized reader returns wrong values there,
without an error. So a row group ends before an input that would cause that, if the row group has a usual size by then;
otherwise the field is encoded. A chunk of nothing but nulls has no values, so its pages are made plain or coded as
their neighbours require.

**Size.** One dictionary for many files may be bigger than theirs, if values repeat only within each file, and its codes
are longer. So each page gets codes of the width that its own codes need, which is short for those of the first files.
Codes of the same values may compress better if each has whole bytes: that is tried for a chunk that grew. The sizes are
compared before anything is written, too: a column that would grow is encoded if plain values take less, as those that
never repeat do; a row group that would grow for other reasons is cut in two. See ``parquet_kernel`` for what happens if
a file has grown nevertheless.

**The plan** is made from the footers alone: it lists the columns that can be copied or recoded. Whole files do not
qualify if copied pages would be read with a different meaning, if something would be lost that encoding again keeps, or
if pages are so small that only encoding again makes a file that reads well: see ``_check_file`` and ``has_good_pages``.

The row groups of the inputs are joined to row groups of the usual size, so the output reads as well as an encoded one:
it keeps the pages of the inputs' writer, not their row groups.

Cost: all bytes are read and written once, and pages with codes are decompressed, replaced and compressed. Memory: one
row group as it is stored, the dictionaries of its columns, and one column as it is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.blame_file import blame_file, one_line
from packstone.rewrite.formats.parquet_batches import batch_rows_for, decoded_row_bytes, read_batches
from packstone.rewrite.formats.parquet_bundle import DECODING_ERRORS
from packstone.rewrite.formats.parquet_codes import (
    MergedDictionary,
    count_level,
    find_codes,
    merge_dictionaries,
    recode,
)
from packstone.rewrite.formats.parquet_file_writer import InputBounds, float_leaves, read_input_bounds
from packstone.rewrite.formats.parquet_footer import (
    find_int96_unit,
    int96_columns,
    open_parquet,
    schema_tree,
    sorting_of,
)
from packstone.rewrite.formats.parquet_pages import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_ENCODINGS,
    DICTIONARY_PAGE,
    PLAIN_DICTIONARY,
    RLE_DICTIONARY,
    SELF_CONTAINED,
    Page,
    PageCount,
    checksum,
    dictionary_page,
    page_header,
    walk_pages,
)
from packstone.rewrite.formats.parquet_scan import scan_file
from packstone.rewrite.formats.parquet_writer import WriterSettings, can_write, find_writer_settings
from packstone.rewrite.small_files.parquet_kernel import MAX_ROW_GROUP_ROWS, ROW_GROUP_BYTES
from packstone.rewrite.small_files.spliced_file import (
    CODEC_NUMBERS,
    CannotSpliceError,
    EncodedChunk,
    InputChunk,
    MergedStatistics,
    SplicedChunk,
    SplicedFile,
    field_of,
    read_encoded,
    read_footer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packstone.rewrite.formats.parquet_scan import ChunkPlaces, FooterKind, GroupPlace, ScannedFooter
    from packstone.storage.fileio import FileIO

# Smaller pages slow readers down more than copying saves, and only encoding again makes bigger ones.
_MIN_PAGE_VALUES: Final = 1_000
_MIN_PAGE_BYTES: Final = 16 << 10
# Where less could be copied, there is little to gain.
_MIN_COPIED_PCT: Final = 20
# A row group is held in memory while its chunks are assembled.
_MAX_GROUP_BYTES: Final = 128 << 20
# A row group that ends early has at least this many rows: from there on, readers show no difference.
_MIN_GROUP_ROWS: Final = 100_000
# Of all columns of a row group: a reader holds them, and merging them takes several times as much.
_MAX_DICTIONARY_BYTES: Final = 32 << 20
# Growth of the codes and dictionaries of a row group, in percent of its stored bytes, that is accepted.
_MAX_GROWTH_PCT: Final = 1
# Smaller growth is no reason for smaller row groups.
_MIN_GROWTH_BYTES: Final = 64 << 10
_GAP_BYTES: Final = 1 << 20  # read across a gap of up to this size rather than send the storage a second request
_PARQUET_MR: Final = re.compile(r"parquet-mr version (\d+)\.(\d+)")
_FIRST_GOOD_PARQUET_MR: Final = (1, 8)
_KNOWN_ENCODINGS: Final = frozenset(SELF_CONTAINED.values()) | DICTIONARY_ENCODINGS
_CODECS: Final = frozenset(CODEC_NUMBERS.values())
_BOOLEAN: Final = 0
_WIDTHS: Final = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 0}
_FLOATS: Final = {"FLOAT": "<f4", "DOUBLE": "<f8"}
_BIT_PACKED: Final = 4
_PLAIN, _BYTE_STREAM_SPLIT = 0, 9
_INDEXES: Final = ((4, 5), (6, 7))  # of a ColumnChunk
# Names of PyArrow's codecs. The levels are those of parquet-mr; Arrow's default for gzip takes twice the time.
_CODEC_NAMES: Final = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4": "lz4_raw"}
_LEVELS: Final = {"GZIP": 6, "ZSTD": 3}
_BLOOM_FPP: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class SplicePlan:
    """What to copy or recode; the other columns are encoded again."""

    spliced: tuple[int, ...]  # numbers of columns, counted as in the footer
    fields: tuple[str, ...]  # the top-level fields that they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Spliced:
    """How the columns of a file were made."""

    copied: tuple[int, ...]  # numbers of the columns that consist of unchanged pages only
    note: str


@dataclass(slots=True)
class _Survey:
    """The columns that can still be spliced after the footers read so far, and their totals."""

    codecs: list[int | None]
    candidates: set[int]
    values: list[int]
    plain_bytes: list[int]
    intervals: frozenset[int] = frozenset()
    chunks: int = 0
    all_bytes: int = 0


def plan_splice(io: FileIO, paths: Sequence[str]) -> SplicePlan:
    """Read all footers and choose the columns; CannotSpliceError says why nothing, or too little, can be spliced."""
    with open_parquet(io, paths[0]) as first:
        leaves = first.metadata.num_columns
        schema = first.metadata.schema
        survey = _Survey(
            codecs=[None] * leaves,
            candidates=set(range(leaves)),
            values=[0] * leaves,
            plain_bytes=[0] * leaves,
            intervals=frozenset(leaf for leaf in range(leaves) if schema.column(leaf).converted_type == "INTERVAL"),
        )
        _check_schema(first)
        kinds: set[FooterKind] = set()  # footers of one kind have the same bytes in all that is checked
        for path in paths:
            footer = scan_file(io, path)
            if footer.kind not in kinds:
                _check_file(io, first, path)
                kinds.add(footer.kind)
            _survey_file(footer, survey)
            if not survey.candidates:
                raise CannotSpliceError("every column has a codec of its own or an unknown encoding")
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
    if _is_old_writer(first.metadata.created_by):
        raise CannotSpliceError(f"it was written by {first.metadata.created_by}, whose pages may depend on each other")


def _check_file(io: FileIO, first: pq.ParquetFile, path: str) -> None:
    with open_parquet(io, path) as file:
        metadata, expected = file.metadata, first.metadata
    if metadata.created_by != expected.created_by:
        # Readers work around the bugs of a writer by its name, of which a file has only one.
        raise CannotSpliceError(f"{path} was written by {metadata.created_by}, not by the writer of the first file")
    if not metadata.schema.equals(expected.schema) and schema_tree(metadata.schema) != schema_tree(expected.schema):
        raise CannotSpliceError(f"{path} has a different schema than the first file")
    with io.open_input(path) as source:
        read_footer(source)
    if sorting_of(metadata):
        raise CannotSpliceError("its row groups are sorted, and bigger ones must be sorted again")


def _is_old_writer(created_by: str) -> bool:
    """Whether pages may depend on the previous one: parquet-mr before 1.8 wrote such, unnamed writers might have."""
    version = _PARQUET_MR.match(created_by)
    if version is None:
        return not created_by or created_by.startswith("parquet-mr")
    return (int(version[1]), int(version[2])) < _FIRST_GOOD_PARQUET_MR


def _survey_file(footer: ScannedFooter, survey: _Survey) -> None:
    if footer.groups and not footer.is_whole:
        raise CannotSpliceError("its columns are in other files")
    for group in footer.groups:
        if not group.rows:
            continue
        survey.chunks += 1
        survey.all_bytes += group.plain_bytes
        if group.plain_bytes > _MAX_GROUP_BYTES:
            raise CannotSpliceError("it has row groups that are too big for memory")
        for leaf in tuple(survey.candidates):
            chunks = group.chunks
            # DuckDB's bloom filters of intervals hold other bytes than the values: 1 month for 30 days.
            has_odd_filter = leaf in survey.intervals and bool(chunks.blooms[leaf])
            kind = footer.kind.leaves[leaf].kind
            if has_odd_filter or not _can_splice(chunks, leaf, kind=kind, codec=survey.codecs[leaf]):
                survey.candidates.discard(leaf)
                continue
            survey.codecs[leaf] = chunks.codec(leaf)
            survey.values[leaf] += chunks.values[leaf]
            survey.plain_bytes[leaf] += chunks.plain_bytes[leaf]


def _can_splice(chunks: ChunkPlaces, leaf: int, *, kind: int, codec: int | None) -> bool:
    found = chunks.codec(leaf)
    return (
        found in _CODECS
        and codec in (None, found)
        and chunks.encodings(leaf) <= _KNOWN_ENCODINGS
        and not (chunks.dictionary_offsets[leaf] and kind == _BOOLEAN)
    )


def _choose_fields(first: pq.ParquetFile, survey: _Survey) -> SplicePlan:
    leaves = range(first.metadata.num_columns)
    mixed = {field_of(first, leaf) for leaf in leaves if leaf not in survey.candidates}
    spliced = tuple(leaf for leaf in leaves if field_of(first, leaf) not in mixed)
    spliced_bytes = sum(survey.plain_bytes[leaf] for leaf in spliced)
    if spliced_bytes * 100 < _MIN_COPIED_PCT * survey.all_bytes or not spliced:
        raise CannotSpliceError(f"less than {_MIN_COPIED_PCT} % of the bytes could be copied or recoded")
    fields = tuple(dict.fromkeys(field_of(first, leaf) for leaf in spliced))
    return SplicePlan(spliced=spliced, fields=fields)


# ---- the inputs ----

# The order of the pages of a column, by whether they are coded (D) or plain (p).
_NULLS, _ONLY_PLAIN, _ONLY_CODED, _FALLBACK, _ENCODE = "", "p", "D", "Dp", "x"


@dataclass(slots=True)
class _Piece:
    """One row group of one input; lists have an item for each column, empty for those that the plan encodes."""

    path: str
    number: int
    group: pq.RowGroupMetaData
    rows: int
    size_bytes: int  # the memory that a reader of the merged row group needs for it
    inputs: list[InputChunk]
    data: list[memoryview]
    pages: list[list[Page]]  # data pages
    dictionaries: list[Page | None]
    orders: list[str]


def _read_pieces(io: FileIO, paths: Sequence[str], plan: SplicePlan) -> Iterator[_Piece]:
    for path in paths:
        with open_parquet(io, path) as file, io.open_input(path) as source:
            for number, places in enumerate(scan_file(io, path).groups):
                if places.rows:
                    yield _read_piece(source, path, file, number=number, places=places, leaves=plan.spliced)


def _read_piece(
    source: pa.NativeFile, path: str, file: pq.ParquetFile, *, number: int, places: GroupPlace, leaves: tuple[int, ...]
) -> _Piece:
    group, schema = file.metadata.row_group(number), file.metadata.schema
    count = group.num_columns
    inputs = [InputChunk.of(group.column(leaf), places.chunks, leaf) for leaf in range(count)]
    piece = _Piece(
        path, number, group, places.rows, places.plain_bytes, inputs,
        [memoryview(b"")] * count, [[] for _ in range(count)], [None] * count, [_ENCODE] * count,
    )  # fmt: skip
    for leaf, data in _read_chunks(source, path, places=places, leaves=leaves).items():
        pages = _walk(data, inputs[leaf])
        if pages and pages[0].kind == DICTIONARY_PAGE:
            piece.dictionaries[leaf] = pages.pop(0)
        piece.data[leaf], piece.pages[leaf] = data, pages
        piece.orders[leaf] = _order_of_pages(piece, leaf, schema.column(leaf))
    _read_index(source, piece)
    return piece


def _read_chunks(
    source: pa.NativeFile, path: str, *, places: GroupPlace, leaves: tuple[int, ...]
) -> dict[int, memoryview]:
    """Read the chunks of some columns, adjacent ones with one request."""
    found: dict[int, memoryview] = {}
    chunks = places.chunks
    for run in _runs(sorted((chunks.begin(leaf), chunks.size_bytes[leaf], leaf) for leaf in leaves)):
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


def _walk(data: memoryview, found: InputChunk) -> list[Page]:
    try:
        pages = walk_pages(data)
    except ValueError as error:
        raise CannotSpliceError(f"the pages of {found.chunk.path_in_schema} cannot be copied: {error}") from error
    values = sum([page.values for page in pages if page.kind != DICTIONARY_PAGE])
    if values != found.values or sum([page.plain_bytes for page in pages]) > found.chunk.total_uncompressed_size:
        name = found.chunk.path_in_schema
        raise CannotSpliceError(f"the pages of {name} do not hold the number of values or bytes that the footer states")
    return pages


def _order_of_pages(piece: _Piece, leaf: int, column: pq.ColumnSchema) -> str:
    pages, coded = piece.pages[leaf], [page.is_coded for page in piece.pages[leaf]]
    if DICTIONARY_PAGE in [page.kind for page in pages] or (True in coded and piece.dictionaries[leaf] is None):
        return _ENCODE
    packed_levels = (
        column.max_definition_level > 0 and _BIT_PACKED in [page.definition_encoding for page in pages]
    ) or (column.max_repetition_level > 0 and _BIT_PACKED in [page.repetition_encoding for page in pages])
    if not packed_levels and _is_null(piece, leaf):
        return _NULLS
    if not any(coded):
        return _ONLY_PLAIN
    if packed_levels or coded != sorted(coded, reverse=True):
        return _ENCODE
    return _ONLY_CODED if all(coded) else _FALLBACK


def _is_null(piece: _Piece, leaf: int) -> bool:
    """Whether all values are null, as the footer or the headers of the pages state; checked when pages are changed."""
    found = piece.inputs[leaf]
    if found.stated_nulls is None:
        return all(page.kind == DATA_PAGE_V2 and page.nulls == page.values for page in piece.pages[leaf])
    return found.stated_nulls == found.values


def _read_index(source: pa.NativeFile, piece: _Piece) -> None:
    """Read the page index of a row group, if it says more than the footer: if a chunk has several pages."""
    indexed = [found for found, pages in zip(piece.inputs, piece.pages, strict=True) if len(pages) > 1]
    places = [
        (found.indexes[offset][1], found.indexes[length][1])
        for found in indexed
        for offset, length in _INDEXES
        if offset in found.indexes and length in found.indexes
    ]
    if places:
        begin, end = min(at for at, _ in places), max(at + size_bytes for at, size_bytes in places)
        data = memoryview(source.read_at(end - begin, begin))
        for found in indexed:
            found.index, found.index_begin = data, begin


# ---- row groups ----


@dataclass(slots=True)
class _Group:
    """A row group of the output while it is being assembled."""

    pieces: list[_Piece] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0
    orders: list[str] = field(default_factory=list)
    dictionary_bytes: list[int] = field(default_factory=list)

    def has_room(self, piece: _Piece, *, max_rows: int) -> bool:
        """Whether a piece still fits; the first always does."""
        if not self.pieces:
            return True
        return (
            self.rows + piece.rows <= max_rows
            and self.size_bytes + piece.size_bytes <= ROW_GROUP_BYTES
            and not (self.rows >= _MIN_GROUP_ROWS and self._breaks_order(piece))
            and sum(self.dictionary_bytes) + sum(_dictionary_bytes(piece)) <= _MAX_DICTIONARY_BYTES
        )

    def add(self, piece: _Piece) -> None:
        """Append a piece."""
        if not self.pieces:
            self.orders, self.dictionary_bytes = [_NULLS] * len(piece.orders), [0] * len(piece.orders)
        self.pieces.append(piece)
        self.rows += piece.rows
        self.size_bytes += piece.size_bytes
        self.orders = [_joined(one, other) for one, other in zip(self.orders, piece.orders, strict=True)]
        more = _dictionary_bytes(piece)
        self.dictionary_bytes = [one + other for one, other in zip(self.dictionary_bytes, more, strict=True)]

    def _breaks_order(self, piece: _Piece) -> bool:
        return any(
            _ENCODE not in (one, other) and _joined(one, other) == _ENCODE
            for one, other in zip(self.orders, piece.orders, strict=True)
        )


def _dictionary_bytes(piece: _Piece) -> list[int]:
    return [0 if page is None else page.plain_bytes for page in piece.dictionaries]


def _joined(one: str, other: str) -> str:
    """The order of the pages of two chunks, one after the other; pages of nulls fit anywhere."""
    if _NULLS in (one, other):
        return one or other
    if _ENCODE in (one, other) or (one.endswith("p") and other.startswith("D")):
        return _ENCODE
    return one if one == other else _FALLBACK


def _gather(pieces: Iterator[_Piece], max_rows: Callable[[], int]) -> Iterator[_Group]:
    group = _Group()
    for piece in pieces:
        if not group.has_room(piece, max_rows=max_rows()):
            yield group
            group = _Group()
        group.add(piece)
    if group.pieces:
        yield group


class _TooBigError(Exception):
    """A row group should be cut in two."""


def splice_parquet(
    io: FileIO, paths: Sequence[str], output: str, *, plan: SplicePlan, max_rows: int = MAX_ROW_GROUP_ROWS
) -> Spliced:
    """Write the rows of all inputs, in order, to the output; CannotSpliceError if encoding again is better.

    Row groups of the inputs are joined to row groups of up to ``max_rows``.
    """
    with open_parquet(io, paths[0]) as first, io.open_input(paths[0]) as source:
        schema = first.metadata.schema
        columns = [schema.column(leaf) for leaf in range(first.metadata.num_columns)]
        zstd_level = None if first.metadata.created_by.startswith("parquet-cpp-arrow") else _LEVELS["ZSTD"]
        footer = read_footer(source)
    with io.open_output(output) as sink:
        file = SplicedFile(sink, footer)
        splicer = _Splicer(io, paths, columns, file=file, zstd_level=zstd_level, max_rows=max_rows)
        for group in _gather(_read_pieces(io, paths, plan), splicer.max_rows):
            splicer.write(group)
        splicer.file.finish()
    return splicer.report()


class _Splicer:
    """Writes row groups, and counts how their columns were made."""

    def __init__(
        self,
        io: FileIO,
        paths: Sequence[str],
        columns: list[Any],
        *,
        file: SplicedFile,
        zstd_level: int | None,
        max_rows: int,
    ) -> None:
        self.file = file
        self._columns = columns
        self._fields = [column.path.split(".", 1)[0] for column in columns]
        self._encoder = _Encoder(io, paths)
        self._zstd_level = zstd_level
        self._max_rows = max_rows
        self._totals = [PageCount() for _ in columns]
        self._copied = [True] * len(columns)
        self._encoded: dict[str, str] = {}  # the reasons, by field

    def max_rows(self) -> int:
        """The number of rows at which a row group ends."""
        return self._max_rows

    def write(self, group: _Group) -> None:
        """Write a row group, or several if it would grow."""
        try:
            self._write(group)
        except _TooBigError:
            for half in _halves(group):
                self.write(half)

    def report(self) -> Spliced:
        """Tell how the columns were made; CannotSpliceError if their pages are too small to be worth it."""
        for leaf, pages in enumerate(self._totals):
            if pages.pages and not has_good_pages(pages.values, pages.encoded_bytes, pages=pages.pages):
                raise CannotSpliceError(f"pages of {self._columns[leaf].path} are too small to be worth copying")
        copied = tuple(leaf for leaf, is_copied in enumerate(self._copied) if is_copied)
        encoded = sum(name in self._encoded for name in self._fields)
        recoded = len(self._columns) - len(copied) - encoded
        counts = ((len(copied), "copied"), (recoded, "recoded"), (encoded, "encoded"))
        note = ", ".join(f"{count} {way}" for count, way in counts if count)
        reasons = "; ".join(f"{name}: {why}" for name, why in self._encoded.items())
        return Spliced(copied=copied, note=f"{note}{f' ({reasons})' if reasons else ''}")

    def _write(self, group: _Group) -> None:
        merged, blooms = {}, {}
        reasons: dict[str, str] = {}
        for leaf, order in enumerate(group.orders):
            if order == _ENCODE:
                reasons.setdefault(self._fields[leaf], _why_encoded(group, leaf))
            elif order in (_ONLY_CODED, _FALLBACK):
                merged[leaf] = self._merge_dictionaries(group, leaf)
        reasons = self._check_growth(group, merged) | reasons
        for leaf, name in enumerate(self._fields):
            if name not in reasons and any(_has_bloom_filter(group, leaf)):
                bloom = self._bloom_filter(group, leaf, merged.get(leaf))
                if bloom is None:
                    reasons[name] = "its bloom filters cannot be joined"
                else:
                    blooms[leaf] = bloom
        again = tuple(dict.fromkeys(name for name in self._fields if name in reasons))
        encoded = self._encoder.encode(group, again)
        self._encoded = reasons | self._encoded

        def chunks() -> Iterator[SplicedChunk | EncodedChunk]:
            for leaf, name in enumerate(self._fields):
                if name in again:
                    self._copied[leaf] = False
                    yield next(encoded)
                else:
                    chunk = self._splice_small(group, leaf, merged.pop(leaf, None))
                    chunk.bloom_filter = blooms.pop(leaf, b"")
                    self._copied[leaf] &= chunk.is_copied
                    self._totals[leaf].add(chunk.pages)
                    yield chunk

        self.file.add_group(group.rows, chunks())

    def _merge_dictionaries(self, group: _Group, leaf: int) -> MergedDictionary:
        column = self._columns[leaf]
        width = column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS[column.physical_type]
        pages = []
        for piece in group.pieces:
            page = piece.dictionaries[leaf]
            if page is None or not piece.orders[leaf].startswith("D"):  # no page uses it
                pages.append((b"", 0))
                continue
            with blame_file(piece.path, "has a broken data page"):
                pages.append((self._codec(piece, leaf).open(page, piece.data[leaf])[0], page.values))
        try:
            return merge_dictionaries(pages, width_bytes=width)
        except DECODING_ERRORS as error:
            for piece, alone in zip(group.pieces, pages, strict=True):
                with blame_file(piece.path, "has a broken dictionary"):
                    merge_dictionaries([alone], width_bytes=width)
            raise CannotSpliceError(f"dictionaries of {column.path} cannot be merged: {one_line(error)}") from error

    def _check_growth(self, group: _Group, merged: dict[int, MergedDictionary]) -> dict[str, str]:
        """Drop dictionaries that do not pay: with their longer codes, they take more than those of the pieces.

        Return the fields that are to be encoded for that, with the reason.
        _TooBigError if the row group would grow without them too, and can be cut.
        """
        if len(group.pieces) == 1:
            return {}
        growths = {leaf: _estimate_growth(group, leaf, dictionary) for leaf, dictionary in merged.items()}
        grown_bytes = sum(growth.grown_bytes for growth in growths.values())
        stored_bytes = sum(len(data) for piece in group.pieces for data in piece.data)
        reasons = {}
        # Cutting does not help where values hardly repeat: a dictionary of any two pieces has longer codes than theirs.
        for leaf, growth in sorted(growths.items(), key=lambda item: -item[1].grown_bytes):
            if grown_bytes * 100 <= _MAX_GROWTH_PCT * stored_bytes or growth.grown_bytes <= 0:
                break
            if growth.is_plain_smaller:
                reasons[self._fields[leaf]] = "one dictionary of all files would take more than plain values"
                del merged[leaf]
                grown_bytes -= growth.grown_bytes
        is_worth_it = grown_bytes > max(_MIN_GROWTH_BYTES, _MAX_GROWTH_PCT * stored_bytes // 100)
        if is_worth_it and group.rows >= 2 * _MIN_GROUP_ROWS:
            self._max_rows = max(_MIN_GROUP_ROWS, group.rows // 2)
            raise _TooBigError
        return reasons

    def _bloom_filter(self, group: _Group, leaf: int, merged: MergedDictionary | None) -> bytes | None:
        """The filter for all values of the column, or nothing, see ``bloom_columns_of``; None if it cannot be made."""
        if self._columns[leaf].physical_type == "BOOLEAN":
            return b""
        if merged is None or group.orders[leaf] != _ONLY_CODED or not can_write("bloom_filter_options"):
            return None
        if self._columns[leaf].physical_type in _FLOATS and not all(_has_bloom_filter(group, leaf)):
            return b""
        return _bloom_filter(self._used_entries(group, leaf, merged))

    def _used_entries(self, group: _Group, leaf: int, merged: MergedDictionary) -> pa.Array:
        """The entries of a dictionary that occur as values: those of Arrow's categories need not."""
        is_used = np.zeros(len(merged.entries), bool)
        for at, piece in enumerate(group.pieces):
            codec = self._codec(piece, leaf)
            with blame_file(piece.path, "has a broken data page"):
                for page in piece.pages[leaf] if piece.orders[leaf] == _ONLY_CODED else ():
                    is_used[merged.codes[at].take(codec.find_codes(page, piece.data[leaf]).view(np.int64))] = True
        return merged.entries if is_used.all() else merged.entries.take(pa.array(np.flatnonzero(is_used)))

    def _codec(self, piece: _Piece, leaf: int) -> _Codec:
        return _Codec(piece.inputs[leaf].chunk.compression, self._zstd_level, self._columns[leaf])

    def _splice_small(self, group: _Group, leaf: int, merged: MergedDictionary | None) -> SplicedChunk:
        """Splice a column; if it grows, the other way too, for the smaller one.

        Codecs compare bytes: they may find nothing in codes of 15 bits that they find in codes of 12 or 16.
        """
        chunk = self._splice(group, leaf, merged)
        stored_bytes = sum(len(piece.data[leaf]) for piece in group.pieces)
        if merged is None or chunk.codec == "UNCOMPRESSED":
            return chunk
        if chunk.size_bytes * 100 <= (100 + _MAX_GROWTH_PCT) * stored_bytes:
            return chunk
        other = self._splice(group, leaf, merged, in_bytes=True)
        return min(chunk, other, key=lambda one: one.size_bytes)

    def _splice(
        self, group: _Group, leaf: int, merged: MergedDictionary | None, *, in_bytes: bool = False
    ) -> SplicedChunk:
        column = self._columns[leaf]
        codec = self._codec(group.pieces[0], leaf)
        chunk = SplicedChunk(column, codec.name, MergedStatistics(column))
        last_coded = -1
        if merged is not None:
            last_coded = max(at for at, piece in enumerate(group.pieces) if piece.orders[leaf].startswith("D"))
            first = next(page for page in (piece.dictionaries[leaf] for piece in group.pieces) if page is not None)
            body = codec.compress(merged.plain)
            header = dictionary_page(
                merged.plain, body, entries=len(merged.entries), encoding=first.encoding, has_crc=first.crc is not None
            )
            chunk.put_dictionary(header, body, plain_bytes=len(merged.plain), encoding=first.encoding)
        if merged is None and any(piece.dictionaries[leaf] is not None for piece in group.pieces):
            chunk.is_copied = False  # a dictionary that no page uses is left out, so the bytes are not the same
        for at, piece in enumerate(group.pieces):
            with blame_file(piece.path, "has a broken data page"):
                if piece.orders[leaf] == _NULLS:
                    codec.put_nulls(chunk, piece, leaf, bits=merged.bits if merged and at <= last_coded else None)
                elif merged is None or piece.orders[leaf] == _ONLY_PLAIN:
                    chunk.put_copies(piece.data[leaf], piece.pages[leaf])
                else:
                    codec.put_codes(chunk, piece, leaf, merged=merged, at=at, in_bytes=in_bytes)
                holds_nan = codec.holds_nan(piece, leaf)
            chunk.add_input(piece.inputs[leaf], piece.pages[leaf], rows=piece.rows, holds_nan=holds_nan)
        return chunk


def _halves(group: _Group) -> tuple[_Group, _Group]:
    """Cut a row group where about half of its rows are."""
    if len(group.pieces) == 1:
        raise CannotSpliceError("a row group is too big when it is decoded")
    first, second = _Group(), _Group()
    for at, piece in enumerate(group.pieces):
        is_last = at == len(group.pieces) - 1
        in_first = not is_last and not second.pieces and (not first.pieces or 2 * first.rows < group.rows)
        (first if in_first else second).add(piece)
    return first, second


@dataclass(frozen=True, slots=True)
class _Growth:
    """What one dictionary for all pieces of a column changes, before compression."""

    grown_bytes: int  # of dictionary and codes
    is_plain_smaller: bool  # than dictionary and codes


def _estimate_growth(group: _Group, leaf: int, merged: MergedDictionary) -> _Growth:
    grown_bytes, code_bytes, plain_bytes = len(merged.plain), 0, 0
    for at, piece in enumerate(group.pieces):
        page = piece.dictionaries[leaf]
        if page is not None and page.values:
            values = _count_codes(piece, leaf)
            old_bits = (page.values - 1).bit_length()
            bits = merged.bits_of(at)
            grown_bytes += _estimate_longer_codes(piece, leaf, values=values, old_bits=old_bits, bits=bits)
            grown_bytes -= page.plain_bytes
            code_bytes += values * bits // 8
            plain_bytes += values * page.plain_bytes // page.values
    return _Growth(grown_bytes, plain_bytes < len(merged.plain) + code_bytes)


def _estimate_longer_codes(piece: _Piece, leaf: int, *, values: int, old_bits: int, bits: int) -> int:
    """How many bytes more codes take: as packed ones, or as runs of one code, which are as long as their pages."""
    stored_bytes = sum(page.plain_bytes for page in piece.pages[leaf] if page.is_coded)
    ratio = max(bits / max(1, old_bits), _whole_bytes(bits) / max(1, _whole_bytes(old_bits)))
    return min(values * (bits - old_bits) // 8, int(stored_bytes * (ratio - 1)))


def _whole_bytes(bits: int) -> int:
    return (bits + 7) // 8


def _count_codes(piece: _Piece, leaf: int) -> int:
    """About how many codes a chunk has: nulls have none, and the footer counts them for the whole chunk."""
    found = piece.inputs[leaf]
    coded = sum(page.values for page in piece.pages[leaf] if page.is_coded)
    return coded * (found.values - (found.null_count() or 0)) // max(1, found.values)


def _why_encoded(group: _Group, leaf: int) -> str:
    found = {piece.orders[leaf] for piece in group.pieces}
    if not any(piece.pages[leaf] for piece in group.pieces):
        return "its codec, encoding or pages do not allow it"
    if _ENCODE in found:
        return "its pages are in an order or have levels that cannot be kept"
    return "a page with codes would follow a plain one"


def _has_bloom_filter(group: _Group, leaf: int) -> list[bool]:
    return [piece.inputs[leaf].has_bloom_filter for piece in group.pieces]


def _bloom_filter(entries: pa.Array) -> bytes:
    """Let PyArrow make the bloom filter of some values; it depends on nothing but their bytes."""
    sink = pa.BufferOutputStream()
    options = {"x": {"ndv": max(1, len(entries)), "fpp": _BLOOM_FPP}}
    pq.write_table(
        pa.table({"x": entries}), sink, use_dictionary=False, compression="none", store_schema=False,
        bloom_filter_options=options, row_group_size=max(1, len(entries)),
    )  # fmt: skip
    data = sink.getvalue()
    chunk = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0)
    begin = chunk.bloom_filter_offset
    return bytes(memoryview(data)[begin : begin + chunk.bloom_filter_length])


# ---- pages ----


class _Codec:
    """Opens and writes the pages of one column."""

    def __init__(self, name: str, zstd_level: int | None, column: pq.ColumnSchema) -> None:
        self.name, self._column = name, column
        level = zstd_level if name == "ZSTD" else _LEVELS.get(name)
        self._codec = None if name == "UNCOMPRESSED" else pa.Codec(_CODEC_NAMES[name], compression_level=level)

    def compress(self, data: bytes) -> bytes:
        """The bytes as they are stored."""
        return data if self._codec is None else self._codec.compress(data, asbytes=True)

    def open(self, page: Page, data: memoryview) -> tuple[bytes, int]:
        """Decompress a page; return its levels and values, and where the values begin."""
        body = data[page.body : page.end]
        if page.crc is not None and (checksum(body) ^ page.crc) & 0xFFFFFFFF:
            raise ValueError("a page does not match its checksum")
        levels_bytes = page.definition_bytes + page.repetition_bytes
        if page.kind == DATA_PAGE_V2:
            plain_bytes = page.plain_bytes - levels_bytes
            values = self._decompress(body[levels_bytes:], plain_bytes, is_compressed=page.is_compressed)
            return bytes(body[:levels_bytes]) + values, levels_bytes
        plain = self._decompress(body, page.plain_bytes, is_compressed=True)
        return plain, self._end_of_levels(plain)[-1] if page.kind == DATA_PAGE else 0

    def _decompress(self, body: memoryview, plain_bytes: int, *, is_compressed: bool) -> bytes:
        if self._codec is None or not is_compressed:
            return bytes(body)
        return self._codec.decompress(body, plain_bytes, asbytes=True) if plain_bytes else b""

    def _end_of_levels(self, plain: bytes) -> tuple[int, int]:
        """Where the repetition levels end and where the definition levels end, in a page of version 1."""
        repetition = 4 + int.from_bytes(plain[:4], "little") if self._column.max_repetition_level else 0
        definition = repetition
        if self._column.max_definition_level:
            definition += 4 + int.from_bytes(plain[repetition : repetition + 4], "little")
        if definition > len(plain):
            raise ValueError("a page ends within its levels")
        return repetition, definition

    def put_codes(
        self, chunk: SplicedChunk, piece: _Piece, leaf: int, *, merged: MergedDictionary, at: int, in_bytes: bool
    ) -> None:
        """Append pages with codes, of whole bytes if requested, and plain ones that follow them."""
        new, data = merged.codes[at], piece.data[leaf]
        # Each page states the width of its codes, which need not be that of the whole dictionary.
        bits = 8 * _whole_bytes(merged.bits_of(at)) if in_bytes else merged.bits_of(at)
        # Only if the dictionary does not grow: a code beyond its end must stay one.
        keeps_codes = len(new) == len(merged.entries) and bool((new[1:] > new[:-1]).all())
        for page in piece.pages[leaf]:
            if not page.is_coded:
                chunk.put_copies(data, [page])
                continue
            plain, begin = self.open(page, data)
            if begin == len(plain) or keeps_codes:
                chunk.put_copies(data, [page])
                continue
            count = self._value_counter(page, plain)
            self._put(chunk, page, data, plain=recode(plain, begin, new, bits=bits, count=count), begin=begin)

    def find_codes(self, page: Page, data: memoryview) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """The different codes of a page with codes."""
        plain, begin = self.open(page, data)
        if begin == len(plain):
            return np.empty(0, np.uint64)
        return find_codes(plain, begin, count=self._value_counter(page, plain)())

    def put_nulls(self, chunk: SplicedChunk, piece: _Piece, leaf: int, *, bits: int | None) -> None:
        """Append pages of nothing but nulls, as pages with codes of some width or as plain ones."""
        data = piece.data[leaf]
        for page in piece.pages[leaf]:
            if bits is None and not page.is_coded:
                chunk.put_copies(data, [page])
                continue
            plain, begin = self.open(page, data)
            # An encoding may store a header where it has no values, as the deltas do.
            if begin < len(plain) and self._value_counter(page, plain)():
                raise CannotSpliceError(f"a page of {self._column.path} holds values, and its footer says only nulls")
            codes = b"" if bits is None else bytes((bits,))
            self._put(chunk, page, data, plain=plain[:begin] + codes, begin=begin, is_coded=bits is not None)

    def _put(
        self, chunk: SplicedChunk, page: Page, data: memoryview, *, plain: bytes, begin: int, is_coded: bool = True
    ) -> None:
        encoding = page.encoding
        if is_coded != page.is_coded:
            coded = RLE_DICTIONARY if page.kind == DATA_PAGE_V2 else PLAIN_DICTIONARY
            encoding = coded if is_coded else _PLAIN
        if page.kind == DATA_PAGE_V2:
            is_compressed = page.is_compressed and begin < len(plain)
            body = plain[:begin] + (self.compress(plain[begin:]) if is_compressed else plain[begin:])
            page = replace(page, is_compressed=is_compressed)
        else:
            body = self.compress(plain)
        header = page_header(page, data, plain_bytes=len(plain), body=body, encoding=encoding)
        chunk.put_page(page, header, body, plain_bytes=len(plain), encoding=encoding)

    def _value_counter(self, page: Page, plain: bytes) -> Callable[[], int]:
        """A function that counts the values of a page that are not null."""
        highest = self._column.max_definition_level

        def count() -> int:
            if page.kind == DATA_PAGE_V2 or not highest:
                return page.values - page.nulls
            begin, end = self._end_of_levels(plain)
            return count_level(plain[begin + 4 : end], highest, bits=highest.bit_length(), values=page.values)

        return count

    def holds_nan(self, piece: _Piece, leaf: int) -> bool:
        """Whether bounds of a chunk ignore a NaN, which no footer says; True also if that cannot be found out."""
        kind, statistics = _FLOATS.get(self._column.physical_type), piece.inputs[leaf].statistics
        if kind is None or statistics is None or not statistics.has_min_max:
            return False
        data, width = piece.data[leaf], _WIDTHS[self._column.physical_type]
        dictionary = piece.dictionaries[leaf]
        if dictionary is not None and _has_nan(self.open(dictionary, data)[0], kind):
            return True
        for page in piece.pages[leaf]:
            if page.is_coded:
                continue
            if page.encoding not in (_PLAIN, _BYTE_STREAM_SPLIT):
                return True
            plain, begin = self.open(page, data)
            values = plain[begin:]
            if page.encoding == _BYTE_STREAM_SPLIT:
                values = np.frombuffer(values, np.uint8).reshape(width, -1).T.tobytes()
            if _has_nan(values, kind):
                return True
        return False


def _has_nan(values: bytes, kind: str) -> bool:
    return bool(np.isnan(np.frombuffer(values, kind)).any())


# ---- columns that are encoded again ----


class _Encoder:
    """Decodes fields of row groups and lets PyArrow encode them again."""

    def __init__(self, io: FileIO, paths: Sequence[str]) -> None:
        self._io, self._paths = io, paths
        self._settings: dict[tuple[str, ...], WriterSettings] = {}  # by fields
        self._options: dict[str, Any] = {}
        self._row_bytes = 0

    def encode(self, group: _Group, fields: tuple[str, ...]) -> Iterator[EncodedChunk]:
        """The column chunks of some fields; _TooBigError if they take too much memory."""
        if not fields:
            return iter(())
        first = group.pieces[0]
        settings = self._open_settings(first, fields)
        if any(page.crc is not None for pages in first.pages for page in pages):
            settings = replace(settings, options={**settings.options, "write_page_checksum": True})
        batches, bounds, size_bytes = [], InputBounds(), 0
        for piece in group.pieces:
            with open_parquet(self._io, piece.path, **self._options) as file:
                floats = [leaf for leaf in float_leaves(file.schema_arrow) if field_of(file, leaf) in fields]
                bounds |= read_input_bounds(piece.group, floats)
                self._row_bytes = decoded_row_bytes(self._io, file, piece.path, known=self._row_bytes)
                batch_rows = batch_rows_for(max(1, self._row_bytes))
                for found in read_batches(
                    file, piece.path, batch_rows=batch_rows, columns=list(fields), row_groups=(piece.number,)
                ):
                    batch = settings.decode(found)
                    batches.append(batch)
                    size_bytes += batch.nbytes
                    if size_bytes > ROW_GROUP_BYTES:
                        raise _TooBigError
        sink = pa.BufferOutputStream()
        rows = pa.Table.from_batches(batches)
        writer = settings.open_writer(sink, rows)
        writer.write(rows, inputs=bounds)
        writer.close()
        has_index = bool(first.inputs and _INDEXES[0][0] in first.inputs[0].indexes)
        return iter(read_encoded(memoryview(sink.getvalue()).cast("B"), has_index=has_index))

    def _open_settings(self, first: _Piece, fields: tuple[str, ...]) -> WriterSettings:
        if not self._options:
            with open_parquet(self._io, first.path) as file:
                if any(path.split(".", 1)[0] in fields for path in int96_columns(file)):
                    self._options = {"coerce_int96_timestamp_unit": find_int96_unit(self._io, self._paths)}
                    self._settings.clear()
        if fields not in self._settings:
            with open_parquet(self._io, first.path, **self._options) as file:
                self._settings[fields] = self._find_settings(file, fields)
        return self._settings[fields]

    def _find_settings(self, file: pq.ParquetFile, fields: tuple[str, ...]) -> WriterSettings:
        try:
            return find_writer_settings(file, codec="keep", files=len(self._paths)).of_fields(fields)
        except UnfaithfulError:  # fields that are copied need not be written
            return find_writer_settings(file, codec="keep", files=len(self._paths), fields=fields).of_fields(fields)
