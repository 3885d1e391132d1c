"""The protocol of a family's table, as the pipeline uses it; implemented by ``tables/<family>/table.py``.

A table is opened for one command, with the options of that command.

``plans(1)`` offers every part that the filters select; ``plans(n)`` offers parts that exist only because of earlier
rounds. ``again`` plans another pass over the same part. A part that was offered and not committed is never offered
again in the run, so the rounds end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from packstone.model.unit import OutputT
from packstone.model.work import DetailT, PlanT, UnitT

if TYPE_CHECKING:
    from packstone.model.health import Health
    from packstone.model.maintenance import (
        CheckRequest,
        CleanPlan,
        CleanRequest,
        PublishedRun,
        Recovered,
        RestorePlan,
        TableCheck,
        ToProve,
    )
    from packstone.model.outcome import Skipped, UnitOutcome
    from packstone.model.work import Commit, PlannedPart, Totals, WaveLimits, Work
    from packstone.runs.folder import Run
    from packstone.runs.tasks import Job
    from packstone.storage.fileio import FileIO
    from packstone.tables.family import PlanContext


class FamilyTable(Protocol[PlanT, UnitT, OutputT, DetailT]):
    """One open table."""

    io: FileIO
    root: str  # the table
    path: str  # the target of the command: the table, or a partition of it
    state: str  # the folder of Packstone's own files of the table
    job: Job[Any, UnitT, OutputT]
    detail: type[DetailT]  # what a saved plan stores for a part
    wave: WaveLimits
    one_commit: bool  # a wave is published completely or not at all; otherwise each part is
    whole_parts: bool  # a failed unit fails its whole part; otherwise only itself
    totals: Totals

    @property
    def strategy(self) -> str:
        """The name of the strategy that chooses parts."""
        ...

    @property
    def verify(self) -> str:
        """The level at which outputs are verified."""
        ...

    @property
    def output_home(self) -> str:
        """The folder where outputs are written, which needs the free space."""
        ...

    def health(self) -> Health:
        """Describe the state of the table."""
        ...

    def warnings(self) -> tuple[str, ...]:
        """Warnings that an operator should see before the next run."""
        ...

    def own_options(self) -> Mapping[str, str]:
        """The table's own settings, by the keys of the family's options: they apply unless a run overrides them."""
        ...

    def check_allowed(self) -> None:
        """Raise RefusedError if the table must not be compacted, or not with these options; called before planning."""
        ...

    def check_writable(self) -> None:
        """Raise RefusedError if nothing can be published here; called before hours of work."""
        ...

    def begin(self, run: Run) -> Sequence[Recovered]:
        """Check what needs the records of the run, and recover what dead runs left half-done."""
        ...

    def is_half_done(self, run_id: str) -> bool:
        """Whether a run left something half-done, so that its records and its staging are still needed."""
        ...

    def plans(self, number: int, ctx: PlanContext) -> Iterator[PlanT | Skipped]:
        """Offer the parts of one round, and report what is left alone and why."""
        ...

    def describe(self, plan: PlanT, *, is_saved: bool) -> PlannedPart[DetailT]:
        """Describe a part as it is shown, and saved."""
        ...

    def resume(self, saved: Iterable[PlannedPart[DetailT]], number: int) -> Iterator[PlanT | Skipped]:
        """Offer the parts of a saved plan whose inputs are unchanged; report the others as skipped."""
        ...

    def claim(self, plans: Sequence[PlanT], run: Run) -> Mapping[str, str]:
        """Claim the parts of a wave; return the parts that another run holds, each with its holder."""
        ...

    def context(self, run: Run) -> Any:
        """The values that all units of the run share."""
        ...

    def units(self, work: Work[PlanT, UnitT, OutputT]) -> Sequence[UnitT]:
        """The units of the next stage, numbered uniquely within the run; () when the part can be committed."""
        ...

    def label(self, part: str, name: str) -> str:
        """Name a file of a part for people, or without a name the part itself."""
        ...

    def changed_input(self, unit: UnitT) -> str | None:
        """Name an input of a unit that changed since it was planned, or None; always None if files are immutable."""
        ...

    def commit(self, works: Sequence[Work[PlanT, UnitT, OutputT]], run: Run) -> Commit:
        """Publish the works of a wave; signals wait until it returns.

        CommitUnknownError means that the commit may have happened: look before a retry. After any other error nothing
        was published, and the outputs may be removed. Where a wave is not one commit, a part that cannot be published
        is in ``Commit.conflicts`` or ``Commit.failed``, and after a second signal (``is_urgent``) no further part is
        begun.
        """
        ...

    def outcomes(self, work: Work[PlanT, UnitT, OutputT]) -> tuple[UnitOutcome, ...]:
        """The outcomes to report for a part once it is committed."""
        ...

    def discard(self, work: Work[PlanT, UnitT, OutputT], run: Run) -> None:
        """Remove outputs that are definitely not published."""
        ...

    def again(self, work: Work[PlanT, UnitT, OutputT], lost: str | None) -> PlanT | Skipped | None:
        """Plan the same part once more, after its commit or because it was lost; None if it is done."""
        ...

    def release(self, plans: Sequence[PlanT], run: Run, *, unfinished: bool) -> None:
        """Release the claims on parts; ``unfinished``: their commit may be half-done, or its outcome is unknown."""
        ...

    def finish(self, run: Run) -> None:
        """Check, at the end, that what the run published still exists."""
        ...

    def recover(self, run: Run) -> Sequence[Recovered]:
        """Finish or undo what dead runs left, and end them."""
        ...

    def read_published(self, run_id: str) -> PublishedRun | None:
        """Read from the records what a run published; None while something of it must be recovered first."""
        ...

    def measure_reads(self, run_id: str) -> tuple[dict[str, object], ...]:
        """Measure reads of a run's merged files and of their inputs, in turns; () where the family cannot."""
        ...

    def check(self, request: CheckRequest) -> TableCheck:
        """Begin to check that all files of a version exist and are what was written; changes nothing."""
        ...

    def plan_clean(self, request: CleanRequest) -> Any:
        """List what may be removed now."""
        ...

    def clean(self, plan: Any, run: Run, request: CleanRequest) -> CleanPlan:
        """Carry out a clean plan; return what was removed."""
        ...

    def prove(self, run_id: str) -> Iterator[ToProve[UnitT, OutputT]]:
        """The units of a run that can be proved again, with the outputs as they are now."""
        ...

    def plan_restore(self, run_id: str) -> RestorePlan:
        """Plan what undoing a run would change; raise RefusedError if it cannot be undone."""
        ...

    def restore(self, plan: RestorePlan, run: Run) -> RestorePlan:
        """Undo the run; return what was undone."""
        ...


if TYPE_CHECKING:
    from packstone.tables.hive.table import HiveTable
    from packstone.tables.paimon.scan import PaimonSource
    from packstone.tables.paimon.table import PaimonTable
    from packstone.tables.scan_source import ScanSource
    from packstone.tables.segments.scan import SegmentSource
    from packstone.tables.segments.table import SegmentsTable

    AnyTable = FamilyTable[Any, Any, Any, Any]

    def check_families(hive: HiveTable, paimon: PaimonTable, segments: SegmentsTable) -> tuple[AnyTable, ...]:
        """Fail mypy if a family does not match the contract; a new family is one more argument."""
        return hive, paimon, segments

    def check_sources(paimon: PaimonSource, segments: SegmentSource) -> tuple[ScanSource, ...]:
        """Let mypy check that the sources of every family that can be scanned have the members of a source."""
        return paimon, segments
