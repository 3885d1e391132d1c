"""Which rows are in a share of the keys, told apart by another way than the kernel's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import types

from packstone.rewrite.merge.merge_spec import KeyRange, unpack_value
from packstone.rewrite.merged_view.order_codes import Mask, is_below

if TYPE_CHECKING:
    import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShare:
    """Rows whose first sort column is in [lower, upper); nulls are where there is no lower bound."""

    column: str
    kind: pa.DataType
    lower: pa.Scalar | None
    upper: pa.Scalar | None

    @classmethod
    def of(cls, schema: pa.Schema, sort_columns: Sequence[str], key_range: KeyRange | None) -> KeyShare | None:
        """Read the bounds; None if all rows are in."""
        if key_range is None or not sort_columns or (key_range.lower is None and key_range.upper is None):
            return None
        lower, upper = (None if text is None else unpack_value(text) for text in (key_range.lower, key_range.upper))
        return cls(column=sort_columns[0], kind=schema.field(sort_columns[0]).type, lower=lower, upper=upper)

    def is_inside(self, column: pa.Array) -> Mask:
        """Say of each value whether it is in the share."""
        inside = np.ones(len(column), dtype=np.bool_)
        if self.upper is not None:
            inside &= is_below(column, self.upper)
        if self.lower is not None:
            inside &= ~is_below(column, self.lower)
        return inside

    def may_hold(self, chunk: pq.ColumnChunkMetaData) -> bool:
        """Whether a column chunk may have values of the share, by the smallest and the largest that it states."""
        found = chunk.statistics if chunk.is_stats_set else None
        if found is None or not found.has_null_count or not found.has_min_max or not _is_plain(self.kind):
            return True
        try:
            ends = pa.array([found.min, found.max], type=self.kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return True
        has_nulls = self.lower is None and found.null_count > 0
        is_above = self.upper is not None and not is_below(ends.slice(0, 1), self.upper)[0]
        is_under = self.lower is not None and bool(is_below(ends.slice(1), self.lower)[0])
        return has_nulls or not (is_above or is_under)


def _is_plain(kind: pa.DataType) -> bool:
    """Types whose statistics hold every value; NaN is in none."""
    return bool(
        types.is_signed_integer(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
    )
