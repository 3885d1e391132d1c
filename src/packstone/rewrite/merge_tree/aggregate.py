"""The merge engine aggregation: every column has a function that folds the records of a key, oldest to newest.

A retraction calls the inverse of the function, if it has one; a column with the option ignore-retract stays unchanged.
With remove-record-on-delete a -D replaces the whole row by its own values, and the kind is -D until a record adds a row
again. Otherwise the kind is +I. The sequence number is that of the last record. ignore-delete applies when rows are
written; merging ignores it. (This is the behaviour of Java's AggregateMergeFunction.)

There are three kinds of functions. For those whose result is one of the values (max, last_value, …), row numbers are
folded and the value is fetched at the end. listagg joins strings. The others compute (sum, product, bool_and, bool_or).
An integer overflow is an error, as in Java. Decimals are folded as Python's integers, which are unbounded, and the
result of every step must fit the column's precision; Java returns null or an invalid number there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import InvalidInputError, RefusedError
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.merge_tree.keys import I64, Bools, column_values, to_integers
from packstone.rewrite.merge_tree.spec import KIND_COLUMN, SEQUENCE_COLUMN, ColumnAggregate, MergeSpec, RowKind
from packstone.rewrite.merge_tree.window import Step, Versions, Window

# ---- functions whose result is one of the values ----


def _any_type(_kind: pa.DataType) -> bool:
    return True


def _comparable(kind: pa.DataType) -> bool:
    return not pt.is_nested(kind)


# Each with a test of the types it accepts.
ROW_FUNCTIONS: dict[str, Callable[[pa.DataType], bool]] = {
    "primary-key": _any_type,
    "last_value": _any_type,
    "last_non_null_value": _any_type,
    "first_value": _any_type,
    "first_non_null_value": _any_type,
    "max": _comparable,
    "min": _comparable,
}


def fold_rows(versions: Versions, column: pa.Array, function: ColumnAggregate, *, removes: bool) -> I64:
    """The row that the value of each merged key comes from; -1 for null."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    fold = _Fold(versions.count, valid, ignore_retract=function.ignore_retract)
    if function.function in {"max", "min"}:
        fold.ranks = _ranks(column)
    steps = getattr(fold, f"step_{function.function.replace('-', '_')}")
    for step in versions.steps:
        deleted = step.delete if removes else np.zeros(len(step.rows), dtype=bool)
        fold.source[step.keys[deleted]] = step.rows[deleted]
        steps(step, ~deleted)
    return np.where((fold.source >= 0) & valid[fold.source], fold.source, -1)


class _Fold:
    """The row that the value of each key comes from, after the steps so far."""

    def __init__(self, keys: int, valid: Bools, *, ignore_retract: bool) -> None:
        self.source = np.full(keys, -1, dtype=np.int64)
        self.ranks: np.ndarray[Any, Any] = np.empty(0)
        self._valid = valid
        self._started = np.zeros(keys, dtype=bool)
        self._ignore_retract = ignore_retract

    def step_primary_key(self, step: Step, active: Bools) -> None:
        if self._ignore_retract:
            active = active & ~step.retract
        self._set(step, active)

    def step_last_value(self, step: Step, active: Bools) -> None:
        self._set(step, active & ~step.retract)
        self._clear(step, active & step.retract)

    def step_last_non_null_value(self, step: Step, active: Bools) -> None:
        known = active & self._valid[step.rows]
        self._set(step, known & ~step.retract)
        self._clear(step, known & step.retract)

    def step_first_value(self, step: Step, active: Bools) -> None:
        adds = active & ~step.retract
        self._set(step, adds & ~self._started[step.keys])
        self._started[step.keys[adds]] = True

    def step_first_non_null_value(self, step: Step, active: Bools) -> None:
        adds = active & ~step.retract & self._valid[step.rows]
        self._set(step, adds & ~self._started[step.keys])
        self._started[step.keys[adds]] = True

    def step_max(self, step: Step, active: Bools) -> None:
        adds, held = self._compared(step, active)
        self._set(step, adds & (~self._has(held) | (self.ranks[held] < self.ranks[step.rows])))

    def step_min(self, step: Step, active: Bools) -> None:
        adds, held = self._compared(step, active)
        self._set(step, adds & (~self._has(held) | (self.ranks[held] >= self.ranks[step.rows])))

    def _compared(self, step: Step, active: Bools) -> tuple[Bools, I64]:
        return active & ~step.retract & self._valid[step.rows], self.source[step.keys]

    def _has(self, held: I64) -> Bools:
        return (held >= 0) & self._valid[held]

    def _set(self, step: Step, which: Bools) -> None:
        self.source[step.keys[which]] = step.rows[which]

    def _clear(self, step: Step, which: Bools) -> None:
        if not self._ignore_retract:
            self.source[step.keys[which]] = -1


