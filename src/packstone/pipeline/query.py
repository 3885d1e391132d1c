"""Answer a SELECT in Spark's dialect: a plain scan by this process, everything else by DuckDB or by Spark.

=====================================================  ===========================================================
statement                                              who answers it
=====================================================  ===========================================================
columns of one table, a filter, LIMIT; or ``count(*)``  the scan itself; rows that surely match are counted unread
everything else                                         DuckDB, if it gives the rows that Spark would give
what DuckDB would answer differently                    Spark, if it is installed; otherwise refused by name
=====================================================  ===========================================================

An engine reads each table through a scan with the columns that the statement uses, and with the conditions of WHERE
that the filter language has: an index answers those, in Spark's semantics.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NoReturn

from packstone.errors import InvalidInputError, RefusedError
from packstone.pipeline.duckdb_sql import find_difference, run_duckdb, show_sql, spark_type, to_duckdb
from packstone.pipeline.open import engine_settings, read_engine_name
from packstone.pipeline.scan import DEFAULT_ZONE, Scan
from packstone.query.filter.expression import And, Expression, Not, Or, Unknown
from packstone.query.filter.parse_filter import parse_filter, shorten, tokenize
from packstone.query.filter.resolve import read_zone

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from sqlglot import exp

    from packstone.model.times import Moment
    from packstone.pipeline.scan import ScanReport
    from packstone.pipeline.table import Table
    from packstone.spark.session import SparkSettings

_ALL_ROWS: Final = (1 << 63) - 1  # the largest row count of Arrow; no table has more
_VIEW: Final = "packstone_scan_"


class QueryEngine(StrEnum):
    """Who answers a statement."""

    SCAN = "scan"
    DUCKDB = "duckdb"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """A parsed statement with its scans; only the indexes have been read so far."""

    engine: QueryEngine
    why: str  # the construct that a scan does not have, or that DuckDB answers differently; "" for a scan
    scans: tuple[Scan, ...]
    _plan: _Plan
    _zone: str  # of local times in the statement
    _settings: Callable[[], SparkSettings]

    def explain(self) -> tuple[ScanReport, ...]:
        """Report what each scan would read, and what it leaves out."""
        return tuple(scan.explain() for scan in self.scans)

    @contextlib.contextmanager
    def run(self) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        """Yield the schema of the answer, and its batches, which are read as they are requested."""
        import pyarrow as pa

        open_answer = {
            QueryEngine.SCAN: self._scanned,
            QueryEngine.DUCKDB: self._by_duckdb,
            QueryEngine.SPARK: self._by_spark,
        }[self.engine]
        with open_answer() as (schema, batches):
            names = self._plan.names
            named = pa.schema([pa.field(name, field.type) for name, field in zip(names, schema, strict=True)])
            yield named, (pa.RecordBatch.from_arrays(batch.columns, schema=named) for batch in batches)

    @contextlib.contextmanager
    def _scanned(self) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        import pyarrow as pa

        scan, limit = self.scans[0], self._plan.limit
        if self._plan.counts_rows:
            schema = pa.schema([pa.field("count", pa.int64())])
            rows = [] if limit == 0 else [pa.RecordBatch.from_arrays([pa.array([scan.count()])], schema=schema)]
            yield schema, iter(rows)
            return
        at = [scan.schema.get_field_index(name) for name in self._plan.picked]
        schema = pa.schema([scan.schema.field(one) for one in at])
        batches = scan.to_batches() if limit is None else _limited(scan.to_batches(), limit)
        yield schema, (pa.RecordBatch.from_arrays([one.column(i) for i in at], schema=schema) for one in batches)

    @contextlib.contextmanager
    def _by_duckdb(self) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        with run_duckdb(self._plan.duckdb, {f"{_VIEW}{at}": scan for at, scan in enumerate(self.scans)}) as answer:
            yield answer.schema, iter(answer)

    @contextlib.contextmanager
    def _by_spark(self) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        """Answer by Spark SQL; the answer is collected in memory, the tables are not."""
        from packstone.spark.frames import collect_arrow, session_in_zone
        from packstone.spark.session import open_spark

        handle = open_spark(self._settings())
        try:
            with session_in_zone(handle.spark, self._zone):
                for number, scan in enumerate(self.scans):
                    scan.to_df(handle.spark).createOrReplaceTempView(f"{_VIEW}{number}")
                table = collect_arrow(handle.spark, self._plan.spark)
            yield table.schema, iter(table.to_batches())
        finally:
            for number in range(len(self.scans)):
                with contextlib.suppress(Exception):
                    handle.spark.catalog.dropTempView(f"{_VIEW}{number}")
            handle.stop()


def query_tables(
    sql: str,
    open_table: Callable[[str], Table],
    *,
    version: int | None = None,
    as_of: Moment | None = None,
    timezone: str | None = None,
    engine: str | None = None,
    settings: Callable[[], SparkSettings] | None = None,
) -> TableQuery:
    """Parse a SELECT, find its tables, plan their scans at one version, and choose who answers it.

    ``open_table`` gets the name of each table as it is written, parts joined by dots. ``settings`` are those of a Spark
    session, if one has to be started.
    """
    zone = timezone or DEFAULT_ZONE
    read_zone(zone)  # an unknown one is an error now, also if no test of the statement needs it
    plan = _Planner(parse_select(sql), sql)
    sources = [open_table(name).scan(version=version, as_of=as_of).source for name in plan.table_names]
    plan.resolve([source.schema for source in sources])
    chosen, why = _choose(plan, read_engine_name(engine))
    scans = [
        Scan(source, columns=columns, where=" AND ".join(tests) or None, timezone=timezone)
        for source, columns, tests in zip(sources, plan.scan_columns(chosen), plan.filters, strict=True)
    ]
    for scan in scans:
        _ = scan.schema  # a wrong filter is an error now, before anything is printed
    return TableQuery(
        engine=chosen,
        why=why,
        scans=tuple(scans),
        _plan=plan.finish(chosen),
        _zone=zone,
        _settings=settings or (lambda: engine_settings(engine)),
    )


def query_table(table: Table, sql: str, **options: Any) -> TableQuery:
    """Answer a SELECT from one table, by whatever name it is called."""
    names: set[str] = set()

    def open_one(name: str) -> Table:
        names.add(name.lower())
        if len(names) > 1:
            raise InvalidInputError(
                f"The statement names several tables: {', '.join(sorted(names))}; `packstone sql` joins tables."
            )
        return table

    return query_tables(sql, open_one, **options)


def parse_select(sql: str) -> exp.Query:
    """Parse one SELECT; InvalidInputError says what is wrong, or names the statement that is given instead."""
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
    tree = trees[0]
    if not isinstance(tree, exp.Query):
        word = str(tree.this).upper() if tree.key == "command" else tree.key.upper()
        hint = "; give --explain instead" if word == "EXPLAIN" else "; it answers SELECT"
        raise InvalidInputError(f"`packstone query` does not support {word}{hint}.", sql=sql)
    if tree.find(exp.Lock) is not None:
        raise InvalidInputError(
            "`packstone query` does not support FOR UPDATE or FOR SHARE: a query locks nothing; leave it out.", sql=sql
        )
    for table in tree.find_all(exp.Table):
        if table.args.get("version"):
            raise InvalidInputError(
                "`packstone query` does not support VERSION AS OF or TIMESTAMP AS OF; give --version or --as-of.",
                sql=sql,
            )
    return tree


def _choose(plan: _Planner, engine: str) -> tuple[QueryEngine, str]:
    """Choose who answers: the scan, DuckDB if it is installed and agrees with Spark, Spark if it is installed."""
    construct = plan.beyond_a_scan
    if not construct:
        return QueryEngine.SCAN, ""
    if engine not in ("auto", "inline"):
        return QueryEngine.SPARK, construct
    has_duckdb, has_spark = _is_installed("duckdb"), _is_installed("pyspark")
    different = plan.unlike_spark
    if has_duckdb and not different:
        return QueryEngine.DUCKDB, construct
    if has_spark and engine == "auto":
        return QueryEngine.SPARK, different or construct
    if has_duckdb:
        install = "" if has_spark else " (`pip install 'packstone[spark]'`)"
        raise RefusedError(
            f"Only Spark evaluates {different}, because DuckDB may answer it differently; "
            f"use Spark{install} with --engine spark or PACKSTONE_ENGINE=spark."
        )
    raise InvalidInputError(
        f"{construct} needs DuckDB or Spark; install one of them with `pip install 'packstone[sql]'` or "
        "`pip install 'packstone[spark]'`."
    )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


# ---- from a statement to scans and texts ----


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is executed: by the scan ``picked``, ``limit`` and ``counts_rows``, else a text in an engine's dialect."""

    names: tuple[str, ...]  # of the columns of the answer
    picked: tuple[str, ...] = ()  # columns of the scan, in the order of the answer
    limit: int | None = None
    counts_rows: bool = False
    duckdb: str = ""
    spark: str = ""


