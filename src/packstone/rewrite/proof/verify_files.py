"""Read Parquet files again and reduce their rows to a fingerprint: the proof that none was lost, doubled or changed.

Only the decoding of a file is shared with the rewriters: inputs are decoded a second time, outputs are re-opened from
storage, and the number of rows decoded is compared with the footer's. Inputs below 256 KiB are decoded once: their rows
are digested as PyArrow returns them, before the rewriter does anything with them (``digested_rows``). So the digest
does not depend on the rewriter, but both use the same decoded rows; ``parquet_bundle`` says how these are checked.

``check_text`` finds strings that are not valid UTF-8, which a merge must not carry along unnoticed. Parquet and ORC
require UTF-8 and few readers check it: PyArrow and Spark pass the bytes on; DuckDB, Polars and Arrow's Rust library
fail on the whole file. After a merge, one damaged value would make the rows of all the other files unreadable for them.
Most text is ASCII, which is checked for a whole column at the speed of memory; only other columns are validated value
by value. Cost: 1 to 3 % of decoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import UnreadableFileError, VerificationError
from packstone.model.unit import Fingerprint
from packstone.rewrite.data_files.batches import read_ahead
from packstone.rewrite.formats.parquet_batches import batch_rows_for, decoded_row_bytes, read_batches
from packstone.rewrite.formats.parquet_footer import (
    int96_columns,
    int96_writer,
    open_parquet,
    schema_tree,
    writer_semantics,
)
from packstone.rewrite.formats.parquet_scan import scan_file
from packstone.rewrite.proof.ordered_digest import digest_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from packstone.rewrite.formats.parquet_bundle import FileBundle
    from packstone.rewrite.formats.parquet_scan import FooterKind
    from packstone.storage.fileio import FileIO


def fingerprint_parquet(io: FileIO, paths: Sequence[str], *, ordered: bool, checks_text: bool = False) -> Fingerprint:
    """Fingerprint all rows of Parquet files: in order where the merge kept it, which is faster and proves more."""
    rows = all_rows(io, paths, checks_text=checks_text)
    return fingerprint_rows(rows if _is_one_small_file(io, paths) else read_ahead(rows), ordered=ordered)


def _is_one_small_file(io: FileIO, paths: Sequence[str]) -> bool:
    """Whether starting a second thread would cost more than it saves."""
    found = io.stat(paths[0]) if len(paths) == 1 else None
    return found is not None and found.size_bytes <= _SMALL_BYTES


def fingerprint_rows(rows: Iterator[pa.RecordBatch], *, ordered: bool) -> Fingerprint:
    """Fingerprint rows that ``all_rows`` or ``digested_rows`` yield."""
    if ordered:
        return digest_batches(rows)
    from packstone.rewrite.proof.fingerprint import fingerprint_batches

    return fingerprint_batches(rows)


def digested_rows(io: FileIO, bundle: FileBundle, rows: pa.Table, *, unit: str) -> list[pa.RecordBatch]:
    """The rows of a bundle that was decoded in this unit, as ``all_rows`` yields those of its files."""
    if not bundle.kind.has_int96:
        return list(rows.to_batches())
    file = bundle.open(io, unit="ns")
    in_micros = rows if unit == "us" else bundle.open(io, unit="us").read(use_threads=False)
    in_nanos = file.read(columns=int96_columns(file), use_threads=False)
    columns = [*in_micros.columns, *in_nanos.columns]
    both = pa.Table.from_arrays(columns, names=[str(at) for at in range(len(columns))])
    return list(both.to_batches())


def count_parquet(io: FileIO, paths: Sequence[str]) -> int:
    """Add up the rows that the footers state."""
    return sum(scan_file(io, path).rows for path in paths)


def check_same_parquet_shape(io: FileIO, inputs: Sequence[str], output: str) -> None:
    """Compare what a fingerprint of rows does not cover: schema trees, key-value metadata, the writer of INT96."""
    tree, semantics, int96 = _read_shape(io, output)
    compared: set[FooterKind] = set()
    for path in inputs:
        kind = scan_file(io, path).kind
        if kind in compared:
            continue
        found = _shape_of_kind(io, path, kind)
        if found[0] != tree:
            raise VerificationError(f"The schema written differs from that of {path}.", file=path)
        if found[1] != semantics:
            raise VerificationError(f"The key-value metadata written differs from that of {path}.", file=path)
        if found[2] != int96:
            raise VerificationError(f"INT96 timestamps would be read differently from those of {path}.", file=path)
        compared.add(kind)


_Shape = tuple[str, tuple[tuple[str, str], ...], str | None]


def _read_shape(io: FileIO, path: str) -> _Shape:
    """The schema tree of a file, its key-values that readers derive a meaning from, and its writer of INT96."""
    with open_parquet(io, path) as file:
        metadata = file.metadata
        return schema_tree(metadata.schema), writer_semantics(metadata.metadata or {}), int96_writer(metadata)


def _shape_of_kind(io: FileIO, path: str, kind: FooterKind) -> _Shape:
    """The shape of a file whose footer is of a kind: the bytes that state it are the same in all of these."""
    found: _Shape | None = kind.remembered.get("shape")
    if found is None:
        found = kind.remembered["shape"] = _read_shape(io, path)
    return found


def all_rows(io: FileIO, paths: Sequence[str], *, checks_text: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all files; UnreadableFileError if a footer states another row count.

    With ``checks_text``, invalid text makes a file unreadable.
    """
    row_bytes = 0
    for path in paths:
        with open_parquet(io, path, coerce_int96_timestamp_unit="us") as file:
            rows = 0
            row_bytes = decoded_row_bytes(io, file, path, known=row_bytes)
            batches = read_batches(file, path, batch_rows=batch_rows_for(row_bytes))
            if checks_text:
                batches = _with_text_checked(batches, path)
            for batch in _lossless_batches(io, path, file, batches=batches, row_bytes=row_bytes):
                rows += batch.num_rows
                yield batch
            if rows != file.metadata.num_rows:
                raise UnreadableFileError(
                    f"{path} holds {rows} rows although its footer says {file.metadata.num_rows}.", file=path
                )


