"""Observe and plan, partition by partition: list, look into the small files, ask the strategy.

One batch of partitions is in memory at a time. Above ``INLINE_FACTS`` files the footers are read by the engine,
because a driver that opens a million files alone is the bottleneck everybody complains about.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError
from packstone.model.skipped import SkipKind, Skipped
from packstone.pruning.partition_predicate import PartitionPredicate, parse_predicate
from packstone.runs.tasks import check_done, pack_units
from packstone.storage.fileio import PRIVATE
from packstone.strategy.small_files import is_small
from packstone.tables.hive.file_facts import read_file_facts
from packstone.tables.hive.file_verdict import FileFacts, Verdict
from packstone.tables.hive.known_outputs import known_outputs
from packstone.tables.hive.listing import list_named, list_partitions
from packstone.tables.hive.partition_values import parse_partition
from packstone.tables.hive.plan_partition import (
    PartitionPlan,
    plan_partition,
    refuse_partition,
    select_files,
    small_files_options,
)
from packstone.tables.hive.switch import switched_folders
from packstone.tables.hive.tasks import FACTS_JOB, FactsUnit
from packstone.tables.state_folder import make_staging, make_state_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.model.files import FileEntry
    from packstone.model.filters import Filters
    from packstone.model.merge_options import MergeOptions
    from packstone.runs.engine import Engine
    from packstone.tables.hive.journal import Journal
    from packstone.tables.hive.listing import FolderSource, PartitionListing

INLINE_FACTS = 1_000
_BATCH_FILES = 20_000  # files whose entries and facts are held at once
_FACTS_A_TASK = 500


@dataclass(slots=True)
class Totals:
    """What the walk saw: the target's visible data files."""

    files: int = 0
    bytes: int = 0
    small_files: int = 0
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class _Observed:
    listing: PartitionListing
    selected: tuple[FileEntry, ...]
    skipped: tuple[Skipped, ...]


