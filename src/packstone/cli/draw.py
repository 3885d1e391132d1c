"""Draw outcomes and health on a terminal: the status first, one line for each reason.

Long lists are cut, so that the result fits on a screen; ``--format json`` has all of it. For Paimon tables a plan shows
the sorted runs of each bucket, which of them are merged, and the level of the output.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.columns import Columns
from rich.measure import Measurement
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from packstone.cli.output import plain_text, short_path
from packstone.model.outcome import Outcome, SkipKind, Skipped, Status
from packstone.model.sizes import ExactSize, format_bytes, format_duration, plural
from packstone.model.unit import How, Verify
from packstone.strategy.small_files import DEFAULT_MIN_FILES
from packstone.tables.families import find_family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console

    from packstone.model.health import Fact, Hazard, Health, Histogram, Report, WorstParts
    from packstone.model.outcome import BucketOutcome, EngineUse, UnitOutcome
    from packstone.tables.hive.health import HiveHealth

_SHOWN_ROWS = 15
_SHOWN_SNAPSHOTS = 5
_SHOWN_QUIET = 3
_NAMED = 3  # things that are left alone for the same reason
_MAP_CELLS = (8, 24)  # minimum and maximum width of a map
SEGMENTS = "segments"
_STYLE = {
    Status.COMMITTED: "bold green",
    Status.PLANNED: "bold cyan",
    Status.NOTHING_TO_DO: "bold green",
    Status.PARTIAL: "bold yellow",
    Status.REFUSED: "bold yellow",
    Status.CONFLICT: "bold yellow",
    Status.FAILED: "bold red",
}
_QUIET = (SkipKind.NOT_NEEDED, SkipKind.FILTERED)
_LABEL = {
    SkipKind.NOT_NEEDED: ("not needed", "dim"),
    SkipKind.FILTERED: ("left out", "dim"),
    SkipKind.LEFT_ALONE: ("left alone", "yellow"),
    SkipKind.REFUSED: ("refused", "yellow"),
    SkipKind.UNREADABLE: ("unreadable", "yellow"),
    SkipKind.CONFLICT: ("conflict", "yellow"),
    SkipKind.FAILED: ("failed", "bold red"),
}


def draw_outcome(console: Any, outcome: Outcome) -> None:
    """Draw the outcome of plan, compact or merge."""
    console.print(
        Text.assemble((outcome.status.value, _STYLE[outcome.status]), "  ", outcome.name or short_path(outcome.table))
    )
    if outcome.buckets:
        draw_buckets(console, outcome)
    elif outcome.units and outcome.family == SEGMENTS:
        from packstone.cli.draw_segments import draw_merges

        draw_merges(console, outcome, most=_SHOWN_ROWS)
    elif outcome.units:
        _draw_units(console, outcome)
    _draw_bigger(console, outcome)
    _draw_skipped(console, outcome)
    if outcome.units:
        _draw_before_after(console, outcome)
    elif not _is_said(outcome):
        console.print(outcome.message, markup=False)
    if outcome.reused:
        console.print(f"{plural(outcome.reused, 'merge')} of a killed run proved and reused", style="dim", markup=False)
    for line in outcome.recovered:
        console.print(f"recovered first: {plain_text(line)}", style="dim", markup=False)


def _is_said(outcome: Outcome) -> bool:
    """Whether the message is printed elsewhere: as a reason, or on stderr as the last line of an interrupted run."""
    return any(outcome.message == skip.why for skip in outcome.skipped) or bool(outcome.interrupted and outcome.skipped)


def draw_maps(console: Any, before: HiveHealth, after: HiveHealth) -> None:
    """Draw the partitions of a table before and after, side by side, a square for each file or group of files."""
    most = max((one.files for one in before.worst), default=1)
    frame = max((len(part_name(one.partition)) for one in before.worst), default=1) + len(f"{most:,}") + 6
    cells = min(max(_MAP_CELLS[0], (console.width - 1) // 2 - frame), _MAP_CELLS[1])
    files_a_square = max(1, -(-most // cells))
    panels = []
    for title, health in (("before", before), ("after", after)):
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True, width=cells)
        grid.add_column(justify="right", no_wrap=True)
        for one in sorted(health.worst, key=lambda one: one.partition):
            colour = "green" if one.files < DEFAULT_MIN_FILES else score_colour(one.score)
            squares = "■" * -(-one.files // files_a_square)
            grid.add_row(name_text(part_name(one.partition)), Text(squares, style=colour), f"{one.files:,}")
        colour = score_colour(health.score)
        head = f"[not dim bold]{title}[/]  [not dim {colour}]{plural(health.files, 'file')}, health {health.score}[/]"
        panels.append(Panel(grid, title=head, title_align="left", border_style="dim", expand=False))
    console.print(Columns(panels, padding=(0, 1)))
    scale = "one file" if files_a_square == 1 else f"up to {files_a_square} files"
    console.print(f"■ is {scale}", style="dim")


def draw_lines(console: Any, lines: list[str]) -> None:
    """Draw plain sentences."""
    for line in lines:
        console.print(plain_text(line), markup=False, soft_wrap=True)


def _draw_units(console: Any, outcome: Outcome) -> None:
    planned = outcome.status is Status.PLANNED
    family = find_family(outcome.family)
    table = plain_table(family.part if family is not None else "part", "how", right=("files", "bytes"))
    if planned:
        table.add_column("why")
    else:
        table.add_column("rows", justify="right")
        table.add_column("fingerprint", no_wrap=True)
    for unit in outcome.units[:_SHOWN_ROWS]:
        details = (name_text(unit.why),) if planned else (f"{unit.rows:,}", short_fingerprint(unit, outcome.verified))
        size = format_bytes(unit.bytes_before)
        size = size if planned else f"{size} → {format_bytes(unit.bytes_after)}"
        made = len(unit.outputs) if unit.outputs or not planned else 1
        table.add_row(
            name_text(part_name(unit.partition)), unit.how, f"{len(unit.inputs):,} → {made:,}", size, *details
        )
    console.print(table)
    if len(outcome.units) > _SHOWN_ROWS:
        console.print(f"… and {len(outcome.units) - _SHOWN_ROWS:,} more, see --format json", style="dim")


def _draw_bigger(console: Any, outcome: Outcome) -> None:
    """Draw the reasons why outputs are bigger than their inputs."""
    bigger = [unit for unit in outcome.units if unit.why_bigger]
    draw_reasons(console, (("bigger", "yellow", unit.partition, unit.why_bigger) for unit in bigger[:_SHOWN_ROWS]))
    if len(bigger) > _SHOWN_ROWS:
        console.print(f"… and {len(bigger) - _SHOWN_ROWS:,} more that grew, see --format json", style="dim")


def _draw_skipped(console: Any, outcome: Outcome) -> None:
    loud = _joined((skip for skip in outcome.skipped if skip.kind not in _QUIET), named=_NAMED)
    quiet = _joined((skip for skip in outcome.skipped if skip.kind in _QUIET), named=1)
    shown = quiet[: _SHOWN_QUIET if outcome.units else _SHOWN_ROWS]
    draw_reasons(console, (_reason(skip, outcome.table) for skip, _ in (*loud[:_SHOWN_ROWS], *shown)))
    if len(loud) > _SHOWN_ROWS:
        more = sum(count for _, count in loud[_SHOWN_ROWS:])
        console.print(f"… and {more:,} more, see --format json", style="dim")
    if len(quiet) > len(shown):
        console.print(f"… and {len(quiet) - len(shown):,} more that are not needed or left out", style="dim")


def _joined(skips: Iterable[Skipped], *, named: int) -> list[tuple[Skipped, int]]:
    """Join skips with the same reason into one, which names the first of them; return each with their number."""
    same: dict[tuple[SkipKind, str], list[Skipped]] = {}
    for skip in skips:
        # The reason may contain the path of what it is about, which differs.
        same.setdefault((skip.kind, skip.why.replace(f"/{skip.what}", "/")), []).append(skip)
    return [(_join(tuple(alike), named) if len(alike) > 1 else alike[0], len(alike)) for alike in same.values()]


def _join(alike: tuple[Skipped, ...], named: int) -> Skipped:
    first, *others = alike
    tail = _tail(first.what, first.why)
    if tail.startswith(": "):
        return replace(first, what=_names(alike, named), why=tail.removeprefix(": "))
    same = f"{first.what}{tail.removesuffix('.')}. The same for {_names(others, named)}."
    return replace(first, what="", why=same)


def _names(skips: Sequence[Skipped], most: int) -> str:
    more = f" and {len(skips) - most:,} more" if len(skips) > most else ""
    return f"{', '.join(skip.what for skip in skips[:most])}{more}"


def _draw_before_after(console: Any, outcome: Outcome) -> None:
    most = max(outcome.files_before, 1)
    for label, colour, files, size in (
        ("before", "red", outcome.files_before, outcome.bytes_before),
        ("after", "green", outcome.files_after, outcome.bytes_after),
    ):
        drawn = bar(files, most, cells=BAR_CELLS)
        console.print(f"{label:<7}[{colour}]{drawn}[/] {plural(files, 'file'):>17}  {format_bytes(size):>9}")
    if outcome.status is Status.PLANNED:
        cost = outcome.cost
        console.print(
            f"cost   read {format_bytes(cost.read_bytes)}, write about {format_bytes(cost.write_bytes)}, "
            f"verify {format_bytes(cost.verify_bytes)}; needs {format_bytes(cost.staging_bytes)} free"
        )
        return
    if outcome.verified == "none":
        console.print("proof  no file was written: files only moved to another level")
    else:
        console.print(f"proof  {plural(outcome.rows, 'row')} verified by {outcome.verified} [green]✓[/]")
    console.print(
        f"time   {format_duration(outcome.seconds)}, verifying took {format_duration(outcome.verify_seconds)} of task "
        f"time{_gap(outcome)}"
    )
    draw_engine(console, outcome.engine)
    if outcome.versions:
        took = format_duration(outcome.commit_ms / 1000)
        console.print(f"commit {_versions(outcome)} in {took}; readers see no gap")
    if outcome.run:
        target = outcome.name if outcome.undo_by_name else short_path(outcome.table)
        undo = f"undo   packstone restore {outcome.run} {quote(target)}"
        console.print(undo, style="dim", markup=False, soft_wrap=True)


def _gap(outcome: Outcome) -> str:
    """Return how long readers could see a partition incomplete; a snapshot or a version leaves no gap."""
    if outcome.versions:
        return ""
    swaps = len({unit.partition for unit in outcome.units})
    return f"; readers' gap {format_duration(outcome.reader_gap_ms / 1000 / max(1, swaps))} per partition"


def _versions(outcome: Outcome) -> str:
    """Name the snapshots or versions that a run published."""
    family, numbers = find_family(outcome.family), outcome.versions
    noun = family.version if family is not None else "version"
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    named = ", ".join(map(str, numbers)) if len(numbers) <= _SHOWN_SNAPSHOTS else f"{numbers[0]} to {numbers[-1]}"
    return f"{len(numbers)} {noun}s ({named})"


def _reason(skip: Skipped, table: str) -> tuple[str, str, str, str]:
    """Return a skip as a line; without the name if it is the table itself, which the first line names."""
    label, style = _LABEL[skip.kind]
    return label, style, "" if skip.what == table else skip.what, skip.why


# ---- buckets of a Paimon table ----

_DRAWN_BUCKETS = 2  # more buckets are drawn as rows of a table
_SHOWN_BUCKETS = 15
_SHOWN_RUNS = 12
_RUN = re.compile(r"(?:L(?P<level>\d+) )?(?:(?P<files>\d+) files|(?P<name>.+)) (?P<size>\d+[KMGT]?B)")


class _Run:
    """One sorted run of a plan, and whether it is merged; all files of an append table's bucket count as one run."""

    def __init__(self, line: str) -> None:
        found = _RUN.fullmatch(line)
        self.level = f"L{found['level']}" if found and found["level"] else ""
        self.name = found["name"] if found else line
        self.files = int(found["files"]) if found and found["files"] else 1
        self.size_bytes = int(ExactSize.parse(found["size"])) if found else 0
        self.is_merged = False


