"""One attempt at a commit before it is published: its manifests, manifest lists and snapshot.

All its files have unique names, recorded before the files are created, and nothing refers to them until the snapshot
has its number. So an attempt that certainly failed is removed, and one whose outcome is unknown is left to
``leftovers``.

Each commit may also rewrite some of the manifests that it inherits, to keep their number small. The rule is Paimon's.
``full``: once manifests that are small or hold deletions sum up to a threshold (16 MB), all of them are rewritten, and
deletions cancel their additions. ``minor``: otherwise neighbours are joined until they reach the target size (8 MB); a
last group that stays smaller is joined only if it has many members (30).

    minor, target 8 MB      [5 4 | 8 | 1 1 1]  ->  [9] [8] [1 1 1]
    full, threshold 16 MB   [20 | 9- 5 4]      ->  [20] [what is left of 9, 5 and 4]    (9- holds deletions)

Merging makes planning cheaper and is never a reason to fail: the caller may always continue with the previous
manifests. Memory is bounded by the number of deletions, not of files: a first pass notes the DELETE entries (of those
manifests that have any), a second one copies all entries but matched pairs.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict, deque
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from packstone.errors import CorruptionError
from packstone.tables.paimon.conflicts import read_index_entries
from packstone.tables.paimon.format.data_file import FileIdentity, FileKind, ManifestEntry
from packstone.tables.paimon.format.manifest import read_manifest, write_manifests
from packstone.tables.paimon.format.manifest_list import read_all_manifests, write_index_manifest, write_manifest_list
from packstone.tables.paimon.format.snapshot import CommitKind, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from packstone.runs.clock import Clock
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.commit import CommitOptions
    from packstone.tables.paimon.conflicts import Edit
    from packstone.tables.paimon.format.data_file import ManifestFileMeta
    from packstone.tables.paimon.format.schema import TableSchema

# The only property that the next snapshot inherits: writers that number rows by snapshot start from it.
_MAX_SEQUENCE: Final = "sequence.generation.max-sequence-number"
_NAMES_AT_ONCE: Final = 16  # manifest names reserved by one record


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Manifests of the base, and their replacements."""

    before: tuple[ManifestFileMeta, ...]
    after: tuple[ManifestFileMeta, ...]

    @property
    def created(self) -> tuple[str, ...]:
        """Names of the new manifests."""
        known = {meta.file_name for meta in self.before}
        return tuple(meta.file_name for meta in self.after if meta.file_name not in known)

    def apply(self, manifests: tuple[ManifestFileMeta, ...]) -> tuple[ManifestFileMeta, ...] | None:
        """The manifests of a later snapshot with this merge applied; None if they do not begin with ``before``."""
        if manifests[: len(self.before)] != self.before:
            return None
        return self.after + manifests[len(self.before) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A snapshot whose manifests are written but which is not published."""

    snapshot: Snapshot
    merged: Merged
    created: tuple[str, ...]  # paths, without those of ``merged``


class DraftWriter:
    """Writes the drafts of one commit."""

    def __init__(
        self,
        io: FileIO,
        table: str,
        *,
        options: CommitOptions,
        clock: Clock,
        record: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._io, self._table = io, table
        self._options, self._clock, self._record = options, clock, record
        self._folder = f"{table}/manifest"
        self._uuid = clock.new_id()  # of the snapshot, the same in all attempts, so that we can find it again
        self._merged: Merged | None = None  # of an attempt that failed, to be used again
        self._may_merge = True

    def write(self, base: Snapshot, edits: tuple[Edit, ...], *, schema: TableSchema) -> Draft:
        """Write the manifests of an attempt; if that fails, remove the files written so far."""
        names = _Names(self._folder, self._clock, record=self._record)
        try:
            merged = self._merge(base, schema, names)
            base_list = self._write_list(merged.after, names)
            delta = self._write(chain.from_iterable(edit.entries() for edit in edits), names, schema)
            delta_list = self._write_list(delta, names)
            snapshot = replace(
                self._snapshot(base, edits, schema=schema, lists=(base_list, delta_list)),
                index_manifest=self._index_manifest(base, edits, names),
            )
        except BaseException:
            self._remove(names.given)
            raise
        self._merged, self._may_merge = merged, False
        kept = {f"{self._folder}/{name}" for name in merged.created}
        return Draft(snapshot=snapshot, merged=merged, created=tuple(path for path in names.given if path not in kept))

    def discard(self, draft: Draft) -> None:
        """Remove a draft that certainly was not published; merged manifests are kept for the next attempt."""
        self._remove(draft.created)
        self._merged = draft.merged

    def keep(self) -> None:
        """Never remove the files of the last draft: it may be published."""
        self._merged = None

    def close(self) -> None:
        """Remove merged manifests that no later draft will use."""
        if self._merged is not None:
            self._remove(f"{self._folder}/{name}" for name in self._merged.created)
            self._merged = None

    def _merge(self, base: Snapshot, schema: TableSchema, names: _Names) -> Merged:
        """Merge in the first attempt only: an attempt after a lost race must be quick, not thorough."""
        manifests = read_all_manifests(self._io, self._table, base)
        if self._merged is not None:
            after = self._merged.apply(manifests)
            if after is not None:
                return Merged(before=manifests, after=after)
            self.close()
        if not self._may_merge:
            return Merged(before=manifests, after=manifests)
        try:
            after = merge_manifests(
                manifests,
                self._options.merge,
                read=lambda meta: read_manifest(self._io, f"{self._folder}/{meta.file_name}"),
                scan=lambda meta: read_manifest(self._io, f"{self._folder}/{meta.file_name}", lean=True),
                write=lambda entries: self._write(entries, names, schema),
            )
        except CorruptionError:
            return Merged(before=manifests, after=manifests)  # a failed merge must not fail the commit
        return Merged(before=manifests, after=after)

    def _write(
        self, entries: Iterable[ManifestEntry], names: _Names, schema: TableSchema
    ) -> tuple[ManifestFileMeta, ...]:
        return write_manifests(
            self._io,
            self._folder,
            entries,
            names=names.manifests(),
            partition_types=schema.partition_types,
            target_bytes=self._options.merge.target_bytes,
            codec=self._options.manifest_codec,
        )

    def _write_list(self, metas: tuple[ManifestFileMeta, ...], names: _Names) -> tuple[str, int]:
        return write_manifest_list(
            self._io, self._folder, metas, name=names.manifest_list(), codec=self._options.manifest_codec
        )

    def _snapshot(
        self,
        base: Snapshot,
        edits: tuple[Edit, ...],
        *,
        schema: TableSchema,
        lists: tuple[tuple[str, int], tuple[str, int]],
    ) -> Snapshot:
        (base_list, base_size), (delta_list, delta_size) = lists
        delta_rows = sum(edit.delta_rows for edit in edits)
        return Snapshot(
            id=base.id + 1,
            uuid=self._uuid,
            schema_id=schema.id,
            base_manifest_list=base_list,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_list,
            delta_manifest_list_size=delta_size,
            commit_user=self._options.user,
            writer_version=self._options.writer_version,
            commit_identifier=self._options.identifier,
            commit_kind=CommitKind.COMPACT,
            time_millis=self._clock.now_ms(),
            total_record_count=self._total_rows(base) + delta_rows,
            delta_record_count=delta_rows,
            watermark=base.watermark,
            statistics=self._statistics(base, schema),
            properties=_properties(base, edits),
            next_row_id=base.next_row_id or 0,
            unknown=base.unknown,
        )

    def _index_manifest(self, base: Snapshot, edits: tuple[Edit, ...], names: _Names) -> str | None:
        """The index manifest without consumed deletion vectors; the base's own if none was consumed."""
        gone = {name for edit in edits for name in edit.index_files}
        if not gone:
            return base.index_manifest
        left = [entry for entry in read_index_entries(self._io, self._table, base) if entry.file_name not in gone]
        if not left:
            return None
        name = names.index_manifest()
        write_index_manifest(self._io, self._folder, left, name=name, codec=self._options.manifest_codec)
        return name

    def _total_rows(self, base: Snapshot) -> int:
        if base.total_record_count is not None:
            return base.total_record_count
        # Old versions of Paimon did not record the count.
        rows = 0
        for meta in read_all_manifests(self._io, self._table, base):
            for entry in read_manifest(self._io, f"{self._folder}/{meta.file_name}", lean=True):
                rows += entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
        return rows

    def _statistics(self, base: Snapshot, schema: TableSchema) -> str | None:
        """The table's statistics file if it is of the current schema; doubtful statistics are dropped."""
        if base.statistics is None:
            return None
        try:
            content = json.loads(self._io.read_bytes(f"{self._table}/statistics/{base.statistics}"))
        except (OSError, ValueError):
            return None
        is_present = isinstance(content, dict) and content.get("schemaId") == schema.id
        return base.statistics if is_present else None

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(OSError):  # its name is recorded, so ``clean`` removes it later
                self._io.remove(path)


class _Names:
    """Names of one attempt, each recorded before it is given out."""

    def __init__(self, folder: str, clock: Clock, *, record: Callable[[tuple[str, ...]], None]) -> None:
        self._folder, self._record = folder, record
        self._id = clock.new_id()
        self._reserved = 0
        self._lists = 0
        self._manifests = 0
        self.given: list[str] = []

    def manifest_list(self) -> str:
        """Name the next manifest list."""
        if self._reserved == 0:
            self._reserve()
        name = f"manifest-list-{self._id}-{self._lists}"
        self._lists += 1
        return self._give(name)

    def index_manifest(self) -> str:
        """Name the index manifest."""
        return self._give(f"index-manifest-{self._id}-0")

    def manifests(self) -> Iterator[str]:
        """Yield manifest names, one after another."""
        while True:
            if self._manifests >= self._reserved:
                self._reserve()
            self._manifests += 1
            yield self._give(f"manifest-{self._id}-{self._manifests - 1}")

    def _reserve(self) -> None:
        numbers = range(self._reserved, self._reserved + _NAMES_AT_ONCE)
        names = [f"manifest-{self._id}-{number}" for number in numbers]
        if self._reserved == 0:
            names += [f"manifest-list-{self._id}-{number}" for number in range(2)]
            names += [f"index-manifest-{self._id}-0"]
        self._record(tuple(f"{self._folder}/{name}" for name in names))
        self._reserved += _NAMES_AT_ONCE

    def _give(self, name: str) -> str:
        self.given.append(f"{self._folder}/{name}")
        return name


def _properties(base: Snapshot, edits: tuple[Edit, ...]) -> tuple[tuple[str, str], ...] | None:
    """The largest sequence number, if the base records one; all other properties belong to their own commit."""
    for name, value in base.properties or ():
        if name == _MAX_SEQUENCE:
            added = (file.max_sequence_number for edit in edits for file in edit.after)
            return ((name, str(max((int(value), *added)))),)
    return None


# ---- manifest merge ----


ReadManifest: TypeAlias = "Callable[[ManifestFileMeta], Iterator[ManifestEntry]]"
_Place: TypeAlias = tuple[int, int]  # number of the manifest, number of the entry in it
WriteManifests: TypeAlias = "Callable[[Iterable[ManifestEntry]], tuple[ManifestFileMeta, ...]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLimits:
    """The options ``manifest.target-file-size``, ``full-compaction-threshold-size`` and ``merge-min-count``."""

    target_bytes: int = 8 * 1024 * 1024
    full_threshold_bytes: int = 16 * 1024 * 1024
    min_count: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class FullMerge:
    """Rewrite the manifests that must change, and those of the others that name a deleted file."""

    manifests: tuple[ManifestFileMeta, ...]
    must_change: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MinorMerge:
    """Join each group; a group of one stays as it is."""

    groups: tuple[tuple[ManifestFileMeta, ...], ...]


def plan_manifest_merge(manifests: Sequence[ManifestFileMeta], limits: MergeLimits) -> FullMerge | MinorMerge:
    """Decide which manifests are rewritten together."""
    must_change = [m for m in manifests if m.num_deleted_files > 0 or m.file_size < limits.target_bytes]
    if sum(m.file_size for m in must_change) >= limits.full_threshold_bytes and len(manifests) > 1:
        return FullMerge(manifests=tuple(manifests), must_change=frozenset(m.file_name for m in must_change))
    return MinorMerge(groups=_minor_groups(manifests, limits))


def _minor_groups(
    manifests: Sequence[ManifestFileMeta], limits: MergeLimits
) -> tuple[tuple[ManifestFileMeta, ...], ...]:
    groups: list[tuple[ManifestFileMeta, ...]] = []
    group: list[ManifestFileMeta] = []
    group_bytes = 0
    for manifest in manifests:
        group.append(manifest)
        group_bytes += manifest.file_size
        if group_bytes >= limits.target_bytes:
            groups.append(tuple(group))
            group, group_bytes = [], 0
    if len(group) >= limits.min_count:
        groups.append(tuple(group))
    else:
        groups.extend((manifest,) for manifest in group)
    return tuple(groups)


def merge_manifests(
    manifests: Sequence[ManifestFileMeta],
    limits: MergeLimits,
    *,
    read: ReadManifest,
    scan: ReadManifest,
    write: WriteManifests,
) -> tuple[ManifestFileMeta, ...]:
    """Return the manifests that replace these; those not rewritten are the same values.

    ``scan`` reads like ``read`` but may leave statistics out; its entries are never written.
    """
    match plan_manifest_merge(manifests, limits):
        case FullMerge() as full:
            return _merge_fully(full, read=read, scan=scan, write=write)
        case MinorMerge(groups=groups):
            joined = (_join(group, read=read, scan=scan, write=write) for group in groups)
            return tuple(manifest for some in joined for manifest in some)


def _join(
    group: tuple[ManifestFileMeta, ...], *, read: ReadManifest, scan: ReadManifest, write: WriteManifests
) -> tuple[ManifestFileMeta, ...]:
    if len(group) == 1:
        return group
    return write(_Pairs(group, scan).unmatched(group, read))


def _merge_fully(
    merge: FullMerge, *, read: ReadManifest, scan: ReadManifest, write: WriteManifests
) -> tuple[ManifestFileMeta, ...]:
    deleted = _Pairs(merge.manifests, scan).identities
    kept: list[ManifestFileMeta] = []
    changing: list[ManifestFileMeta] = []
    for manifest in merge.manifests:
        changes = manifest.file_name in merge.must_change or (
            bool(deleted) and any(entry.identity in deleted for entry in scan(manifest))
        )
        (changing if changes else kept).append(manifest)
    entries = _Pairs(changing, scan).unmatched(changing, read)
    # Those kept name no deleted file, so they may come before all others.
    return (*kept, *write(_no_deletion(entries)))


def _no_deletion(entries: Iterable[ManifestEntry]) -> Iterator[ManifestEntry]:
    for entry in entries:
        if entry.kind is FileKind.DELETE:
            raise CorruptionError(
                f"The manifests delete {entry.file.file_name}, which none of them adds; they are not merged.",
                file=entry.file.file_name,
            )
        yield entry


class _Pairs:
    """Which entries cancel: an ADD with the next DELETE of the same identity after it, never with one before it."""

    def __init__(self, manifests: Sequence[ManifestFileMeta], scan: ReadManifest) -> None:
        self._deletions: defaultdict[FileIdentity, deque[_Place]] = defaultdict(deque)
        for number, manifest in enumerate(manifests):
            if manifest.num_deleted_files == 0:
                continue
            for line, entry in enumerate(scan(manifest)):
                if entry.kind is FileKind.DELETE:
                    self._deletions[entry.identity].append((number, line))

    @property
    def identities(self) -> Collection[FileIdentity]:
        """The identities that some entry deletes."""
        return self._deletions.keys()

    def unmatched(self, manifests: Sequence[ManifestFileMeta], read: ReadManifest) -> Iterator[ManifestEntry]:
        """Yield the entries of the same manifests without the pairs; this consumes the pairs."""
        cancelled: set[_Place] = set()
        for number, manifest in enumerate(manifests):
            for line, entry in enumerate(read(manifest)):
                place = number, line
                ahead = self._deletions.get(entry.identity)
                if entry.kind is FileKind.ADD and ahead:
                    cancelled.add(ahead.popleft())  # its DELETE comes later in this stream: skip both
                    continue
                if place in cancelled:
                    cancelled.remove(place)
                    continue
                if ahead and ahead[0] == place:
                    ahead.popleft()  # a DELETE of something added before this stream begins
                yield entry
