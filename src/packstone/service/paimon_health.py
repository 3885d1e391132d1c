"""How a Paimon table is: files, levels, sorted runs, and what stands in the way of compacting it."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packstone.errors import RefusedError
from packstone.tables.paimon.live_files import read_live_files
from packstone.tables.paimon.refusals import refuse_files, refuse_manifests, refuse_table, uncalled_callbacks
from packstone.tables.paimon.snapshot_files import list_snapshot_ids, read_latest_snapshot

if TYPE_CHECKING:
    from packstone.tables.paimon.manifest_entry import BucketFiles
    from packstone.tables.paimon.store import PaimonStore

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
    """The whole table's numbers; it grows while buckets are looked at."""

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
    hazards: list[dict[str, str]] = field(default_factory=list)
    worst: list[BucketHealth] = field(default_factory=list)

    @property
    def score(self) -> int:
        """100 is one run a bucket (merge tree) or as few files as the bytes need (append); less is more to merge."""
        have, ideal = (self.runs, self.ideal_runs) if self.kind == "primary key" else (self.files, self.ideal_files)
        return 100 if not have else max(0, min(100, 100 * ideal // have))

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
            "hazards": self.hazards,
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


def observe_paimon(store: PaimonStore) -> PaimonHealth:
    """Read the newest snapshot's manifests once; data files are not opened."""
    kind = "primary key" if store.schema.is_primary_key else "append"
    health = PaimonHealth(table=store.path, kind=kind, trigger=store.options.compaction_trigger)
    unreadable = refuse_manifests(store.schema)
    if unreadable is not None:
        raise RefusedError(f"{store.path} cannot be looked at: {unreadable}.", table=store.path)
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
    if health.kind == "primary key" and health.max_runs > stop:
        evidence = f"{health.max_runs} sorted runs in one bucket; writers stop at {stop} (num-sorted-run.stop-trigger)"
        _warn(health, "too-many-runs", where=health.worst[0].bucket, evidence=evidence)
    if health.snapshots > _MANY_SNAPSHOTS:
        evidence = f"{health.snapshots} snapshots are kept; `packstone clean --expire-snapshots` frees their files"
        _warn(health, "many-snapshots", where=".", evidence=evidence)


def _warn(health: PaimonHealth, name: str, *, where: str, evidence: str) -> None:
    if len(health.hazards) < 10 * WORST_BUCKETS:
        health.hazards.append({"hazard": name, "where": where, "evidence": evidence})
