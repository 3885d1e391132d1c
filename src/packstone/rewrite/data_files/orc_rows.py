"""Rows of an ORC data file, in batches smaller than its stripes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from packstone.rewrite.orc.decoded_size import MAX_BATCH_ROWS
from packstone.rewrite.orc.reader import OrcReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.data_files.key_share import FileShare
    from packstone.storage.fileio import FileIO

_PROBED_ROWS = 256


class OrcRows:
    """An open ORC file; batches come with the position of their first row."""

    def __init__(self, io: FileIO, path: str, columns: list[str]) -> None:
        self._file = OrcReader(io, path)
        wanted = set(columns)
        self.schema = pa.schema([field for field in self._file.schema if field.name in wanted])

    def batches(self, *, batch_bytes: int, share: FileShare | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of about this size; nothing is skipped, for PyArrow shows no statistics of ORC."""
        del share
        first = next(self._file.batches(self.schema.names, max_rows=_PROBED_ROWS), None)
        if first is None:
            return
        row_bytes = max(1, first.nbytes // first.num_rows)
        rows = min(MAX_BATCH_ROWS, max(1, batch_bytes // row_bytes))
        at = 0
        for batch in self._file.batches(self.schema.names, max_rows=rows):
            yield at, batch
            at += batch.num_rows

    def close(self) -> None:
        """Close the file."""
        self._file.close()
