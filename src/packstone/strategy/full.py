"""Full compaction: everything becomes one run on the top level.

1. *File rewrite*: if there is only one run and it is on the top level, there is nothing to merge. Only files that need
   it are rewritten, each separately: all of them with ``force_rewrite``, else those that may hold expired rows or that
   have a deletion vector.
2. *Full*: otherwise all runs go to the top level, even a single lower one (that is an upgrade: its files only change
   their level, see sections.py).

Cost: reads and writes the whole bucket, and needs its size again as free space while it runs; afterwards readers merge
nothing, and no deleted or stale row is left.

    before   L0 1   L0 2   L4 10   L5 100      6 levels
    after    L5 113                            or less: what was deleted or updated is gone

Source: Apache Paimon `CompactStrategy.pickFullCompaction` (research notes 1.8).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from packstone.model.sorted_run import Level
from packstone.strategy.pick import Pick, Reason, Skip, Strategy, try_rules
from packstone.strategy.tree_view import TreeView, apply_tree_decision
from packstone.strategy.universal import UniversalOptions, merge_first, top_level

if TYPE_CHECKING:
    from packstone.model.sorted_run import SortedRun, TreeFile
    from packstone.strategy.pick import Decision, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class FullOptions:
    """The levels of the tree, and whether every file is to be rewritten."""

    universal: UniversalOptions = field(default_factory=UniversalOptions)
    force_rewrite: bool = False


def pick_full(view: TreeView, options: FullOptions) -> Decision[Level]:
    """Pick everything, or only the files that need a rewrite."""
    return try_rules(RULES, view, options)


def full_strategy(options: FullOptions) -> Strategy[TreeView, Level]:
    """Bind the options."""
    return Strategy(name="full", pick=partial(pick_full, options=options), apply=apply_tree_decision)


def files_to_rewrite(run: SortedRun, options: FullOptions) -> tuple[TreeFile, ...]:
    """Return the files of a run on the top level that `file-rewrite` rewrites one by one."""
    return tuple(file for file in run.files if options.force_rewrite or file.may_be_expired or file.has_deletion_vector)


def pick_file_rewrite(view: TreeView, options: FullOptions) -> Pick[Level] | Skip:
    """Rewrite single files of a table that is already one run on the top level."""
    top = top_level(view, options.universal)
    if [run.level for run in view.runs] != [top]:
        return Skip(why=f"file-rewrite: only for one run on L{top}")
    chosen = files_to_rewrite(view.runs[0], options)
    if not chosen:
        return Skip(why=f"file-rewrite: the only run is on L{top}, and no file asks for a rewrite")
    why = f"file-rewrite: {' '.join(file.name for file in chosen)}"
    return Pick(inputs=(0,), output=Level(top), reason=Reason.FILE_REWRITE, why=why)


def pick_everything(view: TreeView, options: FullOptions) -> Pick[Level] | Skip:
    """Merge all runs into the top level."""
    top = top_level(view, options.universal)
    if not view.runs:
        return Skip(why="full: there are no runs")
    if [run.level for run in view.runs] == [top]:
        return Skip(why=f"full: everything is on L{top} already", is_off=True)
    why = f"{len(view.runs)} to L{top}"
    return merge_first(view, options.universal, len(view.runs), reason=Reason.FULL, why=why)


RULES: Final[tuple[Rule[TreeView, FullOptions, Level], ...]] = (pick_file_rewrite, pick_everything)
