"""``packstone simulate STRATEGY``: areas on a terminal, a table of a few moments, and a chart in a file.

On a terminal each setting and measure gets a small area, drawn in eighths of a cell, so it needs no colour. All
settings of one measure share a scale, so that their areas can be compared by eye. Each column shows the highest value
of the loads that fall into it.

The chart file has one panel for each measure and one line for each setting. It depends only on the numbers: no date,
program version or random ids. So the same command writes the same bytes, and a chart in a repository changes only if
the answer changes.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.output import plain_text
from packstone.cli.simulated import (
    KEYLESS,
    STRATEGIES,
    SimulateCommand,
    Typed,
    at_moments,
    is_one_family,
    read_settings,
)
from packstone.errors import InvalidInputError
from packstone.model.sizes import MB, format_duration, format_mb, plural
from packstone.strategy.simulate import thin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from packstone.cli.simulated import Metric, Setting, Simulated


@click.command("simulate", cls=SimulateCommand, short_help="Simulate loads: what a strategy writes, reads and stores.")
@click.argument("strategy", type=click.Choice(STRATEGIES), metavar="STRATEGY")
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@SimulateCommand.all_options
@click.option(
    "--compare",
    multiple=True,
    metavar="'LABEL: [STRATEGY] OPTIONS'",
    help="Add another setting, based on the options given; may be repeated.",
)
@click.option("--label", metavar="TEXT", help="Name the first setting.")
@click.option(
    "--show",
    metavar="NAME,...",
    help="Choose what to draw: read, write, space, files, stored, or a group such as L1 or .2.",
)
@click.option("--chart", metavar="FILE", help="Write a chart to FILE, which ends in .svg or .png.")
@options.output_options
@click.pass_context
def command(ctx: click.Context, /, strategy: str, items: tuple[str, ...], **typed: Any) -> int:
    """Simulate a pattern of loads under STRATEGY and show its costs, load by load.

    \b
    write amplification   bytes written by compaction for each byte that arrived
    read amplification    runs, segments or files that a reader has to open
    space amplification   bytes stored for each byte that is live

    ITEMs describe the table at the start, as in `packstone explain`, in MB: 5:10000 is a run of 10,000 MB on level 5.
    """  # noqa: D301 - click needs the bare \b
    from packstone.cli.output import show
    from packstone.cli.simulated import Simulated, choose_metrics, run_settings
    from packstone.strategy.simulate import Pattern

    settings = read_settings(ctx, strategy, typed)
    _check_settings(settings, has_items=bool(items), has_updates=typed["update_pct"] > 0)
    if typed["chart"]:
        check_chart(typed["chart"])
    pattern = Pattern(
        arrivals=typed["arrivals"],
        sizes_bytes=typed["size"],
        update_pct=typed["update_pct"],
        every_seconds=typed["every"],
    )
    done = run_settings(settings, items, pattern)
    simulated = Simulated(pattern=pattern, settings=done, metrics=choose_metrics(typed["show"], done, pattern))
    if typed["chart"]:
        write_chart(simulated, typed["chart"])
    show(
        simulated.to_json() | ({"chart": typed["chart"]} if typed["chart"] else {}),
        output_format=typed["output_format"],
        draw=lambda console: draw_simulated(console, simulated, chart=typed["chart"]),
    )
    return 0


def _check_settings(settings: tuple[Typed, ...], *, has_items: bool, has_updates: bool) -> None:
    """Refuse settings that cannot be compared."""
    labels = [one.label for one in settings]
    strategies = {one.strategy for one in settings}
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"Two settings have the label {twice!r}; give them different labels.")
    if has_items and not is_one_family(strategies):
        raise InvalidInputError("Items describe one kind of table; leave them out to compare strategies of several.")
    keyless = sorted(strategies & KEYLESS)
    if has_updates and keyless:
        raise InvalidInputError(f"Rows under {keyless[0]} have no keys, so nothing is overwritten; drop --update-pct.")


# ---- on a terminal ----

_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red")
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_MAX_WIDTH = 100
_MIN_CELL = 24
_GAP = 2
_MIN_LABELS = 11  # "after loads"
_COLUMN_GAP = 2
_LINES = {1: 8, 2: 6, 3: 4}  # so that all settings fit on one screen
_FEW_LINES = 3


def draw_simulated(console: Any, simulated: Simulated, *, chart: str | None) -> None:
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


def _headline(simulated: Simulated) -> Any:
    from rich.text import Text

    pattern = simulated.pattern
    sizes = ", ".join(format_mb(size) for size in pattern.sizes_bytes)
    facts = [f"of {sizes} MB" + (" in turn" if len(pattern.sizes_bytes) > 1 else "")]
    if pattern.every_seconds:
        facts.append(f"one every {format_duration(pattern.every_seconds)}")
    facts.append(f"{pattern.update_pct:g} % of it overwrites" if pattern.update_pct else "nothing is overwritten")
    return Text.assemble((plural(pattern.arrivals, "load"), "bold"), f" {', '.join(facts)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """The axes that all settings share for one measure."""

    metric: Metric
    highest: float
    labels: int  # the width of the numbers at the axis
    columns: int
    lines: int


def _draw_areas(console: Any, simulated: Simulated, metrics: Sequence[Metric], *, width: int) -> None:
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
    """Yield the lines from the top: the axis with its numbers, and the cells; the last line is the horizontal axis."""
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
    """Return the line below an area: the first load and the last."""
    last = plural(arrivals, "load")
    return f"{'':{scale.labels}}  1{last:>{scale.columns - 1}}"


def _draw_table(console: Any, simulated: Simulated, *, width: int) -> None:
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
    moments = (metric.show(metric.of(point)) for point in at_moments(setting.points))
    return *moments, "" if metric.is_cumulative else metric.show(fmean(values)), metric.show(max(values))


def _fitting(rows: Sequence[Sequence[str]], *, width: int) -> int:
    """Return the first column to show, so that the rest fits beside the labels; early moments are dropped first."""
    widths = [max(len(row[at]) for row in rows) + _COLUMN_GAP for at in range(len(rows[0]))]
    return next((at for at in range(len(widths)) if sum(widths[at:]) <= width), len(widths) - 1)


# ---- in a chart file ----

ENDINGS = (".png", ".svg")
# The first line is the widest, so that another line drawn over it does not hide it.
_CHART_COLOURS = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#a16207", "#0f766e")
_WIDTHS = (3.4, 1.3)
_INK, _QUIET, _GRID = "#1f2933", "#66727f", "#e4e8ec"
_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and the file is small
    "svg.hashsalt": "packstone",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _QUIET,
    "axes.labelcolor": _QUIET,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
}
_PANEL_INCHES = (4.6, 3.4)
_IN_A_ROW, _COLUMNS = 3, 2  # up to three panels in a row; more in two columns
_DPI = 150
_POINTS = 500  # more cannot be distinguished at this width


def check_chart(path: str) -> None:
    """Refuse, before the simulation starts, a chart that could not be drawn or written."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise InvalidInputError(f"--chart {path} must end in .svg or .png.")
    if not Path(path).absolute().parent.is_dir():
        raise InvalidInputError(f"--chart {path} is in a folder that does not exist; create the folder first.")
    if importlib.util.find_spec("matplotlib") is None:
        raise InvalidInputError("--chart needs matplotlib; install it with: pip install 'packstone[charts]'")


