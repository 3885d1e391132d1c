"""How a Paimon table looks on a terminal: its levels as bars, a plan as the runs that are taken and where they go."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Any

from packstone.cli.draw_parts import BAR_CELLS, bar, draw_reasons, draw_score, name_text, plain_table
from packstone.cli.output import many, plain_text
from packstone.model.exact_size import ExactSize
from packstone.model.sizes import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.model.outcome import BucketOutcome, Outcome, UnitOutcome
    from packstone.service.paimon_health import PaimonHealth

_DRAWN_BUCKETS = 2  # more than these are rows of a table
_SHOWN_BUCKETS = 15
_SHOWN_RUNS = 12
_SHOWN_HAZARDS = 15
_SHOWN_WORST = 6
_RUN = re.compile(r"(?:L(?P<level>\d+) )?(?:(?P<files>\d+) files|(?P<name>.+)) (?P<size>\d+[KMGT]?B)")


class _Run:
    """One sorted run of a plan (all files of an append table's bucket count as one), and whether it is taken."""

    def __init__(self, line: str) -> None:
        found = _RUN.fullmatch(line)
        self.level = f"L{found['level']}" if found and found["level"] else ""
        self.name = found["name"] if found else line
        self.files = int(found["files"]) if found and found["files"] else 1
        self.size_bytes = int(ExactSize.parse(found["size"])) if found else 0
        self.is_taken = False


def draw_buckets(console: Any, outcome: Outcome) -> None:  # noqa: ANN401 - a rich console
    """Draw what is planned, bucket by bucket: a few with all their runs, many as a table."""
    units: dict[str, list[UnitOutcome]] = {}
    for unit in outcome.units:
        units.setdefault(unit.partition, []).append(unit)
    if len(outcome.buckets) <= _DRAWN_BUCKETS:
        for bucket in outcome.buckets:
            _draw_bucket(console, bucket, _read_runs(bucket, units.get(bucket.bucket, [])))
        return
    has_upgrades = any(bucket.upgraded_files for bucket in outcome.buckets)
    right = ("to rewrite", "upgraded") if has_upgrades else ("to rewrite",)
    table = plain_table("bucket", "why", "runs before", "after", right=right)
    for bucket in outcome.buckets[:_SHOWN_BUCKETS]:
        runs = _read_runs(bucket, units.get(bucket.bucket, []))
        table.add_row(
            name_text(bucket.bucket),
            f"[cyan]{bucket.reason}[/]",
            _before(runs),
            _after(bucket, runs, bins=len(units.get(bucket.bucket, []))),
            format_bytes(bucket.rewrite_bytes),
            *((many(bucket.upgraded_files, "file"),) if has_upgrades else ()),
        )
    console.print(table)
    if len(outcome.buckets) > _SHOWN_BUCKETS:
        more = len(outcome.buckets) - _SHOWN_BUCKETS
        console.print(f"… and {many(more, 'more bucket')}, see --format json", style="dim")


def draw_paimon_health(console: Any, health: PaimonHealth) -> None:  # noqa: ANN401 - a rich console
    """Draw the state of a table."""
    is_tree = health.kind == "primary key"
    kind = "table with a primary key" if is_tree else "append table"
    newest = f"snapshot {health.snapshot:,} ({health.snapshots:,} kept)" if health.snapshot else "no snapshot yet"
    draw_score(console, health.score, health.table)
    console.print(f"Paimon {kind}, {newest}")
    where = many(health.buckets, "bucket")
    where = f"{where} of {many(health.partitions, 'partition')}" if health.partitions > 1 else where
    rows = f", {many(health.rows, 'row')}" if not is_tree else ""
    if health.files:
        console.print(f"{many(health.files, 'file')} in {where}, {format_bytes(health.bytes)}{rows}")
    if health.files and not is_tree:
        console.print(f"{health.small_files:,} are small; {health.ideal_files:,} would do")
    if health.files and is_tree:
        console.print(f"{many(health.rows, 'row')} stored, {health.delete_rows:,} of them delete markers")
        most = many(health.max_runs, "sorted run")
        console.print(f"at most {most} in a bucket; a minor compaction begins at {health.trigger}")
        _draw_levels(console, health)
    _draw_worst(console, health, is_tree=is_tree)
    draw_reasons(console, ((h["hazard"], "yellow", h["where"], h["evidence"]) for h in health.hazards[:_SHOWN_HAZARDS]))
    if len(health.hazards) > _SHOWN_HAZARDS:
        console.print(f"… and {len(health.hazards) - _SHOWN_HAZARDS:,} more hazards, see --format json", style="dim")


def _draw_levels(console: Any, health: PaimonHealth) -> None:  # noqa: ANN401 - a rich console
    most = max(health.levels.values())
    for level, count in sorted(health.levels.items()):
        console.print(f"  L{level} [cyan]{bar(count, most, cells=BAR_CELLS)}[/] {many(count, 'file')}")


def _draw_worst(console: Any, health: PaimonHealth, *, is_tree: bool) -> None:  # noqa: ANN401 - a rich console
    if health.buckets <= 1:
        return
    table = plain_table("worst buckets", right=("runs", "files", "bytes") if is_tree else ("files", "bytes"))
    for one in health.worst[:_SHOWN_WORST]:
        runs = (f"{one.runs:,}",) if is_tree else ()
        table.add_row(name_text(one.bucket), *runs, f"{one.files:,}", format_bytes(one.bytes))
    if health.buckets > _SHOWN_WORST:
        table.add_row("[dim]…[/]")
    console.print(table)


def _draw_bucket(console: Any, bucket: BucketOutcome, runs: list[_Run]) -> None:  # noqa: ANN401 - a rich console
    from rich.text import Text

    goal = f" → {bucket.output}" if runs[0].level else ""
    console.print(Text.assemble((plain_text(bucket.bucket), "bold"), "  ", (bucket.reason, "cyan"), goal))
    most = max(run.size_bytes for run in runs)
    for run in runs[:_SHOWN_RUNS] if runs[0].level else ():
        mark = "[bold]●[/]" if run.is_taken else " "
        drawn = bar(run.size_bytes, most, cells=BAR_CELLS)
        size = format_bytes(run.size_bytes)
        files = f"  {run.files:,} files" if run.files > 1 else ""
        colour = "cyan" if run.is_taken else "dim"
        console.print(f"  {mark} {run.level} [{colour}]{drawn}[/] {size:>9}{files}")
    if len(runs) > _SHOWN_RUNS:
        console.print(f"  … and {many(len(runs) - _SHOWN_RUNS, 'more run')}", style="dim")
    upgraded = f", {many(bucket.upgraded_files, 'file')} merely upgraded" if bucket.upgraded_files else ""
    cost = f"{format_bytes(bucket.rewrite_bytes)} to rewrite{upgraded}"
    draw_reasons(console, [("  why", "dim", "", bucket.why), ("  cost", "dim", "", cost)])


def _read_runs(bucket: BucketOutcome, units: list[UnitOutcome]) -> list[_Run]:
    """Read a plan's lines back and tell which runs its work touches; files of bigger runs are told by their number."""
    runs = [_Run(line) for line in bucket.runs]
    inputs = {name for unit in units for name in unit.inputs}
    for run in runs:
        run.is_taken = run.name in inputs
    others = len(inputs) - sum(run.is_taken for run in runs)
    for run in runs:  # newest first, as strategies take them
        if run.files > 1 and others > 0:
            run.is_taken, others = True, others - run.files
    return runs


def _before(runs: list[_Run]) -> str:
    """Count neighbours of one level together: ``5 × L0, L5``."""
    if not runs[0].level:
        return many(runs[0].files, "file")
    return ", ".join(_levels(run.level for run in runs))


def _after(bucket: BucketOutcome, runs: list[_Run], *, bins: int) -> str:
    if not runs[0].level:
        return f"merged in {many(bins, 'bin')}"
    left = {bucket.output, *(run.level for run in runs if not run.is_taken)}
    return ", ".join(sorted(left, key=lambda level: int(level[1:])))


def _levels(levels: Iterator[str]) -> Iterator[str]:
    for level, same in groupby(levels):
        count = len(list(same))
        yield level if count == 1 else f"{count} × {level}"
