"""Compare what a merged Parquet file states about its rows with what its inputs state, and with its own pages.

No proof of rows sees a wrong statistic, and a wrong statistic loses rows in queries: a reader skips a row group, or a
page, by its bounds, and finds a page by the page index. So everything that readers trust is checked, from footers and
indexes that are parsed here and not by the code that wrote them:

==============================  =======================================================================================
stated by the output            must be
==============================  =======================================================================================
null count of a chunk           the sum over the row groups that it is made of
bounds of a chunk               the least and the greatest of theirs
values, sizes, places           those of the pages, whose headers are walked
encodings and their counts      those of the pages; no page with codes after one without (see ``parquet_splice``)
codec of a spliced chunk        that of the inputs
offset index                    the pages: places, sizes, first rows
column index                    nulls and bounds of each page as its input states them; the order that it claims
size statistics                 sums of the inputs' statistics
bloom filter                    exactly the bits of the values; one must be there if all inputs have one
==============================  =======================================================================================

Inputs are trusted: a bound that was wrong before stays wrong. What does not follow from the inputs (they state less,
or the column was encoded again in other pages) must be true of the values of the output, which are then decoded. A
statement that is missing is never wrong, except a bloom filter's.

A row group of a spliced file is made of whole row groups of the inputs, so their statements add up.

Cost: about 60 µs for each column chunk of an input.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import PackstoneError, UnreadableFileError, VerificationError
from packstone.rewrite.blame_file import blame_file, one_line
from packstone.rewrite.formats.parquet_checks import check_footer
from packstone.rewrite.formats.parquet_footer import open_stored_values
from packstone.rewrite.formats.parquet_scan import scan_file
from packstone.rewrite.formats.parquet_thrift import STRUCT, Struct, read_struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow.parquet as pq

    from packstone.rewrite.formats.parquet_scan import GroupPlace
    from packstone.storage.fileio import FileIO

# Fields in parquet.thrift. FileMetaData, RowGroup, ColumnChunk
_SCHEMA, _NUM_ROWS, _ROW_GROUPS = 2, 3, 4
_COLUMNS, _GROUP_BYTES, _GROUP_ROWS, _SORTING, _GROUP_OFFSET, _GROUP_STORED = 1, 2, 3, 4, 5, 6
_META_DATA, _OFFSET_INDEX, _COLUMN_INDEX = 3, 4, 6  # each index: its offset, and its length in the next field
# ColumnMetaData
_ENCODINGS, _CODEC, _VALUES, _PLAIN_BYTES, _STORED_BYTES, _DATA_OFFSET, _DICTIONARY_OFFSET = 2, 4, 5, 6, 7, 9, 11
_STATISTICS, _COUNTS, _BLOOM_OFFSET, _BLOOM_BYTES, _SIZES = 12, 13, 14, 15, 16
# Statistics: the older fields of bounds come last, they are of use for signed orders only
_NULLS, _DISTINCT, _BOUNDS, _NEW_BOUNDS = 3, 4, ((6, 2), (5, 1)), (6, 5)
# PageHeader
_DATA_V1, _DICTIONARY_PAGE, _DATA_V2 = 0, 2, 3
_DETAILS: Final = {_DATA_V1: 5, _DICTIONARY_PAGE: 7, _DATA_V2: 8}
_ENCODING_IN: Final = {_DATA_V1: 2, _DICTIONARY_PAGE: 2, _DATA_V2: 4}
_CODED: Final = frozenset({2, 8})  # PLAIN_DICTIONARY, RLE_DICTIONARY
_OF_LEVELS: Final = frozenset({3, 4})  # RLE, BIT_PACKED
_ASCENDING, _DESCENDING = 1, 2
# Physical types
_BOOLEAN, _INT32, _INT64, _INT96, _FLOAT, _DOUBLE, _BYTES, _FIXED = range(8)
_FORMATS: Final = {_BOOLEAN: "<?", _INT32: "<i", _INT64: "<q", _FLOAT: "<f", _DOUBLE: "<d"}
_FLOATS: Final = frozenset({_FLOAT, _DOUBLE})
_CODEC_NAMES: Final = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_TAIL_BYTES: Final = 8
_STATED_BYTES: Final = 4096  # PyArrow states no longer bounds, but the shorter one of two
# Of the values that are hashed at once, which fit the cache.
_GATHERED_BYTES: Final = 1 << 18
_HASHED_ROWS: Final = 1 << 14


def check_statistics(io: FileIO, inputs: Sequence[str], output: str) -> None:
    """Raise VerificationError, with the column, if the output states anything that is not true.

    An error that is neither about the output nor about an input becomes a PackstoneError that says what could not be
    checked: the unit fails and is not published, the others are.
    """
    try:
        with _unchecked("the merged file"), _File(io, output) as written:
            pieces = [piece for path in inputs for piece in _read_pieces(io, path, written.leaves) if piece.rows]
            _check_file(written, pieces)
    except _WrongError as error:
        raise VerificationError(f"The merged file states what is not so: {error}.", file=output) from error
    except UnreadableFileError as error:
        if error.facts.get("file") != output:
            raise
        raise VerificationError(f"The output cannot be read back: {error.message}", file=output) from error


class _WrongError(Exception):
    """A statement that is not true."""


class _UncheckedError(PackstoneError):
    """A statement that could not be checked, because of a type or an encoding that was not thought of."""


@contextmanager
def _unchecked(what: str) -> Iterator[None]:
    """Convert errors that nothing here expects."""
    try:
        yield
    except (_WrongError, PackstoneError, OSError, MemoryError):
        raise
    except Exception as error:
        raise _UncheckedError(
            f"What {what} states could not be checked ({type(error).__name__}: {one_line(error)}), so the files are "
            "left as they are; set --codec to encode them again, and please report this as a bug."
        ) from error


# ---- what files state ----


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf column of the schema."""

    name: str
    path: str
    kind: int
    width_bytes: int
    definition: int
    repetition: int
    key: Callable[[bytes], Any] | None  # makes bounds comparable; None: the order is not known
    is_signed: bool


