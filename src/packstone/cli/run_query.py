"""What ``query`` does: open the table, understand the statement, print the rows as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packstone.cli.draw_query import draw_rows, draw_scan
from packstone.cli.output import make_console, show
from packstone.cli.print_rows import print_csv, print_json
from packstone.errors import InvalidInputError
from packstone.service.open_table import open_table
from packstone.service.paimon_table import PaimonTable
from packstone.service.segment_table import SegmentTable
from packstone.service.table_query import query_table

if TYPE_CHECKING:
    from packstone.service.table_query import TableQuery


def run_query(path: str, statement: str, typed: dict[str, Any]) -> int:
    """Answer a statement, or say what answering it would read."""
    if typed["version"] is not None and typed["as_of"] is not None:
        raise InvalidInputError("Give either --version or --as-of.")
    query = query_table(
        _open(path), statement, version=typed["version"], as_of=typed["as_of"], timezone=typed["timezone"]
    )
    if typed["explain"]:
        _explain(query, typed["output_format"])
        return 0
    batches = query.to_batches()
    match typed["output_format"]:
        case "csv":
            print_csv(query.schema, batches, echo=click.echo)
        case "json":
            scan = query.scan
            head = {"format_version": 1, "table": scan.table, "family": scan.family, "version": scan.version}
            print_json(head, query.schema, batches, echo=click.echo)
        case _:
            draw_rows(make_console(), query.schema, batches)
    return 0


def _explain(query: TableQuery, output_format: str) -> None:
    if output_format == "csv":
        raise InvalidInputError("--explain has no rows to print as CSV; give --format table or json.")
    report = query.explain()
    show(report.to_json(), output_format=output_format, draw=lambda console: draw_scan(console, report))


def _open(path: str) -> SegmentTable | PaimonTable:
    table = open_table(path, history=None)
    if not isinstance(table, SegmentTable | PaimonTable):
        raise InvalidInputError(
            f"{table.path} is neither a segment table nor a Paimon table; read a directory of files with Spark or "
            "DuckDB.",
            path=table.path,
        )
    return table
