"""Edits, and whether they still fit the table they are about to be committed to.

An edit is what a compaction changes in one bucket; a commit is a set of edits, at most one per bucket. The table may
have changed since the edits were planned. Appends do not matter. These changes do:

    an input is gone, or is on another level         another job compacted or overwrote it: the edit would double rows
    an added name is live already                    the same edit was committed before, or names were reused
    the partition has another number of buckets      it was rescaled: the rows belong in other buckets
    key ranges overlap on a level >= 1               two jobs each compacted their own level 0 to that level;
                                                     readers do not merge within a level: one key, two rows
    deletion vectors of an input changed             rows were deleted since the plan: the edit would restore them

Conflicts are found per bucket, so that one busy bucket does not make the others fail (apache/paimon#3143).
``find_conflicts`` is pure; ``TouchedReader`` reads the state that it compares the edits with. A commit reads that state
once and then applies the snapshots that follow. Only the touched partitions are read: a manifest whose partition range
in the manifest list excludes them is skipped. All buckets of these partitions count for the number of buckets; files
are kept for the touched buckets only.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from packstone.errors import ConflictError, CorruptionError, InvalidInputError
from packstone.tables.paimon.format.binary_row import comparable_key, decode_row, row_arity
from packstone.tables.paimon.format.data_file import DataFileMeta, FileKind, ManifestEntry
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.manifest import read_manifest
from packstone.tables.paimon.format.manifest_list import DELETION_VECTORS, read_index_manifest, read_manifest_list
from packstone.tables.paimon.format.snapshot import CommitKind, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.format.binary_row import Value
    from packstone.tables.paimon.format.data_file import ManifestFileMeta
    from packstone.tables.paimon.format.data_type import DataType
    from packstone.tables.paimon.format.manifest_list import IndexEntry
    from packstone.tables.paimon.format.snapshot import Snapshot

# Turns a serialised key into something with Paimon's order.
KeyOrder: TypeAlias = "Callable[[bytes], Any]"
FileLine: TypeAlias = tuple[int, str, tuple[str, ...], bytes | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The state, in the snapshot to build on, of the buckets that edits touch and of their partitions."""

    files: Mapping[BucketId, tuple[DataFileMeta, ...]]
    total_buckets: Mapping[bytes, frozenset[int]]  # all counts found in a partition; more than one is a writer's error
    # By bucket: data file -> the index file that holds its deletion vector.
    vectors: Mapping[BucketId, Mapping[str, str]] = field(default_factory=dict)
    # By index file: the data files that it covers.
    covered: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketConflict:
    """Why one bucket's edit no longer fits."""

    partition: bytes
    bucket: int
    why: str

    def __str__(self) -> str:
        return f"bucket-{self.bucket}: {self.why}"


def raise_conflicts(conflicts: tuple[BucketConflict, ...]) -> NoReturn:
    """Raise ConflictError, which names the buckets in ``facts['conflicts']``."""
    named = "; ".join(str(conflict) for conflict in conflicts[:3])
    raise ConflictError(
        f"The table changed since the plan in {len(conflicts)} buckets: {named}. Nothing was committed; plan again.",
        conflicts=conflicts,
    )


def find_conflicts(
    edits: Iterable[Edit], touched: Touched, *, key_order: KeyOrder | None
) -> tuple[BucketConflict, ...]:
    """Name the buckets whose edits do not fit the table, each with the first reason.

    ``key_order`` is None for tables without a primary key.
    """
    found = ((edit, next(_reasons(edit, touched, key_order), None)) for edit in edits)
    return tuple(
        BucketConflict(partition=edit.partition, bucket=edit.bucket, why=why) for edit, why in found if why is not None
    )


def _reasons(edit: Edit, touched: Touched, key_order: KeyOrder | None) -> Iterator[str]:
    live = touched.files.get(edit.bucket_id, ())
    yield from _other_bucket_count(edit, touched)
    yield from _gone(edit, live)
    yield from _live_already(edit, live)
    yield from _other_vectors(edit, touched)
    if key_order is not None:
        yield from _overlaps(_after(edit, live), key_order)


