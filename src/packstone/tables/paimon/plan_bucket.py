"""What a compaction would do to one bucket: the pick of the strategy, file by file.

Pure: files, rules and the moment in, a plan or a reason out. A merge tree's pick becomes sections, of which some are
rewritten and the rest merely get a new level (strategy/sections.py); an append table's pick becomes bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from packstone.errors import CorruptionError
from packstone.model.exact_size import ExactSize
from packstone.model.unit import How
from packstone.strategy.append_bins import AppendOptions, append_strategy
from packstone.strategy.append_view import AppendView
from packstone.strategy.bucketed_append import BucketedAppendOptions, bucketed_append_strategy
from packstone.strategy.force_up_level0 import ForceUpLevel0Options, force_up_level0_strategy
from packstone.strategy.full import FullOptions, files_to_rewrite, full_strategy
from packstone.strategy.levels import highest_level, sort_runs
from packstone.strategy.pick import Reason
from packstone.strategy.sections import Rewrite, SectionOptions, may_drop_deletes, plan_sections
from packstone.strategy.tree_view import TreeView
from packstone.strategy.universal import UniversalOptions, top_level, universal_strategy
from packstone.tables.paimon.bucket_view import append_file, tree_file
from packstone.tables.paimon.refusals import refuse_files, refuse_pick

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packstone.model.sorted_run import Key, Level, SortedRun, TreeFile
    from packstone.strategy.fixpoint import Strategy
    from packstone.strategy.pick import Decision, Pick
    from packstone.tables.paimon.data_file_meta import DataFileMeta
    from packstone.tables.paimon.manifest_entry import BucketFiles
    from packstone.tables.paimon.table_schema import TableSchema

FileSections: TypeAlias = "tuple[tuple[tuple[DataFileMeta, ...], ...], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRules:
    """The table's options and the caller's, in the strategies' own terms, at one moment."""

    schema: TableSchema
    strategy: str  # universal, force-up-level0, full; append tables know packing only
    universal: UniversalOptions = field(default_factory=UniversalOptions)
    sections: SectionOptions = field(default_factory=SectionOptions)
    append: AppendOptions = field(default_factory=AppendOptions)
    bucketed: BucketedAppendOptions = field(default_factory=BucketedAppendOptions)
    is_bucketed: bool = True  # False: an append table whose rows belong to no bucket
    order: Callable[[bytes], Key] | None = None  # None: no primary key
    now_local_ms: int = 0  # in the clock of creation times
    offpeak_ratio_pct: int = 0
    may_be_expired: Callable[[DataFileMeta], bool] = lambda _: False
    refuse_schema: Callable[[int], str | None] = lambda _: None  # why files of that schema cannot be rewritten


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUnit:
    """One piece of work: files that become others, or one file that gets a new level."""

    how: How
    sections: FileSections
    output_level: int
    drop_deletes: bool = False
    to_top: bool = False  # nothing can lie below its outputs

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All inputs."""
        return tuple(file for section in self.sections for run in section for file in run)

    @property
    def input_bytes(self) -> int:
        """How much is read."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlan:
    """What to do with one bucket, and why; no units: why not."""

    bucket: BucketFiles
    before: tuple[SortedRun, ...] = ()  # the runs of a merge tree as they were found
    reason: str = ""
    why: str
    output: str = ""
    picked: int = 0  # how many of the runs are taken, from the first
    units: tuple[PlannedUnit, ...] = ()
    is_refused: bool = False
    is_corrupt: bool = False

    @property
    def runs(self) -> tuple[str, ...]:
        """The bucket before, one line a run; all files of an append table are one. Made for those who look."""
        if self.before or not self.bucket.files or self.is_refused or self.is_corrupt:
            return tuple(_short(run) for run in self.before)
        files = self.bucket.files
        return (f"{len(files)} files {ExactSize(sum(file.file_size for file in files))}",)

    @property
    def rewrite_bytes(self) -> int:
        """How much is read and written."""
        return sum(unit.input_bytes for unit in self.units if unit.how is not How.UPGRADE)

    @property
    def upgraded(self) -> int:
        """How many files merely get a new level."""
        return sum(1 for unit in self.units if unit.how is How.UPGRADE)


