"""The facts that an index has of blocklets, column by column as a test asks for them; unknown ones err to "may be"."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.pruning.key_bytes import is_bytes

Index: TypeAlias = pa.Table | pa.RecordBatch
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Positions = np.ndarray[Any, np.dtype[np.int64]]
Bounds = tuple[pa.ChunkedArray, pa.ChunkedArray]
_T = TypeVar("_T")


class BlockletFacts:
    """Facts of all blocklets of an index, or of those at some positions; each is fetched once."""

    def __init__(self, index: Index, positions: Positions | None = None) -> None:
        self.count = index.num_rows if positions is None else len(positions)
        self._index = index
        self._names = frozenset(index.schema.names)
        self._positions = positions
        self._found: dict[Hashable, Any] = {}

    def narrow(self, positions: Positions) -> BlockletFacts:
        """The facts of some of these."""
        return BlockletFacts(self._index, positions if self._positions is None else self._positions[positions])

    def all(self, *, value: bool) -> Mask:
        """The same for each."""
        return np.full(self.count, value)

    def has_values(self, name: str) -> Mask:
        """Where there may be a value, NaN included."""
        return self._once(("values", name), lambda: self.test(f"nulls.{name}", pc.less, self._column("rows")))

    def has_nulls(self, name: str) -> Mask:
        """Where there may be a null."""
        return self._once(("nulls", name), lambda: self.test(f"nulls.{name}", pc.greater, pa.scalar(0, pa.int64())))

    def has_nan(self, name: str) -> Mask:
        """Where there may be a NaN; asked of float columns only."""
        return self._once(("nan", name), lambda: self.test(f"nan.{name}", pc.equal, pa.scalar(value=True)))

    def bounds(self, name: str, kind: pa.DataType) -> Bounds | None:
        """Smallest and largest values as this type (strings as binary), null where unknown; None: all unknown."""
        return self._once((kind, name), lambda: self._bounds(name, kind))

    def test(self, name: str, compare: Callable[[Any, Any], Any], other: Any) -> Mask:  # noqa: ANN401 - scalar or column
        """Where a column of the index compares so with another or with a scalar; unknown is yes."""
        column = self._column(name)
        if column is None or other is None:
            return self.all(value=True)
        return to_mask(compare(column, other))

    def _bounds(self, name: str, kind: pa.DataType) -> Bounds | None:
        low, high = self._column(f"min.{name}"), self._column(f"max.{name}")
        if low is None or high is None or not _fits(low.type, kind) or not _fits(high.type, kind):
            return None
        wanted = to_bound_type(kind)
        return _known(low.cast(wanted)), _known(high.cast(wanted))

    def _column(self, name: str) -> pa.ChunkedArray | None:
        if name not in self._names:
            return None
        return self._once(name, lambda: self._fetch(name))

    def _fetch(self, name: str) -> Any:  # noqa: ANN401 - an array or a chunked one
        column = self._index.column(name)
        return column if self._positions is None else column.take(to_column(self._positions))

    def _once(self, key: Hashable, find: Callable[[], _T]) -> _T:
        if key not in self._found:
            self._found[key] = find()
        return self._found[key]


def to_bound_type(kind: pa.DataType) -> pa.DataType:
    """The type in which bounds of a column of this type are compared."""
    return pa.binary() if is_bytes(kind) else kind


def to_mask(flags: Any) -> Mask:  # noqa: ANN401 - an array or a chunked one
    """Arrow's booleans as NumPy's; null is yes."""
    return pc.fill_null(flags, fill_value=True).to_numpy(zero_copy_only=False)


def to_column(positions: Positions) -> pa.Array:
    """Positions as Arrow takes them; `pa.array` would import pandas only to ask whether it got a series."""
    data = pa.py_buffer(np.ascontiguousarray(positions, dtype=np.int64))
    return pa.Array.from_buffers(pa.int64(), len(positions), [None, data])


def _fits(bound: pa.DataType, kind: pa.DataType) -> bool:
    """Whether bounds can be compared as this type: they are of it, or of a narrower one from before the column grew."""
    if bound == kind or (is_bytes(bound) and is_bytes(kind)):
        return True
    both = (bound, kind)
    is_number = all(map(pt.is_signed_integer, both)) or all(map(pt.is_floating, both))
    return bool(is_number and bound.bit_width < kind.bit_width)


def _known(bound: Any) -> Any:  # noqa: ANN401 - an array or a chunked one
    """A bound that is NaN compares with nothing and would exclude everything: it is no bound."""
    if not pt.is_floating(bound.type):
        return bound
    is_nan = pc.is_nan(bound)
    if not pc.any(is_nan).as_py():
        return bound
    return pc.if_else(is_nan, pa.scalar(None, bound.type), bound)
