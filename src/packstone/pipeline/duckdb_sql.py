"""SELECT statements of Spark's dialect that DuckDB answers as Spark 4 does: which, in which text, and their answers.

``find_difference`` accepts a list of constructs and types that are known to agree, by comparison with Spark in the
tests; the caller leaves everything else to Spark. Rejected: a list of known differences, because an unknown one is a
wrong answer. Where a text can make the two agree, ``to_duckdb`` writes it:

=====================  ============================  ==========================================
Spark 4                DuckDB                        written as
=====================  ============================  ==========================================
``sum`` of integers    128 bits                      cast to BIGINT, an error if it overflows
``sum`` of decimals    38 digits                     cast to the column's digits + 10
``a / b``              infinity for ``b = 0``        an error for ``b = 0``
``tiny + 1``           a tinyint                     ``tiny + CAST(1 AS INT)``
``length``, ranks      64 bits                       cast to INT
nulls in ``ORDER BY``  last                          NULLS FIRST, by sqlglot
``avg(decimal)``, decimal arithmetic, casts, most functions, groups of floats: Spark only
=====================  ============================  ==========================================

DuckDB reads streams of Arrow batches, not tables in memory, and moves what it must hold beyond ``MEMORY_LIMIT`` to a
temporary folder. It has no access to files or to the network.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

from packstone.errors import InvalidInputError
from packstone.query.filter.parse_filter import shorten

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from sqlglot import exp

    from packstone.pipeline.scan import Scan

MEMORY_LIMIT: Final = "1GB"
_BATCH_ROWS: Final = 65_536
_Result = TypeVar("_Result")
_MAX_PRECISION: Final = 38
_EXTRA_DIGITS: Final = 10  # added to the precision of a sum of decimals, as in Spark

# Types by what may be compared and combined; `real` is a float of 32 bits, which the two widen differently.
_CLASSES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), "integer"),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), "text"),
    **dict.fromkeys(("BINARY", "VARBINARY"), "binary"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"), "timestamp"),
    "TIMESTAMPNTZ": "local time",
    "DOUBLE": "double",
    "FLOAT": "real",
    "DECIMAL": "decimal",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "NULL": "null",
}
_COMPARISONS: Final = ("eq", "neq", "gt", "gte", "lt", "lte", "nullsafeeq")
_NUMBERS: Final = frozenset({"integer", "double", "decimal"})
_FLOATS: Final = frozenset({"double", "real", ""})

# Constructs that are evaluated alike whatever their types, by sqlglot's names.
_ALIKE: Final = frozenset(
    {"select", "from", "where", "having", "order", "limit", "offset", "table", "tablealias", "alias"}
    | {"column", "identifier", "star", "null", "boolean", "paren", "and", "or", "not", "is", "cte", "with"}
    | {"subquery", "exists", "window", "windowspec", "rownumber", "rank", "denserank", "datatype", "datatypeparam"}
)


def find_difference(tree: exp.Query, schema: Any) -> str:
    """The first construct that DuckDB may answer differently from Spark; empty if there is none."""
    from sqlglot.optimizer.annotate_types import annotate_types

    for node in annotate_types(tree.copy(), schema=schema, dialect="spark").walk():
        agrees = _RULES.get(node.key)
        if node.key not in _ALIKE and (agrees is None or not agrees(node)):
            is_set = node.key in ("union", "except", "intersect")
            return node.key.upper() if is_set else shorten(show_sql(node))
    return ""


def to_duckdb(tree: exp.Query, schema: Any) -> str:
    """The statement with Spark's types and errors, in DuckDB's dialect."""
    from sqlglot import exp
    from sqlglot.optimizer.annotate_types import annotate_types
    from sqlglot.optimizer.scope import traverse_scope

    made = tree.copy()
    for number in list(made.find_all(exp.Literal)):
        if number.is_int and not number.find_ancestor(exp.Limit, exp.Offset, exp.WindowSpec, exp.DataType):
            number.replace(exp.cast(number.copy(), "INT" if int(number.name) < 1 << 31 else "BIGINT"))
    for scope in traverse_scope(made):  # inner queries first: the type of an outer sum depends on theirs
        annotate_types(made, schema=schema, dialect="spark")
        for found in list(scope.find_all(exp.Sum)):
            kind = _sum_type(_measured(found))
            whole = found.parent if isinstance(found.parent, exp.Window) else found
            if kind:
                whole.replace(exp.cast(whole.copy(), kind))
    for small in list(made.find_all(exp.Length, exp.RowNumber, exp.Rank, exp.DenseRank)):
        ranked: Any = small.parent if isinstance(small.parent, exp.Window) else small
        ranked.replace(exp.cast(ranked.copy(), "INT"))
    for division in list(made.find_all(exp.Div)):
        left, right = exp.paren(division.this.copy()), exp.paren(division.expression.copy())
        zero = exp.and_(right.copy().eq(0), left.copy().is_(exp.null()).not_())
        error = exp.func("error", exp.Literal.string("Division by zero"))
        quotient = exp.Div(this=exp.cast(left, "DOUBLE"), expression=exp.cast(right, "DOUBLE"), typed=True, safe=False)
        division.replace(exp.paren(exp.case().when(zero, exp.cast(error, "DOUBLE")).else_(quotient)))
    return str(made.sql(dialect="duckdb"))


def _sum_type(of: Any) -> str:
    if _kinds(of) <= {"integer"}:
        return "BIGINT"
    if _kinds(of) <= {"decimal"}:
        precision, scale = (int(one.name) for one in of.type.expressions)
        return f"DECIMAL({min(precision + _EXTRA_DIGITS, _MAX_PRECISION)}, {scale})"
    return ""


def show_sql(node: exp.Expr) -> str:
    """An expression as the user may have written it, without the names of tables."""
    from sqlglot import exp

    plain = node.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
        if isinstance(column.this, exp.Identifier):
            column.this.set("quoted", None)
    return str(plain.sql(dialect="spark", normalize_functions="lower"))


def spark_type(kind: pa.DataType) -> str:
    """Spark's name of a type; nested types are left to Spark, so their parts do not matter."""
    from pyarrow import types

    if types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    names = {
        "int8": "TINYINT",
        "int16": "SMALLINT",
        "int32": "INT",
        "int64": "BIGINT",
        "float": "FLOAT",
        "double": "DOUBLE",
        "bool": "BOOLEAN",
        "date32[day]": "DATE",
    }
    text = str(kind).removeprefix("large_")
    return names.get(text, text.upper() if text in ("string", "binary") else "VARIANT")


