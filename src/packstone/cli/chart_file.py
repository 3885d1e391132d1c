"""A chart of a simulation as a picture: one panel for each measure, one line for each setting.

The file depends on the numbers alone: no date, no program version, no random ids, so the same command writes the same
bytes and a picture in a repository changes only if the answer does.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packstone.errors import InvalidInputError
from packstone.model.megabytes import MB
from packstone.strategy.simulate import thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from packstone.cli.simulated import Metric, Simulated

ENDINGS = (".png", ".svg")
# The first line is the widest, so that one that lies on it does not hide it.
_COLOURS = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#a16207", "#0f766e")
_WIDTHS = (3.4, 1.3)
_INK, _QUIET, _GRID = "#1f2933", "#66727f", "#e4e8ec"
_STYLE: Any = {
    "svg.fonttype": "none",  # words stay words: they can be searched, and the file is small
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
_IN_A_ROW, _COLUMNS = 3, 2  # three side by side; more stand in two columns
_DPI = 150
_POINTS = 500  # more cannot be told apart at this width


def check_chart(path: str) -> None:
    """Refuse, before anything is simulated, what could not be drawn or written."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise InvalidInputError(f"--chart {path} must end in .svg or .png.")
    if not Path(path).absolute().parent.is_dir():
        raise InvalidInputError(f"--chart {path} lies in no existing folder; make it first.")
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
        colour, width = _COLOURS[at % len(_COLOURS)], _WIDTHS[min(at, len(_WIDTHS) - 1)]
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
    """The unit in which an axis has round numbers."""
    return (1024 * MB, " GB") if size_bytes >= 2 * 1024 * MB else (MB, " MB")