class _Planner:
    """Resolves the names of a statement, and moves conditions and columns from it into the scans of its tables."""

    def __init__(self, tree: exp.Query, sql: str) -> None:
        from sqlglot import exp
        from sqlglot.optimizer.scope import traverse_scope

        self._sql, self._tree = sql, tree
        self._written = [_written_name(one) for one in _first_select(tree).expressions]  # before names are resolved
        self.table_names: list[str] = []
        seen: set[int] = set()
        for scope in traverse_scope(tree):
            for source in scope.sources.values():
                if isinstance(source, exp.Table) and id(source) not in seen:
                    seen.add(id(source))
                    self._take(source)
        if not self.table_names:
            raise InvalidInputError("The statement needs FROM and a table.", sql=sql)
        self._original = tree.copy()

    def _take(self, source: exp.Table) -> None:
        """Replace a table by the name of its scan; its columns can still be qualified by its own name."""
        from sqlglot import exp

        if not isinstance(source.this, exp.Identifier):
            raise InvalidInputError(f"{shorten(source.sql(dialect='spark'))} is not a table.", sql=self._sql)
        parts = [source.args[part].name for part in ("catalog", "db", "this") if source.args.get(part)]
        alias = source.alias or source.name
        source.set("this", exp.to_identifier(f"{_VIEW}{len(self.table_names)}"))
        source.set("db", None)
        source.set("catalog", None)
        if source.args.get("alias") and source.args["alias"].args.get("columns"):
            # They would be other names for the conditions and columns that move into the scan.
            what = f"names of columns after {alias}; write SELECT column AS name in a subquery"
            raise InvalidInputError(f"`packstone query` does not support {what}.", sql=self._sql)
        source.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        self.table_names.append(".".join(parts))

    def resolve(self, schemas: Sequence[pa.Schema]) -> None:
        """Find every column, and move conditions into the filters of the scans."""
        from sqlglot import exp
        from sqlglot.errors import OptimizeError, SqlglotError
        from sqlglot.optimizer.qualify import qualify
        from sqlglot.optimizer.scope import traverse_scope
        from sqlglot.schema import MappingSchema

        self._schemas = schemas
        known: dict[str, object] = {
            f"{_VIEW}{number}": {field.name: spark_type(field.type) for field in schema}
            for number, schema in enumerate(schemas)
        }
        self._schema = MappingSchema(known, dialect="spark")
        try:
            self._tree = qualify(self._tree, schema=self._schema, dialect="spark")
        except OptimizeError as error:
            self._refuse_column(str(error))
        except (SqlglotError, RecursionError):
            raise InvalidInputError("The statement cannot be resolved: it is nested too deeply.") from None
        self._check_fields()
        self._columns_before = self._used_columns()
        self.filters: list[list[str]] = [[] for _ in schemas]
        for scope in traverse_scope(self._tree):
            if isinstance(scope.expression, exp.Select):
                _push(scope.expression, self.filters)

    def scan_columns(self, engine: QueryEngine) -> list[tuple[str, ...]]:
        """The columns that each scan reads; Spark evaluates the whole statement, with the conditions of the scans."""
        used = self._columns_before if engine is QueryEngine.SPARK else self._used_columns()
        needs_rows = engine is not QueryEngine.SCAN  # even if none of their columns is used
        return [
            _spelled(schema, names, at_least_one=needs_rows) for schema, names in zip(self._schemas, used, strict=True)
        ]

    def _used_columns(self) -> list[set[str]]:
        from sqlglot import exp
        from sqlglot.optimizer.scope import traverse_scope

        used: list[set[str]] = [set() for _ in self._schemas]
        for scope in traverse_scope(self._tree):
            numbers = {name: _number(source) for name, source in scope.sources.items() if isinstance(source, exp.Table)}
            for column in scope.expression.find_all(exp.Column):
                if column.table in numbers:
                    used[numbers[column.table]].add(column.name.lower())
        return used

    def _check_fields(self) -> None:
        """Refuse ``x.id`` where x is a column without fields and not the name of a table."""
        import pyarrow.types as pt
        from sqlglot import exp
        from sqlglot.optimizer.scope import traverse_scope

        for scope in traverse_scope(self._tree):
            numbers = {name: _number(source) for name, source in scope.sources.items() if isinstance(source, exp.Table)}
            for column in scope.columns:
                if not isinstance(column.parent, exp.Dot) or column.table not in numbers:
                    continue
                schema, name = self._schemas[numbers[column.table]], column.name
                kinds = [field.type for field in schema if field.name.lower() == name.lower()]
                if kinds and not any(map(pt.is_nested, kinds)):
                    field = column.parent.expression.name
                    what = f"{name}.{field}: there is no table {name!r} in FROM, and the column {name!r} has no fields"
                    raise InvalidInputError(f"The statement cannot be resolved at {what}.", sql=self._sql, column=name)

    def _refuse_column(self, why: str) -> NoReturn:
        found = re.search(r"[Cc]olumn '\"?(.*?)\"?' could not be resolved(?: for table: '(.*?)')?", why)
        found = found or re.search(r"Unknown column: (\S+?)\.?(?:\s|$)", why)
        if found is None:
            raise InvalidInputError(
                f"The statement cannot be resolved: {why.partition('.')[0]}.", sql=self._sql
            ) from None
        name = found.group(1).rpartition(".")[2].strip('"')
        table = found.group(2) if found.re.groups > 1 else None
        if table:
            raise InvalidInputError(
                f"The statement cannot be resolved at {table}.{name}: there is no table {table!r} in FROM.", column=name
            ) from None
        has = f"; it has: {', '.join(self._schemas[0].names)}" if len(self._schemas) == 1 else ""
        raise InvalidInputError(f"The table has no column {name!r}{has}.", column=name) from None

    @property
    def beyond_a_scan(self) -> str:
        """The first construct that a scan does not have; empty for columns with a filter and a limit, or a count."""
        from sqlglot import exp

        tree = self._tree
        if not isinstance(tree, exp.Select):
            return _CLAUSES.get(tree.key, "a query in brackets")
        clauses = {name.rstrip("_"): part for name, part in tree.args.items() if part}
        for name in clauses:
            if name not in {"expressions", "from", "limit", "where", "order"}:
                return _CLAUSES.get(name, name.upper())
        if "from" not in clauses:  # its tables are in subqueries
            return "a SELECT without FROM"
        if not _is_view(clauses["from"].this) or set(_filled(clauses["from"].this)) - {"this", "alias"}:
            return "a query in FROM"
        columns = () if self._counts_rows else tuple(one.unalias() for one in tree.selects)
        others = [one for one in columns if not isinstance(one, exp.Column)]
        # A scan has count(*), only not beside other columns: the other expression is why it cannot answer.
        found = next((one for one in others if not _is_count(one)), None)
        if others and found is None:
            return "count(*) beside other columns"
        found = found or (clauses["where"].this if "where" in clauses else None)
        if found is not None:
            return shorten(show_sql(found))
        if "order" in clauses:
            return "ORDER BY"
        return "a LIMIT that is not a number" if "limit" in clauses and _limit_of(tree) is None else ""

    @property
    def _counts_rows(self) -> bool:
        """Whether the answer is ``count(*)`` and nothing else."""
        from sqlglot import exp

        if not isinstance(self._tree, exp.Select) or len(self._tree.selects) != 1:
            return False
        return _is_count(self._tree.selects[0].unalias())

    @property
    def unlike_spark(self) -> str:
        """The first construct that DuckDB may answer differently; empty if there is none."""
        return find_difference(self._tree, self._schema)

    def finish(self, engine: QueryEngine) -> _Plan:
        """The texts for the engines, and the names of the columns as they were written."""
        names = self._names()
        if engine is QueryEngine.SCAN:
            spelled = {name.lower(): name for name in self._schemas[0].names}
            picked = () if self._counts_rows else tuple(spelled[one.unalias().name.lower()] for one in self._selects)
            return _Plan(names=names, picked=picked, limit=_limit_of(self._tree), counts_rows=self._counts_rows)
        if engine is QueryEngine.SPARK:
            return _Plan(names=names, spark=self._original.sql(dialect="spark"))
        return _Plan(names=names, duckdb=to_duckdb(self._tree, self._schema))

    @property
    def _selects(self) -> list[exp.Expr]:
        return list(_first_select(self._tree).selects)

    def _names(self) -> tuple[str, ...]:
        """Columns and aliases as written, an expression as its text; for ``*`` the names of the tables."""
        spelled = {name.lower(): name for schema in reversed(self._schemas) for name in schema.names}
        found = [spelled.get(one.alias_or_name.lower(), one.alias_or_name) for one in self._selects]
        stars = self._written.count(None)
        if stars > 1:
            return tuple(found)
        before = self._written.index(None) if stars else len(found)
        after = len(self._written) - before - stars
        return (
            *self._written[:before],
            *found[before : len(found) - after],
            *self._written[len(self._written) - after :],
        )


