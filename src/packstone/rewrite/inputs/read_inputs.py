"""Files that users load, as batches: Parquet, ORC, CSV and JSON lines, in bounded memory and in the files' order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from packstone.rewrite.blame_file import blame_file
from packstone.rewrite.inputs.bad_rows import Place
from packstone.rewrite.inputs.convert_rows import InputBatch
from packstone.rewrite.inputs.input_files import InputFormat
from packstone.rewrite.inputs.read_csv import read_csv
from packstone.rewrite.inputs.read_json import read_json
from packstone.rewrite.orc.reader import OrcReader
from packstone.rewrite.parquet.check_footer import check_footer
from packstone.rewrite.parquet.expansion import check_expansion

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from packstone.rewrite.inputs.input_files import InputOptions, InputPiece
    from packstone.storage.fileio import FileIO

_BATCH_BYTES: Final = 8 << 20
_MAX_BATCH_ROWS: Final = 65_536
_PRE_BUFFER_BYTES: Final = 1 << 20


def read_inputs(io: FileIO, piece: InputPiece, *, schema: pa.Schema, options: InputOptions) -> Iterator[InputBatch]:
    """Yield the rows of a piece; ``schema`` is the table's, for files that name no columns or no types."""
    match piece.file.file_format:
        case InputFormat.PARQUET:
            return _read_parquet(io, piece)
        case InputFormat.ORC:
            return _read_orc(io, piece)
        case InputFormat.CSV:
            return read_csv(io, piece, schema=schema, options=options)
        case InputFormat.JSON:
            return read_json(io, piece, schema=schema)
        case unknown:
            assert_never(unknown)


def cut_batch(batch: pa.RecordBatch, *, source: str, first_row: int = 1) -> Iterator[InputBatch]:
    """A batch in slices that fit the cache; they share its memory."""
    rows = min(_MAX_BATCH_ROWS, max(1, _BATCH_BYTES * max(1, batch.num_rows) // max(1, batch.nbytes)))
    for at in range(0, batch.num_rows, rows):
        yield InputBatch(batch=batch.slice(at, rows), place=Place(source=source, first_row=first_row + at))


def _read_parquet(io: FileIO, piece: InputPiece) -> Iterator[InputBatch]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    path = piece.file.path
    with blame_file(path, "is no readable Parquet file"), io.open_input(path) as source:
        check_footer(source, path)
        # Microseconds: PyArrow would turn a 9999-12-31 of the old INT96 into a year of the 19th century.
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", buffer_size=_PRE_BUFFER_BYTES)
        metadata = file.metadata
        groups = range(piece.start, metadata.num_row_groups if piece.end == -1 else piece.end)
        row = 1 + sum(metadata.row_group(at).num_rows for at in range(piece.start))
        decoded = sum(metadata.row_group(at).total_byte_size for at in groups)
        rows = sum(metadata.row_group(at).num_rows for at in groups)
        row_bytes = max(1, decoded // max(1, rows), check_expansion(io, path, file))
        batch_rows = min(_MAX_BATCH_ROWS, max(1, _BATCH_BYTES // row_bytes))
        for batch in file.iter_batches(batch_size=batch_rows, row_groups=list(groups), use_threads=True):
            yield InputBatch(batch=batch, place=Place(source=path, first_row=row))
            row += batch.num_rows


def _read_orc(io: FileIO, piece: InputPiece) -> Iterator[InputBatch]:
    path = piece.file.path
    end = None if piece.end == -1 else piece.end
    with OrcReader(io, path, first_stripe=piece.start, end_stripe=end) as file:
        row = 1 + file.rows_before
        for batch in file.batches(file.schema.names, max_rows=_MAX_BATCH_ROWS):
            yield from cut_batch(batch, source=path, first_row=row)
            row += batch.num_rows
