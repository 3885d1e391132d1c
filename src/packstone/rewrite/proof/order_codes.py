"""The order of keys and of sequence columns, as arrays that compare like the values do.

Nulls come first; floats in Java's order (-0.0 < 0.0, all NaN equal and last); strings and binaries by unsigned bytes.
Values of fixed width become *codes*: one or more arrays, of which the first decides, or the next where it is equal.
Strings have no codes; where only neighbours are compared, PyArrow compares the strings themselves.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from packstone.errors import RefusedError
from packstone.rewrite.proof.row_lanes import read_fixed

Codes: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


def codes_per_value(kind: pa.DataType) -> int:
    """Return how many arrays of codes a type has, without the one for nulls; 0 for types that have no codes."""
    if types.is_boolean(kind) or types.is_integer(kind) or _is_moment(kind):
        return 1
    if types.is_floating(kind):
        return 1
    return max(1, kind.bit_width // 64) if types.is_decimal(kind) else 0


def codes_of(array: pa.Array) -> list[Codes]:
    """Return the codes of values of fixed width, the most significant first; those of nulls are undefined."""
    kind = array.type
    if types.is_boolean(kind):
        return [array.cast(pa.uint8()).fill_null(0).to_numpy()]
    if types.is_floating(kind):
        return [_float_codes(array)]
    if types.is_decimal(kind) and kind.bit_width > 64:  # a word
        count = kind.bit_width // 64
        words = read_fixed(array, "<u8", per_value=count).reshape(-1, count)
        return [words[:, count - 1].view(np.int64), *(words[:, place] for place in range(count - 2, -1, -1))]
    if types.is_decimal(kind) or _is_moment(kind):
        return [read_fixed(array, f"<i{kind.bit_width // 8}")]
    if types.is_integer(kind):
        return [read_fixed(array)]
    raise RefusedError(f"columns of type {kind} cannot be ordered", type=str(kind))


def version_codes(array: pa.Array, *, descending: bool) -> list[Codes]:
    """Return codes by which a newer record is greater; a null is always oldest, even in descending order."""
    valid = read_validity(array)
    codes = [np.where(valid, ~code if descending else code, 0) for code in codes_of(array)]
    return [valid.view(np.uint8), *codes]


def rank_codes(array: pa.Array) -> Codes:
    """Return dense ranks of values of any type that has an order; nulls are 0, whatever the order."""
    if not codes_per_value(array.type):
        ranks = pc.rank(array, sort_keys="ascending", tiebreaker="dense").to_numpy()
    else:
        keys = [np.where(read_validity(array), code, code.dtype.type(0)) for code in codes_of(array)]
        order = np.lexsort(keys[::-1])
        ordered = [key[order] for key in keys]
        steps = np.zeros(len(order), dtype=np.int64)
        for key in ordered:
            steps[1:] |= key[1:] != key[:-1]
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.cumsum(steps) + 1
    return np.where(read_validity(array), ranks, 0).astype(np.int64)


def read_validity(array: pa.Array) -> Mask:
    """Return for each value whether it is not null."""
    if not array.null_count:
        return np.ones(len(array), dtype=np.bool_)
    return pc.is_valid(array).to_numpy(zero_copy_only=False)


def find_disorder(columns: list[pa.Array], *, may_repeat: bool = False) -> int | None:
    """Return the first row whose key is not below the next row's key, nor equal to it where keys may repeat."""
    if not len(columns[0]):
        return None
    undecided = np.ones(len(columns[0]) - 1, dtype=np.bool_)
    for column in columns:
        below, equal = _compare_neighbours(column)
        wrong = undecided & ~(below | equal)
        if wrong.any():
            return int(np.argmax(wrong))
        undecided &= equal
        if not undecided.any():
            return None
    return None if may_repeat else int(np.argmax(undecided))


def is_below(column: pa.Array, bound: pa.Scalar) -> Mask:
    """Return for each value whether it is smaller than the bound; nulls are."""
    if codes_per_value(column.type):
        bounds = codes_of(pa.array([bound], type=column.type))
        below, equal = _compare(codes_of(column), bounds)
        del equal
    else:
        below = _to_mask(pc.less(column, bound))
    return below | ~read_validity(column)


def _compare_neighbours(column: pa.Array) -> tuple[Mask, Mask]:
    if codes_per_value(column.type):
        codes = codes_of(column)
        below, equal = _compare([code[:-1] for code in codes], [code[1:] for code in codes])
    else:
        left, right = column.slice(0, len(column) - 1), column.slice(1)
        below, equal = _to_mask(pc.less(left, right)), _to_mask(pc.equal(left, right))
    if column.null_count:
        valid = read_validity(column)
        left_valid, right_valid = valid[:-1], valid[1:]
        both = left_valid & right_valid
        below = (below & both) | (~left_valid & right_valid)
        equal = (equal & both) | ~(left_valid | right_valid)
    return below, equal


def _compare(left: list[Codes], right: list[Codes]) -> tuple[Mask, Mask]:
    below, equal = left[0] < right[0], left[0] == right[0]
    for left_code, right_code in zip(left[1:], right[1:], strict=True):
        below |= equal & (left_code < right_code)
        equal &= left_code == right_code
    return below, equal


def _float_codes(array: pa.Array) -> Codes:
    """Map floats to integers in Java's order: the bits of negative ones are inverted."""
    width_bits = array.type.bit_width
    values = read_fixed(array)
    bits = read_fixed(array, f"<i{width_bits // 8}").copy()
    bits[np.isnan(values)] = np.array(np.nan, dtype=values.dtype).view(bits.dtype) & np.iinfo(bits.dtype).max
    negative = bits < 0
    bits[negative] ^= np.iinfo(bits.dtype).max
    return bits


def _is_moment(kind: pa.DataType) -> bool:
    return bool(types.is_temporal(kind) and not types.is_interval(kind))


def _to_mask(answers: pa.Array) -> Mask:
    return answers.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value, not a switch