def _ranks(column: pa.Array) -> np.ndarray[Any, Any]:
    """Numbers in the order of the values; those of nulls are arbitrary."""
    kind = column.type
    if pt.is_integer(kind) or pt.is_temporal(kind) or pt.is_floating(kind):
        return to_integers(column)
    if pt.is_boolean(kind):
        return to_integers(column.fill_null(fill_value=False))
    if pt.is_string(kind):
        column = column.cast(pa.binary())
    return pc.rank(column, tiebreaker="dense").to_numpy(zero_copy_only=False)


# ---- listagg ----


# The characters for which Java's Character.isWhitespace is true; no-break spaces are not among them.
_BLANKS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2028\u2029\u205f\u3000" + "".join(
    chr(code)
    for code in range(0x2000, 0x200B)
    if code != 0x2007  # the figure space does not break
)


def fold_texts(versions: Versions, column: pa.Array, function: ColumnAggregate, *, removes: bool) -> pa.Array:
    """Join the strings of each merged key, oldest first; blank ones are skipped, repeated ones too with distinct."""
    result = pa.nulls(versions.count, pa.string())
    for step in versions.steps:
        rows = np.full(versions.count, -1, dtype=np.int64)
        rows[step.keys] = step.rows
        given = column.take(to_column(rows, missing=rows < 0))
        deleted = np.zeros(versions.count, dtype=bool)
        skipped = np.zeros(versions.count, dtype=bool)
        skipped[step.keys] = step.retract
        if removes:
            deleted[step.keys] = step.delete
        keep = pc.or_(to_column(skipped), _is_blank(given))
        joined = pc.if_else(_is_blank(result), given, _join(result, given, function))
        merged = pc.if_else(keep, result, joined)
        result = pc.if_else(to_column(deleted), given, merged)
    return result


def _is_blank(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.utf8_trim(texts, characters=_BLANKS), "").fill_null(fill_value=True)


def _join(left: pa.Array, right: pa.Array, function: ColumnAggregate) -> pa.Array:
    if not function.distinct:
        return pc.binary_join_element_wise(left, right, function.delimiter)
    # No vector kernel compares the tokens of one string with those of another.
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([None if a is None or b is None else _join_new(a, b, function.delimiter) for a, b in pairs])


def _join_new(held: str, given: str, delimiter: str) -> str:
    separator = delimiter or " "
    seen = set(_tokens(held, separator))
    found = []
    for token in _tokens(given, separator):
        if token.strip(_BLANKS) and token not in seen:
            seen.add(token)
            found.append(token)
    return delimiter.join([held, *found])


def _tokens(text: str, separator: str) -> list[str]:
    """Split as Java does: a separator at the very end does not start another token."""
    parts = text.split(separator)
    return parts[:-1] if parts[-1] == "" else parts


# ---- functions that compute ----


Values = np.ndarray[Any, Any]


def _number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


# Each with a test of the types it accepts.
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
    """The operations of one type: load, add, retract and store values."""

    def __init__(self, kind: pa.DataType, function: ColumnAggregate) -> None:
        self._kind, self._function = kind, function
        self.negate: Callable[[Values], Values] | None = self._negated if function.function == "sum" else None

    def load(self, column: pa.Array) -> Values:
        """The stored values; arbitrary for nulls."""
        return column_values(column, np.dtype(self._kind.to_pandas_dtype()))

    def store(self, result: Values, known: Bools) -> pa.Array:
        """The results as a column."""
        return to_column(result, missing=~known)

    @abstractmethod
    def add(self, left: Values, right: Values) -> Values:
        """The fold of the older values and a newer one."""

    @abstractmethod
    def retract(self, left: Values, right: Values) -> Values:
        """The fold of the older values without a retracted one."""

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
        quotient = np.abs(left.astype(object)) // np.abs(right.astype(object))  # Java's division truncates towards zero
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


