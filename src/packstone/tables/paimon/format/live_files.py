"""The live files of a snapshot: those that its manifests added and did not delete again.

The metadata of a table of a million files does not fit in memory. So buckets are read in *waves*: a first pass reads
only partition and bucket of every entry, then each wave reads the manifests that hold an entry of one of its buckets. A
table that fits in one wave is read once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from packstone.errors import CorruptionError
from packstone.storage.fileio import FileIO
from packstone.tables.paimon.format.data_file import (
    BucketFiles,
    DataFileMeta,
    FileKind,
    ManifestEntry,
    ManifestFileMeta,
)
from packstone.tables.paimon.format.lean_manifest import BucketPredicate, read_buckets, read_lean_entries
from packstone.tables.paimon.format.manifest import read_manifest
from packstone.tables.paimon.format.manifest_list import read_all_manifests
from packstone.tables.paimon.format.snapshot import Snapshot

ManifestPredicate: TypeAlias = Callable[[ManifestFileMeta], bool]
BucketKey: TypeAlias = tuple[bytes, int]
_FileKey: TypeAlias = tuple[object, ...]

WAVE_ENTRIES: Final = 250_000  # with statistics; about 300 MB
LEAN_WAVE_ENTRIES: Final = 1_000_000  # without


def read_live_files(
    io: FileIO,
    table: str,
    snapshot: Snapshot,
    *,
    wanted: BucketPredicate | None = None,
    may_hold: ManifestPredicate | None = None,
    lean: bool = False,
    wave_entries: int | None = None,
) -> Iterator[BucketFiles]:
    """Yield each wanted bucket with its live files, in the order in which manifests name them first.

    ``wanted`` is called with partition (its bytes) and bucket. ``may_hold`` may skip whole manifests by their entry in
    the manifest list, if none of their entries can be wanted. ``lean`` leaves the statistics out (see manifest.py).
    A file that is deleted without having been added raises CorruptionError.
    """
    limit = wave_entries or (LEAN_WAVE_ENTRIES if lean else WAVE_ENTRIES)
    metas = [meta for meta in read_all_manifests(io, table, snapshot) if may_hold is None or may_hold(meta)]
    paths = tuple(f"{table}/manifest/{meta.file_name}" for meta in metas)
    if sum(meta.num_added_files + meta.num_deleted_files for meta in metas) <= limit:
        yield from merge_entries(_entries(io, paths, wanted, lean=lean))
        return
    for wave in _waves(_index(io, paths, wanted), limit):
        yield from merge_entries(_entries(io, wave.paths, wave.holds, lean=lean))


def merge_entries(entries: Iterable[ManifestEntry]) -> Iterator[BucketFiles]:
    """Cancel deletes against adds and group the remaining files by bucket."""
    buckets: dict[BucketKey, dict[_FileKey, DataFileMeta]] = {}
    totals: dict[BucketKey, int] = {}
    for entry in entries:
        file = entry.file
        at, key = (entry.partition, entry.bucket), _file_key(file)
        live = buckets.setdefault(at, {})
        if entry.kind is FileKind.DELETE:
            if live.pop(key, None) is None:
                raise CorruptionError(f"{file.file_name} is deleted but was never added.", file=file.file_name)
            continue
        if key in live:
            raise CorruptionError(f"{file.file_name} is added twice.", file=file.file_name)
        live[key] = file
        totals[at] = entry.total_buckets
    while buckets:
        at = next(iter(buckets))
        files = tuple(buckets.pop(at).values())
        if files:
            yield BucketFiles(partition=at[0], bucket=at[1], total_buckets=totals[at], files=files)


def _file_key(file: DataFileMeta) -> _FileKey:
    """The identity of a file within its bucket (see ManifestEntry.identity); two values for nearly all files."""
    more = (file.extra_files, file.embedded_file_index, file.external_path)
    return (file.level, file.file_name, more) if any(more) else (file.level, file.file_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wave:
    """Some buckets, and the manifests that hold entries of them."""

    paths: tuple[str, ...]
    buckets: frozenset[BucketKey]

    def holds(self, partition: bytes, bucket: int) -> bool:
        return (partition, bucket) in self.buckets


@dataclass(slots=True, kw_only=True)
class _Index:
    """Entries per bucket (in order of first appearance), and per manifest the numbers of its buckets."""

    counts: dict[BucketKey, list[int]]
    manifests: list[tuple[str, array[int]]]


def _index(io: FileIO, paths: Iterable[str], wanted: BucketPredicate | None) -> _Index:
    index = _Index(counts={}, manifests=[])
    for path, keys in read_buckets(io, paths):
        seen: set[int] = set()
        for key in keys:
            slot = index.counts.get(key)
            if slot is None:
                if wanted is not None and not wanted(*key):
                    continue
                slot = index.counts[key] = [len(index.counts), 0]
            slot[1] += 1
            seen.add(slot[0])
        if seen:
            index.manifests.append((path, array("L", sorted(seen))))
    return index


def _waves(index: _Index, wave_entries: int) -> Iterator[_Wave]:
    start, entries = 0, 0
    keys = list(index.counts)
    for number, key in enumerate(keys):
        count = index.counts[key][1]
        if entries and entries + count > wave_entries:
            yield _wave(index, keys, range(start, number))
            start, entries = number, 0
        entries += count
    if entries:
        yield _wave(index, keys, range(start, len(keys)))


def _wave(index: _Index, keys: list[BucketKey], numbers: range) -> _Wave:
    paths = tuple(path for path, held in index.manifests if any(number in numbers for number in held))
    return _Wave(paths=paths, buckets=frozenset(keys[number] for number in numbers))


def _entries(
    io: FileIO, paths: Iterable[str], wanted: BucketPredicate | None, *, lean: bool
) -> Iterator[ManifestEntry]:
    if lean:
        return read_lean_entries(io, paths, wanted=wanted)
    return (entry for path in paths for entry in read_manifest(io, path, wanted=wanted))