def _with_text_checked(batches: Iterator[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        check_text(batch, path)
        yield batch


def _lossless_batches(
    io: FileIO,
    path: str,
    file: pq.ParquetFile,
    *,
    batches: Iterator[pa.RecordBatch],
    row_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows, with INT96 columns twice: in microseconds and in nanoseconds (see ``parquet_footer``)."""
    int96 = int96_columns(file)
    if not int96:
        yield from batches
        return
    from packstone.rewrite.formats.parquet_footer import read_in_unit

    in_nanos = read_in_unit(io, path, "ns", columns=int96, batch_rows=batch_rows_for(row_bytes))
    for batch, nanos in zip(batches, in_nanos, strict=True):
        names = [str(i) for i in range(batch.num_columns + nanos.num_columns)]
        yield pa.RecordBatch.from_arrays([*batch.columns, *nanos.columns], names=names)


_FIRST_BEYOND_ASCII = 0x80
_SMALL_BYTES = 1 << 20


def check_text(batch: pa.RecordBatch, path: str) -> None:
    """Raise UnreadableFileError, with the file and the column, if a string is not valid UTF-8."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for strings in _strings(column):
            if _is_ascii(strings):
                continue
            try:
                strings.validate(full=True)
            except pa.ArrowInvalid as error:
                raise UnreadableFileError(
                    f"{path} holds text in column {name} that is not valid UTF-8; "
                    "--set accept-invalid-text=true merges such files anyway.",
                    file=path,
                    column=name,
                ) from error


def _strings(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the string arrays of a column at any depth of nesting."""
    kind = array.type
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        yield array
    elif pt.is_dictionary(kind):
        yield from _strings(array.dictionary)
    elif pt.is_struct(kind):
        for at in range(kind.num_fields):
            yield from _strings(array.field(at))
    elif pt.is_map(kind):
        yield from _strings(array.keys)
        yield from _strings(array.items)
    elif pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        yield from _strings(array.values)
    elif isinstance(kind, pa.BaseExtensionType):
        yield from _strings(array.storage)


def _is_ascii(strings: pa.Array) -> bool:
    """Whether all bytes of the strings are ASCII; also False for string views, where finding out does not pay."""
    if pt.is_string_view(strings.type) or not len(strings):
        return not len(strings)
    _, offsets, data = strings.buffers()
    if data is None:
        return True
    width = np.dtype("<i8" if pt.is_large_string(strings.type) else "<i4")
    ends = np.frombuffer(offsets, dtype=width)
    begin, end = int(ends[strings.offset]), int(ends[strings.offset + len(strings)])
    used = np.frombuffer(data, dtype=np.uint8)[begin:end]
    return not used.size or int(used.max()) < _FIRST_BEYOND_ASCII
