"""Convert batches of any types to rows of a table, and separate the bad rows, which do not fit.

Columns are matched by name, ignoring case; a column that the input lacks is null. A column that the table does not
have, or one whose type can never become the table's, is an error of the whole input. Everything else concerns single
rows: each column is cast as a whole, and only if that fails are the bad rows searched for. The caller chooses what
happens to bad rows.

Bad rows are kept as JSON lines::

    {"source":"in.csv","row":7,"column":"price","value":"12,5","reason":"is not a decimal(10,2) …","whole_row":{…}}

A row with several bad fields has a line for each. ``whole_row`` is present if rows are redirected.

Cost: nothing for columns that already have the table's type; otherwise one pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import InvalidInputError
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.load.convert_text import Converted, NoConversionError, not_null, whole_range
from packstone.rewrite.load.convert_values import convert_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.rewrite.load.convert_text import Mask


_IS_NULL = "is null, and the column is NOT NULL"
_SHOWN = 80  # characters of a bad value in a message


class BadRecords(StrEnum):
    """What a load does with a bad row; the names are CarbonData's."""

    FAIL = "FAIL"  # the load fails
    FORCE = "FORCE"  # bad fields become null and the row is loaded; it is skipped where null is not allowed
    REDIRECT = "REDIRECT"  # the row is skipped, and kept whole beside the table
    IGNORE = "IGNORE"  # the row is skipped; its bad fields are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class BadField:
    """One reason why a row is bad; ``column`` is empty if the whole row cannot be read."""

    source: str
    row: int  # number in the source, from 1
    column: str
    value: str
    reason: str
    whole_row: str | None = None  # JSON

    def __str__(self) -> str:
        value = self.value if len(self.value) <= _SHOWN else f"{self.value[:_SHOWN]}…"
        field = f", column {self.column}" if self.column else ""
        return f"{self.source}, row {self.row}{field}: {value!r} {self.reason}"

    def to_json(self) -> str:
        """One line of JSON, without the line break."""
        plain: dict[str, Any] = {
            "source": self.source,
            "row": self.row,
            "column": self.column,
            "value": self.value,
            "reason": self.reason,
        }
        if self.whole_row is not None:
            plain["whole_row"] = json.loads(self.whole_row)
        return json.dumps(plain, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the rows of a batch come from, so that a bad row can be reported: a source and row numbers."""

    source: str
    first_row: int = 1
    rows: tuple[int, ...] | None = None  # each row's distance from the first, if some were left out
    rows_before: Callable[[], int] | None = None  # called only if a row is bad: it may have to count lines

    def row(self, at: int) -> int:
        """The number in the source of a row of the batch."""
        before = 0 if self.rows_before is None else self.rows_before()
        return before + self.first_row + (at if self.rows is None else self.rows[at])


def bad_record_error(field: BadField) -> InvalidInputError:
    """The error of a load that accepts no bad rows."""
    return InvalidInputError(
        f"{field}; correct the input, or choose another action than FAIL for bad records.",
        file=field.source,
        row=field.row,
        column=field.column,
        value=field.value,
        reason=field.reason,
    )


def to_json_lines(fields: tuple[BadField, ...]) -> bytes:
    """All fields as JSON lines."""
    return "".join(f"{field.to_json()}\n" for field in fields).encode()


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
    """Converts batches to one table's schema; keeps the column mapping of the last input's schema."""

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
        """For each column of the table, the index of the input's column; None if the input lacks it."""
        schema = rows.batch.schema
        if self._bound is None or not (schema is self._bound[0] or schema.equals(self._bound[0])):
            self._bound = schema, match_columns(schema, self._schema, source=rows.place.source, zone=self._zone)
        return self._bound[1]

    def _column(self, batch: pa.RecordBatch, field: pa.Field, at: int | None) -> Converted:
        if at is None:
            return Converted(values=pa.nulls(batch.num_rows, field.type))
        return convert_values(batch.column(at), field.type, zone=self._zone)

    def _failures(self, columns: list[Converted]) -> Iterator[tuple[int, Mask, str]]:
        """For each column with bad rows: its index, the mask of bad rows, and the reason."""
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
    """Find each wanted column in the input; InvalidInputError for unexpected or duplicate columns and wrong types."""
    at_of: dict[str, int] = {}
    for at, name in enumerate(found.names):
        if not name:
            raise InvalidInputError(f"{source}: column number {at + 1} has no name; name it.")
        if name.lower() in at_of:
            raise InvalidInputError(f"{source} has the column {name!r} twice (case does not count); rename one.")
        at_of[name.lower()] = at
    known = {name.lower() for name in wanted.names}
    unexpected = [name for name in found.names if name.lower() not in known]
    if unexpected:
        raise InvalidInputError(
            f"{source} has columns that the table does not have: {', '.join(unexpected)}; "
            f"leave them out, or name them as the table does ({', '.join(wanted.names)}).",
            columns=tuple(unexpected),
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
    """The reason why a value cannot be converted to the type."""
    if pt.is_integer(kind):
        lowest, highest = whole_range(kind)
        return f"is not a whole number from {lowest} to {highest}"
    if pt.is_decimal(kind):
        return f"is not a decimal({kind.precision},{kind.scale}) without loss"
    if pt.is_floating(kind):
        return f"is not a number that a {'float' if pt.is_float32(kind) else 'double'} can hold"
    if pt.is_boolean(kind):
        return "is neither true nor false"
    if pt.is_date(kind):
        return "is not a date"
    if pt.is_timestamp(kind):
        return "is not a timestamp with at most 6 fractional digits"
    if pt.is_binary(kind):
        return r"begins with \x and is not hexadecimal digits"
    return "is not valid UTF-8" if pt.is_string(kind) else f"is not a {kind}"


def show_value(value: object) -> str:
    """A value as text; text is unchanged, null is empty."""
    if value is None:
        return ""
    return value if isinstance(value, str) else str(value)


def _plain(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (ValueError, OverflowError):  # invalid UTF-8, or a time that Python cannot hold: nanoseconds, year 10000
        return _as_text(value)


def _as_text(value: pa.Scalar) -> str:
    if pt.is_string(value.type):
        return bytes(value.cast(pa.binary()).as_py()).decode(errors="backslashreplace")
    try:
        return str(value.cast(pa.string()).as_py())
    except pa.ArrowInvalid:  # out of the range of dates, too
        return f"{value.value} {value.type}"


def _whole_row(batch: pa.RecordBatch, row: int) -> str:
    plain = {name: _plain(column[row]) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    return json.dumps(plain, ensure_ascii=False, default=show_value)
