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

import decimal
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from packstone.errors import InvalidInputError
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.load.convert_text import (
    Converted,
    NoConversionError,
    cast_each,
    convert_text,
    keep_good,
    not_null,
    to_mask,
    to_utc,
    to_wall_clock,
    whole_range,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from packstone.rewrite.load.convert_text import Mask

    ConvertChild: TypeAlias = Callable[[pa.Array, pa.DataType], Converted]


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


# ---- values ----

_LONG_DIGITS: Final = 20  # digits of the largest unsigned long
_DAY_MICROS: Final = 86_400_000_000


def convert_values(array: pa.Array, target: pa.DataType, *, zone: str) -> Converted:
    """Convert an array of any type to one of a table's types, and report which values do not fit.

    A value converts if nothing is lost: a long that fits an int, a double that is a whole number, a timestamp in
    nanoseconds that is whole microseconds. Only doubles to floats are rounded, as is every decimal fraction that is
    read as a double. A pair of types that never converts (a list and a number) raises NoConversionError. In lists,
    maps and structs the elements are converted, and a bad element makes its row bad.
    """
    kind = array.type
    if kind == target:
        return _check_same(array)
    if pt.is_null(kind):
        return Converted(values=pa.nulls(len(array), target))
    if pt.is_dictionary(kind):
        return convert_values(_decode(array), target, zone=zone)
    if pt.is_run_end_encoded(kind):
        return convert_values(pc.run_end_decode(array), target, zone=zone)
    if pt.is_nested(kind) or pt.is_nested(target):
        return _convert_nested(array, target, zone=zone)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        text = array.cast(pa.string())
        return _check_same(text) if pt.is_string(target) else convert_text(text, target, zone=zone)
    return _convert_plain(array, target, zone=zone)


def _check_same(array: pa.Array) -> Converted:
    """Check values that already have the right type; they may still be invalid, and Arrow does not check."""
    if pt.is_decimal(array.type):
        return _check_digits(array)
    if not pt.is_string(array.type):
        return Converted(values=array)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return cast_each(array.cast(pa.binary()), lambda part: part.cast(pa.string()))
    return Converted(values=array)


def _check_digits(array: pa.Array) -> Converted:
    """Find numbers with more digits than their type allows: DuckDB exports a hugeint of 39 digits as decimal(38)."""
    kind = array.type
    most = decimal.Decimal((0, (9,) * kind.precision, -kind.scale))
    bounds = pc.min_max(array).as_py()
    least = most.copy_negate()  # a plain minus would round it to the 28 digits of Python's context
    if bounds["min"] is None or (least <= bounds["min"] and bounds["max"] <= most):
        return Converted(values=array)
    lowest, highest = pa.scalar(least, kind), pa.scalar(most, kind)
    good = to_mask(pc.and_(pc.greater_equal(array, lowest), pc.less_equal(array, highest)))
    return Converted.of(keep_good(array, good), not_null(array) & ~good)


def _decode(array: pa.DictionaryArray) -> pa.Array:
    """Decode a dictionary array; PyArrow's ``take`` lacks string views, which Polars uses for categories."""
    values = array.dictionary
    if pt.is_string_view(values.type) or pt.is_binary_view(values.type):
        values = values.cast(pa.string() if pt.is_string_view(values.type) else pa.binary())
    return values.take(array.indices)


def _convert_nested(array: pa.Array, target: pa.DataType, *, zone: str) -> Converted:
    def child(values: pa.Array, wanted: pa.DataType) -> Converted:
        return convert_values(values, wanted, zone=zone)

    if pt.is_map(target):
        return convert_map(array, target, child)
    if pt.is_list(target):
        return convert_list(array, target, child)
    if pt.is_struct(target):
        return convert_struct(array, target, child)
    raise NoConversionError


def _convert_plain(array: pa.Array, target: pa.DataType, *, zone: str) -> Converted:
    kind = array.type
    if pt.is_string(target):
        return _to_text(array)
    if pt.is_binary(target) and _is_bytes(kind):
        return Converted(values=array.cast(target))
    if pt.is_integer(target) and (_is_number(kind) or pt.is_decimal(kind)):
        return _to_whole(array, target)
    if pt.is_floating(target) and (_is_number(kind) or pt.is_decimal(kind)):
        return _to_floats(array, target)
    if pt.is_decimal(target) and (_is_number(kind) or pt.is_decimal(kind)):
        return _to_decimals(array, target)
    if pt.is_date32(target) and (pt.is_timestamp(kind) or pt.is_date(kind)):
        return _to_dates(array, zone=zone)
    if pt.is_timestamp(target) and (pt.is_timestamp(kind) or pt.is_date(kind)):
        return _to_moments(array, target, zone=zone)
    raise NoConversionError


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind)
    )


