"""What a compaction would do to one bucket: the pick of the strategy, file by file.

Pure: from files, rules and the current time to a plan or a reason for none. A merge tree's pick becomes sections, of
which some are rewritten and the rest only get a new level (strategy/sections.py); an append table's pick becomes bins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias, cast

from packstone.errors import CorruptionError
from packstone.model.sizes import ExactSize
from packstone.model.sorted_run import TreeFile
from packstone.model.unit import How
from packstone.model.work import WholePart
from packstone.strategy.append_bins import AppendFile, AppendOptions, AppendView, append_strategy
from packstone.strategy.bucketed_append import BucketedAppendOptions, bucketed_append_strategy
from packstone.strategy.force_up_level0 import ForceUpLevel0Options, force_up_level0_strategy
from packstone.strategy.full import FullOptions, files_to_rewrite, full_strategy
from packstone.strategy.pick import Reason
from packstone.strategy.sections import Rewrite, SectionOptions, may_drop_deletes, plan_sections
from packstone.strategy.tree_view import TreeView, highest_level, sort_runs
from packstone.strategy.universal import Generation, OffPeakHours, UniversalOptions, top_level, universal_strategy
from packstone.tables.paimon.format.binary_row import decode_row, key_reader
from packstone.tables.paimon.format.data_file import FileSource
from packstone.tables.paimon.format.data_type import TypeRoot, time_unit
from packstone.tables.paimon.merge_specs import refuse_schema
from packstone.tables.paimon.options import PaimonStrategy
from packstone.tables.paimon.refusals import refuse_files, refuse_pick

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packstone.model.sorted_run import Key, Level, SortedRun
    from packstone.strategy.pick import Decision, Pick, Strategy
    from packstone.tables.paimon.format.data_file import BucketFiles, DataFileMeta
    from packstone.tables.paimon.format.data_type import DataType
    from packstone.tables.paimon.format.schema import TableSchema
    from packstone.tables.paimon.format.table_options import TableOptions
    from packstone.tables.paimon.options import PaimonOptions

FileSections: TypeAlias = "tuple[tuple[tuple[DataFileMeta, ...], ...], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRules:
    """The table's options and the caller's, as the strategies need them, at one moment."""

    schema: TableSchema
    strategy: str  # universal, force-up-level0, full; append tables only pack
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
class BucketUnit:
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
        """Bytes read."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlan(WholePart):
    """What to do with one bucket, and why; without units, ``why`` says why nothing is done."""

    bucket: BucketFiles
    part: str = ""  # the bucket's name in messages
    before: tuple[SortedRun, ...] = ()  # the runs of a merge tree as they were found
    reason: str = ""
    why: str
    output: str = ""
    picked: int = 0  # number of runs taken, from the first
    units: tuple[BucketUnit, ...] = ()
    is_refused: bool = False
    is_corrupt: bool = False
    is_estimate: bool = False  # a later round, over files that do not exist yet

    @property
    def file_count(self) -> int:
        """Number of files that are merged or get a new level."""
        return sum(len(unit.files) for unit in self.units)

    @property
    def read_bytes(self) -> int:
        """Bytes read."""
        return self.rewrite_bytes

    @property
    def unit_count(self) -> int:
        """Number of units."""
        return len(self.units)

    @property
    def runs(self) -> tuple[str, ...]:
        """The bucket before the compaction, one line per run, for display; an append table has one line."""
        if self.before or not self.bucket.files or self.is_refused or self.is_corrupt:
            return tuple(_short(run) for run in self.before)
        files = self.bucket.files
        return (f"{len(files)} files {ExactSize(sum(file.file_size for file in files))}",)

    @property
    def rewrite_bytes(self) -> int:
        """Bytes read and written."""
        return sum(unit.input_bytes for unit in self.units if unit.how is not How.UPGRADE)

    @property
    def upgraded(self) -> int:
        """Number of files that only get a new level."""
        return sum(1 for unit in self.units if unit.how is How.UPGRADE)


def plan_bucket(
    bucket: BucketFiles, rules: BucketRules, *, vectors: Mapping[str, tuple[str, int]] | None = None
) -> BucketPlan:
    """Plan one bucket; ``vectors`` maps each file with deleted rows to its index file and their number."""
    why = refuse_files(bucket.files)
    if why is not None:
        return BucketPlan(bucket=bucket, why=why, is_refused=True)
    try:
        plan = _plan_append if rules.order is None else _plan_tree
        return _refuse_old_schemas(plan(bucket, rules, vectors or {}), rules)
    except CorruptionError as error:
        return BucketPlan(bucket=bucket, why=error.message, is_corrupt=True)


