"""Where PyArrow's ORC writer writes to: what it stores otherwise than Java does is corrected on the way to the file.

Two things are: fractions of a second before 1970, and statistics of columns with negative zeros. Both are rare. From
the first of them on, what PyArrow writes is held in a temporary file, because a stripe can be read only by means of the
footer at the end; then it is copied with the corrections (``java_form``).
"""

from __future__ import annotations

import tempfile
from typing import IO, TYPE_CHECKING, Any

from packstone.rewrite.orc.java_form import has_early_fraction, has_negative_zero, write_like_java
from packstone.rewrite.orc.tail import tail_of
from packstone.storage.fileio import abandon_output

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import orc


class CorrectedSink:
    """A file for PyArrow to write to."""

    def __init__(self, target: Any) -> None:  # noqa: ANN401 - a NativeFile
        self._target = target
        self._held: IO[bytes] | None = None
        self._passed_bytes = self._size_bytes = 0
        self._failure: BaseException | None = None
        self.closed = False

    @property
    def is_corrected(self) -> bool:
        """Whether something was to be corrected."""
        return self._held is not None

    def write_rows(self, writer: orc.ORCWriter, rows: pa.Table) -> None:
        """Let PyArrow write rows; UnfaithfulError if ORC cannot store one of them."""
        found = [
            has_early_fraction(chunk) or has_negative_zero(chunk) for column in rows.columns for chunk in column.chunks
        ]
        if any(found) and self._held is None:
            # Between two writes of rows, so this is where a stripe begins. The file has no name: nobody else reads it.
            self._held = tempfile.TemporaryFile()  # noqa: SIM115 - closed by finish or abandon
            self._passed_bytes = self._size_bytes
        writer.write(rows)
        self._check()

    def finish(self, writer: orc.ORCWriter) -> None:
        """Let PyArrow write the footer, write what was held back, corrected, and close the file."""
        writer.close()
        self._check()
        if self._held is not None:
            write_like_java(self, self._target, tail_of(self), first_byte=self._passed_bytes)
            self._held.close()
        self._target.close()

    def abandon(self, writer: orc.ORCWriter | None) -> None:
        """Close everything without caring for the content: what PyArrow still writes is dropped."""
        self._failure = self._failure or OSError("given up")
        if writer is not None:
            writer.close()
        if self._held is not None:
            self._held.close()
        abandon_output(self._target)

    def write(self, data: bytes) -> int:
        """Take bytes of PyArrow. A failure of the storage is kept from it: PyArrow would end the process."""
        if self._failure is None:
            try:
                (self._held or self._target).write(data)
            except BaseException as error:  # noqa: BLE001 - raised by _check
                self._failure = error
        self._size_bytes += len(data)
        return len(data)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def tell(self) -> int:
        """How many bytes PyArrow wrote."""
        return self._size_bytes

    def flush(self) -> None:
        """Nothing to do: the file is made durable when it is closed."""

    def close(self) -> None:
        """PyArrow is done; the file is not."""

    def size(self) -> int:
        """How many bytes PyArrow wrote."""
        return self._size_bytes

    def read_at(self, nbytes: int, offset: int, /) -> bytes:
        """Read what was held back."""
        assert self._held is not None  # noqa: S101 - only what is held is read
        self._held.seek(max(0, offset - self._passed_bytes))
        return self._held.read(nbytes)
