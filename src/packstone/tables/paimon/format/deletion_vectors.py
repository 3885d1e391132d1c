"""Deletion vectors: which rows of a data file count as deleted, by position.

An index file begins with the byte 1; then come the vectors, each ``int32 size, magic, Roaring bitmap, int32 CRC-32 of
magic and bitmap``. The index manifest has the position of each data file's vector.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Final

from packstone.errors import CorruptionError
from packstone.rewrite.formats.roaring import Positions, decode_roaring, decode_roaring64
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
