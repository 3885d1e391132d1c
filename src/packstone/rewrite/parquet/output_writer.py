"""PyArrow's writer of Parquet files, without its finalizer."""

from __future__ import annotations

import pyarrow.parquet as pq


class OutputWriter(pq.ParquetWriter):  # type: ignore[misc]  # pyarrow has no types
    """Writes nothing more, and prints nothing, when it is dropped after a failure.

    PyArrow's own finalizer closes the writer: on a full disk that fails a second time, and since nobody can catch it,
    Python prints a traceback. Whoever opens a writer here closes it, or gives the file up.
    """

    def __del__(self) -> None:
        """Leave the file as it is."""
