"""Aggregate functions that compute: sum, product, bool_and, bool_or, folded oldest to newest.

Integers that overflow are an error, as in Java. Decimals are folded as Python's integers, which know no limit, and
must fit their digits in the end of every step; Java gives null or an invalid number there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import RefusedError
from packstone.rewrite.merge.key_order import Bools
from packstone.rewrite.merge.key_words import column_values
from packstone.rewrite.merge.merge_spec import ColumnAggregate
from packstone.rewrite.merge.merge_versions import Versions
from packstone.rewrite.numpy_columns import to_column

Values = np.ndarray[Any, Any]


def _number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


# Each with a test of the types it takes.
VALUE_FUNCTIONS: dict[str, Callable[[pa.DataType], bool]] = {
    "sum": _number,
    "product": _number,
    "bool_and": pt.is_boolean,
    "bool_or": pt.is_boolean,
}


def fold_values(versions: Versions, column: pa.Array, function: ColumnAggregate, *, removes: bool) -> pa.Array:
    """Compute the value of each merged key."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    arithmetic = _arithmetic(column.type, function)
    values = arithmetic.load(column)
    result = np.zeros(versions.count, dtype=values.dtype)
    known = np.zeros(versions.count, dtype=bool)
    for step in versions.steps:
        deleted = step.delete if removes else np.zeros(len(step.rows), dtype=bool)
        given, held = valid[step.rows], known[step.keys]
        both = given & held & ~deleted
        for retracts, operation in ((False, arithmetic.add), (True, arithmetic.retract)):
            which = both & (step.retract == retracts)
            if which.any() and not (retracts and function.ignore_retract):
                keys = step.keys[which]
                result[keys] = operation(result[keys], values[step.rows[which]])
        first = given & ~held & ~step.retract | (deleted & given)
        result[step.keys[first]] = values[step.rows[first]]
        known[step.keys[first]] = True
        negated = given & ~held & step.retract & ~deleted
        if negated.any() and not function.ignore_retract and arithmetic.negate is not None:
            result[step.keys[negated]] = arithmetic.negate(values[step.rows[negated]])
            known[step.keys[negated]] = True
        known[step.keys[deleted & ~given]] = False
    return arithmetic.store(result, known)


class _Arithmetic(ABC):
    """How values of one type are added, retracted, loaded and stored."""

    def __init__(self, kind: pa.DataType, function: ColumnAggregate) -> None:
        self._kind, self._function = kind, function
        self.negate: Callable[[Values], Values] | None = self._negated if function.function == "sum" else None

    def load(self, column: pa.Array) -> Values:
        """The stored values, anything for nulls."""
        return column_values(column, np.dtype(self._kind.to_pandas_dtype()))

    def store(self, result: Values, known: Bools) -> pa.Array:
        """The results as a column."""
        return to_column(result, missing=~known)

    @abstractmethod
    def add(self, left: Values, right: Values) -> Values:
        """The newer value on top of the older ones."""

    @abstractmethod
    def retract(self, left: Values, right: Values) -> Values:
        """The older ones without a value that is taken back."""

    def _negated(self, right: Values) -> Values:
        return self.retract(np.zeros_like(right), right)

    def _overflow(self) -> RefusedError:
        return RefusedError(f"{self._function.function} of column {self._function.column} overflows {self._kind}.")


class _FloatSum(_Arithmetic):
    def add(self, left: Values, right: Values) -> Values:
        with np.errstate(all="ignore"):
            return left + right

    def retract(self, left: Values, right: Values) -> Values:
        with np.errstate(all="ignore"):
            return left - right

    def _negated(self, right: Values) -> Values:
        return -right  # 0.0 - 0.0 would lose the sign


class _FloatProduct(_Arithmetic):
    def add(self, left: Values, right: Values) -> Values:
        with np.errstate(all="ignore"):
            return left * right

    def retract(self, left: Values, right: Values) -> Values:
        with np.errstate(all="ignore"):
            return left / right


