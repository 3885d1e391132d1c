"""How a Paimon table looks on a terminal: its levels as bars, a plan as runs that go into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packstone.cli.output import many, plain_text, short_path
from packstone.model.sizes import format_bytes

if TYPE_CHECKING:
    from packstone.model.outcome import BucketOutcome, Outcome
    from packstone.service.paimon_health import PaimonHealth

_SHOWN_BUCKETS = 8
_SHOWN_RUNS = 10
_SHOWN_HAZARDS = 15
_SHOWN_WORST = 6
_BAR_CELLS = 32
_GOOD_SCORE, _FAIR_SCORE = 75, 40


def draw_buckets(console: Any, outcome: Outcome) -> None:  # noqa: ANN401 - a rich console
    """Draw what is planned, bucket by bucket: the runs before, where they go, and why."""
    for bucket in outcome.buckets[:_SHOWN_BUCKETS]:
        _draw_bucket(console, bucket)
    if len(outcome.buckets) > _SHOWN_BUCKETS:
        more = len(outcome.buckets) - _SHOWN_BUCKETS
        console.print(f"… and {many(more, 'more bucket')}, see --format json", style="dim")


def draw_paimon_health(console: Any, health: PaimonHealth) -> None:  # noqa: ANN401 - a rich console
    """Draw the state of a table."""
    from rich.table import Table
    from rich.text import Text

    colour = "green" if health.score >= _GOOD_SCORE else "yellow" if health.score >= _FAIR_SCORE else "red"
    filled = round(_BAR_CELLS * health.score / 100)
    console.print(
        Text.assemble(
            ("health ", "bold"),
            ("█" * filled, colour),
            ("─" * (_BAR_CELLS - filled), "dim"),
            (f" {health.score}", f"bold {colour}"),
            " of 100  ",
            short_path(health.table),
        )
    )
    console.print(
        f"Paimon {health.kind} table, snapshot {health.snapshot} of {health.snapshots:,} kept: "
        f"{many(health.files, 'file')} in {many(health.buckets, 'bucket')}, {format_bytes(health.bytes)}, "
        f"{many(health.rows, 'row')}"
    )
    if health.kind == "primary key" and health.files:
        console.print(
            f"at most {many(health.max_runs, 'sorted run')} in a bucket; compaction begins at {health.trigger}; "
            f"{many(health.delete_rows, 'delete marker')}"
        )
        _draw_levels(console, health)
    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    table.add_column("worst buckets", overflow="fold")
    for name in ("runs", "files", "bytes"):
        table.add_column(name, justify="right")
    for one in health.worst[:_SHOWN_WORST]:
        table.add_row(Text(plain_text(one.bucket)), f"{one.runs:,}", f"{one.files:,}", format_bytes(one.bytes))
    if health.worst:
        console.print(table)
    for hazard in health.hazards[:_SHOWN_HAZARDS]:
        line = f"{hazard['hazard']}  {plain_text(hazard['where'])}: {plain_text(hazard['evidence'])}"
        console.print(line, style="yellow", markup=False)


def _draw_bucket(console: Any, bucket: BucketOutcome) -> None:  # noqa: ANN401 - a rich console
    from rich.text import Text

    console.print(Text.assemble((plain_text(bucket.bucket), "bold"), "  ", (bucket.reason, "cyan")))
    shown = bucket.runs[:_SHOWN_RUNS]
    for at, run in enumerate(shown):
        corner = "┐" if at == 0 else "┤" if at + 1 < len(shown) or len(bucket.runs) > len(shown) else "┘"
        arrow = f" → {bucket.output}" if at == len(shown) // 2 else ""
        console.print(f"  {run:<64} {corner}{arrow}", markup=False)
    if len(bucket.runs) > len(shown):
        console.print(f"  … and {many(len(bucket.runs) - len(shown), 'more run')}", style="dim")
    upgraded = f", {many(bucket.upgraded_files, 'file')} merely upgraded" if bucket.upgraded_files else ""
    console.print(
        f"  {bucket.why}; {format_bytes(bucket.rewrite_bytes)} to rewrite{upgraded}", style="dim", markup=False
    )


def _draw_levels(console: Any, health: PaimonHealth) -> None:  # noqa: ANN401 - a rich console
    most = max(health.levels.values())
    for level, count in sorted(health.levels.items()):
        cells = max(1, round(_BAR_CELLS * count / most))
        console.print(f"  L{level} [cyan]{'█' * cells:<{_BAR_CELLS}}[/] {many(count, 'file')}")
