"""Which buckets of a Paimon table a compaction would touch, and what it would do there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError
from packstone.model.skipped import SkipKind, SkipLog, Skipped
from packstone.pruning.partition_predicate import parse_predicate
from packstone.strategy.append_view import roll
from packstone.strategy.pick import Reason
from packstone.tables.paimon.bucket_rules import Moment, bucket_rules
from packstone.tables.paimon.data_file_meta import FileSource
from packstone.tables.paimon.deletion_vectors import read_deletion_entries
from packstone.tables.paimon.live_files import read_live_files
from packstone.tables.paimon.plan_bucket import BucketPlan, plan_bucket

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.model.filters import Filters
    from packstone.model.paimon_options import PaimonOptions
    from packstone.pruning.partition_predicate import PartitionPredicate
    from packstone.tables.paimon.data_file_meta import DataFileMeta
    from packstone.tables.paimon.edit import BucketId
    from packstone.tables.paimon.index_manifest import IndexEntry
    from packstone.tables.paimon.manifest_entry import BucketFiles
    from packstone.tables.paimon.plan_bucket import BucketRules, PlannedUnit
    from packstone.tables.paimon.snapshot import Snapshot
    from packstone.tables.paimon.store import PaimonStore


@dataclass(slots=True)
class PaimonTotals:
    """What was looked at; it grows as plans are drawn."""

    buckets: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0


@dataclass(slots=True)
class PaimonPlanner:
    """Plans the buckets of one snapshot."""

    store: PaimonStore
    snapshot: Snapshot
    asked: PaimonOptions
    filters: Filters
    totals: PaimonTotals = field(default_factory=PaimonTotals)
    skipped: SkipLog = field(default_factory=SkipLog)
    _rules: BucketRules = field(init=False)
    _vectors: dict[BucketId, tuple[IndexEntry, ...]] = field(init=False)
    _predicate: PartitionPredicate | None = field(init=False, default=None)
    _now: Moment = field(init=False)
    _partitions: dict[bytes, str | None] = field(init=False, default_factory=dict)  # why a partition is left out

    def __post_init__(self) -> None:
        self._now = Moment(unix_seconds=int(datetime.now(UTC).timestamp()), local=datetime.now())  # noqa: DTZ005 - Paimon's
        store = self.store
        self._rules = bucket_rules(store.schema, store.options, self.asked, now=self._now, schemas=store.schemas)
        self._check_filters()
        self._read_vectors()
        if self.asked.partition_idle_seconds is not None:
            self._find_idle(self.asked.partition_idle_seconds)

    @property
    def is_filtered(self) -> bool:
        """Whether the caller chose some buckets."""
        asked = self.asked
        chosen = asked.partitions or asked.buckets or self.filters.where
        return bool(chosen) or asked.partition_idle_seconds is not None

    def plan(self) -> Iterator[BucketPlan]:
        """Yield the plan of every bucket that the filters let through, also of those with nothing to do."""
        for bucket in self.buckets():
            yield self.plan_again(bucket)

    def buckets(self) -> Iterator[BucketFiles]:
        """Yield the buckets that the filters let through, and count them."""
        is_lean = self.store.options.record_expire_ms is None
        for bucket in read_live_files(
            self.store.io, self.store.path, self.snapshot, wanted=self._is_wanted, lean=is_lean
        ):
            self.totals.buckets += 1
            self.totals.files += len(bucket.files)
            self.totals.bytes += sum(file.file_size for file in bucket.files)
            self.totals.rows += sum(file.row_count for file in bucket.files)
            yield bucket

    def plan_again(self, bucket: BucketFiles) -> BucketPlan:
        """Plan one bucket over the files given; what is left alone is noted."""
        plan = self.plan_next(bucket)
        if not plan.units:
            kind = SkipKind.FAILED if plan.is_corrupt else SkipKind.REFUSED if plan.is_refused else SkipKind.NOT_NEEDED
            self.skipped.append(Skipped(what=self.store.bucket_label(bucket), why=plan.why, kind=kind))
        return plan

    def plan_next(self, bucket: BucketFiles) -> BucketPlan:
        """Plan a bucket for another round; that nothing is left to do is no news."""
        total = self.store.options.bucket
        if bucket.total_buckets != total > 0:
            why = f"its files were written for {bucket.total_buckets} buckets, the table has {total}; rescale it first"
            return BucketPlan(bucket=bucket, why=why, is_refused=True)
        return plan_bucket(bucket, self._rules, vectors=self.vectors_of(bucket))

    def plan_rounds(self, bucket: BucketFiles) -> Iterator[BucketPlan]:
        """Yield the plan of a bucket and, of an append table, those of the rounds that follow, by estimated sizes.

        A compaction plans a bucket again over its own outputs until nothing is left to do. How small a merged file
        gets is known only when it is written, so it counts with the bytes of its inputs.
        """
        plan = self.plan_again(bucket)
        yield plan
        made = count(1)
        while plan.units and not self.store.schema.is_primary_key:
            gone = {file.file_name for unit in plan.units for file in unit.files}
            kept = tuple(file for file in plan.bucket.files if file.file_name not in gone)
            outputs = tuple(file for unit in plan.units for file in self._estimate_outputs(unit, made))
            plan = self.plan_next(replace(plan.bucket, files=(*kept, *outputs)))
            if not plan.units or plan.reason == Reason.FILE_REWRITE:
                return
            yield plan

    def _estimate_outputs(self, unit: PlannedUnit, numbers: count[int]) -> Iterator[DataFileMeta]:
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
        """Read some buckets anew from a later snapshot."""
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
        """Of each file with deleted rows its index file and their number (unknown counts as all)."""
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
        keys, asked = self.store.schema.partition_keys, self.asked
        if asked.partitions and self.filters.where:
            raise InvalidInputError("--partitions and --where cannot be used together; use one of them.")
        if (asked.partitions or self.filters.where or asked.partition_idle_seconds is not None) and not keys:
            raise InvalidInputError(f"{self.store.location} has no partitions to choose from.")
        for spec in asked.partitions:
            for name, _ in spec:
                if name not in keys:
                    raise InvalidInputError(f"--partitions: {name} is no partition column; use {', '.join(keys)}.")
        if asked.buckets and self.store.options.bucket <= 0:
            raise InvalidInputError(f"--buckets: {self.store.location} has no fixed number of buckets.")
        if self.filters.where:
            self._predicate = parse_predicate(self.filters.where, keys)

    def _is_wanted(self, partition: bytes, bucket: int) -> bool:
        if self.asked.buckets and not any(first <= bucket <= last for first, last in self.asked.buckets):
            return False
        if partition not in self._partitions:
            self._partitions[partition] = self._why_not(partition)
        return self._partitions[partition] is None

    def _why_not(self, partition: bytes) -> str | None:
        texts = self.store.partition_texts(partition)
        if self._predicate is not None and not self._predicate.matches(texts):
            return "not selected by --where"
        specs = self.asked.partitions
        if specs and not any(all(texts[name] == value for name, value in spec) for spec in specs):
            return "not selected by --partitions"
        return None

    def _find_idle(self, seconds: float) -> None:
        """Leave partitions out that were written to lately; the newest file of any bucket counts."""
        newest: dict[bytes, int] = {}
        for bucket in read_live_files(self.store.io, self.store.path, self.snapshot, lean=True):
            made = max((file.creation_time_ms or 0 for file in bucket.files), default=0)
            newest[bucket.partition] = max(made, newest.get(bucket.partition, 0))
        limit = self._now.local_ms - int(seconds * 1000)
        for partition, made in newest.items():
            if made > limit:
                self._partitions[partition] = "written to within --partition-idle-time"
                what = self.store.partition_name(partition)
                self.skipped.append(Skipped(what=what, why=self._partitions[partition] or "", kind=SkipKind.FILTERED))
