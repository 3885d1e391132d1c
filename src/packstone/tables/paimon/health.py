"""The health of a Paimon table: files, levels, sorted runs, and what prevents compacting it."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packstone.errors import RefusedError
from packstone.model.health import Fact, Hazard, Histogram, Report, WorstPart, WorstParts, rate
from packstone.model.sizes import format_bytes, plural
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.snapshot import list_snapshot_ids, read_latest_snapshot
from packstone.tables.paimon.refusals import refuse_files, refuse_manifests, refuse_table, uncalled_callbacks

if TYPE_CHECKING:
    from packstone.tables.paimon.format.data_file import BucketFiles
    from packstone.tables.paimon.format.store import PaimonStore

WORST_BUCKETS = 20
_MANY_SNAPSHOTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketHealth:
    """One bucket's numbers."""

    bucket: str
    files: int
    runs: int
    bytes: int
    deletes: int


@dataclass(slots=True, kw_only=True)
class PaimonHealth:
    """The whole table's numbers, added up bucket by bucket."""

    table: str
    kind: str  # "primary key" or "append"
    snapshot: int | None = None
    snapshots: int = 0
    partitions: int = 0
    buckets: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    delete_rows: int = 0
    small_files: int = 0
    ideal_files: int = 0
    trigger: int = 0
    max_runs: int = 0
    runs: int = 0
    ideal_runs: int = 0
    levels: Counter[int] = field(default_factory=Counter)
    hazards: list[Hazard] = field(default_factory=list)
    worst: list[BucketHealth] = field(default_factory=list)

    @property
    def is_tree(self) -> bool:
        """Whether its buckets are merge trees: only those have levels and sorted runs."""
        return self.kind == "primary key"

    @property
    def score(self) -> int:
        """100: one run per bucket (merge tree) or as few files as the bytes need (append); lower: more to merge."""
        have, ideal = (self.runs, self.ideal_runs) if self.is_tree else (self.files, self.ideal_files)
        return rate(have, ideal=ideal)

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": "paimon",
            "kind": self.kind,
            "snapshot": self.snapshot,
            "snapshots": self.snapshots,
            "partitions": self.partitions,
            "buckets": self.buckets,
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "delete_rows": self.delete_rows,
            "small_files": self.small_files,
            "ideal_files": self.ideal_files,
            "sorted_runs": self.runs,
            "max_sorted_runs": self.max_runs,
            "compaction_trigger": self.trigger,
            "score": self.score,
            "levels": {f"L{level}": count for level, count in sorted(self.levels.items())},
            "hazards": [hazard.to_json() for hazard in self.hazards],
            "worst_buckets": [
                {
                    "bucket": b.bucket,
                    "files": b.files,
                    "sorted_runs": b.runs,
                    "bytes": b.bytes,
                    "delete_rows": b.deletes,
                }
                for b in self.worst
            ],
        }

    def report(self) -> Report:
        """The report for display: levels and the worst buckets; a table of one bucket needs no list of them."""
        levels = tuple((f"L{level}", count) for level, count in sorted(self.levels.items()))
        return Report(
            table=self.table,
            score=self.score,
            facts=(self._describe_table(), *(self._describe_files() if self.files else ())),
            histogram=Histogram(title="level", unit="files", counts=levels) if self.is_tree else None,
            worst=self._worst_buckets() if self.buckets > 1 else None,
            hazards=tuple(self.hazards),
        )

    def _describe_table(self) -> Fact:
        kind = "table with a primary key" if self.is_tree else "append table"
        newest = "no snapshot yet" if self.snapshot is None else f"snapshot {self.snapshot:,} ({self.snapshots:,} kept)"
        return Fact(text=f"Paimon {kind}, {newest}")

    def _describe_files(self) -> tuple[Fact, ...]:
        partitions = f" of {plural(self.partitions, 'partition')}" if self.partitions > 1 else ""
        where = f"{plural(self.files, 'file')} in {plural(self.buckets, 'bucket')}{partitions}"
        stored = f"{where}, {format_bytes(self.bytes)}"
        rows = plural(self.rows, "row")
        if not self.is_tree:
            least = f"{plural(self.ideal_files, 'file')} would be enough"
            return Fact(text=f"{stored}, {rows}"), Fact(text=f"{self.small_files:,} are small; {least}", strong=least)
        most = plural(self.max_runs, "sorted run")
        return (
            Fact(text=stored),
            Fact(text=f"{rows} stored, {self.delete_rows:,} of them delete markers"),
            Fact(text=f"at most {most} in a bucket; a minor compaction begins at {self.trigger}", strong=most),
        )

    def _worst_buckets(self) -> WorstParts:
        columns = ("runs", "files", "bytes") if self.is_tree else ("files", "bytes")
        parts = []
        for one in self.worst:
            cells = (f"{one.runs:,}", f"{one.files:,}", format_bytes(one.bytes))
            parts.append(WorstPart(name=one.bucket, cells=cells[-len(columns) :]))
        return WorstParts(title="worst buckets", columns=columns, parts=tuple(parts))


