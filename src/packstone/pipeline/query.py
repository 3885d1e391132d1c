"""Answer a SQL statement from a scan, batch by batch: rows with a limit or an order, or totals.

A limit stops the scan; an order keeps only the first rows in memory. Totals are over all rows, as in Spark; whole
numbers and decimals do not overflow on the way:

========  ============================  =================================================
total     type                          of no values
========  ============================  =================================================
count     long                          0
min, max  the column's                  null; NaN is the greatest number
sum       long, double, decimal(p+10)   null; a sum that the type cannot hold is an error
========  ============================  =================================================
"""

from __future__ import annotations

import decimal
import logging
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NoReturn

from packstone.errors import InvalidInputError
from packstone.query.filter.parse_filter import shorten, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from sqlglot import exp

    from packstone.model.times import Moment
    from packstone.pipeline.scan import Scan, ScanReport
    from packstone.pipeline.table import Table

_SORT_AT_ONCE = 1 << 18  # rows to collect before the first of them by the order are picked


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """A parsed statement with its scan; only the index has been read so far."""

    statement: Statement
    scan: Scan
    schema: pa.Schema  # of the answer

    def explain(self) -> ScanReport:
        """Report what would be read, and what is left out."""
        return self.scan.explain()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the answer."""
        if self.statement.is_total:
            return self._total()
        rows = self.scan.to_batches()
        if self.statement.order:
            rows = _first_rows(rows, self.scan.schema, self.statement)
        if self.statement.limit is not None:
            rows = _limited(rows, self.statement.limit)
        return (self._project(batch) for batch in rows)

    def _total(self) -> Iterator[pa.RecordBatch]:
        totals = QueryTotals(self.statement.outputs, self.scan.schema)
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
        import pyarrow as pa

        at = [find_column(batch.schema, output.column or "") for output in self.statement.outputs]
        return pa.RecordBatch.from_arrays([batch.column(one) for one in at], schema=self.schema)


def query_table(
    table: Table,
    sql: str,
    *,
    version: int | None = None,
    as_of: Moment | None = None,
    timezone: str | None = None,
) -> TableQuery:
    """Parse a statement about a table and plan its scan at one version."""
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
    import pyarrow as pa

    if statement.is_total:
        return QueryTotals(statement.outputs, schema).schema
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
    """Yield the first rows by the order; at most the limit and a few batches are ever in memory."""
    import pyarrow as pa

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
    import pyarrow as pa
    import pyarrow.compute as pc

    both = pa.concat_tables([best, pa.Table.from_batches(fresh, schema=best.schema)])
    keys = {f"{at}": column for at, column in enumerate(_sort_columns(both, statement.order))}
    directions = [
        one for key in statement.order for one in ("ascending", "descending" if key.descending else "ascending")
    ]
    order = list(zip(keys, directions, strict=True))
    picked = pc.sort_indices(pa.table(keys), sort_keys=order)
    return both.take(picked[: statement.limit])


def _sort_columns(rows: pa.Table, order: Sequence[OrderBy]) -> Iterator[Any]:
    """Yield two sort columns for each key: a rank (null, number, NaN, in the requested order), then the value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for key in order:
        column = rows.column(find_column(rows.schema, key.column))
        null, nan = (0 if key.nulls_first else 3), (1 if key.descending else 2)
        value = 2 if key.descending else 1
        rank = pa.chunked_array([pa.array([value] * rows.num_rows, pa.int8())])
        if pa.types.is_floating(column.type):
            rank = pc.if_else(pc.fill_null(pc.is_nan(column), fill_value=False), pa.scalar(nan, pa.int8()), rank)
        yield pc.if_else(pc.is_null(column), pa.scalar(null, pa.int8()), rank)
        yield column


_MAX_PRECISION: Final = 38
_EXTRA_DIGITS: Final = 10  # added to the precision of a sum of decimals, as in Spark
_LONG_BITS: Final = 63
_EXACT: Final = decimal.Context(prec=100)  # more digits than a sum of any number of 38-digit decimals can have


