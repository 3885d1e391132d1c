"""The rows of a share of the keys: those whose first sort column is in [lower, upper).

Nulls belong to the share without a lower bound. The order is that of the sort, so every row is in exactly one share:
also a NaN and both zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import InvalidInputError
from packstone.rewrite.data_files.column_facts import to_plain_value
from packstone.rewrite.data_files.parquet_output import footer_value
from packstone.rewrite.merge.java_order import to_java_order
from packstone.rewrite.merge.key_words import column_values
from packstone.rewrite.merge.merge_spec import KeyRange, unpack_value

if TYPE_CHECKING:
    import pyarrow.parquet as pq

Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRange:
    """A share of the keys."""

    column: str
    kind: pa.DataType
    lower: pa.Scalar | None
    upper: pa.Scalar | None

    @classmethod
    def of(cls, field: pa.Field, key_range: KeyRange | None) -> OrderedRange | None:
        """Read the bounds of a spec; None if there are none."""
        if key_range is None or (key_range.lower is None and key_range.upper is None):
            return None
        lower, upper = (None if text is None else unpack_value(text) for text in (key_range.lower, key_range.upper))
        for bound in (lower, upper):
            if bound is not None and (not bound.is_valid or bound.type != field.type):
                raise InvalidInputError(f"A bound of the range of {field.name} is no value of type {field.type}.")
        return cls(column=field.name, kind=field.type, lower=lower, upper=upper)

    def find_inside(self, batch: pa.RecordBatch) -> Mask:
        """Say of each row whether it is in the share."""
        column = batch.column(self.column)
        inside = np.ones(len(column), dtype=bool) if self.upper is None else _is_below(column, self.upper)
        if self.lower is not None:
            inside &= ~_is_below(column, self.lower)
        return inside

    def leaves_out(self, group: pq.RowGroupMetaData, leaf: int) -> bool:
        """Whether the statistics prove that no row of a row group is in the share."""
        kind, found = self.kind, group.column(leaf).statistics
        if found is None or not found.has_null_count or pt.is_floating(kind):  # NaN is in no statistics
            return False
        if found.null_count == group.num_rows:
            return self.lower is not None
        if not found.has_min_max:
            return False
        low, high = _comparable(footer_value(found.min_raw, kind)), _comparable(footer_value(found.max_raw, kind))
        if self.lower is not None and high < _comparable(to_plain_value(self.lower)):
            return True
        has_nulls_inside = self.lower is None and found.null_count > 0
        return self.upper is not None and not has_nulls_inside and low >= _comparable(to_plain_value(self.upper))


def _comparable(value: Any) -> Any:  # noqa: ANN401 - a value of the column
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _is_below(column: pa.Array, bound: pa.Scalar) -> Mask:
    if pt.is_floating(column.type):
        dtype = np.dtype(f"f{column.type.bit_width // 8}")
        limit = to_java_order(np.array([bound.as_py()], dtype))[0]
        below: Mask = to_java_order(column_values(column, dtype)) < limit
        return below | column.is_null().to_numpy(zero_copy_only=False) if column.null_count else below
    return pc.less(column, bound).fill_null(fill_value=True).to_numpy(zero_copy_only=False)
