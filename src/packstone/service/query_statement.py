"""The SQL that ``packstone query`` understands: one table, a list of columns or of totals, a filter, an order, a limit.

::

    SELECT *  |  column [AS name], …  |  count(*), count(c), min(c), max(c), sum(c) [AS name], …
    FROM anything [WHERE filter] [ORDER BY column [DESC] [NULLS FIRST|LAST], … LIMIT n] [LIMIT n]

That is what an index helps with and what needs no more memory than a few batches. All else is refused by its name:
whoever needs a join or a grouping has Spark or DuckDB, and a scan hands its rows to both.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NoReturn

from packstone.errors import InvalidInputError
from packstone.pruning.sql_condition import shorten, tokenize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import exp

MAX_ORDERED_ROWS: Final = 1_000_000  # so many rows are kept while the rest is read
_ALL_ROWS: Final = (1 << 63) - 1  # no table has more, and Arrow counts no further
_ELSEWHERE: Final = "scan(…).to_df() gives the rows to Spark SQL, and DuckDB reads scan(…).to_reader()"

# Parts of a SELECT as the parser calls them -> as people call them.
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
    """What is made of all rows."""

    COUNT = "count"
    MIN = "min"
    MAX = "max"
    SUM = "sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One column of the answer: a column of the table, or a total of one (of all rows: ``column`` is None)."""

    name: str
    column: str | None
    total: Total | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBy:
    """One key of an order."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One question. Without outputs: all columns."""

    outputs: tuple[Output, ...] = ()
    where: str | None = None
    order: tuple[OrderBy, ...] = ()
    limit: int | None = None

    @property
    def is_total(self) -> bool:
        """Whether the answer is one row."""
        return any(output.total is not None for output in self.outputs)


def parse_statement(sql: str) -> Statement:
    """Read a statement; InvalidInputError, one sentence, names what is not done here."""
    # Importing it takes half a second, which only this command should pay.
    import sqlglot  # noqa: PLC0415
    from sqlglot import errors, exp  # noqa: PLC0415

    logger = logging.getLogger("sqlglot")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # that a statement is unknown to it we say ourselves
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
    """Walks one SELECT."""

    def __init__(self, sql: str, tree: exp.Select) -> None:
        self._sql, self._tree = sql, tree
        # sqlglot has added an underscore to names that are words of Python.
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
            _refuse("a column beside a total", self._sql)
        if statement.is_total and (statement.order or statement.limit is not None):
            return replace(statement, order=(), limit=None if limit is None or limit > 0 else 0)
        if statement.order and limit is None:
            _refuse("ORDER BY without LIMIT", self._sql)
        if statement.order and limit is not None and limit > MAX_ORDERED_ROWS:
            _refuse(f"ORDER BY with a LIMIT above {MAX_ORDERED_ROWS:,}", self._sql)
        return statement

    def _table_names(self) -> frozenset[str]:
        """By which names columns may be qualified."""
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
            raise InvalidInputError(f"{node.sql(dialect='spark')} names no table of the statement.", sql=self._sql)
        return True

    def _output(self, node: exp.Expr) -> Output:
        alias = node.alias if node.key == "alias" else ""
        inner = node.this if node.key == "alias" else node
        if self._is_star(inner):
            _refuse("* beside other columns", self._sql)
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
        from sqlglot import exp  # noqa: PLC0415 - as in parse_statement

        condition = where.this.copy()
        for column in list(condition.find_all(exp.Column)):
            if len(column.parts) > 1 and column.parts[0].name.lower() in self._names:
                # The first of catalog, db and table goes; what follows keeps its place.
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
            _refuse("a LIMIT that is no number", self._sql)
        if any(part for name, part in limit.args.items() if name != "expression"):
            _refuse(limit.sql(dialect="spark").strip(), self._sql)
        return min(int(value.this), _ALL_ROWS)


def _what(node: exp.Expr) -> str:
    if node.key == "command":  # what the parser does not know: the first word and the rest
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
    raise InvalidInputError(f"`packstone query` does not do {what}; {_ELSEWHERE}.", sql=sql)