class QueryTotals:
    """Adds up totals batch by batch; ``schema`` is the schema of the one row of the result."""

    def __init__(self, outputs: Sequence[Output], schema: pa.Schema) -> None:
        import pyarrow as pa

        self._outputs = [(output, _place(schema, output)) for output in outputs]
        self.schema = pa.schema([pa.field(output.name, _type(output, schema, at)) for output, at in self._outputs])
        self._found: list[Any] = [0 if output.total is Total.COUNT else None for output in outputs]

    def add_rows(self, count: int) -> None:
        """Count rows without reading a column, for statements that only count."""
        self._found = [found + count for found in self._found]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add one batch."""
        for number, (output, at) in enumerate(self._outputs):
            before = self._found[number]
            if at is None:
                self._found[number] = before + batch.num_rows
            elif output.total is Total.COUNT:
                self._found[number] = before + len(batch) - batch.column(at).null_count
            elif output.total is Total.SUM:
                self._found[number] = _plus(before, _sum(batch.column(at)))
            else:
                self._found[number] = _extreme(before, batch.column(at), is_max=output.total is Total.MAX)

    def result(self) -> pa.RecordBatch:
        """The one row of the answer."""
        import pyarrow as pa

        arrays = []
        for found, field in zip(self._found, self.schema, strict=True):
            if isinstance(found, pa.Scalar):
                arrays.append(pa.repeat(found, 1))
            else:
                _check_fits(found, field)
                arrays.append(pa.array([found], field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def find_column(schema: pa.Schema, name: str) -> int:
    """The index of a column; names are case-insensitive, as in Spark."""
    for at, known in enumerate(schema.names):
        if known.lower() == name.lower():
            return at
    raise InvalidInputError(f"The table has no column {name!r}.", column=name)


def _place(schema: pa.Schema, output: Output) -> int | None:
    return None if output.column is None else find_column(schema, output.column)


def _type(output: Output, schema: pa.Schema, at: int | None) -> pa.DataType:
    import pyarrow as pa

    if output.total is Total.COUNT or at is None:
        return pa.int64()
    kind = schema.field(at).type
    if output.total is not Total.SUM:
        if pa.types.is_nested(kind):
            raise InvalidInputError(f"{output.total} of the column {output.column!r}, which is {kind}, has no meaning.")
        return kind
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(kind.precision + _EXTRA_DIGITS, _MAX_PRECISION), kind.scale)
    raise InvalidInputError(f"The column {output.column!r} is {kind}; only numbers can be summed.")


def _plus(before: Any, more: Any) -> Any:
    if before is None or more is None:
        return more if before is None else before
    return _EXACT.add(before, more) if isinstance(more, decimal.Decimal) else before + more


def _sum(column: pa.Array) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = column.drop_null()
    if not len(values):
        return None
    if pa.types.is_int64(values.type):
        # Sum the two halves of the 64 bits separately: the sum of a batch of longs may not fit in a long.
        numbers = values.to_numpy()
        return (int((numbers >> 32).sum()) << 32) + int((numbers & 0xFFFFFFFF).sum())
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.decimal256(values.type.precision + _EXTRA_DIGITS, values.type.scale))
    elif pa.types.is_floating(values.type):
        values = values.cast(pa.float64())
    return pc.sum(values).as_py()


def _extreme(before: pa.Scalar | None, column: pa.Array, *, is_max: bool) -> pa.Scalar | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    values = column.drop_null()
    if before is not None:
        values = pa.concat_arrays([values, pa.repeat(before, 1)])
    if not len(values):
        return None
    if pa.types.is_floating(values.type):
        numbers = values.filter(pc.invert(pc.is_nan(values)))
        if len(numbers) < len(values) and (is_max or not len(numbers)):
            return pa.scalar(float("nan"), values.type)
        values = numbers
    return pc.max(values) if is_max else pc.min(values)


def _check_fits(found: Any, field: pa.Field) -> None:
    import pyarrow as pa

    if isinstance(found, int):
        fits = -(1 << _LONG_BITS) <= found < 1 << _LONG_BITS
    elif isinstance(found, decimal.Decimal) and pa.types.is_decimal(field.type):
        fits = found.adjusted() < field.type.precision - field.type.scale
    else:
        fits = True
    if not fits:
        raise InvalidInputError(f"{field.name} is {found}, which a {field.type} cannot hold.")


# ---- statement ----
# The SQL that ``packstone query`` understands: one table, a list of columns or of totals, a filter, an order, a limit.
#
# ::
#
#     SELECT *  |  column [AS name], …  |  count(*), count(c), min(c), max(c), sum(c) [AS name], …
#     FROM anything [WHERE filter] [ORDER BY column [DESC] [NULLS FIRST|LAST], … LIMIT n] [LIMIT n]
#
# An index speeds these up, and they need no more memory than a few batches. Everything else is refused by name: joins
# and groupings are left to Spark or DuckDB, and a scan can pass its rows to both.


MAX_ORDERED_ROWS: Final = 1_000_000  # kept in memory while the rest is read
_ALL_ROWS: Final = (1 << 63) - 1  # the largest row count of Arrow; no table has more
_ELSEWHERE: Final = "scan(…).to_df() gives the rows to Spark SQL, and DuckDB reads scan(…).to_reader()"

# Parts of a SELECT: the parser's name -> the SQL name.
_REFUSED: Final[Mapping[str, str]] = {
    "with": "WITH",
    "distinct": "DISTINCT",
    "joins": "a join",
    "laterals": "LATERAL VIEW",
    "group": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "sort": "SORT BY",
    "offset": "OFFSET",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "into": "INTO",
    "hint": "a hint",
    "version": "VERSION AS OF or TIMESTAMP AS OF (give --version or --as-of instead)",
}
_KNOWN: Final = frozenset({"kind", "expressions", "from", "where", "order", "limit"})


class Total(StrEnum):
    """An aggregate of all rows."""

    COUNT = "count"
    MIN = "min"
    MAX = "max"
    SUM = "sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One column of the result: a column of the table, or a total of one (``column`` is None for ``count(*)``)."""

    name: str
    column: str | None
    total: Total | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBy:
    """One key of ORDER BY."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A parsed SELECT. No outputs means all columns."""

    outputs: tuple[Output, ...] = ()
    where: str | None = None
    order: tuple[OrderBy, ...] = ()
    limit: int | None = None

    @property
    def is_total(self) -> bool:
        """Whether the result is one row of totals."""
        return any(output.total is not None for output in self.outputs)


