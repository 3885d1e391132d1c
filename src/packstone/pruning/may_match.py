"""Which blocklets a filter can match, told from their smallest and largest values: one vector test over the index.

The one question is `can some row of this blocklet make the filter TRUE (FALSE, NULL)?`, and the answer errs to yes.
Everything follows from it: NOT swaps TRUE and FALSE, AND is TRUE where all parts can be and FALSE where one can be, OR
the other way round. *May match* is "can be TRUE"; *must match* is "can be neither FALSE nor NULL".

=====================  ==============================================================================================
unknown                no such column in the index, a bound that is null though there are values, null facts: yes
cut bounds             every value is still between them, and nothing more is asked of bounds; so `exact.c` is not read
NaN                    is in no bounds and greater than all numbers, `nan.c` says whether there is one; a bound that is
                       NaN says nothing
-0.0                   equals 0.0, in Arrow's comparisons as in SQL's
nulls                  make every comparison NULL; `nulls.c` against `rows` says whether there is anything else
=====================  ==============================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import InvalidInputError
from packstone.pruning.blocklet_facts import (
    BlockletFacts,
    Bounds,
    Index,
    Mask,
    Positions,
    to_bound_type,
    to_column,
    to_mask,
)
from packstone.pruning.expression import (
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
from packstone.pruning.key_bytes import is_bytes, next_prefix, to_ordered

_OPPOSITE = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}
_NOT = {TRUE: FALSE, FALSE: TRUE, NULL: NULL}
_NARROW_BELOW = 1 / 16  # to copy the facts of so few blocklets costs less than to test all of them again


def may_match(expression: Expression, index: Index, *, at: Positions | None = None) -> Mask:
    """False for blocklets in which certainly no row is TRUE; of those at some positions only, if given.

    The filter is resolved.
    """
    return _can_be(TRUE, expression, BlockletFacts(index, at))


def must_match(expression: Expression, index: Index, *, at: Positions | None = None) -> Mask:
    """True for blocklets in which certainly every row is TRUE, so that nobody has to test their rows."""
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
    """Where each part can be: cheap parts first, and where they leave little, the others only there."""
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
    """Numbers are tested at memory speed, strings at a tenth of it, sets and nested parts take several tests."""
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
    """Where a value between the bounds can compare so."""
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
    """NaN equals itself and is greater than every number; whether there are numbers beside NaN nobody says."""
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
        can |= facts.has_nan(node.column)  # it is listed, or it is outside of the list
    return can & facts.has_values(node.column)


def _overlaps(values: pa.Array, bounds: Bounds) -> Mask:
    """Where one of the values, which ascend, is between the bounds: first all of them as one range, then each."""
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
    """Where some value can be none of these: everywhere but where there is one value only, and it is one of them."""
    low, high = bounds
    values = values.cast(to_bound_type(values.type))
    if pt.is_floating(values.type):
        # To is_in the zeros are two values; with 0.0 added, -0.0 is 0.0.
        low, values = (pc.add(numbers, pa.scalar(0.0, values.type)) for numbers in (low, values))
    return to_mask(pc.not_equal(low, high)) | ~to_mask(pc.is_in(low, value_set=values))


def _prefix_can_be(wanted: Truth, node: StartsWith, facts: BlockletFacts) -> Mask:
    """What begins with a prefix is from the prefix up to, not with, the next string that does not."""
    if wanted == NULL:
        return facts.has_nulls(node.column)
    prefix = _value(node.prefix).cast(pa.binary())
    bounds = facts.bounds(node.column, pa.binary())
    if bounds is None:
        return facts.has_values(node.column)
    low, high = bounds
    behind = next_prefix(prefix.as_py())
    if wanted == TRUE:
        can = to_mask(pc.greater_equal(high, prefix))
        if behind is not None:
            can &= to_mask(pc.less(low, behind))
    else:
        can = to_mask(pc.less(low, prefix))
        if behind is not None:
            can |= to_mask(pc.greater_equal(high, behind))
    return can & facts.has_values(node.column)


def _value(value: Literal | pa.Scalar) -> pa.Scalar:
    if isinstance(value, Literal):
        raise _unresolved(value)
    return value


def _unresolved(node: object) -> InvalidInputError:
    return InvalidInputError(f"{node} is in no column's type yet; resolve the filter before pruning by it.")
