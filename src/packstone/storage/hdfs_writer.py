"""Writing a file of HDFS: few, big pieces, and durable when it is closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from packstone.storage.hdfs_errors import as_os_errors

if TYPE_CHECKING:
    from hdfs_native import FileWriter

_PIECE_BYTES: Final = 1 << 20


class HdfsWriter:
    """A file object, as ``pyarrow.PythonFile`` wants one; ``close`` raises unless every byte is durable."""

    def __init__(self, writer: FileWriter, path: str) -> None:
        self._writer, self._path = writer, path
        self._kept = bytearray()
        self._written = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        """Take bytes; they go out when there are enough of them."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        self._kept += data
        if len(self._kept) >= _PIECE_BYTES:
            self._send()
        return len(data)

    def tell(self) -> int:
        """How many bytes were taken."""
        return self._written + len(self._kept)

    def flush(self) -> None:
        """Nothing: readers see a file when it is closed."""

    def close(self) -> None:
        """Send what is left, let the DataNodes write it to disk, and close the file on the NameNode."""
        if self.closed:
            return
        self.closed = True
        self._send()
        with as_os_errors(self._path):
            if self._written:
                self._sync()
            self._writer.close()

    def readable(self) -> bool:
        """No."""
        return False

    def seekable(self) -> bool:
        """No."""
        return False

    def writable(self) -> bool:
        """Yes."""
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self) -> None:
        if self._kept:
            with as_os_errors(self._path):
                self._writer.write(bytes(self._kept))
            self._written += len(self._kept)
            self._kept = bytearray()

    def _sync(self) -> None:
        try:
            self._writer.hsync()
        except RuntimeError as error:
            if "unsupported" not in str(error).lower():  # erasure-coded files: their close alone must do
                raise
