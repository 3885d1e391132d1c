"""Sections and upgrades: which files of a pick are rewritten, and which only change their level.

1. *Sections*: sort the files by smallest, then largest key. A file whose smallest key is strictly above every key so
   far begins a new section; sections never share a key. Within a section files are packed into the fewest sorted runs.
2. Walk the sections in key order. A section of two runs or more is queued for a rewrite. Of a single run, each file
   below ``min_file_bytes`` is queued too, as a separate section; a bigger file first ends the queue, then is
   *upgraded*: it keeps its bytes and gets the new level.
3. End of the queue: a lone run is upgraded (rewriting a single small file gains nothing); otherwise the whole queue is
   one *rewrite*, so that small neighbours are joined.
4. An upgrade becomes a rewrite if the file may hold deletes and goes to the top level, if it may hold expired rows,
   or if ``force_rewrite`` is set. A file already on the output level stays as it is.

A pick of one file that is already on the output level needs no work (the *no-op rule*). Delete markers may be dropped
only if no older version of their key can be below the output: the output is at or above the highest level that holds
anything, or deletion vectors hide the older versions.

Cost: overlapping bytes are read and written once; the rest costs one line of metadata.

    before   L0 [1-3]   L1 [1-5]   L1 [6-7]      all -> L2, min_file_bytes 2
    after    L2 [1-5] rewritten, L2 [6-7] upgraded

Source: Apache Paimon `IntervalPartition`, `MergeTreeCompactTask`, `MergeTreeCompactManager` (research notes 2.2-2.4).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from packstone.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packstone.model.sorted_run import Key, TreeFile

    Run: TypeAlias = tuple[TreeFile, ...]
    Section: TypeAlias = tuple[Run, ...]

FileT = TypeVar("FileT")
DEFAULT_MIN_FILE_BYTES = 128 * 2**20 * 7 // 10  # target-file-size × compaction.small-file-ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionOptions:
    """The size below which files are joined, and what else a merge must do."""

    min_file_bytes: int = DEFAULT_MIN_FILE_BYTES
    force_rewrite: bool = False
    keep_deletes: bool = False  # chain tables need every delete marker
    has_deletion_vectors: bool = False  # a property of the table, not of a file

    def __post_init__(self) -> None:
        """Refuse a size below zero."""
        if self.min_file_bytes < 0:
            raise InvalidInputError(f"min_file_bytes is {self.min_file_bytes}; it must be at least 0.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Merge these sections, in key order, through one writer; its outputs never overlap."""

    sections: tuple[Section, ...]

    @property
    def files(self) -> tuple[TreeFile, ...]:
        """All files that are read."""
        return tuple(file for section in self.sections for run in section for file in run)

    def __str__(self) -> str:
        return f"rewrite {' '.join(file.name for file in self.files)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """Keep the file and give it the output level."""

    file: TreeFile

    @property
    def files(self) -> tuple[TreeFile, ...]:
        """The one file."""
        return (self.file,)

    def __str__(self) -> str:
        return f"upgrade {self.file.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionPlan:
    """A pick, decided file by file."""

    output_level: int
    drop_deletes: bool
    work: tuple[Rewrite | Upgrade, ...]
    untouched: tuple[TreeFile, ...]  # on the output level already

    @property
    def is_no_op(self) -> bool:
        """Whether there is nothing to do at all."""
        return not self.work


def split_sections(files: Iterable[TreeFile]) -> tuple[Section, ...]:
    """Cut files into sections that share no key, each packed into the fewest sorted runs."""
    return cut_sections(files, lambda file: (file.min_key, file.max_key))


def cut_sections(
    files: Iterable[FileT], bounds: Callable[[FileT], tuple[Key, Key]], *, may_touch: bool = False
) -> tuple[tuple[tuple[FileT, ...], ...], ...]:
    """Cut any files with a first and a last key into sections; ``may_touch``: one may begin with another's last key."""

    def is_after(first: Key, end: Key) -> bool:
        return not first < end if may_touch else end < first

    sections: list[list[FileT]] = []
    bound: Key | None = None
    for file in sorted(files, key=bounds):
        first, last = bounds(file)
        if bound is None or is_after(first, bound):
            sections.append([])
            bound = last
        elif bound < last:
            bound = last
        sections[-1].append(file)
    return tuple(_pack_runs(section, bounds, is_after) for section in sections)


def plan_sections(
    files: Sequence[TreeFile], options: SectionOptions, *, output_level: int, top_level: int, highest_level: int
) -> SectionPlan:
    """Decide for each file of a pick; ``highest_level`` is the highest one that held files before the pick."""
    work: list[Rewrite | Upgrade] = []
    for waiting in () if is_no_op(files, output_level=output_level) else _gather(split_sections(files), options):
        if _is_lone_run(waiting):
            lone = waiting[0][0]
            work.extend(_lift(file, options, is_top=output_level == top_level) for file in lone)
        else:
            work.append(Rewrite(sections=waiting))
    work = [one for one in work if isinstance(one, Rewrite) or one.file.level != output_level]
    moved = {file.name for one in work for file in one.files}
    return SectionPlan(
        output_level=output_level,
        drop_deletes=may_drop_deletes(options, output_level=output_level, highest_level=highest_level),
        work=tuple(work),
        untouched=tuple(file for file in files if file.name not in moved),
    )


def is_no_op(files: Sequence[TreeFile], *, output_level: int) -> bool:
    """Whether a pick is empty, or one file that is already on the output level."""
    return not files or [file.level for file in files] == [output_level]


def may_drop_deletes(options: SectionOptions, *, output_level: int, highest_level: int) -> bool:
    """Whether no older version of a deleted key can be below the output."""
    if options.keep_deletes or output_level == 0:
        return False
    return output_level >= highest_level or options.has_deletion_vectors


def _pack_runs(
    section: list[FileT], bounds: Callable[[FileT], tuple[Key, Key]], is_after: Callable[[Key, Key], bool]
) -> tuple[tuple[FileT, ...], ...]:
    """Append each file to the run that ends first, if it fits there; this needs the fewest runs."""
    runs: list[list[FileT]] = []
    ends: list[tuple[Key, int]] = []
    for file in section:
        first, last = bounds(file)
        if ends and is_after(first, ends[0][0]):
            _, at = heapq.heappop(ends)
            runs[at].append(file)
        else:
            at = len(runs)
            runs.append([file])
        heapq.heappush(ends, (last, at))
    return tuple(tuple(run) for run in runs)


def _gather(sections: tuple[Section, ...], options: SectionOptions) -> Iterator[tuple[Section, ...]]:
    """Yield the sections that are processed together: queued neighbours, or a big file alone."""
    waiting: list[Section] = []
    for section in sections:
        if len(section) > 1:
            waiting.append(section)
            continue
        for file in section[0]:
            alone = ((file,),)
            if file.size_bytes < options.min_file_bytes:
                waiting.append(alone)
                continue
            if waiting:
                yield tuple(waiting)
                waiting = []
            yield (alone,)
    if waiting:
        yield tuple(waiting)


def _is_lone_run(waiting: tuple[Section, ...]) -> bool:
    return len(waiting) == 1 and len(waiting[0]) == 1


def _lift(file: TreeFile, options: SectionOptions, *, is_top: bool) -> Rewrite | Upgrade:
    """Move a file to the output level; rewrite it only if some of its rows must be removed."""
    if options.force_rewrite or file.may_be_expired or (is_top and file.may_hold_deletes):
        return Rewrite(sections=(((file,),),))
    return Upgrade(file=file)
