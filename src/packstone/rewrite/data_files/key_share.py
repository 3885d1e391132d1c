"""Which of a file's rows belong to a task: those whose first key column lies in a range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.rewrite.merge.java_order import to_java_order
from packstone.rewrite.merge.merge_spec import InputFile, KeyRange, unpack_value


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBounds:
    """Keep rows whose column is in [lower, upper); nulls come before every value."""

    column: str
    lower: pa.Scalar | None
    upper: pa.Scalar | None

    @classmethod
    def of(cls, column: str, key_range: KeyRange | None) -> KeyBounds | None:
        """Read the bounds of a spec; None if there are none."""
        if key_range is None or (key_range.lower is None and key_range.upper is None):
            return None
        bounds = (None if text is None else unpack_value(text) for text in (key_range.lower, key_range.upper))
        lower, upper = bounds
        return cls(column=column, lower=lower, upper=upper)

    def cut(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Slice: rows are in the order of keys, so those below a bound come first."""
        first, last = self.find(batch.column(self.column))
        return batch.slice(first, max(0, last - first))

    def find(self, column: pa.Array) -> tuple[int, int]:
        """Tell where in a sorted column the values within the bounds begin and end."""
        first = 0 if self.lower is None else count_below(column, self.lower)
        return first, len(column) if self.upper is None else count_below(column, self.upper)


def count_below(column: pa.Array, bound: pa.Scalar) -> int:
    """Count the values smaller than the bound; nulls are."""
    nulls = column.null_count
    values = column.drop_null() if nulls else column
    if pt.is_floating(column.type):
        limit = to_java_order(np.array([bound.as_py()], values.to_numpy().dtype))[0]
        return nulls + int(np.count_nonzero(to_java_order(values.to_numpy()) < limit))
    return nulls + int(pc.sum(pc.less(values, bound)).as_py() or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShare:
    """The bounds as one file's own column and statistics can be compared with them."""

    column: str
    bounds: KeyBounds

    def is_outside(self, low: Any, high: Any) -> bool:  # noqa: ANN401 - values of the column
        """Whether none of the values between these two is wanted."""
        lower, upper = _plain(self.bounds.lower), _plain(self.bounds.upper)
        return bool((lower is not None and high < lower) or (upper is not None and low >= upper))

    def is_inside(self, low: Any, high: Any) -> bool:  # noqa: ANN401 - values of the column
        """Whether all values between these two are wanted."""
        lower, upper = _plain(self.bounds.lower), _plain(self.bounds.upper)
        return bool((lower is None or low >= lower) and (upper is None or high < upper))


def share_of(file: InputFile, found: pa.Schema, bounds: KeyBounds | None) -> FileShare | None:
    """Say the bounds in a file's own terms; None where statistics cannot be compared with them as they are."""
    source = None if bounds is None else next((c.source for c in file.columns if c.target == bounds.column), None)
    if bounds is None or source is None:
        return None
    kind = found.field(source).type
    wanted = next(bound.type for bound in (bounds.lower, bounds.upper) if bound is not None)
    is_plain = pt.is_integer(kind) or pt.is_string(kind) or pt.is_decimal(kind) or pt.is_date(kind)
    return FileShare(column=source, bounds=bounds) if kind == wanted and is_plain else None


def _plain(bound: pa.Scalar | None) -> Any:  # noqa: ANN401 - a value of the column
    return None if bound is None else bound.as_py()
