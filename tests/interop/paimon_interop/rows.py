"""Rows as plain JSON values, the same from every reader, so that they can be compared across processes.

A row is a list in column order. JSON has fewer types than a table, so a value takes the form of its column's type:
decimals, dates and times are text, timestamps text with as many digits of a second as they need, binaries hexadecimal,
floats the shortest text that gives the same 64 bits. Rows are sorted by their JSON text: a table has no order.
"""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def rows_of(table: pa.Table) -> list[list[Any]]:
    """The rows of an Arrow table, sorted."""
    columns = [plain_column(column) for column in table.columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def plain_column(column: pa.ChunkedArray) -> list[Any]:
    """One column as JSON values."""
    if pa.types.is_timestamp(column.type):
        scale = NANOS[column.type.unit]
        return [None if at is None else timestamp_text(at * scale) for at in column.cast(pa.int64()).to_pylist()]
    return [plain(value) for value in column.to_pylist()]


def plain(value: Any) -> Any:
    """One value as JSON."""
    match value:
        case bytes():
            return value.hex()
        case float():
            return repr(value)
        case Decimal():
            return f"{value:f}"
        case dt.date() | dt.time():
            return str(value)
        case dict():
            return {name: plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case _:
            return value


def timestamp_text(nanos: int) -> str:
    """Nanoseconds since 1970 as text; a table's precision does not show, only its value."""
    seconds, rest = divmod(nanos, 10**9)
    text = (EPOCH + dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{rest:09d}".rstrip("0") if rest else "")


def arrow_table(rows: list[list[Any]], schema: pa.Schema) -> pa.Table:
    """Rows of JSON values as an Arrow table of this schema."""
    columns = [
        pa.array([typed(row[at], field.type) for row in rows], type=field.type) for at, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def typed(value: Any, arrow_type: pa.DataType) -> Any:
    """One JSON value as what Arrow takes for this type."""
    if value is None:
        return None
    if pa.types.is_decimal(arrow_type):
        return Decimal(value)
    if pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type):
        return bytes.fromhex(value)
    if pa.types.is_date(arrow_type):
        return dt.date.fromisoformat(value)
    if pa.types.is_time(arrow_type):
        return dt.time.fromisoformat(value)
    if pa.types.is_timestamp(arrow_type):
        return timestamp_nanos(value) // NANOS[arrow_type.unit]
    if pa.types.is_floating(arrow_type):
        return float(value)
    if pa.types.is_map(arrow_type):
        return [tuple(pair) for pair in value]
    return value


def timestamp_nanos(text: str) -> int:
    """The other way of ``timestamp_text``."""
    whole, _, rest = text.partition(".")
    seconds = dt.datetime.fromisoformat(whole).replace(tzinfo=dt.UTC) - EPOCH
    return (seconds.days * 86_400 + seconds.seconds) * 10**9 + int(rest.ljust(9, "0") or 0)
