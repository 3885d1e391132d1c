"""One Parquet file of a scan: opened late, its footer from the cache, its columns in the table's names and types.

The parsed footer (``Footer``) is read once per process. Its statistics skip row groups where the plan names files only;
they are kept by column, as a part of an index of blocklets.

A few rows of a big row group are read by page (rewrite/data_files/parquet_rows.py) if that pays off. Measured: reading
a page takes 450 us; decoding from the beginning of the row group takes 5 ns per value and 0.9 ns per byte. Reading by
page must take at most half as long, because the time of the other way is the more certain of the two. Locating the
pages takes about 50 us for each column chunk of the file, once, because the locations are cached. They are located as
soon as all scans of the file so far would have saved that much: this is never more than twice the work of a reader
who knows all later scans.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from packstone.errors import UnreadableFileError
from packstone.query.filter.expression import columns_of
from packstone.query.filter.may_match import may_match, must_match
from packstone.query.scan.bloom import BloomTest
from packstone.query.scan.dictionaries import DictionaryTest, has_dictionary_test
from packstone.rewrite.blame_file import blame_file
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.data_files.parquet_output import footer_value, has_order
from packstone.rewrite.data_files.parquet_rows import PagedFooter, PagedGroup, open_paged
from packstone.rewrite.data_files.rows import Evolution
from packstone.rewrite.formats.parquet_checks import MAGIC, digest_footer, find_footer
from packstone.rewrite.formats.parquet_footer import open_parquet
from packstone.rewrite.merge_tree.spec import ColumnSource, DataFormat, InputFile
from packstone.rewrite.sorted_merge.block_facts import bloom_checksum, is_bytes, leaf_numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packstone.query.filter.expression import Expression
    from packstone.query.scan.caches import ScanCaches
    from packstone.query.scan.plan import ScanFile
    from packstone.storage.fileio import FileIO

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_PAGE_ROWS = 1 << 14  # rows at most this far apart are read together
_LEAST_BATCH_ROWS = 1 << 14
_CHUNK_US, _PAGE_US, _VALUE_US, _BYTE_US = 50, 450, 0.005, 0.0009
_WORTH = 2
_CHECKSUM_BYTES = 100  # of an entry of the cache
_MAX_BYTES = 32 << 20  # decoded at once


class ScannedFile:
    """Reads rows of chosen row groups. With ``codes``, dictionary-encoded text stays dictionary-encoded."""

    def __init__(self, io: FileIO, file: ScanFile, needed: Sequence[str], *, caches: ScanCaches) -> None:
        self.file = file
        self._io, self._caches = io, caches
        self._opened: pq.ParquetFile | None = None  # the handle that read the footer
        self._parquet: pq.ParquetFile | None = None
        # A data file is never overwritten, so path and size identify one version of it.
        key = (file.path, file.size_bytes)
        self.footer: Footer = caches.footer.get_or_load(key, self._read_footer, lambda footer: footer.nbytes)
        self._pages_key = (*key, "pages")
        named = {column.target: column.source for column in file.columns}
        present = set(self.footer.schema.names)
        self.sources = {name: named.get(name, name if name in present else None) for name in needed}
        lost = [name for name, source in self.sources.items() if source is None and name not in named]
        if lost:  # where a column may be missing, the plan says so; nulls in its place would be lost values
            raise UnreadableFileError(f"{file.path} has no column {lost[0]}, so it is damaged.", file=file.path)

    def prune_by_bounds(self, expression: Expression) -> tuple[list[int], frozenset[int]]:
        """The row groups that may match, and those of them that must, by the statistics in the footer.

        They are the part of an index of blocklets that a task keeps, where the index of the table lists files only.
        """
        index = self._bounds_index(expression)
        kept = np.flatnonzero(may_match(expression, index))
        must = must_match(expression, index)
        return kept.tolist(), frozenset(int(at) for at in kept if must[at])

    def _bounds_index(self, expression: Expression) -> pa.Table:
        """The statistics of the filter's columns as an index of a segment; they omit NaN, so it may be anywhere."""
        leaves, rows = self.footer.leaves, pa.array(self.footer.group_rows, pa.int64())
        columns: dict[str, pa.Array] = {"rows": rows}
        for name in columns_of(expression):
            source = self.sources.get(name)
            if source is None:
                columns[f"nulls.{name}"] = rows  # the file has no such column: its rows are null there
            elif source in leaves:
                facts = self._bounds_of(source, leaves[source])
                columns |= {f"{fact}.{name}": values for fact, values in facts.items()}
        return pa.table(columns)

    def _bounds_of(self, source: str, leaf: int) -> dict[str, pa.Array]:
        def load() -> dict[str, pa.Array]:
            metadata = self.footer.metadata
            found = [metadata.row_group(at).column(leaf).statistics for at in range(metadata.num_row_groups)]
            return _column_facts(self.footer.schema.field(source).type, found)

        key = (self.file.path, self.file.size_bytes, "bounds", source)
        facts: dict[str, pa.Array] = self._caches.footer.get_or_load(
            key, load, lambda facts: _FACTS_BYTES + sum(one.nbytes for one in facts.values())
        )
        return facts

    def prune_by_bloom_filters(
        self, expression: Expression, filter_schema: pa.Schema, *, groups: Sequence[int], sure: frozenset[int]
    ) -> Sequence[int]:
        """Drop the row groups that cannot hold a match according to the bloom filters of the file, if it has any."""
        test = BloomTest(expression=expression, filter_schema=filter_schema, footer=self.footer, sources=self.sources)
        if len(sure) == len(groups) or not test.is_worth_running():
            return groups
        with self._io.open_input(self.file.path) as source:
            self._check_bloom_filters(source)
            left = frozenset(test.choose(source, [group for group in groups if group not in sure]))
        return [group for group in groups if group in left or group in sure]

    def _check_bloom_filters(self, source: Any) -> None:
        """Compare all filters of the file with their checksum, once: a bit that is lost hides rows."""
        if not self.file.bloom_crc:
            return
        key = (self.file.path, self.file.size_bytes, "blooms")
        found = self._caches.footer.get_or_load(
            key, lambda: bloom_checksum(source, self.footer.metadata), lambda _: _CHECKSUM_BYTES
        )
        if found != self.file.bloom_crc:
            path = self.file.path
            raise UnreadableFileError(
                f"{path} is damaged: its bloom filters are not those that were written.", file=path
            )

    def prune_by_dictionaries(
        self,
        expression: Expression,
        filter_schema: pa.Schema,
        *,
        groups: Sequence[int],
        sure: frozenset[int],
        tested: set[str] | None = None,
    ) -> Sequence[int]:
        """Drop the row groups that cannot match according to the dictionaries; add the tested columns to ``tested``."""
        if len(sure) == len(groups) or not has_dictionary_test(expression):
            return groups
        test = DictionaryTest(
            expression=expression,
            filter_schema=filter_schema,
            footer=self.footer,
            sources=self.sources,
            key=(self.file.path, self.file.size_bytes),
            cache=self._caches.dictionary,
            open=lambda: self._io.open_input(self.file.path),
            tested=set() if tested is None else tested,
        )
        left = frozenset(test.choose([group for group in groups if group not in sure]))
        return [group for group in groups if group in left or group in sure]

    def open(self, *, codes: bool) -> None:
        """Open the file for reading rows."""
        coded = [one for one in self.sources.values() if one in self.footer.coded] if codes else []
        if self._opened is not None and not coded:
            self._parquet = self._opened
            return
        self._parquet = pq.ParquetFile(
            self._io.open_input(self.file.path),
            metadata=self.footer.metadata,
            pre_buffer=False,
            read_dictionary=coded or None,
            page_checksum_verification=True,
        )

    def close(self) -> None:
        """Close all open handles."""
        for opened in (self._opened, self._parquet):
            if opened is not None:
                opened.close(force=True)

    def read(self, groups: Sequence[int], schema: pa.Schema, *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of row groups in these columns; text is dictionary-encoded where the schema says so."""
        evolution: Evolution | None = None
        for batch in self._read(groups, self.stored(schema), batch_rows):
            if evolution is None:
                evolution = Evolution(self._described(schema), batch.schema, schema)
            yield evolution.apply(batch)

    def read_by_page(self, group: int, schema: pa.Schema, rows: Numbers, *, batch_rows: int) -> pa.RecordBatch | None:
        """Read rows of a row group, by ascending positions, from their pages only; None if that does not pay off.

        The alternative is to read all batches of ``batch_rows`` rows, from the first up to the one with the last row.
        """
        names = self.stored(schema)
        spans = np.split(rows, np.flatnonzero(np.diff(rows) > _PAGE_ROWS) + 1)
        value_us = self.footer.value_us(names)
        decoded = min(self.footer.group_rows[group], (int(rows[-1]) // batch_rows + 1) * batch_rows)
        gain_us = value_us * decoded - _WORTH * _PAGE_US * len(names) * len(spans)
        held_bytes = sum(int(span[-1] - span[0]) + 1 for span in spans) * self.footer.row_bytes(names)
        if gain_us <= 0 or held_bytes > _MAX_BYTES or not self._are_pages_worth_finding(gain_us):
            return None
        assert self._parquet is not None  # open() was called
        with self._io.open_input(self.file.path) as source:
            paged = open_paged(
                source,
                self._parquet,
                path=self.file.path,
                group=group,
                columns=names,
                options={},
                footer=lambda: self._paged_footer(source),
            )
            if paged is None:
                return None
            found = [self._read_span(paged, names, span) for span in spans]
        # Pages are decoded one by one, so there are several dictionaries, whose codes are not comparable.
        plain = _without_codes(schema)
        evolution = Evolution(self._described(plain), found[0].schema, plain)
        return evolution.apply(pa.Table.from_batches(found).combine_chunks().to_batches()[0])

    def _are_pages_worth_finding(self, gain_us: float) -> bool:
        if self._pages_key in self._caches.footer:
            return True
        missed = self.footer.missed
        missed.us += gain_us
        if missed.us < _CHUNK_US * self.footer.metadata.num_columns * len(self.footer.group_rows):
            return False
        missed.us = 0.0  # the page locations may be evicted from the cache
        return True

    def _paged_footer(self, source: Any) -> PagedFooter:
        found: PagedFooter = self._caches.footer.get_or_load(
            self._pages_key, lambda: PagedFooter.read(source), lambda footer: footer.nbytes
        )
        return found

    def _read_span(self, paged: PagedGroup, names: list[str], rows: Numbers) -> pa.RecordBatch:
        first, last = int(rows[0]), int(rows[-1]) + 1
        (batch,) = paged.batches(names, (first, last), batch_rows=max(_LEAST_BATCH_ROWS, last - first))
        return batch.take(to_column(rows - first))

    def stored(self, schema: pa.Schema) -> list[str]:
        """The columns of the file from which the columns of this schema are read."""
        return list(dict.fromkeys(source for one in schema if (source := self.sources[one.name]) is not None))

    def coded_schema(self, schema: pa.Schema) -> pa.Schema:
        """The same schema, with a dictionary type for columns that are read dictionary-encoded."""
        assert self._parquet is not None  # open() was called
        read, fields = self._parquet.schema_arrow, []
        for one in schema:
            source = self.sources[one.name]
            kind = None if source is None else read.field(source).type
            is_coded = kind is not None and pa.types.is_dictionary(kind) and kind.value_type == one.type
            fields.append(pa.field(one.name, kind) if is_coded else one)
        return pa.schema(fields)

    def _read(self, groups: Sequence[int], names: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        assert self._parquet is not None  # open() was called
        if names:
            yield from self._parquet.iter_batches(
                batch_size=batch_rows, row_groups=list(groups), columns=names, use_threads=False
            )
            return
        left = sum(self.footer.group_rows[group] for group in groups)
        while left > 0:
            yield rows_without_columns(min(batch_rows, left))
            left -= batch_rows

    def _described(self, schema: pa.Schema) -> InputFile:
        columns = tuple(ColumnSource(target=one.name, source=self.sources[one.name]) for one in schema)
        file = self.file
        return InputFile(
            path=file.path, file_format=DataFormat.PARQUET, size_bytes=file.size_bytes, rows=0, columns=columns
        )

    def _read_footer(self) -> Footer:
        try:
            self._opened = self._open_verified() if self.file.footer_digest else open_parquet(self._io, self.file.path)
        except UnreadableFileError as error:
            if isinstance(error.__cause__, FileNotFoundError):  # the scan knows which version needs the file
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.file.path) from error
            raise
        return Footer.of(self._opened)

    def _open_verified(self) -> pq.ParquetFile:
        """Open the file if its footer is the one that was written: a bound that lost a bit would hide rows.

        That makes the checks of a foreign footer needless, and PyArrow need not read it again.
        """
        path = self.file.path
        with blame_file(path, "cannot be read"):
            source = self._io.open_input(path)
            footer, begin = find_footer(source, path)
        if digest_footer(footer, begin).hex() != self.file.footer_digest:
            raise UnreadableFileError(f"{path} is damaged: its footer is not the one that was written.", file=path)
        whole = b"".join((MAGIC, footer, len(footer).to_bytes(4, "little"), MAGIC))
        metadata = pq.read_metadata(pa.BufferReader(whole))
        return pq.ParquetFile(source, metadata=metadata, pre_buffer=False, page_checksum_verification=True)


def _without_codes(schema: pa.Schema) -> pa.Schema:
    kinds = (one.type.value_type if pa.types.is_dictionary(one.type) else one.type for one in schema)
    return pa.schema([one.with_type(kind) for one, kind in zip(schema, kinds, strict=True)])


def rows_without_columns(rows: int) -> Any:
    """A batch that has rows but no columns, for callers that only count."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


_FACTS_BYTES = 500  # of the statistics of a column, besides their values
_PARSED_RATIO = 4  # memory of a parsed footer / its size in the file, about
# Bytes per value: dictionary codes take less than this, plain text more, as its length alone takes four bytes.
_CODE_BYTES = 4
_LEAST_TEXT_BYTES = 16


@dataclass(slots=True)
class MissedGain:
    """The time that scans of a file would have saved so far by knowing where its pages are."""

    us: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Footer:
    """A parsed footer, with the facts that every scan needs, computed once from the first row group."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    leaves: Mapping[str, int]  # the number of the column chunk of each column that is not nested
    group_rows: tuple[int, ...]
    widths: Mapping[str, int]  # approximate bytes of a decoded value, by column
    coded: frozenset[str]  # text columns that are dictionary-encoded, judging by their size
    missed: MissedGain = field(default_factory=MissedGain)
    # By the number of a column: the time that dictionaries would have saved, and the bytes of each row group's.
    missed_us: dict[int, float] = field(default_factory=dict)
    dictionary_bytes: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, file: pq.ParquetFile) -> Footer:
        """Extract the facts from an open file."""
        metadata, schema = file.metadata, file.schema_arrow
        widths = {one.name: _width(one.type) for one in schema}
        coded = set()
        leaves = leaf_numbers(schema)
        group = metadata.row_group(0) if metadata.num_row_groups else None
        for one in schema:
            if group is None or one.name not in leaves or not is_bytes(one.type):
                continue
            chunk = group.column(leaves[one.name])
            stored, values = chunk.total_uncompressed_size, chunk.num_values
            widths[one.name] = max(_LEAST_TEXT_BYTES, stored // max(1, values))
            if stored <= _CODE_BYTES * values and chunk.has_dictionary_page:
                coded.add(one.name)
        rows = tuple(metadata.row_group(at).num_rows for at in range(metadata.num_row_groups))
        return cls(
            metadata=metadata, schema=schema, leaves=leaves, group_rows=rows, widths=widths, coded=frozenset(coded)
        )

    @property
    def nbytes(self) -> int:
        """Approximate memory use."""
        return int(self.metadata.serialized_size) * _PARSED_RATIO + 8 * len(self.group_rows) + 200 * len(self.widths)

    def row_bytes(self, names: Iterable[str]) -> int:
        """Approximate bytes of a decoded row of these columns."""
        return max(1, sum(self.widths[name] for name in names))

    def value_us(self, names: Iterable[str]) -> float:
        """The approximate time of decoding a row of these columns."""
        return sum(_VALUE_US + _BYTE_US * self.widths[name] for name in names)


def _column_facts(kind: pa.DataType, found: Sequence[pq.Statistics | None]) -> dict[str, pa.Array]:
    nulls = [one.null_count if one is not None and one.has_null_count else None for one in found]
    facts = {"nulls": pa.array(nulls, pa.int64())}
    if not has_order(kind) or pt.is_time(kind):
        return facts
    bound = pa.binary() if is_bytes(kind) else kind
    for end in ("min", "max"):
        values = [_bound(one, end, kind) for one in found]
        facts[end] = pa.array(values, bound)
    return facts


def _bound(found: pq.Statistics | None, end: str, kind: pa.DataType) -> Any:
    if found is None or not found.has_min_max:
        return None
    return footer_value(getattr(found, f"{end}_raw"), kind)


def _width(kind: pa.DataType) -> int:
    """Bytes of a value of fixed width; a guess for text and nested types."""
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return _LEAST_TEXT_BYTES * (8 if pt.is_nested(kind) else 1)
