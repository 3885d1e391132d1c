"""Read files again and reduce their rows to a fingerprint: the proof that none was lost, doubled or changed.

Nothing here is shared with the rewriters but the decoding of a file: inputs are read a second time, outputs are
re-opened from storage, and the number of rows decoded is held against the footer's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from packstone.errors import UnreadableFileError, VerificationError
from packstone.rewrite.parquet.batches import batch_rows_for, decoded_row_bytes, read_batches
from packstone.rewrite.parquet.footer import int96_writer, open_parquet, schema_tree, writer_semantics
from packstone.rewrite.parquet.int96 import int96_columns, read_in_unit
from packstone.rewrite.proof.check_text import check_text
from packstone.rewrite.proof.fingerprint import Fingerprint, fingerprint_batch, fingerprint_lines
from packstone.rewrite.proof.ordered_digest import digest_batches
from packstone.rewrite.read_ahead import read_ahead
from packstone.rewrite.text.concatenate import read_chunks, read_header, read_lines, with_line_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO


def fingerprint_parquet(io: FileIO, paths: Sequence[str], *, ordered: bool, checks_text: bool = False) -> Fingerprint:
    """Fingerprint all rows of Parquet files: in their order where that was kept, which is quicker and proves more."""
    if ordered:
        return digest_batches(read_ahead(all_rows(io, paths, checks_text=checks_text)))
    total = Fingerprint.zero()
    for batch in read_ahead(all_rows(io, paths, checks_text=checks_text)):
        total += fingerprint_batch(batch)
    return total


def fingerprint_text(io: FileIO, paths: Sequence[str], *, header_lines: int) -> Fingerprint:
    """Fingerprint all lines of text files, headers left out."""
    total = Fingerprint.zero()
    for path in paths:
        total += fingerprint_lines(read_lines(io, path, header_lines=header_lines))
    return total


def count_parquet(io: FileIO, paths: Sequence[str]) -> int:
    """Add up the rows that the footers state."""
    rows = 0
    for path in paths:
        with open_parquet(io, path) as file:
            rows += file.metadata.num_rows
    return rows


def count_text(io: FileIO, paths: Sequence[str], *, header_lines: int) -> int:
    """Count lines; a last one without a newline counts."""
    lines = 0
    for path in paths:
        last = b"\n"
        for chunk in read_chunks(io, path, header_lines=header_lines):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
        lines += last != b"\n"
    return lines


def check_same_parquet_shape(io: FileIO, inputs: Sequence[str], output: str) -> None:
    """Compare what a fingerprint of rows cannot see: schema trees, key-value metadata, the writer that INT96 needs."""
    with open_parquet(io, output) as written:
        tree = schema_tree(written.metadata.schema)
        semantics = writer_semantics(written.metadata.metadata or {})
        int96 = int96_writer(written.metadata)
    for path in inputs:
        with open_parquet(io, path) as original:
            if schema_tree(original.metadata.schema) != tree:
                raise VerificationError(f"The schema written differs from that of {path}.", file=path)
            if writer_semantics(original.metadata.metadata or {}) != semantics:
                raise VerificationError(f"The key-value metadata written differ from those of {path}.", file=path)
            if int96_writer(original.metadata) != int96:
                raise VerificationError(f"INT96 timestamps would be read otherwise than those of {path}.", file=path)


def check_same_header(io: FileIO, inputs: Sequence[str], output: str, *, header_lines: int) -> None:
    """The output must begin with the first input's header."""
    wanted = with_line_end(read_header(io, inputs[0], header_lines))
    if with_line_end(read_header(io, output, header_lines)) != wanted:
        raise VerificationError(f"The header written differs from that of {inputs[0]}.", file=inputs[0])


def all_rows(
    io: FileIO,
    paths: Sequence[str],
    *,
    columns: list[str] | None = None,
    look: Callable[[pq.ParquetFile, str], None] | None = None,
    checks_text: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of file after file, or some fields of them, held against the number that the footer states.

    Each file is shown to ``look`` when it is opened. With ``checks_text`` a file with invalid text is unreadable.
    """
    row_bytes = 0
    for path in paths:
        with open_parquet(io, path, coerce_int96_timestamp_unit="us") as file:
            if look is not None:
                look(file, path)
            rows = 0
            row_bytes = decoded_row_bytes(io, file, path, known=row_bytes)
            batches = read_batches(file, path, batch_rows=batch_rows_for(row_bytes), columns=columns)
            if checks_text:
                batches = _with_text_checked(batches, path)
            for batch in _lossless_batches(io, path, file, batches=batches, columns=columns, row_bytes=row_bytes):
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
    columns: list[str] | None,
    row_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows; INT96 columns stand in them twice, as micro- and as nanoseconds (see int96.py)."""
    int96 = [path for path in int96_columns(file) if columns is None or path.split(".", 1)[0] in columns]
    if not int96:
        yield from batches
        return
    in_nanos = read_in_unit(io, path, "ns", columns=int96, batch_rows=batch_rows_for(row_bytes))
    for batch, nanos in zip(batches, in_nanos, strict=True):
        names = [str(i) for i in range(batch.num_columns + nanos.num_columns)]
        yield pa.RecordBatch.from_arrays([*batch.columns, *nanos.columns], names=names)
