"""Observe and plan, partition by partition: list the files, inspect the small ones, apply the strategy.

One batch of partitions is in memory at a time. Where the merge will probably be work for several processes, the engine
reads the footers too: a driver that opens a million files alone is a well-known bottleneck, and workers that merge the
files need the code that reads them anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from packstone.errors import InvalidInputError
from packstone.model.outcome import SkipKind, Skipped
from packstone.model.sizes import plural
from packstone.model.work import Totals
from packstone.runs.clock import now_seconds
from packstone.runs.engine import POOL_MIN_BYTES, POOL_MIN_FILES
from packstone.runs.state_folder import make_scratch
from packstone.runs.tasks import check_done, pack_units
from packstone.tables.hive.file_facts import FileFacts, Verdict, read_file_facts
from packstone.tables.hive.layout import parse_partition
from packstone.tables.hive.listing import list_named, list_partitions
from packstone.tables.hive.plan import (
    YOUNG,
    PartitionPlan,
    known_outputs,
    plan_partition,
    refuse_partition,
    select_files,
)
from packstone.tables.hive.tasks import FACTS_JOB, FactsUnit, FolderFiles, InspectedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.model.files import FileEntry
    from packstone.model.limits import Filters
    from packstone.query.filter.partition_filter import PartitionFilter
    from packstone.runs.engine import Engine
    from packstone.tables.family import FindFormat
    from packstone.tables.hive.journal import Journal
    from packstone.tables.hive.listing import FolderSource, PartitionListing
    from packstone.tables.hive.options import HiveOptions

_BATCH_FILES = 20_000  # files whose entries and facts are held at once
_FACTS_A_UNIT = 50


@dataclass(frozen=True, slots=True)
class _Observed:
    listing: PartitionListing
    selected: tuple[FileEntry, ...]
    skipped: tuple[Skipped, ...]


@dataclass(slots=True)
class HivePlanner:
    """Plan the partitions of one table; ``totals`` grows while the plans are consumed."""

    journal: Journal
    options: HiveOptions
    filters: Filters
    engine: Engine
    facts_staging: str
    moves_whole: bool = False  # files that are not merged are copied to the new location too
    folders: FolderSource | None = None  # the folders that a metastore names, instead of those below the target
    totals: Totals = field(default_factory=Totals)
    find_format: FindFormat | None = None  # recognises tables of other families
    _predicates: dict[tuple[str, ...], PartitionFilter | None] = field(default_factory=dict)
    _unknown_column: InvalidInputError | None = None
    _facts_jobs: int = 0
    _left_folders: dict[str, str] | None = None

    def plan(self, partition: str) -> Iterator[PartitionPlan]:
        """Yield the plan of every partition at or below the given one, including those with nothing to do."""
        self._check_where()
        waiting: list[_Observed] = []
        waiting_files = 0
        for listing in self._listings(partition):
            self._count(listing)
            why_not = refuse_partition(listing) or self._switched(listing) or self._filtered(listing)
            if why_not is not None:
                yield PartitionPlan(listing=listing, units=(), skipped=(why_not,))
                continue
            selected, skipped = select_files(listing, self.options, filters=self.filters, now_seconds=now_seconds())
            waiting.append(_Observed(listing, selected, skipped))
            waiting_files += 1 + len(listing.files)  # a folder without small files counts too
            if waiting_files >= _BATCH_FILES:
                yield from self._plan_batch(waiting)
                waiting, waiting_files = [], 0
        yield from self._plan_batch(waiting)
        if self._unknown_column is not None and self._predicates and not any(self._predicates.values()):
            raise self._unknown_column  # no partition has the column, so nothing was planned: it is probably misspelled

    def _listings(self, partition: str) -> Iterator[PartitionListing]:
        io, now = self.journal.io, now_seconds()
        if self.folders is not None:
            return list_named(io, self.folders, now_seconds=now, find_format=self.find_format)
        root = self.journal.layout.root
        return list_partitions(io, root, partition, now_seconds=now, find_format=self.find_format)

    def _switched(self, listing: PartitionListing) -> Skipped | None:
        """Refuse a folder that a new location replaced: its path does not show it, but our journal records it."""
        if self.folders is not None:
            return None
        if self._left_folders is None:
            self._left_folders = self._read_left_folders()
        why = self._left_folders.get(listing.directory)
        what = listing.partition or listing.directory
        return None if why is None else Skipped(what=what, why=why, kind=SkipKind.REFUSED)

    def _read_left_folders(self) -> dict[str, str]:
        if self.journal.io.stat(self.journal.layout.versions) is None:
            return {}  # nothing was ever published by its location
        from packstone.tables.hive.relocate import switched_folders

        return switched_folders(self.journal)

    def plan_again(self, listing: PartitionListing, allowed: set[str]) -> PartitionPlan:
        """Plan a round after the first: one listing, over the allowed names only."""
        selected, skipped = select_files(listing, self.options, filters=self.filters, now_seconds=now_seconds())
        chosen = tuple(file for file in selected if file.name in allowed)
        (plan,) = self._plan_batch([_Observed(listing, chosen, skipped)])
        return plan

    def _plan_batch(self, batch: list[_Observed]) -> Iterator[PartitionPlan]:
        inspected = [one for one in batch if len(one.selected) >= self.options.min_files]
        facts = self._read_facts(inspected)
        for one in batch:
            found = facts.get(one.listing.partition)
            if found is None:
                too_few = (*one.skipped, self._too_few(one))
                yield PartitionPlan(listing=one.listing, units=(), skipped=too_few)
                continue
            known = known_outputs(self.journal, one.listing)
            found = {name: _as_recorded(one.listing, facts) for name, facts in found.items()}
            plan = plan_partition(one.listing, one.selected, found, options=self.options, known_outputs=known)
            skipped = (*one.skipped, *plan.skipped)
            why = self._why_not_replace(plan)
            if why:
                refused = Skipped(what=plan.part, why=why, kind=SkipKind.REFUSED)
                yield PartitionPlan(listing=plan.listing, units=(), skipped=(*skipped, refused))
                continue
            yield PartitionPlan(listing=plan.listing, units=plan.units, skipped=skipped)

    def _why_not_replace(self, plan: PartitionPlan) -> str:
        """Why this process cannot publish the merges of a partition in place: found out before hours of work."""
        if self.moves_whole:
            return ""
        io, directory = self.journal.io, plan.listing.directory
        owners = {file.permissions for unit in plan.units for file in unit.inputs}
        return next((why for found in sorted(owners) if (why := io.why_not_replace(directory, found))), "")

    def _read_facts(self, batch: list[_Observed]) -> dict[str, dict[str, FileFacts]]:
        codec = self.options.codec
        files = sum(len(one.selected) for one in batch)
        size_bytes = sum(file.size_bytes for one in batch for file in one.selected)
        if files < POOL_MIN_FILES and size_bytes < POOL_MIN_BYTES:
            return {
                one.listing.partition: {
                    file.name: read_file_facts(self.journal.io, one.listing.directory, file, codec=codec)
                    for file in one.selected
                }
                for one in batch
            }
        pieces = [
            (
                one.listing.partition,
                FolderFiles(directory=one.listing.directory, files=one.selected[at : at + _FACTS_A_UNIT]),
            )
            for one in batch
            for at in range(0, len(one.selected), _FACTS_A_UNIT)
        ]
        found: dict[str, dict[str, FileFacts]] = {one.listing.partition: {} for one in batch}
        inspected = self._run_facts([folder for _, folder in pieces], files=files, size_bytes=size_bytes)
        for (partition, folder), facts in zip(pieces, inspected, strict=True):
            found[partition].update(facts.by_name(folder.files))
        return found

    def _run_facts(self, folders: list[FolderFiles], *, files: int, size_bytes: int) -> Iterator[InspectedFiles]:
        self._facts_jobs += 1
        staging = f"{self.facts_staging}/facts-{self._facts_jobs:04d}"
        layout = self.journal.layout
        make_scratch(self.journal.io, staging, root=layout.root, state=layout.state)
        units = [
            FactsUnit(number=number, folders=some, codec=self.options.codec)
            for number, some in enumerate(_gather(folders))
        ]
        what = f"inspect {files} files"
        self.engine.expect(FACTS_JOB, files=files, size_bytes=size_bytes)
        tasks = pack_units(units, context=None, parallelism=self.engine.parallelism)
        results = self.engine.run(FACTS_JOB, tasks, staging=staging, what=what, on_progress=lambda _units, _bytes: None)
        inspected: dict[int, tuple[InspectedFiles, ...]] = {}
        for result in results:  # in the order of tasks, which is not that of units
            check_done(result)
            inspected[result.number] = result.outputs
        self.journal.io.remove_tree(staging)
        for unit in units:
            yield from inspected[unit.number]

    def _count(self, listing: PartitionListing) -> None:
        self.totals.parts += 1
        self.totals.files += len(listing.files)
        self.totals.bytes += listing.total_bytes

    def _filtered(self, listing: PartitionListing) -> Skipped | None:
        what = listing.partition or listing.directory
        if any(_matches_path(listing.partition, glob) for glob in self.filters.exclude):
            return Skipped(what=what, why="excluded by --exclude", kind=SkipKind.FILTERED)
        newest = max((file.mtime_ns for file in listing.files), default=0) / 1e9
        if self.moves_whole and 0 < self.filters.min_age_seconds > now_seconds() - newest:
            why = f"it holds a file that is {YOUNG}, and a new location takes the whole partition"
            return Skipped(what=what, why=why, kind=SkipKind.FILTERED)
        if self.filters.where is not None:
            recorded = listing.facts.values if listing.facts is not None else None
            values = dict(recorded) if recorded is not None else parse_partition(listing.partition)
            predicate = self._predicate(self.filters.where, tuple(values))
            if predicate is None:
                return Skipped(what=what, why="has no partition column that --where names", kind=SkipKind.FILTERED)
            if not predicate.matches(values):
                return Skipped(what=what, why="does not match --where", kind=SkipKind.FILTERED)
        return None

    def _check_where(self) -> None:
        """Raise an error for bad SQL before anything is done, even if there is no partition to apply it to."""
        if self.filters.where is not None:
            self._parse(self.filters.where, ())

    def _predicate(self, where: str, columns: tuple[str, ...]) -> PartitionFilter | None:
        """Return the condition for partitions with these columns; None if it names a column that they lack."""
        if columns not in self._predicates:
            self._predicates[columns] = self._parse(where, columns)
        return self._predicates[columns]

    def _parse(self, where: str, columns: tuple[str, ...]) -> PartitionFilter | None:
        from packstone.query.filter.partition_filter import parse_partition_filter  # most runs have no --where

        try:
            return parse_partition_filter(where, columns)
        except InvalidInputError as error:
            if "columns" not in error.facts:
                raise
            # If folders differ in depth, report the columns of the deepest one.
            before = self._unknown_column.facts["columns"] if self._unknown_column else ()
            if self._unknown_column is None or len(columns) >= len(before):
                self._unknown_column = error
            return None

    def _too_few(self, one: _Observed) -> Skipped:
        what = one.listing.partition or one.listing.directory
        few = len(one.selected)
        return Skipped(
            what=what, why=f"{plural(few, 'small file')}, fewer than {self.options.min_files}", kind=SkipKind.NOT_NEEDED
        )


def _as_recorded(listing: PartitionListing, facts: FileFacts) -> FileFacts:
    """Mark a file as unreadable whose format differs from the metastore's: readers would misread it."""
    why = listing.facts.why_not(facts.file_format) if listing.facts is not None else None
    if why is None or facts.verdict is not Verdict.MERGEABLE:
        return facts
    return replace(facts, verdict=Verdict.UNREADABLE, why=why)


def _gather(folders: list[FolderFiles]) -> Iterator[tuple[FolderFiles, ...]]:
    """Combine small folders, in order, so that a unit has enough files to be worth its cost."""
    waiting: list[FolderFiles] = []
    count = 0
    for folder in folders:
        if waiting and count + len(folder.files) > _FACTS_A_UNIT:
            yield tuple(waiting)
            waiting, count = [], 0
        waiting.append(folder)
        count += len(folder.files)
    if waiting:
        yield tuple(waiting)


def _matches_path(partition: str, glob: str) -> bool:
    """Match the whole path of a partition, or any folder of it."""
    return fnmatchcase(partition, glob) or any(fnmatchcase(folder, glob) for folder in partition.split("/"))