class _File:
    """The footer of a file."""

    def __init__(self, io: FileIO, path: str) -> None:
        self.io, self.path = io, path
        with blame_file(path, "cannot be read"):
            self.source: Any = io.open_input(path)
            check_footer(self.source, path)
            size_bytes = self.source.size()
            length = int.from_bytes(self.source.read_at(4, size_bytes - _TAIL_BYTES), "little")
            self.footer, _ = read_struct(self.source.read_at(length, size_bytes - _TAIL_BYTES - length))
        self.leaves = self._read_leaves()
        self.groups = [_Group(self, number, group) for number, group in enumerate(_items(self.footer, _ROW_GROUPS))]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.source.close()
        self.groups.clear()  # they refer to the file, and a cycle would wait for the garbage collector

    def _read_leaves(self) -> list[_Leaf]:
        """List the columns; a footer lists the schema tree depth first."""
        elements = iter(_items(self.footer, _SCHEMA))
        leaves: list[_Leaf] = []

        def descend(children: int, path: tuple[str, ...], levels: tuple[int, int]) -> None:
            for _ in range(children):
                element = next(elements)
                name = element[4][1].decode()
                repeats = _number(element, 3)
                found = levels[0] + (repeats != 0), levels[1] + (repeats == 2)
                if below := _number(element, 5):
                    descend(below, (*path, name), found)
                else:
                    key, is_signed = _order(element)
                    leaf = ".".join((*path, name))
                    leaves.append(_Leaf(name, leaf, _number(element, 1), _number(element, 2), *found, key, is_signed))

        descend(_number(next(elements), 5), (), (0, 0))
        return leaves

    @cached_property
    def stored_values(self) -> pq.ParquetFile:
        """A reader of the values as they are stored, which converts none to what its column means."""
        return open_stored_values(self.source, self.path)

    def read_index(self, chunk: Struct, field: int) -> Struct | None:
        """Read an offset index or a column index; None if there is none."""
        return _read_index(self.source, self.path, chunk, field=field)


def _read_index(source: Any, path: str, chunk: Struct, *, field: int) -> Struct | None:
    if field not in chunk:
        return None
    with blame_file(path, "has a broken page index"):
        data = source.read_at(chunk[field + 1][1], chunk[field][1])
        index, end = read_struct(data)
    if end != len(data):
        raise _WrongError("a page index has another length than the footer says")
    return index


class _Group:
    """A row group."""

    def __init__(self, file: _File, number: int, group: Struct) -> None:
        self.file, self.number, self.struct = file, number, group
        self.rows = _number(group, _GROUP_ROWS)
        self.chunks = [_Chunk(self, leaf, chunk) for leaf, chunk in enumerate(_items(group, _COLUMNS))]


class _Chunk:
    """A column chunk: the statements of its footer and, if they are needed, those of its page index."""

    __slots__ = ("group", "leaf_number", "metadata", "nulls", "struct", "values")

    def __init__(self, group: _Group, leaf: int, chunk: Struct) -> None:
        self.group, self.leaf_number, self.struct = group, leaf, chunk
        self.metadata: Struct = chunk[_META_DATA][1]
        self.values = _number(self.metadata, _VALUES)
        self.nulls: int | None = self.statistics.get(_NULLS, (0, None))[1]

    @property
    def leaf(self) -> _Leaf:
        """The column of the schema."""
        return self.group.file.leaves[self.leaf_number]

    @property
    def sizes(self) -> Struct:
        """The size statistics; empty if there are none."""
        found: Struct = self.metadata.get(_SIZES, (0, {}))[1]
        return found

    @property
    def statistics(self) -> Struct:
        """The statistics; empty if there are none."""
        found: Struct = self.metadata.get(_STATISTICS, (0, {}))[1]
        return found

    def bounds(self) -> tuple[bytes, bytes] | None:
        """The least and the greatest value, if both are stated in a way that readers of today trust."""
        return _bounds_of(self.statistics, is_signed=self.leaf.is_signed)


def _bounds_of(statistics: Struct, *, is_signed: bool) -> tuple[bytes, bytes] | None:
    for low, high in zip(*_BOUNDS, strict=True) if is_signed else (_NEW_BOUNDS,):
        if low in statistics and high in statistics:
            return statistics[low][1], statistics[high][1]
    return None


@dataclass(frozen=True, slots=True)
class _Piece:
    """What an input states about one of its row groups: all that is kept of its footer."""

    rows: int
    path: str
    number: int
    chunks: tuple[_ChunkFacts, ...]


@dataclass(frozen=True, slots=True)
class _ChunkFacts:
    """What an input states about a column chunk; None for what it does not state."""

    rows: int
    values: int
    codec: int
    has_bloom_filter: bool
    nulls: int | None
    bounds: tuple[bytes, bytes] | None
    sizes: tuple[int | None, tuple[int, ...] | None, tuple[int, ...] | None]
    pages: tuple[_PageFacts, ...] | None


