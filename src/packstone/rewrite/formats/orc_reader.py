"""Read the rows of ORC files in batches of bounded size, with timestamps as Java reads them.

PyArrow decodes; files that would crash it or exhaust memory are refused first (``orc_tail``, ``orc_streams``), and
values that it reads wrongly are replaced afterwards (``orc_times``). All code that decodes ORC uses this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from packstone.errors import UnfaithfulError, UnreadableFileError, VerificationError
from packstone.rewrite.blame_file import blame_file, one_line
from packstone.rewrite.formats import orc_tail
from packstone.rewrite.formats.orc_protobuf import BYTES, write_message
from packstone.rewrite.formats.orc_streams import check_blocks, find_batch_rows, read_streams
from packstone.rewrite.formats.orc_tail import OrcSource, OrcTail, UnknownCodecError, tail_of, write_tail
from packstone.rewrite.formats.orc_times import ExactTimes
from packstone.rewrite.proof.verify_files import check_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.storage.fileio import FileIO

_BEYOND_ARROW: Final = ("out of range", "Time zone file")


class BeyondArrowError(UnfaithfulError):
    """PyArrow cannot hold a timestamp (outside 1677 to 2262, or in a zone unknown to it); the file is not broken."""


class OrcReader:
    """An open ORC file, or some of its stripes."""

    def __init__(self, io: FileIO, path: str, *, first_stripe: int = 0, end_stripe: int | None = None) -> None:
        # The data-set reader cuts stripes into batches; ORCFile returns whole stripes, but supports duplicate names.
        import pyarrow.dataset as ds  # slow to import, and only for ORC
        from pyarrow import orc

        self._path = path
        with blame_file(path, "is not a readable ORC file"):
            self._opened = self._source = io.open_input(path)
            self.tail = _read_tail(self._source, path)
            self.rows_before = sum(stripe.rows for stripe in self.tail.stripes[:first_stripe])
            is_part = first_stripe > 0 or end_stripe is not None
            if is_part:
                self.tail = _part_of(self.tail, first_stripe, end_stripe)
                self._source = pa.PythonFile(_PartOfFile(self._opened, self.tail), mode="r")
            for stripe in self.tail.stripes:
                check_blocks(self._source, read_streams(self._source, stripe, tail=self.tail), tail=self.tail)
            self._max_rows = find_batch_rows(self._source, path, tail=self.tail)
            self._file = orc.ORCFile(self._source)
            self.schema: pa.Schema = self._file.schema
            self._fragment = ds.OrcFileFormat().make_fragment(self._source)

    def batches(self, columns: list[str], *, max_rows: int, is_exact: bool = True) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, and check their number against the footer.

        With ``is_exact``, for callers that use the values, timestamps are as Java reads them.
        """
        times = ExactTimes(self._source, self._path, tail=self.tail, names=columns) if is_exact else None
        rows = 0
        with blame_file(self._path, "has a broken stripe"):
            for batch in self._decode(columns, max_rows=min(max_rows, self._max_rows)):
                rows += batch.num_rows
                if batch.num_rows:
                    yield batch if times is None else times.apply(batch)
        if times is not None:
            times.check_end()
        if rows != self.tail.rows:
            raise UnreadableFileError(
                f"{self._path} holds {rows} rows, but its footer states {self.tail.rows}.", file=self._path
            )

    def close(self) -> None:
        """Close the file."""
        self._source.close()
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _decode(self, columns: list[str], *, max_rows: int) -> Iterator[pa.RecordBatch]:
        try:
            if len(set(self.schema.names)) < len(self.schema.names):
                yield from (self._file.read_stripe(stripe) for stripe in range(self._file.nstripes))
                return
            yield from self._fragment.to_batches(
                columns=columns, batch_size=max_rows, use_threads=False, batch_readahead=0, fragment_readahead=0
            )
        except (pa.ArrowException, OSError) as error:
            if any(sign in str(error) for sign in _BEYOND_ARROW):
                raise BeyondArrowError(f"{self._path}: {one_line(error)}, which PyArrow needs for ORC") from error
            raise


def _read_tail(source: OrcSource, path: str) -> OrcTail:
    try:
        return tail_of(source)
    except UnknownCodecError as error:
        raise UnfaithfulError(f"{path}: {error}") from error


def _part_of(tail: OrcTail, first: int, end: int | None) -> OrcTail:
    """The tail of a file that has only some of the stripes."""
    stripes = tail.stripes[first:end]
    rest = [field for field in tail.footer if field[0] != orc_tail.FOOTER_STRIPES]
    footer = [*rest, *((orc_tail.FOOTER_STRIPES, BYTES, write_message(stripe.fields)) for stripe in stripes)]
    footer = orc_tail.replace_ints(footer, {orc_tail.FOOTER_ROWS: sum(stripe.rows for stripe in stripes)})
    return OrcTail(
        postscript=tail.postscript,
        footer=footer,
        stripes=stripes,
        stripe_statistics=tail.stripe_statistics[first:end],
        compression=tail.compression,
        content_end=tail.content_end,
    )


class _PartOfFile:
    """A file with another tail, for readers that cannot select stripes."""

    def __init__(self, source: OrcSource, tail: OrcTail) -> None:
        self._source, self._content_end, self._at = source, tail.content_end, 0
        self._tail = write_tail(tail, footer=tail.footer, stripe_statistics=tail.stripe_statistics)
        self.closed = False

    def size(self) -> int:
        return self._content_end + len(self._tail)

    def seek(self, at: int, whence: int = 0) -> int:
        self._at = at + (0, self._at, self.size())[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size_bytes: int = -1) -> bytes:
        end = self.size() if size_bytes < 0 else min(self.size(), self._at + size_bytes)
        found = b""
        if self._at < self._content_end:
            found = self._source.read_at(min(end, self._content_end) - self._at, self._at)
            self._at += len(found)
        if end > self._content_end and self._at >= self._content_end:
            more = self._tail[self._at - self._content_end : end - self._content_end]
            self._at += len(more)
            found += more
        return found

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False


_BATCH_ROWS: Final = 1 << 14


def all_orc_rows(io: FileIO, paths: Sequence[str], *, checks_text: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files in order, and check their number against each footer."""
    for path in paths:
        with OrcReader(io, path) as file:
            for batch in file.batches(file.schema.names, max_rows=_BATCH_ROWS):
                if checks_text:
                    check_text(batch, path)
                yield batch


def check_decodes(io: FileIO, paths: Sequence[str], output: str, *, checks_text: bool) -> None:
    """Decode all rows of the output once; if that fails, find the input that was already broken."""
    try:
        _decode(io, output, checks_text=checks_text)
    except UnreadableFileError as error:
        for path in paths:
            _decode(io, path, checks_text=checks_text)
        raise VerificationError(f"The output cannot be read back: {error.message}", file=output) from error


def read_orc_through(io: FileIO, path: str) -> None:
    """Decode every column that PyArrow can decode, to check the file."""
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
        return  # its bytes are verified by their digest, as those of all columns


def _decode_columns(file: OrcReader, names: list[str], *, path: str, checks_text: bool) -> None:
    for batch in file.batches(names, max_rows=_BATCH_ROWS, is_exact=False):
        if checks_text:
            check_text(batch, path)
