"""How results look on a terminal: one glance for the state, one line for each reason, nothing that scrolls away."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Any

from packstone.cli.draw_paimon import draw_buckets
from packstone.cli.draw_parts import (
    BAR_CELLS,
    bar,
    draw_reasons,
    draw_score,
    name_text,
    plain_table,
    score_colour,
    short_fingerprint,
)
from packstone.cli.draw_segments import draw_merges
from packstone.cli.output import many, plain_text, short_path
from packstone.model.outcome import Outcome, Status
from packstone.model.sizes import format_bytes, format_duration
from packstone.model.skipped import SkipKind, Skipped
from packstone.strategy.small_files import DEFAULT_MIN_FILES

if TYPE_CHECKING:
    from packstone.service.health import Health, PartitionHealth

_SHOWN_ROWS = 15
_SHOWN_SNAPSHOTS = 5
_SHOWN_QUIET = 3
_WORST_ROWS = 6
_HISTOGRAM_CELLS = 20
_GUTTER = 4
_MAP_CELLS = (8, 24)  # at least, at most
PAIMON = "paimon"
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


def draw_outcome(console: Any, outcome: Outcome) -> None:  # noqa: ANN401 - a rich console
    """Draw what plan, compact and merge answer."""
    from rich.text import Text

    console.print(
        Text.assemble((outcome.status.value, _STYLE[outcome.status]), "  ", outcome.name or short_path(outcome.table))
    )
    if outcome.buckets:
        draw_buckets(console, outcome)
    elif outcome.units and outcome.family == SEGMENTS:
        draw_merges(console, outcome, most=_SHOWN_ROWS)
    elif outcome.units:
        _draw_units(console, outcome)
    _draw_bigger(console, outcome)
    _draw_skipped(console, outcome)
    if outcome.units:
        _draw_before_after(console, outcome)
    else:
        console.print(outcome.message, markup=False)
    for line in outcome.recovered:
        console.print(f"recovered first: {plain_text(line)}", style="dim", markup=False)
    for reading in outcome.read_times:
        console.print(
            f"read {reading['cache']}: {reading['seconds_before']:.3f} s before, "
            f"{reading['seconds_after']:.3f} s after ({reading['runs']} interleaved runs, {reading['engine']})"
        )


def draw_health(console: Any, health: Health) -> None:  # noqa: ANN401 - a rich console
    """Draw the state of a table."""
    draw_score(console, health.score, health.table)
    console.print(
        f"{many(health.files, 'file')} in {many(health.partitions, 'partition')}, {format_bytes(health.bytes)}; "
        f"{health.small_files:,} ({health.small_pct} %) are small; [bold]{health.ideal_files:,}[/] would do"
    )
    _draw_shape(console, health)
    draw_reasons(
        console,
        ((hazard["hazard"], "yellow", hazard["where"], hazard["evidence"]) for hazard in health.hazards[:_SHOWN_ROWS]),
    )
    if len(health.hazards) > _SHOWN_ROWS:
        console.print(f"… and {len(health.hazards) - _SHOWN_ROWS:,} more hazards, see --format json", style="dim")
    if health.small_files > health.sampled_files:
        console.print(f"looked into {health.sampled_files:,} of {health.small_files:,} small files", style="dim")


def draw_maps(console: Any, before: Health, after: Health) -> None:  # noqa: ANN401 - a rich console
    """Draw the partitions of a table before and after, side by side, in squares of files."""
    from rich.columns import Columns
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    most = max((one.files for one in before.worst), default=1)
    frame = max((len(one.partition) for one in before.worst), default=1) + len(f"{most:,}") + 6
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
            grid.add_row(name_text(one.partition), Text(squares, style=colour), f"{one.files:,}")
        colour = score_colour(health.score)
        head = f"[not dim bold]{title}[/]  [not dim {colour}]{many(health.files, 'file')}, health {health.score}[/]"
        panels.append(Panel(grid, title=head, title_align="left", border_style="dim", expand=False))
    console.print(Columns(panels, padding=(0, 1)))
    scale = "one file" if files_a_square == 1 else f"up to {files_a_square} files"
    console.print(f"■ is {scale}", style="dim")


def draw_lines(console: Any, lines: list[str]) -> None:  # noqa: ANN401 - a rich console
    """Draw plain sentences."""
    for line in lines:
        console.print(plain_text(line), markup=False, soft_wrap=True)


def _draw_units(console: Any, outcome: Outcome) -> None:  # noqa: ANN401 - a rich console
    planned = outcome.status is Status.PLANNED
    table = plain_table("bucket" if outcome.family == PAIMON else "partition", "how", right=("files", "bytes"))
    if planned:
        table.add_column("why")
    else:
        table.add_column("rows", justify="right")
        table.add_column("fingerprint", no_wrap=True)
    for unit in outcome.units[:_SHOWN_ROWS]:
        told = (name_text(unit.why),) if planned else (f"{unit.rows:,}", short_fingerprint(unit, outcome.verified))
        size = format_bytes(unit.bytes_before)
        size = size if planned else f"{size} → {format_bytes(unit.bytes_after)}"
        made = len(unit.outputs) if unit.outputs or not planned else 1
        table.add_row(name_text(unit.partition), unit.how, f"{len(unit.inputs):,} → {made:,}", size, *told)
    console.print(table)
    if len(outcome.units) > _SHOWN_ROWS:
        console.print(f"… and {len(outcome.units) - _SHOWN_ROWS:,} more units, see --format json", style="dim")


def _draw_bigger(console: Any, outcome: Outcome) -> None:  # noqa: ANN401 - a rich console
    """Draw why outputs are bigger than their inputs."""
    bigger = [unit for unit in outcome.units if unit.why_bigger]
    draw_reasons(console, (("bigger", "yellow", unit.partition, unit.why_bigger) for unit in bigger[:_SHOWN_ROWS]))
    if len(bigger) > _SHOWN_ROWS:
        console.print(f"… and {len(bigger) - _SHOWN_ROWS:,} more that grew, see --format json", style="dim")


def _draw_skipped(console: Any, outcome: Outcome) -> None:  # noqa: ANN401 - a rich console
    loud = [skip for skip in outcome.skipped if skip.kind not in _QUIET]
    quiet = _joined([skip for skip in outcome.skipped if skip.kind in _QUIET])
    shown = quiet[: _SHOWN_QUIET if outcome.units else _SHOWN_ROWS]
    draw_reasons(console, (_reason(skip, outcome.table) for skip in (*loud[:_SHOWN_ROWS], *shown)))
    if len(loud) > _SHOWN_ROWS:
        console.print(f"… and {len(loud) - _SHOWN_ROWS:,} more, see --format json", style="dim")
    if len(quiet) > len(shown):
        console.print(f"… and {len(quiet) - len(shown):,} more that need nothing or are left out", style="dim")


def _joined(skips: list[Skipped]) -> list[Skipped]:
    """One line for all that need nothing for the same reason: the first of them, and how many more."""
    same: dict[tuple[SkipKind, str], list[Skipped]] = {}
    for skip in skips:
        same.setdefault((skip.kind, skip.why), []).append(skip)
    return [
        first if not others else replace(first, what=f"{first.what} and {len(others):,} more")
        for first, *others in same.values()
    ]


def _draw_before_after(console: Any, outcome: Outcome) -> None:  # noqa: ANN401 - a rich console
    most = max(outcome.files_before, 1)
    for label, colour, files, size in (
        ("before", "red", outcome.files_before, outcome.bytes_before),
        ("after", "green", outcome.files_after, outcome.bytes_after),
    ):
        drawn = bar(files, most, cells=BAR_CELLS)
        console.print(f"{label:<7}[{colour}]{drawn}[/] {many(files, 'file'):>17}  {format_bytes(size):>9}")
    if outcome.status is Status.PLANNED:
        cost = outcome.cost
        console.print(
            f"cost   read {format_bytes(cost.read_bytes)}, write about {format_bytes(cost.write_bytes)}, "
            f"verify {format_bytes(cost.verify_bytes)}; needs {format_bytes(cost.staging_bytes)} free"
        )
        return
    if outcome.verified == "none":
        console.print("proof  no file was written: files only got a new level")
    else:
        console.print(f"proof  {many(outcome.rows, 'row')} verified by {outcome.verified} [green]✓[/]")
    console.print(
        f"time   {format_duration(outcome.seconds)}, verifying took {format_duration(outcome.verify_seconds)} of task "
        f"time{_gap(outcome)}"
    )
    if outcome.snapshots:
        took = format_duration(outcome.swap_ms / 1000)
        console.print(f"commit {_snapshots(outcome.snapshots)} in {took}; readers see no gap")
    elif outcome.family == SEGMENTS:
        took = format_duration(outcome.swap_ms / 1000)
        console.print(
            f"commit in {took}; readers see no gap, and earlier versions stay readable until `packstone clean`"
        )
    elif outcome.run:
        target = outcome.name if outcome.undo_by_name else short_path(outcome.table)
        undo = f"undo   packstone restore {outcome.run} {quote(target)}"
        console.print(undo, style="dim", markup=False, soft_wrap=True)


def _gap(outcome: Outcome) -> str:
    """How long readers could find a partition incomplete; a snapshot or a version leaves no gap."""
    if outcome.snapshots or outcome.family == SEGMENTS:
        return ""
    swaps = len({unit.partition for unit in outcome.units})
    return f"; readers' gap {format_duration(outcome.swap_ms / 1000 / max(1, swaps))} a partition"


def _snapshots(numbers: tuple[int, ...]) -> str:
    if len(numbers) == 1:
        return f"snapshot {numbers[0]}"
    named = ", ".join(map(str, numbers)) if len(numbers) <= _SHOWN_SNAPSHOTS else f"{numbers[0]} to {numbers[-1]}"
    return f"{len(numbers)} snapshots ({named})"


def _draw_shape(console: Any, health: Health) -> None:  # noqa: ANN401 - a rich console
    """Sizes on the left, the worst partitions on the right, or below where the terminal is narrow."""
    from rich.measure import Measurement
    from rich.table import Table

    filled = [at for at, count in enumerate(health.histogram.values()) if count]
    if not filled:
        return
    sizes = plain_table("size", "", right=("files",))
    most = max(health.histogram.values())
    for name, count in list(health.histogram.items())[filled[0] : filled[-1] + 1]:
        sizes.add_row(name, f"[cyan]{bar(count, most, cells=_HISTOGRAM_CELLS)}[/]", f"{count:,}")
    tables = [sizes] if health.partitions == 1 else [sizes, _worst_table(health.worst)]
    width = sum(Measurement.get(console, console.options, table).maximum + _GUTTER for table in tables)
    if width - _GUTTER > console.width:
        for table in tables:
            console.print(table)
        return
    side_by_side = Table.grid(padding=(0, _GUTTER))
    side_by_side.add_row(*tables)
    console.print(side_by_side)


def _worst_table(worst: list[PartitionHealth]) -> Any:  # noqa: ANN401 - a rich table
    table = plain_table("worst partitions", right=("files", "small", "bytes", "score"))
    for one in worst[:_WORST_ROWS]:
        colour = score_colour(one.score)
        size = format_bytes(one.bytes)
        table.add_row(
            name_text(one.partition), f"{one.files:,}", f"{one.small_files:,}", size, f"[{colour}]{one.score}[/]"
        )
    if len(worst) > _WORST_ROWS:
        table.add_row("[dim]…[/]")
    return table


def _reason(skip: Skipped, table: str) -> tuple[str, str, str, str]:
    """A skip as a line; the table itself is named in the first line already."""
    label, style = _LABEL[skip.kind]
    return label, style, "" if skip.what == table else skip.what, skip.why