def plan_bucket(
    bucket: BucketFiles, rules: BucketRules, *, vectors: Mapping[str, tuple[str, int]] | None = None
) -> BucketPlan:
    """Plan one bucket; ``vectors`` tells of each file with deleted rows its index file and their number."""
    why = refuse_files(bucket.files)
    if why is not None:
        return BucketPlan(bucket=bucket, why=why, is_refused=True)
    try:
        plan = _plan_append if rules.order is None else _plan_tree
        return _refuse_old_schemas(plan(bucket, rules, vectors or {}), rules)
    except CorruptionError as error:
        return BucketPlan(bucket=bucket, why=error.message, is_corrupt=True)


def _refuse_old_schemas(plan: BucketPlan, rules: BucketRules) -> BucketPlan:
    """Leave a bucket alone if a file that would be read is of a schema that cannot be carried over."""
    for schema_id in sorted({file.schema_id for unit in plan.units for file in unit.files}):
        why = rules.refuse_schema(schema_id)
        if why is not None:
            return BucketPlan(bucket=plan.bucket, before=plan.before, why=why, is_refused=True)
    return plan


def _plan_tree(bucket: BucketFiles, rules: BucketRules, vectors: Mapping[str, tuple[str, int]]) -> BucketPlan:
    order = rules.order
    assert order is not None  # noqa: S101 - asked by the caller
    files = [
        # Rows that a deletion vector hides must not come back, so such a file is never merely upgraded.
        tree_file(
            meta,
            order,
            has_vector=meta.file_name in vectors,
            may_be_expired=meta.file_name in vectors or rules.may_be_expired(meta),
        )
        for meta in bucket.files
    ]
    runs = sort_runs(files)
    view = TreeView(
        runs=runs, ms_since_full=_ms_since_full(files, rules, runs), offpeak_ratio_pct=rules.offpeak_ratio_pct
    )
    decision = _tree_strategy(rules).pick(view)
    if not decision.picks:
        return BucketPlan(bucket=bucket, before=runs, why=decision.why_not or "nothing to do")
    return _work_out(bucket, rules, view=view, decision=decision)


def _work_out(bucket: BucketFiles, rules: BucketRules, *, view: TreeView, decision: Decision[Level]) -> BucketPlan:
    pick = decision.picks[0]
    taken = [view.runs[at] for at in pick.inputs]
    output, top = int(pick.output), top_level(view, rules.universal)
    refused = refuse_pick(
        rules.schema,
        is_full=len(taken) == len(view.runs) and output == top,
        to_top=output == top,
        takes_level0=any(run.level == 0 for run in taken),
    )
    if refused is not None:
        return BucketPlan(bucket=bucket, before=view.runs, why=refused, is_refused=True)
    if pick.reason is Reason.FILE_REWRITE:
        units = _file_rewrites(bucket, rules, pick=pick, run=taken[0])
    else:
        units = _section_units(bucket, rules, pick=pick, view=view)
    if not units:
        return BucketPlan(bucket=bucket, before=view.runs, why=f"{pick.why}; its only file stands there already")
    return BucketPlan(
        bucket=bucket,
        before=view.runs,
        reason=pick.reason,
        why=pick.why,
        output=str(pick.output),
        picked=len(taken),
        units=units,
    )


def _file_rewrites(
    bucket: BucketFiles, rules: BucketRules, *, pick: Pick[Level], run: SortedRun
) -> tuple[PlannedUnit, ...]:
    chosen = files_to_rewrite(run, FullOptions(universal=rules.universal, force_rewrite=rules.sections.force_rewrite))
    level = int(pick.output)
    drop = may_drop_deletes(rules.sections, output_level=level, highest_level=run.level)
    metas = {meta.file_name: meta for meta in bucket.files}
    return tuple(
        PlannedUnit(
            how=How.REWRITE,
            sections=(((metas[file.name],),),),
            output_level=level,
            drop_deletes=drop,
            to_top=True,
        )
        for file in chosen
    )


