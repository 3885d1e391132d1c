"""Row groups that the dictionaries of a Parquet file exclude, because no entry of them passes a test.

Where all pages of a column chunk are dictionary-encoded, its dictionary page lists every value that it holds. So if no
entry passes ``=``, ``IN`` or a prefix test, no row does, and not one data page is read. This is exact, whereas bounds
fail for a value between minimum and maximum, and bloom filters exist only if the table has BLOOM_COLUMNS::

    row group 0   min a  max z   dictionary [a k z]     code = 'm'  ->  excluded
    row group 1   min b  max x   dictionary [b m x]                 ->  entry 1: rows are selected by their codes

Entries are tested by the code that tests rows (query/filter/evaluate.py), in the column's own type, so NaN, -0.0 and
nulls (which are no entries, and pass none of these tests) are decided alike. The rule is off for a chunk with a page
that is not dictionary-encoded, or if its footer lacks page counts by encoding; for a column of another type than the
table's; and for ``<>``, ``NOT IN`` and ranges, which nearly every dictionary passes.

The entries are cached, and so serve both directions: value to code (a vector comparison, faster than a hash table up to
the largest dictionaries that writers make) and code to value. An entry of the cache belongs to one column chunk.

It pays off when it takes less time than decoding the column. Measured on one core: decoding takes 6 to 50 ns per value;
testing a cached dictionary takes 20 us, and 10 ns per entry; reading one takes 250 us, and 20 ns per byte. So big row
groups are tested at once, and the dictionaries of small ones are read as soon as all scans of the file so far would
have saved twice the time of reading them. They are read eight, sixteen, … at a time, and no more of them once fewer
than one in four excludes its row group: then the value is nearly everywhere.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from packstone.query.filter.evaluate import select
from packstone.query.filter.expression import And, Compare, Expression, OneOf, Op, Or, StartsWith
from packstone.rewrite.formats.parquet_checks import MAGIC
from packstone.rewrite.formats.parquet_pages import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_ENCODINGS,
    DICTIONARY_PAGE,
    PLAIN_DICTIONARY,
    walk_pages,
)
from packstone.rewrite.formats.parquet_thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Struct,
    ThriftList,
    read_struct,
    read_varint,
    write_struct,
)

if TYPE_CHECKING:
    from packstone.query.scan.caches import LruCache
    from packstone.query.scan.scanned_file import Footer

_TEST_US, _ENTRY_US, _READ_US, _READ_BYTE_US = 20.0, 0.01, 250.0, 0.02
_WORTH: Final = 2  # because the gain is certain only where the dictionary excludes
_MAX_BYTES: Final = 8 << 20  # of dictionary pages that are decoded at once, as stored
_FIRST_READ: Final = 8  # dictionaries that are read before it is known whether they exclude anything
_LEAST_EXCLUDED: Final = 4  # a test must exclude one row group of this number
_ENTRY_BYTES: Final = 200  # of an entry of the cache, besides its values

Entries: TypeAlias = "pa.Array | None"  # the values of a dictionary; None: not all pages refer to it
_Test: TypeAlias = Compare | OneOf | StartsWith


def has_dictionary_test(expression: Expression) -> bool:
    """Whether dictionaries could exclude a row group by this filter."""
    match expression:
        case Compare(op=Op.EQ) | OneOf(negated=False) | StartsWith(negated=False):
            return True
        case And(parts=parts):
            return any(map(has_dictionary_test, parts))
        case Or(parts=parts):
            return all(map(has_dictionary_test, parts))
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class DictionaryTest:
    """A filter, and the file whose dictionaries it tests; ``sources`` are the file's names of the columns."""

    expression: Expression
    filter_schema: pa.Schema
    footer: Footer
    sources: Mapping[str, str | None]
    key: tuple[str, int]  # of the version of the file
    cache: LruCache[Any, Entries]
    open: Callable[[], Any]  # opens the file for reading at any offset
    tested: set[str]  # collects the names of the columns whose dictionaries were tested

    def choose(self, groups: Sequence[int]) -> Sequence[int]:
        """The row groups that may still hold a match, in their order."""
        return self._choose(self.expression, groups)

    def _choose(self, expression: Expression, groups: Sequence[int]) -> Sequence[int]:
        if not groups or not has_dictionary_test(expression):
            return groups
        match expression:
            case And(parts=parts):
                for part in parts:
                    groups = self._choose(part, groups)
                return groups
            case Or(parts=parts):
                found: set[int] = set()
                for part in parts:
                    found.update(self._choose(part, [group for group in groups if group not in found]))
                return [group for group in groups if group in found]
            case Compare() | OneOf() | StartsWith():
                chunks = self._find_chunks(expression.column)
                excluded = set() if chunks is None else self._exclude(expression, chunks, groups)
                return [group for group in groups if group not in excluded]
        return groups

    def _find_chunks(self, column: str) -> _Chunks | None:
        """The column in the file; None if it is nested or absent there, or has another type."""
        source, kind = self.sources.get(column), self.filter_schema.field(column).type
        leaf = None if source is None else self.footer.leaves.get(source)
        if source is None or leaf is None or self.footer.schema.field(source).type != kind:
            return None
        return _Chunks(footer=self.footer, leaf=leaf, kind=kind, value_us=self.footer.value_us([source]))

    def _exclude(self, leaf: _Test, chunks: _Chunks, groups: Sequence[int]) -> set[int]:
        """Test the dictionaries that are cached, then read others as long as that pays off."""
        worth = [group for group in groups if chunks.gain_us(group) > _TEST_US]
        kept = {group for group in worth if (*self.key, group, chunks.leaf) in self.cache}
        excluded = {group for group in kept if self._excludes(leaf, chunks, group, read={})}
        cold = [group for group in worth if group not in kept and chunks.dictionary_bytes(group)]
        at, tested = 0, len(kept)
        if not cold or not chunks.are_worth_reading(cold):
            return excluded
        while at < len(cold) and len(excluded) * _LEAST_EXCLUDED >= tested:
            some = cold[at : at + max(_FIRST_READ, tested)]
            read = self._read(chunks, some)
            excluded |= {group for group in some if self._excludes(leaf, chunks, group, read=read)}
            at, tested = at + len(some), tested + len(some)
        return excluded

    def _excludes(self, leaf: _Test, chunks: _Chunks, group: int, *, read: Mapping[int, Entries]) -> bool:
        entries = self.cache.get_or_load(
            (*self.key, group, chunks.leaf),
            lambda: read[group] if group in read else self._read(chunks, [group])[group],
            lambda entries: _ENTRY_BYTES + (0 if entries is None else entries.nbytes),
        )
        if entries is None or chunks.gain_us(group) <= _TEST_US + _ENTRY_US * len(entries):
            return False
        self.tested.add(leaf.column)
        return not select(leaf, pa.RecordBatch.from_arrays([entries], names=[leaf.column])).true_count

    def _read(self, chunks: _Chunks, groups: Sequence[int]) -> dict[int, Entries]:
        with self.open() as source:
            return read_dictionaries(source, chunks.footer.metadata, leaf=chunks.leaf, groups=groups, kind=chunks.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunks:
    """A column of a file, and what it costs to test its row groups."""

    footer: Footer
    leaf: int  # the number of the column chunk in each row group
    kind: pa.DataType
    value_us: float  # to decode a value

    def gain_us(self, group: int) -> float:
        """The time of decoding the column of a row group."""
        return self.footer.group_rows[group] * self.value_us

    def dictionary_bytes(self, group: int) -> int:
        """The stored size of the dictionary of a row group; 0 if there is none, or it is too big."""
        known = self.footer.dictionary_bytes
        if self.leaf not in known:  # once: asking PyArrow takes a tenth of the time of decoding a small row group
            groups = map(self.footer.metadata.row_group, range(len(self.footer.group_rows)))
            known[self.leaf] = tuple(_dictionary_bytes(one.column(self.leaf)) for one in groups)
        size_bytes = known[self.leaf][group]
        return size_bytes if size_bytes <= _MAX_BYTES else 0

    def are_worth_reading(self, groups: Sequence[int]) -> bool:
        """Whether this and the scans since the last reading would have saved twice the time of reading these."""
        cost_us = sum(_TEST_US + _READ_US + _READ_BYTE_US * self.dictionary_bytes(group) for group in groups)
        missed_us = self.footer.missed_us.get(self.leaf, 0.0) + sum(map(self.gain_us, groups))
        is_worth = missed_us >= _WORTH * cost_us
        self.footer.missed_us[self.leaf] = 0.0 if is_worth else missed_us
        return is_worth


# ---- reading ----

_CODED: Final = frozenset({"PLAIN_DICTIONARY", "RLE_DICTIONARY"})
_DATA_PAGES: Final = (DATA_PAGE, DATA_PAGE_V2)
_PLAIN, _RLE, _REQUIRED = 0, 3, 0
_CODECS: Final = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4_RAW": 7}
# Fields in parquet.thrift: of a schema element, and of the metadata of a column chunk.
_TYPE, _REPETITION, _NAME, _CHILDREN = 1, 3, 4, 5


def _dictionary_bytes(chunk: pq.ColumnChunkMetaData) -> int:
    """The stored size of the dictionary page, which comes right before the first data page; 0 if there is none."""
    if _CODED.isdisjoint(chunk.encodings) or not chunk.dictionary_page_offset:
        return 0
    return max(0, int(chunk.data_page_offset) - int(chunk.dictionary_page_offset))


def read_dictionaries(
    source: Any, metadata: pq.FileMetaData, *, leaf: int, groups: Sequence[int], kind: pa.DataType
) -> dict[int, Entries]:
    """The dictionaries of a column in these row groups; None where it is not known that all pages refer to it.

    PyArrow returns no dictionary of numbers, and one of text only with all codes. But the body of a dictionary page is
    that of a plain data page, so all of them are read as the data pages of a virtual file with one column.
    """
    found: dict[int, Entries] = dict.fromkeys(groups)
    sink = io.BytesIO()
    metadata.write_metadata_file(sink)  # what PyArrow read, again as Thrift: it has fields that PyArrow does not show
    footer = sink.getvalue()
    by_codec: dict[str, list[tuple[int, bytes, int]]] = {}
    held_bytes = 0
    for group in groups:
        chunk = metadata.row_group(group).column(leaf)
        size_bytes = _dictionary_bytes(chunk)
        held_bytes += size_bytes
        if not 0 < size_bytes <= _MAX_BYTES or held_bytes > _MAX_BYTES or not _is_fully_coded(footer, chunk):
            continue
        page = _as_data_page(source.read_at(size_bytes, chunk.dictionary_page_offset))
        if page is not None and chunk.compression in _CODECS:
            by_codec.setdefault(chunk.compression, []).append((group, *page))
    for codec, pages in by_codec.items():
        try:
            values = _decode(pages, _schema_element(footer, leaf), codec=_CODECS[codec])
        except (ValueError, IndexError, pa.ArrowException, OSError):
            continue  # whatever is broken, reading the rows reports it
        if values.type != kind:
            continue
        first = 0
        for group, _, entries in pages:
            # Joined with nothing, because a slice would keep the dictionaries of all groups in memory.
            found[group] = pa.concat_arrays([values.slice(first, entries), values.slice(0, 0)])
            first += entries
    return found


def _is_fully_coded(footer: bytes, chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether all data pages of a chunk refer to its dictionary, by the footer's counts of page encodings.

    Parsing the whole footer in Python takes 50 us for each column chunk of the file. PyArrow writes the sizes and the
    offsets of a chunk right before its statistics and these counts. No other chunk has the same ones.
    """
    uncompressed, compressed = chunk.total_uncompressed_size, chunk.total_compressed_size
    places: Struct = {1: (I64, uncompressed), 2: (I64, compressed), 4: (I64, chunk.data_page_offset)}
    places[6] = I64, chunk.dictionary_page_offset  # the distances between the numbers of the fields are the footer's
    wanted = write_struct(places)[:-1]
    at = footer.find(wanted)
    if at < 0 or footer.find(wanted, at + 1) >= 0:  # also a text among the statistics may have these bytes
        return False
    rest, _ = read_struct(footer, at + len(wanted))  # numbers are relative to the last field
    counts = rest.get(_ENCODING_COUNTS - _DICTIONARY_OFFSET)
    if counts is None or counts[0] != LIST:
        return False
    pages = [{number: value for number, (_, value) in item.items()} for item in counts[1].items]
    data = [page for page in pages if page.get(_PAGE_TYPE) in _DATA_PAGES and page.get(_PAGE_COUNT, 0) > 0]
    return bool(data) and all(page.get(_PAGE_ENCODING) in DICTIONARY_ENCODINGS for page in data)


_DICTIONARY_OFFSET, _ENCODING_COUNTS = 11, 13
_PAGE_TYPE, _PAGE_ENCODING, _PAGE_COUNT = 1, 2, 3


def _as_data_page(data: bytes) -> tuple[bytes, int] | None:
    """A dictionary page as a data page, and the number of its entries; None if the bytes are anything else."""
    try:
        page, *others = walk_pages(data)
    except ValueError:
        return None
    if others or page.kind != DICTIONARY_PAGE or page.encoding not in (_PLAIN, PLAIN_DICTIONARY):
        return None
    values: Struct = {1: (I32, page.values), 2: (I32, _PLAIN), 3: (I32, _RLE), 4: (I32, _RLE)}
    header: Struct = {1: (I32, DATA_PAGE), 2: (I32, page.plain_bytes), 3: (I32, page.body_bytes)}
    if page.crc is not None:
        header[4] = I32, page.crc
    return write_struct({**header, 5: (STRUCT, values)}) + data[page.body : page.end], page.values


def _decode(pages: Sequence[tuple[int, bytes, int]], element: Struct, *, codec: int) -> pa.Array:
    """The entries of all pages, as PyArrow reads a required column of this type."""
    body = b"".join(page for _, page, _ in pages)
    entries = I64, sum(count for _, _, count in pages)
    chunk: Struct = {
        1: element[_TYPE],
        2: (LIST, ThriftList(I32, [_PLAIN])),
        3: (LIST, ThriftList(BINARY, [element[_NAME][1]])),
        4: (I32, codec),
        5: entries,
        6: (I64, len(body)),
        7: (I64, len(body)),
        9: (I64, len(MAGIC)),
    }
    columns = ThriftList(STRUCT, [{2: (I64, 0), 3: (STRUCT, chunk)}])
    group: Struct = {1: (LIST, columns), 2: (I64, len(body)), 3: entries}
    schema = [{_NAME: (BINARY, b"s"), _CHILDREN: (I32, 1)}, {**element, _REPETITION: (I32, _REQUIRED)}]
    footer: Struct = {
        1: (I32, 2),
        2: (LIST, ThriftList(STRUCT, schema)),
        3: entries,
        4: (LIST, ThriftList(STRUCT, [group])),
    }
    tail = write_struct(footer)
    file = b"".join((MAGIC, body, tail, len(tail).to_bytes(4, "little"), MAGIC))
    with pq.ParquetFile(pa.BufferReader(file), page_checksum_verification=True) as opened:
        column = opened.read(use_threads=False).column(0)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _schema_element(footer: bytes, leaf: int) -> Struct:
    """The schema element of a column, by its number among the columns that hold values."""
    _, at = read_varint(footer, len(MAGIC) + 1)  # the version, the first field; then follows the list
    count, at = footer[at + 1] >> 4, at + 2
    if count == _LONG_LIST:
        count, at = read_varint(footer, at)
    for _ in range(count):
        element, at = read_struct(footer, at)
        if not element.get(_CHILDREN, (0, 0))[1]:
            if not leaf:
                return element
            leaf -= 1
    raise ValueError("a schema has fewer columns than its row groups")


_LONG_LIST: Final = 15
