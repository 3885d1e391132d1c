"""How results look on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packstone.cli.output import plain_text
from packstone.model.outcome import Outcome, Status
from packstone.model.sizes import format_bytes, format_duration
from packstone.model.skipped import SkipKind

if TYPE_CHECKING:
    from packstone.service.health import Health

_SHOWN_ROWS = 15
_BAR_CELLS = 32
_STYLE = {
    Status.COMMITTED: "bold green",
    Status.PLANNED: "bold cyan",
    Status.NOTHING_TO_DO: "bold green",
    Status.PARTIAL: "bold yellow",
    Status.REFUSED: "bold yellow",
    Status.CONFLICT: "bold yellow",
    Status.FAILED: "bold red",
}
_GOOD_SCORE, _FAIR_SCORE = 75, 40


def draw_outcome(console: Any, outcome: Outcome) -> None:  # noqa: ANN401 - a rich console
    """Draw what plan, compact and merge answer."""
    from rich.table import Table
    from rich.text import Text

    style = _STYLE[outcome.status]
    console.print(Text.assemble((outcome.status.value, style), "  ", plain_text(outcome.table)))
    if outcome.units:
        planned = outcome.status is Status.PLANNED
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("partition")
        for name in ("files", "", "bytes", "how"):
            table.add_column(name, justify="right")
        table.add_column("why" if planned else "proof")
        for unit in outcome.units[:_SHOWN_ROWS]:
            after = format_bytes(unit.bytes_after) if unit.bytes_after else "?"
            size = format_bytes(unit.bytes_before) if planned else f"{format_bytes(unit.bytes_before)} → {after}"
            told = unit.why if planned else unit.fingerprint or f"{unit.rows} rows"
            table.add_row(plain_text(unit.partition or "."), f"{len(unit.inputs)} → 1", "", size, unit.how, told)
        console.print(table)
        if len(outcome.units) > _SHOWN_ROWS:
            console.print(f"… and {len(outcome.units) - _SHOWN_ROWS} more units", style="dim")
    _draw_skipped(console, outcome)
    _draw_before_after(console, outcome)
    for line in outcome.recovered:
        console.print(f"recovered first: {plain_text(line)}", style="dim")
    for reading in outcome.read_times:
        console.print(
            f"read {reading['cache']}: {reading['seconds_before']:.3f} s before, "
            f"{reading['seconds_after']:.3f} s after ({reading['runs']} interleaved runs, {reading['engine']})"
        )


def _draw_skipped(console: Any, outcome: Outcome) -> None:  # noqa: ANN401 - a rich console
    loud = [skip for skip in outcome.skipped if skip.kind not in (SkipKind.NOT_NEEDED, SkipKind.FILTERED)]
    quiet = [skip for skip in outcome.skipped if skip.kind in (SkipKind.NOT_NEEDED, SkipKind.FILTERED)]
    for skip in loud[:_SHOWN_ROWS]:
        console.print(f"[yellow]left alone[/]  {_escape(skip.what)}: {_escape(skip.why)}")
    if len(loud) > _SHOWN_ROWS:
        console.print(f"… and {len(loud) - _SHOWN_ROWS} more, see --format json", style="dim")
    shown = quiet[:3] if outcome.units else quiet[:_SHOWN_ROWS]
    for skip in shown:
        console.print(f"[dim]not needed  {_escape(skip.what)}: {_escape(skip.why)}[/]")
    if len(quiet) > len(shown):
        console.print(f"[dim]… and {len(quiet) - len(shown)} more that need nothing or are filtered out[/]")


def _draw_before_after(console: Any, outcome: Outcome) -> None:  # noqa: ANN401 - a rich console
    if not outcome.units:
        console.print(outcome.message)
        return
    most = max(outcome.files_before, 1)
    for label, files, size in (
        ("before", outcome.files_before, outcome.bytes_before),
        ("after", outcome.files_after, outcome.bytes_after),
    ):
        bar = "█" * max(1, round(_BAR_CELLS * files / most)) if files else ""
        colour = "red" if label == "before" else "green"
        console.print(f"{label:<7}[{colour}]{bar:<{_BAR_CELLS}}[/] {files:>8} files  {format_bytes(size):>10}")
    if outcome.status is Status.PLANNED:
        cost = outcome.cost
        console.print(
            f"cost   read {format_bytes(cost.read_bytes)}, write about {format_bytes(cost.write_bytes)}, "
            f"verify {format_bytes(cost.verify_bytes)}; needs {format_bytes(cost.staging_bytes)} free"
        )
        return
    console.print(
        f"{outcome.rows} rows verified by {outcome.verified}; {format_duration(outcome.seconds)}, of which verifying "
        f"{format_duration(outcome.verify_seconds)} (all tasks); readers' gap {outcome.swap_ms:.1f} ms"
    )
    if outcome.run:
        console.print(
            f"undo with: packstone restore {outcome.run} {plain_text(outcome.table)}",
            style="dim",
            soft_wrap=True,
        )


def draw_health(console: Any, health: Health) -> None:  # noqa: ANN401 - a rich console
    """Draw the state of a table."""
    from rich.table import Table

    colour = "green" if health.score >= _GOOD_SCORE else "yellow" if health.score >= _FAIR_SCORE else "red"
    filled = round(_BAR_CELLS * health.score / 100)
    console.print(f"{_escape(health.table)}")
    console.print(
        f"health [{colour}]{'█' * filled}[/][dim]{'░' * (_BAR_CELLS - filled)}[/] [{colour}]{health.score}[/] of 100"
    )
    console.print(
        f"{health.files} files in {health.partitions} partitions, {format_bytes(health.bytes)}; {health.small_files} "
        f"({health.small_pct} %) are small; {health.ideal_files} would do"
    )
    most = max(health.histogram.values(), default=0)
    for name, count in health.histogram.items():
        bar = "▇" * (max(1, round(_BAR_CELLS * count / most)) if count else 0)
        console.print(f"  {name:>10} [cyan]{bar:<{_BAR_CELLS}}[/] {count:>8}")
    if health.worst and health.partitions > 1:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("worst partitions", "files", "small", "bytes", "score"):
            table.add_column(name, justify="left" if name.startswith("worst") else "right")
        for one in health.worst[:5]:
            table.add_row(
                plain_text(one.partition or "."),
                str(one.files),
                str(one.small_files),
                format_bytes(one.bytes),
                str(one.score),
            )
        console.print(table)
    for hazard in health.hazards[:_SHOWN_ROWS]:
        console.print(f"[yellow]{hazard['hazard']}[/]  {_escape(hazard['where'])}: {_escape(hazard['evidence'])}")
    if len(health.hazards) > _SHOWN_ROWS:
        console.print(f"… and {len(health.hazards) - _SHOWN_ROWS} more hazards, see --format json", style="dim")
    if health.small_files > health.sampled_files:
        console.print(f"[dim]looked into {health.sampled_files} of {health.small_files} small files[/]")


def draw_lines(console: Any, lines: list[str]) -> None:  # noqa: ANN401 - a rich console
    """Draw plain sentences."""
    for line in lines:
        console.print(plain_text(line), markup=False, soft_wrap=True)


def _escape(text: str) -> str:
    from rich.markup import escape

    return str(escape(plain_text(text)))
