"""Avro records as columns, many blocks at once.

Records are of different lengths, so within a block the next one is found only by walking through the one before. But
blocks do not depend on each other: there is one cursor a block, and all cursors walk through a field of their next
record together, each step one NumPy operation over all blocks. A million manifest entries need seconds instead of
half a minute, and fields that nobody asked for cost no objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from packstone.errors import CorruptionError
from packstone.storage.avro_container import read_blocks, read_header, root_schema

Longs: TypeAlias = npt.NDArray[np.int64]
_Lanes: TypeAlias = slice | Longs  # which cursors walk: the first few, or these
_Step: TypeAlias = Callable[[_Lanes], None]

_VARINT_BITS: Final = 63
_PADDING: Final = bytes(16)  # so that a cursor at the end can still be looked at
_FIXED_BYTES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8, "fixed": 0}


@dataclass(slots=True, kw_only=True)
class Column:
    """One field of all records: numbers, or where the bytes stand; of an array where it begins and its first count."""

    values: Longs  # the number; the length of bytes and text; how many items the first part of an array has
    starts: Longs  # where bytes, text or an array begin in the body; empty for numbers
    present: npt.NDArray[np.bool_]


@dataclass(slots=True, kw_only=True)
class AvroColumns:
    """Wanted fields by their path, ``_FILE._LEVEL``; those that the files do not have are missing."""

    file_rows: tuple[int, ...]  # how many records each file has; they follow each other
    body: bytes
    columns: Mapping[str, Column]


def read_columns(files: Sequence[tuple[str, bytes]], *, wanted: frozenset[str]) -> AvroColumns:
    """Decode the wanted fields of Avro files (path and content) that all have one schema."""
    headers = [read_header(data, path=path) for path, data in files]
    schema = root_schema(headers[0], path=files[0][0])
    file_blocks = [
        list(read_blocks(data, header, path=path)) for (path, data), header in zip(files, headers, strict=True)
    ]
    blocks = [block for each in file_blocks for block in each if block[0]]
    body = b"".join([content for _, content in blocks] + [_PADDING])
    try:
        walk = _Walk(body, blocks, wanted)
        walk.run(walk.compile(schema, ""))
    except (IndexError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        for one in files if len(files) > 1 else ():  # find the file that is damaged
            read_columns([one], wanted=wanted)
        raise CorruptionError(f"A record of {files[0][0]} cannot be read: {error}.", path=files[0][0]) from error
    file_rows = tuple(sum(count for count, _ in each) for each in file_blocks)
    return AvroColumns(file_rows=file_rows, body=body, columns=walk.columns)


class _Walk:
    """The cursors, and the columns that they fill."""

    def __init__(self, body: bytes, blocks: list[tuple[int, bytes]], wanted: frozenset[str]) -> None:
        if any(count > len(block) for count, block in blocks):
            raise ValueError("its block cannot hold so many")
        counts = np.array([count for count, _ in blocks], dtype=np.int64)
        ends = np.cumsum([len(block) for _, block in blocks], dtype=np.int64)
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64) if blocks else ends
        first_rows = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64) if blocks else counts
        order = np.argsort(-counts, kind="stable")  # longest first: those still walking are a prefix
        self._bytes = np.frombuffer(body, dtype=np.uint8)
        self._counts, self._ends = counts[order], ends[order]
        self._at, self._row = starts[order], first_rows[order]
        self._wanted = wanted
        self._named: dict[str, Any] = {}
        self.rows = int(counts.sum())
        self.columns: dict[str, Column] = {}

    def run(self, step: _Step) -> None:
        """Walk all cursors to the end of their blocks."""
        for done in range(int(self._counts.max(initial=0))):
            walking = slice(0, int(np.searchsorted(-self._counts, -done, side="left")))
            step(walking)
            if (self._at[walking] > self._ends[walking]).any():
                raise ValueError("it reaches beyond its block")
            self._row[walking] += 1
        if not np.array_equal(self._at, self._ends):
            raise ValueError("its block does not end with it")

    def compile(self, schema: Any, path: str) -> _Step:  # noqa: ANN401 - JSON
        """Make the step that walks over a value of this schema; ValueError for a schema that cannot be."""
        if isinstance(schema, list):
            return self._union([self.compile(branch, path) for branch in schema])
        if isinstance(schema, str) and schema in self._named:
            return self.compile(self._named[schema], path)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, list | dict):
            return self.compile(kind, path)
        if isinstance(schema, dict) and "name" in schema:
            self._named[schema["name"]] = self._named[schema["name"].rpartition(".")[2]] = schema
        if kind in {"record", "array", "map"}:
            return self._nested(schema, path)
        if kind in {"int", "long", "enum"}:
            return self._number(path)
        if kind in {"bytes", "string"}:
            return self._bytes_value(path)
        if kind == "null" or (kind in _FIXED_BYTES and path not in self._wanted):
            return self._skip(schema["size"] if kind == "fixed" else _FIXED_BYTES[kind])
        raise ValueError(f"its field {path} is of the type {kind}")

    def _nested(self, schema: Mapping[str, Any], path: str) -> _Step:
        match schema["type"]:
            case "record":
                prefix = f"{path}." if path else ""
                return _sequence([self.compile(field["type"], prefix + field["name"]) for field in schema["fields"]])
            case "array":
                return self._array(self.compile(schema["items"], f"{path}[]"), path)
            case _:
                entry = _sequence([self._bytes_value(f"{path}{{}}"), self.compile(schema["values"], f"{path}[]")])
                return self._array(entry, path)

    def _column(self, path: str, *, spans: bool) -> Column | None:
        if path not in self._wanted or path in self.columns:
            return self.columns.get(path)
        column = Column(
            values=np.zeros(self.rows, dtype=np.int64),
            starts=np.zeros(self.rows if spans else 0, dtype=np.int64),
            present=np.zeros(self.rows, dtype=np.bool_),
        )
        self.columns[path] = column
        return column

    def _long(self, lanes: _Lanes) -> Longs:
        at = self._at[lanes]
        byte = self._bytes[at]
        number = (byte & 0x7F).astype(np.uint64)
        at = at + 1
        more = byte >= 0x80  # noqa: PLR2004 - the mark of a varint that goes on
        shift = 7
        while more.any():
            if shift > _VARINT_BITS:
                raise ValueError("a number is too long")
            byte = np.where(more, self._bytes[at], 0).astype(np.uint8)
            number |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            at += more
            more = byte >= 0x80  # noqa: PLR2004 - as above
            shift += 7
        self._at[lanes] = at
        half: Longs = (number >> np.uint64(1)).astype(np.int64)
        return half ^ -(number & np.uint64(1)).astype(np.int64)

    def _number(self, path: str) -> _Step:
        column = self._column(path, spans=False)

        def step(lanes: _Lanes) -> None:
            number = self._long(lanes)
            if column is not None:
                rows = self._row[lanes]
                column.values[rows] = number
                column.present[rows] = True

        return step

    def _bytes_value(self, path: str) -> _Step:
        column = self._column(path, spans=True)

        def step(lanes: _Lanes) -> None:
            length = self._long(lanes)
            if (length < 0).any():
                raise ValueError("a length is negative")
            if column is not None:
                rows = self._row[lanes]
                column.values[rows], column.starts[rows] = length, self._at[lanes]
                column.present[rows] = True
            self._at[lanes] += length

        return step

    def _skip(self, size: int) -> _Step:
        def step(lanes: _Lanes) -> None:
            self._at[lanes] += size

        return step

    def _union(self, branches: list[_Step]) -> _Step:
        def step(lanes: _Lanes) -> None:
            chosen = self._long(lanes)
            first = int(chosen[0])
            if 0 <= first < len(branches) and (chosen == first).all():
                branches[first](lanes)
                return
            if ((chosen < 0) | (chosen >= len(branches))).any():
                raise ValueError("a union has no such branch")
            for number, branch in enumerate(branches):
                taken = chosen == number
                if taken.any():
                    branch(_some(lanes, taken))

        return step

    def _array(self, item: _Step, path: str) -> _Step:
        column = self._column(path, spans=True)

        def step(lanes: _Lanes) -> None:
            begin = self._at[lanes].copy()
            count = self._long(lanes)
            if column is not None:
                rows = self._row[lanes]
                column.values[rows], column.starts[rows] = count, begin
                column.present[rows] = True
            while count.any():
                if not count.all():
                    lanes, count = _some(lanes, count != 0), count[count != 0]
                sized = count < 0
                if sized.any():
                    skipped = _some(lanes, sized)
                    size = self._long(skipped)
                    self._at[skipped] += size
                for number in range(int(count.max(initial=0))):
                    goes_on = count > number
                    item(lanes if goes_on.all() else _some(lanes, goes_on))
                count = self._long(lanes)

        return step


def _some(lanes: _Lanes, chosen: npt.NDArray[np.bool_]) -> Longs:
    return np.flatnonzero(chosen) if isinstance(lanes, slice) else lanes[chosen]


def _sequence(steps: list[_Step]) -> _Step:
    def step(lanes: _Lanes) -> None:
        for one in steps:
            one(lanes)

    return step
