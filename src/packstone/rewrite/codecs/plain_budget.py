"""How much may come out of compressed files before they are taken for bombs.

One megabyte can hold gigabytes. Memory is no reason to fear it, because nothing is held as a whole, but time is: all of
it is read three times, and records are walked through one by one. So a file may become 64 times its size and 64 MiB
more, and so may the files of a merge together; a record counts as 16 bytes at least. A merged file is about as long as
its inputs, so it is within the limit whenever they were, and can be merged again.
"""

from __future__ import annotations

from typing import Final

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.model.megabytes import MB

MOST_RATIO: Final = 64  # text and records are compressed to a tenth or a thirtieth
FREE_BYTES: Final = 64 << 20
RECORD_BYTES: Final = 16
MAX_PIECE_BYTES: Final = 128 << 20  # what is decompressed at once and held: a block, a column, a value


class PlainBudget:
    """What the files of one merge may become, one after the other."""

    def __init__(self, stored_bytes: int) -> None:
        self._stored_bytes = stored_bytes
        self._left = _most(stored_bytes)
        self._path, self._file_bytes, self._file_left = "", 0, 0

    def begin(self, path: str, stored_bytes: int) -> None:
        """Begin with the next file."""
        self._path, self._file_bytes, self._file_left = path, stored_bytes, _most(stored_bytes)

    def spend(self, plain_bytes: int, *, records: int = 0) -> None:
        """Count bytes that came out, and records in them; blame the file, or all of them, for too many."""
        spent = max(plain_bytes, RECORD_BYTES * records)
        self._left -= spent
        self._file_left -= spent
        if self._file_left < 0:
            raise UnreadableFileError(
                f"{self._path} is left alone: decompressed, its {self._file_bytes / MB:.1f} MB become more than "
                f"{_most(self._file_bytes) / MB:.1f} MB.",
                file=self._path,
            )
        if self._left < 0:
            raise UnfaithfulError(
                f"decompressed, their {self._stored_bytes / MB:.1f} MB become more than "
                f"{_most(self._stored_bytes) / MB:.1f} MB"
            )


def _most(stored_bytes: int) -> int:
    return FREE_BYTES + MOST_RATIO * stored_bytes