# ---- the rules ----


def _measured(node: Any) -> Any:
    """The argument of an aggregate, without DISTINCT."""
    of = node.this
    return of.expressions[0] if of.key == "distinct" and len(of.expressions) == 1 else of


def _kind(node: Any) -> str:
    """The class of a node's type; empty if it is not known."""
    of = node.unalias().type
    return _CLASSES.get(getattr(of.this, "value", str(of.this)), "") if of is not None else ""


def _kinds(*nodes: Any) -> set[str]:
    return {_kind(node) for node in nodes}


def _compares(left: Any, *others: Any) -> bool:
    """Whether all have one class, or are numbers that the two systems compare alike."""
    kinds = _kinds(left, *others) - {"null"}
    return "" not in kinds and (len(kinds) <= 1 or kinds <= _NUMBERS)


def _same_type(nodes: Sequence[Any]) -> bool:
    typed = [one.unalias() for one in nodes if _kind(one) != "null"]
    kinds = _kinds(*typed)
    return len(kinds) == 1 and "" not in kinds and (kinds == {"text"} or len({one.type for one in typed}) == 1)


def _both(*classes: str) -> Callable[[Any], bool]:
    return lambda node: _kinds(node.this, node.expression) <= set(classes)


def _compared(node: Any) -> bool:
    return _compares(node.this, node.expression)


def _is_in(node: Any) -> bool:
    query = node.args.get("query")
    return _compares(node.this, *(query.this.selects[:1] if query is not None else node.expressions))


def _is_sum(node: Any) -> bool:
    of = _measured(node)
    # sqlglot does not know the digits of other decimals.
    return _kinds(of) <= {"integer", "double", "real"} or (of.key == "column" and _kinds(of) <= {"decimal"})


def _is_case(node: Any) -> bool:
    values = [one.args["true"] for one in node.args["ifs"]]
    return node.this is None and _same_type([*values, *([node.args["default"]] if node.args.get("default") else [])])


def _is_cast(node: Any) -> bool:
    to = node.to.this.value
    return (_kinds(node.this) <= {"integer"} and to in ("BIGINT", "DOUBLE")) or (node.this.is_string and to == "DATE")


def _is_group(node: Any) -> bool:
    """No floats: Spark returns 0.0 for the group of 0.0 and -0.0, DuckDB either of them."""
    return _kinds(*node.expressions).isdisjoint(_FLOATS) and not any(
        part for name, part in node.args.items() if name != "expressions"
    )


def _is_distinct(node: Any) -> bool:
    values = node.expressions or getattr(node.parent, "selects", ())
    return (node.parent.key == "count" and len(values) == 1) or (bool(values) and _kinds(*values).isdisjoint(_FLOATS))


def _is_set_operation(node: Any) -> bool:
    left, right = node.left.selects, node.right.selects
    alike = len(left) == len(right) and all(map(_same_type, zip(left, right, strict=True)))
    return alike and not node.args.get("by_name") and _kinds(*left).isdisjoint(_FLOATS)


def _is_literal(node: Any) -> bool:
    """A number with a point is a decimal, which sqlglot takes for a double; comparisons do not depend on that."""
    if node.is_string or "e" in node.name.lower():
        return True
    if node.name.isdigit():
        return int(node.name) < 1 << 63
    used = node.parent
    while used.key in ("neg", "paren"):
        used = used.parent
    return used.key in (*_COMPARISONS, "in", "between")


