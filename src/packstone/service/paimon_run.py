"""One compaction of a Paimon table: plan → run → verify → commit, in groups of buckets.

A group is committed as one snapshot. Each of its buckets is planned again over the files known at the start and the
outputs of this run until its plan is empty, so a second command has nothing to do. A bucket that somebody else
changed meanwhile is left out of the commit, read anew and planned again; the rest of the group is not held up.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from packstone import __version__
from packstone.errors import (
    CommitUnknownError,
    ConflictError,
    PackstoneError,
    UnavailableError,
    VerificationError,
    storage_sentence,
)
from packstone.model.outcome import UnitOutcome
from packstone.model.sizes import format_bytes
from packstone.model.skipped import SkipKind, SkipLog, Skipped
from packstone.model.unit import How, UnitResult, UnitStatus
from packstone.runs.clock import system_clock
from packstone.runs.interrupts import Interrupted, finish_first
from packstone.runs.tasks import pack_units
from packstone.service.paimon_units import UnitMaker, needs_no_task
from packstone.strategy.pick import Reason
from packstone.tables.paimon.bucket_rules import Moment
from packstone.tables.paimon.commit import commit_edits
from packstone.tables.paimon.commit_options import CommitOptions
from packstone.tables.paimon.edit import Edit
from packstone.tables.paimon.manifest_merge import MergeLimits
from packstone.tables.paimon.paths import DataFileNames
from packstone.tables.paimon.publish import check_published
from packstone.tables.paimon.retry_wait import RetryWait
from packstone.tables.paimon.snapshot_files import read_latest_snapshot
from packstone.tables.paimon.tasks import PAIMON_JOB, PaimonContext
from packstone.tables.state_folder import make_staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packstone.model.filters import Budget
    from packstone.model.paimon_options import PaimonOptions
    from packstone.runs.engine import Engine
    from packstone.runs.tasks import Progress
    from packstone.service.paimon_planner import PaimonPlanner
    from packstone.service.paimon_session import PaimonSession
    from packstone.tables.paimon.commit import CommitReport
    from packstone.tables.paimon.conflicts import BucketConflict
    from packstone.tables.paimon.data_file_meta import DataFileMeta
    from packstone.tables.paimon.edit import BucketId
    from packstone.tables.paimon.plan_bucket import BucketPlan, PlannedUnit
    from packstone.tables.paimon.publish import Published
    from packstone.tables.paimon.store import PaimonStore
    from packstone.tables.paimon.tasks import PaimonUnit

GROUP_UNITS = 2_000
SPACE_MARGIN_PCT = 10
_REPLANS = 3  # how often a bucket is tried again that others keep changing


@dataclass(slots=True)
class BucketWork:
    """A bucket in flight: its plan, the payloads made of it, and what came back."""

    plan: BucketPlan
    tries: int = 0
    units: list[tuple[PlannedUnit, tuple[PaimonUnit, ...]]] = field(default_factory=list)
    results: dict[int, UnitResult[DataFileMeta]] = field(default_factory=dict)

    @property
    def bucket_id(self) -> BucketId:
        """Which bucket this is."""
        return self.plan.bucket.partition, self.plan.bucket.bucket

    @property
    def payloads(self) -> list[PaimonUnit]:
        """All work for tasks."""
        return [unit for _, units in self.units for unit in units]

    def edit(self) -> Edit:
        """What the commit changes: inputs out, outputs in, upgraded files on their new level."""
        bucket = self.plan.bucket
        before: list[DataFileMeta] = []
        after: list[DataFileMeta] = []
        for planned, units in self.units:
            before += planned.files
            after += self._outputs(planned, units)
        return Edit(
            partition=bucket.partition,
            bucket=bucket.bucket,
            total_buckets=bucket.total_buckets,
            before=tuple(before),
            after=tuple(after),
        )

    def _outputs(self, planned: PlannedUnit, units: tuple[PaimonUnit, ...]) -> list[DataFileMeta]:
        if not units:  # an upgrade that can be trusted as recorded
            return [replace(planned.files[0], level=planned.output_level)]
        return [file for unit in units for file in self.results[unit.number].outputs]


@dataclass(slots=True)
class PaimonRun:
    """The state of one run; ``units`` and ``skipped`` are its answer."""

    session: PaimonSession
    store: PaimonStore
    planner: PaimonPlanner
    engine: Engine
    asked: PaimonOptions
    budget: Budget
    may_go_on: Callable[[], str | None]
    progress: Progress
    units: list[UnitOutcome] = field(default_factory=list)
    published: list[Published] = field(default_factory=list)
    skipped: SkipLog = field(default_factory=SkipLog)
    files_removed: int = 0
    bytes_removed: int = 0
    commit_ms: float = 0.0
    _maker: UnitMaker = field(init=False)
    _groups: int = 0
    _bytes_taken: int = 0
    _files_taken: int = 0
    _done_units: int = 0
    _done_bytes: int = 0

    def __post_init__(self) -> None:
        self._maker = UnitMaker.start(self.store, self.asked, now_seconds=int(time.time()))

    def run(self, plans: Iterable[BucketPlan]) -> None:
        """Take up the plans; if the run must stop, what it committed before is still its answer."""
        try:
            for group in self._grouped(plans):
                self._run_group(group)
            for published in self.published:
                check_published(self.store.io, self.store.path, published)
        except Interrupted:
            if not self.units:
                raise
            self._note_stop("It was interrupted.")
        except (PackstoneError, OSError) as error:
            stop = error if isinstance(error, PackstoneError) else UnavailableError(storage_sentence(error))
            if not self.units:
                raise stop from error
            self._note_stop(stop.message)

    def _note_stop(self, why: str) -> None:
        why = f"The run stopped before its end. {why}"
        self.skipped.append(Skipped(what=self.store.path, why=why, kind=SkipKind.FAILED))

    def _grouped(self, plans: Iterable[BucketPlan]) -> Iterator[list[BucketWork]]:
        """Gather buckets until they are worth a commit."""
        group: list[BucketWork] = []
        group_bytes, group_units = 0, 0
        for plan in plans:
            if not plan.units or not self._take_up(plan):
                continue
            group.append(BucketWork(plan=plan))
            group_bytes += plan.rewrite_bytes
            group_units += len(plan.units)
            if group_bytes >= self.asked.commit_every_bytes or group_units >= GROUP_UNITS:
                yield group
                group, group_bytes, group_units = [], 0, 0
        if group:
            yield group

    def _take_up(self, plan: BucketPlan) -> bool:
        """Ask the clock and the budget."""
        files = sum(len(unit.files) for unit in plan.units)
        budget, stop = self.budget, self.may_go_on()
        if stop is None and budget.max_bytes is not None and self._bytes_taken + plan.rewrite_bytes > budget.max_bytes:
            stop = f"over the budget of --max-bytes {format_bytes(budget.max_bytes)}"
        if stop is None and budget.max_files is not None and self._files_taken + files > budget.max_files:
            stop = f"over the budget of --max-files {budget.max_files}"
        if stop is not None:
            self._skip(plan, stop, SkipKind.FILTERED)
            return False
        self._bytes_taken += plan.rewrite_bytes
        self._files_taken += files
        return True

    def _skip(self, plan: BucketPlan, why: str, kind: SkipKind) -> None:
        self.skipped.append(Skipped(what=self.store.bucket_label(plan.bucket), why=why, kind=kind))

    def _run_group(self, group: list[BucketWork]) -> None:
        """Round after round, until no bucket of the group has anything left to do."""
        while group:
            self._groups += 1
            staging = self.session.staging(self._groups)
            make_staging(self.store.io, self.session.state, staging)
            group = self._with_room(group)
            self._make_units(group)
            try:
                self._run_units(group, staging)
            except VerificationError:
                raise  # the evidence stays
            except BaseException:
                self._remove_all_outputs(group)
                raise
            whole = [work for work in group if self._is_whole(work)]
            group = self._commit(whole) if whole else []
            self.store.io.remove_tree(staging)

    def _make_units(self, group: list[BucketWork]) -> None:
        for work in group:
            entries = self.planner.index_entries(work.plan.bucket)
            for planned in work.plan.units:
                made = () if needs_no_task(planned) else self._maker.make(work.plan, planned, index_entries=entries)
                work.units.append((planned, tuple(made)))

    def _with_room(self, group: Sequence[BucketWork]) -> list[BucketWork]:
        """Leave out the buckets for whose merged files there is no space."""
        free = self.store.io.free_bytes(self.store.path)
        kept: list[BucketWork] = []
        for work in group:
            need = work.plan.rewrite_bytes * (100 + SPACE_MARGIN_PCT) // 100
            if need > free:
                why = f"its merged files need {format_bytes(need)} and {format_bytes(free)} are free at the table"
                self._skip(work.plan, why, SkipKind.REFUSED)
                continue
            free -= need
            kept.append(work)
        return kept

    def _run_units(self, group: list[BucketWork], staging: str) -> None:
        payloads = [unit for work in group for unit in work.payloads]
        if not payloads:
            return
        owner = {unit.number: work for work in group for unit in work.payloads}
        total_bytes = sum(unit.input_bytes for unit in payloads)

        def report(units: int, size_bytes: int) -> None:
            self.progress.update(
                done_units=self._done_units + units,
                units=self._done_units + len(payloads),
                done_bytes=self._done_bytes + size_bytes,
                total_bytes=self._done_bytes + total_bytes,
            )

        report(0, 0)
        what = f"compact {len(group)} buckets of {self.store.location}"
        parallel, deaths = self.budget.parallel, self.session.deaths
        tasks = pack_units(payloads, context=self._context(), parallel=parallel, deaths=deaths)
        for result in self.engine.run(PAIMON_JOB, tasks, staging=staging, what=what, on_progress=report):
            owner[result.number].results[result.number] = result
        self._done_units += len(payloads)
        self._done_bytes += total_bytes
        self._check_proofs(group)

    def _context(self) -> PaimonContext:
        options = self.store.options
        now = datetime.now()  # noqa: DTZ005 - Paimon stores the wall clock
        return PaimonContext(
            run_folder=self.session.folder,
            schema=self.store.schema,
            names=DataFileNames(
                prefix=options.data_file_prefix, include_compression=options.suffix_includes_compression
            ),
            created_ms=Moment(unix_seconds=0, local=now).local_ms,
        )

    def _check_proofs(self, group: list[BucketWork]) -> None:
        for work in group:
            for result in work.results.values():
                if result.status is UnitStatus.MISMATCH:
                    self.session.keep_evidence = True
                    raise VerificationError(f"{self.store.bucket_label(work.plan.bucket)}: {result.message}")

    def _is_whole(self, work: BucketWork) -> bool:
        """Whether every unit of a bucket was written; what went wrong is noted, and its siblings' outputs go."""
        bad = [result for result in work.results.values() if result.status is not UnitStatus.WRITTEN]
        if not bad:
            return True
        kinds = {UnitStatus.UNREADABLE: SkipKind.UNREADABLE, UnitStatus.UNFAITHFUL: SkipKind.REFUSED}
        self._skip(work.plan, bad[0].message, kinds.get(bad[0].status, SkipKind.FAILED))
        self._remove_outputs(work)
        return False

    def _remove_outputs(self, work: BucketWork) -> None:
        """Remove what this run wrote for a bucket that is definitely not committed."""
        folder = self.store.bucket_folder(work.plan.bucket)
        for result in work.results.values():
            for file in result.outputs if result.how is not How.UPGRADE else ():
                self.store.io.remove(f"{folder}/{file.file_name}")

    def _remove_all_outputs(self, works: Sequence[BucketWork]) -> None:
        with contextlib.suppress(OSError):  # `clean` knows their names
            for work in works:
                self._remove_outputs(work)

    def _commit(self, works: list[BucketWork]) -> list[BucketWork]:
        """Publish the group; return the buckets that have another round to go."""
        by_bucket = {work.bucket_id: work for work in works}
        edits = {bucket_id: self._edit(work) for bucket_id, work in by_bucket.items()}
        began = time.perf_counter()
        try:
            with finish_first():
                report = commit_edits(
                    self.store.io,
                    self.store.path,
                    edits.values(),
                    options=self._commit_options(),
                    clock=replace(system_clock(), new_id=lambda: str(uuid.uuid4())),  # Paimon names files by UUIDs
                    record=self.session.record_names,
                    earlier=tuple(self.published),
                )
                committed = [by_bucket[bucket_id] for bucket_id in report.committed]
                self._note_report(report, [(work, edits[work.bucket_id]) for work in committed])
        except UnavailableError:  # before anything was published: a full disk should not stay full
            self._remove_all_outputs(works)
            raise
        except CommitUnknownError:
            self.session.keep_records = True
            raise
        except ConflictError as conflict:
            for work in works:
                self._skip(work.plan, conflict.message, SkipKind.CONFLICT)
                self._remove_outputs(work)
            return []
        self.commit_ms += (time.perf_counter() - began) * 1000
        following = (self._next_round(work, edits[work.bucket_id]) for work in committed)
        again = [work for work in following if work is not None and self._take_up(work.plan)]
        lost = [(conflict, by_bucket[conflict.partition, conflict.bucket]) for conflict in report.conflicting]
        return [*again, *self._plan_lost(lost)]

    def _note_report(self, report: CommitReport, committed: list[tuple[BucketWork, Edit]]) -> None:
        if report.published is not None:
            self.published.append(report.published)
            self.session.note_published(report.published)
        for work, edit in committed:
            self._note_committed(work, edit)

    def _edit(self, work: BucketWork) -> Edit:
        edit = work.edit()
        names = {file.file_name for file in edit.rewritten}
        entries = self.planner.index_entries(work.plan.bucket)
        covered = tuple(e.file_name for e in entries if any(item.data_file in names for item in e.ranges or ()))
        return replace(edit, index_files=covered)

    def _plan_lost(self, lost: list[tuple[BucketConflict, BucketWork]]) -> list[BucketWork]:
        """Read buckets anew that others changed, and plan them again; give up on one that keeps changing."""
        wanted: dict[BucketId, BucketWork] = {}
        for conflict, work in lost:
            self._remove_outputs(work)
            if work.tries >= _REPLANS or self.may_go_on() is not None:
                self._skip(work.plan, f"somebody else changed it meanwhile: {conflict.why}", SkipKind.CONFLICT)
            else:
                wanted[work.bucket_id] = work
        latest = read_latest_snapshot(self.store.io, self.store.path) if wanted else None
        if latest is None:
            return []
        found = []
        for bucket in self.planner.read_again(latest, wanted):
            plan = self.planner.plan_again(bucket)
            if plan.units and self._take_up(plan):
                tries = wanted[bucket.partition, bucket.bucket].tries + 1
                found.append(BucketWork(plan=plan, tries=tries))
        return found

    def _next_round(self, work: BucketWork, edit: Edit) -> BucketWork | None:
        gone = {file.file_name for file in edit.before}
        kept = tuple(file for file in work.plan.bucket.files if file.file_name not in gone)
        if self.may_go_on() is not None:
            return None
        plan = self.planner.plan_next(replace(work.plan.bucket, files=(*kept, *edit.after)))
        # Single files that ask for a rewrite had it; told to rewrite all of them, we would do so for ever.
        return BucketWork(plan=plan) if plan.units and plan.reason != Reason.FILE_REWRITE else None

    def _note_committed(self, work: BucketWork, edit: Edit) -> None:
        self.files_removed += len(edit.before) - len(edit.after)
        self.bytes_removed += sum(f.file_size for f in edit.before) - sum(f.file_size for f in edit.after)
        label, folder = self.store.bucket_label(work.plan.bucket), self.store.bucket_folder(work.plan.bucket)
        self.session.note_committed({f"{folder}/{file.file_name}" for file in edit.after})
        for planned, units in work.units:
            results = [work.results[unit.number] for unit in units]
            self.units.append(_unit_outcome(label, work.plan, planned=planned, results=results))

    def _commit_options(self) -> CommitOptions:
        options = self.store.options
        return CommitOptions(
            user=self.session.commit_user,
            writer_version=f"packstone-{__version__}",
            retry=RetryWait(
                max_retries=options.commit_max_retries,
                min_ms=options.commit_min_retry_wait_ms,
                max_ms=options.commit_max_retry_wait_ms,
            ),
            merge=MergeLimits(
                target_bytes=options.manifest_target_bytes,
                full_threshold_bytes=options.manifest_full_threshold_bytes,
                min_count=options.manifest_merge_min_count,
            ),
            manifest_codec=options.manifest_compression,
            single_writer=self.asked.single_writer,
        )


def _unit_outcome(
    label: str, plan: BucketPlan, *, planned: PlannedUnit, results: Sequence[UnitResult[DataFileMeta]]
) -> UnitOutcome:
    files = [file for result in results if result.how is not How.UPGRADE for file in result.outputs]
    is_upgrade = planned.how is How.UPGRADE and not files
    outputs = tuple(file.file_name for file in (planned.files if is_upgrade else files))
    return UnitOutcome(
        partition=label,
        inputs=tuple(file.file_name for file in planned.files),
        outputs=outputs,
        how=How.UPGRADE if is_upgrade else How.REWRITE,
        why=plan.why,
        bytes_before=planned.input_bytes,
        bytes_after=planned.input_bytes if is_upgrade else sum(file.file_size for file in files),
        rows=sum(result.rows_out for result in results),
        fingerprint=results[0].fingerprint if len(results) == 1 else "",
        seconds=sum(result.seconds for result in results),
        why_bigger="; ".join(result.why_bigger for result in results if result.why_bigger),
        read_seconds_before=sum(result.read_seconds_before for result in results),
        read_seconds_after=sum(result.read_seconds_after for result in results),
    )
