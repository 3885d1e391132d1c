"""Prove a file that was made by splicing: by the bytes of copied pages, by the values of all other columns.

======================  ============================================  =============================================
a leaf column was       inputs                                        output
======================  ============================================  =============================================
copied, page by page    bytes of its chunks digested                  the same; and decoded once, values thrown away
recoded or encoded      decoded, values digested in order             decoded once, values digested in order
======================  ============================================  =============================================

**Copied.** The digest covers the bytes of a column's chunks (page headers and bodies, one after another, wherever the
chunk boundaries are) and the number of values that the footers state. Equal bytes under equal schemas decode to equal
values, but this does not prove that they can be decoded. So the copied columns of the *output* are also decoded
completely, with their checksums: this shows that a reader gets the number of rows that the footer states, and it finds
a page that was already damaged in an input. Such a page would make the whole merged file unreadable; then the input it
came from is found and reported.

**Recoded or encoded.** PyArrow, which had no part in writing codes or footer, decodes the column on both sides. Strings
are read as codes of a dictionary where PyArrow can do so, and digested by entry (see ``ordered_digest``): an input and
an output with other dictionaries, pages and row groups have equal digests exactly if their values are equal. INT96
timestamps are digested in two units: nanoseconds wrap and microseconds are cut, but both together determine the time.

Every leaf is read on its own, not as part of its struct or list. PyArrow takes the nulls of a struct and the lengths of
a list from one of its leaves; a fault in the levels of another would otherwise not be seen.

The fingerprint can be computed again from the originals or from the output, given the numbers of the copied columns,
which are recorded with it. Memory: about 64 MiB of decoded values, or one column of one row group.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from packstone.errors import UnreadableFileError, VerificationError
from packstone.model.unit import Fingerprint
from packstone.rewrite.blame_file import blame_file
from packstone.rewrite.formats.parquet_batches import batch_rows_for, decoded_row_bytes, read_batches
from packstone.rewrite.formats.parquet_checks import check_footer
from packstone.rewrite.proof.ordered_digest import ColumnDigest, StreamDigest, without_nulls
from packstone.rewrite.proof.verify_files import check_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from packstone.storage.fileio import FileIO

_DIGEST_BYTES: Final = 16
_WHOLE_BYTES: Final = 16 << 20  # a file up to this size is read with one request
# Values of many small files are digested together: one dictionary for all of them, and fewer calls.
_PENDING_BYTES: Final = 32 << 20
_VALUE_BYTES: Final = 16  # an estimate of a decoded value: the widest type, or a code and its levels
_MAX_COLUMN_BYTES: Final = 128 << 20  # a bigger column of a row group is read batch by batch


def fingerprint_splice(
    io: FileIO, paths: Sequence[str], *, copied: Sequence[int], checks_text: bool = False
) -> Fingerprint:
    """Fingerprint files of which some leaf columns were copied, page by page, and the others were not."""
    chunks, values = _Chunks(copied), _Values(copied, checks_text=checks_text)
    for path in paths:
        with _OpenFile(io, path, **values.options) as file:
            _check_columns(file.metadata, copied, path)
            chunks.add(file)
            values.add(file)
    whole = hashlib.sha256(chunks.digest())
    values.finish(whole)
    digest = whole.digest()[:_DIGEST_BYTES]
    return Fingerprint(
        rows=chunks.rows, lo=int.from_bytes(digest[:8], "little"), hi=int.from_bytes(digest[8:], "little")
    )


def check_readable(
    io: FileIO, output: str, inputs: Sequence[str], *, leaves: Sequence[int], checks_text: bool = False
) -> None:
    """Decode some columns of the output; if that fails, raise for the input that cannot be decoded either."""
    try:
        _decode(io, output, leaves, checks_text=checks_text)
    except UnreadableFileError as error:
        for path in inputs:
            _decode(io, path, leaves, checks_text=checks_text)
        raise VerificationError(f"The output cannot be read back: {error.message}", file=output) from error


class _OpenFile:
    """A Parquet file, read through PyArrow in several ways; opened, checked and parsed once."""

    def __init__(self, io: FileIO, path: str, **options: Any) -> None:
        self.io, self.path = io, path
        with blame_file(path, "cannot be read"):
            self.source: Any = io.open_input(path)
            if self.source.size() <= _WHOLE_BYTES:
                with self.source as source:
                    self.source = pa.BufferReader(source.read_buffer())
            check_footer(self.source, path)
        self._metadata: pq.FileMetaData | None = None
        self.first = self.reader(**options)
        self.metadata: pq.FileMetaData = self.first.metadata
        self._metadata = self.metadata

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.source.close()

    def reader(self, **options: Any) -> pq.ParquetFile:
        """Return a reader with these options of PyArrow."""
        with blame_file(self.path, "has a broken Parquet footer"):
            return pq.ParquetFile(
                self.source, metadata=self._metadata, pre_buffer=False, page_checksum_verification=True, **options
            )


class _Chunks:
    """Counts the values and digests the bytes of each copied column's chunks, over all files."""

    def __init__(self, copied: Sequence[int]) -> None:
        self._copied = copied
        self._digests = [StreamDigest() for _ in copied]
        self._values = [0] * len(copied)
        self.rows = 0

    def add(self, file: _OpenFile) -> None:
        """Add the next file."""
        self.rows += file.metadata.num_rows
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            for at, leaf in enumerate(self._copied if group.num_rows else ()):
                chunk = group.column(leaf)
                self._digests[at].update(_chunk_bytes(file, chunk))
                self._values[at] += chunk.num_values

    def digest(self) -> bytes:
        """Concatenate the number of rows and the digests, in the order of the columns."""
        return self.rows.to_bytes(8, "little") + b"".join(
            leaf.to_bytes(4, "little") + values.to_bytes(8, "little") + digest.digest()
            for leaf, values, digest in zip(self._copied, self._values, self._digests, strict=True)
        )


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf column whose values are digested."""

    number: int
    path: str
    is_text: bool  # can be read as codes of a dictionary
    is_int96: bool


class _Values:
    """Reads, and digests if it should, the values of every leaf column that was not copied, over all files."""

    def __init__(self, copied: Collection[int], *, checks_text: bool, digests: bool = True) -> None:
        self._copied, self._checks_text, self._is_digested = frozenset(copied), checks_text, digests
        self._layers: tuple[tuple[_Leaf, ...], ...] | None = None
        self._has_int96 = False
        self.options: dict[str, Any] = {}  # of PyArrow, to open files with; known after the first file
        # By leaf and unit; the unit is empty for all but INT96.
        self._digests: dict[tuple[int, str], ColumnDigest] = {}
        self._pending: dict[tuple[int, str], list[pa.Array]] = {}
        self._pending_bytes = 0

    def add(self, file: _OpenFile) -> None:
        """Add the next file."""
        coded = file.first
        if self._layers is None:
            self._layers = _layers(file.metadata.schema, self._copied)
            every = [leaf for layer in self._layers for leaf in layer]
            self._has_int96 = any(leaf.is_int96 for leaf in every)
            texts = [leaf.path for leaf in every if leaf.is_text]
            self.options = {"read_dictionary": texts, "coerce_int96_timestamp_unit": "us"}
            coded = file.reader(**self.options)
        readers = {"us": coded}
        if self._has_int96:
            readers["ns"] = file.reader(coerce_int96_timestamp_unit="ns")
        for number in range(file.metadata.num_row_groups):
            group = file.metadata.row_group(number)
            if not group.num_rows:
                continue
            for layer in self._layers:
                for leaves in _runs(layer, group):
                    self._add_run(file, readers, leaves=leaves, number=number)

    def finish(self, whole: Any) -> None:
        """Add the digests of all columns to one hash."""
        self._flush()
        for (leaf, unit), digest in sorted(self._digests.items()):
            whole.update(f"{leaf}{unit}".encode())
            digest.finish(whole)

    def _add_run(
        self, file: _OpenFile, readers: dict[str, pq.ParquetFile], *, leaves: tuple[_Leaf, ...], number: int
    ) -> None:
        """Read some leaves of a row group, of different fields, and keep their values to be digested."""
        int96 = tuple(leaf for leaf in leaves if leaf.is_int96)
        for unit, some in (("us", leaves), ("ns", int96)):
            for batch in _read_group(file, readers[unit], leaves=some, number=number, unit=unit) if some else ():
                if self._checks_text:
                    check_text(batch, file.path)
                if not self._is_digested:
                    continue
                for leaf, array in zip(some, batch.columns, strict=True):
                    key = leaf.number, unit if leaf.is_int96 else ""
                    self._pending.setdefault(key, []).append(array)
                self._pending_bytes += batch.nbytes
                if self._pending_bytes > _PENDING_BYTES:
                    self._flush()

    def _flush(self) -> None:
        for key, arrays in self._pending.items():
            self._digests.setdefault(key, ColumnDigest(by_entry=True)).update(arrays)
        self._pending.clear()
        self._pending_bytes = 0


def _layers(schema: pq.ParquetSchema, copied: frozenset[int]) -> tuple[tuple[_Leaf, ...], ...]:
    """Arrange the leaves that were not copied so that no layer has two leaves of one field."""
    layers: list[list[_Leaf]] = []
    depths: dict[str, int] = {}
    for number in range(len(schema)):
        if number in copied:
            continue
        column = schema.column(number)
        field = column.path.partition(".")[0]
        depth = depths[field] = depths.get(field, -1) + 1
        if depth == len(layers):
            layers.append([])
        is_text = column.physical_type == "BYTE_ARRAY" and column.logical_type.type != "DECIMAL"
        layers[depth].append(_Leaf(number, column.path, is_text, is_int96=column.physical_type == "INT96"))
    return tuple(map(tuple, layers))


def _runs(layer: tuple[_Leaf, ...], group: pq.RowGroupMetaData) -> Iterator[tuple[_Leaf, ...]]:
    """Split a layer where its columns of a row group would take too much memory together."""
    run: list[_Leaf] = []
    run_bytes = 0
    for leaf in layer:
        size_bytes = _decoded_bytes(leaf, group)
        if run and run_bytes + size_bytes > _PENDING_BYTES:
            yield tuple(run)
            run, run_bytes = [], 0
        run.append(leaf)
        run_bytes += size_bytes
    yield tuple(run)


def _decoded_bytes(leaf: _Leaf, group: pq.RowGroupMetaData) -> int:
    chunk = group.column(leaf.number)
    size_bytes: int = chunk.num_values * _VALUE_BYTES + (chunk.total_uncompressed_size if leaf.is_text else 0)
    return size_bytes


def _read_group(
    file: _OpenFile, reader: pq.ParquetFile, *, leaves: tuple[_Leaf, ...], number: int, unit: str
) -> Iterator[pa.RecordBatch]:
    """Read some leaves of a row group, at once if their memory allows it."""
    group, names = file.metadata.row_group(number), [leaf.path for leaf in leaves]
    is_small = sum(_decoded_bytes(leaf, group) for leaf in leaves) <= _MAX_COLUMN_BYTES
    if is_small:
        batches = _read_at_once(file, reader, names=names, number=number, unit=unit)
    else:
        batches = _read_in_batches(file, names=names, number=number, unit=unit)
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        yield batch
    if rows != group.num_rows:
        raise UnreadableFileError(
            f"{file.path} holds {rows} rows in a row group for which its footer says {group.num_rows}.", file=file.path
        )


def _read_at_once(
    file: _OpenFile, reader: pq.ParquetFile, *, names: list[str], number: int, unit: str
) -> Iterator[pa.RecordBatch]:
    """Read as codes of dictionaries, or decoded if that is impossible.

    PyArrow cannot read a nested column as codes if its dictionary ends before the row group does, nor any column with a
    page in DELTA_BYTE_ARRAY.
    """
    batches: list[pa.RecordBatch] = []
    try:
        batches = reader.read_row_group(number, columns=names, use_threads=False).to_batches()
        has_wrong_code = any(_has_wrong_code(column) for batch in batches for column in batch.columns)
    except (pa.ArrowException, OSError):
        has_wrong_code = True
    # The second reading decodes: it raises an error that says what is wrong.
    yield from _read_in_batches(file, names=names, number=number, unit=unit) if has_wrong_code else batches


def _has_wrong_code(leaf: pa.Array) -> bool:
    """Whether a code has no entry: PyArrow does not check codes that it does not decode, and crashes later."""
    while pt.is_nested(leaf.type):
        leaf = leaf.field(0) if pt.is_struct(leaf.type) else leaf.values
    if not pt.is_dictionary(leaf.type) or leaf.null_count == len(leaf):
        return False
    codes = without_nulls(leaf.indices) if leaf.null_count else leaf.indices
    # A negative code is a great one. Not by ``to_numpy``, see ``ordered_digest``.
    numbers = np.frombuffer(codes.buffers()[1], np.uint32)[codes.offset : codes.offset + len(codes)]
    return bool(numbers.max() >= len(leaf.dictionary))


def _read_in_batches(file: _OpenFile, *, names: list[str], number: int, unit: str) -> Iterator[pa.RecordBatch]:
    plain = file.reader(coerce_int96_timestamp_unit=unit)
    batch_rows = batch_rows_for(decoded_row_bytes(file.io, plain, file.path, known=0))
    yield from read_batches(plain, file.path, batch_rows=batch_rows, columns=names, row_groups=(number,))


def _check_columns(metadata: pq.FileMetaData, copied: Sequence[int], path: str) -> None:
    if max(copied, default=0) >= metadata.num_columns:
        raise VerificationError(f"{path} has fewer columns than were copied.", file=path)


def _chunk_bytes(file: _OpenFile, chunk: pq.ColumnChunkMetaData) -> pa.Buffer:
    data_offset, dictionary_offset = chunk.data_page_offset, chunk.dictionary_page_offset
    # Some writers state 0 if there is no dictionary.
    file.source.seek(min(dictionary_offset, data_offset) if dictionary_offset else data_offset)
    data = file.source.read_buffer(chunk.total_compressed_size)
    if data.size < chunk.total_compressed_size:
        raise UnreadableFileError(f"{file.path} ends before the last page that its footer lists.", file=file.path)
    return data


def _decode(io: FileIO, path: str, leaves: Sequence[int], *, checks_text: bool) -> None:
    """Decode some leaf columns and throw their values away; of those with a dictionary, decode codes and entries."""
    if not leaves:
        return
    with _OpenFile(io, path) as file:
        _check_columns(file.metadata, leaves, path)
        schema = file.metadata.schema
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        coded = {leaf for leaf in leaves if any(group.column(leaf).has_dictionary_page for group in groups)}
        if coded:
            _Values(set(range(len(schema))) - coded, checks_text=checks_text, digests=False).add(file)
        names = [schema.column(leaf).path for leaf in leaves if leaf not in coded]
        if not names:
            return
        row_bytes = decoded_row_bytes(io, file.first, path, known=0)
        rows = 0
        for batch in read_batches(file.first, path, batch_rows=batch_rows_for(row_bytes), columns=names):
            rows += batch.num_rows
            if checks_text:
                check_text(batch, path)
        if rows != file.metadata.num_rows:
            raise UnreadableFileError(
                f"{path} holds {rows} rows although its footer says {file.metadata.num_rows}.", file=path
            )
