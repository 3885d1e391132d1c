"""Files that users load, as batches: Parquet, ORC, CSV and JSON lines, in bounded memory and in the files' order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import pyarrow as pa

from packstone.rewrite.inputs.bad_rows import Place
from packstone.rewrite.inputs.convert_rows import InputBatch
from packstone.rewrite.inputs.input_files import InputFormat, unreadable
from packstone.rewrite.inputs.read_csv import read_csv
from packstone.rewrite.inputs.read_json import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    try:
        with io.open_input(path) as source:
            # Microseconds: PyArrow would turn a 9999-12-31 of the old INT96 into a year of the 19th century.
            file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", buffer_size=_PRE_BUFFER_BYTES)
            metadata = file.metadata
            groups = range(piece.start, metadata.num_row_groups if piece.end == -1 else piece.end)
            row = 1 + sum(metadata.row_group(at).num_rows for at in range(piece.start))
            decoded = sum(metadata.row_group(at).total_byte_size for at in groups)
            rows = sum(metadata.row_group(at).num_rows for at in groups)
            batch_rows = min(_MAX_BATCH_ROWS, max(1, _BATCH_BYTES * max(1, rows) // max(1, decoded)))
            for batch in file.iter_batches(batch_size=batch_rows, row_groups=list(groups), use_threads=True):
                yield InputBatch(batch=batch, place=Place(source=path, first_row=row))
                row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, "Parquet", error) from error


def _read_orc(io: FileIO, piece: InputPiece) -> Iterator[InputBatch]:
    from pyarrow import orc  # noqa: PLC0415 - slow to import

    path = piece.file.path
    try:
        with io.open_input(path) as source:
            file = orc.ORCFile(source)
            row = 1 + sum(file.read_stripe(at, columns=[]).num_rows for at in range(piece.start))
            for stripe in range(piece.start, file.nstripes if piece.end == -1 else piece.end):
                batch = file.read_stripe(stripe)
                yield from cut_batch(batch, source=path, first_row=row)
                row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, "ORC", error) from error