def write_chart(simulated: Simulated, path: str) -> None:
    """Draw the measures side by side."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    ending = Path(path).suffix.lower()
    with mpl.rc_context(_STYLE):
        count = len(simulated.metrics)
        columns = count if count <= _IN_A_ROW else _COLUMNS
        rows = -(-count // columns)
        width, height = _PANEL_INCHES
        figure = Figure(figsize=(width * columns, height * rows), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
        panels = [figure.add_subplot(rows, columns, at) for at in range(1, count + 1)]
        for panel, metric in zip(panels, simulated.metrics, strict=True):
            _draw_panel(panel, metric, simulated)
        handles, labels = panels[0].get_legend_handles_labels()
        if len(labels) > 1:
            figure.legend(handles, labels, loc="outside upper left", ncols=3, frameon=False)
        metadata = {"Date": None, "Creator": None} if ending == ".svg" else {"Software": None}
        figure.savefig(path, dpi=_DPI, facecolor="white", metadata=metadata)


def _draw_panel(panel: Axes, metric: Metric, simulated: Simulated) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    highest = max(metric.of(point) for setting in simulated.settings for point in setting.points)
    unit, ending = _unit(highest) if metric.is_bytes else (1, "")
    for at, setting in enumerate(simulated.settings):
        points = thin(setting.points, at_most=_POINTS)
        loads, values = [point.arrivals for point in points], [metric.of(point) / unit for point in points]
        colour, width = _CHART_COLOURS[at % len(_CHART_COLOURS)], _WIDTHS[min(at, len(_WIDTHS) - 1)]
        panel.plot(loads, values, color=colour, linewidth=width, solid_joinstyle="round", label=setting.label)
    ticks = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10])
    panel.set_title(metric.title, loc="left", fontsize=11, fontweight="bold", pad=10)
    panel.set_xlabel("loads")
    panel.set_xlim(0, simulated.pattern.arrivals)
    panel.set_ylim(metric.floor, ticks.tick_values(metric.floor, max(highest / unit, metric.floor + 0.1))[-1])
    panel.yaxis.set_major_locator(ticks)
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}{ending if value else ''}"))
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.grid(axis="y", color=_GRID, linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.tick_params(length=0)


def _unit(size_bytes: float) -> tuple[int, str]:
    """Return the unit in which an axis has round numbers."""
    return (1024 * MB, " GB") if size_bytes >= 2 * 1024 * MB else (MB, " MB")
