"""aggregation: every column has a function that folds the records of a key, oldest to newest.

A retract calls the function's opposite, where it has one; a column whose option says ignore-retract is left as it is.
With remove-record-on-delete a -D replaces the whole row by its own values and the kind is -D until something is added.
Otherwise the kind is +I. The sequence number is that of the last record. ignore-delete works where rows are written;
merging does not look at it. (Facts of Java's AggregateMergeFunction.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from packstone.errors import InvalidInputError, RefusedError
from packstone.rewrite.merge.aggregate_rows import ROW_FUNCTIONS, fold_rows
from packstone.rewrite.merge.aggregate_texts import fold_texts
from packstone.rewrite.merge.aggregate_values import VALUE_FUNCTIONS, fold_values
from packstone.rewrite.merge.key_words import I64
from packstone.rewrite.merge.merge_spec import (
    KIND_COLUMN,
    SEQUENCE_COLUMN,
    ColumnAggregate,
    MergeSpec,
    RowKind,
)
from packstone.rewrite.merge.merge_versions import Versions
from packstone.rewrite.merge.merge_window import Window
from packstone.rewrite.numpy_columns import to_column

Fold: TypeAlias = Callable[[Versions, pa.Array], I64 | pa.Array]

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
                raise InvalidInputError(f"There is no column {name} to aggregate.")
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
