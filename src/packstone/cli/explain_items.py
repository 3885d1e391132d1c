"""The items of `explain`, both ways: what was typed into a view, and a view into the same words.

::

    merge trees   LEVEL:SIZE                                  0:1  L5:10
    segments      ID[:MB][@DAY][=STATUS][+major][+external]   0  0.1:300@5  3=streaming
    files         MB[xCOUNT]                                  10x20  0.5
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError
from packstone.model.megabytes import parse_mb
from packstone.model.segment import Segment
from packstone.model.sizes import MAX_BYTES
from packstone.model.sorted_run import SortedRun
from packstone.strategy.segment_view import SegmentView, begin_command
from packstone.strategy.tree_view import TreeView, check_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_FILES = 1_000_000  # a table of more is no longer drawn, and a slip such as 10x1000000000 fills the memory
MAX_LEVEL = 1_000_000
_RUN = re.compile(r"L?([0-9]+):([0-9]+)")
_FILES = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:x([0-9]+))?")


def read_tree(items: Sequence[str]) -> TreeView:
    """Read runs, newest first; they are named by their position."""
    runs = []
    for at, item in enumerate(items):
        match = _RUN.fullmatch(item)
        if match is None:
            raise _bad_item(item, "LEVEL:SIZE in whole numbers, for example 0:1 or L5:10")
        level, size = int(match[1]), int(match[2])
        if level > MAX_LEVEL or size > MAX_BYTES:
            raise _bad_item(item, "a level and a size that a table can have")
        runs.append(SortedRun(level=level, size_bytes=size, name=str(at)))
    check_runs(runs)
    return TreeView(runs=tuple(runs))


def show_run(run: SortedRun) -> str:
    """Write a run as an item."""
    return f"L{run.level}:{run.size_bytes}"


def read_segments(items: Sequence[str], *, today: int | None) -> SegmentView:
    """Read segments in any order; without a date given, today is the latest load day."""
    segments = sorted((Segment.parse(item) for item in items), key=lambda segment: segment.id)
    latest = max((segment.load_day for segment in segments), default=0)
    view = begin_command(SegmentView(segments=tuple(segments)))
    return replace(view, today=latest if today is None else today)


def read_sizes(items: Sequence[str]) -> tuple[int, ...]:
    """Read files in name order, in bytes; ``10x3`` are three files."""
    sizes: list[int] = []
    for item in items:
        match = _FILES.fullmatch(item)
        if match is None or match[2] == "0":
            raise _bad_item(item, "MB or MBxCOUNT, for example 12.5 or 10x20")
        count = int(match[2] or 1)
        if len(sizes) + count > MAX_FILES:
            raise InvalidInputError(f"{item!r} makes more than {MAX_FILES:,} files; imagine fewer.", item=item)
        sizes.extend([parse_mb(Decimal(match[1]))] * count)
    return tuple(sizes)


def _bad_item(item: str, wanted: str) -> InvalidInputError:
    return InvalidInputError(f"{item!r} is no item; write {wanted}.", item=item)
