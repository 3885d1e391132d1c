"""A Paimon table in the pipeline: buckets are planned, rewritten, and published as COMPACT snapshots.

Commits are optimistic: nothing is locked. A bucket that another writer changed is dropped from the commit, read again
and planned again; the rest of the wave is not delayed. Data files are written directly into their buckets under names
that the run's folder records first, so the leftovers of a killed run are known by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError, RefusedError
from packstone.model.limits import Filters
from packstone.model.outcome import BucketOutcome, SkipKind, SkipLog, Skipped, UnitOutcome
from packstone.model.unit import How, UnitStatus
from packstone.model.work import Commit, PlannedPart, Totals, WaveLimits
from packstone.query.filter.partition_filter import parse_partition_filter
from packstone.runs.clock import new_uuid, now_local, now_seconds, system_clock
from packstone.runs.state_folder import find_state_folder
from packstone.strategy.append_bins import roll
from packstone.strategy.pick import Reason
from packstone.tables.optimistic import OptimisticTable
from packstone.tables.paimon.clean import plan_clean, remove_planned
from packstone.tables.paimon.commit import CommitOptions, check_can_publish, check_published, commit_edits
from packstone.tables.paimon.conflicts import Edit
from packstone.tables.paimon.format.data_file import DataFileMeta, FileSource
from packstone.tables.paimon.format.deletion_vectors import read_deletion_entries
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.paths import DataFileNames
from packstone.tables.paimon.format.snapshot import read_latest_snapshot
from packstone.tables.paimon.format.store import open_store
from packstone.tables.paimon.health import observe_paimon
from packstone.tables.paimon.options import PaimonOptions
from packstone.tables.paimon.plan import BucketPlan, BucketUnit, PaimonNow, bucket_rules, plan_bucket
from packstone.tables.paimon.refusals import refuse_table, uncalled_callbacks
from packstone.tables.paimon.restore import find_restored, plan_restore, restore
from packstone.tables.paimon.tasks import PAIMON_JOB, PaimonContext, PaimonUnit
from packstone.tables.paimon.units import UnitMaker, needs_no_task
from packstone.tables.paimon.verify import check_paimon, commit_user, find_committed, find_provable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packstone.model.maintenance import CheckRequest, CleanRequest, PublishedRun, RestorePlan, TableCheck, ToProve
    from packstone.model.work import Work
    from packstone.query.filter.partition_filter import PartitionFilter
    from packstone.runs.folder import Run, WaveRecord
    from packstone.storage.fileio import FileIO
    from packstone.tables.family import PlanContext
    from packstone.tables.paimon.clean import PaimonClean
    from packstone.tables.paimon.commit import Published
    from packstone.tables.paimon.conflicts import BucketId
    from packstone.tables.paimon.format.data_file import BucketFiles
    from packstone.tables.paimon.format.manifest_list import IndexEntry
    from packstone.tables.paimon.format.snapshot import Snapshot
    from packstone.tables.paimon.format.store import PaimonStore
    from packstone.tables.paimon.health import PaimonHealth
    from packstone.tables.paimon.plan import BucketRules

_WAVE_UNITS: Final = 2_000
_PASSES: Final = 4  # attempts at a bucket that other writers keep changing
_RESUMED_PARTS: Final = 5_000  # buckets of a saved plan that are looked up in the manifests together


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedFile:
    """An input: the name and level that it must still have when the plan is run."""

    name: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedUnit:
    """One piece of work of a saved plan."""

    how: How
    sections: tuple[tuple[tuple[SavedFile, ...], ...], ...]
    output_level: int
    drop_deletes: bool
    to_top: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBucket:
    """What a saved plan does in one bucket."""

    partition: bytes
    bucket: int
    reason: str
    output: str
    units: tuple[SavedUnit, ...]


class PaimonTable(OptimisticTable[BucketPlan, PaimonUnit, DataFileMeta]):
    """One table with all its partitions and buckets, opened for one command."""

    job = PAIMON_JOB
    detail = SavedBucket

    def __init__(self, io: FileIO, path: str, options: PaimonOptions | None = None) -> None:
        self.io, self.options = io, options or PaimonOptions()
        self.store = open_store(io, path, overrides=self.options.overrides)
        self.root = self.path = self.store.path
        self.state = find_state_folder(io, self.root)
        self.strategy, self.verify = self.options.strategy, self.options.verify
        self.wave = WaveLimits(units=_WAVE_UNITS, size_bytes=self.options.commit_every_bytes)
        self.totals = Totals()
        self._planner: PaimonPlanner | None = None
        self._maker = UnitMaker.start(self.store, self.options, now_seconds=int(now_seconds()))
        self._made: dict[str, list[tuple[BucketUnit, tuple[PaimonUnit, ...]]]] = {}
        self._lost: dict[BucketId, str] = {}  # buckets that the last commit dropped, until they are read again
        self._read_again: dict[str, BucketFiles] = {}
        self._published: list[Published] = []

    def warnings(self) -> tuple[str, ...]:
        """What a compaction loses although it keeps every row."""
        found = []
        options = (name for name, _ in self.store.schema.options)
        indexes = sorted(name for name in options if name.startswith("file-index.") and ".columns" in name)
        if indexes:
            named = ", ".join(indexes)
            found.append(f"Rewritten files get no file index ({named}): rows are correct, but readers skip less.")
        callbacks = uncalled_callbacks(self.store.schema)
        if callbacks is not None:
            found.append(f"{callbacks}.")
        return tuple(found)

    def own_options(self) -> Mapping[str, str]:
        """The options of the table."""
        return self.store.options.in_force()

    def check_allowed(self) -> None:
        """Raise RefusedError with the reason if the table has a feature that is not supported."""
        why = refuse_table(self.store.schema)
        if why is not None:
            raise RefusedError(f"{self.root} is not compacted: {why}.", table=self.root)

    def check_writable(self) -> None:
        """Raise RefusedError for a store on which two writers could both believe that they have published."""
        check_can_publish(self.io, self.root, single_writer=self.options.single_writer)

    # ---- plan ----

    def plans(self, number: int, ctx: PlanContext) -> Iterator[BucketPlan | Skipped]:
        """Offer every bucket that the filters select; ``again`` does all later rounds."""
        if number > 1:
            return
        snapshot = read_latest_snapshot(self.io, self.root)
        if snapshot is None:
            self.totals.why_empty = "The table has no snapshot yet."
            return
        planner = PaimonPlanner(store=self.store, snapshot=snapshot, options=self.options, filters=ctx.filters)
        self._planner, self.totals.is_filtered = planner, planner.is_filtered
        yield from planner.skipped
        for bucket in planner.buckets(self.totals):
            rounds = planner.plan_rounds(bucket) if ctx.is_dry else iter((planner.plan(bucket),))
            for at, plan in enumerate(rounds):
                if plan.units:
                    yield replace(plan, is_estimate=at > 0)
                elif at == 0:
                    yield self._left_alone(plan)

    def _left_alone(self, plan: BucketPlan) -> Skipped:
        kind = SkipKind.FAILED if plan.is_corrupt else SkipKind.REFUSED if plan.is_refused else SkipKind.NOT_NEEDED
        return Skipped(what=plan.part, why=plan.why, kind=kind)

    def describe(self, plan: BucketPlan, *, is_saved: bool) -> PlannedPart[SavedBucket]:
        """A bucket's plan for display and for a saved plan."""
        rewrites = [unit for unit in plan.units if unit.how is not How.UPGRADE]
        target = self.store.options.target_file_bytes
        return PlannedPart(
            part=plan.part,
            files_in=sum(len(unit.files) for unit in rewrites),
            files_out=sum(max(1, -(-unit.input_bytes // target)) for unit in rewrites),
            read_bytes=plan.rewrite_bytes,
            units=tuple(_planned_outcome(plan, unit) for unit in plan.units),
            detail=_saved(plan, plan.units if is_saved else ()),
            bucket=BucketOutcome(
                bucket=plan.part,
                runs=plan.runs,
                reason=plan.reason,
                why=plan.why,
                output=plan.output,
                picked=plan.picked,
                rewrite_bytes=plan.rewrite_bytes,
                upgraded_files=plan.upgraded,
            ),
            is_estimate=plan.is_estimate,
        )

    def resume(self, saved: Iterable[PlannedPart[SavedBucket]], number: int) -> Iterator[BucketPlan | Skipped]:
        """Offer the saved buckets whose inputs are all live on the same levels."""
        parts = iter(saved if number == 1 else ())
        while chunk := {(one.detail.partition, one.detail.bucket): one for one in islice(parts, _RESUMED_PARTS)}:
            snapshot = read_latest_snapshot(self.io, self.root)
            if snapshot is None:
                return
            self._planner = PaimonPlanner(store=self.store, snapshot=snapshot, options=self.options)
            live = read_live_files(
                self.io,
                self.root,
                snapshot,
                wanted=lambda *bucket, chunk=chunk: bucket in chunk,
                lean=True,
            )
            for bucket in live:
                self.totals.parts += 1
                self.totals.files += len(bucket.files)
                self.totals.bytes += sum(file.file_size for file in bucket.files)
                yield _resumed(chunk.pop((bucket.partition, bucket.bucket)), bucket)
            for one in chunk.values():
                yield Skipped(what=one.part, why="it no longer holds files; plan again", kind=SkipKind.CONFLICT)

    # ---- run ----

    def context(self, run: Run) -> PaimonContext:
        """What all units of a run have in common."""
        options = self.store.options
        return PaimonContext(
            run_folder=run.folder,
            schema=self.store.schema,
            names=DataFileNames(
                prefix=options.data_file_prefix, include_compression=options.suffix_includes_compression
            ),
            created_ms=PaimonNow(unix_seconds=0, local=now_local()).local_ms,
        )

    def units(self, work: Work[BucketPlan, PaimonUnit, DataFileMeta]) -> Sequence[PaimonUnit]:
        """All payloads of a bucket at once; an upgrade that can be trusted as recorded has none."""
        if work.part in self._made:
            return ()
        make = partial(self._maker.make, work.plan, index_entries=self.planner.index_entries(work.plan.bucket))
        self._made[work.part] = [
            (planned, () if needs_no_task(planned) else tuple(make(planned))) for planned in work.plan.units
        ]
        return [unit for _, units in self._made[work.part] for unit in units]

    @property
    def planner(self) -> PaimonPlanner:
        """The planner of the snapshot that was read last."""
        assert self._planner is not None  # set by the method that offered the plan
        return self._planner

    def outcomes(self, work: Work[BucketPlan, PaimonUnit, DataFileMeta]) -> tuple[UnitOutcome, ...]:
        """The outcomes that are reported for a bucket."""
        return tuple(
            _unit_outcome(work.plan, planned, [work.results[unit.number] for unit in units])
            for planned, units in self._made[work.part]
        )

    # ---- commit ----

    def commit(self, works: Sequence[Work[BucketPlan, PaimonUnit, DataFileMeta]], run: Run) -> Commit:
        """Publish the buckets of a wave as one snapshot."""
        by_bucket = {_bucket_id(work.plan.bucket): work for work in works}
        edits = {bucket: self._edit(work) for bucket, work in by_bucket.items()}
        created: list[str] = []

        def record(paths: tuple[str, ...]) -> None:
            created.extend(paths)
            run.record_created(paths)

        report = commit_edits(
            self.io,
            self.root,
            edits.values(),
            options=self._commit_options(run.id),
            clock=replace(system_clock(), new_id=new_uuid),  # Paimon names files by UUIDs
            record=record,
            earlier=tuple(self._published),
        )
        if report.published is not None:
            self._published.append(report.published)
            run.note_published(created)
        for bucket in report.committed:
            folder = self.store.bucket_folder(by_bucket[bucket].plan.bucket)
            run.note_published(f"{folder}/{file.file_name}" for file in edits[bucket].after)
        self._lost = {(one.partition, one.bucket): one.why for one in report.conflicting}
        return Commit(
            committed={by_bucket[at].part: self.outcomes(by_bucket[at]) for at in report.committed},
            lost={by_bucket[at].part: why for at, why in self._lost.items()},
            version=report.snapshot_id,
        )

    def _edit(self, work: Work[BucketPlan, PaimonUnit, DataFileMeta]) -> Edit:
        """The edit of a bucket: inputs removed, with their index files; outputs and upgraded files added."""
        bucket, before, after = work.plan.bucket, list[DataFileMeta](), list[DataFileMeta]()
        for planned, units in self._made[work.part]:
            before += planned.files
            if units:
                after += [file for unit in units for file in work.results[unit.number].outputs]
            else:  # an upgrade that can be trusted as recorded
                after.append(replace(planned.files[0], level=planned.output_level))
        edit = Edit(
            partition=bucket.partition,
            bucket=bucket.bucket,
            total_buckets=bucket.total_buckets,
            before=tuple(before),
            after=tuple(after),
        )
        names = {file.file_name for file in edit.rewritten}
        entries = self.planner.index_entries(bucket)
        covered = tuple(e.file_name for e in entries if any(item.data_file in names for item in e.ranges or ()))
        return replace(edit, index_files=covered)

    def _commit_options(self, run: str) -> CommitOptions:
        return CommitOptions.of(self.store.options, user=commit_user(run), single_writer=self.options.single_writer)

    def discard(self, work: Work[BucketPlan, PaimonUnit, DataFileMeta], run: Run) -> None:
        """Remove the files written for a bucket that is certainly not committed; an upgrade wrote none."""
        self._made.pop(work.part, None)
        written = [result for result in work.results.values() if result.status is UnitStatus.WRITTEN]
        folder = self.store.bucket_folder(work.plan.bucket)
        files = (file for result in written if result.how is not How.UPGRADE for file in result.outputs)
        run.discard([f"{folder}/{file.file_name}" for file in files])

    def again(self, work: Work[BucketPlan, PaimonUnit, DataFileMeta], lost: str | None) -> BucketPlan | Skipped | None:
        """Plan a bucket over its current files: our own outputs, or the result of another writer."""
        if lost is not None:
            return self._plan_lost(work, lost)
        edit = self._edit(work)
        del self._made[work.part]
        gone = {file.file_name for file in edit.before}
        kept = tuple(file for file in work.plan.bucket.files if file.file_name not in gone)
        plan = self.planner.plan(replace(work.plan.bucket, files=(*kept, *edit.after)))
        # Files that needed a rewrite of their own had it; with force-rewrite-all-files this would never end.
        return plan if plan.units and plan.reason != Reason.FILE_REWRITE else None

    def _plan_lost(self, work: Work[BucketPlan, PaimonUnit, DataFileMeta], why: str) -> BucketPlan | Skipped | None:
        if work.passes >= _PASSES:
            return Skipped(what=work.part, why=f"another writer changed it: {why}", kind=SkipKind.CONFLICT)
        if self._lost:  # read all buckets that this commit dropped in one pass
            snapshot = read_latest_snapshot(self.io, self.root)
            found = () if snapshot is None else self.planner.read_again(snapshot, self._lost)
            self._read_again = {self.store.bucket_label(bucket): bucket for bucket in found}
            self._lost = {}
        bucket = self._read_again.pop(work.part, None)
        if bucket is None:
            return None  # nothing is left in it
        plan = self.planner.plan(bucket)
        return plan if plan.units else self._left_alone(plan)

    def finish(self, run: Run) -> None:
        """Re-read the published snapshots: another writer's publish is not exclusive."""
        for published in self._published:
            check_published(self.io, self.root, published)

    def find_committed(self, wave: WaveRecord[Any, PaimonUnit, DataFileMeta]) -> frozenset[str]:
        """The buckets of a recorded wave that a snapshot of its run published."""
        return find_committed(self.io, self.root, wave)

    # ---- other verbs ----

    def health(self) -> PaimonHealth:
        """Files, levels, sorted runs, and what prevents compacting them."""
        return observe_paimon(self.store)

    def read_published(self, run_id: str) -> PublishedRun:
        """What a run published, according to its records and the table's snapshots."""
        is_undone = find_restored(self.store, self.folders, run_id) is not None
        return replace(super().read_published(run_id), is_undone=is_undone)

    def check(self, request: CheckRequest) -> TableCheck:
        """Begin to check a snapshot."""
        return check_paimon(self.io, self.store, request)

    def plan_clean(self, request: CleanRequest) -> PaimonClean:
        """Plan the removal of leftovers of dead runs and, if requested, of expired snapshots."""
        return plan_clean(self.store, state=self.state, request=request)

    def clean(self, plan: PaimonClean, run: Run, request: CleanRequest) -> PaimonClean:
        """Remove what the plan lists."""
        check_can_publish(self.io, self.root, single_writer=self.options.single_writer)
        remove_planned(self.store, plan, state=self.state)
        return plan

    def prove(self, run_id: str) -> Iterator[ToProve[PaimonUnit, DataFileMeta]]:
        """The rewritten units of a run, with the files that can be read now."""
        return find_provable(self.folders, self.root, run_id)

    def plan_restore(self, run_id: str) -> RestorePlan:
        """Plan the inverse of a run."""
        self.check_allowed()
        return plan_restore(self.store, self.folders, run_id)

    def restore(self, plan: RestorePlan, run: Run) -> RestorePlan:
        """Publish the inverse of a run as one snapshot."""
        self.check_writable()  # before anything is copied
        return restore(self.store, plan, run, options=self._commit_options(run.id), context=self.context(run))


def _bucket_id(bucket: BucketFiles) -> BucketId:
    return bucket.partition, bucket.bucket


def _planned_outcome(plan: BucketPlan, unit: BucketUnit) -> UnitOutcome:
    return UnitOutcome(
        partition=plan.part,
        inputs=tuple(file.file_name for file in unit.files),
        outputs=(),
        how=unit.how,
        why=plan.why,
        bytes_before=unit.input_bytes,
    )


def _unit_outcome(plan: BucketPlan, planned: BucketUnit, results: Sequence[Any]) -> UnitOutcome:
    files = [file for result in results if result.how is not How.UPGRADE for file in result.outputs]
    is_upgrade = planned.how is How.UPGRADE and not files
    return replace(
        _planned_outcome(plan, planned),
        outputs=tuple(file.file_name for file in (planned.files if is_upgrade else files)),
        how=How.UPGRADE if is_upgrade else How.REWRITE,
        bytes_after=planned.input_bytes if is_upgrade else sum(file.file_size for file in files),
        **UnitOutcome.sums(results),
    )


def _saved(plan: BucketPlan, units: Iterable[BucketUnit]) -> SavedBucket:
    return SavedBucket(
        partition=plan.bucket.partition,
        bucket=plan.bucket.bucket,
        reason=plan.reason,
        output=plan.output,
        units=tuple(
            SavedUnit(
                how=unit.how,
                sections=tuple(
                    tuple(tuple(SavedFile(name=f.file_name, level=f.level) for f in run) for run in section)
                    for section in unit.sections
                ),
                output_level=unit.output_level,
                drop_deletes=unit.drop_deletes,
                to_top=unit.to_top,
            )
            for unit in units
        ),
    )


def _resumed(saved: PlannedPart[SavedBucket], bucket: BucketFiles) -> BucketPlan | Skipped:
    """The plan of a bucket with its files as recorded now; Skipped if an input is no longer live on its level."""
    live = {(file.file_name, file.level): file for file in bucket.files}
    units = []
    for unit in saved.detail.units:
        wanted = [(file.name, file.level) for section in unit.sections for run in section for file in run]
        gone = next((name for name, level in wanted if (name, level) not in live), None)
        if gone is not None:
            why = f"{gone} is no longer live on its level; plan again"
            return Skipped(what=saved.part, why=why, kind=SkipKind.CONFLICT)
        sections = tuple(
            tuple(tuple(live[file.name, file.level] for file in run) for run in section) for section in unit.sections
        )
        units.append(
            BucketUnit(
                how=unit.how,
                sections=sections,
                output_level=unit.output_level,
                drop_deletes=unit.drop_deletes,
                to_top=unit.to_top,
            )
        )
    return BucketPlan(
        part=saved.part,
        bucket=bucket,
        reason=saved.detail.reason,
        why=saved.why,
        output=saved.detail.output,
        units=tuple(units),
    )


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
