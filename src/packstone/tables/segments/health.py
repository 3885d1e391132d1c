"""The health of a segment table: segments by status and level, their sizes, what is unsorted, running or removable.

The status holds nearly all of this. Only the segment files say whether a segment is sorted as the table is now; at most
a thousand of them are read, the newest first, and the report says how many.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import PackstoneError
from packstone.model.health import SIZE_CLASSES, Fact, Hazard, Histogram, Report, rate, share_pct, size_class
from packstone.model.sizes import format_bytes, plural
from packstone.strategy.segment_rounds import plan_rounds
from packstone.strategy.segment_view import begin_command
from packstone.tables.segments.clean import cutoff
from packstone.tables.segments.damage import find_unnamed_segments, find_wrong_files
from packstone.tables.segments.format.properties import Properties, parse_properties
from packstone.tables.segments.format.status_files import list_versions, read_latest, read_retired
from packstone.tables.segments.leftovers import is_dead, list_attempts, read_attempt, without_dead_compactions
from packstone.tables.segments.options import SegmentOptions, SegmentStrategy, is_sorted_as, merge_options, view_status
from packstone.tables.segments.units import read_entry_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.format.status import StatusEntry, TableStatus

FAMILY: Final = "segments"
INSPECTED_SEGMENTS: Final = 1_000
LISTED: Final = 20_000  # folders; half a minute on a store that takes 20 ms for each
_NAMED_FILES: Final = 3
WORST_SEGMENTS: Final = 20
_MANY_SEGMENTS: Final = 1_000
_MANY_VERSIONS: Final = 10_000
_MB: Final = 1 << 20


@dataclass(slots=True, kw_only=True)
class SegmentHealth:
    """The table's numbers, filled in while segments are inspected."""

    table: str
    version: int
    versions: int
    segments: int = 0  # live ones
    files: int = 0
    bytes: int = 0
    index_bytes: int = 0
    rows: int = 0  # that readers see
    deleted_rows: int = 0  # that are still in the files
    segments_with_deletes: int = 0
    small_segments: int = 0  # smaller than the target size of one data file
    ideal_segments: int = 0  # by the size of a major compaction
    unsorted_segments: int = 0
    looked_into: int = 0
    listed: int = 0  # segments whose files were compared with the listing of their folder
    damaged_segments: int = 0  # of these, those with a file that is missing or has another size
    retired_segments: int = 0
    retired_bytes: int = 0
    removable_bytes: int = 0  # of the retired ones, those whose retention has expired
    statuses: Counter[str] = field(default_factory=Counter)
    levels: Counter[int] = field(default_factory=Counter)
    histogram: Counter[str] = field(default_factory=Counter)
    planned: dict[str, int] = field(default_factory=dict)  # number of merges that each strategy plans now
    running: list[dict[str, Any]] = field(default_factory=list)
    hazards: list[Hazard] = field(default_factory=list)
    worst: list[StatusEntry] = field(default_factory=list)

    @property
    def score(self) -> int:
        """Return 100 if there are as few segments as their bytes need, 1 if there are a hundred times too many."""
        return rate(self.segments, ideal=self.ideal_segments)

    @property
    def small_pct(self) -> int:
        """The share of small segments."""
        return share_pct(self.small_segments, self.segments)

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": FAMILY,
            "version": self.version,
            "versions": self.versions,
            "segments": self.segments,
            "files": self.files,
            "bytes": self.bytes,
            "index_bytes": self.index_bytes,
            "rows": self.rows,
            "deleted_rows": self.deleted_rows,
            "segments_with_deletes": self.segments_with_deletes,
            "small_segments": self.small_segments,
            "small_pct": self.small_pct,
            "ideal_segments": self.ideal_segments,
            "unsorted_segments": self.unsorted_segments,
            "segments_looked_into": self.looked_into,
            "segments_listed": self.listed,
            "damaged_segments": self.damaged_segments,
            "score": self.score,
            "statuses": dict(sorted(self.statuses.items())),
            "levels": {f"L{level}": count for level, count in sorted(self.levels.items())},
            "histogram": {name: self.histogram[name] for name in SIZE_CLASSES},
            "planned_merges": dict(self.planned),
            "running": self.running,
            "retired_segments": self.retired_segments,
            "retired_bytes": self.retired_bytes,
            "removable_bytes": self.removable_bytes,
            "hazards": [hazard.to_json() for hazard in self.hazards],
            "worst_segments": [
                {"segment": str(one.id), "files": one.files, "rows": one.live_rows, "bytes": one.data_bytes}
                for one in self.worst
            ],
        }

    def report(self) -> Report:
        """Return segments by how often they were merged, and what is running or waits for `clean`."""
        levels = tuple((_describe_level(level), count) for level, count in sorted(self.levels.items()))
        unread = f"inspected {self.looked_into:,} of {plural(self.segments, 'segment')}"
        return Report(
            table=self.table,
            score=self.score,
            facts=(
                Fact(text=f"segment table, version {self.version:,} ({self.versions:,} kept)"),
                *(self._describe_live() if self.segments else (Fact(text="no segments yet"),)),
                *self._describe_others(),
            ),
            histogram=Histogram(title="level", unit="segments", counts=levels),
            hazards=tuple(self.hazards),
            notes=(unread,) if self.segments > self.looked_into else (),
        )

    def _describe_live(self) -> tuple[Fact, ...]:
        where = f"{plural(self.files, 'file')} of {plural(self.segments, 'segment')}"
        planned = [f"{name} compaction: {plural(count, 'merge')}" for name, count in self.planned.items() if count]
        least = (
            f"{plural(self.ideal_segments, 'segment')} would be enough"
            if self.segments > 1
            else "no fewer are possible"
        )
        deleted = f"; {plural(self.deleted_rows, 'deleted row')} still in the files" if self.deleted_rows else ""
        return (
            Fact(text=f"{where}, {format_bytes(self.bytes)}, {plural(self.rows, 'row')}{deleted}"),
            Fact(text=f"{least}; {', '.join(planned) or 'nothing to merge now'}", strong=least),
        )

    def _describe_others(self) -> Iterator[Fact]:
        """Yield retired segments and live runs; a dead run is reported as a hazard."""
        if self.retired_segments:
            retired = plural(self.retired_segments, "compacted or deleted segment")
            yield Fact(text=f"{retired}, {format_bytes(self.retired_bytes)}, wait for `clean`")
        for one in self.running:
            if one["alive"]:
                process = one["process"] or "its process is unknown"
                yield Fact(text=f"running: {one['what']} ({process})", strong="running")


