"""What is asked of a table, understood once: columns by name, and the filter in parts that need Spark or do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from packstone.errors import InvalidInputError
from packstone.pruning.expression import TRUE, And, Expression, Not, Or, Unknown, all_of, columns_of
from packstone.pruning.resolve import prepare_filter
from packstone.rewrite.merge.merge_spec import pack_schema
from packstone.scan.pack_filter import pack_filter
from packstone.scan.scan_plan import Split

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """How a scan is planned.

    ``explain`` also finds out what each part of the filter does, which takes a test of all bounds for each.
    """

    zone: str = "UTC"  # the session's, in which wall times of the filter become moments
    parallelism: int | None = None  # how many tasks run at once; None: as many as this machine has cores
    explain: bool = False


DEFAULT_OPTIONS: Final = ScanOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """Columns that come out, and the resolved filter; ``unpushed`` are its parts that need Spark."""

    schema: pa.Schema
    filter_schema: pa.Schema
    expression: Expression | None = None
    unpushed: tuple[Expression, ...] = ()

    @property
    def text(self) -> str:
        """The whole filter as SQL."""
        parts = (*((self.expression,) if self.expression is not None else ()), *self.unpushed)
        return str(all_of(parts)) if parts else ""

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The parts that are joined by AND."""
        if self.expression is None:
            return ()
        return self.expression.parts if isinstance(self.expression, And) else (self.expression,)

    def empty_split(self, *, is_tested: bool) -> Split:
        """A split of nothing yet; without the filter if none of its rows has to be tested."""
        schema = pack_schema(self.schema)
        if self.expression is None or not is_tested:
            return Split(schema=schema)
        packed = pack_filter(self.expression)
        return Split(schema=schema, filter=packed, filter_schema=pack_schema(self.filter_schema))


def read_request(
    table: pa.Schema, *, columns: Sequence[str] | None, where: str | Expression | None, zone: str
) -> ScanRequest:
    """Find the columns (by name without regard to case) and resolve the filter; errors name the column."""
    schema = _select_columns(table, columns)
    if where is None:
        return ScanRequest(schema=schema, filter_schema=pa.schema([]))
    expression = prepare_filter(_parse(where), table, zone=zone)
    parts = expression.parts if isinstance(expression, And) else (expression,)
    pushed = all_of(part for part in parts if not _needs_spark(part))
    return ScanRequest(
        schema=schema,
        filter_schema=pa.schema([_field(table, name) for name in columns_of(pushed)]),
        expression=None if pushed == TRUE else pushed,
        unpushed=tuple(part for part in parts if _needs_spark(part)),
    )


def _parse(where: str | Expression) -> Expression:
    if not isinstance(where, str):
        return where
    # The parser takes half a second to import, which only scans with a filter in SQL should pay.
    from packstone.pruning.parse_filter import parse_filter  # noqa: PLC0415

    return parse_filter(where)


def _select_columns(table: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    if columns is None:
        return table.remove_metadata()
    if isinstance(columns, str):
        raise InvalidInputError(f"Columns are a list of names, such as [{columns!r}].")
    fields = [_field(table, name) for name in columns]
    names = [field.name for field in fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"The column {twice} is asked for twice.", column=twice)
    return pa.schema(fields)


def _field(table: pa.Schema, name: str) -> pa.Field:
    found = [field for field in table if field.name == name] or [
        field for field in table if field.name.lower() == name.lower()
    ]
    if len(found) != 1:
        what = "several columns" if found else "no column"
        raise InvalidInputError(f"The table has {what} {name!r}; it has: {', '.join(table.names)}.", column=name)
    return found[0]


def _needs_spark(expression: Expression) -> bool:
    match expression:
        case Unknown():
            return True
        case And() | Or():
            return any(map(_needs_spark, expression.parts))
        case Not():
            return _needs_spark(expression.part)
    return False
