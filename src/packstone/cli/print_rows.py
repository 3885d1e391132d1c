r"""Rows as CSV and as JSON, batch by batch, so that an answer of any length needs little memory.

CSV: a header, commas, null as nothing and an empty text as ``""``, bytes as ``\x`` and hexadecimal digits, so that
`segments load` reads all of them as they were. JSON: an array for each row, in the order of ``columns``. Times are ISO
8601, decimals and what JSON has no number for (NaN) are texts, bytes hexadecimal digits, a map is an array of pairs.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from packstone.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa

_QUOTED = frozenset(',"\r\n')


def print_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, echo: Callable[[str], None]) -> None:
    """Print rows as CSV."""
    echo(",".join(_field(name) for name in schema.names))
    for batch in batches:
        columns = [[_csv_value(value) for value in column.to_pylist()] for column in batch.columns]
        for row in zip(*columns, strict=True):
            echo(",".join(_field(value) for value in row))


def print_json(
    head: Mapping[str, Any], schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, echo: Callable[[str], None]
) -> None:
    """Print one JSON object, a row on a line."""
    columns = [{"name": field.name, "type": type_name(field)} for field in schema]
    rows = _rows(batches)
    first = next(rows, None)  # what fails, mostly fails before the first row; then nothing is printed yet
    before = json.dumps({**head, "columns": columns}, indent=2).removesuffix("\n}")
    if first is None:
        echo(f'{before},\n  "rows": [],\n  "row_count": 0\n}}')
        return
    echo(f'{before},\n  "rows": [')
    count, line = 1, json.dumps(first)
    for row in rows:
        echo(f"    {line},")
        count, line = count + 1, json.dumps(row)
    echo(f'    {line}\n  ],\n  "row_count": {count}\n}}')


def type_name(field: pa.Field) -> str:
    """The type of a column in Spark's words, or Arrow's where Spark has none."""
    import pyarrow as pa

    from packstone.tables.segments.column_types import columns_from_arrow

    try:
        return columns_from_arrow(pa.schema([field]))[0].type_text
    except InvalidInputError:
        return str(field.type)


def plain_value(value: Any) -> Any:  # noqa: ANN401 - any value of a table
    """A value as JSON has it."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return value if math.isfinite(value) else _float_text(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64.b16encode(value).decode()
        case datetime():
            return iso_moment(value)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case dict():
            return {name: plain_value(part) for name, part in value.items()}
        case list() | tuple():
            return [plain_value(part) for part in value]
        case _:
            return str(value)


def iso_moment(value: datetime) -> str:
    """A moment in UTC with its offset, a wall time without one."""
    return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()


def _csv_value(value: Any) -> Any:  # noqa: ANN401 - any value of a table
    return f"\\x{value.hex().upper()}" if isinstance(value, bytes) else plain_value(value)


def _float_text(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[list[Any]]:
    for batch in batches:
        columns = [[plain_value(value) for value in column.to_pylist()] for column in batch.columns]
        yield from map(list, zip(*columns, strict=True))


def _field(value: Any) -> str:  # noqa: ANN401 - a value as JSON has it
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else json.dumps(value)
    needs_quotes = not text or not _QUOTED.isdisjoint(text) or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text