def observe_segments(io: FileIO, table: str, *, now_ms: int) -> SegmentHealth:
    """Read the newest status and some segment files; does not open data files."""
    status = read_latest(io, table)
    properties = parse_properties(status.properties, status.columns)
    health = SegmentHealth(table=table, version=status.version, versions=len(list_versions(io, table)))
    for entry in status.live:
        _add_segment(health, entry, properties)
    limit = properties.major_compaction_size or properties.table_blocksize
    health.ideal_segments = max(1, -(-health.bytes // (limit * _MB))) if health.segments else 0
    health.worst = sorted(status.live, key=lambda entry: (entry.data_bytes, entry.id))[:WORST_SEGMENTS]
    health.statuses.update(str(entry.status) for entry in status.entries)
    _find_missing(health, io, status)
    _look_into(health, io, status, properties=properties)
    _add_retired(health, read_retired(io, table, status), before_ms=cutoff(properties, now_ms=now_ms))
    _add_running(health, io, status, now_ms=now_ms)
    _add_plans(health, without_dead_compactions(io, table, status, now_ms=now_ms), properties, now_ms=now_ms)
    _warn_of_deletes(health, status.live, properties)
    _warn_of_table(health, properties)
    return health


def _add_segment(health: SegmentHealth, entry: StatusEntry, properties: Properties) -> None:
    health.segments += 1
    health.files += entry.files
    health.bytes += entry.data_bytes
    health.index_bytes += entry.index_bytes
    health.rows += entry.live_rows
    health.deleted_rows += entry.deleted_rows
    health.segments_with_deletes += entry.delete_file is not None
    health.small_segments += entry.data_bytes < properties.table_blocksize * _MB
    health.levels[entry.id.merges] += 1
    health.histogram[size_class(entry.data_bytes)] += 1


def _find_missing(health: SegmentHealth, io: FileIO, status: TableStatus) -> None:
    """Report missing or changed files of live segments, the newest segments first."""
    entries = status.live[::-1][:LISTED]
    health.listed = len(entries)
    for entry, wrong in find_wrong_files(io, health.table, entries):
        health.damaged_segments += 1
        named = "; ".join(map(str, wrong[:_NAMED_FILES]))
        more = f"; and {len(wrong) - _NAMED_FILES:,} more" if len(wrong) > _NAMED_FILES else ""
        _warn(health, "missing-files", where=str(entry.id), evidence=f"{named}{more}")
    unnamed = find_unnamed_segments(io, health.table)
    if unnamed:
        evidence = (
            f"{len(unnamed):,} segment files are in no version, such as {unnamed[-1]}; if status files were removed, "
            "restore them"
        )
        _warn(health, "unnamed-segments", where="Metadata/segments", evidence=evidence)


def _look_into(health: SegmentHealth, io: FileIO, status: TableStatus, *, properties: Properties) -> None:
    """Find segments that are not sorted as the table is, or whose segment file cannot be read."""
    for entry in status.live[::-1][:INSPECTED_SEGMENTS]:
        health.looked_into += 1
        try:
            content = read_entry_file(io, health.table, entry)
        except PackstoneError as error:
            _warn(health, "unreadable", where=str(entry.id), evidence=error.message)
            continue
        health.unsorted_segments += bool(properties.sort_columns) and not is_sorted_as(content, properties)
    if health.unsorted_segments:
        columns = ",".join(properties.sort_columns)
        evidence = f"{health.unsorted_segments} segments are not sorted by {columns}; a compaction sorts them"
        _warn(health, "unsorted", where=".", evidence=evidence)


def _add_retired(health: SegmentHealth, retired: Iterable[StatusEntry], *, before_ms: int) -> None:
    for entry in retired:
        size = entry.data_bytes + entry.index_bytes
        health.retired_segments += 1
        health.retired_bytes += size
        health.removable_bytes += size if (entry.modified_ms or before_ms) < before_ms else 0
        health.statuses[str(entry.status)] += 1
    if health.removable_bytes:
        evidence = f"{format_bytes(health.removable_bytes)} of retired segments can be removed; run `packstone clean`"
        _warn(health, "not-cleaned", where=".", evidence=evidence)


def _add_running(health: SegmentHealth, io: FileIO, status: TableStatus, *, now_ms: int) -> None:
    known = [(entry.attempt, f"load of {entry.id}", entry.load_start_ms) for entry in status.loading]
    known += [(one.attempt, f"compaction into {one.output}", one.started_ms) for one in status.running]
    for attempt, what, started_ms in known:
        record = read_attempt(io, health.table, attempt)
        is_alive = not is_dead(io, health.table, attempt, started_ms=started_ms, now_ms=now_ms)
        who = "" if record is None else str(record.process)
        health.running.append({"attempt": attempt, "what": what, "process": who, "alive": is_alive})
        if not is_alive:
            _warn(health, "dead-attempt", where=attempt, evidence=f"the {what} died; run `packstone clean`")
    for attempt in list_attempts(io, health.table):
        record = read_attempt(io, health.table, attempt)
        if record is None or status.is_registered(attempt):
            continue
        if is_dead(io, health.table, attempt, started_ms=record.started_ms, now_ms=now_ms):
            evidence = f"the {record.command} died and may have left files; run `packstone clean`"
            _warn(health, "dead-attempt", where=attempt, evidence=evidence)


def _add_plans(health: SegmentHealth, status: TableStatus, properties: Properties, *, now_ms: int) -> None:
    taken = {segment for running in status.running for segment in running.inputs}
    view = begin_command(view_status(status, left_out=taken, now_ms=now_ms))
    for strategy in (SegmentStrategy.MINOR, SegmentStrategy.MAJOR):
        options = merge_options(properties, SegmentOptions(strategy=strategy))
        health.planned[strategy.value] = len(plan_rounds(view, options).merges)


def _warn_of_deletes(health: SegmentHealth, live: Iterable[StatusEntry], properties: Properties) -> None:
    least = properties.compaction_deleted_pct
    worn = [one for one in live if one.delete_file is not None and 100 * one.deleted_rows >= least * one.rows]
    if worn and least:
        evidence = (
            f"{plural(len(worn), 'segment')} with {least}% or more deleted rows ({_name_some(worn)}); "
            "`packstone compact` rewrites them"
        )
        _warn(health, "deleted-rows", where=".", evidence=evidence)


def _name_some(entries: Sequence[StatusEntry]) -> str:
    more = ", …" if len(entries) > _NAMED_FILES else ""
    return ", ".join(str(entry.id) for entry in entries[:_NAMED_FILES]) + more


def _warn_of_table(health: SegmentHealth, properties: Properties) -> None:
    levels = len(properties.compaction_level_threshold)
    stuck = sum(count for level, count in health.levels.items() if level >= max(2, levels))
    if stuck > _MANY_SEGMENTS // 10:
        evidence = (
            f"{stuck} segments are merged as often as minor compaction does it, and their number grows; run a major "
            "compaction, or add a level to COMPACTION_LEVEL_THRESHOLD (4,3,3)"
        )
        _warn(health, "piling-up", where=".", evidence=evidence)
    if health.segments > _MANY_SEGMENTS and health.planned.get(SegmentStrategy.MINOR.value):
        _warn(health, "many-segments", where=".", evidence=f"{health.segments} segments; run `packstone compact`")
    if health.versions > _MANY_VERSIONS:
        evidence = f"{health.versions} versions are kept; `packstone clean` removes those older than the retention"
        _warn(health, "many-versions", where=".", evidence=evidence)


def _warn(health: SegmentHealth, name: str, *, where: str, evidence: str) -> None:
    if len(health.hazards) < 10 * WORST_SEGMENTS:
        health.hazards.append(Hazard(name=name, where=where, evidence=evidence))


def _describe_level(merges: int) -> str:
    return "loads" if merges == 0 else "merged once" if merges == 1 else f"merged {merges} times"
