"""Merge engines that make a new record of several: the rows themselves are kept, and merged group by group.

Everything is an operation on all groups at once: a rule is said as "the last row of each group for which …". Nothing
is shared with the kernel, which walks over sorted windows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from packstone.errors import RefusedError
from packstone.rewrite.merge.merge_spec import MergeEngine, MergeSpec
from packstone.rewrite.merged_view.aggregates import aggregate
from packstone.rewrite.merged_view.groups import group_by_key, sort_versions
from packstone.rewrite.merged_view.order_codes import Codes, rank_codes
from packstone.rewrite.merged_view.partial_update import partial_update
from packstone.rewrite.merged_view.row_lanes import Lanes, Scratch
from packstone.rewrite.merged_view.slim_rows import KIND, SEQUENCE, pick_records
from packstone.rewrite.merged_view.spread import HI, LO
from packstone.rewrite.merged_view.versions import Records, Versions
from packstone.rewrite.proof.value_hash import I64

if TYPE_CHECKING:
    from packstone.rewrite.merged_view.layout import Layout
    from packstone.rewrite.merged_view.read_view import Block


def make_wide(block: Block, layout: Layout) -> pa.RecordBatch:
    """Keep the values beside the hash of the key; sequence columns also where values are not asked for."""
    names = list(dict.fromkeys((*layout.payload, *layout.sequence)))
    arrays = [pa.array(lane) for lane in (block.key.lo, block.key.hi, block.sequence, block.kind)]
    values = [block.batch.column(name) for name in names]
    # Marked, because a column of the table may have any name.
    return pa.record_batch([*arrays, *values], names=[LO, HI, SEQUENCE, KIND, *(f"={name}" for name in names)])


def merge_wide(part: pa.Table, spec: MergeSpec, layout: Layout, *, scratch: Scratch) -> tuple[Lanes, Lanes]:
    """Return the lanes of the keys and of the rows that remain of a part."""
    part = part.combine_chunks()
    lo, hi, sequence, kind = (part.column(name).to_numpy() for name in (LO, HI, SEQUENCE, KIND))
    groups = group_by_key(lo, hi)
    versions = [_version(part.column(f"={name}"), descending=spec.sequence_descending) for name in layout.sequence]
    versions += [sequence, (kind & 1) ^ 1]
    values = [_whole(part.column(f"={name}")) for name in layout.payload]
    records = Records(columns=values, sequence=sequence, kind=kind)
    keys = Lanes(lo, hi, scratch=scratch)
    if spec.engine.name in {MergeEngine.DEDUPLICATE.value, MergeEngine.FIRST_ROW.value}:
        rows = pick_records(groups, versions, kind, engine=spec.engine)
        return _hash_rows(keys, rows, _take(records, rows), drop_deletes=spec.drop_deletes)
    alone = groups.counts == 1
    single_rows = groups.rows[groups.starts[alone]]
    merged = [(single_rows, _take(records, single_rows))]
    several = sort_versions(groups.only_groups(~alone), versions)
    if len(several.rows):
        versions_of = Versions(_take(records, several.rows), several)
        merged.append((several.rows[several.starts], _apply(versions_of, spec, layout)))
    parts = [_hash_rows(keys, rows, record, drop_deletes=spec.drop_deletes) for rows, record in merged]
    return _join([key for key, _ in parts], scratch), _join([row for _, row in parts], scratch)


def _apply(records: Versions, spec: MergeSpec, layout: Layout) -> Records:
    if spec.engine.name == MergeEngine.PARTIAL_UPDATE.value:
        return partial_update(records, spec.engine)
    if spec.engine.name == MergeEngine.AGGREGATION.value:
        return aggregate(records, spec.engine, names=layout.payload, sequence_columns=layout.sequence)
    raise RefusedError(f"the merge engine {spec.engine.name} is not supported", engine=spec.engine.name)


def _take(records: Records, rows: I64) -> Records:
    places = pa.array(rows)
    columns = [column.take(places) for column in records.columns]
    return Records(columns=columns, sequence=records.sequence[rows], kind=records.kind[rows])


def _hash_rows(keys: Lanes, key_rows: I64, merged: Records, *, drop_deletes: bool) -> tuple[Lanes, Lanes]:
    """Hash records under the keys of the rows named."""
    if drop_deletes:
        keep = np.flatnonzero(merged.kind & 1 == 0)
        key_rows, merged = key_rows[keep], _take(merged, keep)
    kept = keys.take(key_rows)
    rows = kept.copy()
    rows.add_columns(merged.columns)
    rows.add_words(merged.sequence.view(np.uint64))
    rows.add_words(merged.kind.astype(np.uint64))
    return kept, rows


def _join(lanes: list[Lanes], scratch: Scratch) -> Lanes:
    lo, hi = (np.concatenate([getattr(lane, name) for lane in lanes]) for name in ("lo", "hi"))
    return Lanes(lo, hi, scratch=scratch)


def _version(column: pa.ChunkedArray, *, descending: bool) -> Codes:
    ranks = rank_codes(_whole(column))
    return np.where(ranks > 0, len(ranks) + 1 - ranks, 0) if descending else ranks


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
