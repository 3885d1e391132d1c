"""Evaluate a resolved filter on rows: TRUE, FALSE or unknown for each, exactly as Spark SQL decides.

NaN equals itself and is greater than every number, -0.0 equals 0.0, text compares by bytes, NULL is unknown. Vector
kernels do all the work. A dictionary-encoded column is tested once per entry of the dictionary, and the rows by their
codes: one comparison of integers if the passing entries are adjacent (one value; a range of a sorted dictionary).

``select`` needs only TRUE, so it may stop early: AND runs the cheapest test first, and once few rows are left, the
next tests get only these; under OR the later tests get only rows that are not yet selected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import InvalidInputError, RefusedError
from packstone.query.filter.expression import (
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
    all_of,
    any_of,
    columns_of,
)

Test = Callable[[pa.Array], pa.BooleanArray]

# Finding and taking the remaining rows costs about as much as three comparisons of a long column. So it pays off once
# one row in eight is left, if the remaining tests cost more than that: text, a list, or several columns.
NARROW_RATIO, NARROW_COST = 8, 24
_TEXT_COST, _LIST_FACTOR = 48, 4
_FEW_VALUES = 8  # comparing with each is faster than a lookup in a set


def evaluate(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """The truth of each row, null for unknown."""
    match expression:
        case And():
            return _join(pc.and_kleene, expression.parts, batch)
        case Or():
            return _join(pc.or_kleene, expression.parts, batch)
        case Not():
            return pc.invert(evaluate(expression.part, batch))
        case Truth():
            return pa.repeat(pa.scalar(expression.value, pa.bool_()), batch.num_rows)
        case IsNull():
            column = _column(expression.column, batch)
            return pc.is_valid(column) if expression.negated else _is_null(column)
        case Compare() | OneOf() | StartsWith():
            return _test_column(_test_of(expression), _column(expression.column, batch))
        case Unknown():
            names = ", ".join(expression.columns)
            raise RefusedError(
                f"The test {expression.text!r} needs Spark; without it write a comparison of {names or 'a column'}.",
                construct=expression.text,
            )
        case _:
            assert_never(expression)


def select(expression: Expression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """True where the filter is TRUE, False elsewhere; the result has no nulls."""
    match expression:
        case And():
            return _select_all(sorted(expression.parts, key=lambda part: cost_of(part, batch.schema)), batch)
        case Or():
            return _select_any(sorted(expression.parts, key=lambda part: cost_of(part, batch.schema)), batch)
        case _:
            truth = evaluate(expression, batch)
            return truth.fill_null(fill_value=False) if truth.null_count else truth


def cost_of(expression: Expression, schema: pa.Schema) -> int:
    """The cost of a test per row, about the bytes it reads: dictionary codes are cheap, text is expensive."""
    match expression:
        case And() | Or():
            return sum(cost_of(part, schema) for part in expression.parts)
        case Not():
            return cost_of(expression.part, schema)
        case Truth() | IsNull():
            return 0
        case Unknown():
            return 1 << 30
    at = schema.get_field_index(expression.column)
    kind = schema.field(at).type if at >= 0 else pa.null()
    if pt.is_dictionary(kind):
        return int(kind.index_type.bit_width // 8)
    try:
        width = max(1, kind.bit_width // 8)
    except ValueError:  # variable width
        width = _TEXT_COST
    return int(width * (_LIST_FACTOR if isinstance(expression, OneOf) else 1))


def _join(
    kernel: Callable[[pa.Array, pa.Array], pa.Array], parts: tuple[Expression, ...], batch: pa.RecordBatch
) -> pa.BooleanArray:
    truth = evaluate(parts[0], batch)
    for part in parts[1:]:
        truth = kernel(truth, evaluate(part, batch))
    return truth


def _select_all(parts: list[Expression], batch: pa.RecordBatch) -> pa.BooleanArray:
    mask = select(parts[0], batch)
    for at, part in enumerate(parts[1:], start=1):
        left = mask.true_count
        if not left:
            return mask
        if _is_worth_narrowing(left, parts[at:], batch):
            return _narrowed(all_of(parts[at:]), batch, mask)
        mask = pc.and_(mask, select(part, batch))
    return mask


def _select_any(parts: list[Expression], batch: pa.RecordBatch) -> pa.BooleanArray:
    mask = select(parts[0], batch)
    for at, part in enumerate(parts[1:], start=1):
        left = batch.num_rows - mask.true_count
        if not left:
            return mask
        if _is_worth_narrowing(left, parts[at:], batch):
            return pc.or_(mask, _narrowed(any_of(parts[at:]), batch, pc.invert(mask)))
        mask = pc.or_(mask, select(part, batch))
    return mask


def _is_worth_narrowing(left: int, parts: list[Expression], batch: pa.RecordBatch) -> bool:
    if left * NARROW_RATIO > batch.num_rows:
        return False
    return sum(cost_of(part, batch.schema) for part in parts) >= NARROW_COST


def _narrowed(expression: Expression, batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.BooleanArray:
    """Test only the rows of the mask."""
    rows = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
    names = [name for name in columns_of(expression) if name in batch.schema.names]
    taken = batch.select(names).take(pa.array(rows)) if names else batch.slice(0, len(rows))
    found = np.zeros(batch.num_rows, dtype=bool)
    found[rows[select(expression, taken).to_numpy(zero_copy_only=False)]] = True
    return pa.array(found)


def _column(name: str, batch: pa.RecordBatch) -> pa.Array:
    at = batch.schema.get_field_index(name)
    if at < 0:
        raise InvalidInputError(f"The filter tests {name!r}, but the rows have no such column or several.", column=name)
    return batch.column(at)


def _is_null(column: pa.Array) -> pa.BooleanArray:
    # A dictionary may have a null entry, which is_null of the codes does not detect.
    if pt.is_dictionary(column.type) and column.dictionary.null_count:
        return pc.is_null(column.dictionary_decode())
    return pc.is_null(column)


def _test_column(test: Test, column: pa.Array) -> pa.BooleanArray:
    if not pt.is_dictionary(column.type):
        return test(_plain(column))
    if len(column.dictionary) > len(column):  # a slice of a long column: most entries are unused
        return test(_plain(column.dictionary_decode()))
    return _by_code(test(_plain(column.dictionary)), column.indices)


def _plain(column: pa.Array) -> pa.Array:
    """The same values in a type that has all kernels."""
    kind = column.type
    if pt.is_string_view(kind):
        return column.cast(pa.large_string())
    if pt.is_binary_view(kind):
        return column.cast(pa.large_binary())
    if pt.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    return column.cast(pa.float32()) if pt.is_float16(kind) else column


def _by_code(entries: pa.BooleanArray, codes: pa.Array) -> pa.BooleanArray:
    """The truth of rows, from the truth of the entries of their dictionary."""
    if entries.null_count:
        return entries.take(codes)
    passing = np.flatnonzero(entries.to_numpy(zero_copy_only=False))
    if not len(passing):
        return pc.less(codes, pa.scalar(0, codes.type))  # false, and unknown for null
    first, last = int(passing[0]), int(passing[-1])
    if last - first + 1 != len(passing):
        if (first, last) == (0, len(entries) - 1):  # all but a few, as after <>
            failing = np.flatnonzero(~entries.to_numpy(zero_copy_only=False))
            if failing[-1] - failing[0] + 1 == len(failing):
                return pc.invert(_by_code(pc.invert(entries), codes))
        return entries.take(codes)
    if first == last:
        return pc.equal(codes, pa.scalar(first, codes.type))
    is_above = None if first == 0 else pc.greater_equal(codes, pa.scalar(first, codes.type))
    if is_above is not None and last == len(entries) - 1:
        return is_above
    is_below = pc.less_equal(codes, pa.scalar(last, codes.type))
    return is_below if is_above is None else pc.and_(is_above, is_below)


def _test_of(leaf: Compare | OneOf | StartsWith) -> Test:
    match leaf:
        case Compare(literal=Literal()) | StartsWith(prefix=Literal()):
            raise InvalidInputError(f"The test {str(leaf)!r} must be resolved before it can be evaluated.")
        case Compare():
            return lambda values: _compare(values, leaf.op, leaf.literal)
        case StartsWith():
            return lambda values: _starts_with(values, leaf.prefix, negated=leaf.negated)
        case OneOf(literals=ValueSet() as wanted):
            return lambda values: _is_one_of(values, wanted.array, negated=leaf.negated)
    raise InvalidInputError(f"The test {str(leaf)!r} must be resolved before it can be evaluated.")


def _fitting(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    return value if value.type == kind else value.cast(kind)


def _compare(values: pa.Array, op: Op, literal: pa.Scalar) -> pa.BooleanArray:
    value = _fitting(literal, values.type)
    if pt.is_floating(values.type) and math.isnan(value.as_py()):
        return _compare_with_nan(values, op)
    match op:
        case Op.EQ:
            return pc.equal(values, value)
        case Op.NE:
            return pc.not_equal(values, value)
        case Op.LT:
            return pc.less(values, value)
        case Op.LE:
            return pc.less_equal(values, value)
    if not pt.is_floating(values.type):
        return pc.greater(values, value) if op is Op.GT else pc.greater_equal(values, value)
    # In IEEE comparisons NaN is neither greater nor less than anything, so invert the opposite: not less is true.
    return pc.invert(pc.less_equal(values, value) if op is Op.GT else pc.less(values, value))


def _compare_with_nan(values: pa.Array, op: Op) -> pa.BooleanArray:
    is_nan = pc.is_nan(values)
    match op:
        case Op.EQ | Op.GE:
            return is_nan
        case Op.NE | Op.LT:
            return pc.invert(is_nan)
        case Op.LE:
            return pc.or_(is_nan, pc.invert(is_nan))
        case Op.GT:
            return pc.and_(is_nan, pc.invert(is_nan))
        case _:
            assert_never(op)


def _is_one_of(values: pa.Array, wanted: pa.Array, *, negated: bool) -> pa.BooleanArray:
    if wanted.type != values.type:
        wanted = wanted.cast(values.type)
    if len(wanted) <= _FEW_VALUES and _has_fixed_width(values.type):
        few = [_compare(values, Op.NE if negated else Op.EQ, value) for value in wanted]
        return reduce(pc.and_ if negated else pc.or_, few)
    found = pc.is_in(values, value_set=_with_both_zeros(wanted))
    if pt.is_floating(values.type) and pc.any(pc.is_nan(wanted)).as_py():
        # NaN has many bit patterns, and a set contains only one.
        found = pc.or_(found, pc.is_nan(values).fill_null(fill_value=False))
    if negated:
        found = pc.invert(found)
    return pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_())) if values.null_count else found


def _has_fixed_width(kind: pa.DataType) -> bool:
    return bool(pt.is_primitive(kind) or pt.is_decimal(kind))


def _with_both_zeros(wanted: pa.Array) -> pa.Array:
    """Add the other zero: a set compares -0.0 and 0.0 by their bits, which differ."""
    if not pt.is_floating(wanted.type) or not pc.any(pc.equal(wanted, pa.scalar(0.0, wanted.type))).as_py():
        return wanted
    return pa.concat_arrays([wanted, pa.array([0.0, -0.0], wanted.type)])


def _starts_with(values: pa.Array, prefix: pa.Scalar, *, negated: bool) -> pa.BooleanArray:
    found = pc.starts_with(values, pattern=prefix.as_py())
    return pc.invert(found) if negated else found