def draw_buckets(console: Any, outcome: Outcome) -> None:
    """Draw a plan bucket by bucket: a few buckets with all their runs, many as a table."""
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
            *((plural(bucket.upgraded_files, "file"),) if has_upgrades else ()),
        )
    console.print(table)
    if len(outcome.buckets) > _SHOWN_BUCKETS:
        more = len(outcome.buckets) - _SHOWN_BUCKETS
        console.print(f"… and {plural(more, 'more bucket')}, see --format json", style="dim")


def _draw_bucket(console: Any, bucket: BucketOutcome, runs: list[_Run]) -> None:
    goal = f" → {bucket.output}" if runs[0].level else ""
    console.print(Text.assemble((plain_text(bucket.bucket), "bold"), "  ", (bucket.reason, "cyan"), goal))
    most = max(run.size_bytes for run in runs)
    for run in runs[:_SHOWN_RUNS] if runs[0].level else ():
        mark = "[bold]●[/]" if run.is_merged else " "
        drawn = bar(run.size_bytes, most, cells=BAR_CELLS)
        size = format_bytes(run.size_bytes)
        files = f"  {run.files:,} files" if run.files > 1 else ""
        colour = "cyan" if run.is_merged else "dim"
        console.print(f"  {mark} {run.level} [{colour}]{drawn}[/] {size:>9}{files}")
    if len(runs) > _SHOWN_RUNS:
        console.print(f"  … and {plural(len(runs) - _SHOWN_RUNS, 'more run')}", style="dim")
    upgraded = f", {plural(bucket.upgraded_files, 'file')} only upgraded" if bucket.upgraded_files else ""
    cost = f"{format_bytes(bucket.rewrite_bytes)} to rewrite{upgraded}"
    draw_reasons(console, [("  why", "dim", "", bucket.why), ("  cost", "dim", "", cost)])


