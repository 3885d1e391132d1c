"""Which partitions, buckets and files of a snapshot a filter needs, dealt to splits.

Partitions go by their values, files by what `scan_buckets` says. Buckets are not told from the filter: that would take
Paimon's hash of the bucket key. Records that are to expire do so in a compaction, not in a scan.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from packstone.errors import RefusedError
from packstone.pruning.expression import FALSE
from packstone.rewrite.merge.deleted_positions import pack_positions
from packstone.rewrite.merge.merge_spec import Section
from packstone.scan.partitions import MAX_SPLIT_BYTES, OPEN_COST_BYTES, split_files
from packstone.scan.prune_report import PredicateEffect, PruneLevel, PruneReport
from packstone.scan.scan_plan import ScanPlan, Split
from packstone.scan.scan_request import DEFAULT_OPTIONS, ScanOptions, ScanRequest, read_request
from packstone.tables.paimon.data_type import to_arrow
from packstone.tables.paimon.deletion_vectors import index_file_path, read_deletion_entries, read_deletion_vectors
from packstone.tables.paimon.live_files import read_live_files
from packstone.tables.paimon.refusals import refuse_read
from packstone.tables.paimon.scan_buckets import BucketScan, Found
from packstone.tables.paimon.scan_facts import may_hold_partition

if TYPE_CHECKING:
    from packstone.pruning.expression import Expression
    from packstone.scan.caches import ScanCaches
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.index_manifest import IndexEntry
    from packstone.tables.paimon.manifest_entry import BucketFiles
    from packstone.tables.paimon.snapshot import Snapshot
    from packstone.tables.paimon.store import PaimonStore


def plan_paimon_scan(
    io: FileIO,
    store: PaimonStore,
    snapshot: Snapshot | None,
    *,
    columns: Sequence[str] | None = None,
    where: str | Expression | None = None,
    caches: ScanCaches | None = None,  # noqa: ARG001 - as for the other families; manifests are not cached yet
    options: ScanOptions = DEFAULT_OPTIONS,
) -> ScanPlan:
    """Plan a scan of one snapshot (None: the table has none yet) in the columns of the store's schema."""
    why = refuse_read(store.schema)
    if why is not None:
        raise RefusedError(f"{store.location} cannot be read by this version: {why}.", table=store.path)
    schema = pa.schema([pa.field(one.name, to_arrow(one.type), one.type.nullable) for one in store.schema.fields])
    request = read_request(schema, columns=columns, where=where, zone=options.zone)
    planner = _Planner(io, store, request)
    if snapshot is not None and request.expression != FALSE:
        planner.read(snapshot, explain=options.explain)
    splits = tuple(planner.splits(parallelism=options.parallelism))
    return ScanPlan(
        schema=request.schema,
        splits=splits,
        report=planner.report(splits),
        residual=request.expression,
        unpushed=request.unpushed,
        needs_merge=any(split.needs_merge for split in splits),
    )


@dataclass(slots=True)
class _Totals:
    partitions: set[bytes] = field(default_factory=set)
    buckets: int = 0
    kept_buckets: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    excluded: list[int] = field(default_factory=list)  # files, by each part of the filter


