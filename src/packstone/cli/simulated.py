"""What `simulate` answers: one series for each setting, measured alike, as plain values to print or to draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from packstone.cli.explain_options import SEGMENTS, TREE
from packstone.cli.explain_questions import ask
from packstone.cli.explained import mb_number
from packstone.cli.simulate_options import as_plain
from packstone.errors import InvalidInputError
from packstone.model.megabytes import MB
from packstone.model.sizes import format_bytes
from packstone.strategy.simulate import Pattern, Point, Schedule, simulate, thin
from packstone.strategy.simulate_tables import AppendTable, DirectoryTable, segment_table, tree_table

if TYPE_CHECKING:
    from packstone.cli.simulate_options import Typed
    from packstone.strategy.simulate_tables import SimulatedTable

MAX_POINTS: Final = 200
MOMENTS: Final = 4
_SMALL_NUMBER: Final = 10
_NOUNS: Final = {**dict.fromkeys(TREE, "run"), **dict.fromkeys(SEGMENTS, "segment")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One thing that is measured after each load."""

    name: str
    title: str
    of: Callable[[Point], float]
    show: Callable[[float], str]
    floor: int = 0  # where the axis begins
    is_bytes: bool = False
    is_cumulative: bool = False  # it only tells what was before, so its mean says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting and all that was measured."""

    typed: Typed
    notes: tuple[str, ...]
    points: tuple[Point, ...]

    @property
    def label(self) -> str:
        """What it is called."""
        return self.typed.label


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Settings that met the same loads."""

    pattern: Pattern
    settings: tuple[Setting, ...]
    metrics: tuple[Metric, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd about the settings, each thing once."""
        return tuple(dict.fromkeys(note for setting in self.settings for note in setting.notes))

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        pattern = self.pattern
        return {
            "format_version": 1,
            "pattern": {
                "arrivals": pattern.arrivals,
                "size_mb": [mb_number(size) for size in pattern.sizes_bytes],
                "update_pct": pattern.update_pct,
                "every_seconds": pattern.every_seconds,
            },
            "settings": [_setting_json(setting) for setting in self.settings],
            "notes": list(self.notes),
        }


def run_settings(settings: Sequence[Typed], items: Sequence[str], pattern: Pattern) -> tuple[Setting, ...]:
    """Send the pattern through each setting; every table is built before the first simulation starts."""
    built = [(typed, *build_table(typed, items)) for typed in settings]
    return tuple(
        Setting(typed=typed, notes=notes, points=simulate(table, pattern, _schedule(typed)))
        for typed, table, notes in built
    )


def build_table(typed: Typed, items: Sequence[str]) -> tuple[SimulatedTable, tuple[str, ...]]:
    """The table at the start with its strategy, and what is odd about them."""
    values = dict(typed.values)
    if typed.strategy in TREE:
        for name in ("early_total", "early_incremental"):
            values[name] = None if values[name] is None else values[name] * MB
    question = ask(typed.strategy, items, values, given=set(typed.given))
    if typed.strategy in TREE:
        runs = tuple(replace(run, size_bytes=run.size_bytes * MB, name="") for run in question.view.runs)
        return tree_table(question.strategy, replace(question.view, runs=runs)), question.notes
    if typed.strategy in SEGMENTS:
        latest = max((segment.load_day for segment in question.view.segments), default=0)
        return segment_table(question.strategy, replace(question.view, today=latest)), question.notes
    kind = AppendTable if typed.strategy == "append" else DirectoryTable
    return kind(strategy=question.strategy, view=question.view), question.notes


def choose_metrics(names: str | None, settings: Sequence[Setting], pattern: Pattern) -> tuple[Metric, ...]:
    """Read ``--show``: the known measures, or a group of parts such as L1 or .2."""
    nouns = {_NOUNS.get(setting.typed.strategy, "file") for setting in settings}
    known = {metric.name: metric for metric in _known_metrics(nouns)}
    labels = sorted({group.label for setting in settings for point in setting.points for group in point.groups})
    known |= {label: _group_metric(label, nouns) for label in labels}
    if names is None:
        names = "read,write,space" if pattern.update_pct else "read,write"
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            raise InvalidInputError(f"--show {name!r} is nothing that was measured; choose from {', '.join(known)}.")
    return tuple(known[name] for name in dict.fromkeys(wanted))


