"""Which ranges of sort keys a filter is confined to, so that a search can find the blocklets.

    sorted by (a, b)      a = 1 AND b < 5       keys from (1, not null) to (1, 5)
                          a IN (1, 7)           keys that begin with 1, keys that begin with 7
                          a IS NULL AND b = 2   the key (null, 2)
                          b < 5, a <> 1         no range: every key may match

Ranges may hold too much, never too little. Both ends are included also where the filter excludes one: the vector test
that follows is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from packstone.pruning.expression import And, Compare, Expression, IsNull, OneOf, Op, Or, StartsWith, ValueSet
from packstone.pruning.key_bytes import is_bytes, next_prefix
from packstone.pruning.key_tree import KeyRange

if TYPE_CHECKING:
    from packstone.pruning.expression import Literal

Ranges = tuple[KeyRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Confined:
    """What a filter says of one column: these values (None is a null), or from low to high."""

    values: tuple[pa.Scalar | None, ...] = ()
    low: pa.Scalar | None = None
    high: pa.Scalar | None = None


def find_key_ranges(expression: Expression, columns: Sequence[tuple[str, pa.DataType]], *, most: int) -> Ranges | None:
    """Ranges of keys of these columns outside of which no row is TRUE, at most so many; None if it has no bounds."""
    if isinstance(expression, Or):
        found: list[KeyRange] = []
        for part in expression.parts:
            ranges = find_key_ranges(part, columns, most=most - len(found))
            if ranges is None:
                return None
            found += ranges
        return tuple(found)
    if not isinstance(expression, And):
        return _ranges_of_all((expression,), columns, most)
    choices = (part for part in expression.parts if isinstance(part, Or))
    found_by = (find_key_ranges(part, columns, most=most) for part in choices)
    return _ranges_of_all(expression.parts, columns, most) or next(filter(None, found_by), None)


def _ranges_of_all(parts: Sequence[Expression], columns: Sequence[tuple[str, pa.DataType]], most: int) -> Ranges | None:
    """Fix column after column while the filter gives its values; a range on the next one ends it."""
    if most < 1:
        return None
    prefixes: list[tuple[pa.Scalar | None, ...]] = [()]
    for name, kind in columns:
        confined = _confine(parts, name, kind)
        if confined is None:
            break
        if not confined.values or len(prefixes) * len(confined.values) > most:
            low, high = _hull(confined)
            return tuple(KeyRange(equal=equal, low=low, high=high, skip_nulls=True) for equal in prefixes)
        prefixes = [(*equal, value) for equal in prefixes for value in confined.values]
    return tuple(KeyRange(equal=equal) for equal in prefixes) if prefixes != [()] else None


def _hull(confined: _Confined) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    """The range around too many values; they ascend."""
    return (confined.values[0], confined.values[-1]) if confined.values else (confined.low, confined.high)


def _confine(parts: Sequence[Expression], name: str, kind: pa.DataType) -> _Confined | None:
    """Take the values of the first part that names some, else the first bound on each side."""
    said = [found for part in parts for found in _said_of(part, name, kind)]
    if not said:
        return None
    listed = [one for one in said if one.values]
    if listed:
        return min(listed, key=lambda one: len(one.values))
    return _Confined(
        low=next((one.low for one in said if one.low is not None), None),
        high=next((one.high for one in said if one.high is not None), None),
    )


def _said_of(part: Expression, name: str, kind: pa.DataType) -> Iterator[_Confined]:
    """What one part says of this column; nothing if it cannot be searched for."""
    match part:
        case Compare(column=column, op=op, literal=value) if column == name and _fits(value, kind) and op is not Op.NE:
            if op is Op.EQ:
                yield _Confined(values=(value,))
            else:
                yield _Confined(low=value) if op in {Op.GT, Op.GE} else _Confined(high=value)
        case OneOf(column=column, literals=ValueSet(array=values), negated=False) if column == name and len(values):
            if _fits(values[0], kind):
                yield _Confined(values=tuple(values))
        case IsNull(column=column, negated=negated) if column == name:
            yield _Confined() if negated else _Confined(values=(None,))
        case StartsWith(column=column, prefix=prefix, negated=False) if column == name and _fits(prefix, kind):
            behind = next_prefix(_to_bytes(prefix))
            yield _Confined(low=prefix, high=None if behind is None else pa.scalar(behind, pa.binary()))
        case _:
            return


def _to_bytes(prefix: Any) -> bytes:  # noqa: ANN401 - a scalar: it fits
    return prefix.cast(pa.binary()).as_py()


def _fits(value: Literal | pa.Scalar, kind: pa.DataType) -> bool:
    return isinstance(value, pa.Scalar) and (value.type == kind or (is_bytes(value.type) and is_bytes(kind)))