def _other_bucket_count(edit: Edit, touched: Touched) -> Iterator[str]:
    # Paimon counts only positive numbers: -1 and -2 mark tables whose buckets are not fixed.
    there = {count for count in touched.total_buckets.get(edit.partition, frozenset()) if count > 0}
    if edit.total_buckets > 0 and there - {edit.total_buckets}:
        counts = ", ".join(str(count) for count in sorted(there))
        yield f"its partition has {counts} buckets, and the plan was made for {edit.total_buckets}"


def _gone(edit: Edit, live: tuple[DataFileMeta, ...]) -> Iterator[str]:
    lines = {file_line(file) for file in live}
    levels = {file.file_name: file.level for file in live}
    for file in edit.before:
        if file_line(file) in lines:
            continue
        level = levels.get(file.file_name)
        if level is None:
            yield f"the input {file.file_name} is no longer live"
        elif level != file.level:
            yield f"the input {file.file_name} moved from level {file.level} to {level}"
        else:
            yield f"the input {file.file_name} has other extra files or another index now"


def _live_already(edit: Edit, live: tuple[DataFileMeta, ...]) -> Iterator[str]:
    names = {file.file_name for file in live} - {file.file_name for file in edit.before}
    for file in edit.after:
        if file.file_name in names:
            yield f"the output {file.file_name} is live already"


def _other_vectors(edit: Edit, touched: Touched) -> Iterator[str]:
    vectors = touched.vectors.get(edit.bucket_id, {})
    rewritten = {file.file_name for file in edit.rewritten}
    needed = {vectors[name] for name in rewritten if name in vectors}
    for index_file in sorted(needed.symmetric_difference(edit.index_files)):
        yield f"the deletion vectors of its inputs changed ({index_file})"
    for index_file in sorted(needed):
        others = touched.covered.get(index_file, frozenset()) - rewritten
        if others:
            yield f"the index file {index_file} holds deletion vectors of files that stay ({min(others)})"


def _after(edit: Edit, live: tuple[DataFileMeta, ...]) -> tuple[DataFileMeta, ...]:
    taken = {file_line(file) for file in edit.before}
    return (*(file for file in live if file_line(file) not in taken), *edit.after)


def _overlaps(files: tuple[DataFileMeta, ...], key_order: KeyOrder) -> Iterator[str]:
    levels: defaultdict[int, list[tuple[Any, Any, str]]] = defaultdict(list)
    for file in files:
        if file.level >= 1:
            levels[file.level].append((key_order(file.min_key), key_order(file.max_key), file.file_name))
    for level, ranges in sorted(levels.items()):
        ranges.sort(key=lambda at: at[0])
        for one, other in pairwise(ranges):
            if not one[1] < other[0]:
                yield f"the keys of {one[2]} and {other[2]} would overlap on level {level}"


def file_line(file: DataFileMeta) -> FileLine:
    """The part of a file's identity that distinguishes the files of one bucket."""
    return file.level, file.file_name, file.extra_files, file.embedded_file_index, file.external_path


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
        """Apply the snapshots after ``seen``; None if they do not suffice and the latest must be read in full.

        An overwrite may replace the whole lists (a rollback, a manifest compaction), so its delta proves nothing.
        """
        try:
            for number in range(seen.id + 1, latest.id + 1):
                snapshot = latest if number == latest.id else read_snapshot(self._io, self._table, number)
                if snapshot.commit_kind not in (CommitKind.APPEND, CommitKind.COMPACT, CommitKind.ANALYZE):
                    return None
                touched = self._apply(touched, snapshot)
        except (FileNotFoundError, CorruptionError):
            return None  # a snapshot expired, or the histories differ: reading the latest in full shows which
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

    def _is_wanted(self, partition: bytes, bucket: int) -> bool:
        return partition in self._partitions

    def _may_hold(self, meta: ManifestFileMeta) -> bool:
        if not self._types or len(self._partitions) > _PRUNE_PARTITIONS:
            return True
        low, high = meta.partition_stats.min_values, meta.partition_stats.max_values
        if row_arity(low) != len(self._types) or row_arity(high) != len(self._types):
            return True  # the writer left the statistics out
        spans = tuple(zip(decode_row(low, self._types), decode_row(high, self._types), self._types, strict=True))
        return any(_is_within(decode_row(partition, self._types), spans) for partition in self._partitions)


