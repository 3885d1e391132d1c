"""Deletion vectors: which rows of a data file count as deleted, by position.

An index file begins with the byte 1; then come the vectors, each ``int32 size, magic, Roaring bitmap, int32 CRC-32 of
magic and bitmap``. The index manifest has the position of each data file's vector.

Roaring bitmaps are sorted sets of row positions. They are only read here, in the public format (RoaringFormatSpec):
containers of 65,536 positions, each an array, a bit set or runs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from packstone.errors import CorruptionError
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.format.data_file import FileKind
from packstone.tables.paimon.format.manifest_list import (
    DELETION_VECTORS,
    DeletionVectorRange,
    IndexEntry,
    read_index_manifest,
)
from packstone.tables.paimon.format.paths import manifest_folder
from packstone.tables.paimon.format.snapshot import Snapshot

_VERSION: Final = 1
_MAGIC_32: Final = (1_581_511_376).to_bytes(4, "big")
_MAGIC_64: Final = (1_681_511_377).to_bytes(4, "little")


def read_deletion_entries(io: FileIO, table: str, snapshot: Snapshot) -> tuple[IndexEntry, ...]:
    """The live index files with deletion vectors; empty if the snapshot has no index manifest."""
    if snapshot.index_manifest is None:
        return ()
    entries = read_index_manifest(io, f"{manifest_folder(table)}/{snapshot.index_manifest}")
    return tuple(entry for entry in entries if entry.index_type == DELETION_VECTORS and entry.kind is FileKind.ADD)


def index_file_path(table: str, entry: IndexEntry, *, bucket_folder: str | None = None) -> str:
    """The path of an index file; pass ``bucket_folder`` if index-file-in-data-file-dir is set."""
    return entry.external_path or f"{bucket_folder or f'{table}/index'}/{entry.file_name}"


def read_deletion_vectors(io: FileIO, path: str, ranges: Iterable[DeletionVectorRange]) -> Mapping[str, Positions]:
    """The positions of deleted rows, ascending, by data file."""
    try:
        data = io.read_bytes(path)
    except FileNotFoundError:
        raise CorruptionError(f"Index file {path} is missing.", path=path) from None
    if data[:1] != bytes([_VERSION]):
        raise CorruptionError(f"Index file {path} does not begin with version {_VERSION}.", path=path)
    return {item.data_file: _vector(data, item, path) for item in ranges}


def _vector(data: bytes, item: DeletionVectorRange, path: str) -> Positions:
    try:
        (size,) = struct.unpack_from(">i", data, item.offset)
        body = data[item.offset + 4 : item.offset + 4 + size]
        (checksum,) = struct.unpack_from(">I", data, item.offset + 4 + size)
    except struct.error:
        raise CorruptionError(f"Index file {path} ends inside the vector of {item.data_file}.", path=path) from None
    if len(body) != size or zlib.crc32(body) != checksum:
        raise CorruptionError(f"Index file {path}: the vector of {item.data_file} is damaged.", path=path)
    magic, bitmap = body[:4], body[4:]
    if magic == _MAGIC_32:
        positions = decode_roaring(bitmap)[0]
    elif magic == _MAGIC_64:
        positions = decode_roaring64(bitmap)
    else:
        raise CorruptionError(f"Index file {path}: the vector of {item.data_file} is of an unknown kind.", path=path)
    if item.cardinality is not None and item.cardinality != len(positions):
        raise CorruptionError(
            f"Index file {path}: the vector of {item.data_file} has {len(positions)} rows, not {item.cardinality}.",
            path=path,
        )
    return positions


# ---- Roaring bitmaps ----


Positions: TypeAlias = npt.NDArray[np.int64]

_COOKIE: Final = 12347  # with runs; the number of containers is in the upper half
_COOKIE_NO_RUNS: Final = 12346
_NO_OFFSETS_BELOW: Final = 4  # with runs and fewer containers there is no table of offsets
_BITSET_BYTES: Final = 8192
_ARRAY_MAX: Final = 4096  # more values than this are stored as a bit set


def decode_roaring(data: bytes) -> tuple[Positions, int]:
    """Positions of a 32-bit bitmap, ascending, and the number of bytes read."""
    try:
        return _decode(data)
    except (struct.error, ValueError, IndexError) as error:
        raise CorruptionError(f"A Roaring bitmap cannot be read: {error}.") from error


def decode_roaring64(data: bytes) -> Positions:
    """Positions of a 64-bit bitmap: a count, then one 32-bit bitmap for each upper half."""
    try:
        (count,) = struct.unpack_from("<q", data)
        at, parts = 8, [np.empty(0, dtype=np.int64)]
        for _ in range(count):
            (high,) = struct.unpack_from("<I", data, at)
            low, used = _decode(data[at + 4 :])
            parts.append(low + (high << 32))
            at += 4 + used
    except (struct.error, ValueError, IndexError) as error:
        raise CorruptionError(f"A 64-bit Roaring bitmap cannot be read: {error}.") from error
    return np.concatenate(parts)


def _decode(data: bytes) -> tuple[Positions, int]:
    (cookie,) = struct.unpack_from("<I", data)
    at = 4
    has_runs = cookie & 0xFFFF == _COOKIE
    if has_runs:
        containers = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(data, np.uint8, (containers + 7) // 8, at), bitorder="little")
        at += (containers + 7) // 8
    elif cookie == _COOKIE_NO_RUNS:
        (containers,) = struct.unpack_from("<I", data, at)
        flags = np.zeros(containers, dtype=np.uint8)
        at += 4
    else:
        raise ValueError(f"its first bytes are {cookie:#x}")
    heads = np.frombuffer(data, "<u2", 2 * containers, at).astype(np.int64)
    at += 4 * containers
    if not has_runs or containers >= _NO_OFFSETS_BELOW:
        at += 4 * containers  # containers follow one another, so the table of offsets is not needed
    parts = [np.empty(0, dtype=np.int64)]
    for number in range(containers):
        low, used = _container(data, at, cardinality=int(heads[2 * number + 1]) + 1, is_run=bool(flags[number]))
        parts.append(low + (int(heads[2 * number]) << 16))
        at += used
    return np.concatenate(parts), at


def _container(data: bytes, at: int, *, cardinality: int, is_run: bool) -> tuple[Positions, int]:
    if is_run:
        (runs,) = struct.unpack_from("<H", data, at)
        pairs = np.frombuffer(data, "<u2", 2 * runs, at + 2).astype(np.int64).reshape(runs, 2)
        spans = [np.arange(start, start + more + 1, dtype=np.int64) for start, more in pairs]
        return np.concatenate([np.empty(0, dtype=np.int64), *spans]), 2 + 4 * runs
    if cardinality > _ARRAY_MAX:
        bits = np.unpackbits(np.frombuffer(data, np.uint8, _BITSET_BYTES, at), bitorder="little")
        return np.flatnonzero(bits).astype(np.int64), _BITSET_BYTES
    return np.frombuffer(data, "<u2", cardinality, at).astype(np.int64), 2 * cardinality