def _refuse_old_schemas(plan: BucketPlan, rules: BucketRules) -> BucketPlan:
    """Refuse a bucket if a file that would be read has a schema that cannot be carried over."""
    for schema_id in sorted({file.schema_id for unit in plan.units for file in unit.files}):
        why = rules.refuse_schema(schema_id)
        if why is not None:
            return BucketPlan(bucket=plan.bucket, before=plan.before, why=why, is_refused=True)
    return plan


def _plan_tree(bucket: BucketFiles, rules: BucketRules, vectors: Mapping[str, tuple[str, int]]) -> BucketPlan:
    order = rules.order
    assert order is not None  # the caller checks it
    files = [
        # Rows that a deletion vector hides must not reappear, so such a file is never just upgraded.
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
        return BucketPlan(bucket=bucket, before=view.runs, why=f"{pick.why}; its only file is there already")
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
) -> tuple[BucketUnit, ...]:
    chosen = files_to_rewrite(run, FullOptions(universal=rules.universal, force_rewrite=rules.sections.force_rewrite))
    level = int(pick.output)
    drop = may_drop_deletes(rules.sections, output_level=level, highest_level=run.level)
    metas = {meta.file_name: meta for meta in bucket.files}
    return tuple(
        BucketUnit(
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
) -> tuple[BucketUnit, ...]:
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
            BucketUnit(
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
            BucketUnit(how=How.REWRITE, sections=((tuple(metas[at] for at in pick.inputs),),), output_level=0)
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


def _with_whole_indexes(units: list[BucketUnit], vectors: Mapping[str, tuple[str, int]]) -> tuple[BucketUnit, ...]:
    """Drop units that would take only some of the files whose vectors are in one index file."""
    while True:
        taken = {file.file_name for unit in units for file in unit.files}
        split = {index for name, (index, _) in vectors.items() if name not in taken}
        kept = [u for u in units if not any(vectors.get(file.file_name, ("",))[0] in split for file in u.files)]
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
    """Milliseconds since the newest file of the top level was made, as Java computes it; None if there is none."""
    top = top_level(TreeView(runs=runs), rules.universal)
    made = [file.created_ms for file in files if file.level == top and file.created_ms]
    return rules.now_local_ms - max(made) if made else None


def _short(run: SortedRun) -> str:
    names = run.name if len(run.files) == 1 else f"{len(run.files)} files"
    return f"L{run.level} {names} {ExactSize(run.size_bytes)}"


# ---- files as the strategies see them ----


_MILLIS_FROM = 10**12  # a BIGINT time from here up counts milliseconds, below it seconds
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def key_order(schema: TableSchema) -> Callable[[bytes], Key]:
    """Make the function that turns a serialised key into something with Paimon's order."""
    return cast("Callable[[bytes], Key]", key_reader(schema.key_types))


def tree_file(
    meta: DataFileMeta, order: Callable[[bytes], Key], *, has_vector: bool = False, may_be_expired: bool = False
) -> TreeFile:
    """Describe one file of a merge tree."""
    return TreeFile(
        name=meta.file_name,
        level=meta.level,
        size_bytes=meta.file_size,
        min_key=order(meta.min_key),
        max_key=order(meta.max_key),
        delete_rows=meta.delete_row_count,
        has_deletion_vector=has_vector,
        may_be_expired=may_be_expired,
        min_sequence=meta.min_sequence_number,
        max_sequence=meta.max_sequence_number,
        created_ms=meta.creation_time_ms or 0,
    )


def append_file(meta: DataFileMeta, *, dv_index: str = "", deleted_rows: int | None = 0) -> AppendFile:
    """Describe one file of a table without keys."""
    return AppendFile(
        size_bytes=meta.file_size,
        rows=meta.row_count,
        deleted_rows=deleted_rows,
        dv_index=dv_index,
        is_compacted=meta.file_source is FileSource.COMPACT,
    )


def oldest_second(meta: DataFileMeta, column: str, schemas: Mapping[int, TableSchema]) -> int | None:
    """The smallest time in a file, in seconds, from its statistics; None if they do not have it."""
    schema = schemas[meta.schema_id]
    names = meta.value_stats_cols
    columns = tuple(field for field in schema.value_fields if names is None or field.name in names)
    if names is not None:
        columns = tuple(schema.field(name) for name in names)
    types = tuple(field.type for field in columns)
    if column not in (field.name for field in columns) or not _has_arity(meta.value_stats.min_values, len(types)):
        return None
    at = next(at for at, field in enumerate(columns) if field.name == column)
    value = decode_row(meta.value_stats.min_values, types)[at]
    return None if value is None else seconds_of(cast("int", value), types[at])


def seconds_of(value: int, data_type: DataType) -> int:
    """The seconds of a record-level time field: INT is seconds, a big BIGINT milliseconds, timestamps are truncated."""
    if data_type.root is TypeRoot.BIGINT:
        return value // 1000 if value >= _MILLIS_FROM else value
    if data_type.root is TypeRoot.INT:
        return value
    return value // _PER_SECOND[time_unit(data_type)]


def _has_arity(row: bytes, arity: int) -> bool:
    return int.from_bytes(row[:4], "big") == arity


# ---- options as the strategies need them ----


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - creation times are wall clock without a zone


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonNow:
    """The current time, in the two ways that Paimon counts it."""

    unix_seconds: int
    local: datetime  # the wall clock of this machine, without a zone

    @property
    def local_ms(self) -> int:
        """Milliseconds, as creation times are counted."""
        return int((self.local - _EPOCH).total_seconds() * 1000)


def bucket_rules(
    schema: TableSchema,
    options: TableOptions,
    requested: PaimonOptions,
    *,
    now: PaimonNow,
    schemas: Mapping[int, TableSchema],
) -> BucketRules:
    """Combine the table's options with the caller's."""
    small, target = options.small_file_ratio, options.target_file_bytes
    return BucketRules(
        schema=schema,
        strategy=strategy_name(options, requested.strategy),
        universal=_universal(options, requested.rules),
        sections=SectionOptions(
            min_file_bytes=options.small_file_bytes,
            force_rewrite=options.force_rewrite_all_files,
            has_deletion_vectors=options.deletion_vectors,
        ),
        append=AppendOptions(
            target_bytes=target,
            min_files=options.min_file_num,
            open_cost_bytes=options.open_file_cost_bytes,
            small_ratio=small,
            delete_ratio=options.delete_ratio_threshold,
            max_files=options.file_num_limit,
            leftovers=requested.leftovers,
        ),
        bucketed=BucketedAppendOptions(
            target_bytes=target,
            min_files=max(2, options.min_file_num),
            small_ratio=small,
            full=requested.strategy is PaimonStrategy.FULL,
            force_rewrite=options.force_rewrite_all_files,
        ),
        is_bucketed=options.bucket > 0,
        order=key_order(schema) if schema.is_primary_key else None,
        now_local_ms=now.local_ms,
        offpeak_ratio_pct=_offpeak_ratio(options, now.local.hour),
        may_be_expired=_expiry_test(options, now, schemas),
        refuse_schema=cache(lambda schema_id: _refuse_schema(schema, schemas, schema_id)),
    )


def _refuse_schema(schema: TableSchema, schemas: Mapping[int, TableSchema], schema_id: int) -> str | None:
    if schema_id not in schemas:
        raise CorruptionError(f"A data file has schema {schema_id}, but schema/schema-{schema_id} is missing.")
    return refuse_schema(schema, schemas[schema_id])


def strategy_name(options: TableOptions, requested: PaimonStrategy) -> str:
    """The strategy for a merge tree: the requested one, or for ``minor`` the one that its options choose."""
    if requested is not PaimonStrategy.MINOR:
        return requested.value
    # Java's gentle mode forces only every k-th pick of one writer; a job that runs once would never force.
    forces = options.needs_lookup or options.force_up_level0
    return (PaimonStrategy.FORCE_UP_LEVEL0 if forces else PaimonStrategy.UNIVERSAL).value


def _universal(options: TableOptions, rules: str) -> UniversalOptions:
    return UniversalOptions(
        max_size_amp_pct=options.max_size_amplification_pct,
        size_ratio_pct=options.size_ratio_pct,
        trigger=options.compaction_trigger,
        levels=options.num_levels,
        rules=Generation(rules),
        early_total_bytes=options.total_size_threshold_bytes,
        early_incremental_bytes=options.incremental_size_threshold_bytes,
        early_interval_ms=options.optimization_interval_ms,
    )


def _offpeak_ratio(options: TableOptions, hour: int) -> int:
    start, end = options.offpeak_start_hour, options.offpeak_end_hour
    if start < 0 or end < 0:
        return 0
    return OffPeakHours(start_hour=start, end_hour=end, ratio_pct=options.offpeak_ratio_pct).ratio_pct_at(hour)


def _expiry_test(
    options: TableOptions, now: PaimonNow, schemas: Mapping[int, TableSchema]
) -> Callable[[DataFileMeta], bool]:
    if options.record_expire_ms is None or options.record_time_field is None:
        return _never
    return partial(
        _may_be_expired,
        column=options.record_time_field,
        before=now.unix_seconds - options.record_expire_ms // 1000,
        schemas=schemas,
    )


def _never(_: DataFileMeta) -> bool:
    return False


def _may_be_expired(meta: DataFileMeta, *, column: str, before: int, schemas: Mapping[int, TableSchema]) -> bool:
    oldest = oldest_second(meta, column, schemas)
    return oldest is not None and before > oldest