def observe_paimon(store: PaimonStore) -> PaimonHealth:
    """Read the newest snapshot's manifests once; data files are not opened."""
    kind = "primary key" if store.schema.is_primary_key else "append"
    health = PaimonHealth(table=store.path, kind=kind, trigger=store.options.compaction_trigger)
    unreadable = refuse_manifests(store.schema)
    if unreadable is not None:
        raise RefusedError(f"{store.path} cannot be inspected: {unreadable}.", table=store.path)
    why = refuse_table(store.schema)
    if why is not None:
        _warn(health, "not-compacted", where=".", evidence=why)
    callbacks = uncalled_callbacks(store.schema)
    if callbacks is not None:
        _warn(health, "callbacks-not-called", where=".", evidence=callbacks)
    snapshot = read_latest_snapshot(store.io, store.path)
    health.snapshots = len(list_snapshot_ids(store.io, store.path))
    if snapshot is None:
        return health
    health.snapshot = snapshot.id
    partitions: set[bytes] = set()
    for bucket in read_live_files(store.io, store.path, snapshot, lean=True):
        partitions.add(bucket.partition)
        _add_bucket(health, store, bucket)
    health.partitions = len(partitions)
    health.worst = heapq.nlargest(WORST_BUCKETS, health.worst, key=lambda b: (b.runs, b.files))
    _warn_of_table(health, store)
    return health


def _add_bucket(health: PaimonHealth, store: PaimonStore, bucket: BucketFiles) -> None:
    files, is_tree = bucket.files, store.schema.is_primary_key
    levels = Counter(file.level for file in files)
    runs = levels[0] + sum(1 for level in levels if level) if is_tree else len(files)
    size = sum(file.file_size for file in files)
    deletes = sum(file.delete_row_count or 0 for file in files)
    health.buckets += 1
    health.files += len(files)
    health.bytes += size
    health.rows += sum(file.row_count for file in files)
    health.delete_rows += deletes
    health.small_files += sum(1 for file in files if file.file_size < store.options.small_file_bytes)
    health.ideal_files += max(1, -(-size // store.options.target_file_bytes))
    health.runs += runs
    health.ideal_runs += 1
    health.max_runs = max(health.max_runs, runs)
    health.levels.update(levels)
    label = store.bucket_label(bucket)
    why = refuse_files(files)
    if why is not None:
        _warn(health, "not-compacted", where=label, evidence=why)
    if bucket.total_buckets != store.options.bucket > 0:
        evidence = f"its files were written for {bucket.total_buckets} buckets, the table has {store.options.bucket}"
        _warn(health, "rescaled", where=label, evidence=evidence)
    health.worst.append(BucketHealth(bucket=label, files=len(files), runs=runs, bytes=size, deletes=deletes))
    if len(health.worst) > 2 * WORST_BUCKETS:
        health.worst = heapq.nlargest(WORST_BUCKETS, health.worst, key=lambda b: (b.runs, b.files))


def _warn_of_table(health: PaimonHealth, store: PaimonStore) -> None:
    stop = store.options.stop_trigger
    if health.is_tree and health.max_runs > stop:
        evidence = f"{health.max_runs} sorted runs in one bucket; writers stop at {stop} (num-sorted-run.stop-trigger)"
        _warn(health, "too-many-runs", where=health.worst[0].bucket, evidence=evidence)
    if health.snapshots > _MANY_SNAPSHOTS:
        evidence = f"{health.snapshots} snapshots are kept; `packstone clean --expire-snapshots` frees their files"
        _warn(health, "many-snapshots", where=".", evidence=evidence)


def _warn(health: PaimonHealth, name: str, *, where: str, evidence: str) -> None:
    if len(health.hazards) < 10 * WORST_BUCKETS:
        health.hazards.append(Hazard(name=name, where=where, evidence=evidence))
