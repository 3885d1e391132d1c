"""`simulate` on a terminal: small areas, one for each setting and measure, and a table of a few moments.

All settings of one measure share a scale, so that their areas can be compared by eye. An area is drawn in eighths of
a cell and needs no colour. Each column shows the highest value of the loads that fall into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING, Any

from packstone.cli.output import many, plain_text
from packstone.cli.simulated import at_moments
from packstone.model.megabytes import format_mb
from packstone.model.sizes import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.cli.simulated import Metric, Setting, Simulated

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red")
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_MAX_WIDTH = 100
_MIN_CELL = 24
_GAP = 2
_MIN_LABELS = 11  # "after loads"
_COLUMN_GAP = 2
_LINES = {1: 8, 2: 6, 3: 4}  # so that all settings fit on one screen
_FEW_LINES = 3


def draw_simulated(console: Any, simulated: Simulated, *, chart: str | None) -> None:  # noqa: ANN401 - a rich console
    """Draw the answer: what arrived, the areas, the numbers."""
    console.print(_headline(simulated))
    width = min(console.width, _MAX_WIDTH)
    side_by_side = max(1, (width + _GAP) // (_MIN_CELL + _GAP))
    rows = -(-len(simulated.metrics) // side_by_side)
    pending = iter(simulated.metrics)
    while metrics := tuple(islice(pending, -(-len(simulated.metrics) // rows))):
        _draw_areas(console, simulated, metrics, width=width)
    _draw_table(console, simulated, width=width)
    for note in simulated.notes:
        console.print(f"note  {note}", style="yellow", markup=False)
    if chart:
        console.print(f"chart {plain_text(chart)}", style="dim", markup=False)


def _headline(simulated: Simulated) -> Any:  # noqa: ANN401 - a rich text
    from rich.text import Text

    pattern = simulated.pattern
    sizes = ", ".join(format_mb(size) for size in pattern.sizes_bytes)
    facts = [f"of {sizes} MB" + (" in turn" if len(pattern.sizes_bytes) > 1 else "")]
    if pattern.every_seconds:
        facts.append(f"one every {format_duration(pattern.every_seconds)}")
    facts.append(f"{pattern.update_pct:g} % of it overwrites" if pattern.update_pct else "nothing is overwritten")
    return Text.assemble((many(pattern.arrivals, "load"), "bold"), f" {', '.join(facts)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """The axes that all settings share for one measure."""

    metric: Metric
    highest: float
    labels: int  # the room for the numbers at the axis
    columns: int
    lines: int


def _draw_areas(console: Any, simulated: Simulated, metrics: Sequence[Metric], *, width: int) -> None:  # noqa: ANN401 - a rich console
    from rich.text import Text

    settings = simulated.settings
    lines = _LINES.get(len(settings), _FEW_LINES)
    cell = (width + _GAP) // len(metrics) - _GAP
    scales = [_scale(metric, settings, cell=cell, lines=lines) for metric in metrics]
    titles = [f"{'':{scale.labels}}  {scale.metric.title}".ljust(cell)[:cell] for scale in scales]
    console.print()
    console.print(Text((" " * _GAP).join(titles).rstrip(), style="bold"))
    for at, setting in enumerate(settings):
        colour = _COLOURS[at % len(_COLOURS)]
        if len(settings) > 1:
            console.print(Text(plain_text(setting.label), style=f"bold {colour}"))
        areas = [_area(scale, setting) for scale in scales]
        for row in zip(*areas, strict=True):
            line = Text()
            for label, body in row:
                line.append(f"{'' if not line else ' ' * _GAP}{label}", style="dim")
                line.append(body, style=colour)
            line.rstrip()
            console.print(line, no_wrap=True)
    ends = [_ends(scale, simulated.pattern.arrivals) for scale in scales]
    console.print(Text((" " * _GAP).join(ends), style="dim"))


def _scale(metric: Metric, settings: Sequence[Setting], *, cell: int, lines: int) -> _Scale:
    highest = max(metric.of(point) for setting in settings for point in setting.points)
    labels = max(len(metric.show(highest)), len(metric.show(metric.floor)))
    return _Scale(metric=metric, highest=highest, labels=labels, columns=max(4, cell - labels - 2), lines=lines)


def _area(scale: _Scale, setting: Setting) -> Iterator[tuple[str, str]]:
    """Yield the lines from the top: the axis with its numbers, and the cells; the last line is the axis below."""
    room = scale.highest - scale.metric.floor
    heights = [
        max(1, round(8 * scale.lines * (value - scale.metric.floor) / room)) if value > scale.metric.floor else 0
        for value in _columns(scale, setting)
    ]
    for line in reversed(range(scale.lines)):
        label = scale.metric.show(scale.highest) if line == scale.lines - 1 else ""
        body = "".join(_EIGHTHS[min(8, max(0, height - 8 * line))] for height in heights)
        yield f"{label:>{scale.labels}} {'┤' if label else '│'}", body
    yield f"{scale.metric.show(scale.metric.floor):>{scale.labels}} └{'─' * scale.columns}", ""


def _columns(scale: _Scale, setting: Setting) -> list[float]:
    points, columns = setting.points, scale.columns
    found = []
    for at in range(columns):
        first = len(points) * at // columns
        last = max(first + 1, len(points) * (at + 1) // columns)
        found.append(max(scale.metric.of(point) for point in points[first:last]))
    return found


def _ends(scale: _Scale, arrivals: int) -> str:
    """What stands below an area: the first load and the last."""
    last = many(arrivals, "load")
    return f"{'':{scale.labels}}  1{last:>{scale.columns - 1}}"


def _draw_table(console: Any, simulated: Simulated, *, width: int) -> None:  # noqa: ANN401 - a rich console
    from rich.table import Table
    from rich.text import Text

    names = [f"{point.arrivals:,}" for point in at_moments(simulated.settings[0].points)]
    rows = [
        (metric, setting, _numbers(metric, setting)) for metric in simulated.metrics for setting in simulated.settings
    ]
    header = (*names, "mean", "peak")
    shown = _fitting([header, *(numbers for _, _, numbers in rows)], width=width - _MIN_LABELS)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("after loads", overflow="fold", min_width=_MIN_LABELS)
    for name in header[shown:]:
        table.add_column(name, justify="right", no_wrap=True)
    for metric, setting, numbers in rows:
        if setting is simulated.settings[0]:
            table.add_row(Text(metric.title, style="bold"))
        table.add_row(Text(f"  {plain_text(setting.label)}"), *numbers[shown:])
    console.print()
    console.print(table)


def _numbers(metric: Metric, setting: Setting) -> tuple[str, ...]:
    values = [metric.of(point) for point in setting.points]
    told = (metric.show(metric.of(point)) for point in at_moments(setting.points))
    return *told, "" if metric.is_cumulative else metric.show(fmean(values)), metric.show(max(values))


def _fitting(rows: Sequence[Sequence[str]], *, width: int) -> int:
    """Find the first column from which on all fit beside the labels; early moments are left out first."""
    widths = [max(len(row[at]) for row in rows) + _COLUMN_GAP for at in range(len(rows[0]))]
    return next((at for at in range(len(widths)) if sum(widths[at:]) <= width), len(widths) - 1)
