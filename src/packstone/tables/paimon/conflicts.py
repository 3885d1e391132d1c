"""Whether edits still fit the table they are about to be committed to. Pure; the commit reads, this decides.

The table may have moved on since the edits were planned. Appends do not matter. What does:

    an input is gone, or stands on another level     somebody compacted or overwrote it: the edit would double rows
    an added name is live already                    the same edit was committed before, or names were reused
    the partition has another number of buckets      it was rescaled: the rows belong into other buckets
    key ranges overlap on a level >= 1               two jobs each compacted their own level 0 to that level;
                                                     readers do not merge within a level: one key, two rows
    deletion vectors of an input changed             rows were deleted meanwhile: the edit would bring them back

Each is found per bucket, so that one busy bucket does not cost the others their commit (apache/paimon#3143).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from packstone.errors import ConflictError
from packstone.tables.paimon.edit import BucketId, Edit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from packstone.tables.paimon.data_file_meta import DataFileMeta

# Turns a serialised key into something with Paimon's order.
KeyOrder: TypeAlias = "Callable[[bytes], Any]"
FileLine: TypeAlias = tuple[int, str, tuple[str, ...], bytes | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What the snapshot to build on says of the buckets that edits touch, and of their partitions."""

    files: Mapping[BucketId, tuple[DataFileMeta, ...]]
    total_buckets: Mapping[bytes, frozenset[int]]  # all counts found in a partition; more than one is somebody's error
    # By bucket: data file -> the index file that holds its deletion vector.
    vectors: Mapping[BucketId, Mapping[str, str]] = field(default_factory=dict)
    # By index file: the data files that it covers.
    covered: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketConflict:
    """Why one bucket's edit does not fit any more."""

    partition: bytes
    bucket: int
    why: str

    def __str__(self) -> str:
        return f"bucket-{self.bucket}: {self.why}"


def check_no_conflict(edits: Iterable[Edit], touched: Touched, *, key_order: KeyOrder | None) -> None:
    """Raise ConflictError, which names the buckets in ``facts['conflicts']``, unless all edits fit."""
    conflicts = find_conflicts(edits, touched, key_order=key_order)
    if conflicts:
        told = "; ".join(str(conflict) for conflict in conflicts[:3])
        raise ConflictError(
            f"The table changed since the plan in {len(conflicts)} buckets: {told}. Nothing was committed; plan again.",
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
    # Paimon counts only positive numbers: -1 and -2 stand for tables whose buckets are not fixed.
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
            yield f"the input {file.file_name} is not live any more"
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
    """Part of the identity that distinguishes files of one bucket."""
    return file.level, file.file_name, file.extra_files, file.embedded_file_index, file.external_path
