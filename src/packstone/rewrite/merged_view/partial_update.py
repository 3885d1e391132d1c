"""Partial update, without sequence groups."""

from __future__ import annotations

import numpy as np

from packstone.errors import VerificationError
from packstone.rewrite.merge.merge_spec import EngineSpec, RowKind
from packstone.rewrite.merged_view.order_codes import read_validity
from packstone.rewrite.merged_view.versions import Records, Versions, take_places


def partial_update(records: Versions, engine: EngineSpec) -> Records:
    """Each field takes its latest value that is not null, from the records that count."""
    is_add = ~records.is_retract
    has_add = records.last_where(is_add) >= 0
    sequence, kind = records.sequence[records.lasts], np.where(has_add, RowKind.INSERT, RowKind.DELETE)
    # A retract that comes first fills the empty row, also if it is ignored otherwise.
    base = np.where(records.is_retract[records.firsts], records.firsts, -1)
    if engine.ignore_delete:
        # Without any record that counts the sequence number is that of an empty row.
        sequence = np.where(has_add, records.sequence[records.last_where(is_add)], 0)
    elif engine.remove_record_on_delete:
        removed = records.last_where(records.kind == RowKind.DELETE)
        base = np.where(removed >= 0, removed, base)
        kind = np.where(removed == records.lasts, RowKind.DELETE, kind)
    elif records.is_retract.any():
        raise VerificationError("Partial-update met a retract record, which is an error without an option for it.")
    bases = base[records.group]
    counts = (is_add & (records.places > bases)) | (records.places == bases)
    columns = [take_places(column, records.last_where(counts & read_validity(column))) for column in records.columns]
    return Records(columns=columns, sequence=sequence, kind=kind)
