"""The health of a Hive table: files, sizes, the share of small files, and what prevents merging them."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError
from packstone.model.files import FileFormat
from packstone.model.health import (
    SIZE_CLASSES,
    Fact,
    Hazard,
    Histogram,
    Report,
    WorstPart,
    WorstParts,
    rate,
    share_pct,
    size_class,
)
from packstone.model.maintenance import CheckedPart, Damage, Recovered, TableCheck
from packstone.model.sizes import format_bytes, plural
from packstone.runs.clock import now_seconds
from packstone.storage.store_checks import find_store_hazards
from packstone.strategy.small_files import count_outputs, is_small
from packstone.tables.hive.file_facts import Verdict, read_file_facts
from packstone.tables.hive.listing import bucket_name, list_named, list_partitions, newest_offsets
from packstone.tables.hive.plan import group_files, small_files_options, why_maybe_headed
from packstone.tables.hive.recover import unexplained_backups, unfinished_swaps
from packstone.tables.hive.relocate import switched_folders
from packstone.tables.hive.tasks import HIVE_CHECK_JOB, FolderCheck, FolderFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.model.maintenance import CheckRequest
    from packstone.storage.fileio import FileIO
    from packstone.tables.hive.file_facts import FileFacts
    from packstone.tables.hive.journal import Journal
    from packstone.tables.hive.listing import FolderSource, PartitionListing
    from packstone.tables.hive.options import HiveOptions

SAMPLED_FILES = 1_000  # files to inspect; of a larger table only a sample is, and the report says so
WORST_PARTITIONS = 20
_MANY_FORMATS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHealth:
    """One partition's numbers."""

    partition: str
    files: int
    small_files: int
    bytes: int
    ideal_files: int

    @property
    def score(self) -> int:
        """How close the number of files is to the ideal one, in percent."""
        return rate(self.files, ideal=self.ideal_files)


@dataclass(slots=True, kw_only=True)
class HiveHealth:
    """The numbers of the whole target; they grow while partitions are observed."""

    table: str
    partitions: int = 0
    files: int = 0
    bytes: int = 0
    small_files: int = 0
    small_bytes: int = 0
    ideal_files: int = 0
    sampled_files: int = 0
    histogram: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIZE_CLASSES, 0))
    formats: Counter[str] = field(default_factory=Counter)
    hazards: list[Hazard] = field(default_factory=list)
    worst: list[PartitionHealth] = field(default_factory=list)

    @property
    def score(self) -> int:
        """100 is as few files as the bytes need; 1 is a hundred times too many."""
        return rate(self.files, ideal=self.ideal_files)

    @property
    def small_pct(self) -> int:
        """The share of files below the threshold."""
        return share_pct(self.small_files, self.files)

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": "hive",
            "partitions": self.partitions,
            "files": self.files,
            "bytes": self.bytes,
            "small_files": self.small_files,
            "small_bytes": self.small_bytes,
            "small_pct": self.small_pct,
            "ideal_files": self.ideal_files,
            "score": self.score,
            "histogram": dict(self.histogram),
            "formats": dict(self.formats),
            "files_looked_into": self.sampled_files,
            "hazards": [hazard.to_json() for hazard in self.hazards],
            "worst_partitions": [
                {
                    "partition": p.partition,
                    "files": p.files,
                    "small_files": p.small_files,
                    "bytes": p.bytes,
                    "score": p.score,
                }
                for p in self.worst
            ],
        }

    def report(self) -> Report:
        """Return the report: sizes and the worst partitions, which a table of one partition does not list."""
        least = f"{plural(self.ideal_files, 'file')} would be enough"
        where = f"{plural(self.files, 'file')} in {plural(self.partitions, 'partition')}"
        small = f"{self.small_files:,} ({self.small_pct} %) {'is' if self.small_files == 1 else 'are'} small"
        unread = f"inspected {self.sampled_files:,} of {self.small_files:,} small files"
        return Report(
            table=self.table,
            score=self.score,
            facts=(Fact(text=f"{where}, {format_bytes(self.bytes)}; {small}; {least}", strong=least),),
            histogram=Histogram(title="size", unit="files", counts=tuple(self.histogram.items())),
            worst=None if self.partitions == 1 else self._worst_partitions(),
            hazards=tuple(self.hazards),
            notes=(unread,) if self.small_files > self.sampled_files else (),
        )

    def _worst_partitions(self) -> WorstParts:
        parts = (
            WorstPart(
                name=one.partition,
                cells=(f"{one.files:,}", f"{one.small_files:,}", format_bytes(one.bytes)),
                score=one.score,
            )
            for one in self.worst
        )
        return WorstParts(title="worst partitions", columns=("files", "small", "bytes"), parts=tuple(parts))


