"""Partition rows by the hash of their key, in memory or, beyond a budget, in files of a local folder.

All rows of one key are in one part, in the order in which they were added, so that parts can be merged one by one in
bounded memory. Rows are held until they take more than the budget; then the rows of each part are appended to its file.

A block of 40,000 rows in 256 parts has 160 rows in each: with every column on its own, cutting and joining such pieces
cost more than hashing the rows. So the 64-bit columns that cannot be null are kept side by side in one matrix, a row in
40 bytes, and a piece is one slice of it.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import types

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

Column: TypeAlias = Any  # a numpy array of plain numbers, or a PyArrow array
Words: TypeAlias = "NDArray[np.uint64]"  # a row of words for each row
LO, HI = "lo", "hi"  # the columns of a block that hold the lanes of the key

# Parts of up to this many rows are grouped within the cache.
_PART_ROWS: Final = 1 << 16
# At most 512 open files; the usual limit is 1024. At 50 bytes per row and 256 MB this is enough for 600 million rows.
_MOST_BITS: Final = 9
# The memory for holding, grouping and merging the rows of a part, as a multiple of their size.
_WORKING_PARTS: Final = 5
_BYTE: Final = 8
_WORD_BITS: Final = 64
_WORDS: Final = "words"  # the column of a spilled part that holds the matrix


def part_bits(*, rows: int, row_bytes: int, memory_bytes: int) -> int:
    """Return how many top bits of the hash select the part, so that each fits the memory and if possible the cache."""
    part_bytes = max(1, memory_bytes // _WORKING_PARTS)
    parts = max(-(-rows // _PART_ROWS), -(-rows * row_bytes // part_bytes))
    return min(_MOST_BITS, max(0, (parts - 1).bit_length()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Rows in the order of their parts; those of part n are between ``cuts[n]`` and ``cuts[n + 1]``.

    Other integers without nulls are numpy arrays, which are taken and sliced in a tenth of PyArrow's time.
    """

    words: Words
    columns: tuple[Column, ...]
    cuts: list[int]

    def cut(self, column: int, part: int) -> Column:
        """Return the values of one part."""
        return self.columns[column][self.cuts[part] : self.cuts[part + 1]]

    def cut_words(self, part: int) -> Words:
        """Return the words of one part."""
        return self.words[self.cuts[part] : self.cuts[part + 1]]


