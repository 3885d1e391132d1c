"""Batches of any types as rows of a table, with the rows apart that do not fit.

Columns are matched by name, case does not count; one that the input lacks is null. A column that the table does not
have, or one whose type can never be the table's, is an error of the whole input. Everything else is a matter of single
rows: each column is cast as a whole, and only where that fails are the bad rows looked for.

Cost: nothing for columns that have the table's type already; else one pass.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import InvalidInputError
from packstone.rewrite.inputs.bad_rows import BadField, BadRecords, Place, bad_record_error
from packstone.rewrite.inputs.convert_text import whole_range
from packstone.rewrite.inputs.convert_values import convert_values
from packstone.rewrite.inputs.converted import Converted, NoConversionError, not_null
from packstone.rewrite.numpy_columns import to_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.inputs.converted import Mask

_IS_NULL = "is null, and the column is NOT NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputBatch:
    """Rows as they were read, where they come from, and rows that could not be read at all."""

    batch: pa.RecordBatch
    place: Place
    unreadable: tuple[BadField, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedRows:
    """Rows of the table's schema; ``bad_rows`` counts rows, ``bad`` holds a reason for each bad field."""

    batch: pa.RecordBatch
    bad: tuple[BadField, ...] = ()
    bad_rows: int = 0


class Converter:
    """Makes rows of one table's schema; keeps what it learned of the last input's schema."""

    def __init__(self, schema: pa.Schema, *, action: BadRecords = BadRecords.FAIL, zone: str = "UTC") -> None:
        self._schema, self._action, self._zone = schema, action, zone
        self._bound: tuple[pa.Schema, tuple[int | None, ...]] | None = None

    def convert(self, rows: InputBatch) -> ConvertedRows:
        """Convert one batch; InvalidInputError if its columns are wrong, or for the first bad row with FAIL."""
        batch = rows.batch
        columns = [self._column(batch, field, at) for field, at in zip(self._schema, self._bind(rows), strict=True)]
        failures = list(self._failures(columns))
        values = [column.values for column in columns]
        whole = pa.RecordBatch.from_arrays(values, schema=self._schema)
        if self._action is BadRecords.FAIL and (failures or rows.unreadable):
            first = min((*rows.unreadable, *self._describe(rows, failures)), key=lambda field: field.row)
            raise bad_record_error(first)
        if not failures:
            return ConvertedRows(batch=whole, bad=rows.unreadable, bad_rows=len(rows.unreadable))
        return self._without_bad(rows, whole, failures)

    def _bind(self, rows: InputBatch) -> tuple[int | None, ...]:
        """Which column of the input each of the table's is."""
        schema = rows.batch.schema
        if self._bound is None or not (schema is self._bound[0] or schema.equals(self._bound[0])):
            self._bound = schema, match_columns(schema, self._schema, source=rows.place.source, zone=self._zone)
        return self._bound[1]

    def _column(self, batch: pa.RecordBatch, field: pa.Field, at: int | None) -> Converted:
        if at is None:
            return Converted(values=pa.nulls(batch.num_rows, field.type))
        return convert_values(batch.column(at), field.type, zone=self._zone)

    def _failures(self, columns: list[Converted]) -> Iterator[tuple[int, Mask, str]]:
        """For each column in which rows are bad: its number, which rows, and why."""
        for at, (field, column) in enumerate(zip(self._schema, columns, strict=True)):
            if column.bad is not None:
                yield at, column.bad, describe_misfit(field.type)
            if not field.nullable and column.values.null_count:
                missing = ~not_null(column.values)
                missing &= ~column.bad if column.bad is not None else True
                if missing.any():
                    yield at, missing, _IS_NULL

    def _without_bad(
        self, rows: InputBatch, whole: pa.RecordBatch, failures: list[tuple[int, Mask, str]]
    ) -> ConvertedRows:
        bad = tuple(self._describe(rows, failures))
        any_bad = np.logical_or.reduce([mask for _, mask, _ in failures])
        left_out = any_bad
        if self._action is BadRecords.FORCE:
            no_nulls = [mask for at, mask, _ in failures if not self._schema.field(at).nullable]
            left_out = np.logical_or.reduce(no_nulls) if no_nulls else np.zeros(whole.num_rows, dtype=bool)
        kept = whole.filter(to_column(~left_out)) if left_out.any() else whole
        bad_rows = int(np.count_nonzero(any_bad)) + len(rows.unreadable)
        return ConvertedRows(batch=kept, bad=(*rows.unreadable, *bad), bad_rows=bad_rows)

    def _describe(self, rows: InputBatch, failures: list[tuple[int, Mask, str]]) -> Iterator[BadField]:
        bound = self._bind(rows)
        for at, mask, reason in failures:
            source_at = bound[at]
            for row in np.flatnonzero(mask)[: 1 if self._action is BadRecords.FAIL else None].tolist():
                value = None if source_at is None else _plain(rows.batch.column(source_at)[row])
                yield BadField(
                    source=rows.place.source,
                    row=rows.place.row(row),
                    column=self._schema.field(at).name,
                    value=show_value(value),
                    reason=reason,
                    whole_row=_whole_row(rows.batch, row) if self._action is BadRecords.REDIRECT else None,
                )


