"""A table by its name: the metastore says where its files are, what they are, and whether they may be merged at all.

Partitions below the table's folder are one target, with one journal, as if the folder had been given. A partition that
lies elsewhere is a target of its own: whoever gives that folder by its path meets the same owner and the same journal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from packstone.errors import InvalidInputError, RefusedError
from packstone.model.metastore import PartitionFacts, TableFacts
from packstone.model.outcome import Cost, Outcome, Status
from packstone.model.told import Told
from packstone.service.health import Health, warn
from packstone.service.hive_table import HiveTable
from packstone.storage.location import parse_location
from packstone.storage.stores import open_store
from packstone.tables.hive.layout import find_layout, home_of, split_target
from packstone.tables.hive.listing import NamedFolder, count_data
from packstone.tables.hive.partition_values import parse_partition
from packstone.tables.hive.table_refusals import refuse_named_partition, refuse_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.model.filters import Budget, Filters
    from packstone.model.merge_options import MergeOptions
    from packstone.tables.hive.listing import FolderSource


class Metastore(Protocol):
    """Whoever knows the tables: a metastore's database, or Spark's catalog."""

    @property
    def key(self) -> str:
        """Which one this is, without user and password."""

    def find_table(self, database: str, name: str) -> TableFacts:
        """One table; InvalidInputError if there is none."""

    def list_partitions(self, table: TableFacts) -> Iterator[PartitionFacts]:
        """Its partitions, a page at a time."""

    def who_shares(self, table: TableFacts, location: str) -> str | None:
        """Another table at, above or below a location."""

    def read_location(self, table: str, partition: str) -> str | None:
        """Where a partition is now, or, without one, a table; None if there is no such thing."""

    def close(self) -> None:
        """Let go of it."""


class Statistics(Protocol):
    """Whoever can correct the statistics in a metastore."""

    def set_numbers(self, table: str, partition: str, numbers: dict[str, int]) -> None:
        """Set these numbers of a partition, or, without one, of a table."""


@dataclass(frozen=True, slots=True)
class NamedTable:
    """One table of a metastore that may be merged."""

    facts: TableFacts
    metastore: Metastore
    open_target: Callable[[str, FolderSource], HiveTable]
    by_location: bool = False
    statistics: Statistics | None = None

    @classmethod
    def find(
        cls,
        name: str,
        *,
        metastore: Metastore,
        open_target: Callable[[str, FolderSource], HiveTable],
        by_location: bool = False,
        statistics: Statistics | None = None,
    ) -> NamedTable:
        """Look a table up; RefusedError says why one must not be merged, or not in this way."""
        facts = metastore.find_table(*name.split("."))
        why = refuse_table(facts)
        if why is not None:
            raise RefusedError(f"{facts.full_name} {why}; nothing was changed.", table=facts.full_name)
        found = cls(facts, metastore, open_target, by_location, statistics)
        found.check_alone(facts.location)
        return found

    @classmethod
    def home(
        cls, name: str, *, metastore: Metastore, open_target: Callable[[str, FolderSource], HiveTable]
    ) -> HiveTable:
        """The table's own folder, whatever it is: to recover, restore and clean what runs did there."""
        found = cls(metastore.find_table(*name.split(".")), metastore, open_target)
        if not found.facts.location:
            raise InvalidInputError(f"{found.facts.full_name} has no files of its own: {_no_folder(found.facts)}.")
        return open_target(found._root, found._inside())

    def check_alone(self, location: str) -> None:
        """Refuse a location that another table has too: its readers and writers know nothing of us."""
        other = self.metastore.who_shares(self.facts, location)
        if other is not None:
            raise RefusedError(
                f"{self.facts.full_name} shares {location} with {other}, at, above or below it; nothing was changed.",
                table=self.facts.full_name,
                other=other,
            )

    def health(self, options: MergeOptions) -> Health:
        """Describe all its files as one table."""
        health = Health(table=self.facts.full_name)
        if self.facts.kind == "EXTERNAL_TABLE":
            evidence = "the metastore calls it external: others may write here, or know its files by their paths"
            warn(health, "external-table", where=".", evidence=evidence)
        for target in self.targets():
            target.health(options, health=health)
        return health

    def plan(self, options: MergeOptions, *, filters: Filters) -> Outcome:
        """Say what ``compact`` would do; writes nothing."""
        return self._joined(target.plan(options, filters=filters).outcome for target in self.targets())

    def compact(
        self, options: MergeOptions, *, filters: Filters, budget: Budget, take_over: bool, measure_read: bool
    ) -> Outcome:
        """Merge the small files of all its partitions, verify, publish, record."""
        return self._joined(
            target.compact(options, filters=filters, budget=budget, take_over=take_over, measure_read=measure_read)
            for target in self.targets()
        )

    def correct_statistics(self, outcome: Outcome) -> None:
        """Set ``numFiles`` and ``totalSize`` of what a run changed in place, one partition after the other."""
        merged = {unit.partition for unit in outcome.units}
        name, catalog = self.facts.full_name, self.statistics
        if catalog is None:
            return
        if not self.facts.partition_keys:
            if merged:
                path = parse_location(self.facts.location).path
                catalog.set_numbers(name, "", count_data(open_store(path), path))
            return
        layout, _ = find_layout(open_store(self._root), self._root)
        for partition in self.metastore.list_partitions(self.facts):
            path = parse_location(partition.storage.location).path
            inside = layout.name_inside(path)
            if (split_target(path)[1] if inside is None else inside) in merged:
                catalog.set_numbers(name, partition.name, count_data(open_store(path), path))

    def targets(self) -> Iterator[HiveTable]:
        """The table's own folder, if anything lies in it, and every partition elsewhere."""
        inside = self._inside()
        # Asked before anything is merged: if one must be refused, or the metastore goes away, no outcome is lost.
        elsewhere = tuple(self._elsewhere()) if self.facts.partition_keys else ()
        if not self.facts.partition_keys or any(True for _ in inside()):
            yield self.open_target(self._root, inside)
        yield from elsewhere

    @property
    def _root(self) -> str:
        path = parse_location(self.facts.location).path
        return path if self.facts.partition_keys else home_of(path)

    def _inside(self) -> FolderSource:
        """The folders at or below the table's, and those that we published for it."""
        root = self._root
        layout, _ = find_layout(open_store(root), root)
        if not self.facts.partition_keys:
            told = Told(name="", file_format=self.facts.file_format(), header_lines=self.facts.header_lines())
            path = parse_location(self.facts.location).path
            whole = NamedFolder(partition=split_target(root)[1], directory=path, told=told)
            return lambda: iter((whole,))

        def folders() -> Iterator[NamedFolder]:
            for partition in self.metastore.list_partitions(self.facts):
                path = parse_location(partition.storage.location).path
                name = layout.name_inside(path)
                if name is not None:
                    yield NamedFolder(partition=name, directory=path, told=self._told(partition))

        return folders

    def _elsewhere(self) -> Iterator[HiveTable]:
        root = self._root
        layout, _ = find_layout(open_store(root), root)
        for partition in self.metastore.list_partitions(self.facts):
            path = parse_location(partition.storage.location).path
            if layout.name_inside(path) is not None or open_store(path).stat(path) is None:
                continue
            self.check_alone(partition.storage.location)
            told = self._told(partition)
            if self.by_location and told.refused is None:
                why = "lies outside the table's folder, and is published in place only"
                told = replace(told, refused=f"{self.facts.full_name} {partition.name} {why}")
            folder = NamedFolder(partition=split_target(path)[1], directory=path, told=told)
            yield self.open_target(path, lambda folder=folder: iter((folder,)))  # type: ignore[misc]

    def _told(self, partition: PartitionFacts) -> Told:
        refused = refuse_named_partition(self.facts, partition)
        return Told(
            name=partition.name,
            file_format=self.facts.file_format(partition.storage),
            header_lines=self.facts.header_lines(partition),
            values=parse_partition(partition.name),
            refused=None if refused is None else f"{self.facts.full_name} {partition.name} {refused}",
        )

    def _joined(self, outcomes: Iterator[Outcome]) -> Outcome:
        found = list(outcomes)
        if not found:
            raise InvalidInputError(f"{self.facts.full_name} has no partitions; there is nothing to merge.")
        return replace(join_outcomes(self.facts.full_name, found), undo_by_name=self.by_location)


