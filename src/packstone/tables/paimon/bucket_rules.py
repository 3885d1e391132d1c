"""The table's options in the terms of the strategies, at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING

from packstone.errors import CorruptionError
from packstone.model.paimon_options import PaimonStrategy
from packstone.strategy.append_bins import AppendOptions
from packstone.strategy.bucketed_append import BucketedAppendOptions
from packstone.strategy.offpeak import OffPeakHours
from packstone.strategy.sections import SectionOptions
from packstone.strategy.universal import Generation, UniversalOptions
from packstone.tables.paimon.bucket_view import key_order, oldest_second
from packstone.tables.paimon.merge_specs import refuse_schema
from packstone.tables.paimon.plan_bucket import BucketRules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packstone.model.paimon_options import PaimonOptions
    from packstone.tables.paimon.data_file_meta import DataFileMeta
    from packstone.tables.paimon.table_options import TableOptions
    from packstone.tables.paimon.table_schema import TableSchema

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - creation times are wall clock without a zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Now, in the two ways that Paimon counts it."""

    unix_seconds: int
    local: datetime  # the wall clock of this machine, without a zone

    @property
    def local_ms(self) -> int:
        """In the count of creation times."""
        return int((self.local - _EPOCH).total_seconds() * 1000)


def bucket_rules(
    schema: TableSchema,
    options: TableOptions,
    asked: PaimonOptions,
    *,
    now: Moment,
    schemas: Mapping[int, TableSchema],
) -> BucketRules:
    """Bind what the table says and what the caller asks."""
    small, target = options.small_file_ratio, options.target_file_bytes
    return BucketRules(
        schema=schema,
        strategy=strategy_name(options, asked.strategy),
        universal=_universal(options, asked.rules),
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
            leftovers=asked.leftovers,
        ),
        bucketed=BucketedAppendOptions(
            target_bytes=target,
            min_files=max(2, options.min_file_num),
            small_ratio=small,
            full=asked.strategy is PaimonStrategy.FULL,
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
        raise CorruptionError(f"A data file is of schema {schema_id}, and schema/schema-{schema_id} is missing.")
    return refuse_schema(schema, schemas[schema_id])


def strategy_name(options: TableOptions, asked: PaimonStrategy) -> str:
    """Which strategy a merge tree gets: the one asked for, or for ``minor`` the one its options ask for."""
    if asked is not PaimonStrategy.MINOR:
        return asked.value
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
    options: TableOptions, now: Moment, schemas: Mapping[int, TableSchema]
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