def _to_text(array: pa.Array) -> Converted:
    kind = array.type
    if _is_bytes(kind):
        return cast_each(array.cast(pa.binary()), lambda part: part.cast(pa.string()))
    if pt.is_boolean(kind) or _is_number(kind) or pt.is_decimal(kind) or pt.is_date32(kind):
        return Converted(values=array.cast(pa.string()))
    raise NoConversionError


def _to_whole(array: pa.Array, target: pa.DataType) -> Converted:
    try:
        return Converted(values=array.cast(target))
    except pa.ArrowInvalid:
        pass
    if pt.is_decimal(array.type):
        return cast_each(array, lambda part: part.cast(target))
    lowest, highest = whole_range(target)
    values = array.cast(pa.float64()) if pt.is_float16(array.type) else array
    if pt.is_floating(values.type):
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        # Compared as doubles: the highest long is not a double, but the number after it is.
        good = (numbers >= float(lowest)) & (numbers < float(highest + 1)) & (numbers == np.floor(numbers))
    else:
        good = _within(values, lowest, highest)
    good &= not_null(array)
    return Converted.of(keep_good(values, good).cast(target), not_null(array) & ~good)


def _within(values: pa.Array, lowest: int, highest: int) -> Mask:
    """The mask of values in the range, compared in the values' own type, which may not hold the bounds."""
    kind = values.type
    least = 0 if pt.is_unsigned_integer(kind) else max(lowest, whole_range(kind)[0])
    most = min(highest, (1 << kind.bit_width) - 1 if pt.is_unsigned_integer(kind) else whole_range(kind)[1])
    bounds = pa.array([least, most], kind)
    return to_mask(pc.and_(pc.greater_equal(values, bounds[0]), pc.less_equal(values, bounds[1])))


def _to_floats(array: pa.Array, target: pa.DataType) -> Converted:
    kind = array.type
    if pt.is_decimal(kind):
        return Converted(values=array.cast(target))
    values = array.cast(target, safe=False)
    if pt.is_floating(kind):
        bad = to_mask(pc.is_inf(values)) & ~to_mask(pc.is_inf(array))
    else:
        exact = array.cast(pa.decimal128(_LONG_DIGITS, 0))
        bad = to_mask(pc.not_equal(values.cast(pa.decimal128(_LONG_DIGITS, 0)), exact))
    return Converted.of(keep_good(values, ~bad) if bad.any() else values, bad)


def _to_decimals(array: pa.Array, target: pa.DataType) -> Converted:
    kind = array.type
    if pt.is_integer(kind):
        array = array.cast(pa.decimal128(_LONG_DIGITS, 0))
    cast = cast_each(array, lambda part: part.cast(target))
    if not pt.is_floating(kind):
        return cast
    # PyArrow rounds: a double is kept if it is the double nearest to its decimal.
    bad = to_mask(pc.not_equal(cast.values.cast(kind), array))
    bad |= cast.bad if cast.bad is not None else False
    return Converted.of(keep_good(cast.values, ~bad) if bad.any() else cast.values, bad)


def _to_micros(array: pa.Array) -> Converted:
    """A timestamp of any unit, or a date, in microseconds; finer values and values out of range are bad."""
    if pt.is_date(array.type):
        array = array.cast(pa.date32()).cast(pa.timestamp("s"))
    return cast_each(array, lambda part: part.cast(pa.timestamp("us", part.type.tz)))


def _to_moments(array: pa.Array, target: pa.DataType, *, zone: str) -> Converted:
    micros = _to_micros(array)
    values = micros.values
    if (values.type.tz is None) == (target.tz is None):
        return Converted(values=values.view(target), bad=micros.bad)
    if target.tz is None:
        return Converted(values=to_wall_clock(values, zone), bad=micros.bad)
    missing = ~not_null(values)
    local = values.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return Converted(values=to_column(to_utc(local, zone), missing=missing).view(target), bad=micros.bad)


