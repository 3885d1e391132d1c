"""A merge tree as the strategies see it, and what a pick makes of it.

Runs stand newest first: the files of level 0, then the runs of level 1, 2 and so on. A pick is always a prefix of
that list, because a newer row must never sink below an older one of the same key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError
from packstone.model.sorted_run import SortedRun
from packstone.strategy.pick import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.model.sorted_run import Level
    from packstone.strategy.pick import Decision, Pick


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeView:
    """One bucket at one moment; what the clock and the caller know is part of it, so a pick is repeatable."""

    runs: tuple[SortedRun, ...]
    ms_since_full: int | None = None  # None: no full compaction is known
    offpeak_ratio_pct: int = 0  # what the hour adds to the size ratio, see offpeak.py
    calls_since_force: int = 0  # for force-up-level0 in its gentle form

    @property
    def total_bytes(self) -> int:
        """The size of all runs."""
        return sum(run.size_bytes for run in self.runs)


def check_runs(runs: Sequence[SortedRun]) -> None:
    """Refuse runs that are not newest first: a level never stands before a lower one."""
    for newer, older in pairwise(runs):
        if newer.level > older.level:
            raise InvalidInputError(
                f"Level {older.level} stands after level {newer.level}; list the runs newest first, level 0 before 1.",
                level=older.level,
            )


def note_odd_runs(runs: Sequence[SortedRun], *, level_count: int) -> tuple[str, ...]:
    """Say what about these runs no real table shows."""
    doubled = sorted({a.level for a, b in pairwise(runs) if a.level == b.level and a.level})
    notes = [
        f"two runs on level {level}: a real table has one run on each level from 1 up; taken as drawn"
        for level in doubled
    ]
    highest = max((run.level for run in runs), default=0)
    if highest >= level_count:
        notes.append(f"a run stands on level {highest}, so the table counts as having {highest + 1} levels")
    return tuple(notes)


def apply_tree_decision(view: TreeView, decision: Decision[Level]) -> TreeView:
    """Replace the picked runs by their output; a skip leaves the runs as they are.

    The output is as big as its inputs, which is the upper bound: what deletes and updates remove is not known here.
    """
    for pick in decision.picks:
        view = _apply_pick(view, pick)
    return view


def _apply_pick(view: TreeView, pick: Pick[Level]) -> TreeView:
    if pick.reason is Reason.FILE_REWRITE:
        return replace(view, runs=tuple(_settled(run) for run in view.runs))
    taken = view.runs[: len(pick.inputs)]
    merged = SortedRun(
        level=int(pick.output),
        size_bytes=sum(run.size_bytes for run in taken),
        name="+".join(run.name for run in taken),
    )
    is_full = len(taken) == len(view.runs)
    return replace(
        view,
        runs=(merged, *view.runs[len(taken) :]),
        ms_since_full=0 if is_full else view.ms_since_full,
    )


def _settled(run: SortedRun) -> SortedRun:
    files = tuple(replace(file, has_deletion_vector=False, may_be_expired=False) for file in run.files)
    return replace(run, files=files)