def _read_runs(bucket: BucketOutcome, units: list[UnitOutcome]) -> list[_Run]:
    """Parse the runs of a plan and mark those that it merges.

    A run of one file has a name, which is compared with the inputs. A run of several files has only their number, so
    the remaining inputs are attributed to such runs in order.
    """
    runs = [_Run(line) for line in bucket.runs]
    inputs = {name for unit in units for name in unit.inputs}
    for run in runs:
        run.is_merged = run.name in inputs
    others = len(inputs) - sum(run.is_merged for run in runs)
    for run in runs:  # newest first, as strategies pick them
        if run.files > 1 and others > 0:
            run.is_merged, others = True, others - run.files
    return runs


def _before(runs: list[_Run]) -> str:
    """Describe the runs by level, with adjacent runs of one level counted: ``5 × L0, L5``."""
    if not runs[0].level:
        return plural(runs[0].files, "file")
    return ", ".join(_levels(run.level for run in runs))


def _after(bucket: BucketOutcome, runs: list[_Run], *, bins: int) -> str:
    if not runs[0].level:
        return f"merged in {plural(bins, 'bin')}"
    left = {bucket.output, *(run.level for run in runs if not run.is_merged)}
    return ", ".join(sorted(left, key=lambda level: int(level[1:])))


def _levels(levels: Iterator[str]) -> Iterator[str]:
    for level, same in groupby(levels):
        count = len(list(same))
        yield level if count == 1 else f"{count} × {level}"


