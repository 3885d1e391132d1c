"""Keep the number of manifests small: each commit may rewrite some of those that it inherits.

The rule is Paimon's. ``full``: once manifests that are small or hold deletions sum up to a threshold (16 MB), all of
them are rewritten, and deletions meet their additions and vanish. ``minor``: otherwise neighbours are joined until
they reach the target size (8 MB); a last group that stays smaller is joined only if it has many members (30).

    minor, target 8 MB      [5 4 | 8 | 1 1 1]  ->  [9] [8] [1 1 1]
    full, threshold 16 MB   [20 | 9- 5 4]      ->  [20] [what is left of 9, 5 and 4]    (9- holds deletions)

Merging is an optimisation of planning, never a reason to fail: whoever calls may always go on with what was there.
Memory is bounded by the number of deletions, not of files: a first pass notes the DELETE lines (of those manifests that
have any), a second one copies all lines but matched pairs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from packstone.errors import CorruptionError
from packstone.tables.paimon.manifest_entry import FileIdentity, FileKind, ManifestEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from packstone.tables.paimon.manifest_file_meta import ManifestFileMeta

ReadManifest: TypeAlias = "Callable[[ManifestFileMeta], Iterator[ManifestEntry]]"
_Place: TypeAlias = tuple[int, int]  # number of the manifest, number of the line in it
WriteManifests: TypeAlias = "Callable[[Iterable[ManifestEntry]], tuple[ManifestFileMeta, ...]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLimits:
    """The options ``manifest.target-file-size``, ``full-compaction-threshold-size`` and ``merge-min-count``."""

    target_bytes: int = 8 * 1024 * 1024
    full_threshold_bytes: int = 16 * 1024 * 1024
    min_count: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class FullMerge:
    """Rewrite those that must change; look into the others, which are rewritten only if they name a deleted file."""

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
    """Return the manifests that take the place of these; those not rewritten are the same values.

    ``scan`` reads like ``read`` but may leave statistics out: it is for looking only.
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
    # Those kept name no deleted file, so they may stand before all others.
    return (*kept, *write(_no_deletion(entries)))


def _no_deletion(entries: Iterable[ManifestEntry]) -> Iterator[ManifestEntry]:
    for entry in entries:
        if entry.kind is FileKind.DELETE:
            raise CorruptionError(
                f"The manifests delete {entry.file.file_name}, which none of them adds; they are left as they are.",
                file=entry.file.file_name,
            )
        yield entry


class _Pairs:
    """Which lines cancel: an ADD with the next DELETE of the same identity after it, never with one before it."""

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
        """All that some line deletes."""
        return self._deletions.keys()

    def unmatched(self, manifests: Sequence[ManifestFileMeta], read: ReadManifest) -> Iterator[ManifestEntry]:
        """Yield the lines of the same manifests without the pairs; this uses the pairs up."""
        cancelled: set[_Place] = set()
        for number, manifest in enumerate(manifests):
            for line, entry in enumerate(read(manifest)):
                place = number, line
                ahead = self._deletions.get(entry.identity)
                if entry.kind is FileKind.ADD and ahead:
                    cancelled.add(ahead.popleft())  # its DELETE, later in this stream: both go
                    continue
                if place in cancelled:
                    cancelled.remove(place)
                    continue
                if ahead and ahead[0] == place:
                    ahead.popleft()  # a DELETE of something added before this stream begins
                yield entry