def _read_pieces(io: FileIO, path: str, leaves: list[_Leaf]) -> list[_Piece]:
    """Read the footer of an input, whose schema is that of the output, and the page indexes if they are needed."""
    with blame_file(path, "cannot be read"), io.open_input(path) as source:
        return [
            _Piece(
                group.rows,
                path,
                number,
                tuple(_facts_of(source, path, group, number=at, leaf=leaf) for at, leaf in enumerate(leaves)),
            )
            for number, group in enumerate(scan_file(io, path).groups)
        ]


def _facts_of(source: Any, path: str, group: GroupPlace, *, number: int, leaf: _Leaf) -> _ChunkFacts:
    chunks = group.chunks
    statistics, sizes = chunks.read_statistics(number), _sizes_of(chunks.read_sizes(number))
    nulls, bounds = statistics.get(_NULLS, (0, None))[1], _bounds_of(statistics, is_signed=leaf.is_signed)
    if chunks.data_pages(number) == 1:
        pages: tuple[_PageFacts, ...] | None = (_PageFacts(0, nulls, bounds, *sizes),)
    else:
        pages = _pages_of_index(source, path, chunks.read_indexes(number))
    return _ChunkFacts(
        group.rows, chunks.values[number], chunks.codec(number), bool(chunks.blooms[number]),
        nulls, bounds, sizes, pages,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _PageFacts:
    """What is stated about a page; None for what is not."""

    first_row: int
    nulls: int | None
    bounds: tuple[bytes, bytes] | None
    unencoded_bytes: int | None
    repetition: tuple[int, ...] | None
    definition: tuple[int, ...] | None

    def moved(self, rows: int) -> _PageFacts:
        """The same page behind some more rows."""
        return _PageFacts(
            self.first_row + rows, self.nulls, self.bounds, self.unencoded_bytes, self.repetition, self.definition
        )


def _pages_of_index(source: Any, path: str, chunk: Struct) -> tuple[_PageFacts, ...] | None:
    places = _read_index(source, path, chunk, field=_OFFSET_INDEX)
    if places is None:
        return None
    count = len(_items(places, 1))
    index = _read_index(source, path, chunk, field=_COLUMN_INDEX) or {}
    lows, highs, nulls, unencoded = (_list(index, 2), _list(index, 3), _list(index, 5), _list(places, 2))
    levels = [_split(_list(index, field), count) for field in (6, 7)]
    is_null = _list(index, 1)
    return tuple(
        _PageFacts(
            _number(place, 3),
            nulls[at] if nulls else None,
            (lows[at], highs[at]) if lows and not is_null[at] else None,
            unencoded[at] if unencoded else None,
            levels[0][at] if levels[0] else None,
            levels[1][at] if levels[1] else None,
        )
        for at, place in enumerate(_items(places, 1))
    )


def _split(counts: list[int], pages: int) -> list[tuple[int, ...]]:
    size = len(counts) // max(1, pages)
    return [tuple(counts[at * size : (at + 1) * size]) for at in range(pages)] if size else []


def _sizes_of(sizes: Struct) -> tuple[int | None, tuple[int, ...] | None, tuple[int, ...] | None]:
    unencoded = sizes.get(1, (0, None))[1]
    return unencoded, tuple(_list(sizes, 2)) or None, tuple(_list(sizes, 3)) or None


def _number(found: Struct, field: int) -> int:
    number: int = found.get(field, (0, 0))[1]
    return number


def _items(found: Struct, field: int) -> list[Struct]:
    return _list(found, field)


def _list(found: Struct, field: int) -> list[Any]:
    items: list[Any] = found[field][1].items if field in found else []
    return items


# ---- order of values ----

_DECIMAL, _INTERVAL, _UNSIGNED = 5, 21, range(11, 15)  # converted types
_LOGICAL_DECIMAL, _LOGICAL_INTEGER, _LOGICAL_FLOAT16 = 5, 10, 15


def _order(element: Struct) -> tuple[Callable[[bytes], Any] | None, bool]:
    """Return how bounds of a column compare, and whether that is an order that older writers knew too."""
    kind, converted = _number(element, 1), _number(element, 6) if 6 in element else -1
    logical: Struct = element.get(10, (0, {}))[1]
    if kind == _INT96 or converted == _INTERVAL:
        return None, False
    if kind in (_INT32, _INT64):
        integer: Struct = logical.get(_LOGICAL_INTEGER, (0, {}))[1]
        is_unsigned = converted in _UNSIGNED or (bool(integer) and not integer[2][1])
        form = _FORMATS[kind].upper() if is_unsigned else _FORMATS[kind]
        return (lambda raw: struct.unpack(form, raw)[0]), not is_unsigned
    if kind in _FORMATS:
        return (lambda raw: struct.unpack(_FORMATS[kind], raw)[0]), True
    if converted == _DECIMAL or _LOGICAL_DECIMAL in logical:
        return (lambda raw: int.from_bytes(raw, "big", signed=True)), False
    if _LOGICAL_FLOAT16 in logical:
        return (lambda raw: struct.unpack("<e", raw)[0]), False
    return (lambda raw: raw), False


# ---- the checks ----


def _check_file(written: _File, pieces: list[_Piece]) -> None:
    if _number(written.footer, _NUM_ROWS) != sum(piece.rows for piece in pieces):
        raise _WrongError("the number of rows is not that of the inputs")
    at = 0
    for group in written.groups:
        mine, rows = [], 0
        while at < len(pieces) and rows < group.rows:
            mine.append(pieces[at])
            rows += pieces[at].rows
            at += 1
        if rows != group.rows:
            raise _WrongError("a row group is not made of whole row groups")
        _check_group(group, mine)


def _check_group(group: _Group, pieces: list[_Piece]) -> None:
    sorting = group.struct.get(_SORTING)
    if sorting is not None and any(_sorting_of(group.file.io, piece) != sorting for piece in pieces):
        raise _WrongError("a row group claims a sort order that its inputs do not claim")
    places = [_number(chunk.metadata, _STORED_BYTES) for chunk in group.chunks]
    if _GROUP_STORED in group.struct and _number(group.struct, _GROUP_STORED) != sum(places):
        raise _WrongError("a row group has another size than its columns")
    if _number(group.struct, _GROUP_BYTES) != sum(_number(chunk.metadata, _PLAIN_BYTES) for chunk in group.chunks):
        raise _WrongError("a row group has another uncompressed size than its columns")
    if group.struct.get(_GROUP_OFFSET, (0, 0))[1] not in (0, min(map(_begin, group.chunks), default=0)):
        raise _WrongError("a row group does not begin where its first column does")
    for leaf, chunk in enumerate(group.chunks):
        try:
            with _unchecked(f"the column {chunk.leaf.path} of the merged file"):
                _ChunkCheck(chunk, [piece.chunks[leaf] for piece in pieces]).run()
        except _WrongError as error:
            raise _WrongError(f"{chunk.leaf.path}: {error}") from error


def _sorting_of(io: FileIO, piece: _Piece) -> Any:
    with _File(io, piece.path) as file:
        return file.groups[piece.number].struct.get(_SORTING)


def _begin(chunk: _Chunk) -> int:
    return _number(chunk.metadata, _DICTIONARY_OFFSET) or _number(chunk.metadata, _DATA_OFFSET)


class _ChunkCheck:
    """Checks one column chunk of the output against the chunks of the inputs that it is made of."""

    def __init__(self, chunk: _Chunk, inputs: list[_ChunkFacts]) -> None:
        self._chunk, self._inputs = chunk, inputs
        self._leaf = chunk.leaf
        self._pages: list[_Page] = []

    def run(self) -> None:
        """Check everything."""
        chunk, inputs = self._chunk, self._inputs
        if chunk.values != sum(found.values for found in inputs):
            raise _WrongError("the number of values is not that of the inputs")
        if any(found.codec != _number(chunk.metadata, _CODEC) for found in inputs):
            raise _WrongError("the codec is not that of the inputs")
        self._check_pages()
        self._check_statistics()
        self._check_sizes()
        self._check_index()
        self._check_bloom_filter()

    # -- pages --

    def _check_pages(self) -> None:
        """Walk the headers of the pages and compare them with the footer."""
        metadata = self._chunk.metadata
        begin = _begin(self._chunk)
        stored = _number(metadata, _STORED_BYTES)
        source = self._chunk.group.file.source
        with blame_file(self._chunk.group.file.path, "has a broken data page"):
            found = _walk(source.read_at(stored, begin), begin)
        dictionaries = [page for page in found if page.kind == _DICTIONARY_PAGE]
        self._pages = [page for page in found if page.kind != _DICTIONARY_PAGE]
        if [page.begin for page in dictionaries] != [
            at for at in [_number(metadata, _DICTIONARY_OFFSET)] if at or dictionaries
        ]:
            raise _WrongError("the dictionary is not where the footer says")
        if self._pages and self._pages[0].begin != _number(metadata, _DATA_OFFSET):
            raise _WrongError("the first data page is not where the footer says")
        if sum(page.values for page in self._pages) != self._chunk.values:
            raise _WrongError("the pages hold another number of values than the footer says")
        if sum(page.plain_bytes for page in found) != _number(metadata, _PLAIN_BYTES):
            raise _WrongError("the pages have another uncompressed size than the footer says")
        self._check_encodings(found)

    def _check_encodings(self, found: list[_Page]) -> None:
        metadata = self._chunk.metadata
        used = {page.encoding for page in found}
        listed = set(_list(metadata, _ENCODINGS))
        if not used <= listed or listed - used - _OF_LEVELS:
            raise _WrongError("the encodings are not those of the pages")
        counts = Counter((page.kind, page.encoding) for page in found)
        stated = {(_number(item, 1), _number(item, 2)): _number(item, 3) for item in _items(metadata, _COUNTS)}
        if _COUNTS in metadata and stated != counts:
            raise _WrongError("the numbers of pages by encoding are not those of the pages")
        is_coded = [page.encoding in _CODED for page in self._pages]
        if any(later and not earlier for earlier, later in itertools.pairwise(is_coded)):
            raise _WrongError("a page with codes follows one without, which Spark reads wrongly")

    # -- statistics --

    def _check_statistics(self) -> None:
        chunk, leaf = self._chunk, self._leaf
        stated = chunk.statistics
        if _DISTINCT in stated and len(self._inputs) > 1 and stated[_DISTINCT][1] != self._values.distinct():
            raise _WrongError("the number of distinct values is wrong")
        expected = _sum(found.nulls for found in self._inputs)
        if chunk.nulls is not None and chunk.nulls != expected and chunk.nulls != self._values.nulls():
            raise _WrongError(f"{chunk.nulls} nulls are stated, there are {self._values.nulls()}")
        found = chunk.bounds()
        if any(older in stated and stated[older] != stated.get(newer) for newer, older in _BOUNDS):
            raise _WrongError("the bounds of the older form differ from the others")
        if found is None:
            for at, (newer, _) in enumerate(_BOUNDS):
                if newer in stated:
                    self._check_single_bound(stated[newer][1], at)
            return
        self._check_bounds(found, [_merged_bounds(self._inputs, leaf)], rows=None)

    def _check_single_bound(self, bound: bytes, at: int) -> None:
        """Check the least value (0) or the greatest (1); the other may be missing only if it is too long."""
        actual = self._values.bounds(None) if self._leaf.kind == _BYTES else None
        other = None if actual is None else actual[1 - at]
        if not isinstance(other, bytes) or len(other) <= _STATED_BYTES:
            raise _WrongError("one bound is stated without the other")
        if actual is None or bound != actual[at]:
            raise _WrongError(f"the bound {bound!r} is not that of the values")

    def _check_bounds(
        self, found: tuple[bytes, bytes], known: list[tuple[bytes, bytes] | None], *, rows: tuple[int, int] | None
    ) -> None:
        """Bounds must be those that are known from the inputs, or else those of the values."""
        leaf = self._leaf
        if leaf.key is None:
            raise _WrongError("bounds are stated for a type without an order")
        if leaf.kind in _FLOATS and any(np.isnan(leaf.key(bound)) for bound in found):
            raise _WrongError("a bound is not a number")
        if any(bounds is not None and _same_bounds(found, bounds, leaf) for bounds in known):
            return
        actual = self._values.bounds(rows)
        if actual is None or tuple(map(leaf.key, found)) != actual:
            where = "the values" if rows is None else f"the rows {rows[0]} to {rows[1] - 1}"
            raise _WrongError(f"the bounds {found[0]!r} and {found[1]!r} are not those of {where}")

    def _check_sizes(self) -> None:
        known = [found.sizes for found in self._inputs]
        for at, stated in enumerate(_sizes_of(self._chunk.sizes)):
            if stated is None:
                continue
            parts = [sizes[at] for sizes in known]
            if any(part is None for part in parts):
                expected: Any = self._levels.sizes()[at]
            else:
                expected = sum(parts) if at == 0 else tuple(map(sum, zip(*parts, strict=True)))
            if stated != expected and stated != self._levels.sizes()[at]:
                raise _WrongError(f"the size statistics say {stated}, expected {expected}")

    # -- page index --

    def _check_index(self) -> None:
        chunk, file = self._chunk, self._chunk.group.file
        places, index = (file.read_index(chunk.struct, field) for field in (_OFFSET_INDEX, _COLUMN_INDEX))
        if places is None:
            if index is not None:
                raise _WrongError("a column index has no offset index")
            return
        stated = [(_number(place, 1), _number(place, 2)) for place in _items(places, 1)]
        if stated != [(page.begin, page.size_bytes) for page in self._pages]:
            raise _WrongError("the offset index does not say where the pages are")
        known = self._known_pages()
        starts = self._first_rows(known)
        if [_number(place, 3) for place in _items(places, 1)] != starts:
            raise _WrongError("the offset index does not say which row a page begins with")
        rows = list(itertools.pairwise([*starts, chunk.group.rows]))
        total = _sizes_of(chunk.sizes)[0]
        self._check_page_lists(2, _list(places, 2), [page.unencoded_bytes for page in known], total=total)
        if index is not None:
            self._check_column_index(index, known, rows)

    def _known_pages(self) -> list[_PageFacts]:
        """What the inputs state about the pages of the output, if they are the same pages; else nothing."""
        known: list[_PageFacts] = []
        before = 0
        for found in self._inputs:
            if found.pages is None:
                known = []
                break
            known += [page if not before else page.moved(before) for page in found.pages]
            before += found.rows
        if len(known) != len(self._pages):
            return [_PageFacts(-1, None, None, None, None, None)] * len(self._pages)
        return known

    def _first_rows(self, known: list[_PageFacts]) -> list[int]:
        """The first row of each page: by its header where that says it, by the inputs, or by counting."""
        if not self._leaf.repetition:
            counts = [page.values for page in self._pages]
        elif all(page.rows is not None for page in self._pages):
            counts = [page.rows or 0 for page in self._pages]
        elif all(page.first_row >= 0 for page in known):
            return [page.first_row for page in known]
        else:
            counts = [levels[0] for levels in self._levels.repetition()]
        return [0, *itertools.accumulate(counts[:-1])]

    def _check_page_lists(self, field: int, stated: list[int], known: list[int | None], *, total: int | None) -> None:
        """Check a number for each page: as known from the inputs, else as found in the pages."""
        if not stated:
            return
        if len(stated) != len(known):
            raise _WrongError("a list of the page index is too short or too long")
        if total is not None and sum(stated) != total:
            raise _WrongError("numbers of the page index do not add up to that of the chunk")
        for at, (number, expected) in enumerate(zip(stated, known, strict=True)):
            if number != expected and number != self._levels.page(at, field):
                raise _WrongError(f"the page index says {number} of a page, expected {expected}")

    def _check_column_index(self, index: Struct, known: list[_PageFacts], rows: list[tuple[int, int]]) -> None:
        is_null, lows, highs, nulls = (_list(index, field) for field in (1, 2, 3, 5))
        if any(len(items) != len(known) for items in (is_null, lows, highs)):
            raise _WrongError("a list of the page index is too short or too long")
        self._check_page_lists(5, nulls, [page.nulls for page in known], total=self._chunk.nulls)
        for at, page in enumerate(self._pages):
            only_nulls = self._nulls_of(at, known[at]) == page.values
            if is_null[at] != only_nulls:
                raise _WrongError("the page index is wrong about a page of nulls only")
            if not only_nulls:
                self._check_bounds((lows[at], highs[at]), [known[at].bounds], rows=rows[at])
        self._check_order(index, [at for at, null in enumerate(is_null) if not null])
        for field, of_page, chunk in ((6, "repetition", 1), (7, "definition", 2)):
            stated = _list(index, field)
            if not stated:
                continue
            parts = _split(stated, len(known))
            total = _sizes_of(self._chunk.sizes)[chunk]
            if total is not None and tuple(map(sum, zip(*parts, strict=True))) != total:
                raise _WrongError("the levels of the page index do not add up to those of the chunk")
            for at, part in enumerate(parts):
                expected = getattr(known[at], of_page)
                if part != expected and part != self._levels.histogram(at, of_page):
                    raise _WrongError(f"the page index says {part} about the levels of a page, expected {expected}")

    def _nulls_of(self, at: int, known: _PageFacts) -> int:
        page = self._pages[at]
        for nulls in (page.nulls, known.nulls):
            if nulls is not None:
                return nulls
        return self._levels.page(at, 5)

    def _check_order(self, index: Struct, pages: list[int]) -> None:
        key, claimed = self._leaf.key, _number(index, 4)
        if claimed not in (_ASCENDING, _DESCENDING) or key is None:
            return
        for field in (2, 3):
            bounds = [key(_list(index, field)[at]) for at in pages]
            if bounds != sorted(bounds, reverse=claimed == _DESCENDING):
                raise _WrongError("the pages are not in the order that the page index claims")

    # -- bloom filter --

    def _check_bloom_filter(self) -> None:
        metadata = self._chunk.metadata
        if _BLOOM_OFFSET not in metadata:
            has_filters = [found.has_bloom_filter for found in self._inputs]
            if self._leaf.kind not in {*_FLOATS, _BOOLEAN} and has_filters and all(has_filters):
                raise _WrongError("the bloom filter of the inputs is missing")
            return
        source = self._chunk.group.file.source
        data = source.read_at(_number(metadata, _BLOOM_BYTES) or 64, _number(metadata, _BLOOM_OFFSET))
        with blame_file(self._chunk.group.file.path, "has a broken bloom filter"):
            header, begin = read_struct(data)
        if any(header.get(field) != _BLOOM_KIND for field in _BLOOM_KINDS):
            raise _WrongError("the bloom filter is of an unknown kind")
        size_bytes = _number(header, 1)
        if begin + size_bytes > len(data):
            data = source.read_at(begin + size_bytes, _number(metadata, _BLOOM_OFFSET))
        words = np.frombuffer(data, "<u4", size_bytes // 4, begin).reshape(-1, 8)
        if _number(metadata, _BLOOM_BYTES) not in (0, begin + size_bytes):
            raise _WrongError("the bloom filter has another length than the footer says")
        if not np.array_equal(words, self._values.bloom_filter(len(words))):
            raise _WrongError("the bloom filter is not that of the values")

    # -- decoded, only if needed --

    @cached_property
    def _values(self) -> _Values:
        return _Values(self._chunk)

    @cached_property
    def _levels(self) -> _Levels:
        return _Levels(self._chunk, self._pages, self._values)


def _sum(numbers: Any) -> int | None:
    found = list(numbers)
    return None if None in found else sum(found)


def _merged_bounds(inputs: list[_ChunkFacts], leaf: _Leaf) -> tuple[bytes, bytes] | None:
    """The least and the greatest bound of chunks; None if one with values states none."""
    bounds = [found.bounds for found in inputs if found.nulls != found.values]
    if leaf.key is None or not bounds or None in bounds:
        return None
    key = leaf.key
    known = [found for found in bounds if found is not None]
    return min((low for low, _ in known), key=key), max((high for _, high in known), key=key)


def _same_bounds(found: tuple[bytes, bytes], known: tuple[bytes, bytes], leaf: _Leaf) -> bool:
    """Whether bounds are equal; a zero of floating-point numbers must include both zeros."""
    if leaf.kind not in _FLOATS or leaf.key is None:
        return found == known
    low, high = map(leaf.key, found)
    is_wide = not (low == 0 and np.copysign(1, low) > 0) and not (high == 0 and np.copysign(1, high) < 0)
    return is_wide and (low, high) == tuple(map(leaf.key, known))


# ---- pages ----


@dataclass(frozen=True, slots=True)
class _Page:
    """A page of the output, by its header."""

    begin: int
    body: int
    size_bytes: int
    plain_bytes: int  # with the header, as footers count
    kind: int
    encoding: int
    values: int
    nulls: int | None
    rows: int | None
    details: Struct


def _walk(data: bytes, offset: int) -> list[_Page]:
    """Read the headers of the pages of a chunk, from the first to the end."""
    pages = []
    at = 0
    while at < len(data):
        header, body = read_struct(data, at)
        kind = header[1][1]
        details: Struct = header[_DETAILS[kind]][1]
        end = body + header[3][1]
        is_v2 = kind == _DATA_V2
        pages.append(
            _Page(
                offset + at, offset + body, end - at, body - at + header[2][1], kind, details[_ENCODING_IN[kind]][1],
                details[1][1], details[2][1] if is_v2 else None, details[3][1] if is_v2 else None, details,
            )
        )  # fmt: skip
        at = end
    if at != len(data):
        raise ValueError("the last page is longer than its chunk")
    return pages


class _Levels:
    """The levels of the pages of a chunk, decoded: where inputs do not say what the output states."""

    def __init__(self, chunk: _Chunk, pages: list[_Page], values: _Values) -> None:
        self._chunk, self._pages, self._values = chunk, pages, values
        self._found: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def page(self, at: int, field: int) -> int:
        """The bytes of strings (2, of an offset index) or the nulls (5, of a column index) of a page."""
        if field == 5:
            return sum(self.histogram(at, "definition")[:-1])
        first = (
            sum(levels[0] for levels in self.repetition()[:at])
            if self._chunk.leaf.repetition
            else sum(page.values for page in self._pages[:at])
        )
        rows = self.histogram(at, "repetition")[0] if self._chunk.leaf.repetition else self._pages[at].values
        return self._values.text_bytes((first, first + rows))

    def repetition(self) -> list[tuple[int, ...]]:
        """How often each repetition level occurs in each page."""
        return [self._read(at)[0] for at in range(len(self._pages))]

    def histogram(self, at: int, which: str) -> tuple[int, ...]:
        """How often each level occurs in a page."""
        return self._read(at)[0 if which == "repetition" else 1]

    def sizes(self) -> tuple[int | None, tuple[int, ...], tuple[int, ...]]:
        """The size statistics of the chunk."""
        levels = [self._read(at) for at in range(len(self._pages))]
        sums = [tuple(map(sum, zip(*(found[which] for found in levels), strict=True))) for which in (0, 1)]
        return self._values.text_bytes(None), sums[0], sums[1]

    def _read(self, at: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if at not in self._found:
            self._found[at] = self._decode(self._pages[at])
        return self._found[at]

    def _decode(self, page: _Page) -> tuple[tuple[int, ...], tuple[int, ...]]:
        leaf, source = self._chunk.leaf, self._chunk.group.file.source
        body = source.read_at(page.size_bytes - (page.body - page.begin), page.body)
        highest = leaf.repetition, leaf.definition
        if page.kind == _DATA_V2:
            lengths = page.details[6][1], page.details[5][1]
            parts = [body[: lengths[0]], body[lengths[0] : sum(lengths)]]
        else:
            name = _CODEC_NAMES.get(_number(self._chunk.metadata, _CODEC))
            plain_bytes = page.plain_bytes - (page.body - page.begin)
            plain = body if name is None else pa.Codec(name).decompress(body, plain_bytes, asbytes=True)
            parts, begin = [], 0
            for level in highest:
                size_bytes = int.from_bytes(plain[begin : begin + 4], "little") if level else -4
                parts.append(plain[begin + 4 : begin + 4 + size_bytes] if level else b"")
                begin += 4 + size_bytes
        first, second = (_count_levels(part, level, page.values) for part, level in zip(parts, highest, strict=True))
        return first, second


def _count_levels(data: bytes, highest: int, values: int) -> tuple[int, ...]:
    """Count the levels in runs of repeated and bit-packed levels."""
    if not highest:
        return (values,)
    counts = np.zeros(highest + 1, np.int64)
    bits, at, left = highest.bit_length(), 0, values
    while left > 0:
        head = shift = 0
        while True:
            byte = data[at]
            at += 1
            head |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if head & 1:
            packed = np.frombuffer(data, np.uint8, (head >> 1) * bits, at)
            at += len(packed)
            levels = np.unpackbits(packed, bitorder="little").reshape(-1, bits) @ (1 << np.arange(bits))
            counts += np.bincount(levels[:left], minlength=highest + 1)
            left -= min(left, len(levels))
        else:
            size_bytes = (bits + 7) // 8
            counts[int.from_bytes(data[at : at + size_bytes], "little")] += min(left, head >> 1)
            at += size_bytes
            left -= head >> 1
    return tuple(counts.tolist())


# ---- values ----


class _Values:
    """The values of a column chunk of the output, decoded by PyArrow, as Parquet stores them."""

    def __init__(self, chunk: _Chunk) -> None:
        self._chunk = chunk

    @cached_property
    def _column(self) -> pa.ChunkedArray:
        file, leaf = self._chunk.group.file, self._chunk.leaf
        number = self._chunk.group.number
        try:
            with blame_file(file.path, "has a broken data page"):
                return file.stored_values.read_row_group(number, columns=[leaf.path], use_threads=False).column(0)
        except UnreadableFileError as error:
            if isinstance(error.__cause__, pa.ArrowNotImplementedError):
                raise error.__cause__ from None  # nothing is broken
            raise

    def _present(self, rows: tuple[int, int] | None) -> pa.ChunkedArray:
        """The values of some rows that are not null, without their lists and structs."""
        column = self._column if rows is None else self._column.slice(rows[0], rows[1] - rows[0])
        parts = []
        for part in column.chunks:
            array = part
            while pt.is_nested(array.type) or isinstance(array.type, pa.BaseExtensionType):
                if isinstance(array.type, pa.BaseExtensionType):
                    array = array.storage
                elif pt.is_struct(array.type):
                    array = array.flatten()[0]
                elif pt.is_map(array.type):
                    array = array.cast(pa.list_(array.type.field(0))).flatten()
                else:
                    array = array.flatten()
            parts.append(array.drop_null())
        if not parts:
            raise _WrongError("there are no rows")
        return pa.chunked_array(parts)

    def nulls(self) -> int:
        """The number of levels without a value."""
        return int(self._chunk.values - len(self._present(None)))

    def distinct(self) -> int:
        """The number of different values."""
        return len(self._present(None).unique())

    def text_bytes(self, rows: tuple[int, int] | None) -> int:
        """The sum of the lengths of strings; -1 if there are none."""
        values = self._present(rows)
        if self._chunk.leaf.kind != _BYTES:
            return -1
        return int(pc.sum(pc.binary_length(values)).as_py() or 0)

    def bounds(self, rows: tuple[int, int] | None) -> tuple[Any, Any] | None:
        """The least and the greatest value, comparable to the keys of bounds; None if there is none."""
        key = self._chunk.leaf.key
        if key is None:
            return None
        keys = [key(row.tobytes()) for same in _rows_of_bytes(self._present(rows).unique()) for row in same]
        if not keys or (self._chunk.leaf.kind in _FLOATS and any(map(math.isnan, keys))):
            return None
        return min(keys), max(keys)

    def bloom_filter(self, blocks: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """The bloom filter of the values."""
        values = self._present(None)
        # Values that have a dictionary repeat. Not for floating-point numbers, which may be equal and differ in bits.
        repeats = _DICTIONARY_OFFSET in self._chunk.metadata and self._chunk.leaf.kind not in _FLOATS
        arrays = [values.unique()] if repeats else values.chunks
        return _make_filter((same for array in arrays for same in _rows_of_bytes(array)), blocks)


def _rows_of_bytes(array: pa.Array) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Yield the values as Parquet stores them, those of one size together: one value in each row."""
    if not len(array):
        return
    if pt.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if pt.is_binary(array.type) or pt.is_large_binary(array.type):
        yield from _rows_by_size(array)
    else:
        width = array.type.bit_width // 8
        data = np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width)
        yield data.reshape(len(array), width)


def _rows_by_size(array: pa.Array) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
    _, offsets, values = array.buffers()
    kind = np.int64 if pt.is_large_binary(array.type) else np.int32
    ends = np.frombuffer(offsets, kind, len(array) + 1, array.offset * np.dtype(kind).itemsize).astype(np.int64)
    data = np.frombuffer(values or b"", np.uint8)
    sizes = np.diff(ends)
    for size in np.unique(sizes).tolist():
        begins = ends[:-1][sizes == size]
        step = max(1, _GATHERED_BYTES // max(1, size))
        for at in range(0, len(begins), step):
            yield data[begins[at : at + step, np.newaxis] + np.arange(size)]


# ---- bloom filters ----
# The filter of a chunk has blocks of eight words. The upper half of a value's hash, XXH64 with seed 0 of the value in
# Parquet's plain encoding, selects a block, the lower half a bit in each word.

_BLOOM_KINDS: Final = (2, 3, 4)  # in its header: algorithm, hash and compression, of which one is defined for each
_BLOOM_KIND: Final[tuple[int, Struct]] = STRUCT, {1: (STRUCT, {})}
_SALTS: Final = np.array(
    (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31), dtype=np.uint32
)
_P1, _P2, _P3, _P4, _P5 = map(
    np.uint64,
    (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
)


def _make_filter(
    values: Iterable[np.ndarray[Any, np.dtype[np.uint8]]], blocks: int
) -> np.ndarray[Any, np.dtype[np.uint32]]:
    words = np.zeros((blocks, 8), np.uint32)
    for same in (some[at : at + _HASHED_ROWS] for some in values for at in range(0, len(some), _HASHED_ROWS)):
        hashes = _hash_same_size(same)
        block = ((hashes >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)
        bits = np.uint32(1) << ((hashes.astype(np.uint32)[:, np.newaxis] * _SALTS) >> np.uint32(27))
        np.bitwise_or.at(words, block.astype(np.int64), bits)
    return words


def _hash_same_size(values: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """XXH64 of values of one size."""
    count, size = values.shape
    at = 0
    with np.errstate(over="ignore"):
        if size >= 32:
            lanes = [np.full(count, start) for start in (_P1 + _P2, _P2, np.uint64(0), -_P1)]
            while size - at >= 32:
                lanes = [_round(lane, _read_words(values, at + 8 * n, 8)) for n, lane in enumerate(lanes)]
                at += 32
            hashes = sum((_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint64(0))
            for lane in lanes:
                hashes = (hashes ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
        else:
            hashes = np.full(count, _P5)
        hashes = hashes + np.uint64(size)
        while size - at >= 8:
            part = _round(np.zeros(count, np.uint64), _read_words(values, at, 8))
            hashes = _rotate(hashes ^ part, 27) * _P1 + _P4
            at += 8
        if size - at >= 4:
            hashes = _rotate(hashes ^ (_read_words(values, at, 4) * _P1), 23) * _P2 + _P3
            at += 4
        for place in range(at, size):
            hashes = _rotate(hashes ^ (values[:, place].astype(np.uint64) * _P5), 11) * _P1
        hashes = (hashes ^ hashes >> np.uint64(33)) * _P2
        hashes = (hashes ^ hashes >> np.uint64(29)) * _P3
        return np.asarray(hashes ^ hashes >> np.uint64(32), np.uint64)


def _read_words(
    values: np.ndarray[Any, np.dtype[np.uint8]], at: int, width: int
) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.ascontiguousarray(values[:, at : at + width]).view(f"<u{width}").ravel().astype(np.uint64)


def _round(
    lane: np.ndarray[Any, np.dtype[np.uint64]], part: np.ndarray[Any, np.dtype[np.uint64]]
) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return _rotate(lane + part * _P2, 31) * _P1


def _rotate(value: np.ndarray[Any, np.dtype[np.uint64]], bits: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return value << np.uint64(bits) | value >> np.uint64(64 - bits)