def parse_statement(sql: str) -> Statement:
    """Parse a statement; InvalidInputError names the construct that is not supported."""
    # Importing sqlglot takes half a second, which only this command should pay.
    import sqlglot
    from sqlglot import errors, exp

    logger = logging.getLogger("sqlglot")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # we report unknown statements ourselves
        trees = sqlglot.Dialect.get_or_raise("spark").parser().parse(tokenize(sql, what="The statement"), sql)
    except errors.ParseError as error:
        details = error.errors[0] if error.errors else {}
        near = f" near {shorten(details['highlight'])!r}" if details.get("highlight") else ""
        raise InvalidInputError(f"The statement is not valid SQL{near}.", sql=sql) from None
    except errors.SqlglotError:
        raise InvalidInputError("The statement is not valid SQL: a quote is not closed.", sql=sql) from None
    except RecursionError:
        raise InvalidInputError("The statement is nested too deeply.", sql=sql) from None
    finally:
        logger.setLevel(level)
    if len(trees) != 1 or trees[0] is None:
        raise InvalidInputError("One statement is needed, such as SELECT id, name FROM t WHERE id = 5.", sql=sql)
    if not isinstance(trees[0], exp.Select):
        _refuse(_what(trees[0]), sql)
    return _Reader(sql, trees[0]).read()


