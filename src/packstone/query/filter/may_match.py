"""Which blocklets a filter can match, by their smallest and largest values: one vector test over the index.

The test decides: can some row of this blocklet make the filter TRUE (FALSE, NULL)? In doubt the answer is yes.
Everything follows from it: NOT swaps TRUE and FALSE, AND is TRUE where all parts can be and FALSE where one can be, OR
the other way round. *May match* is "can be TRUE"; *must match* is "can be neither FALSE nor NULL".

=====================  ==============================================================================================
unknown                no such column in the index, a bound that is null though there are values, null facts: yes
truncated bounds       every value is still between them, which is all that the test needs; so `exact.c` is not read
NaN                    is not in the bounds and greater than all numbers, `nan.c` says whether there is one; a bound
                       that is NaN is ignored
-0.0                   equals 0.0, in Arrow's comparisons as in SQL's
nulls                  make every comparison NULL; `nulls.c` and `rows` together say whether there are other values
=====================  ==============================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias, TypeVar, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import InvalidInputError
from packstone.query.filter.expression import (
    FALSE,
    NULL,
    TRUE,
    And,
    Compare,
    Expression,
    IsNull,
    Literal,
    Not,
    OneOf,
    Op,
    Or,
    StartsWith,
    Truth,
    Unknown,
    ValueSet,
)
from packstone.query.filter.key_bytes import is_bytes, next_prefix, to_ordered

_OPPOSITE = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}
_NOT = {TRUE: FALSE, FALSE: TRUE, NULL: NULL}
_NARROW_BELOW = 1 / 16  # below this share, copying the facts of blocklets costs less than testing all again


def may_match(expression: Expression, index: Index, *, at: Positions | None = None) -> Mask:
    """False for blocklets in which no row can be TRUE; ``at`` limits the test to these positions.

    The filter must be resolved.
    """
    return _can_be(TRUE, expression, BlockletFacts(index, at))


def must_match(expression: Expression, index: Index, *, at: Positions | None = None) -> Mask:
    """True for blocklets in which every row is certainly TRUE, so that their rows need no test."""
    facts = BlockletFacts(index, at)
    return ~(_can_be(FALSE, expression, facts) | _can_be(NULL, expression, facts))


def _can_be(wanted: Truth, expression: Expression, facts: BlockletFacts) -> Mask:
    """Where some row may make the expression TRUE, FALSE or NULL, as wanted."""
    match expression:
        case And():
            return _joined(wanted, expression.parts, facts, decided_by=FALSE)
        case Or():
            return _joined(wanted, expression.parts, facts, decided_by=TRUE)
        case Not():
            return _can_be(_NOT[wanted], expression.part, facts)
        case Truth():
            return facts.all(value=expression == wanted)
        case Unknown():
            return facts.all(value=True)
        case Compare():
            return _compare_can_be(wanted, expression, facts)
        case OneOf():
            return _set_can_be(_NOT[wanted] if expression.negated else wanted, expression, facts)
        case IsNull():
            return _null_can_be(_NOT[wanted] if expression.negated else wanted, expression.column, facts)
        case StartsWith():
            return _prefix_can_be(_NOT[wanted] if expression.negated else wanted, expression, facts)
        case _:
            assert_never(expression)


def _joined(wanted: Truth, parts: Sequence[Expression], facts: BlockletFacts, *, decided_by: Truth) -> Mask:
    """AND is decided by one part that is FALSE, OR by one that is TRUE; undecided with a NULL part, both are NULL."""
    if wanted == _NOT[decided_by]:
        return _all_can_be(wanted, parts, facts)
    found = facts.all(value=False)
    for part in parts:
        found |= _can_be(wanted, part, facts)
    if wanted == decided_by:
        return found
    for part in parts:
        found &= _can_be(NULL, part, facts) | _can_be(_NOT[decided_by], part, facts)
    return found


def _all_can_be(wanted: Truth, parts: Sequence[Expression], facts: BlockletFacts) -> Mask:
    """Where every part can be: cheap parts first; once few blocklets are left, the others test only these."""
    found, narrowed = facts.all(value=True), facts
    positions = np.arange(0)
    for part in sorted(parts, key=_cost):
        here = _can_be(wanted, part, narrowed)
        if narrowed is facts:
            found &= here
        else:
            found[positions[~here]] = False
        left = int(np.count_nonzero(found))
        if not left:
            break
        if left < narrowed.count * _NARROW_BELOW:
            positions = np.flatnonzero(found)
            narrowed = facts.narrow(positions)
    return found


def _cost(part: Expression) -> int:
    """Rank a part: numbers are tested at memory speed, strings at a tenth of it, the rest takes several tests."""
    match part:
        case Truth() | Unknown() | IsNull():
            return 0
        case Compare():
            return 2 if is_bytes(_value(part.literal).type) else 1
        case StartsWith():
            return 2
        case _:
            return 3


def _null_can_be(wanted: Truth, column: str, facts: BlockletFacts) -> Mask:
    if wanted == NULL:
        return facts.all(value=False)
    return facts.has_nulls(column) if wanted == TRUE else facts.has_values(column)


def _compare_can_be(wanted: Truth, node: Compare, facts: BlockletFacts) -> Mask:
    if wanted == NULL:
        return facts.has_nulls(node.column)
    op, value = node.op if wanted == TRUE else _OPPOSITE[node.op], _value(node.literal)
    is_float = pt.is_floating(value.type)
    if is_float and math.isnan(value.as_py()):
        return _compares_with_nan(op, node.column, facts)
    bounds = facts.bounds(node.column, value.type)
    if bounds is None:
        return facts.has_values(node.column)
    can = _compares(op, value, bounds)
    if is_float and op in {Op.GT, Op.GE, Op.NE}:
        can |= facts.has_nan(node.column)
    return can & facts.has_values(node.column)


def _compares(op: Op, value: pa.Scalar, bounds: Bounds) -> Mask:
    """Where a value between the bounds can satisfy the comparison."""
    low, high = bounds
    value = value.cast(low.type)
    match op:
        case Op.LT:
            return to_mask(pc.less(low, value))
        case Op.LE:
            return to_mask(pc.less_equal(low, value))
        case Op.GT:
            return to_mask(pc.greater(high, value))
        case Op.GE:
            return to_mask(pc.greater_equal(high, value))
        case Op.EQ:
            return to_mask(pc.less_equal(low, value)) & to_mask(pc.greater_equal(high, value))
        case Op.NE:
            return to_mask(pc.not_equal(low, value)) | to_mask(pc.not_equal(high, value))
        case _:
            assert_never(op)


def _compares_with_nan(op: Op, column: str, facts: BlockletFacts) -> Mask:
    """NaN equals itself and is greater than every number; the index does not say whether there are numbers too."""
    if op is Op.GT:
        return facts.all(value=False)
    if op in {Op.EQ, Op.GE}:
        return facts.has_nan(column) & facts.has_values(column)
    return facts.has_values(column)


def _set_can_be(wanted: Truth, node: OneOf, facts: BlockletFacts) -> Mask:
    if not isinstance(node.literals, ValueSet):
        raise _unresolved(node)
    values = node.literals.array
    if not len(values):
        return facts.all(value=wanted == FALSE)
    if wanted == NULL:
        return facts.has_nulls(node.column)
    bounds = facts.bounds(node.column, values.type)
    if bounds is None:
        return facts.has_values(node.column)
    if not pt.is_floating(values.type):
        can = _overlaps(values, bounds) if wanted == TRUE else _is_outside(values, bounds)
        return can & facts.has_values(node.column)
    numbers = values.filter(pc.invert(pc.is_nan(values)))
    if wanted == TRUE:
        can = _overlaps(numbers, bounds) if len(numbers) else facts.all(value=False)
    else:
        can = _is_outside(numbers, bounds)
    if (len(numbers) < len(values)) == (wanted == TRUE):
        can |= facts.has_nan(node.column)  # NaN is in the list, or a value outside of it is wanted
    return can & facts.has_values(node.column)


def _overlaps(values: pa.Array, bounds: Bounds) -> Mask:
    """Where one of the ascending values is between the bounds: first test all as one range, then each."""
    low, high = bounds
    values = values.cast(to_bound_type(values.type))
    can = to_mask(pc.less_equal(low, values[-1])) & to_mask(pc.greater_equal(high, values[0]))
    known = can & to_mask(pc.and_(low.is_valid(), high.is_valid()))
    at = np.flatnonzero(known)
    if len(values) == 1 or not len(at):
        return can
    positions = to_column(at)
    ordered = to_ordered(values, low.take(positions), high.take(positions))
    if ordered is None:
        return can
    wanted, lows, highs = ordered
    can[at] = np.searchsorted(wanted, lows, "left") < np.searchsorted(wanted, highs, "right")
    return can


def _is_outside(values: pa.Array, bounds: Bounds) -> Mask:
    """Where some value can be outside of the list: everywhere except where the only value is in the list."""
    low, high = bounds
    values = values.cast(to_bound_type(values.type))
    if pt.is_floating(values.type):
        # is_in distinguishes the two zeros; adding 0.0 turns -0.0 into 0.0.
        low, values = (pc.add(numbers, pa.scalar(0.0, values.type)) for numbers in (low, values))
    return to_mask(pc.not_equal(low, high)) | ~to_mask(pc.is_in(low, value_set=values))


def _prefix_can_be(wanted: Truth, node: StartsWith, facts: BlockletFacts) -> Mask:
    """Values with a prefix range from the prefix (included) to the next larger string without it (excluded)."""
    if wanted == NULL:
        return facts.has_nulls(node.column)
    prefix = _value(node.prefix).cast(pa.binary())
    bounds = facts.bounds(node.column, pa.binary())
    if bounds is None:
        return facts.has_values(node.column)
    low, high = bounds
    after = next_prefix(prefix.as_py())
    if wanted == TRUE:
        can = to_mask(pc.greater_equal(high, prefix))
        if after is not None:
            can &= to_mask(pc.less(low, after))
    else:
        can = to_mask(pc.less(low, prefix))
        if after is not None:
            can |= to_mask(pc.greater_equal(high, after))
    return can & facts.has_values(node.column)


def _value(value: Literal | pa.Scalar) -> pa.Scalar:
    if isinstance(value, Literal):
        raise _unresolved(value)
    return value


def _unresolved(node: object) -> InvalidInputError:
    return InvalidInputError(f"{node} does not have the type of its column; resolve the filter before pruning.")


Index: TypeAlias = pa.Table | pa.RecordBatch
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Positions = np.ndarray[Any, np.dtype[np.int64]]
Bounds = tuple[pa.ChunkedArray, pa.ChunkedArray]
_T = TypeVar("_T")


class BlockletFacts:
    """Facts of the blocklets of an index (or of some positions), each fetched once on demand; unknown is yes."""

    def __init__(self, index: Index, positions: Positions | None = None) -> None:
        self.count = index.num_rows if positions is None else len(positions)
        self._index = index
        self._names = frozenset(index.schema.names)
        self._positions = positions
        self._found: dict[Hashable, Any] = {}

    def narrow(self, positions: Positions) -> BlockletFacts:
        """The facts of some of these blocklets."""
        return BlockletFacts(self._index, positions if self._positions is None else self._positions[positions])

    def all(self, *, value: bool) -> Mask:
        """A mask with the same value for each blocklet."""
        return np.full(self.count, value)

    def has_values(self, name: str) -> Mask:
        """Where there may be a value, NaN included."""
        return self._once(("values", name), lambda: self.test(f"nulls.{name}", pc.less, self._column("rows")))

    def has_nulls(self, name: str) -> Mask:
        """Where there may be a null."""
        return self._once(("nulls", name), lambda: self.test(f"nulls.{name}", pc.greater, pa.scalar(0, pa.int64())))

    def has_nan(self, name: str) -> Mask:
        """Where there may be a NaN; for float columns only."""
        return self._once(("nan", name), lambda: self.test(f"nan.{name}", pc.equal, pa.scalar(value=True)))

    def bounds(self, name: str, kind: pa.DataType) -> Bounds | None:
        """Smallest and largest values as this type (strings as binary), null where unknown; None: all unknown."""
        return self._once((kind, name), lambda: self._bounds(name, kind))

    def test(self, name: str, compare: Callable[[Any, Any], Any], other: Any) -> Mask:
        """Where ``compare`` of a column of the index with another column or a scalar is true; unknown is yes."""
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

    def _fetch(self, name: str) -> Any:
        column = self._index.column(name)
        return column if self._positions is None else column.take(to_column(self._positions))

    def _once(self, key: Hashable, find: Callable[[], _T]) -> _T:
        if key not in self._found:
            self._found[key] = find()
        return self._found[key]


def to_bound_type(kind: pa.DataType) -> pa.DataType:
    """The type in which bounds of a column of this type are compared."""
    return pa.binary() if is_bytes(kind) else kind


def to_mask(flags: Any) -> Mask:
    """Arrow's booleans as NumPy's; null becomes true."""
    return pc.fill_null(flags, fill_value=True).to_numpy(zero_copy_only=False)


def to_column(positions: Positions) -> pa.Array:
    """Positions as an Arrow array; `pa.array` would import pandas only to check for a series."""
    data = pa.py_buffer(np.ascontiguousarray(positions, dtype=np.int64))
    return pa.Array.from_buffers(pa.int64(), len(positions), [None, data])


def _fits(bound: pa.DataType, kind: pa.DataType) -> bool:
    """Whether bounds can be compared as this type: they have it, or a narrower one from before a widening."""
    if bound == kind or (is_bytes(bound) and is_bytes(kind)):
        return True
    both = (bound, kind)
    is_number = all(map(pt.is_signed_integer, both)) or all(map(pt.is_floating, both))
    return bool(is_number and bound.bit_width < kind.bit_width)


def _known(bound: Any) -> Any:
    """Bounds with NaN replaced by null: every comparison with NaN is false, which would exclude everything."""
    if not pt.is_floating(bound.type):
        return bound
    is_nan = pc.is_nan(bound)
    if not pc.any(is_nan).as_py():
        return bound
    return pc.if_else(is_nan, pa.scalar(None, bound.type), bound)