# ---- the engine ----

_DEFAULT_FUNCTION = "last_non_null_value"
_LISTAGG = "listagg"
_ALIASES = {"first_not_null_value": "first_non_null_value"}
_RETRACTABLE = frozenset({"sum", "product", "last_value", "last_non_null_value", "primary-key"})
SUPPORTED = frozenset({*ROW_FUNCTIONS, *VALUE_FUNCTIONS, _LISTAGG})


class Aggregation:
    """The engine with a function for every value column."""

    def __init__(self, spec: MergeSpec, schema: pa.Schema) -> None:
        self._remove_on_delete = spec.engine.remove_record_on_delete
        self._newest_columns = frozenset(spec.key_columns) | {SEQUENCE_COLUMN}
        self._schema = schema
        named = {one.column: one for one in spec.engine.aggregates}
        for name in named:
            if schema.get_field_index(name) < 0:
                raise InvalidInputError(f"The table has no column {name}, which its options aggregate.")
        self._functions = {
            field.name: _checked(named.get(field.name, _default(spec, field.name)), field.type)
            for field in schema
            if field.name not in self._newest_columns and field.name != KIND_COLUMN
        }

    def merge(self, window: Window) -> pa.RecordBatch:
        """Merge all keys of a window."""
        versions = Versions(window)
        columns = [self._column(versions, field) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, versions: Versions, field: pa.Field) -> pa.Array:
        column = versions.window.column(field.name)
        if field.name in self._newest_columns or (field.name == KIND_COLUMN and not versions.count):
            return column.take(to_column(versions.newest))
        if field.name == KIND_COLUMN:
            return versions.place(column, to_column(self._kinds(versions)))
        function = self._functions[field.name]
        self._check_retracts(versions, function)
        removes = self._remove_on_delete and versions.has_retracts
        if function.function in ROW_FUNCTIONS:
            return versions.place(column, fold_rows(versions, column, function, removes=removes))
        if function.function == _LISTAGG:
            return versions.place(column, fold_texts(versions, column, function, removes=removes))
        return versions.place(column, fold_values(versions, column, function, removes=removes))

    def _kinds(self, versions: Versions) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
        deleted = np.zeros(versions.count, dtype=bool)
        for step in versions.steps:
            deleted[step.keys] = step.delete if self._remove_on_delete else False
        return np.where(deleted, RowKind.DELETE, RowKind.INSERT).astype(np.int8)

    def _check_retracts(self, versions: Versions, function: ColumnAggregate) -> None:
        if not versions.has_retracts or function.ignore_retract or function.function in _RETRACTABLE:
            return
        if any((step.retract & ~(step.delete & self._remove_on_delete)).any() for step in versions.steps):
            raise RefusedError(
                f"{function.function} of column {function.column} cannot retract; "
                f"set fields.{function.column}.ignore-retract on the table."
            )


def _default(spec: MergeSpec, name: str) -> ColumnAggregate:
    function = "last_value" if name in spec.sequence_columns else _DEFAULT_FUNCTION
    return ColumnAggregate(column=name, function=function)


def _checked(function: ColumnAggregate, kind: pa.DataType) -> ColumnAggregate:
    name = _ALIASES.get(function.function, function.function)
    if name not in SUPPORTED:
        raise RefusedError(f"The aggregate function {function.function} of column {function.column} is not supported.")
    if name == _LISTAGG and not pa.types.is_string(kind):
        raise InvalidInputError(f"listagg takes strings; column {function.column} is {kind}.")
    check = VALUE_FUNCTIONS.get(name) or ROW_FUNCTIONS.get(name)
    if check is not None and not check(kind):
        raise InvalidInputError(f"{name} cannot aggregate column {function.column}, which is {kind}.")
    return ColumnAggregate(
        column=function.column,
        function=name,
        ignore_retract=function.ignore_retract,
        delimiter=function.delimiter,
        distinct=function.distinct,
    )