_CLAUSES: Final[Mapping[str, str]] = {
    "union": "UNION",
    "except": "EXCEPT",
    "intersect": "INTERSECT",
    "with": "WITH",
    "distinct": "DISTINCT",
    "joins": "a join",
    "laterals": "LATERAL VIEW",
    "group": "GROUP BY",
    "windows": "WINDOW",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "hint": "a hint",
}


def _first_select(tree: exp.Query) -> Any:
    """The SELECT that names the columns: the left one of a UNION."""
    from sqlglot import exp

    while not isinstance(tree, exp.Select):
        tree = tree.this
    return tree


def _written_name(node: Any) -> str | None:
    """The name of a column of the answer; None for ``*``, which is several columns."""
    if node.alias:
        return str(node.alias)
    if node.key == "column":
        return None if node.is_star else str(node.name)
    return None if node.key == "star" else show_sql(node)


def _is_count(node: Any) -> bool:
    """Whether this is ``count(*)``."""
    from sqlglot import exp

    return isinstance(node, exp.Count) and not node.expressions and isinstance(node.this, exp.Star | exp.Literal)


def _filled(node: Any) -> list[str]:
    return [name for name, part in node.args.items() if part]


def _number(source: exp.Table) -> int:
    return int(source.name.removeprefix(_VIEW))