def _to_dates(array: pa.Array, *, zone: str) -> Converted:
    """Convert timestamps to dates; a timestamp is a date only if it is midnight in the session's zone."""
    if pt.is_date(array.type):
        return Converted(values=array.cast(pa.date32()))
    micros = _to_micros(array)
    local = micros.values if array.type.tz is None else to_wall_clock(micros.values, zone)
    numbers = local.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    good = (numbers % _DAY_MICROS == 0) & not_null(local)
    days = to_column((numbers // _DAY_MICROS).astype(np.int32), missing=~good).view(pa.date32())
    return Converted.of(days, not_null(array) & ~good)


def convert_list(array: pa.Array, target: pa.DataType, convert: ConvertChild) -> Converted:
    """Convert any kind of list to a list."""
    kind = array.type
    if not (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)):
        raise NoConversionError
    array = array.cast(pa.list_(kind.value_type))
    offsets, parents = _layout(array)
    element = convert(array.flatten(), target.value_type)
    bad = _with_nulls(element, nullable=target.value_field.nullable)
    values = pa.ListArray.from_arrays(offsets, element.values, type=target, mask=array.is_null())
    return _whole(array, values, parents[bad])


def convert_map(array: pa.Array, target: pa.DataType, convert: ConvertChild) -> Converted:
    """Convert a map, or a list of pairs, to a map."""
    kind = array.type
    if pt.is_large_list(kind):
        array, kind = array.cast(pa.list_(kind.value_type)), pa.list_(kind.value_type)
    if not pt.is_map(kind) and not (pt.is_list(kind) and _is_pair(kind.value_type)):
        raise NoConversionError
    offsets, parents = _layout(array)
    if pt.is_map(kind):
        # PyArrow flattens lists, not maps: take the elements of the rows that are not null.
        first = array.offsets.to_numpy()[:-1] - offsets.to_numpy()[:-1]
        chosen = to_column(first[parents] + np.arange(len(parents)))
        keys, items = array.keys.take(chosen), array.items.take(chosen)
    else:
        keys, items = array.flatten().flatten()
    key, item = convert(keys, target.key_type), convert(items, target.item_type)
    bad = _with_nulls(key, nullable=False) | _with_nulls(item, nullable=target.item_field.nullable)
    key_values, item_values = key.values, item.values
    if len(bad) and bad.all():  # no element is left, so every row is empty, null or bad
        offsets, key_values, item_values = to_column(np.zeros_like(offsets)), key_values[:0], item_values[:0]
    elif key_values.null_count:  # Arrow refuses a null key even in a row that is left out below
        key_values = pc.coalesce(key_values, pc.drop_null(key_values)[0])
    values = pa.MapArray.from_arrays(offsets, key_values, item_values, type=target, mask=array.is_null())
    return _whole(array, values, parents[bad])


def convert_struct(array: pa.Array, target: pa.DataType, convert: ConvertChild) -> Converted:
    """Convert a struct to a struct, matching fields by name; a field that the input lacks is null."""
    kind = array.type
    if not pt.is_struct(kind):
        raise NoConversionError
    at_of = {kind.field(at).name.lower(): at for at in range(kind.num_fields)}
    wanted = {target.field(at).name.lower() for at in range(target.num_fields)}
    if len(at_of) < kind.num_fields or not at_of.keys() <= wanted:
        raise NoConversionError
    children, present = array.flatten(), not_null(array)
    bad = np.zeros(len(array), dtype=bool)
    values = []
    for at in range(target.num_fields):
        field = target.field(at)
        found = at_of.get(field.name.lower())
        source = pa.nulls(len(array)) if found is None else children[found]
        child = convert(source, field.type)
        bad |= _with_nulls(child, nullable=field.nullable) & present
        values.append(child.values)
    made = pa.StructArray.from_arrays(values, fields=list(target), mask=array.is_null())
    return _whole(array, made, np.flatnonzero(bad))


def _is_pair(kind: pa.DataType) -> bool:
    return bool(pt.is_struct(kind)) and kind.num_fields == 2  # a key and a value


def _layout(array: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Offsets without gaps, and the row of each element."""
    lengths = np.where(not_null(array), np.diff(array.offsets.to_numpy()), 0)  # a null row may have elements
    offsets = np.zeros(len(array) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return to_column(offsets), np.repeat(np.arange(len(array)), lengths)


def _with_nulls(child: Converted, *, nullable: bool) -> Mask:
    bad = np.zeros(len(child.values), dtype=bool) if child.bad is None else child.bad
    return bad if nullable else bad | ~not_null(child.values)


def _whole(array: pa.Array, values: pa.Array, bad_rows: np.ndarray) -> Converted:
    bad = np.zeros(len(array), dtype=bool)
    bad[bad_rows] = True
    return Converted.of(keep_good(values, ~bad) if bad.any() else values, bad)