class _Planner:
    """Collects what one scan reads."""

    def __init__(self, io: FileIO, store: PaimonStore, request: ScanRequest) -> None:
        self._io, self._store, self._request = io, store, request
        self._scan = BucketScan(store, request)
        self._wanted: dict[bytes, bool] = {}
        self._found = Found()
        self._totals = _Totals(excluded=[0] * len(request.parts))

    def read(self, snapshot: Snapshot, *, explain: bool) -> None:
        """Look at all buckets; those of partitions that are left out only to count them, for an explanation."""
        vectors: dict[tuple[bytes, int], list[IndexEntry]] = {}
        for entry in read_deletion_entries(self._io, self._store.path, snapshot):
            vectors.setdefault((entry.partition, entry.bucket), []).append(entry)
        buckets = read_live_files(
            self._io,
            self._store.path,
            snapshot,
            wanted=None if explain else lambda partition, _: self._is_wanted(partition),
            lean=self._request.expression is None,
        )
        for bucket in buckets:
            self._count(bucket, explain=explain)
            if self._is_wanted(bucket.partition):
                before = self._found.file_count
                entries = vectors.get((bucket.partition, bucket.bucket), ())
                self._scan.take(bucket, self._deleted(bucket, entries), self._found)
                self._totals.kept_buckets += self._found.file_count > before

    def splits(self, *, parallelism: int | None) -> Iterator[Split]:
        """Deal what was found."""
        empty = self._request.empty_split(is_tested=True)
        for files in split_files(self._found.raw, group_bytes=[()] * len(self._found.raw), parallelism=parallelism):
            size = sum(file.read_bytes for file in files)
            yield replace(empty, files=files, read_bytes=size, rows=sum(file.rows for file in files))
        for file in self._found.whole:
            yield replace(empty, inputs=(file,), read_bytes=file.size_bytes, rows=file.rows)
        for sections in _deal(self._found.sections, parallelism):
            spec = self._scan.merge_spec(sections)
            rows = sum(file.rows for file in spec.files)
            yield replace(empty, merge=spec, read_bytes=sum(map(_size_of, sections)), rows=rows)

    def report(self, splits: Sequence[Split]) -> PruneReport:
        """Say what was left out."""
        totals = self._totals
        kept = sum(self._wanted.get(partition, False) for partition in totals.partitions)
        effects = zip(self._request.parts, totals.excluded, strict=True)
        return PruneReport(
            filter=self._request.text,
            columns=tuple(self._request.schema.names),
            levels=(
                PruneLevel(name="partitions", total=len(totals.partitions), kept=kept),
                PruneLevel(name="buckets", total=totals.buckets, kept=totals.kept_buckets),
                PruneLevel(name="files", total=totals.files, kept=self._found.file_count),
            ),
            predicates=tuple(
                PredicateEffect(predicate=str(part), level="files", excluded=count) for part, count in effects
            ),
            total_rows=totals.rows,
            kept_rows=sum(split.rows for split in splits),
            total_bytes=totals.bytes,
            read_bytes=sum(split.read_bytes for split in splits),
            splits=len(splits),
            merged_splits=sum(split.needs_merge for split in splits),
        )

    def _is_wanted(self, partition: bytes) -> bool:
        """Whether a partition may hold matching rows; asked once of each."""
        if partition not in self._wanted:
            expression = self._request.expression
            is_wanted = expression is None or may_hold_partition(expression, self._store.schema, partition)
            self._wanted[partition] = is_wanted
        return self._wanted[partition]

    def _count(self, bucket: BucketFiles, *, explain: bool) -> None:
        totals = self._totals
        totals.partitions.add(bucket.partition)
        totals.buckets += 1
        totals.files += len(bucket.files)
        totals.rows += sum(file.row_count for file in bucket.files)
        totals.bytes += sum(file.file_size for file in bucket.files)
        for at, part in enumerate(self._request.parts if explain else ()):
            if may_hold_partition(part, self._store.schema, bucket.partition):
                totals.excluded[at] += self._scan.exclude(part, bucket)
            else:
                totals.excluded[at] += len(bucket.files)

    def _deleted(self, bucket: BucketFiles, entries: Sequence[IndexEntry]) -> dict[str, str]:
        """Positions of deleted rows, by file."""
        if not entries:
            return {}
        in_bucket = (self._store.schema.option("index-file-in-data-file-dir") or "").lower() == "true"
        folder = self._store.bucket_folder(bucket) if in_bucket else None
        found: dict[str, str] = {}
        for entry in entries:
            path = index_file_path(self._store.path, entry, bucket_folder=folder)
            vectors = read_deletion_vectors(self._io, path, entry.ranges or ())
            found.update({name: pack_positions(positions) for name, positions in vectors.items()})
        return found


def _deal(sections: Sequence[Section], parallelism: int | None) -> Iterator[list[Section]]:
    """Sections to splits by bytes, by the rule of `scan.partitions`; a section is never cut."""
    total = sum(_size_of(section) + OPEN_COST_BYTES for section in sections)
    target = min(MAX_SPLIT_BYTES, max(OPEN_COST_BYTES, total // (parallelism or os.cpu_count() or 1)))
    current: list[Section] = []
    filled = 0
    for section in sorted(sections, key=_size_of, reverse=True):
        if current and filled + _size_of(section) > target:
            yield current
            current, filled = [], 0
        current.append(section)
        filled += _size_of(section) + OPEN_COST_BYTES
    if current:
        yield current


def _size_of(section: Section) -> int:
    return sum(file.size_bytes for run in section for file in run)