def observe_hive(
    journal: Journal,
    partition: str,
    options: HiveOptions,
    *,
    now_seconds: float,
    folders: FolderSource | None = None,
    health: HiveHealth | None = None,
) -> HiveHealth:
    """Walk the target, or the named folders, once; inspect the first small files for formats and hazards."""
    health = health or HiveHealth(table=journal.layout.directory(partition))
    for listing in _listings(journal, partition, folders, now=now_seconds):
        _add_partition(health, listing, options)
        _add_hazards(journal.io, health, listing, options=options)
    for hazard, evidence in find_store_hazards(journal.io, health.table):
        warn(health, hazard, where=".", evidence=evidence)
    for folder, why in switched_folders(journal).items() if folders is None else ():
        warn(health, "old-folder", where=journal.layout.name_inside(folder) or folder, evidence=why)
    for found in (*unfinished_swaps(journal), *unexplained_backups(journal)):
        if isinstance(found, Recovered):
            warn(health, "damaged-records", where=".", evidence=str(found))
            continue
        evidence = f"run {found.run} is in the middle of its swap, or was killed there; run `packstone recover`"
        warn(health, "unfinished-swap", where=found.partition or ".", evidence=evidence)
    health.worst = heapq.nsmallest(WORST_PARTITIONS, health.worst, key=lambda p: (p.score, -p.files))
    return health


def _add_partition(health: HiveHealth, listing: PartitionListing, options: HiveOptions) -> None:
    picking = small_files_options(options)
    small = [file.size_bytes for file in listing.files if is_small(file.size_bytes, picking)]
    big = len(listing.files) - len(small)
    ideal = big + (count_outputs(sum(small), options.target_bytes) if small else 0)
    health.partitions += 1
    health.files += len(listing.files)
    health.bytes += listing.total_bytes
    health.small_files += len(small)
    health.small_bytes += sum(small)
    health.ideal_files += ideal
    for file in listing.files:
        health.histogram[size_class(file.size_bytes)] += 1
    if listing.files:
        one = PartitionHealth(
            partition=listing.partition,
            files=len(listing.files),
            small_files=len(small),
            bytes=listing.total_bytes,
            ideal_files=ideal,
        )
        health.worst.append(one)
        if len(health.worst) > 10 * WORST_PARTITIONS:
            health.worst = heapq.nsmallest(WORST_PARTITIONS, health.worst, key=lambda p: (p.score, -p.files))


