"""Rows of an ORC file in batches, and a look whether it decodes at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from packstone.errors import UnreadableFileError, VerificationError
from packstone.rewrite.orc.tail import OrcTail, read_tail
from packstone.rewrite.parquet.footer import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.storage.fileio import FileIO

_BATCH_ROWS: Final = 1 << 14
_OUT_OF_RANGE: Final = "out of range"


class BeyondArrowError(Exception):
    """A timestamp is outside of 1677 to 2262, which PyArrow cannot hold; the file is none the worse for it."""


def all_orc_rows(io: FileIO, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of file after file, held against the number that the footer states."""
    for path in paths:
        rows = 0
        for batch in _read_batches(io, path, None):
            rows += batch.num_rows
            yield batch
        _check_rows(path, rows, read_tail(io, path))


def check_decodes(io: FileIO, paths: Sequence[str], output: str) -> None:
    """Decode all rows of the output once; if that fails, find the input that was broken before we came."""
    try:
        _decode(io, output)
    except UnreadableFileError as error:
        for path in paths:
            _decode(io, path)
        raise VerificationError(f"The output cannot be read back: {error.message}", file=output) from error


def read_orc_through(io: FileIO, path: str) -> None:
    """Decode all that PyArrow can."""
    _decode(io, path)


def _decode(io: FileIO, path: str) -> None:
    tail = read_tail(io, path)
    try:
        _check_rows(path, sum(batch.num_rows for batch in _read_batches(io, path, None)), tail)
    except BeyondArrowError:
        for name in dict.fromkeys(_column_names(io, path)):
            _decode_column(io, path, name, tail=tail)


def _decode_column(io: FileIO, path: str, name: str, *, tail: OrcTail) -> None:
    try:
        _check_rows(path, sum(batch.num_rows for batch in _read_batches(io, path, [name])), tail)
    except BeyondArrowError:
        return  # its bytes are proved by their digest, as those of all columns are


def _check_rows(path: str, rows: int, tail: OrcTail) -> None:
    if rows != tail.rows:
        raise UnreadableFileError(f"{path} holds {rows} rows although its footer says {tail.rows}.", file=path)


def _column_names(io: FileIO, path: str) -> list[str]:
    from pyarrow import orc  # noqa: PLC0415 - slow to import, and only for ORC

    with io.open_input(path) as source:
        names: list[str] = orc.ORCFile(source).schema.names
    return names


def _read_batches(io: FileIO, path: str, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    # The data-set reader cuts stripes into batches; ORCFile hands them out whole, but knows names that are used twice.
    import pyarrow.dataset as ds  # noqa: PLC0415 - slow to import, and only for ORC
    from pyarrow import orc  # noqa: PLC0415

    try:
        with io.open_input(path) as source:
            file = orc.ORCFile(source)
            names = file.schema.names
            if len(set(names)) < len(names):
                yield from (file.read_stripe(stripe) for stripe in range(file.nstripes))
                return
            fragment = ds.OrcFileFormat().make_fragment(source)
            yield from fragment.to_batches(
                columns=columns, batch_size=_BATCH_ROWS, use_threads=False, batch_readahead=0, fragment_readahead=0
            )
    except pa.ArrowInvalid as error:
        if _OUT_OF_RANGE in str(error):
            raise BeyondArrowError(str(error)) from error
        raise UnreadableFileError(f"{path} has a broken stripe: {one_line(error)}.", file=path) from error
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFileError(f"{path} is no readable ORC file: {one_line(error)}.", file=path) from error