class _Reader:
    """Converts one SELECT of sqlglot to a ``Statement``."""

    def __init__(self, sql: str, tree: exp.Select) -> None:
        self._sql, self._tree = sql, tree
        # sqlglot appends an underscore to names that are Python keywords.
        self._parts = {name.rstrip("_"): part for name, part in tree.args.items() if part}
        self._names = self._table_names()

    def read(self) -> Statement:
        for name in self._parts:
            if name not in _KNOWN:
                _refuse(_REFUSED.get(name, name.replace("_", " ").upper()), self._sql)
        outputs = self._outputs()
        limit = self._limit()
        statement = Statement(outputs=outputs, where=self._where(), order=self._order(outputs), limit=limit)
        if statement.is_total and any(output.total is None for output in outputs):
            _refuse("a column together with a total", self._sql)
        if statement.is_total and (statement.order or statement.limit is not None):
            return replace(statement, order=(), limit=None if limit is None or limit > 0 else 0)
        if statement.order and limit is None:
            _refuse("ORDER BY without LIMIT", self._sql)
        if statement.order and limit is not None and limit > MAX_ORDERED_ROWS:
            _refuse(f"ORDER BY with a LIMIT above {MAX_ORDERED_ROWS:,}", self._sql)
        return statement

    def _table_names(self) -> frozenset[str]:
        """The names with which columns may be qualified."""
        source = self._parts.get("from")
        if source is None:
            raise InvalidInputError("The statement needs FROM; any name will do, PATH is the table.", sql=self._sql)
        table = source.this
        if table.key != "table":
            _refuse(_what(table), self._sql)
        extra = [name for name, part in table.args.items() if part and name not in {"this", "db", "catalog", "alias"}]
        if extra:
            _refuse(_REFUSED.get(extra[0].rstrip("_"), extra[0].upper()), self._sql)
        if table.this.key != "identifier":
            _refuse(_what(table.this), self._sql)
        return frozenset(name.lower() for name in (table.name, table.alias) if name)

    def _outputs(self) -> tuple[Output, ...]:
        found = self._tree.expressions
        if len(found) == 1 and self._is_star(found[0]):
            return ()
        return tuple(self._output(node) for node in found)

    def _is_star(self, node: exp.Expr) -> bool:
        star = node.this if node.key == "column" else node
        if star.key != "star":
            return False
        if any(star.args.values()):
            _refuse("* with EXCEPT or REPLACE", self._sql)
        if node.key == "column" and node.args["table"].name.lower() not in self._names:
            raise InvalidInputError(f"{node.sql(dialect='spark')} does not name the table in FROM.", sql=self._sql)
        return True

    def _output(self, node: exp.Expr) -> Output:
        alias = node.alias if node.key == "alias" else ""
        inner = node.this if node.key == "alias" else node
        if self._is_star(inner):
            _refuse("* together with other columns", self._sql)
        if inner.key == "column":
            name = self._column(inner)
            return Output(name=alias or name, column=name)
        if inner.key not in set(Total):
            _refuse(f"{inner.sql(dialect='spark')!r} in the list of columns", self._sql)
        return self._total(inner, alias)

    def _total(self, node: exp.Expr, alias: str) -> Output:
        total = Total(node.key)
        of = node.this
        shown = node.sql(dialect="spark").lower() if of is not None and of.key == "star" else ""
        is_all = total is Total.COUNT and of is not None and of.key in {"star", "literal"}
        more = [name for name, part in node.args.items() if part and name not in {"this", "big_int"}]
        if is_all and not more:
            return Output(name=alias or shown or "count(1)", column=None, total=total)
        if of is None or of.key != "column" or more:
            _refuse(f"{node.sql(dialect='spark')!r} in the list of columns", self._sql)
        column = self._column(of)
        return Output(name=alias or f"{total}({column})", column=column, total=total)

    def _column(self, node: exp.Expr) -> str:
        """The name of a column; ``t.id`` is ``id`` if t is the table."""
        names = [node.args[part].name for part in ("catalog", "db", "table", "this") if node.args.get(part)]
        if len(names) > 1 and names[0].lower() in self._names:
            names = names[1:]
        if len(names) > 1:
            _refuse(f"the field {node.sql(dialect='spark')} of a column", self._sql)
        return str(names[0])

    def _where(self) -> str | None:
        where = self._parts.get("where")
        if where is None:
            return None
        from sqlglot import exp

        condition = where.this.copy()
        for column in list(condition.find_all(exp.Column)):
            if len(column.parts) > 1 and column.parts[0].name.lower() in self._names:
                # Remove the first of catalog, db and table that is set; the others keep their place.
                for part in ("catalog", "db", "table"):
                    if column.args.get(part):
                        column.set(part, None)
                        break
        return str(condition.sql(dialect="spark"))

    def _order(self, outputs: tuple[Output, ...]) -> tuple[OrderBy, ...]:
        order = self._parts.get("order")
        if order is None:
            return ()
        found = []
        renamed = {output.name.lower(): output.column or output.name for output in outputs}
        for node in order.expressions:
            if node.this.key != "column":
                _refuse(f"ORDER BY {node.this.sql(dialect='spark')}", self._sql)
            descending = bool(node.args.get("desc"))
            nulls_first = node.args.get("nulls_first")
            first = not descending if nulls_first is None else bool(nulls_first)
            name = self._column(node.this)
            column = renamed.get(name.lower(), name)
            found.append(OrderBy(column=column, descending=descending, nulls_first=first))
        return tuple(found)

    def _limit(self) -> int | None:
        limit = self._parts.get("limit")
        if limit is None:
            return None
        value = limit.expression
        if value is None or value.key != "literal" or value.is_string or not str(value.this).isdigit():
            _refuse("a LIMIT that is not a number", self._sql)
        if any(part for name, part in limit.args.items() if name != "expression"):
            _refuse(limit.sql(dialect="spark").strip(), self._sql)
        return min(int(value.this), _ALL_ROWS)


def _what(node: exp.Expr) -> str:
    if node.key == "command":  # unknown to the parser: the first word and the rest
        word = str(node.this).upper()
        return "EXPLAIN (give --explain instead)" if word == "EXPLAIN" else word
    names = {
        "subquery": "a query in FROM",
        "anonymous": "a function in FROM",
        "union": "UNION",
        "except": "EXCEPT",
        "intersect": "INTERSECT",
    }
    return names.get(node.key, node.key.upper())


def _refuse(what: str, sql: str) -> NoReturn:
    raise InvalidInputError(f"`packstone query` does not support {what}; {_ELSEWHERE}.", sql=sql)