def _add_hazards(io: FileIO, health: HiveHealth, listing: PartitionListing, *, options: HiveOptions) -> None:
    where = listing.partition or "."
    if listing.refused:
        warn(health, "not-a-plain-directory", where=where, evidence=listing.refused)
    if listing.writing:
        warn(health, "being-written", where=where, evidence=listing.writing)
    if links := [name for name in listing.ignored if name.endswith("(symbolic link)")]:
        warn(health, "symbolic-link", where=where, evidence=f"{len(links)} symbolic links are left alone")
    _add_name_hazards(health, listing)
    picking = small_files_options(options)
    small = [file for file in listing.files if is_small(file.size_bytes, picking)]
    facts = [
        read_file_facts(io, listing.directory, file, codec="keep")
        for file in small[: max(0, SAMPLED_FILES - health.sampled_files)]
    ]
    health.sampled_files += len(facts)
    health.formats.update(fact.file_format.value for fact in facts)
    for fact in facts:
        if fact.verdict is Verdict.UNREADABLE:
            warn(health, "unreadable", where=f"{where}/{fact.name}", evidence=fact.why)
    groups = {fact.group for fact in facts if fact.verdict is Verdict.MERGEABLE}
    if len(groups) >= _MANY_FORMATS:
        warn(
            health,
            "mixed-files",
            where=where,
            evidence=f"{len(groups)} groups of files that differ in format, schema, codec or owner",
        )
    if empty := sum(1 for fact in facts if fact.file_format is FileFormat.EMPTY):
        warn(health, "empty-file", where=where, evidence=f"{empty} files of 0 bytes")
    if listing.header_lines(options.header_lines) is None:
        _add_header_hazards(health, facts, where=where)


def _add_header_hazards(health: HiveHealth, facts: list[FileFacts], *, where: str) -> None:
    mergeable = [fact for fact in facts if fact.verdict is Verdict.MERGEABLE]
    for group in group_files(mergeable):
        if (why := why_maybe_headed(group.files)) is not None:
            warn(health, "header-line", where=where, evidence=why)


def _add_name_hazards(health: HiveHealth, listing: PartitionListing) -> None:
    where = listing.partition or "."
    names = [file.name for file in listing.files]
    if offsets := sorted(newest_offsets(names)):
        evidence = f"Kafka Connect reads its offsets from the names; {len(offsets)} files stay, such as {offsets[0]}"
        warn(health, "kafka-connect-names", where=where, evidence=evidence)
    if (bucket := bucket_name(names)) is not None:
        warn(
            health,
            "bucketed",
            where=where,
            evidence=f"the name of {bucket} shows a bucketed table; the folder is refused",
        )


def warn(health: HiveHealth, name: str, *, where: str, evidence: str) -> None:
    """Add a hazard, unless there are too many already."""
    if len(health.hazards) < SAMPLED_FILES:
        health.hazards.append(Hazard(name=name, where=where, evidence=evidence))


# ---- check ----


_UNIT_FILES: Final = 500


def check_hive(
    journal: Journal, partition: str, request: CheckRequest, *, folders: FolderSource | None = None
) -> TableCheck:
    """Begin to check a target: its records here, its files by tasks."""
    if request.version is not None:
        raise InvalidInputError("A Hive directory has no versions; leave out --version.", option="version")
    parts = _check_parts(journal, partition, folders, deep=request.deep)
    return TableCheck(version=None, parts=parts, job=HIVE_CHECK_JOB)


def _check_parts(
    journal: Journal, partition: str, folders: FolderSource | None, *, deep: bool
) -> Iterator[CheckedPart[FolderCheck]]:
    damage = []
    for found in (*unfinished_swaps(journal), *unexplained_backups(journal)):
        if isinstance(found, Recovered):
            damage.append(Damage(file=journal.layout.state, why=str(found)))
        else:
            why = f"the swap of run {found.run} has not ended; if the run is dead, run `packstone recover`"
            damage.append(Damage(file=journal.layout.directory(found.partition), why=why))
    yield CheckedPart(damage=tuple(damage))
    numbers = count()
    for listing in _listings(journal, partition, folders, now=now_seconds()):
        some = (listing.files[begin : begin + _UNIT_FILES] for begin in range(0, len(listing.files), _UNIT_FILES))
        yield CheckedPart(
            files=len(listing.files),
            size_bytes=listing.total_bytes,
            units=tuple(
                FolderCheck(
                    number=next(numbers), folder=FolderFiles(directory=listing.directory, files=files), deep=deep
                )
                for files in some
            ),
        )


def _listings(
    journal: Journal, partition: str, folders: FolderSource | None, *, now: float
) -> Iterator[PartitionListing]:
    if folders is None:
        return list_partitions(journal.io, journal.layout.root, partition, now_seconds=now)
    return list_named(journal.io, folders, now_seconds=now)
