"""What a command did to a table: the values behind the JSON of ``plan``, ``compact`` and ``merge``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from packstone.model.skipped import SkipKind, Skipped


class Status(StrEnum):
    """How it ended."""

    COMMITTED = "committed"
    NOTHING_TO_DO = "nothing-to-do"
    PLANNED = "planned"
    PARTIAL = "partial"
    REFUSED = "refused"
    CONFLICT = "conflict"
    FAILED = "failed"

    @property
    def exit_code(self) -> int:
        """The command's exit code."""
        if self in (Status.PARTIAL, Status.FAILED):
            return 1
        return 3 if self in (Status.REFUSED, Status.CONFLICT) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOutcome:
    """One merge, planned or done."""

    partition: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    how: str
    why: str
    bytes_before: int
    bytes_after: int = 0
    rows: int = 0
    fingerprint: str = ""
    seconds: float = 0.0
    read_seconds_before: float = 0.0
    read_seconds_after: float = 0.0
    why_bigger: str = ""  # empty unless the outputs are notably bigger than the inputs

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        plain: dict[str, Any] = {
            "partition": self.partition,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "how": self.how,
            "why": self.why,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "rows": self.rows,
            "fingerprint": self.fingerprint,
            "read_seconds_before": round(self.read_seconds_before, 4),
            "read_seconds_after": round(self.read_seconds_after, 4),
        }
        if self.why_bigger:
            plain["why_bigger"] = self.why_bigger
        return plain

    def __str__(self) -> str:
        return f"{self.partition or '.'}: {len(self.inputs)} files -> {len(self.outputs) or 1} by {self.how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOutcome:
    """What a merge tree's strategy chose in one bucket, and from what."""

    bucket: str
    runs: tuple[str, ...]
    reason: str
    why: str
    output: str
    picked: int  # how many of the runs are taken, from the first; 0 for tables without keys
    rewrite_bytes: int
    upgraded_files: int

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "bucket": self.bucket,
            "runs": list(self.runs),
            "reason": self.reason,
            "why": self.why,
            "output": self.output,
            "picked": self.picked,
            "rewrite_bytes": self.rewrite_bytes,
            "upgraded_files": self.upgraded_files,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a plan will read, write and need, or what a run did."""

    read_bytes: int
    write_bytes: int
    verify_bytes: int
    staging_bytes: int
    files_in: int
    files_out: int

    @classmethod
    def of(cls, read_bytes: int, write_bytes: int, *, files_in: int, files_out: int) -> Cost:
        """What follows from what is read and written: both are read once more to prove it."""
        return cls(
            read_bytes=read_bytes,
            write_bytes=write_bytes,
            verify_bytes=read_bytes + write_bytes,
            staging_bytes=write_bytes,
            files_in=files_in,
            files_out=files_out,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The answer of plan, compact and merge."""

    run: str | None
    table: str
    strategy: str
    status: Status
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    verified: str
    cost: Cost
    family: str = "hive"
    name: str = ""  # of the table, if a metastore was asked
    undo_by_name: bool = False  # a new location: only the metastore knows where the rows are
    runs: tuple[tuple[str, str], ...] = ()  # with the folder of each, if there were several
    rows: int = 0
    seconds: float = 0.0
    verify_seconds: float = 0.0
    swap_ms: float = 0.0
    units: tuple[UnitOutcome, ...] = ()
    buckets: tuple[BucketOutcome, ...] = ()  # of a plan of a merge tree
    snapshots: tuple[int, ...] = ()  # that a run on a Paimon table published
    skipped: tuple[Skipped, ...] = ()
    recovered: tuple[str, ...] = ()
    message: str = ""
    warnings: tuple[str, ...] = ()
    read_times: tuple[dict[str, Any], ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """The documented keys, in their documented order."""
        plain: dict[str, Any] = {
            "format_version": 1,
            "run": self.run,
            "table": self.table,
            "family": self.family,
            "strategy": self.strategy,
            "status": self.status.value,
            "files_before": self.files_before,
            "files_after": self.files_after,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "rows": self.rows,
            "verified": self.verified,
            "seconds": round(self.seconds, 3),
            "verify_seconds": round(self.verify_seconds, 3),
            "swap_ms": round(self.swap_ms, 3),
            "cost": {name: getattr(self.cost, name) for name in self.cost.__slots__},
            "units": [unit.to_json() for unit in self.units],
            "skipped": [{"what": s.what, "why": s.why, "kind": s.kind.value} for s in self.skipped],
            "message": self.message,
        }
        if self.name:
            plain["name"] = self.name
        if self.runs:
            plain["runs"] = [{"run": run, "table": table} for run, table in self.runs]
        if self.buckets:
            plain["buckets"] = [bucket.to_json() for bucket in self.buckets]
        if self.snapshots:
            plain["snapshots"] = list(self.snapshots)
        if self.warnings:
            plain["warnings"] = list(self.warnings)
        if self.recovered:
            plain["recovered"] = list(self.recovered)
        if self.read_times:
            plain["read_times"] = list(self.read_times)
        return plain


def status_of(*, committed: int, skipped: tuple[Skipped, ...], planned: bool = False) -> Status:
    """Derive the status from what was done and what was not."""
    kinds = {skip.kind for skip in skipped}
    broken = kinds & {SkipKind.UNREADABLE, SkipKind.CONFLICT, SkipKind.FAILED}
    if committed and planned:
        return Status.PLANNED
    if committed:
        return Status.PARTIAL if broken else Status.COMMITTED
    if SkipKind.FAILED in kinds:
        return Status.FAILED
    if SkipKind.CONFLICT in kinds:
        return Status.CONFLICT
    if SkipKind.UNREADABLE in kinds and not planned:
        # Nothing was merged and something is broken: to say "nothing to do" every night would hide it.
        return Status.FAILED
    return Status.REFUSED if SkipKind.REFUSED in kinds else Status.NOTHING_TO_DO
