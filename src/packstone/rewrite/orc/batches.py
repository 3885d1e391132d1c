"""Rows of ORC files one after the other, and a look whether a file decodes at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from packstone.errors import UnreadableFileError, VerificationError
from packstone.rewrite.orc.reader import BeyondArrowError, OrcReader
from packstone.rewrite.proof.check_text import check_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from packstone.storage.fileio import FileIO

_BATCH_ROWS: Final = 1 << 14


def all_orc_rows(io: FileIO, paths: Sequence[str], *, checks_text: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the rows of file after file, held against the number that the footer states."""
    for path in paths:
        with OrcReader(io, path) as file:
            for batch in file.batches(file.schema.names, max_rows=_BATCH_ROWS):
                if checks_text:
                    check_text(batch, path)
                yield batch


def check_decodes(io: FileIO, paths: Sequence[str], output: str, *, checks_text: bool) -> None:
    """Decode all rows of the output once; if that fails, find the input that was broken before we came."""
    try:
        _decode(io, output, checks_text=checks_text)
    except UnreadableFileError as error:
        for path in paths:
            _decode(io, path, checks_text=checks_text)
        raise VerificationError(f"The output cannot be read back: {error.message}", file=output) from error


def read_orc_through(io: FileIO, path: str) -> None:
    """Decode all that PyArrow can."""
    _decode(io, path, checks_text=False)


def _decode(io: FileIO, path: str, *, checks_text: bool) -> None:
    with OrcReader(io, path) as file:
        names = file.schema.names
        try:
            _decode_columns(file, names, path=path, checks_text=checks_text)
        except BeyondArrowError:
            for name in dict.fromkeys(names):
                _decode_column(file, name, path=path, checks_text=checks_text)


def _decode_column(file: OrcReader, name: str, *, path: str, checks_text: bool) -> None:
    try:
        _decode_columns(file, [name], path=path, checks_text=checks_text)
    except BeyondArrowError:
        return  # its bytes are proved by their digest, as those of all columns are


def _decode_columns(file: OrcReader, names: list[str], *, path: str, checks_text: bool) -> None:
    for batch in file.batches(names, max_rows=_BATCH_ROWS, is_exact=False):
        if checks_text:
            check_text(batch, path)
