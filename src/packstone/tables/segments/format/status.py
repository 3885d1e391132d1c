"""The status of a segment table at one version: live segments, running work, and the file format of both.

It is one JSON object in two lines. The first line holds everything except the entries, so that a search for a version
by time parses only that line; the second holds the entries, column by column. A table of 100,000 segments takes 18 MB
this way and 0.6 s of one core to read, half as long as with an array for each entry.

Its content is checked (model/codec.py): it ends in a digest, and every file name must be a plain name. A newer
``format_version`` is refused: acting on a partly understood status could lose rows.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar

from packstone.errors import ConflictError, InvalidInputError
from packstone.model.codec import (
    Count,
    Name,
    RunId,
    check_seal,
    check_version,
    damaged,
    from_plain,
    parse_sealed,
    seal,
    to_plain,
)
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.model.sizes import format_bytes
from packstone.tables.segments.format.columns import TableColumn, parse_type

_T = TypeVar("_T")

STATUS_FORMAT: Final = 2  # 1 had no digest
DAY_MS: Final = 86_400_000
MAX_LABEL_CHARS: Final = 128
MAX_LABELS: Final = 1_000  # every status contains them; a job is not repeated after a thousand later ones
RUNNING_STATUSES: Final = frozenset({SegmentStatus.IN_PROGRESS, SegmentStatus.OVERWRITE_IN_PROGRESS})

_NUMBER: Final = frozenset({int})
_TEXT: Final = frozenset({str})
_NONE: Final = frozenset({type(None)})
# The columns of the entries, with the JSON types of their values. The two numbers of an id are separate, so that 0.10
# is never read as a fraction.
_COLUMNS: Final[Mapping[str, frozenset[type]]] = {
    "load": _NUMBER,
    "merges": _NUMBER,
    "status": _TEXT,
    "load_start_ms": _NUMBER,
    "load_end_ms": _NUMBER | _NONE,
    "newest_load_ms": _NUMBER,
    "data_bytes": _NUMBER,
    "index_bytes": _NUMBER,
    "rows": _NUMBER,
    "files": _NUMBER,
    "bad_rows": _NUMBER,
    "segment_file": _TEXT | _NONE,
    "attempt": _TEXT,
    "is_major": frozenset({bool}),
    "merged_into": _TEXT | _NONE,
    "modified_ms": _NUMBER | _NONE,
}
_COUNTS: Final = ("load", "merges", "data_bytes", "index_bytes", "rows", "files", "bad_rows")
_STATUSES: Final = {str(status): status for status in SegmentStatus}
_MAX_INT: Final = 1 << 63
# Names of files, tested all at once: one name in each line.
_SEGMENT_FILES: Final = re.compile(r"(?:[0-9A-Za-z][0-9A-Za-z._-]{0,119}\.json\n)*")
_ATTEMPTS: Final = re.compile(r"(?:[0-9A-Za-z][0-9A-Za-z._-]{0,79}\n)*")

# The allowed changes of a segment's status; every edit checks this table (`check_transition`). CarbonData's other
# statuses (streaming, update, failure) are known by name only: no transition leads to them.
_LOADED: Final = frozenset({SegmentStatus.SUCCESS, SegmentStatus.PARTIAL_SUCCESS, SegmentStatus.MARKED_FOR_DELETE})
_RETIRING: Final = frozenset({SegmentStatus.COMPACTED, SegmentStatus.MARKED_FOR_DELETE})

TRANSITIONS: Final[Mapping[SegmentStatus, frozenset[SegmentStatus]]] = {
    SegmentStatus.IN_PROGRESS: _LOADED,  # marked for delete: it failed, was empty, or its process died
    SegmentStatus.OVERWRITE_IN_PROGRESS: _LOADED,
    SegmentStatus.SUCCESS: _RETIRING,
    SegmentStatus.PARTIAL_SUCCESS: _RETIRING,
    SegmentStatus.MARKED_FOR_UPDATE: _RETIRING,
    # Clean marks it before it removes its files and moves it to the history; until then its merge can be undone.
    SegmentStatus.COMPACTED: frozenset(
        {SegmentStatus.MARKED_FOR_DELETE, SegmentStatus.SUCCESS, SegmentStatus.PARTIAL_SUCCESS}
    ),
    SegmentStatus.MARKED_FOR_DELETE: frozenset(),
    SegmentStatus.STREAMING: frozenset(),
    SegmentStatus.STREAMING_FINISH: frozenset(),
    SegmentStatus.FAILURE: frozenset(),
    SegmentStatus.UPDATE: frozenset(),
}

VISIBLE: Final = frozenset(status for status, later in TRANSITIONS.items() if later == _RETIRING)  # to readers
DELETABLE: Final = VISIBLE  # by id or by date
MERGEABLE: Final = VISIBLE
RETIRED: Final = _RETIRING  # in the retired list, not among the entries

# The first status of an entry: a load begins in progress, a merged segment appears finished.
FIRST: Final = frozenset(
    {
        SegmentStatus.IN_PROGRESS,
        SegmentStatus.OVERWRITE_IN_PROGRESS,
        SegmentStatus.SUCCESS,
        SegmentStatus.PARTIAL_SUCCESS,  # a member had bad rows
    }
)


EntryKey: TypeAlias = tuple[SegmentId, str]  # the id, and the run that made it


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEntry:
    """One segment: a load, or a merge of several."""

    id: SegmentId
    status: SegmentStatus
    load_start_ms: int  # of a merged one: when its compaction began
    load_end_ms: int | None = None
    newest_load_ms: int  # when the newest load inside began; the same as load_start_ms unless merged
    data_bytes: int = 0
    index_bytes: int = 0
    rows: int = 0
    files: int = 0
    bad_rows: int = 0
    segment_file: str | None = None  # a name in Metadata/segments; None: nothing was committed
    attempt: str
    is_major: bool = False
    merged_into: SegmentId | None = None
    modified_ms: int | None = None  # when it was compacted or deleted; retention counts from here

    @property
    def key(self) -> EntryKey:
        """The id and run, unique for ever; the id alone is not, since the id of an undone merge is used again."""
        return self.id, self.attempt

    @property
    def load_day(self) -> int:
        """The day (since 1970, UTC) of the newest load inside; a merge does not change it."""
        return self.newest_load_ms // DAY_MS

    @property
    def is_running(self) -> bool:
        """Whether its load is in progress."""
        return self.status in RUNNING_STATUSES

    def __str__(self) -> str:
        into = f" into {self.merged_into}" if self.merged_into is not None else ""
        major = " major" if self.is_major else ""
        size = f"{self.rows} rows {self.files} files {format_bytes(self.data_bytes)}"
        return f"{self.id} {self.status}{into}{major} {size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCompaction:
    """A registered merge of a run; no other merge may use its inputs until it ends. A run has one for each output."""

    attempt: RunId
    output: SegmentId
    inputs: tuple[SegmentId, ...]  # in id order
    started_ms: int
    is_major: bool = False

    def __post_init__(self) -> None:
        """Check that the merged id continues that of its first member."""
        first = min(self.inputs, default=self.output)
        if self.output.load != first.load or self.output.merges <= first.merges:
            raise ValueError(f"the compaction {self.attempt} cannot make {self.output} of its inputs")

    def __str__(self) -> str:
        return f"{' '.join(map(str, self.inputs))} -> {self.output} ({self.attempt})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLabel:
    """The name that a user gave to a load, so that the load can be repeated safely."""

    label: str
    segments: tuple[SegmentId, ...]  # the load's own segment, then each segment into which it was merged

    def __post_init__(self) -> None:
        """Check the label, and that it belongs to a segment."""
        check_label(self.label)
        if not self.segments:
            raise ValueError(f"the label {self.label} has no segment")

    @property
    def segment(self) -> SegmentId:
        """The live segment that contains the load's rows."""
        return self.segments[-1]