def at_moments(points: Sequence[Point]) -> tuple[Point, ...]:
    """A few points, evenly spaced, the last one among them."""
    return thin(points, at_most=MOMENTS)


def _known_metrics(nouns: set[str]) -> tuple[Metric, ...]:
    things = f"{next(iter(nouns))}s" if len(nouns) == 1 else "parts"
    return (
        Metric(name="read", title=f"{things} to read", of=lambda point: point.read_amp, show=_number),
        Metric(
            name="write",
            title="write amplification",
            of=lambda point: point.write_amp,
            show=lambda value: f"{value:.1f}",
            is_cumulative=True,
        ),
        Metric(
            name="space",
            title="space amplification",
            of=lambda point: point.space_amp,
            show=lambda value: f"{value:.2f}",
            floor=1,
        ),
        Metric(name="files", title="files", of=lambda point: point.file_count, show=_number),
        Metric(name="stored", title="bytes stored", of=lambda point: point.stored_bytes, show=_bytes, is_bytes=True),
    )


def _group_metric(label: str, nouns: set[str]) -> Metric:
    """Levels of a merge tree are told by their bytes, segments and files by their number."""
    if nouns == {"run"}:
        return Metric(
            name=label,
            title=f"bytes on {label}",
            of=lambda point: _in_group(point, label)[1],
            show=_bytes,
            is_bytes=True,
        )
    title = {".": f"segments {label}", "l": "loads not merged"}.get(label[0], f"{label} parts")
    return Metric(name=label, title=title, of=lambda point: _in_group(point, label)[0], show=_number)


def _in_group(point: Point, label: str) -> tuple[int, int]:
    return next(((group.count, group.size_bytes) for group in point.groups if group.label == label), (0, 0))


def _number(value: float) -> str:
    """Whole numbers as such; a mean of small ones with a decimal."""
    return f"{value:.1f}" if value < _SMALL_NUMBER and value != int(value) else f"{value:,.0f}"


def _bytes(value: float) -> str:
    return format_bytes(round(value)) if value else "0"


def _schedule(typed: Typed) -> Schedule:
    return Schedule(compact_every=typed.values["compact_every"], is_repeated=not typed.values["one_round"])


def _setting_json(setting: Setting) -> dict[str, Any]:
    points = setting.points
    read = [point.read_amp for point in points]
    space = [point.space_amp for point in points]
    return {
        "label": setting.label,
        "strategy": setting.typed.strategy,
        "options": {name: as_plain(setting.typed.values[name]) for name in sorted(setting.typed.given)},
        "final": _point_json(points[-1]),
        "mean": {"read_amp": round(fmean(read), 4), "space_amp": round(fmean(space), 4)},
        "peak": {"read_amp": max(read), "space_amp": round(max(space), 4)},
        "series": _series_json(thin(points, at_most=MAX_POINTS)),
    }


def _point_json(point: Point) -> dict[str, Any]:
    return {
        "arrivals": point.arrivals,
        "seconds": point.seconds,
        "write_amp": round(point.write_amp, 4),
        "read_amp": point.read_amp,
        "space_amp": round(point.space_amp, 4),
        "files": point.file_count,
        "arrived_bytes": point.arrived_bytes,
        "written_bytes": point.written_bytes,
        "stored_bytes": point.stored_bytes,
        "live_bytes": point.live_bytes,
        "groups": {group.label: {"count": group.count, "bytes": group.size_bytes} for group in point.groups},
    }


def _series_json(points: Sequence[Point]) -> dict[str, Any]:
    """One list for each measure; a group that is empty at a moment has a 0 there."""
    plain = [_point_json(point) for point in points]
    labels = sorted({group.label for point in points for group in point.groups})
    series: dict[str, Any] = {name: [one[name] for one in plain] for name in plain[0] if name != "groups"}
    found = {label: [_in_group(point, label) for point in points] for label in labels}
    series["groups"] = {
        label: {"count": [count for count, _ in pairs], "bytes": [size for _, size in pairs]}
        for label, pairs in found.items()
    }
    return series