class Spread:
    """Blocks of rows, all of one schema that includes the lanes of the key, split into parts."""

    def __init__(self, *, bits: int, memory_bytes: int, folder: str | None) -> None:
        self._bits = bits
        self._memory_bytes = memory_bytes
        self._parent = folder
        self._schema = pa.schema([])
        self._held: list[_Block] = []
        self._held_bytes = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._writers: list[tuple[Any, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return 1 << self._bits

    @property
    def spilled(self) -> bool:
        """Whether rows are on disk."""
        return self._folder is not None

    def add(self, block: pa.RecordBatch) -> None:
        """Add the next rows; integers are copied, so the caller may reuse their memory."""
        self._schema = block.schema
        hi = block.column(HI).to_numpy()
        # The top bits, in two steps because no shift is as wide as the word.
        part = (hi >> np.uint64(1) >> np.uint64(63 - self._bits)).astype(np.uint8 if self._bits <= _BYTE else np.uint16)
        cuts = np.concatenate(([0], np.cumsum(np.bincount(part, minlength=len(self)))))
        order = np.argsort(part, kind="stable")
        words = [column for column, field in zip(block.columns, block.schema, strict=True) if _is_word(field)]
        matrix = np.empty((block.num_rows, len(words)), dtype=np.uint64)
        for place, column in enumerate(words):
            matrix[:, place] = column.to_numpy().view(np.uint64)
        places = pa.array(order)
        columns = tuple(
            column.to_numpy().take(order) if _is_plain(column) else column.take(places)
            for column, field in zip(block.columns, block.schema, strict=True)
            if not _is_word(field)
        )
        self._held.append(_Block(words=matrix.take(order, axis=0), columns=columns, cuts=cuts.tolist()))
        self._held_bytes += block.nbytes
        if self._held_bytes > self._memory_bytes:
            self._spill()

    def part(self, number: int) -> pa.Table | None:
        """Return the rows of one part in their order, None if it has none; no row may be added afterwards."""
        self._close_writers()
        tables = [self._join(number)]
        if self._folder is not None:
            with pa.OSFile(str(self._path(number))) as source, pa.ipc.open_stream(source) as reader:
                tables.insert(0, reader.read_all())
        whole = pa.concat_tables([table for table in tables if table.num_rows] or tables[:1])
        return self._split_words(whole) if whole.num_rows else None

    def close(self) -> None:
        """Release all rows and remove the files."""
        self._held = []
        self._close_writers()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _join(self, part: int) -> pa.Table:
        """Return the rows of one part that are in memory, the words of a row as one value."""
        words, others = _split_fields(self._schema)
        matrix = np.concatenate(
            [np.empty((0, len(words)), dtype=np.uint64), *(block.cut_words(part) for block in self._held)]
        )
        columns = [
            _concatenate([block.cut(number, part) for block in self._held], field.type)
            for number, field in enumerate(others)
        ]
        if words:
            kind = pa.binary(8 * len(words))
            columns.append(pa.Array.from_buffers(kind, len(matrix), [None, pa.py_buffer(matrix)]))
            others = [*others, pa.field(_WORDS, kind)]
        return pa.Table.from_arrays(columns, schema=pa.schema(others))

    def _split_words(self, part: pa.Table) -> pa.Table:
        """Return the rows with a column for each word again."""
        words, _ = _split_fields(self._schema)
        if not words:
            return part
        packed = part.column(_WORDS).combine_chunks()
        buffer = packed.buffers()[1]
        values = np.frombuffer(buffer, np.uint64, count=len(packed) * len(words), offset=packed.offset * 8 * len(words))
        matrix = np.ascontiguousarray(values.reshape(-1, len(words)).T)
        columns = {
            field.name: matrix[place].view(np.int64 if types.is_signed_integer(field.type) else np.uint64)
            for place, field in enumerate(words)
        }
        return pa.Table.from_arrays(
            [pa.array(columns[name]) if name in columns else part.column(name) for name in self._schema.names],
            schema=self._schema,
        )

    def _spill(self) -> None:
        """Append the rows in memory to the files of their parts."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="packstone-verify-", dir=self._parent)
            sinks = [pa.OSFile(str(self._path(number)), "wb") for number in range(len(self))]
            schema = self._join(0).schema
            self._writers = [(sink, pa.ipc.new_stream(sink, schema)) for sink in sinks]
        for number, (_, writer) in enumerate(self._writers):
            writer.write_table(self._join(number))
        self._held = []
        self._held_bytes = 0

    def _path(self, number: int) -> Path:
        return Path("" if self._folder is None else self._folder.name) / f"part-{number}.arrow"

    def _close_writers(self) -> None:
        for sink, writer in self._writers:
            writer.close()
            sink.close()
        self._writers = []


def _is_word(field: pa.Field) -> bool:
    return bool(not field.nullable and types.is_integer(field.type) and field.type.bit_width == _WORD_BITS)


def _split_fields(schema: pa.Schema) -> tuple[list[pa.Field], list[pa.Field]]:
    """Return the fields that are words of the matrix, and the others."""
    return [field for field in schema if _is_word(field)], [field for field in schema if not _is_word(field)]


def _is_plain(column: pa.Array) -> bool:
    return bool(types.is_integer(column.type) and not column.null_count)


def _concatenate(pieces: list[Column], kind: pa.DataType) -> pa.Array:
    if not pieces:
        return pa.array([], kind)
    if all(isinstance(piece, np.ndarray) for piece in pieces):
        return pa.array(np.concatenate(pieces))
    return pa.concat_arrays([pa.array(piece) if isinstance(piece, np.ndarray) else piece for piece in pieces])