@dataclass(slots=True)
class Planner:
    """Plans partitions of one table; ``totals`` grows as the plans are drawn."""

    journal: Journal
    options: MergeOptions
    filters: Filters
    engine: Engine
    facts_staging: str
    folders: FolderSource | None = None  # what a metastore names, in place of what lies below the target
    totals: Totals = field(default_factory=Totals)
    _predicates: dict[tuple[str, ...], PartitionPredicate | None] = field(default_factory=dict)
    _unknown_column: InvalidInputError | None = None
    _facts_jobs: int = 0
    _left_folders: dict[str, str] | None = None

    def plan(self, partition: str) -> Iterator[PartitionPlan]:
        """Yield the plan of every partition at or below the given one, also of those with nothing to do."""
        self._check_where()
        waiting: list[_Observed] = []
        waiting_files = 0
        for listing in self._listings(partition):
            self._count(listing)
            why_not = refuse_partition(listing) or self._switched(listing) or self._filtered(listing)
            if why_not is not None:
                yield PartitionPlan(listing=listing, units=(), skipped=(why_not,))
                continue
            selected, skipped = select_files(listing, self.options, now_seconds=time.time())
            waiting.append(_Observed(listing, selected, skipped))
            waiting_files += 1 + len(listing.files)  # a folder without small files is held too
            if waiting_files >= _BATCH_FILES:
                yield from self._plan_batch(waiting)
                waiting, waiting_files = [], 0
        yield from self._plan_batch(waiting)
        if self._unknown_column is not None and self._predicates and not any(self._predicates.values()):
            raise self._unknown_column  # nothing matched, so nothing was planned: a slip in the name

    def _listings(self, partition: str) -> Iterator[PartitionListing]:
        io, now = self.journal.io, time.time()
        if self.folders is not None:
            return list_named(io, self.folders, now_seconds=now)
        return list_partitions(io, self.journal.layout.root, partition, now_seconds=now)

    def _switched(self, listing: PartitionListing) -> Skipped | None:
        """By its path, a folder that was left for another one is not told from others; our journal knows."""
        if self.folders is not None:
            return None
        if self._left_folders is None:
            self._left_folders = switched_folders(self.journal)
        why = self._left_folders.get(listing.directory)
        what = listing.partition or listing.directory
        return None if why is None else Skipped(what=what, why=why, kind=SkipKind.REFUSED)

    def plan_again(self, listing: PartitionListing, allowed: set[str]) -> PartitionPlan:
        """Plan one listing over the allowed names only: the rounds after the first."""
        selected, skipped = select_files(listing, self.options, now_seconds=time.time())
        chosen = tuple(file for file in selected if file.name in allowed)
        (plan,) = self._plan_batch([_Observed(listing, chosen, skipped)])
        return plan

    def _plan_batch(self, batch: list[_Observed]) -> Iterator[PartitionPlan]:
        worth = [one for one in batch if len(one.selected) >= self.options.min_files]
        facts = self._read_facts(worth)
        for one in batch:
            found = facts.get(one.listing.partition)
            if found is None:
                too_few = (*one.skipped, self._too_few(one))
                yield PartitionPlan(listing=one.listing, units=(), skipped=too_few)
                continue
            known = known_outputs(self.journal, one.listing)
            found = {name: _as_told(one.listing, facts) for name, facts in found.items()}
            plan = plan_partition(one.listing, one.selected, found, options=self.options, known_outputs=known)
            yield PartitionPlan(listing=plan.listing, units=plan.units, skipped=(*one.skipped, *plan.skipped))

    def _read_facts(self, batch: list[_Observed]) -> dict[str, dict[str, FileFacts]]:
        codec = self.options.codec
        if sum(len(one.selected) for one in batch) <= INLINE_FACTS:
            return {
                one.listing.partition: {
                    file.name: read_file_facts(self.journal.io, one.listing.directory, file, codec=codec)
                    for file in one.selected
                }
                for one in batch
            }
        pieces = [
            (one, one.selected[at : at + _FACTS_A_TASK])
            for one in batch
            for at in range(0, len(one.selected), _FACTS_A_TASK)
        ]
        found: dict[str, dict[str, FileFacts]] = {one.listing.partition: {} for one in batch}
        for (one, _), result in zip(pieces, self._run_facts(pieces), strict=True):
            found[one.listing.partition].update({facts.name: facts for facts in result})
        return found

    def _run_facts(self, pieces: list[tuple[_Observed, tuple[FileEntry, ...]]]) -> Iterator[tuple[FileFacts, ...]]:
        self._facts_jobs += 1
        staging = f"{self.facts_staging}/facts-{self._facts_jobs:04d}"
        layout = self.journal.layout
        if staging.startswith(f"{layout.state}/"):
            make_state_folder(self.journal.io, layout.root, layout.state)
            make_staging(self.journal.io, layout.state, staging)
        else:
            self.journal.io.make_dirs(staging, like=PRIVATE)
        units = [
            FactsUnit(number=number, directory=one.listing.directory, files=files, codec=self.options.codec)
            for number, (one, files) in enumerate(pieces)
        ]
        tasks = pack_units(units, context=None, parallel=len(units))
        what = f"inspect {sum(len(files) for _, files in pieces)} files"
        results = self.engine.run(FACTS_JOB, tasks, staging=staging, what=what, on_progress=lambda _units, _bytes: None)
        for result in results:
            check_done(result)
            yield result.outputs
        self.journal.io.remove_tree(staging)

    def _count(self, listing: PartitionListing) -> None:
        picking = small_files_options(self.options)
        self.totals.partitions += 1
        self.totals.files += len(listing.files)
        self.totals.bytes += listing.total_bytes
        self.totals.small_files += sum(1 for file in listing.files if is_small(file.size_bytes, picking))

    def _filtered(self, listing: PartitionListing) -> Skipped | None:
        what = listing.partition or listing.directory
        if any(_matches_path(listing.partition, glob) for glob in self.filters.exclude):
            return Skipped(what=what, why="excluded by --exclude", kind=SkipKind.FILTERED)
        newest = max((file.mtime_ns for file in listing.files), default=0) / 1e9
        if self.filters.older_than_seconds and time.time() - newest < self.filters.older_than_seconds:
            return Skipped(what=what, why="changed since --older-than", kind=SkipKind.FILTERED)
        if self.filters.where is not None:
            told = listing.told.values if listing.told is not None else None
            values = dict(told) if told is not None else parse_partition(listing.partition)
            predicate = self._predicate(self.filters.where, tuple(values))
            if predicate is None:
                return Skipped(what=what, why="has no partition column that --where names", kind=SkipKind.FILTERED)
            if not predicate.matches(values):
                return Skipped(what=what, why="does not match --where", kind=SkipKind.FILTERED)
        return None

    def _check_where(self) -> None:
        """Bad SQL is told before anything is done, also where there is no partition to try it on."""
        if self.filters.where is not None:
            self._parse(self.filters.where, ())

    def _predicate(self, where: str, columns: tuple[str, ...]) -> PartitionPredicate | None:
        """The condition for partitions with these columns; None if it names one that they lack."""
        if columns not in self._predicates:
            self._predicates[columns] = self._parse(where, columns)
        return self._predicates[columns]

    def _parse(self, where: str, columns: tuple[str, ...]) -> PartitionPredicate | None:
        try:
            return parse_predicate(where, columns)
        except InvalidInputError as error:
            if "columns" not in error.facts:
                raise
            # Of folders of many depths, the one with most columns tells best what there is.
            before = self._unknown_column.facts["columns"] if self._unknown_column else ()
            if self._unknown_column is None or len(columns) >= len(before):
                self._unknown_column = error
            return None

    def _too_few(self, one: _Observed) -> Skipped:
        what = one.listing.partition or one.listing.directory
        few = len(one.selected)
        return Skipped(
            what=what, why=f"{few} small files, fewer than {self.options.min_files}", kind=SkipKind.NOT_NEEDED
        )


def _as_told(listing: PartitionListing, facts: FileFacts) -> FileFacts:
    """A file that is not what the metastore says of its folder is not what its readers take it for."""
    why = listing.told.why_not(facts.file_format) if listing.told is not None else None
    if why is None or facts.verdict is not Verdict.MERGEABLE:
        return facts
    return replace(facts, verdict=Verdict.UNREADABLE, why=why)


def _matches_path(partition: str, glob: str) -> bool:
    """Match the whole path of a partition, or any folder of it."""
    return fnmatchcase(partition, glob) or any(fnmatchcase(folder, glob) for folder in partition.split("/"))
