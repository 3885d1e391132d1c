r"""``packstone query PATH "SELECT …"``: open the table, parse the statement, print the rows as they come.

CSV and JSON are printed batch by batch, so that an answer of any length needs little memory. CSV: a header, commas,
null as nothing and an empty text as ``""``, bytes as ``\x`` and hexadecimal digits, so that `segments load` reads all
of them back unchanged. JSON: an array for each row, in the order of ``columns``. Times are ISO 8601; decimals, and
numbers that JSON does not have (NaN), are texts; bytes are hexadecimal digits; a map is an array of pairs.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.output import make_console, plain_text, short_path, show
from packstone.cli.targets import read_spark_settings
from packstone.errors import InvalidInputError, SeveralTablesError
from packstone.model.sizes import format_bytes, plural
from packstone.storage.stores import open_store
from packstone.tables.families import find_table, is_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa

    from packstone.pipeline.query import TableQuery
    from packstone.pipeline.scan import ScanReport
    from packstone.pipeline.table import Table


@click.command("query", short_help="Query a segment or Paimon table; explain what is skipped.")
@click.argument("path", metavar="PATH")
@click.argument("statement", metavar="STATEMENT")
@click.option("--explain", is_flag=True, help="Show what would be read, what is skipped, and why; read no rows.")
@options.time_travel_options
@click.option(
    "--timezone",
    default="UTC",
    show_default=True,
    metavar="ZONE",
    help="Use this time zone for times in the statement without one.",
)
@options.engine_options
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Print the rows as a table (the first 100), JSON or CSV.",
)
@options.debug_option
def command(path: str, statement: str, **typed: Any) -> int:
    """Run STATEMENT on the table at PATH: "SELECT id, name FROM t WHERE id = 5".

    Any name after FROM is the table at PATH; `packstone sql` reads several tables. A scan answers columns with WHERE
    and LIMIT, and count(*); DuckDB or Spark answers the rest of SQL. Only row groups that may contain matching rows
    are read.
    """
    from packstone.pipeline.query import query_table

    table = open_scanned(path)
    return run_query(lambda given: query_table(table, statement, **given), typed)


def run_query(prepare: Callable[[dict[str, Any]], TableQuery], typed: dict[str, Any]) -> int:
    """Run a statement, or show what it would read."""
    if typed["version"] is not None and typed["as_of"] is not None:
        raise InvalidInputError("Give either --version or --as-of.")
    given = {name: typed[name] for name in ("version", "as_of", "timezone")}
    query = prepare({**given, "engine": typed.get("engine"), "settings": lambda: read_spark_settings(typed)})
    if typed["explain"]:
        _explain(query, typed["output_format"])
        return 0
    with query.run() as (schema, batches):
        match typed["output_format"]:
            case "csv":
                print_csv(schema, batches, echo=click.echo)
            case "json":
                print_json(_head(query), schema, batches, echo=click.echo)
            case _:
                draw_rows(make_console(), schema, batches, engine=query.engine)
    return 0


def _head(query: TableQuery) -> dict[str, Any]:
    """What JSON says before the rows; an answer from several tables names each of them."""
    scans = [{"table": scan.table, "family": scan.family, "version": scan.version} for scan in query.scans]
    several = {"tables": scans} if len({scan["table"] for scan in scans}) > 1 else scans[0]
    return {"format_version": 1, **several, "engine": query.engine}


def _explain(query: TableQuery, output_format: str) -> None:
    if output_format == "csv":
        raise InvalidInputError("--explain has no rows to print as CSV; give --format table or json.")
    reports = query.explain()
    answered = {"engine": query.engine, "engine_why": query.why}
    plain = {**reports[0].to_json(), **answered}
    if len(reports) > 1:
        plain = {"format_version": 1, **answered, "scans": [report.to_json() for report in reports]}

    def draw(console: Any) -> None:
        from rich.text import Text

        for report in reports:
            draw_scan(console, report)
        if query.why:
            console.print(Text.assemble(("engine  ", "dim"), f"{ENGINES[query.engine]}, for {plain_text(query.why)}"))

    show(plain, output_format=output_format, draw=draw)


def open_scanned(path: str) -> Table:
    """Open a table whose rows can be scanned."""
    from packstone.pipeline.open import open_table

    try:
        table = open_table(path, history=None)
    except SeveralTablesError as several:
        raise _only_scanned(several) from None
    if not table.family_row.is_scanned:
        hint = "; read it with Spark or DuckDB" if is_plain(table.family_row) else ", which cannot be queried"
        what = f"{table.path} is {table.family_row.singular}{hint}."
        raise InvalidInputError(what, path=table.path)
    return table


def _only_scanned(several: SeveralTablesError) -> InvalidInputError:
    """Return the error for a folder of tables with only those tables that can be queried."""
    folder = several.facts["path"]
    io = open_store(folder)
    tables = tuple(table for table in several.facts["tables"] if find_table(io, table)[0].is_scanned)
    what = f"{folder} is not a table but a folder of tables"
    if not tables:
        return InvalidInputError(f"{what}, and `packstone query` reads none of them.", path=folder)
    facts = {**several.facts, "tables": tables}
    return SeveralTablesError(f"{what}; give one of those that can be queried.", **facts)


# ---- on a terminal ----

MOST_ROWS = 100
ENGINES = {"scan": "", "duckdb": "DuckDB", "spark": "Spark"}


def draw_rows(console: Any, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, engine: str = "scan") -> None:
    """Draw the first rows, and who answered; numbers are right-aligned."""
    from rich.text import Text

    from packstone.cli.draw import name_text, plain_table

    table = plain_table(right=())
    for field in schema:
        is_number = _is_number(field.type)
        table.add_column(
            name_text(field.name), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    shown = 0
    for row in islice(rows, MOST_ROWS):
        table.add_row(*(Text("null", style="dim") if value is None else Text(_text(value)) for value in row))
        shown += 1
    console.print(table)
    if shown == MOST_ROWS and next(rows, None) is not None:
        console.print(f"the first {MOST_ROWS} rows; give LIMIT, or --format csv or json for all", style="dim")
        return
    by = f", by {ENGINES[engine]}" if ENGINES[engine] else ""
    console.print(f"{plural(shown, 'row')}{by}", style="dim")


def draw_scan(console: Any, report: ScanReport) -> None:
    """Draw what would be read: a line for each level of pruning, and a bar for the bytes."""
    from rich.text import Text

    from packstone.cli.draw import BAR_CELLS, bar, name_text, plain_table

    pruned = report.pruned
    version = "snapshot" if report.family == "paimon" else "version"
    console.print(Text.assemble(("scan", "bold"), f"  {short_path(report.table)}  {version} {report.version}"))
    for label, text in (("filter", pruned.filter), ("columns", ", ".join(pruned.columns))):
        console.print(Text.assemble((f"{label:<8}", "dim"), plain_text(text) or "none"))
    for part in report.unpushed:
        console.print(Text.assemble(("refused ", "yellow"), plain_text(f"{part}: only Spark can test this")))
    levels = plain_table("level", right=("read", "of"))
    levels.add_column("chosen", overflow="fold")
    for level in pruned.levels:
        levels.add_row(level.name, f"{level.kept:,}", f"{level.total:,}", Text(plain_text(level.how), style="dim"))
    levels.add_row("rows", f"{pruned.kept_rows:,}", f"{pruned.total_rows:,}", "")
    console.print(levels)
    if pruned.predicates:
        effects = plain_table("part of the filter", right=("excludes alone",))
        for effect in pruned.predicates:
            effects.add_row(name_text(effect.predicate), f"{effect.excluded:,} {effect.level}")
        console.print(effects)
    drawn = bar(pruned.read_bytes, pruned.total_bytes, cells=BAR_CELLS)
    sizes = f" {format_bytes(pruned.read_bytes)} of {format_bytes(pruned.total_bytes)}"
    console.print(Text.assemble(("bytes   ", "dim"), (drawn.rstrip(), "cyan"), sizes))
    merged = f", {pruned.merged_splits} of them merged" if pruned.merged_splits else ""
    console.print(Text.assemble(("splits  ", "dim"), f"{pruned.splits:,}{merged}"))
    _draw_caches(console, report)


def _draw_caches(console: Any, report: ScanReport) -> None:
    from rich.text import Text

    used = [(name, stats) for name, stats in report.caches if stats.hits or stats.misses]
    texts = [
        f"{name} {plural(stats.entries, 'entry').replace('entrys', 'entries')} {format_bytes(stats.bytes)} of "
        f"{format_bytes(stats.limit_bytes)}, {plural(stats.hits, 'hit')}, {plural(stats.loads, 'load')}"
        for name, stats in used
    ]
    for at, text in enumerate(texts):
        console.print(Text.assemble(("caches  " if at == 0 else "        ", "dim"), (text, "dim")))


def _is_number(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _text(value: Any) -> str:
    plain = plain_value(value)
    return plain_text(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


# ---- as CSV and JSON ----

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
    first = next(rows, None)  # most errors occur before the first row, when nothing is printed yet
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
    """Return the Spark name of a column's type, or the Arrow name if Spark has no such type."""
    import pyarrow as pa

    from packstone.tables.segments.format.columns import columns_from_arrow

    try:
        return columns_from_arrow(pa.schema([field]))[0].type_text
    except InvalidInputError:
        return str(field.type)


def plain_value(value: Any) -> Any:
    """Return a value as JSON represents it."""
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
    """Return a timestamp in UTC with its offset, or a local time without one."""
    return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()


def _csv_value(value: Any) -> Any:
    return f"\\x{value.hex().upper()}" if isinstance(value, bytes) else plain_value(value)


def _float_text(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[list[Any]]:
    for batch in batches:
        columns = [[plain_value(value) for value in column.to_pylist()] for column in batch.columns]
        yield from map(list, zip(*columns, strict=True))


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else json.dumps(value)
    needs_quotes = not text or not _QUOTED.isdisjoint(text) or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text