def check_label(label: str) -> None:
    """Raise ValueError unless a label is a short line of printable text."""
    if not label.strip() or len(label) > MAX_LABEL_CHARS or not label.isprintable():
        raise ValueError(f"the label must be 1 to {MAX_LABEL_CHARS} printable characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """One version of a table."""

    version: Count
    commit: RunId  # the id of the commit that published this version
    ancestors: tuple[RunId, ...]  # the commits of the previous versions, the last one last, at most 64
    written_ms: int  # from `settle_time`: less than in the previous version only if `ordered_since` is this version
    clock_ms: int | None = None  # the time of the writer's clock; None in versions of an older packstone
    ordered_since: Count = 0  # from this version on, times never decrease
    operation: str
    table_id: str
    columns: tuple[TableColumn, ...]
    properties: tuple[tuple[str, str], ...]  # as given; `properties.parse_properties` reads them
    next_load: Count = 0
    entries: tuple[StatusEntry, ...] = ()  # live and in progress, in id order
    running: tuple[RunningCompaction, ...] = ()
    retired_file: Name | None = None  # a name in Metadata/retired
    history_files: tuple[Name, ...] = ()  # names in Metadata/history, oldest first
    labels: tuple[LoadLabel, ...] = ()  # of loads whose rows are live, oldest first, at most MAX_LABELS

    @property
    def live(self) -> tuple[StatusEntry, ...]:
        """The segments that readers see."""
        return tuple(entry for entry in self.entries if entry.status not in RUNNING_STATUSES)

    @property
    def loading(self) -> tuple[StatusEntry, ...]:
        """The loads in progress."""
        return tuple(entry for entry in self.entries if entry.status in RUNNING_STATUSES)

    def find(self, segment: SegmentId) -> StatusEntry | None:
        """The entry of an id, if it is live or in progress."""
        return next((entry for entry in self.entries if entry.id == segment), None)

    def find_label(self, label: str) -> LoadLabel | None:
        """The load with this label, if its rows are live."""
        return next((one for one in self.labels if one.label == label), None)

    def find_load(self, attempt: str) -> StatusEntry | None:
        """The entry of a load in progress."""
        return next((entry for entry in self.loading if entry.attempt == attempt), None)

    def find_compaction(self, attempt: str, output: SegmentId) -> RunningCompaction | None:
        """The merge of a run into this segment, if it is still registered."""
        return next((one for one in self.running if (one.attempt, one.output) == (attempt, output)), None)

    def is_registered(self, attempt: str) -> bool:
        """Whether a load or a merge of a run is registered here."""
        return self.find_load(attempt) is not None or any(one.attempt == attempt for one in self.running)

    def __str__(self) -> str:
        return f"version {self.version} ({self.operation}): {len(self.entries)} segments, {len(self.running)} running"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusHeader:
    """The id, commit and times of a version, without its entries."""

    version: Count
    commit: RunId
    ancestors: tuple[RunId, ...]
    written_ms: int
    clock_ms: int | None = None
    ordered_since: Count = 0
    operation: str


def dump_status(status: TableStatus) -> bytes:
    """Return a status as its two lines of JSON."""
    header = {
        "format_version": STATUS_FORMAT,
        **to_plain(replace(status, entries=())),
        "properties": dict(status.properties),
    }
    del header["entries"]
    return _dump_lines(header, status.entries)


def parse_status(data: bytes, *, path: str) -> TableStatus:
    """Parse a status; CorruptionError if it is damaged, RefusedError if it is from a newer packstone."""
    plain, entries = _parse_lines(data, path=path)
    try:
        if type(plain.get("properties")) is not dict:
            raise ValueError("its properties are not an object")  # noqa: TRY301 - as all that follows
        plain["properties"] = [list(item) for item in plain["properties"].items()]
        header: _Plain = from_plain(_Plain, plain)
        status = TableStatus(**{one.name: getattr(header, one.name) for one in fields(_Plain)}, entries=entries)
        _check_relations(status)
    except (ValueError, InvalidInputError, RecursionError) as error:
        raise damaged(path, error) from error
    return status


def parse_header(data: bytes, *, path: str) -> StatusHeader:
    """Parse only the first line; checks the digest, which covers all lines."""
    line = data.partition(b"\n")[0].rstrip().removesuffix(b",")
    try:
        plain = json.loads(line + b"}")
    except (ValueError, RecursionError) as error:
        raise damaged(path, "it is not the JSON that was written") from error
    version = check_version(plain, path=path, newest=STATUS_FORMAT)
    if not check_seal(data, path=path) and version > 1:
        raise damaged(path, "it has no digest")
    try:
        header: StatusHeader = from_plain(StatusHeader, plain)
    except ValueError as error:
        raise damaged(path, error) from error
    return header


def dump_entries(entries: Sequence[StatusEntry], *, commit: str) -> bytes:
    """Return a list of retired or cleaned segments as JSON."""
    return _dump_lines({"format_version": STATUS_FORMAT, "commit": commit}, entries)


def parse_entries(data: bytes, *, path: str) -> tuple[StatusEntry, ...]:
    """Parse a list of retired or cleaned segments."""
    return _parse_lines(data, path=path)[1]


def _check_relations(status: TableStatus) -> None:
    """Raise ValueError for combinations that Packstone never writes."""
    ids = [entry.id for entry in status.entries]
    if any(later <= earlier for earlier, later in pairwise(ids)):
        raise ValueError("its segments are not in order, or one is listed twice")
    if ids and ids[-1].load >= status.next_load:
        raise ValueError(f"segment {ids[-1]} is not below the next load {status.next_load}")
    there = set(ids)
    inputs = [segment for running in status.running for segment in running.inputs]
    if len(set(inputs)) < len(inputs) or not there.issuperset(inputs):
        raise ValueError("a segment that is being merged is not there, or is being merged twice")
    made = [(running.attempt, running.output) for running in status.running]
    if len(set(made)) < len(made):
        raise ValueError("a run merges twice into one segment")
    for entry in status.entries:
        if entry.segment_file is None and entry.rows:
            raise ValueError(f"segment {entry.id} has rows but no segment file")
    _check_labels(status, there)
    for column in status.columns:
        if not column.name:
            raise ValueError("a column has no name")
        parse_type(column.type_text, column=column.name)


def _check_labels(status: TableStatus, there: set[SegmentId]) -> None:
    if not there.issuperset(one.segment for one in status.labels):
        raise ValueError("a label belongs to a segment that is not there")
    if len({one.label for one in status.labels}) < len(status.labels):
        raise ValueError("a label is listed twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plain(StatusHeader):
    """The content of the first line of a status."""

    table_id: str
    columns: tuple[TableColumn, ...]
    properties: tuple[tuple[str, str], ...]
    next_load: Count
    running: tuple[RunningCompaction, ...]
    retired_file: Name | None
    history_files: tuple[Name, ...]
    labels: tuple[LoadLabel, ...] = ()


def _dump_lines(header: Mapping[str, Any], entries: Sequence[StatusEntry]) -> bytes:
    first = json.dumps(header, separators=(",", ":")).removesuffix("}")
    second = json.dumps(_to_columns(entries), separators=(",", ":"))
    return seal(f'{first},\n"entries":{second}}}'.encode())


def _parse_lines(data: bytes, *, path: str) -> tuple[dict[str, Any], tuple[StatusEntry, ...]]:
    plain = parse_sealed(data, path=path, newest=STATUS_FORMAT)
    try:
        return plain, _from_columns(plain.get("entries"))
    except (ValueError, InvalidInputError) as error:
        raise damaged(path, error) from error


def _to_columns(entries: Sequence[StatusEntry]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        "load": [entry.id.load for entry in entries],
        "merges": [entry.id.merges for entry in entries],
    }
    for name in _COLUMNS.keys() - columns.keys():
        columns[name] = list(map(attrgetter(name), entries))
    columns["merged_into"] = [None if segment is None else str(segment) for segment in columns["merged_into"]]
    return {name: columns[name] for name in _COLUMNS}


def _from_columns(columns: object) -> tuple[StatusEntry, ...]:
    if type(columns) is not dict or any(type(columns.get(name)) is not list for name in _COLUMNS):
        raise ValueError("its entries are not lists of values")
    count = len(columns["load"])
    for name, kinds in _COLUMNS.items():
        if len(columns[name]) != count or not kinds.issuperset(map(type, columns[name])):
            raise ValueError(f"{name} of its entries")
    if not _STATUSES.keys() >= set(columns["status"]):
        raise ValueError("status of its entries")
    _check_ranges(columns)
    values = {
        **columns,
        "id": _make(SegmentId, columns, count=count),
        "status": [_STATUSES[text] for text in columns["status"]],
        "merged_into": [None if text is None else SegmentId.parse(text) for text in columns["merged_into"]],
    }
    return tuple(_make(StatusEntry, values, count=count))


def _check_ranges(columns: Mapping[str, list[Any]]) -> None:
    """Check that numbers are in range, and that names cannot lead outside the table's folders."""
    for name in _COLUMNS:
        numbers = [value for value in columns[name] if type(value) is int]
        least = 0 if name in _COUNTS else -_MAX_INT
        if numbers and (min(numbers) < least or max(numbers) >= _MAX_INT):
            raise ValueError(f"{name} of its entries is out of range")
    files = [name for name in columns["segment_file"] if name is not None]
    for names, pattern, what in ((files, _SEGMENT_FILES, "segment_file"), (columns["attempt"], _ATTEMPTS, "attempt")):
        lines = "".join(f"{name}\n" for name in names)
        if lines.count("\n") != len(names) or pattern.fullmatch(lines) is None:
            raise ValueError(f"{what} of its entries is not the name of a file")


def _make(kind: type[_T], columns: Mapping[str, list[Any]], *, count: int) -> list[_T]:
    """Create objects by setting their slots field by field: calling each constructor would take four times as long."""
    made = [object.__new__(kind) for _ in range(count)]
    for field in fields(kind):  # type: ignore[arg-type]  # both are dataclasses
        deque(map(getattr(kind, field.name).__set__, made, columns[field.name]), maxlen=0)
    return made


def check_transition(segment: SegmentId, before: SegmentStatus, after: SegmentStatus) -> None:
    """Raise ConflictError unless TRANSITIONS allows the change of status."""
    if after not in TRANSITIONS[before]:
        raise ConflictError(
            f"Segment {segment} is {before} and cannot become {after}: another writer committed first.",
            segment=str(segment),
        )


def revive(entry: StatusEntry, after: SegmentStatus) -> StatusEntry:
    """Return a compacted entry as a live one."""
    check_transition(entry.id, entry.status, after)
    return replace(entry, status=after, modified_ms=None, merged_into=None)


def retire(
    entry: StatusEntry, after: SegmentStatus, *, now_ms: int, merged_into: SegmentId | None = None
) -> StatusEntry:
    """Return an entry as it is written to the retired list."""
    check_transition(entry.id, entry.status, after)
    return replace(entry, status=after, modified_ms=now_ms, merged_into=merged_into)