def _is_ordered(node: Any) -> bool:
    of = node.this
    if of.key == "column" and not of.table:  # the name of a column of the answer
        selects = getattr(node.find_ancestor(*_query_types()), "selects", ())
        of = next((one for one in selects if one.alias_or_name == of.name), of)
    return "" not in _kinds(of)


def _query_types() -> tuple[Any, ...]:
    from sqlglot import exp

    return (exp.Select, exp.SetOperation)


_RULES: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(_COMPARISONS, _compared),
    "in": _is_in,
    "between": lambda node: _compares(node.this, node.args["low"], node.args["high"]),
    **dict.fromkeys(("add", "sub", "mul"), _both("integer", "double")),
    "div": _both("integer", "double", "real"),
    "mod": _both("integer"),
    "neg": lambda node: _kinds(node.this) <= {*_NUMBERS, "real"},
    "count": lambda node: not node.expressions,  # of several columns: only Spark has it
    "sum": _is_sum,
    "avg": lambda node: _kinds(_measured(node)) <= {"integer", "double", "real"},
    **dict.fromkeys(("min", "max"), lambda node: "" not in _kinds(_measured(node)) and not node.expressions),
    "like": lambda node: (
        _kinds(node.this) <= {"text"} and node.expression.is_string and "\\" not in node.expression.name
    ),
    "length": lambda node: _kinds(node.this) <= {"text"},
    "case": _is_case,
    "if": lambda node: _same_type([node.args[name] for name in ("true", "false") if node.args.get(name)]),
    "coalesce": lambda node: _same_type([node.this, *node.expressions]),
    "cast": _is_cast,
    "group": _is_group,
    "ordered": _is_ordered,
    "distinct": _is_distinct,
    **dict.fromkeys(("union", "except", "intersect"), _is_set_operation),
    "join": lambda node: not node.method and node.kind.upper() in ("", "INNER", "CROSS", "OUTER"),
    "literal": _is_literal,
}


# ---- answers ----


class _Stream:
    """A scan that can be read more than once, and that keeps its own error: DuckDB would replace it."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self.error: Exception | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self._scan.schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._scan.to_batches()
        except Exception as error:
            self.error = error
            raise


class DuckAnswer:
    """The schema of an answer, and its batches as they are read."""

    def __init__(self, reader: pa.RecordBatchReader, worker: _Worker, streams: Sequence[_Stream]) -> None:
        self.schema, self._reader, self._worker, self._streams = reader.schema, reader, worker, streams

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with _own_errors(self._streams):
            while (batch := self._worker.run(lambda: next(self._reader, None))) is not None:
                yield batch


class _Worker:
    """A thread that waits for DuckDB: a call of DuckDB lets no signal through until it has ended, maybe for hours."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._pool = ThreadPoolExecutor(1, "packstone-duckdb")

    def run(self, call: Callable[[], _Result]) -> _Result:
        """Return the call's result; a signal stops the statement first."""
        waiting = self._pool.submit(call)
        try:
            return waiting.result()
        finally:
            if not waiting.done():
                self._connection.interrupt()
                wait([waiting])

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown()


@contextlib.contextmanager
def run_duckdb(sql: str, scans: Mapping[str, Scan]) -> Iterator[DuckAnswer]:
    """Answer a statement of ``to_duckdb`` from scans by their names."""
    import duckdb

    streams = {name: _Stream(scan) for name, scan in scans.items()}
    with (
        tempfile.TemporaryDirectory(prefix="packstone-query-") as folder,
        duckdb.connect() as connection,
        contextlib.closing(_Worker(connection)) as worker,
    ):
        for setting in (
            f"memory_limit = '{MEMORY_LIMIT}'",
            f"temp_directory = '{folder}'",
            "TimeZone = 'UTC'",
            "python_enable_replacements = false",  # no table but the registered ones
            "autoinstall_known_extensions = false",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        for name, stream in streams.items():
            connection.register(name, stream)
        with _own_errors(tuple(streams.values())):
            reader = worker.run(lambda: connection.sql(sql).to_arrow_reader(_BATCH_ROWS))
        try:
            yield DuckAnswer(reader, worker, tuple(streams.values()))
        finally:
            reader.close()
            del reader


@contextlib.contextmanager
def _own_errors(streams: Sequence[_Stream]) -> Iterator[None]:
    """Raise the error of a scan as it is, and an error of DuckDB as one sentence."""
    import duckdb

    try:
        yield
    except (duckdb.Error, OSError) as error:
        ours = next((stream.error for stream in streams if stream.error is not None), None)
        if ours is not None:
            raise ours from None
        line = next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
        raise InvalidInputError(f"DuckDB cannot answer the statement: {line}.") from None