def _no_folder(facts: TableFacts) -> str:
    return "it is a view" if facts.kind.endswith("_VIEW") else "the metastore names no location"


def join_outcomes(name: str, outcomes: list[Outcome]) -> Outcome:
    """One answer for a table whose folders are several targets; each target's run is named."""
    first = outcomes[0]
    runs = tuple((one.run, one.table) for one in outcomes if one.run is not None)
    return replace(
        first,
        name=name,
        run=runs[0][0] if runs else None,
        runs=runs if len(runs) > 1 else (),
        status=_joined_status([one.status for one in outcomes]),
        files_before=sum(one.files_before for one in outcomes),
        files_after=sum(one.files_after for one in outcomes),
        bytes_before=sum(one.bytes_before for one in outcomes),
        bytes_after=sum(one.bytes_after for one in outcomes),
        verified=next((one.verified for one in outcomes if one.verified != "none"), "none"),
        cost=Cost(**{part: sum(getattr(one.cost, part) for one in outcomes) for part in first.cost.__slots__}),
        rows=sum(one.rows for one in outcomes),
        seconds=sum(one.seconds for one in outcomes),
        verify_seconds=sum(one.verify_seconds for one in outcomes),
        swap_ms=sum(one.swap_ms for one in outcomes),
        units=tuple(unit for one in outcomes for unit in one.units),
        skipped=tuple(skip for one in outcomes for skip in one.skipped),
        recovered=tuple(text for one in outcomes for text in one.recovered),
        warnings=tuple(text for one in outcomes for text in one.warnings),
        read_times=tuple(times for one in outcomes for times in one.read_times),
        message=next((one.message for one in outcomes if one.message), ""),
    )


def _joined_status(statuses: list[Status]) -> Status:
    """What committed stays: beside anything that failed, that is partial."""
    bad = (Status.PARTIAL, Status.FAILED, Status.CONFLICT, Status.REFUSED)
    for good in (Status.COMMITTED, Status.PLANNED):
        if good in statuses:
            broken = good is Status.COMMITTED and any(one in statuses for one in bad[:3])
            return Status.PARTIAL if broken else good
    return next((one for one in bad if one in statuses), Status.NOTHING_TO_DO)
