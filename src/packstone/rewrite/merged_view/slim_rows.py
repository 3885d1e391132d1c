"""Merge engines that keep one record as it is: the hash of the record stands for it, about 50 bytes a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from packstone.errors import VerificationError
from packstone.rewrite.merge.merge_spec import EngineSpec, MergeEngine
from packstone.rewrite.merged_view.groups import Groups, group_by_key, pick_rows
from packstone.rewrite.merged_view.order_codes import Codes, version_codes
from packstone.rewrite.merged_view.row_lanes import Lanes, Scratch
from packstone.rewrite.merged_view.spread import HI, LO
from packstone.rewrite.proof.value_hash import I64

if TYPE_CHECKING:
    from packstone.rewrite.merged_view.layout import Layout
    from packstone.rewrite.merged_view.read_view import Block

_ROW_LO, _ROW_HI, SEQUENCE, KIND = "row_lo", "row_hi", "sequence", "kind"


def make_slim(block: Block, layout: Layout, *, descending: bool) -> pa.RecordBatch:
    """Reduce rows to the hashes of key and row, and what decides between versions."""
    row = block.row_lanes(layout.payload)
    arrays: dict[str, Codes] = {LO: block.key.lo, HI: block.key.hi, _ROW_LO: row.lo, _ROW_HI: row.hi}
    arrays |= {SEQUENCE: block.sequence, KIND: block.kind}
    for column in layout.sequence:
        codes = version_codes(block.batch.column(column), descending=descending)
        arrays |= {f"{column}.{place}": code for place, code in enumerate(codes)}
    return pa.record_batch([pa.array(array) for array in arrays.values()], names=list(arrays))


def merge_slim(part: pa.Table, engine: EngineSpec, *, drop_deletes: bool, scratch: Scratch) -> tuple[Lanes, Lanes]:
    """Return the lanes of the keys and of the rows that remain of a part, one row for each key."""
    columns = {name: part.column(name).to_numpy() for name in part.column_names}
    groups = group_by_key(columns[LO], columns[HI])
    kind = columns[KIND]
    versions = [columns[name] for name in part.column_names if "." in name]
    versions += [columns[SEQUENCE], (kind & 1) ^ 1]
    rows = pick_records(groups, versions, kind, engine=engine)
    if drop_deletes:
        rows = rows[kind[rows] & 1 == 0]
    keys = Lanes(columns[LO][rows], columns[HI][rows], scratch=scratch)
    lanes = Lanes(columns[_ROW_LO][rows], columns[_ROW_HI][rows], scratch=scratch)
    lanes.add_words(columns[SEQUENCE][rows].view(np.uint64))
    lanes.add_words(kind[rows].astype(np.uint64))
    return keys, lanes


def pick_records(groups: Groups, versions: list[Codes], kind: Codes, *, engine: EngineSpec) -> I64:
    """Return the row that deduplicate or first-row keep of each key; a key with one record keeps it, whatever it is."""
    newest = engine.name == MergeEngine.DEDUPLICATE.value
    if engine.ignore_delete or not newest:
        is_single = groups.spread(groups.counts) == 1
        is_add = kind[groups.rows] & 1 == 0
        if not (engine.ignore_delete or (is_single | is_add).all()):
            raise VerificationError("First-row met a retract record, which is an error without ignore-delete.")
        groups = groups.only_rows(is_single | is_add)
    return pick_rows(groups, versions, newest=newest)
