"""How a segment table is: segments by status and level, their sizes, what is unsorted, at work, or waits for clean.

The status tells nearly all of it. Only which segments are not sorted as the table is stands in their segment files,
and of those at most a thousand are read, the newest first; the report says how many.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import PackstoneError
from packstone.model.segment_options import SegmentOptions, SegmentStrategy
from packstone.model.sizes import format_bytes
from packstone.runs.clock import now_ms
from packstone.service.segment_planner import without_dead_compactions
from packstone.strategy.segment_rounds import plan_rounds
from packstone.strategy.segment_view import begin_command
from packstone.tables.segments.attempts import is_dead, list_attempts, read_attempt
from packstone.tables.segments.clean import cutoff
from packstone.tables.segments.merge_inputs import read_entry_file
from packstone.tables.segments.missing_files import find_unnamed_segments, find_wrong_files
from packstone.tables.segments.properties import Properties, parse_properties
from packstone.tables.segments.segments_view import is_sorted_as, merge_options, view_status
from packstone.tables.segments.status_files import list_versions, read_latest, read_retired

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.status import StatusEntry, TableStatus

FAMILY: Final = "segments"
LOOKED_INTO: Final = 1_000
LISTED: Final = 20_000  # folders; half a minute on a store that takes 20 ms for each
_NAMED_FILES: Final = 3
WORST_SEGMENTS: Final = 20
_MANY_SEGMENTS: Final = 1_000
_MANY_VERSIONS: Final = 10_000
_MB: Final = 1 << 20
_EDGES: Final = (("< 1 MB", 1), ("1-8 MB", 8), ("8-32 MB", 32), ("32-120 MB", 120), ("120-512 MB", 512))
_LAST: Final = "> 512 MB"


@dataclass(slots=True, kw_only=True)
class SegmentHealth:
    """The table's numbers; it grows while segments are looked at."""

    table: str
    version: int
    versions: int
    segments: int = 0  # that readers see
    files: int = 0
    bytes: int = 0
    index_bytes: int = 0
    rows: int = 0
    small_segments: int = 0  # smaller than one data file is meant to be
    ideal_segments: int = 0  # by the size of a major compaction
    unsorted_segments: int = 0
    looked_into: int = 0
    listed: int = 0  # segments whose files were compared with what is there
    damaged_segments: int = 0  # of these, those of which a file is gone or has another size
    retired_segments: int = 0
    retired_bytes: int = 0
    removable_bytes: int = 0  # of the retired ones, those whose retention is over
    statuses: Counter[str] = field(default_factory=Counter)
    levels: Counter[int] = field(default_factory=Counter)
    histogram: Counter[str] = field(default_factory=Counter)
    planned: dict[str, int] = field(default_factory=dict)  # merges that each strategy would do now
    running: list[dict[str, Any]] = field(default_factory=list)
    hazards: list[dict[str, str]] = field(default_factory=list)
    worst: list[StatusEntry] = field(default_factory=list)

    @property
    def score(self) -> int:
        """100 is as few segments as their bytes need; 1 is a hundred times too many."""
        return 100 if not self.segments else max(0, min(100, 100 * self.ideal_segments // self.segments))

    @property
    def small_pct(self) -> int:
        """The share of small segments."""
        return 100 * self.small_segments // self.segments if self.segments else 0

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
            "histogram": {name: self.histogram[name] for name in (*dict(_EDGES), _LAST)},
            "planned_merges": dict(self.planned),
            "running": self.running,
            "retired_segments": self.retired_segments,
            "retired_bytes": self.retired_bytes,
            "removable_bytes": self.removable_bytes,
            "hazards": self.hazards,
            "worst_segments": [
                {"segment": str(one.id), "files": one.files, "rows": one.rows, "bytes": one.data_bytes}
                for one in self.worst
            ],
        }


def observe_segments(io: FileIO, table: str) -> SegmentHealth:
    """Read the newest status and some segment files; data files are not opened."""
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
    _add_retired(health, io, status, properties=properties)
    _add_running(health, io, status)
    _add_plans(health, without_dead_compactions(io, table, status), properties)
    _warn_of_table(health, properties)
    return health


def _add_segment(health: SegmentHealth, entry: StatusEntry, properties: Properties) -> None:
    health.segments += 1
    health.files += entry.files
    health.bytes += entry.data_bytes
    health.index_bytes += entry.index_bytes
    health.rows += entry.rows
    health.small_segments += entry.data_bytes < properties.table_blocksize * _MB
    health.levels[entry.id.merges] += 1
    health.histogram[next((name for name, edge in _EDGES if entry.data_bytes < edge * _MB), _LAST)] += 1


def _find_missing(health: SegmentHealth, io: FileIO, status: TableStatus) -> None:
    """Name files that readers need and do not find, the newest segments first."""
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
            "put them back"
        )
        _warn(health, "unnamed-segments", where="Metadata/segments", evidence=evidence)


def _look_into(health: SegmentHealth, io: FileIO, status: TableStatus, *, properties: Properties) -> None:
    """Find segments that are not sorted as the table is, or whose segment file cannot be read."""
    for entry in status.live[::-1][:LOOKED_INTO]:
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


def _add_retired(health: SegmentHealth, io: FileIO, status: TableStatus, *, properties: Properties) -> None:
    before_ms = cutoff(properties, now_ms=now_ms())
    for entry in read_retired(io, health.table, status):
        size = entry.data_bytes + entry.index_bytes
        health.retired_segments += 1
        health.retired_bytes += size
        health.removable_bytes += size if (entry.modified_ms or before_ms) < before_ms else 0
        health.statuses[str(entry.status)] += 1
    if health.removable_bytes:
        evidence = f"{format_bytes(health.removable_bytes)} of retired segments can go; run `packstone clean`"
        _warn(health, "not-cleaned", where=".", evidence=evidence)


def _add_running(health: SegmentHealth, io: FileIO, status: TableStatus) -> None:
    known = {entry.attempt: (f"load of {entry.id}", entry.load_start_ms) for entry in status.loading}
    known |= {one.attempt: (f"compaction into {one.output}", one.started_ms) for one in status.running}
    for attempt, (what, started_ms) in known.items():
        record = read_attempt(io, health.table, attempt)
        is_alive = not is_dead(io, health.table, attempt, started_ms=started_ms, now_ms=now_ms())
        who = "" if record is None else str(record.process)
        health.running.append({"attempt": attempt, "what": what, "process": who, "alive": is_alive})
        if not is_alive:
            _warn(health, "dead-attempt", where=attempt, evidence=f"the {what} died; run `packstone clean`")
    for attempt in list_attempts(io, health.table):
        record = read_attempt(io, health.table, attempt)
        if attempt in known or record is None:
            continue
        if is_dead(io, health.table, attempt, started_ms=record.started_ms, now_ms=now_ms()):
            evidence = f"the {record.kind} died and may have left files; run `packstone clean`"
            _warn(health, "dead-attempt", where=attempt, evidence=evidence)


def _add_plans(health: SegmentHealth, status: TableStatus, properties: Properties) -> None:
    taken = {segment for running in status.running for segment in running.inputs}
    view = begin_command(view_status(status, left_out=taken, now_ms=now_ms()))
    for strategy in (SegmentStrategy.MINOR, SegmentStrategy.MAJOR):
        options = merge_options(properties, SegmentOptions(strategy=strategy))
        health.planned[strategy.value] = len(plan_rounds(view, options).merges)


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
        health.hazards.append({"hazard": name, "where": where, "evidence": evidence})
