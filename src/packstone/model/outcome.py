"""The outcome of a command: the values of the JSON of ``plan``, ``compact`` and ``merge``, and what was skipped."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.model.unit import UnitResult


_SIGNALLED: Final = 128  # shells add this to the number of the signal that ended a process


class Status(StrEnum):
    """How a command ended."""

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
    columns: str = ""  # how the columns of a Parquet file were made, and why some or all were encoded
    input_files: int | None = None  # the number of files of the inputs, where inputs are not files themselves

    @property
    def files_in(self) -> int:
        """How many files were merged."""
        return len(self.inputs) if self.input_files is None else self.input_files

    @staticmethod
    def sums(results: Sequence[UnitResult[Any]]) -> dict[str, Any]:
        """The totals of a merge over its units; it has a fingerprint only if it is a single unit."""
        return {
            "rows": sum(result.rows_out for result in results),
            "fingerprint": results[0].fingerprint if len(results) == 1 else "",
            "seconds": sum(result.seconds for result in results),
            "read_seconds_before": sum(result.read_seconds_before for result in results),
            "read_seconds_after": sum(result.read_seconds_after for result in results),
            "why_bigger": "; ".join(result.why_bigger for result in results if result.why_bigger),
            "columns": "; ".join(dict.fromkeys(result.columns for result in results if result.columns)),
        }

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        plain: dict[str, Any] = {
            "part": self.partition,
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
        if self.columns:
            plain["columns"] = self.columns
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
    picked: int  # the number of runs that are merged, counted from the first; 0 for tables without keys
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
        """The cost of reading and writing this much: both are read once more to prove the merge."""
        return cls(
            read_bytes=read_bytes,
            write_bytes=write_bytes,
            verify_bytes=read_bytes + write_bytes,
            staging_bytes=write_bytes,
            files_in=files_in,
            files_out=files_out,
        )


@dataclass(frozen=True, slots=True)
class EngineUse:
    """The engine that ran the tasks of a command."""

    name: str  # inline or spark
    why: str = ""  # why it was chosen; empty if the caller named it

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {"name": self.name, "why": self.why}

    def __str__(self) -> str:
        return f"{self.name}: {self.why}" if self.why else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of plan, compact and merge."""

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
    name: str = ""  # of the table, if it was opened by its name in a metastore
    undo_by_name: bool = False  # published as a new location: only the metastore knows where the rows are
    runs: tuple[tuple[str, str], ...] = ()  # each run with its folder, if there were several
    rows: int = 0
    seconds: float = 0.0
    verify_seconds: float = 0.0
    commit_ms: float = 0.0
    reader_gap_ms: float = 0.0  # of swaps in place: how long a reader could see too few files
    units: tuple[UnitOutcome, ...] = ()
    buckets: tuple[BucketOutcome, ...] = ()  # of a plan of a merge tree
    versions: tuple[int, ...] = ()  # snapshots or statuses that the run published
    skipped: tuple[Skipped, ...] = ()
    recovered: tuple[str, ...] = ()
    message: str = ""
    interrupted: str = ""  # SIGINT or SIGTERM, if one of them ended the run early
    reused: int = 0  # merges whose outputs a killed run had finished
    warnings: tuple[str, ...] = ()
    engine: EngineUse | None = None  # None: no task was run

    @property
    def exit_code(self) -> int:
        """The command's exit code; after a signal, that of a process that the signal killed."""
        return _SIGNALLED + signal.Signals[self.interrupted] if self.interrupted else self.status.exit_code

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
            "engine": None if self.engine is None else self.engine.to_json(),
            "seconds": round(self.seconds, 3),
            "verify_seconds": round(self.verify_seconds, 3),
            "commit_ms": round(self.commit_ms, 3),
            "reader_gap_ms": round(self.reader_gap_ms, 3),
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
        if self.interrupted:
            plain["interrupted"] = self.interrupted
        if self.reused:
            plain["reused"] = self.reused
        if self.versions:
            plain["versions"] = list(self.versions)
        if self.warnings:
            plain["warnings"] = list(self.warnings)
        if self.recovered:
            plain["recovered"] = list(self.recovered)
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
        # Nothing was merged and something is broken: reporting "nothing to do" every night would hide it.
        return Status.FAILED
    return Status.REFUSED if SkipKind.REFUSED in kinds else Status.NOTHING_TO_DO


class SkipKind(StrEnum):
    """What a skip means for the outcome of the run."""

    NOT_NEEDED = "not-needed"  # nothing wrong
    LEFT_ALONE = "left-alone"  # cannot be merged, and need not
    FILTERED = "filtered"  # by the caller's own filters or budget
    REFUSED = "refused"  # must not be merged
    UNREADABLE = "unreadable"  # broken input
    CONFLICT = "conflict"  # another run or writer has it
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Something left alone, and why: shown by plan, by compact and in the history."""

    what: str
    why: str
    kind: SkipKind

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class SkipLog:
    """Collects skips; of kinds that need no action, it keeps the first ten thousand and counts the rest.

    A table can have a million partitions that need no merge, and the driver's memory is limited.
    """

    NAMED = 10_000
    _QUIET = frozenset({SkipKind.NOT_NEEDED, SkipKind.FILTERED})

    def __init__(self) -> None:
        self._kept: list[Skipped] = []
        self._quiet: dict[SkipKind, int] = dict.fromkeys(self._QUIET, 0)

    def append(self, skip: Skipped) -> None:
        """Add one."""
        if skip.kind in self._QUIET:
            self._quiet[skip.kind] += 1
            if self._quiet[skip.kind] > self.NAMED:
                return
        self._kept.append(skip)

    def extend(self, skips: Iterable[Skipped]) -> None:
        """Add several."""
        for skip in skips:
            self.append(skip)

    def __iter__(self) -> Iterator[Skipped]:
        yield from self._kept
        for kind, count in sorted(self._quiet.items()):
            if count > self.NAMED:
                yield Skipped(what=f"{count - self.NAMED} more", why=f"{kind}, not listed one by one", kind=kind)