def _section_units(
    bucket: BucketFiles, rules: BucketRules, *, pick: Pick[Level], view: TreeView
) -> tuple[PlannedUnit, ...]:
    taken = [file for at in pick.inputs for file in view.runs[at].files]
    top = top_level(view, rules.universal)
    plan = plan_sections(
        taken,
        rules.sections,
        output_level=int(pick.output),
        top_level=top,
        highest_level=highest_level(file for run in view.runs for file in run.files),
    )
    metas = {meta.file_name: meta for meta in bucket.files}
    units = []
    for work in plan.work:
        sections: FileSections = (((metas[work.files[0].name],),),)
        if isinstance(work, Rewrite):
            sections = tuple(
                tuple(tuple(metas[file.name] for file in run) for run in section) for section in work.sections
            )
        units.append(
            PlannedUnit(
                how=How.REWRITE if isinstance(work, Rewrite) else How.UPGRADE,
                sections=sections,
                output_level=plan.output_level,
                drop_deletes=plan.drop_deletes,
                to_top=plan.output_level == top,
            )
        )
    return tuple(units)


def _plan_append(bucket: BucketFiles, rules: BucketRules, vectors: Mapping[str, tuple[str, int]]) -> BucketPlan:
    metas = sorted(bucket.files, key=lambda meta: (meta.min_sequence_number, meta.file_name))
    none = ("", 0)
    files = tuple(
        append_file(
            meta, dv_index=vectors.get(meta.file_name, none)[0], deleted_rows=vectors.get(meta.file_name, none)[1]
        )
        for meta in metas
    )
    strategy = bucketed_append_strategy(rules.bucketed) if rules.is_bucketed else append_strategy(rules.append)
    decision = strategy.pick(AppendView(files=files))
    if not decision.picks:
        return BucketPlan(bucket=bucket, why=decision.why_not or "nothing to do")
    units = _with_whole_indexes(
        [
            PlannedUnit(how=How.REWRITE, sections=((tuple(metas[at] for at in pick.inputs),),), output_level=0)
            for pick in decision.picks
        ],
        vectors,
    )
    first = decision.picks[0]
    if not units:
        why = (
            "files with deletion vectors share an index file with files that need no merge; rewriting a part of it is "
        )
        return BucketPlan(bucket=bucket, why=f"{why}not supported yet", is_refused=True)
    return BucketPlan(bucket=bucket, reason=first.reason, why=first.why, output="L0", units=units)


def _with_whole_indexes(units: list[PlannedUnit], vectors: Mapping[str, tuple[str, int]]) -> tuple[PlannedUnit, ...]:
    """Leave out units that would take only some of the files whose vectors stand in one index file."""
    while True:
        taken = {file.file_name for unit in units for file in unit.files}
        torn = {index for name, (index, _) in vectors.items() if name not in taken}
        kept = [unit for unit in units if not any(vectors.get(file.file_name, ("",))[0] in torn for file in unit.files)]
        if len(kept) == len(units):
            return tuple(kept)
        units = kept


def _tree_strategy(rules: BucketRules) -> Strategy[TreeView, Level]:
    match rules.strategy:
        case "full":
            return full_strategy(FullOptions(universal=rules.universal, force_rewrite=rules.sections.force_rewrite))
        case "force-up-level0":
            return force_up_level0_strategy(ForceUpLevel0Options(universal=rules.universal))
        case _:
            return universal_strategy(rules.universal)


def _ms_since_full(files: list[TreeFile], rules: BucketRules, runs: tuple[SortedRun, ...]) -> int | None:
    """How long ago the newest file of the top level was made; None if there is none: as Java restores its clock."""
    top = top_level(TreeView(runs=runs), rules.universal)
    made = [file.created_ms for file in files if file.level == top and file.created_ms]
    return rules.now_local_ms - max(made) if made else None


def _short(run: SortedRun) -> str:
    names = run.name if len(run.files) == 1 else f"{len(run.files)} files"
    return f"L{run.level} {names} {ExactSize(run.size_bytes)}"
