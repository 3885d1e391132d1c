"""A statement answered from a scan, batch by batch: a limit stops it, an order keeps the best rows, totals add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packstone.errors import InvalidInputError
from packstone.service.query_statement import Statement, parse_statement
from packstone.service.query_totals import Totals, find_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from packstone.service.paimon_table import PaimonTable
    from packstone.service.query_statement import OrderBy
    from packstone.service.segment_status import Moment
    from packstone.service.segment_table import SegmentTable
    from packstone.service.table_scan import Scan, ScanReport

_SORT_AT_ONCE = 1 << 18  # rows that are gathered before the best of them are picked


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """A question that was understood; nothing but the index was read yet."""

    statement: Statement
    scan: Scan
    schema: pa.Schema  # of the answer

    def explain(self) -> ScanReport:
        """What would be read, and what is left out."""
        return self.scan.explain()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The answer."""
        if self.statement.is_total:
            return self._total()
        rows = self.scan.to_batches()
        if self.statement.order:
            rows = _first_rows(rows, self.scan.schema, self.statement)
        if self.statement.limit is not None:
            rows = _limited(rows, self.statement.limit)
        return (self._project(batch) for batch in rows)

    def _total(self) -> Iterator[pa.RecordBatch]:
        totals = Totals(self.statement.outputs, self.scan.schema)
        if self.statement.limit == 0:
            return
        if not self.scan.schema.names:
            totals.add_rows(self.scan.count())
        else:
            for batch in self.scan.to_batches():
                totals.add(batch)
        yield totals.result()

    def _project(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.statement.outputs:
            return batch
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        at = [find_column(batch.schema, output.column or "") for output in self.statement.outputs]
        return pa.RecordBatch.from_arrays([batch.column(one) for one in at], schema=self.schema)


def query_table(
    table: SegmentTable | PaimonTable,
    sql: str,
    *,
    version: int | None = None,
    as_of: Moment | None = None,
    timezone: str | None = None,
) -> TableQuery:
    """Understand a statement about a table at one version."""
    statement = parse_statement(sql)
    scan = table.scan(_needed(statement), statement.where, version=version, as_of=as_of, timezone=timezone)
    return TableQuery(statement=statement, scan=scan, schema=_answer_schema(statement, scan.schema))


def _needed(statement: Statement) -> tuple[str, ...] | None:
    if not statement.outputs:
        return None
    names = [output.column for output in statement.outputs if output.column is not None]
    names += [key.column for key in statement.order]
    return tuple({name.lower(): name for name in reversed(names)}.values())[::-1]


def _answer_schema(statement: Statement, schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if statement.is_total:
        return Totals(statement.outputs, schema).schema
    for key in statement.order:
        kind = schema.field(find_column(schema, key.column)).type
        if pa.types.is_nested(kind):
            raise InvalidInputError(f"The column {key.column!r} is {kind}; rows cannot be ordered by it.")
    if not statement.outputs:
        return schema
    return pa.schema(
        [
            pa.field(output.name, schema.field(find_column(schema, output.column or "")).type)
            for output in statement.outputs
        ]
    )


def _limited(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches if left else ():
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def _first_rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema, statement: Statement) -> Iterator[pa.RecordBatch]:
    """The first rows by the order; no more than the limit and a few batches are ever in memory."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    limit = statement.limit or 0
    best, fresh, rows = pa.Table.from_batches([], schema=schema), [], 0
    for batch in batches if limit else ():
        fresh.append(batch)
        rows += batch.num_rows
        if rows >= max(_SORT_AT_ONCE, limit):
            best, fresh, rows = _best(best, fresh, statement), [], 0
    best = _best(best, fresh, statement)
    yield from best.combine_chunks().to_batches()


def _best(best: pa.Table, fresh: Sequence[pa.RecordBatch], statement: Statement) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    both = pa.concat_tables([best, pa.Table.from_batches(fresh, schema=best.schema)])
    keys = {f"{at}": column for at, column in enumerate(_sort_columns(both, statement.order))}
    directions = [
        one for key in statement.order for one in ("ascending", "descending" if key.descending else "ascending")
    ]
    order = list(zip(keys, directions, strict=True))
    picked = pc.sort_indices(pa.table(keys), sort_keys=order)
    return both.take(picked[: statement.limit])


def _sort_columns(rows: pa.Table, order: Sequence[OrderBy]) -> Iterator[Any]:
    """For each key what comes before its value (null, number, NaN, in the order asked for), and the value."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    for key in order:
        column = rows.column(find_column(rows.schema, key.column))
        null, nan = (0 if key.nulls_first else 3), (1 if key.descending else 2)
        value = 2 if key.descending else 1
        rank = pa.chunked_array([pa.array([value] * rows.num_rows, pa.int8())])
        if pa.types.is_floating(column.type):
            rank = pc.if_else(pc.fill_null(pc.is_nan(column), fill_value=False), pa.scalar(nan, pa.int8()), rank)
        yield pc.if_else(pc.is_null(column), pa.scalar(null, pa.int8()), rank)
        yield column
