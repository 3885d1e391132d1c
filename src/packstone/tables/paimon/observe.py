"""Which buckets of a Paimon table a compaction would touch, and what it would do there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError
from packstone.model.limits import Filters
from packstone.model.outcome import SkipKind, SkipLog, Skipped
from packstone.query.filter.partition_filter import parse_partition_filter
from packstone.runs.clock import now_local, now_seconds
from packstone.strategy.append_bins import roll
from packstone.strategy.pick import Reason
from packstone.tables.paimon.format.data_file import FileSource
from packstone.tables.paimon.format.deletion_vectors import read_deletion_entries
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.plan import BucketPlan, PaimonNow, bucket_rules, plan_bucket

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.model.work import Totals
    from packstone.query.filter.partition_filter import PartitionFilter
    from packstone.tables.paimon.conflicts import BucketId
    from packstone.tables.paimon.format.data_file import BucketFiles, DataFileMeta
    from packstone.tables.paimon.format.manifest_list import IndexEntry
    from packstone.tables.paimon.format.snapshot import Snapshot
    from packstone.tables.paimon.format.store import PaimonStore
    from packstone.tables.paimon.options import PaimonOptions
    from packstone.tables.paimon.plan import BucketRules, BucketUnit


@dataclass(slots=True)
class PaimonPlanner:
    """Plans the buckets of one snapshot."""

    store: PaimonStore
    snapshot: Snapshot
    options: PaimonOptions
    filters: Filters = field(default_factory=Filters)
    skipped: SkipLog = field(default_factory=SkipLog)
    _rules: BucketRules = field(init=False)
    _vectors: dict[BucketId, tuple[IndexEntry, ...]] = field(init=False)
    _predicate: PartitionFilter | None = field(init=False, default=None)
    _now: PaimonNow = field(init=False)
    _partitions: dict[bytes, str | None] = field(init=False, default_factory=dict)  # why a partition is excluded

    def __post_init__(self) -> None:
        self._now = PaimonNow(unix_seconds=int(now_seconds()), local=now_local())
        store = self.store
        self._rules = bucket_rules(store.schema, store.options, self.options, now=self._now, schemas=store.schemas)
        self._check_filters()
        self._read_vectors()
        if self.filters.min_age_seconds:
            self._exclude_young(self.filters.min_age_seconds)

    @property
    def is_filtered(self) -> bool:
        """Whether the caller chose some buckets."""
        return bool(self.options.buckets or self.filters.where or self.filters.min_age_seconds)

    def buckets(self, totals: Totals) -> Iterator[BucketFiles]:
        """Yield the buckets that the filters let through, and count them."""
        is_lean = self.store.options.record_expire_ms is None
        for bucket in read_live_files(
            self.store.io, self.store.path, self.snapshot, wanted=self._is_wanted, lean=is_lean
        ):
            totals.parts += 1
            totals.files += len(bucket.files)
            totals.bytes += sum(file.file_size for file in bucket.files)
            yield bucket

    def plan(self, bucket: BucketFiles) -> BucketPlan:
        """Plan one bucket over the files given."""
        return replace(self._plan(bucket), part=self.store.bucket_label(bucket))

    def _plan(self, bucket: BucketFiles) -> BucketPlan:
        total = self.store.options.bucket
        if bucket.total_buckets != total > 0:
            why = f"its files were written for {bucket.total_buckets} buckets, the table has {total}; rescale it first"
            return BucketPlan(bucket=bucket, why=why, is_refused=True)
        return plan_bucket(bucket, self._rules, vectors=self.vectors_of(bucket))

    def plan_rounds(self, bucket: BucketFiles) -> Iterator[BucketPlan]:
        """Yield the plan of a bucket and, for an append table, the plans of the following rounds by estimated sizes.

        A compaction plans a bucket again over its own outputs until nothing is left to do. The size of a merged file
        is known only when it is written, so the estimate is the bytes of its inputs.
        """
        plan = self.plan(bucket)
        yield plan
        made = count(1)
        while plan.units and not self.store.schema.is_primary_key:
            gone = {file.file_name for unit in plan.units for file in unit.files}
            kept = tuple(file for file in plan.bucket.files if file.file_name not in gone)
            outputs = tuple(file for unit in plan.units for file in self._estimate_outputs(unit, made))
            plan = self.plan(replace(plan.bucket, files=(*kept, *outputs)))
            if not plan.units or plan.reason == Reason.FILE_REWRITE:
                return
            yield plan

    def _estimate_outputs(self, unit: BucketUnit, numbers: count[int]) -> Iterator[DataFileMeta]:
        rows = sum(file.row_count for file in unit.files)
        sizes = roll(unit.input_bytes, target_bytes=self.store.options.target_file_bytes)
        for size in sizes:
            yield replace(
                unit.files[0],
                file_name=f"output-{next(numbers)}.{self.store.options.format_of(unit.output_level)}",
                file_size=size,
                row_count=rows * size // max(1, unit.input_bytes),
                min_sequence_number=min(file.min_sequence_number for file in unit.files),
                schema_id=self.store.schema.id,
                level=unit.output_level,
                file_source=FileSource.COMPACT,
            )

    def read_again(self, snapshot: Snapshot, buckets: Iterable[BucketId]) -> Iterator[BucketFiles]:
        """Read some buckets again from a later snapshot."""
        chosen = frozenset(buckets)
        self.snapshot = snapshot
        self._read_vectors()
        is_lean = self.store.options.record_expire_ms is None
        return read_live_files(
            self.store.io, self.store.path, snapshot, wanted=lambda *bucket: bucket in chosen, lean=is_lean
        )

    def index_entries(self, bucket: BucketFiles) -> tuple[IndexEntry, ...]:
        """The index files with the deletion vectors of a bucket."""
        return self._vectors.get((bucket.partition, bucket.bucket), ())

    def vectors_of(self, bucket: BucketFiles) -> dict[str, tuple[str, int]]:
        """The index file and the number of deleted rows (unknown: all rows) of each file with a deletion vector."""
        rows = {file.file_name: file.row_count for file in bucket.files}
        return {
            item.data_file: (entry.file_name, rows[item.data_file] if item.cardinality is None else item.cardinality)
            for entry in self.index_entries(bucket)
            for item in entry.ranges or ()
            if item.data_file in rows
        }

    def _read_vectors(self) -> None:
        self._vectors = {}
        for entry in read_deletion_entries(self.store.io, self.store.path, self.snapshot):
            key = entry.partition, entry.bucket
            self._vectors[key] = (*self._vectors.get(key, ()), entry)

    def _check_filters(self) -> None:
        keys = self.store.schema.partition_keys
        if self.filters.where and not keys:
            raise InvalidInputError(f"{self.store.location} has no partitions to choose from.")
        if self.options.buckets and self.store.options.bucket <= 0:
            raise InvalidInputError(f"{self.store.location} has no fixed number of buckets to choose from.")
        if self.filters.where:
            self._predicate = parse_partition_filter(self.filters.where, keys)

    def _is_wanted(self, partition: bytes, bucket: int) -> bool:
        if self.options.buckets and not any(first <= bucket <= last for first, last in self.options.buckets):
            return False
        if partition not in self._partitions:
            self._partitions[partition] = self._why_not(partition)
        return self._partitions[partition] is None

    def _why_not(self, partition: bytes) -> str | None:
        texts = self.store.partition_texts(partition)
        if self._predicate is not None and not self._predicate.matches(texts):
            return "not selected by --where"
        return None

    def _exclude_young(self, seconds: float) -> None:
        """Exclude partitions whose newest file, in any bucket, is too young; a table without keys is one partition."""
        newest: dict[bytes, int] = {}
        for bucket in read_live_files(self.store.io, self.store.path, self.snapshot, lean=True):
            made = max((file.creation_time_ms or 0 for file in bucket.files), default=0)
            newest[bucket.partition] = max(made, newest.get(bucket.partition, 0))
        limit = self._now.local_ms - int(seconds * 1000)
        for partition, made in newest.items():
            if made > limit:
                self._partitions[partition] = "its newest file is younger than --min-age"
                what = self.store.partition_name(partition) or self.store.path
                self.skipped.append(Skipped(what=what, why=self._partitions[partition] or "", kind=SkipKind.FILTERED))
