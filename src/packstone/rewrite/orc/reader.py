"""Rows of an ORC file in batches of bounded size, with timestamps as Java reads them.

PyArrow decodes; what it must not see is refused before (``tail``, ``decoded_size``), and what it reads wrongly is
exchanged afterwards (``times``). Every path that decodes ORC goes through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.blame_file import blame_file, one_line
from packstone.rewrite.orc import tail as orc_tail
from packstone.rewrite.orc.decoded_size import find_batch_rows
from packstone.rewrite.orc.protobuf import BYTES, write_message
from packstone.rewrite.orc.streams import check_blocks, read_streams
from packstone.rewrite.orc.tail import ByteSource, OrcTail, UnknownCodecError, tail_of, write_tail
from packstone.rewrite.orc.times import ExactTimes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

_BEYOND_ARROW: Final = ("out of range", "Time zone file")


class BeyondArrowError(UnfaithfulError):
    """A timestamp is beyond PyArrow: outside of 1677 to 2262, or in a zone it does not know; the file is not broken."""


class OrcReader:
    """An open ORC file, or some of its stripes."""

    def __init__(self, io: FileIO, path: str, *, first_stripe: int = 0, end_stripe: int | None = None) -> None:
        # The data-set reader cuts stripes into batches; ORCFile hands them out whole, but knows names used twice.
        import pyarrow.dataset as ds  # noqa: PLC0415 - slow to import, and only for ORC
        from pyarrow import orc  # noqa: PLC0415

        self._path = path
        with blame_file(path, "is no readable ORC file"):
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
        """Yield the rows in their order, and check that they are as many as the footer says.

        ``is_exact`` is for those who use the values: timestamps are as Java reads them.
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
                f"{self._path} holds {rows} rows although its footer says {self.tail.rows}.", file=self._path
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


def _read_tail(source: ByteSource, path: str) -> OrcTail:
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
    """A file under another tail, for readers that cannot be asked for some stripes."""

    def __init__(self, source: ByteSource, tail: OrcTail) -> None:
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