class _IntegerSum(_Arithmetic):
    def add(self, left: Values, right: Values) -> Values:
        total = left + right
        if (((left ^ total) & (right ^ total)) < 0).any():
            raise self._overflow()
        return total

    def retract(self, left: Values, right: Values) -> Values:
        rest = left - right
        if (((left ^ right) & (left ^ rest)) < 0).any():
            raise self._overflow()
        return rest


class _IntegerProduct(_Arithmetic):
    def add(self, left: Values, right: Values) -> Values:
        product = left * right
        lowest = np.iinfo(left.dtype).min
        divisor = np.where((left == 0) | (left == -1), 1, left)
        exact = (left == 0) | ((left == -1) & (right != lowest)) | ((left != -1) & (product // divisor == right))
        if not exact.all():
            raise self._overflow()
        return product

    def retract(self, left: Values, right: Values) -> Values:
        if (right == 0).any():
            raise RefusedError(f"product of column {self._function.column} retracts a zero.")
        if ((right == -1) & (left == np.iinfo(left.dtype).min)).any():
            raise self._overflow()
        quotient = np.abs(left.astype(object)) // np.abs(right.astype(object))  # Java's division goes towards zero
        return (quotient * np.sign(left).astype(object) * np.sign(right).astype(object)).astype(left.dtype)


class _DecimalSum(_Arithmetic):
    def load(self, column: pa.Array) -> Values:
        halves = column_values(
            pa.Array.from_buffers(pa.binary(16), len(column), column.buffers(), offset=column.offset),
            np.dtype("V16"),
        )
        low, high = halves.view(np.uint64)[0::2].astype(object), halves.view(np.int64)[1::2].astype(object)
        return high * 2**64 + low

    def store(self, result: Values, known: Bools) -> pa.Array:
        data = b"".join(int(number).to_bytes(16, "little", signed=True) for number in result)
        valid = to_column(known).buffers()[1]
        return pa.Array.from_buffers(self._kind, len(result), [valid, pa.py_buffer(data)])

    def add(self, left: Values, right: Values) -> Values:
        return self._fitting(left + right)

    def retract(self, left: Values, right: Values) -> Values:
        return self._fitting(left - right)

    def _fitting(self, numbers: Values) -> Values:
        limit = 10**self._kind.precision
        if ((numbers >= limit) | (numbers <= -limit)).any():
            raise self._overflow()
        return numbers


class _DecimalProduct(_DecimalSum):
    def add(self, left: Values, right: Values) -> Values:
        product = left * right
        unit = 10**self._kind.scale
        rounded = (np.abs(product) * 2 + unit) // (2 * unit)  # half away from zero
        return self._fitting(np.where(product < 0, -rounded, rounded))

    def retract(self, left: Values, right: Values) -> Values:
        del left, right
        raise RefusedError(f"product of the decimal column {self._function.column} cannot retract.")


class _Booleans(_Arithmetic):
    def load(self, column: pa.Array) -> Values:
        return column.fill_null(fill_value=False).to_numpy(zero_copy_only=False)

    def add(self, left: Values, right: Values) -> Values:
        return left & right if self._function.function == "bool_and" else left | right

    def retract(self, left: Values, right: Values) -> Values:
        del left, right
        raise RefusedError(f"{self._function.function} of column {self._function.column} cannot retract.")


def _arithmetic(kind: pa.DataType, function: ColumnAggregate) -> _Arithmetic:
    is_sum = function.function == "sum"
    if pt.is_boolean(kind):
        return _Booleans(kind, function)
    if pt.is_floating(kind):
        return (_FloatSum if is_sum else _FloatProduct)(kind, function)
    if pt.is_decimal(kind):
        return (_DecimalSum if is_sum else _DecimalProduct)(kind, function)
    return (_IntegerSum if is_sum else _IntegerProduct)(kind, function)