# ---- building blocks ----
# The building blocks of all terminal output: bars, tables without lines, and reasons that wrap well.


BAR_CELLS = 32
_EIGHTHS = " ▏▎▍▌▋▊▉"
_FINGERPRINT_DIGITS = 12  # enough to compare two by eye; all 32 are in the JSON and in the journal
_GOOD_SCORE, _FAIR_SCORE = 75, 40


def draw_reasons(console: Any, reasons: Iterable[tuple[str, str, str, str]]) -> None:
    """Draw one line for each (label, style, what, why); a long text wraps below its own start."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, style, what, why in reasons:
        grid.add_row(Text(label, style=style), Text(_sentence(what, why), style="dim" if style == "dim" else ""))
    if grid.row_count:
        console.print(grid)


def plain_table(*left: str, right: tuple[str, ...]) -> Any:
    """Return a table without lines: columns of names, then columns of numbers."""
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for name in left:
        table.add_column(name, overflow="fold")  # a truncated name would be useless
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def name_text(name: str) -> Any:
    """Return a name as printable text on one line, without markup."""
    return Text(plain_text(name))


def part_name(partition: str) -> str:
    """Return the name of a partition; a table without partitions is its own only one."""
    return partition or "(table)"


def bar(count: int, most: int, *, cells: int) -> str:
    """Return a bar with a resolution of an eighth of a cell; any count above 0 gets at least an eighth."""
    eighths = round(8 * cells * count / most) if most else 0
    if count:
        eighths = max(1, eighths)
    drawn = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return f"{drawn:<{cells}}"


def score_colour(score: int) -> str:
    """Return the colour of a score."""
    if score >= _GOOD_SCORE:
        return "green"
    return "yellow" if score >= _FAIR_SCORE else "red"


def short_fingerprint(unit: UnitOutcome, verified: str) -> str:
    """Return the first digits of a fingerprint, or why there is none."""
    if unit.how == How.UPGRADE:
        return "same file"
    digits = unit.fingerprint.rpartition(" ")[2]
    if not digits:  # a merge that was split into tasks has one fingerprint for each part
        return "counted" if verified == Verify.COUNT else "in parts"
    return f"{digits[:_FINGERPRINT_DIGITS]}…"


def _sentence(what: str, why: str) -> str:
    """Join a name and its reason."""
    what, why = plain_text(what), plain_text(why)
    return f"{what}{_tail(what, why)}" if what else why


def _tail(what: str, why: str) -> str:
    """Return a reason as it follows a name; if it starts with the full path of the name, the path is not repeated."""
    before, found, rest = why.partition(what)
    if found and before.startswith("/") and before.endswith("/"):
        return f": {rest[1:]}" if rest.startswith("/") else rest
    return f": {why}"


def draw_engine(console: Any, engine: EngineUse | None) -> None:
    """Draw which engine ran the tasks, and why."""
    if engine is not None:
        console.print(f"engine {engine}", markup=False)


# ---- health, of every family ----

_SHOWN_HAZARDS = 15
_SHOWN_PARTS = 6
_HISTOGRAM_CELLS = 20
_GUTTER = 4


def draw_health(console: Console, health: Health) -> None:
    """Draw the state of a table."""
    report = health.report()
    _draw_score(console, report)
    for fact in report.facts:
        console.print(_fact_text(fact))
    _draw_figures(console, report)
    _draw_hazards(console, report.hazards)
    for note in report.notes:
        console.print(plain_text(note), style="dim", markup=False)


def _draw_score(console: Console, report: Report) -> None:
    colour = score_colour(report.score)
    filled = round(BAR_CELLS * report.score / 100)
    console.print(
        Text.assemble(
            ("health ", "bold"),
            ("█" * filled, colour),
            ("─" * (BAR_CELLS - filled), "dim"),
            (f" {report.score}", f"bold {colour}"),
            " of 100  ",
            short_path(report.table),
        )
    )


def _fact_text(fact: Fact) -> Text:
    before, strong, after = fact.text.partition(fact.strong) if fact.strong else (fact.text, "", "")
    return Text.assemble(plain_text(before), (plain_text(strong), "bold"), plain_text(after))


def _draw_figures(console: Console, report: Report) -> None:
    """Draw the histogram on the left and the worst parts on the right, or below on a narrow terminal."""
    tables = []
    if report.histogram is not None:
        tables.append(_histogram_table(report.histogram))
    if report.worst is not None:
        tables.append(_worst_table(report.worst))
    tables = [table for table in tables if table.row_count]
    width = sum(Measurement.get(console, console.options, table).maximum + _GUTTER for table in tables) - _GUTTER
    if width > console.width:
        for table in tables:
            console.print(table)
    elif tables:
        side_by_side = Table.grid(padding=(0, _GUTTER))
        side_by_side.add_row(*tables)
        console.print(side_by_side)


def _histogram_table(histogram: Histogram) -> Table:
    """Return a table with a bar for each class, from the first to the last class that is not empty."""
    table: Table = plain_table(histogram.title, "", right=(histogram.unit,))
    filled = [at for at, (_, count) in enumerate(histogram.counts) if count]
    most = max((count for _, count in histogram.counts), default=0)
    for name, count in histogram.counts[filled[0] : filled[-1] + 1] if filled else ():
        drawn = Text(bar(count, most, cells=_HISTOGRAM_CELLS), style="cyan")
        table.add_row(name_text(name), drawn, f"{count:,}")
    return table


def _worst_table(worst: WorstParts) -> Table:
    has_scores = any(part.score is not None for part in worst.parts)
    table: Table = plain_table(worst.title, right=(*worst.columns, "score") if has_scores else worst.columns)
    for part in worst.parts[:_SHOWN_PARTS]:
        score = () if part.score is None else (Text(f"{part.score}", style=score_colour(part.score)),)
        table.add_row(name_text(part_name(part.name)), *map(Text, part.cells), *score)
    if len(worst.parts) > _SHOWN_PARTS:
        table.add_row("[dim]…[/]")
    return table


def _draw_hazards(console: Console, hazards: tuple[Hazard, ...]) -> None:
    shown = ((one.name, "yellow", _place(one.where), one.evidence) for one in hazards[:_SHOWN_HAZARDS])
    draw_reasons(console, shown)
    if len(hazards) > _SHOWN_HAZARDS:
        console.print(f"… and {len(hazards) - _SHOWN_HAZARDS:,} more hazards, see --format json", style="dim")


def _place(where: str) -> str:
    """Return where a hazard is; in a table without partitions, ``.`` is the table."""
    return part_name("") if where == "." else where.removeprefix("./")
