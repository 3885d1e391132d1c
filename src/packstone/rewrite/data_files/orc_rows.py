"""Rows of an ORC data file, in batches smaller than its stripes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from packstone.errors import UnfaithfulError, UnreadableFileError
from packstone.rewrite.parquet.footer import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.data_files.key_share import FileShare
    from packstone.storage.fileio import FileIO

_MAX_BATCH_ROWS = 1 << 16
_PROBED_ROWS = 256
_OUT_OF_RANGE = "out of range"


class OrcRows:
    """An open ORC file; batches come with the position of their first row."""

    def __init__(self, io: FileIO, path: str, columns: list[str]) -> None:
        # The data-set reader cuts stripes into batches; ORCFile hands them out whole.
        import pyarrow.dataset as ds  # noqa: PLC0415 - slow to import, and only for ORC

        self._path = path
        try:
            self._source = io.open_input(path)
            self._fragment = ds.OrcFileFormat().make_fragment(self._source)
            found = self._fragment.physical_schema
        except (pa.ArrowException, OSError) as error:
            raise UnreadableFileError(f"{path} is no readable ORC file: {one_line(error)}.", file=path) from error
        wanted = set(columns)
        self.schema = pa.schema([field for field in found if field.name in wanted])

    def batches(self, *, batch_bytes: int, share: FileShare | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches of about so many bytes; nothing is skipped, for PyArrow shows no statistics of ORC."""
        del share
        first = next(self._scan(_PROBED_ROWS), None)
        if first is None:
            return
        row_bytes = max(1, first.nbytes // first.num_rows)
        at = 0
        for batch in self._scan(min(_MAX_BATCH_ROWS, max(1, batch_bytes // row_bytes))):
            yield at, batch
            at += batch.num_rows

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _scan(self, rows: int) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._fragment.to_batches(
                columns=self.schema.names, batch_size=rows, use_threads=False, batch_readahead=0, fragment_readahead=0
            ):
                if batch.num_rows:
                    yield batch
        except pa.ArrowInvalid as error:
            if _OUT_OF_RANGE in str(error):
                raise UnfaithfulError(f"{self._path}: {one_line(error)}, which PyArrow needs for ORC") from error
            raise self._broken(error) from error
        except (pa.ArrowException, OSError) as error:
            raise self._broken(error) from error

    def _broken(self, error: BaseException) -> UnreadableFileError:
        return UnreadableFileError(f"{self._path} has a broken stripe: {one_line(error)}.", file=self._path)