def _limit_of(tree: Any) -> int | None:
    limit = tree.args.get("limit")
    value = limit.expression if limit is not None else None
    if value is None or value.key != "literal" or value.is_string or not str(value.this).isdigit():
        return None
    return min(int(value.this), _ALL_ROWS)


def _spelled(schema: pa.Schema, wanted: set[str], *, at_least_one: bool) -> tuple[str, ...]:
    """The used columns as the table spells them, in its order; one if there is none, because rows must be counted."""
    found = tuple(name for name in schema.names if name.lower() in wanted)
    return found or (tuple(schema.names[:1]) if at_least_one else ())


def _limited(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches if left else ():
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def _push(select: Any, filters: list[list[str]]) -> None:
    """Move conditions of WHERE into the scans of the tables of this SELECT.

    The optional side of an outer join keeps its rows: there a condition also sees the nulls that the join adds.
    """
    from sqlglot import exp

    where = select.args.get("where")
    if where is None:
        return
    source = select.args.get("from_") or select.args.get("from")
    joins = select.args.get("joins") or []
    sides = {(join.side or "").upper() for join in joins} | {(join.method or "").upper() for join in joins}
    if source is None or not sides <= {"", "LEFT"}:
        return
    mandatory = [source.this] + [join.this for join in joins if not join.side and not join.kind.startswith(_SEMI)]
    tables = {one.alias_or_name: _number(one) for one in mandatory if _is_view(one)}
    kept = []
    for test in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        names = {column.table for column in test.find_all(exp.Column)}
        name = next(iter(names)) if len(names) == 1 else ""
        text = _filter_text(test) if name in tables else None
        if text is None:
            kept.append(test)
        else:
            filters[tables[name]].append(f"({text})")
    if kept:
        where.set("this", exp.and_(*kept, copy=False))
    else:
        select.set("where", None)


_SEMI: Final = ("SEMI", "ANTI")


def _is_view(node: Any) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Table) and node.name.startswith(_VIEW)


def _filter_text(test: exp.Expr) -> str | None:
    """A condition in the filter language; None if it is not a test of one row by that language."""
    from sqlglot import exp

    if test.find(exp.Query, exp.AggFunc, exp.Window) is not None:
        return None
    plain = test.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
    text = str(plain.sql(dialect="spark"))
    return text if _is_known(parse_filter(text)) else None


def _is_known(expression: Expression) -> bool:
    match expression:
        case Unknown():
            return False
        case And() | Or():
            return all(map(_is_known, expression.parts))
        case Not():
            return _is_known(expression.part)
    return True
