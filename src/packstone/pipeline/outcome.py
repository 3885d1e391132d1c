"""Make the ``Outcome`` that users see, of a plan or of a run, for every family."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from packstone.model.outcome import (
    BucketOutcome,
    Cost,
    Outcome,
    SkipKind,
    SkipLog,
    Skipped,
    Status,
    UnitOutcome,
    status_of,
)
from packstone.model.sizes import plural
from packstone.model.unit import How
from packstone.runs.interrupts import interrupting_signal

if TYPE_CHECKING:
    from packstone.model.maintenance import Recovered
    from packstone.model.outcome import EngineUse
    from packstone.model.work import PlannedPart, Totals
    from packstone.pipeline.compact import Tally
    from packstone.pipeline.contract import FamilyTable
    from packstone.tables.family import Family

MAX_PLANNED_UNITS_SHOWN = 10_000  # a plan of a million units is a number, not a list


@dataclass(slots=True)
class Answer:
    """Makes outcomes of one command on one table."""

    family: Family
    table: FamilyTable[Any, Any, Any, Any]
    began: float = field(default_factory=time.perf_counter)

    def planned(self, sketch: PlanSketch, *, engine: EngineUse | None = None) -> Outcome:
        """The outcome of ``plan``."""
        totals, skipped = self.table.totals, tuple(sketch.skipped)
        return self._outcome(
            status_of(committed=sketch.count, skipped=skipped, planned=True),
            files_after=totals.files - sketch.files_in + sketch.files_out,
            bytes_after=totals.bytes,
            verified=self.table.verify,
            cost=Cost.of(sketch.read_bytes, sketch.read_bytes, files_in=sketch.files_in, files_out=sketch.files_out),
            units=tuple(sketch.units),
            buckets=tuple(sketch.buckets),
            skipped=skipped,
            message=_message(self.family, totals, skipped, count=sketch.count),
            warnings=self.table.warnings(),
            engine=engine,
        )

    def done(
        self, tally: Tally, run: str, *, recovered: tuple[Recovered, ...] = (), engine: EngineUse | None = None
    ) -> Outcome:
        """The outcome of ``compact``."""
        units, skipped, totals = tuple(tally.units), tuple(tally.skipped), self.table.totals
        rewrites = [unit for unit in units if unit.how != How.UPGRADE]
        cost = Cost.of(
            sum(unit.bytes_before for unit in rewrites),
            sum(unit.bytes_after for unit in rewrites),
            files_in=sum(unit.files_in for unit in rewrites),
            files_out=sum(len(unit.outputs) for unit in rewrites),
        )
        message = _message(self.family, totals, skipped, count=len(units))
        return self._outcome(
            status_of(committed=len(units), skipped=skipped),
            run=run if units else None,
            files_after=totals.files - cost.files_in + cost.files_out,
            bytes_after=totals.bytes - cost.read_bytes + cost.write_bytes,
            rows=sum(unit.rows for unit in units),
            verified=self.table.verify if rewrites else "none",
            verify_seconds=sum(unit.read_seconds_before + unit.read_seconds_after for unit in units),
            commit_ms=tally.commit_ms,
            reader_gap_ms=tally.reader_gap_ms,
            cost=cost,
            units=units,
            skipped=skipped,
            versions=tuple(tally.versions),
            recovered=tuple(str(one) for one in recovered),
            message=_interrupted_message(self.family, tally) if tally.is_interrupted else message,
            reused=tally.reused,
            interrupted=_interrupting_name() if tally.is_interrupted else "",
            warnings=self.table.warnings(),
            engine=engine,
        )

    def empty(self, status: Status, *, why: str = "") -> Outcome:
        """The outcome of a run that did nothing."""
        skipped = (Skipped(what=self.table.path, why=why, kind=SkipKind.REFUSED),) if why else ()
        return self._outcome(
            status,
            files_after=0,
            bytes_after=0,
            verified="none",
            cost=Cost.of(0, 0, files_in=0, files_out=0),
            skipped=skipped,
            message=why,
        )

    def _outcome(self, status: Status, **facts: Any) -> Outcome:
        run = facts.pop("run", None)
        return Outcome(
            run=run,
            table=self.table.path,
            family=self.family.name,
            strategy=self.table.strategy,
            status=status,
            files_before=self.table.totals.files,
            bytes_before=self.table.totals.bytes,
            seconds=time.perf_counter() - self.began,
            **facts,
        )


@dataclass(slots=True)
class PlanSketch:
    """Counts the parts of a plan as they come, and keeps the first of them to be shown."""

    count: int = 0
    files_in: int = 0
    files_out: int = 0
    read_bytes: int = 0
    units: list[UnitOutcome] = field(default_factory=list)
    buckets: list[BucketOutcome] = field(default_factory=list)
    skipped: SkipLog = field(default_factory=SkipLog)

    def add(self, part: PlannedPart[Any]) -> None:
        """Count one part."""
        self.count += len(part.units)
        self.files_in += part.files_in
        self.files_out += part.files_out
        self.read_bytes += part.read_bytes
        if len(self.units) < MAX_PLANNED_UNITS_SHOWN:
            self.units += part.units
            self.buckets += [part.bucket] if part.bucket is not None else []


def _interrupting_name() -> str:
    """The signal that interrupted the command; SIGINT (Ctrl-C) in a program with its own signal handlers."""
    return signal.Signals(interrupting_signal() or signal.SIGINT).name


def _interrupted_message(family: Family, tally: Tally) -> str:
    done, known = len(tally.published), len(tally.offered)
    if not done:
        return "Interrupted: nothing was changed; run the command again."
    so_far = "" if tally.is_planned else "planned so far "
    verb = "is" if done == 1 else "are"
    if done == known > 1 and tally.is_planned:
        return f"Interrupted: all {plural(known, family.part)} are published; run the command again to look for more."
    found = f"Interrupted: {done:,} of {plural(known, family.part)} {so_far}{verb} published"
    rest = ", the others are unchanged" if done < known else ""
    return f"{found}{rest}; run the command again to continue."


def _message(family: Family, totals: Totals, skipped: tuple[Skipped, ...], *, count: int) -> str:
    if count:
        return ""
    kinds = {skip.kind for skip in skipped}
    if SkipKind.UNREADABLE in kinds:
        return "There are files that cannot be read, and nothing else needs merging."
    if kinds - {SkipKind.NOT_NEEDED}:
        return "Nothing is merged; what was left alone, and why, is listed."
    if totals.parts == 0 and totals.is_filtered:
        return f"No {family.part} matches the filters."
    if totals.files == 0:
        return totals.why_empty or "There are no data files here."
    return f"No {family.part} needs merging."
