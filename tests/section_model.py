"""What a bucket looks like after a plan of sections, as the scenario files and properties count it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from packstone.model.sorted_run import TreeFile
from packstone.strategy.sections import SectionPlan, Upgrade


def apply_section_plan(files: Sequence[TreeFile], plan: SectionPlan) -> tuple[TreeFile, ...]:
    """Give the files of the bucket after the work; a rewrite counts as one file as big as its inputs.

    New and upgraded files come first, in key order; the others keep their order.
    """
    gone: set[str] = set()
    made: list[TreeFile] = []
    for work in plan.work:
        gone.update(file.name for file in work.files)
        is_upgrade = isinstance(work, Upgrade)
        made.append(replace(work.files[0], level=plan.output_level) if is_upgrade else _rewritten(work.files, plan))
    return (*made, *(file for file in files if file.name not in gone))


def _rewritten(files: tuple[TreeFile, ...], plan: SectionPlan) -> TreeFile:
    first = min(files, key=lambda file: file.min_key)
    last = max(files, key=lambda file: file.max_key)
    deletes = [file.delete_rows for file in files]
    kept = None if None in deletes else sum(count or 0 for count in deletes)
    return replace(
        first,
        name="+".join(file.name for file in files),
        level=plan.output_level,
        size_bytes=sum(file.size_bytes for file in files),
        max_key=last.max_key,
        delete_rows=0 if plan.drop_deletes else kept,
        has_deletion_vector=False,
        may_be_expired=False,
        min_sequence=min(file.min_sequence for file in files),
        max_sequence=max(file.max_sequence for file in files),
    )
