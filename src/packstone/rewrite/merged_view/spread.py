"""Rows spread into parts by the hash of their key, in memory or, beyond a budget, in files of a local folder.

All rows of one key are in one part, in the order in which they came, so that parts can be merged one by one in bounded
memory. Rows are held until they take more than the budget; then each part's go to the end of a file of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
from pyarrow import types

from packstone.rewrite.value_hash import I64

if TYPE_CHECKING:
    from types import TracebackType

LO, HI = "lo", "hi"  # the columns of a block that hold the lanes of the key

# Parts of this many rows are grouped in the cache.
_PART_ROWS: Final = 1 << 18
# 512 files open at a time, the usual limit being 1024. At 50 bytes a row and 256 MB that is room for 600 million rows.
_MOST_BITS: Final = 9
# What holding a part's rows, grouping them and merging them takes, in parts.
_WORKING_PARTS: Final = 5


def part_bits(*, rows: int, row_bytes: int, memory_bytes: int) -> int:
    """How many top bits of the hash number the parts, so that each fits the cache if it can, and the memory."""
    part_bytes = max(1, memory_bytes // _WORKING_PARTS)
    parts = max(-(-rows // _PART_ROWS), -(-rows * row_bytes // part_bytes))
    return min(_MOST_BITS, max(0, (parts - 1).bit_length()))


class Spread:
    """Blocks of rows, all of one schema with the lanes of the key in it, cut into parts."""

    def __init__(self, *, bits: int, memory_bytes: int, folder: str | None) -> None:
        self._bits = bits
        self._memory_bytes = memory_bytes
        self._parent = folder
        self._held: list[list[pa.RecordBatch]] = [[] for _ in range(1 << bits)]
        self._held_bytes = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._writers: list[tuple[Any, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def spilled(self) -> bool:
        """Whether rows are on disk."""
        return self._folder is not None

    def add(self, block: pa.RecordBatch) -> None:
        """Take in the next rows."""
        if not self._bits:
            self._hold(0, block)
        else:
            numbers = block.column(HI).to_numpy() >> np.uint64(64 - self._bits)
            part = numbers.astype(np.uint16)
            cuts = np.concatenate(([0], np.cumsum(np.bincount(part, minlength=len(self._held)))))
            ordered = _take(block, np.argsort(part, kind="stable"))
            for number in np.flatnonzero(np.diff(cuts)):
                self._hold(int(number), ordered.slice(cuts[number], cuts[number + 1] - cuts[number]))
        self._held_bytes += block.nbytes
        if self._held_bytes > self._memory_bytes:
            self._spill()

    def __len__(self) -> int:
        return len(self._held)

    def part(self, number: int) -> pa.Table | None:
        """Return the rows of one part, in the order in which they came; None if it has none. No row may be added."""
        self._close_writers()
        held = self._held[number]
        tables = [pa.Table.from_batches(held)] if held else []
        if self._folder is not None:
            with pa.OSFile(str(self._path(number))) as source, pa.ipc.open_stream(source) as reader:
                tables.insert(0, reader.read_all())
        return pa.concat_tables(tables) if tables and sum(map(len, tables)) else None

    def close(self) -> None:
        """Let go of all rows, and remove the files."""
        self._held = []
        self._close_writers()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _hold(self, part: int, rows: pa.RecordBatch) -> None:
        self._held[part].append(rows)

    def _spill(self) -> None:
        """Append what is held to the parts' files."""
        schema = next(held[0].schema for held in self._held if held)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="packstone-verify-", dir=self._parent)
            sinks = [pa.OSFile(str(self._path(number)), "wb") for number in range(len(self._held))]
            self._writers = [(sink, pa.ipc.new_stream(sink, schema)) for sink in sinks]
        for (_, writer), held in zip(self._writers, self._held, strict=True):
            if held:
                writer.write_table(pa.Table.from_batches(held).combine_chunks())
            held.clear()
        self._held_bytes = 0

    def _path(self, number: int) -> Path:
        return Path("" if self._folder is None else self._folder.name) / f"part-{number}.arrow"

    def _close_writers(self) -> None:
        for sink, writer in self._writers:
            writer.close()
            sink.close()
        self._writers = []


def _take(block: pa.RecordBatch, rows: I64) -> pa.RecordBatch:
    """Gather rows; plain numbers by numpy, which does it in a tenth of PyArrow's time."""
    places = pa.array(rows)
    columns = [
        pa.array(column.to_numpy().take(rows)) if _is_plain(column) else column.take(places) for column in block.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=block.schema)


def _is_plain(column: pa.Array) -> bool:
    return bool(types.is_integer(column.type) and not column.null_count)
