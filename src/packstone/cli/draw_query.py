"""How an answer looks on a terminal, and what a scan leaves out: a line for each level, a bar for the bytes."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from packstone.cli.draw_parts import BAR_CELLS, bar, name_text, plain_table
from packstone.cli.output import many, plain_text, short_path
from packstone.cli.print_rows import plain_value
from packstone.model.sizes import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from packstone.service.table_scan import ScanReport

MOST_ROWS = 100


def draw_rows(console: Any, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:  # noqa: ANN401 - a console
    """Draw the first rows; numbers stand to the right."""
    from rich.text import Text

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
    console.print(many(shown, "row"), style="dim")


def draw_scan(console: Any, report: ScanReport) -> None:  # noqa: ANN401 - a rich console
    """Draw what would be read, level by level."""
    from rich.text import Text

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


def _draw_caches(console: Any, report: ScanReport) -> None:  # noqa: ANN401 - a rich console
    from rich.text import Text

    used = [(name, stats) for name, stats in report.caches if stats.hits or stats.misses]
    texts = [
        f"{name} {many(stats.entries, 'entry').replace('entrys', 'entries')} {format_bytes(stats.bytes)} of "
        f"{format_bytes(stats.limit_bytes)}, {many(stats.hits, 'hit')}, {many(stats.loads, 'load')}"
        for name, stats in used
    ]
    for at, text in enumerate(texts):
        console.print(Text.assemble(("caches  " if at == 0 else "        ", "dim"), (text, "dim")))


def _is_number(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _text(value: Any) -> str:  # noqa: ANN401 - any value of a table
    plain = plain_value(value)
    return plain_text(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))
