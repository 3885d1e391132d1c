"""One Parquet file of a scan: opened late, its footer from the cache, its columns in the table's names and types.

A few rows of a big row group are read by page (rewrite/data_files/parquet_page_rows.py) if that is worth it: reading
one takes 450 us; decoding from the beginning of the row group 5 ns a value and 0.9 ns a byte. It should take half as
long, because the last is the surer one. Finding the pages takes about 50 us for each column chunk of the file, once,
for what was found is kept. So they are looked for when all scans of the file so far would have gained as much by it:
that is never more than twice the work of somebody who knew what is asked next. All measured.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import UnreadableFileError
from packstone.rewrite.data_files.evolve import Evolution
from packstone.rewrite.data_files.parquet_page_rows import PagedFooter, PagedGroup, open_paged
from packstone.rewrite.merge.merge_spec import ColumnSource, FileFormat, InputFile
from packstone.rewrite.numpy_columns import to_column
from packstone.rewrite.parquet.footer import open_parquet
from packstone.scan.bloom_test import BloomTest
from packstone.scan.footer import Footer

if TYPE_CHECKING:
    from packstone.pruning.expression import Expression
    from packstone.scan.caches import ScanCaches
    from packstone.scan.scan_plan import ScanFile
    from packstone.storage.fileio import FileIO

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_PAGE_ROWS = 1 << 14  # rows that are nearer to each other are read together
_LEAST_BATCH_ROWS = 1 << 14
_CHUNK_US, _PAGE_US, _VALUE_US, _BYTE_US = 50, 450, 0.005, 0.0009
_WORTH = 2
_MAX_BYTES = 32 << 20  # of what is decoded at once


class ScannedFile:
    """Reads rows of chosen row groups. With ``codes``, text that is stored as codes of a dictionary is read as such."""

    def __init__(self, io: FileIO, file: ScanFile, needed: Sequence[str], *, caches: ScanCaches) -> None:
        self.file = file
        self._io, self._caches = io, caches
        self._opened: pq.ParquetFile | None = None  # as the footer was read
        self._parquet: pq.ParquetFile | None = None
        # Data files are never written twice, so path and size name one version of one.
        key = (file.path, file.size_bytes)
        self.footer: Footer = caches.footer.get_or_load(key, self._read_footer, lambda footer: footer.nbytes)
        self._pages_key = (*key, "pages")
        named = {column.target: column.source for column in file.columns}
        present = set(self.footer.schema.names)
        self.sources = {name: named.get(name, name if name in present else None) for name in needed}

    def ask_bloom_filters(
        self, expression: Expression, filter_schema: pa.Schema, *, groups: Sequence[int], sure: frozenset[int]
    ) -> Sequence[int]:
        """Leave out row groups that surely hold no match, by the bloom filters that the file may have."""
        test = BloomTest(expression=expression, filter_schema=filter_schema, footer=self.footer, sources=self.sources)
        if len(sure) == len(groups) or not test.is_worth_asking():
            return groups
        with self._io.open_input(self.file.path) as source:
            left = frozenset(test.choose(source, [group for group in groups if group not in sure]))
        return [group for group in groups if group in left or group in sure]

    def open(self, *, codes: bool) -> None:
        """Make ready to read rows."""
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
        """Close what was opened."""
        for opened in (self._opened, self._parquet):
            if opened is not None:
                opened.close(force=True)

    def read(self, groups: Sequence[int], schema: pa.Schema, *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of row groups in these columns; text may come in a dictionary where the schema says so."""
        turn: Evolution | None = None
        for batch in self._read(groups, self.stored(schema), batch_rows):
            if turn is None:
                turn = Evolution(self._described(schema), batch.schema, schema)
            yield turn.apply(batch)

    def read_by_page(self, group: int, schema: pa.Schema, rows: Numbers, *, batch_rows: int) -> pa.RecordBatch | None:
        """Rows of a row group by their positions, ascending, from the pages that hold them; None: that does not pay.

        The other way is to read whole batches, of so many rows, from the first to that of the last row.
        """
        names = self.stored(schema)
        spans = np.split(rows, np.flatnonzero(np.diff(rows) > _PAGE_ROWS) + 1)
        value_us = sum(_VALUE_US + _BYTE_US * self.footer.widths[name] for name in names)
        decoded = min(self.footer.group_rows[group], (int(rows[-1]) // batch_rows + 1) * batch_rows)
        gain_us = value_us * decoded - _WORTH * _PAGE_US * len(names) * len(spans)
        held_bytes = sum(int(span[-1] - span[0]) + 1 for span in spans) * self.footer.row_bytes(names)
        if gain_us <= 0 or held_bytes > _MAX_BYTES or not self._are_pages_worth_finding(gain_us):
            return None
        assert self._parquet is not None  # noqa: S101 - it is open
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
        plain = _without_codes(schema)  # pages are decoded one by one: codes of several dictionaries say nothing
        turn = Evolution(self._described(plain), found[0].schema, plain)
        return turn.apply(pa.Table.from_batches(found).combine_chunks().to_batches()[0])

    def _are_pages_worth_finding(self, gain_us: float) -> bool:
        if self._pages_key in self._caches.footer:
            return True
        missed = self.footer.missed
        missed.us += gain_us
        if missed.us < _CHUNK_US * self.footer.metadata.num_columns * len(self.footer.group_rows):
            return False
        missed.us = 0.0  # what is found may be driven out of the cache
        return True

    def _paged_footer(self, source: Any) -> PagedFooter:  # noqa: ANN401 - a pyarrow file
        found: PagedFooter = self._caches.footer.get_or_load(
            self._pages_key, lambda: PagedFooter.read(source), lambda footer: footer.nbytes
        )
        return found

    def _read_span(self, paged: PagedGroup, names: list[str], rows: Numbers) -> pa.RecordBatch:
        first, last = int(rows[0]), int(rows[-1]) + 1
        (batch,) = paged.batches(names, (first, last), batch_rows=max(_LEAST_BATCH_ROWS, last - first))
        return batch.take(to_column(rows - first))

    def stored(self, schema: pa.Schema) -> list[str]:
        """The columns of the file that these need."""
        return list(dict.fromkeys(source for one in schema if (source := self.sources[one.name]) is not None))

    def coded_schema(self, schema: pa.Schema) -> pa.Schema:
        """The same columns, but in a dictionary where they are read as one."""
        assert self._parquet is not None  # noqa: S101 - it is open
        read, fields = self._parquet.schema_arrow, []
        for one in schema:
            source = self.sources[one.name]
            kind = None if source is None else read.field(source).type
            is_coded = kind is not None and pa.types.is_dictionary(kind) and kind.value_type == one.type
            fields.append(pa.field(one.name, kind) if is_coded else one)
        return pa.schema(fields)

    def _read(self, groups: Sequence[int], names: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        assert self._parquet is not None  # noqa: S101 - it is open
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
            path=file.path, file_format=FileFormat.PARQUET, size_bytes=file.size_bytes, rows=0, columns=columns
        )

    def _read_footer(self) -> Footer:
        try:
            self._opened = open_parquet(self._io, self.file.path)
        except UnreadableFileError as error:
            if isinstance(error.__cause__, FileNotFoundError):  # who scans knows which version has lost it
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.file.path) from error
            raise
        return Footer.of(self._opened)


def _without_codes(schema: pa.Schema) -> pa.Schema:
    kinds = (one.type.value_type if pa.types.is_dictionary(one.type) else one.type for one in schema)
    return pa.schema([one.with_type(kind) for one, kind in zip(schema, kinds, strict=True)])


def rows_without_columns(rows: int) -> Any:  # noqa: ANN401 - a pyarrow.RecordBatch, which has no types
    """A batch that has rows but no columns: for those who only count."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))