def match_columns(found: pa.Schema, wanted: pa.Schema, *, source: str, zone: str) -> tuple[int | None, ...]:
    """Find each wanted column among those found; InvalidInputError for strangers, twins and types that never fit."""
    at_of: dict[str, int] = {}
    for at, name in enumerate(found.names):
        if not name:
            raise InvalidInputError(f"{source} has a column without a name, the {at + 1}. of its columns; name it.")
        if name.lower() in at_of:
            raise InvalidInputError(f"{source} has the column {name!r} twice (case does not count); rename one.")
        at_of[name.lower()] = at
    known = {name.lower() for name in wanted.names}
    strangers = [name for name in found.names if name.lower() not in known]
    if strangers:
        raise InvalidInputError(
            f"{source} has columns that the table does not have: {', '.join(strangers)}; "
            f"leave them out, or name them as the table does ({', '.join(wanted.names)}).",
            columns=tuple(strangers),
        )
    matched = tuple(at_of.get(name.lower()) for name in wanted.names)
    for field, place in zip(wanted, matched, strict=True):
        if place is not None:
            _check_type(found.field(place).type, field, source=source, zone=zone)
    return matched


def _check_type(found: pa.DataType, wanted: pa.Field, *, source: str, zone: str) -> None:
    try:
        convert_values(pa.nulls(0, found), wanted.type, zone=zone)
    except (NoConversionError, pa.ArrowNotImplementedError):
        raise InvalidInputError(
            f"{source}: column {wanted.name} is {found}, which cannot become {wanted.type}; convert it first.",
            column=wanted.name,
        ) from None


def describe_misfit(kind: pa.DataType) -> str:
    """Why a value does not become one of the type."""
    if pt.is_integer(kind):
        lowest, highest = whole_range(kind)
        return f"is no whole number from {lowest} to {highest}"
    if pt.is_decimal(kind):
        return f"is no decimal({kind.precision},{kind.scale}) without loss"
    if pt.is_floating(kind):
        return "is no number that a float can hold" if pt.is_float32(kind) else "is no number that a double can hold"
    if pt.is_boolean(kind):
        return "is neither true nor false"
    if pt.is_date(kind):
        return "is no date"
    if pt.is_timestamp(kind):
        return "is no timestamp of at most microseconds"
    if pt.is_binary(kind):
        return r"begins with \x and is not hexadecimal digits"
    return "is no valid UTF-8" if pt.is_string(kind) else f"is no {kind}"


def show_value(value: object) -> str:
    """A value as text: as it was written, where it was text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else str(value)


def _plain(value: pa.Scalar) -> Any:  # noqa: ANN401 - any value of Python's
    try:
        return value.as_py()
    except (ValueError, OverflowError):  # no UTF-8, or a moment that Python has no value for: nanoseconds, year 10000
        return _as_text(value)


def _as_text(value: pa.Scalar) -> str:
    if pt.is_string(value.type):
        return bytes(value.cast(pa.binary()).as_py()).decode(errors="backslashreplace")
    try:
        return str(value.cast(pa.string()).as_py())
    except pa.ArrowInvalid:  # so far away that there is no date for it either
        return f"{value.value} {value.type}"


def _whole_row(batch: pa.RecordBatch, row: int) -> str:
    plain = {name: _plain(column[row]) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    return json.dumps(plain, ensure_ascii=False, default=show_value)
