"""One Parquet file, written by PyArrow row group by row group, with a footer that can say more than PyArrow lets it.

PyArrow writes the footer last. It is held back, changed where that is needed, and written then:

- statistics of floating-point columns follow the rule of ``float_statistics``;
- ``created_by`` can be that of the inputs, where readers take the meaning of values from it;
- the caller may have an edit of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from packstone.errors import CorruptionError
from packstone.rewrite.parquet.check_footer import MAGIC
from packstone.rewrite.parquet.float_statistics import InputBounds, float_leaves, keep_true_statistics, nan_leaves
from packstone.rewrite.parquet.output_writer import OutputWriter
from packstone.rewrite.parquet.thrift_compact import BINARY, Struct, read_struct, write_struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TAIL_BYTES: Final = 8  # the footer's length and the magic
# FileMetaData, RowGroup
_ROW_GROUPS, _CREATED_BY, _COLUMNS = 4, 6, 1
_NO_INPUTS: Final = InputBounds()


class ParquetFileWriter:
    """An open Parquet file; every table that is written becomes a row group."""

    def __init__(
        self,
        sink: Any,  # noqa: ANN401 - a pyarrow file
        schema: pa.Schema,
        *,
        options: Mapping[str, Any],
        created_by: str | None = None,
        edit: Callable[[Struct], None] | None = None,
    ) -> None:
        self._floats = float_leaves(schema)
        self._created_by, self._own_edit = created_by, edit
        self._groups: list[tuple[frozenset[int], frozenset[int]]] = []  # leaves without bounds, and sound ones
        self._sink = _TailSink(sink)
        if self._floats:
            # Then PyArrow writes no statistics into page headers, where they could not be changed any more.
            options = {**options, "write_page_index": True}
        self._writer = OutputWriter(self._sink, schema, **options)

    def write(self, rows: pa.Table, *, inputs: InputBounds = _NO_INPUTS) -> None:
        """Write one row group; ``inputs`` is about the chunks that its rows come from, by floating-point leaf."""
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        of_nan = nan_leaves(rows) if self._floats else frozenset()
        without = {leaf for at, leaf in enumerate(self._floats) if at in inputs.missing}
        sound = frozenset(leaf for at, leaf in enumerate(self._floats) if at in inputs.sound)
        self._groups.append((of_nan | without, sound))

    def close(self, key_values: Mapping[bytes, bytes] | None = None) -> pq.FileMetaData:
        """Write the footer with these key-values, and return it."""
        if key_values:
            self._writer.add_key_value_metadata(dict(key_values))
        self._sink.hold()
        self._writer.close()
        tail = self._sink.held
        begin = len(tail) - _TAIL_BYTES - int.from_bytes(tail[-_TAIL_BYTES:-4], "little")
        footer = tail[begin:-_TAIL_BYTES]
        if self._floats or self._created_by is not None or self._own_edit is not None:
            footer = self._edit(footer)
        end = footer + len(footer).to_bytes(4, "little") + MAGIC
        self._sink.release(tail[:begin] + end)
        return pq.read_metadata(pa.BufferReader(MAGIC + end))

    def abandon(self) -> None:
        """Write nothing more: the file is not wanted any longer, or its storage failed."""
        self._sink.drop()

    def _edit(self, data: bytes) -> bytes:
        footer = read_struct(data)[0]
        groups: list[Struct] = footer[_ROW_GROUPS][1].items
        if len(groups) != len(self._groups):
            raise CorruptionError(f"PyArrow wrote {len(groups)} row groups, not {len(self._groups)}.")
        for group, (unbounded, sound) in zip(groups, self._groups, strict=True):
            for leaf in self._floats:
                chunk = group[_COLUMNS][1].items[leaf]
                keep_true_statistics(chunk, has_bounds=leaf not in unbounded, may_state_range=leaf not in sound)
        if self._created_by:
            footer[_CREATED_BY] = BINARY, self._created_by.encode()
        elif self._created_by is not None:
            footer.pop(_CREATED_BY, None)
        if self._own_edit is not None:
            self._own_edit(footer)
        return write_struct(footer)


class _TailSink:
    """A file for PyArrow's writer: bytes pass through until ``hold`` is called, later ones are kept."""

    def __init__(self, sink: Any) -> None:  # noqa: ANN401 - a pyarrow file
        self._sink = sink
        self._held: bytearray | None = None
        self._is_dropped = False
        self.closed = False

    def write(self, data: bytes) -> int:
        """Write, or keep."""
        if self._held is not None:
            self._held += data
        elif not self._is_dropped:
            self._sink.write(data)
        return len(data)

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        """Leave the real file open: its owner closes it."""
        self.closed = True

    def hold(self) -> None:
        """Keep what comes from here on."""
        self._held = bytearray()

    def release(self, tail: bytes) -> None:
        """Write this in place of what was kept."""
        self._held = None
        self._sink.write(tail)

    def drop(self) -> None:
        """Forget what comes from here on."""
        self._held, self._is_dropped = None, True

    @property
    def held(self) -> bytes:
        """What was kept."""
        return bytes(self._held or b"")
