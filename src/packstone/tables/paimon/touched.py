"""What a snapshot says of the buckets that a commit touches: read once, then kept up with the snapshots that follow.

Only the touched partitions are read: whole manifests are passed over by what their list says of their partitions. All
buckets of these partitions count for their number of buckets; files are kept of the touched ones only.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError
from packstone.tables.paimon.binary_row import comparable_key, decode_row, row_arity
from packstone.tables.paimon.conflicts import Touched, file_line
from packstone.tables.paimon.index_manifest import DELETION_VECTORS, read_index_manifest
from packstone.tables.paimon.live_files import read_live_files
from packstone.tables.paimon.manifest import read_manifest
from packstone.tables.paimon.manifest_entry import FileKind
from packstone.tables.paimon.manifest_list import read_manifest_list
from packstone.tables.paimon.snapshot import CommitKind
from packstone.tables.paimon.snapshot_files import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.binary_row import Value
    from packstone.tables.paimon.data_file_meta import DataFileMeta
    from packstone.tables.paimon.data_type import DataType
    from packstone.tables.paimon.edit import BucketId
    from packstone.tables.paimon.index_manifest import IndexEntry
    from packstone.tables.paimon.manifest_entry import ManifestEntry
    from packstone.tables.paimon.manifest_file_meta import ManifestFileMeta
    from packstone.tables.paimon.snapshot import Snapshot

# More than this many partitions are not compared with each manifest's range: reading is cheaper than deciding.
_PRUNE_PARTITIONS: Final = 1000


class TouchedReader:
    """Reads the state of some buckets of one table."""

    def __init__(
        self, io: FileIO, table: str, *, buckets: Iterable[BucketId], partition_types: tuple[DataType, ...]
    ) -> None:
        self._io, self._table = io, table
        self._buckets = frozenset(buckets)
        self._partitions = frozenset(partition for partition, _ in self._buckets)
        self._types = partition_types

    def read(self, snapshot: Snapshot) -> Touched:
        """Read base and delta of a snapshot."""
        files: dict[BucketId, tuple[DataFileMeta, ...]] = {}
        totals: defaultdict[bytes, set[int]] = defaultdict(set)
        for found in read_live_files(self._io, self._table, snapshot, wanted=self._is_wanted, may_hold=self._may_hold):
            totals[found.partition].add(found.total_buckets)
            if (found.partition, found.bucket) in self._buckets:
                files[found.partition, found.bucket] = found.files
        touched = Touched(files=files, total_buckets={at: frozenset(counts) for at, counts in totals.items()})
        return self._with_vectors(touched, snapshot)

    def advance(self, touched: Touched, *, seen: Snapshot, latest: Snapshot) -> Touched | None:
        """Apply the snapshots after ``seen``; None if they do not tell all: read the latest one whole.

        An overwrite may replace the lists as a whole (a rollback, a manifest compaction), so its delta proves nothing.
        """
        try:
            for number in range(seen.id + 1, latest.id + 1):
                snapshot = latest if number == latest.id else read_snapshot(self._io, self._table, number)
                if snapshot.commit_kind not in (CommitKind.APPEND, CommitKind.COMPACT, CommitKind.ANALYZE):
                    return None
                touched = self._apply(touched, snapshot)
        except (FileNotFoundError, CorruptionError):
            return None  # expired meanwhile, or two histories: the whole is read, which tells which
        return self._with_vectors(touched, latest)

    def _apply(self, touched: Touched, snapshot: Snapshot) -> Touched:
        files = {at: {file_line(file): file for file in some} for at, some in touched.files.items()}
        totals = dict(touched.total_buckets)
        for entry in self._changes(snapshot):
            if entry.kind is FileKind.ADD:
                totals[entry.partition] = totals.get(entry.partition, frozenset()) | {entry.total_buckets}
            at = entry.partition, entry.bucket
            if at not in self._buckets:
                continue
            if entry.kind is FileKind.ADD:
                files.setdefault(at, {})[file_line(entry.file)] = entry.file
            elif files.get(at, {}).pop(file_line(entry.file), None) is None:
                raise CorruptionError(f"{entry.file.file_name} is deleted but was never added.")
        return replace(touched, files={at: tuple(some.values()) for at, some in files.items()}, total_buckets=totals)

    def _with_vectors(self, touched: Touched, snapshot: Snapshot) -> Touched:
        vectors: defaultdict[BucketId, dict[str, str]] = defaultdict(dict)
        covered: dict[str, frozenset[str]] = {}
        for entry in read_index_entries(self._io, self._table, snapshot):
            at = entry.partition, entry.bucket
            if entry.index_type == DELETION_VECTORS and at in self._buckets:
                names = [found.data_file for found in entry.ranges or ()]
                covered[entry.file_name] = frozenset(names)
                vectors[at].update(dict.fromkeys(names, entry.file_name))
        return replace(touched, vectors=dict(vectors), covered=covered)

    def _changes(self, snapshot: Snapshot) -> Iterator[ManifestEntry]:
        folder = f"{self._table}/manifest"
        for meta in read_manifest_list(self._io, f"{folder}/{snapshot.delta_manifest_list}"):
            if self._may_hold(meta):
                yield from read_manifest(self._io, f"{folder}/{meta.file_name}", wanted=self._is_wanted)

    def _is_wanted(self, partition: bytes, bucket: int) -> bool:  # noqa: ARG002 - the predicate's signature
        return partition in self._partitions

    def _may_hold(self, meta: ManifestFileMeta) -> bool:
        if not self._types or len(self._partitions) > _PRUNE_PARTITIONS:
            return True
        low, high = meta.partition_stats.min_values, meta.partition_stats.max_values
        if row_arity(low) != len(self._types) or row_arity(high) != len(self._types):
            return True  # a writer that left them out
        spans = tuple(zip(decode_row(low, self._types), decode_row(high, self._types), self._types, strict=True))
        return any(_is_within(decode_row(partition, self._types), spans) for partition in self._partitions)


def read_index_entries(io: FileIO, table: str, snapshot: Snapshot) -> tuple[IndexEntry, ...]:
    """The live index files of a snapshot; none if it has no index manifest."""
    if snapshot.index_manifest is None:
        return ()
    entries = read_index_manifest(io, f"{table}/manifest/{snapshot.index_manifest}")
    return tuple(entry for entry in entries if entry.kind is FileKind.ADD)


def _is_within(values: Sequence[Value], spans: Sequence[tuple[Value, Value, DataType]]) -> bool:
    """Whether each value lies in its span; nulls are not in spans, so they may be anywhere."""
    for value, (low, high, data_type) in zip(values, spans, strict=True):
        if value is None or low is None or high is None:
            continue
        least, this, most = (comparable_key((at,), (data_type,)) for at in (low, value, high))
        if not least <= this <= most:
            return False
    return True
