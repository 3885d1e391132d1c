"""Universal compaction: merge the newest runs of a merge tree when there are too many, or when they are too big.

Runs are listed newest first. The first rule that fires decides; a pick is a prefix of the runs.

1. *Early full* (off unless an option is set, never with one run alone): everything goes to the top level if the last
   full compaction is too long ago, or all runs together are small, or the runs below the top level are big.
2. *Size amplification*, from ``trigger`` runs on: all runs but the last hold C bytes, the last one E. If
   ``C × 100 > max_size_amp_pct × E``, stale versions may waste that much space, so everything is merged.
3. *Size ratio*, from ``trigger`` runs on: starting with the newest, take the next run while the size taken so far,
   plus ``size_ratio_pct`` percent, reaches that run's size. Runs of like size merge, a big one stays.
4. *Run count*, above ``trigger`` runs: take as many runs as leave ``trigger`` of them, then continue as in 3.

Output level: all runs -> the top level; else one below the next remaining run. If that is level 0, take the runs up to
and including the first one above level 0 and write to its level. So nothing is written to level 0, and no level-0
run remains.

Generations of rule 3: up to ``1.4`` the scan stops at the first run that is too big. Small merges then end on level 1
again and again and rewrite it each time, while it grows without bound ("level-1 inflation"). ``2.1`` includes runs of
level 0 and 1 once anything is to be merged, and compares level 2 with the larger sum. ``2.0`` includes level 1 only in
a forced pick (force_up_level0.py).

Off-peak hours: in them a merge tree may merge runs that differ more in size. The off-peak ratio is *added* to the size
ratio while the hour is in the window (start inclusive, end exclusive; a window whose start is later than its end spans
midnight). The caller reads the clock and passes the hour.

    window 22-6, ratio 10    hour 21 -> 0    hour 22 -> 10    hour 5 -> 10    hour 6 -> 0

Cost: a row is rewritten about once each time the data grows by the trigger's factor; readers merge at most about
``trigger`` runs; space is at most ``1 + max_size_amp_pct / 100`` times the live data, plus the inputs while merging.

    before   L0 1   L0 1   L5 10      trigger 3, max_size_amp_pct 25, size_ratio_pct 1, 6 levels
    after    L4 2   L5 10             size-amp: 2 × 100 > 25 × 10? no; size-ratio: 1 × 101 ≥ 1 × 100? yes

Sizes are compared as whole numbers. Paimon divides doubles; the two differ only from about 2^46 bytes up, where a
double no longer holds the hundredths.

Source: Apache Paimon `UniversalCompaction`, `EarlyFullCompaction`, `compaction.offpeak.*` (research notes 1.3 to 1.6).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.model.sorted_run import Level
from packstone.strategy.pick import Pick, Reason, Skip, Strategy, try_rules
from packstone.strategy.tree_view import TreeView, apply_tree_decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.model.sorted_run import SortedRun
    from packstone.strategy.pick import Decision, Rule

MIN_LEVELS: Final = 2


class Generation(StrEnum):
    """The Paimon release whose ratio rule is used."""

    V1_4 = "1.4"
    V2_0 = "2.0"
    V2_1 = "2.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalOptions:
    """The limits on the number and size of runs; the defaults are Paimon's."""

    max_size_amp_pct: int = 200
    size_ratio_pct: int = 1
    trigger: int = 5
    levels: int | None = None  # None: one more than the trigger, as Paimon does
    rules: Generation = Generation.V2_1
    early_total_bytes: int | None = None  # None: off, as for the two below
    early_incremental_bytes: int | None = None
    early_interval_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse values below their minimum."""
        least = {
            "max_size_amp_pct": 0,
            "size_ratio_pct": 0,
            "trigger": 1,
            "levels": MIN_LEVELS,
            "early_total_bytes": 0,
            "early_incremental_bytes": 0,
            "early_interval_ms": 0,
        }
        for name, floor in least.items():
            value = getattr(self, name)
            if value is not None and value < floor:
                raise InvalidInputError(f"{name} is {value}; it must be at least {floor}.", option=name, value=value)

    @property
    def level_count(self) -> int:
        """The configured number of levels."""
        return self.trigger + 1 if self.levels is None else self.levels


def pick_universal(view: TreeView, options: UniversalOptions) -> Decision[Level]:
    """Choose the newest runs worth merging; a pure function of its arguments."""
    return try_rules(RULES, view, options)


def universal_strategy(options: UniversalOptions) -> Strategy[TreeView, Level]:
    """Bind the options."""
    return Strategy(name="universal", pick=partial(pick_universal, options=options), apply=apply_tree_decision)


def top_level(view: TreeView, options: UniversalOptions) -> int:
    """Return the highest level: the configured one, or a higher one that the table already has."""
    return max(options.level_count - 1, max((run.level for run in view.runs), default=0))


def pick_early_full(view: TreeView, options: UniversalOptions) -> Pick[Level] | Skip:
    """Merge everything if the last full compaction was long ago, or if it is cheap, or if much arrived since."""
    interval, total, incremental = options.early_interval_ms, options.early_total_bytes, options.early_incremental_bytes
    if interval is None and total is None and incremental is None:
        return Skip(why="early-full: off", is_off=True)
    if len(view.runs) <= 1:
        return Skip(why=f"early-full: {_count(view.runs)}, nothing to merge")
    checks = []
    if interval is not None:
        if view.ms_since_full is None:
            return _merge_all(view, options, reason=Reason.EARLY_FULL, why="no full compaction is known")
        checks.append((view.ms_since_full > interval, f"{view.ms_since_full} ms since the last full > {interval} ms"))
    if total is not None:
        checks.append((view.total_bytes < total, f"total {view.total_bytes} < {total}"))
    if incremental is not None:
        below = sum(run.size_bytes for run in view.runs if run.level != top_level(view, options))
        checks.append((below > incremental, f"{below} below the top level > {incremental}"))
    fired = next((text for is_true, text in checks if is_true), None)
    if fired is not None:
        return _merge_all(view, options, reason=Reason.EARLY_FULL, why=f"{fired}? yes")
    return Skip(why=f"early-full: {', '.join(f'{text}? no' for _, text in checks)}")


def pick_for_size_amp(view: TreeView, options: UniversalOptions) -> Pick[Level] | Skip:
    """Merge everything if the newer runs are too big compared with the oldest one."""
    if len(view.runs) < options.trigger:
        return Skip(why=f"size-amp: {_count(view.runs)} ≥ {options.trigger}? no")
    oldest = view.runs[-1].size_bytes
    newer = view.total_bytes - oldest
    check = f"{newer} × 100 > {options.max_size_amp_pct} × {oldest}"
    if newer * 100 > options.max_size_amp_pct * oldest:
        return _merge_all(view, options, reason=Reason.SIZE_AMP, why=f"{check}? yes")
    return Skip(why=f"size-amp: {check}? no")


def pick_for_size_ratio(view: TreeView, options: UniversalOptions) -> Pick[Level] | Skip:
    """Merge the newest runs of like size."""
    if len(view.runs) < options.trigger:
        return Skip(why=f"size-ratio: {_count(view.runs)} ≥ {options.trigger}? no")
    taken, trace = scan_by_ratio(view, options, first=1, is_forced=False)
    if taken == 0:
        return Skip(why=f"size-ratio: {trace}")
    return merge_first(view, options, taken, reason=Reason.SIZE_RATIO, why=trace)


def pick_for_run_count(view: TreeView, options: UniversalOptions) -> Pick[Level] | Skip:
    """Merge as many runs as needed to come down to the trigger, and further runs of like size."""
    count = len(view.runs)
    check = f"{_count(view.runs)} > {options.trigger}"
    if count <= options.trigger:
        return Skip(why=f"run-count: {check}? no")
    first = count - options.trigger + 1
    taken, trace = scan_by_ratio(view, options, first=first, is_forced=False)
    why = f"{check}? yes, so at least {first}; {trace}"
    return merge_first(view, options, taken, reason=Reason.RUN_COUNT, why=why)


RULES: Final[tuple[Rule[TreeView, UniversalOptions, Level], ...]] = (
    pick_early_full,
    pick_for_size_amp,
    pick_for_size_ratio,
    pick_for_run_count,
)


def scan_by_ratio(view: TreeView, options: UniversalOptions, *, first: int, is_forced: bool) -> tuple[int, str]:
    """Return how many runs to take: the ``first`` ones and further ones of like size, with a trace.

    The number is 0 if no run joins a single first run, unless the pick is forced. The trace shows each comparison:
    ``1 × 101 ≥ 1 × 100? yes, 2 × 101 ≥ 10 × 100? no``.
    """
    percent = 100 + options.size_ratio_pct + view.offpeak_ratio_pct
    size = sum(run.size_bytes for run in view.runs[:first])
    is_triggered = is_forced or first > 1
    trace, taken = [], first
    for run in view.runs[first:]:
        fits = size * percent >= run.size_bytes * 100
        is_included = not fits and is_triggered and options.rules is Generation.V2_1 and run.level <= 1
        trace.append(f"{size} × {percent} ≥ {run.size_bytes} × 100? {'yes' if fits else 'no'}")
        if is_included:
            trace[-1] += f", but L{run.level} goes along"
        elif not fits:
            break
        size, taken, is_triggered = size + run.size_bytes, taken + 1, True
    return (taken if is_triggered else 0), ", ".join(trace) or "no run follows"


def choose_output(runs: Sequence[SortedRun], taken: int, *, top: int) -> tuple[int, int]:
    """Return how many runs are merged and into which level, so that no run remains on level 0 or is written there."""
    output = 0 if taken == len(runs) else max(0, runs[taken].level - 1)
    if output == 0:
        while taken < len(runs) and output == 0:
            output = runs[taken].level
            taken += 1
    return (taken, top) if taken == len(runs) else (taken, output)


def merge_first(view: TreeView, options: UniversalOptions, taken: int, *, reason: Reason, why: str) -> Pick[Level]:
    """Pick the newest runs, and more if the output level requires them."""
    count, output = choose_output(view.runs, taken, top=top_level(view, options))
    absorbed = f", and {count - taken} more: nothing is written to L0" if count > taken else ""
    return Pick(inputs=tuple(range(count)), output=Level(output), reason=reason, why=f"{reason}: {why}{absorbed}")


def _merge_all(view: TreeView, options: UniversalOptions, *, reason: Reason, why: str) -> Pick[Level]:
    return merge_first(view, options, len(view.runs), reason=reason, why=why)


def _count(runs: Sequence[SortedRun]) -> str:
    return "1 run" if len(runs) == 1 else f"{len(runs)} runs"


HOURS_A_DAY = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPeakHours:
    """The hours in which runs may differ more in size, and by how much."""

    start_hour: int
    end_hour: int
    ratio_pct: int

    def __post_init__(self) -> None:
        """Refuse an hour outside the day, and a ratio below zero."""
        for hour in (self.start_hour, self.end_hour):
            if not 0 <= hour < HOURS_A_DAY:
                raise InvalidInputError(f"Hour {hour} does not exist; give 0 to 23.", hour=hour)
        if self.ratio_pct < 0:
            raise InvalidInputError(f"The off-peak ratio is {self.ratio_pct}; it must be at least 0.")

    def ratio_pct_at(self, hour: int) -> int:
        """Return what to add to the size ratio at this hour; a window whose start equals its end is empty."""
        if self.start_hour <= self.end_hour:
            is_inside = self.start_hour <= hour < self.end_hour
        else:
            is_inside = hour >= self.start_hour or hour < self.end_hour
        return self.ratio_pct if is_inside else 0