def read_index_entries(io: FileIO, table: str, snapshot: Snapshot) -> tuple[IndexEntry, ...]:
    """The live index files of a snapshot; none if it has no index manifest."""
    if snapshot.index_manifest is None:
        return ()
    entries = read_index_manifest(io, f"{table}/manifest/{snapshot.index_manifest}")
    return tuple(entry for entry in entries if entry.kind is FileKind.ADD)


def _is_within(values: Sequence[Value], spans: Sequence[tuple[Value, Value, DataType]]) -> bool:
    """Whether each value lies in its span; spans do not cover nulls, so a null always passes."""
    for value, (low, high, data_type) in zip(values, spans, strict=True):
        if value is None or low is None or high is None:
            continue
        least, this, most = (comparable_key((at,), (data_type,)) for at in (low, value, high))
        if not least <= this <= most:
            return False
    return True


BucketId: TypeAlias = tuple[bytes, int]  # the partition's serialised row, and the number of the bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """The files that a compaction removes from one bucket and those that it adds.

    A file that only moves to another level is in both lists, under the same name.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    before: tuple[DataFileMeta, ...]
    after: tuple[DataFileMeta, ...]
    # Deletion-vector index files that are removed with the inputs. Each must cover rewritten inputs and nothing else.
    index_files: tuple[str, ...] = ()

    @property
    def bucket_id(self) -> BucketId:
        """Which bucket this is."""
        return self.partition, self.bucket

    @property
    def delta_rows(self) -> int:
        """Rows added less rows removed; usually negative."""
        return sum(file.row_count for file in self.after) - sum(file.row_count for file in self.before)

    @property
    def rewritten(self) -> tuple[DataFileMeta, ...]:
        """The inputs whose names are not among the outputs: all but the upgraded ones."""
        names = {file.file_name for file in self.after}
        return tuple(file for file in self.before if file.file_name not in names)

    def entries(self) -> Iterator[ManifestEntry]:
        """Yield the manifest entries: every DELETE before every ADD.

        Expiry removes a path whose last entry is a DELETE, so an upgrade written the other way round would lose
        its file later.
        """
        for file in self.before:
            yield self._entry(FileKind.DELETE, file)
        for file in self.after:
            yield self._entry(FileKind.ADD, file)

    def __str__(self) -> str:
        return f"bucket-{self.bucket}: {len(self.before)} files -> {len(self.after)}"

    def _entry(self, kind: FileKind, file: DataFileMeta) -> ManifestEntry:
        return ManifestEntry(
            kind=kind, partition=self.partition, bucket=self.bucket, total_buckets=self.total_buckets, file=file
        )


def check_edits(edits: Iterable[Edit]) -> None:
    """Raise InvalidInputError unless the edits are consistent with each other: one per bucket, no entry twice.

    A file deleted and added under one identity is refused too: readers match entries by identity, in any order, so
    the file could vanish.
    """
    buckets: set[BucketId] = set()
    totals: dict[bytes, int] = {}
    for edit in edits:
        if edit.bucket_id in buckets:
            raise InvalidInputError(f"Two edits of bucket-{edit.bucket} of one partition cannot be one commit.")
        buckets.add(edit.bucket_id)
        if totals.setdefault(edit.partition, edit.total_buckets) != edit.total_buckets:
            raise InvalidInputError("The edits of one partition disagree on its number of buckets.")
        if not edit.before and not edit.after:
            raise InvalidInputError(f"The edit of bucket-{edit.bucket} changes nothing.")
        identities = [entry.identity for entry in edit.entries()]
        if len(set(identities)) != len(identities):
            raise InvalidInputError(f"The edit of bucket-{edit.bucket} names a file twice on one level.")
        names = [file.file_name for file in edit.after]
        if len(set(names)) != len(names):
            raise InvalidInputError(f"The edit of bucket-{edit.bucket} adds a file twice.")
