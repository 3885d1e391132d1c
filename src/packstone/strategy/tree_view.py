"""A merge tree as the strategies see it: its sorted runs, and the tree after a pick.

Runs are listed newest first: the files of level 0, then the runs of level 1, 2 and so on. A pick is always a prefix of
that list, because a newer row must never be on a higher level than an older one of the same key.

Every file of level 0 is a run; all files of a higher level are one run. On level 0 the newest comes first: the larger
highest sequence number; among equals the smaller lowest one, then the earlier creation, then the name (two jobs may
write equal sequence numbers, apache/paimon#5872).

    L0 a [1-9] 1B seq=98-100   L0 b [1-9] 1B seq=99-100   L1 c [1-4] 2B   L1 d [5-9] 3B
    runs: L0 a 1B   L0 b 1B   L1 c+d 5B

Source: Apache Paimon `Levels`, `SortedRun` (research notes 1.1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from packstone.errors import CorruptionError, InvalidInputError
from packstone.model.sorted_run import SortedRun
from packstone.strategy.pick import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packstone.model.sorted_run import Level, TreeFile
    from packstone.strategy.pick import Decision, Pick


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeView:
    """One bucket at one moment; it includes times and counters from the caller, so that a pick is repeatable."""

    runs: tuple[SortedRun, ...]
    ms_since_full: int | None = None  # None: no full compaction is known
    offpeak_ratio_pct: int = 0  # what the hour adds to the size ratio, see `OffPeakHours`
    calls_since_force: int = 0  # for force-up-level0 in its gentle form

    @property
    def total_bytes(self) -> int:
        """The size of all runs."""
        return sum(run.size_bytes for run in self.runs)


def check_runs(runs: Sequence[SortedRun]) -> None:
    """Refuse runs that are not newest first: a level never precedes a lower one."""
    for newer, older in pairwise(runs):
        if newer.level > older.level:
            raise InvalidInputError(
                f"Level {older.level} follows level {newer.level}; list the runs newest first, level 0 before 1.",
                level=older.level,
            )


def note_odd_runs(runs: Sequence[SortedRun], *, level_count: int) -> tuple[str, ...]:
    """Return notes on what does not occur in a real table."""
    doubled = sorted({a.level for a, b in pairwise(runs) if a.level == b.level and a.level})
    notes = [
        f"two runs on level {level}: a real table has one run on each level from 1 up; taken as drawn"
        for level in doubled
    ]
    highest = max((run.level for run in runs), default=0)
    if highest >= level_count:
        notes.append(f"a run is on level {highest}, so the table counts as having {highest + 1} levels")
    return tuple(notes)


def apply_tree_decision(view: TreeView, decision: Decision[Level]) -> TreeView:
    """Replace the picked runs by their output; a skip leaves the runs as they are.

    The output has the size of its inputs, an upper bound: the effect of deletes and updates is not known here.
    """
    for pick in decision.picks:
        view = _apply_pick(view, pick)
    return view


def _apply_pick(view: TreeView, pick: Pick[Level]) -> TreeView:
    if pick.reason is Reason.FILE_REWRITE:
        return replace(view, runs=tuple(_rewritten(run) for run in view.runs))
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


def _rewritten(run: SortedRun) -> SortedRun:
    files = tuple(replace(file, has_deletion_vector=False, may_be_expired=False) for file in run.files)
    return replace(run, files=files)


def sort_runs(files: Iterable[TreeFile]) -> tuple[SortedRun, ...]:
    """Return the sorted runs of a bucket, newest first; overlapping keys within a level are corruption."""
    by_level: dict[int, list[TreeFile]] = {}
    for file in files:
        by_level.setdefault(file.level, []).append(file)
    fresh = sorted(
        by_level.pop(0, ()), key=lambda file: (-file.max_sequence, file.min_sequence, file.created_ms, file.name)
    )
    runs = [_run((file,)) for file in fresh]
    for level in sorted(by_level):
        members = tuple(sorted(by_level[level], key=lambda file: file.min_key))
        check_no_overlap(members)
        runs.append(_run(members))
    return tuple(runs)


def check_no_overlap(files: Sequence[TreeFile]) -> None:
    """Raise CorruptionError if two files of one sorted run share a key: readers would return both versions."""
    for file, following in pairwise(files):
        if not file.max_key < following.min_key:
            raise CorruptionError(
                f"Files {file.name} and {following.name} overlap on level {file.level}; do not compact this bucket.",
                files=(file.name, following.name),
            )


def highest_level(files: Iterable[TreeFile]) -> int:
    """Return the highest level that holds a file; -1 if there is none."""
    return max((file.level for file in files), default=-1)


def _run(files: tuple[TreeFile, ...]) -> SortedRun:
    if len(files) == 1:  # nearly all of level 0
        return SortedRun(level=files[0].level, size_bytes=files[0].size_bytes, name=files[0].name, files=files)
    return SortedRun(
        level=files[0].level,
        size_bytes=sum(file.size_bytes for file in files),
        name="+".join(file.name for file in files),
        files=files,
    )
