"""The status of a segment table at one version: what is live, what is running, and how both are written down.

Written as one JSON object in two lines. The first holds all but the entries, so that whoever looks for a version by
its time parses that line only; the second holds the entries, column by column. A table of 100,000 segments is 18 MB
this way and takes 0.6 s of a core to read, half of what an array for each entry takes.

Nothing in it is believed (model/codec.py): it ends in a digest, and what leads to a file must be the name of one. A
newer ``format_version`` is refused: acting on a half-understood status is how rows get lost.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, TypeVar

from packstone.errors import InvalidInputError
from packstone.model.codec import check_seal, check_version, damaged, from_plain, parse_sealed, seal, to_plain
from packstone.model.record_fields import Count, Name, RunId
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.model.sizes import format_bytes
from packstone.tables.segments.column_types import Column, parse_type

_T = TypeVar("_T")

STATUS_FORMAT: Final = 2  # 1 had no digest
DAY_MS: Final = 86_400_000
RUNNING_STATUSES: Final = frozenset({SegmentStatus.IN_PROGRESS, SegmentStatus.OVERWRITE_IN_PROGRESS})

_NUMBER: Final = frozenset({int})
_TEXT: Final = frozenset({str})
_NONE: Final = frozenset({type(None)})
# The columns of the entries, and of what JSON type their values are. The two numbers of an id stand apart, so that
# nobody reads 0.10 as a fraction.
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
# Names that lead to files, tested all at once: a text for each in a line.
_SEGMENT_FILES: Final = re.compile(r"(?:[0-9A-Za-z][0-9A-Za-z._-]{0,119}\.json\n)*")
_ATTEMPTS: Final = re.compile(r"(?:[0-9A-Za-z][0-9A-Za-z._-]{0,79}\n)*")


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
    def load_day(self) -> int:
        """The day (since 1970, UTC) of the newest load inside: a merge does not make rows younger."""
        return self.newest_load_ms // DAY_MS

    @property
    def is_running(self) -> bool:
        """Whether its load is still at work."""
        return self.status in RUNNING_STATUSES

    def __str__(self) -> str:
        into = f" into {self.merged_into}" if self.merged_into is not None else ""
        major = " major" if self.is_major else ""
        size = f"{self.rows} rows {self.files} files {format_bytes(self.data_bytes)}"
        return f"{self.id} {self.status}{into}{major} {size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCompaction:
    """A compaction at work; its inputs are nobody else's until it ends."""

    attempt: RunId
    output: SegmentId
    inputs: tuple[SegmentId, ...]  # in id order
    started_ms: int
    is_major: bool = False

    def __post_init__(self) -> None:
        """A merged id continues its first member's."""
        first = min(self.inputs, default=self.output)
        if self.output.load != first.load or self.output.merges <= first.merges:
            raise ValueError(f"the compaction {self.attempt} cannot make {self.output} of its inputs")

    def __str__(self) -> str:
        return f"{' '.join(map(str, self.inputs))} -> {self.output} ({self.attempt})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """One version of a table."""

    version: Count
    commit: RunId  # the id of the commit that published this version
    ancestors: tuple[RunId, ...]  # the commits of the previous versions, the last one last, at most 64
    written_ms: (
        int  # as `commit_clock` settles it: less than in the previous version only if `ordered_since` is this one
    )
    clock_ms: int | None = None  # what the writer's clock said; None in versions of an older packstone
    ordered_since: Count = 0  # from this version on, times never decrease
    operation: str
    table_id: str
    columns: tuple[Column, ...]
    properties: tuple[tuple[str, str], ...]  # as given; `properties.parse_properties` reads them
    next_load: Count = 0
    entries: tuple[StatusEntry, ...] = ()  # live and in progress, in id order
    running: tuple[RunningCompaction, ...] = ()
    retired_file: Name | None = None  # a name in Metadata/retired
    history_files: tuple[Name, ...] = ()  # names in Metadata/history, oldest first

    @property
    def live(self) -> tuple[StatusEntry, ...]:
        """What readers see."""
        return tuple(entry for entry in self.entries if entry.status not in RUNNING_STATUSES)

    @property
    def loading(self) -> tuple[StatusEntry, ...]:
        """Loads at work."""
        return tuple(entry for entry in self.entries if entry.status in RUNNING_STATUSES)

    def find(self, segment: SegmentId) -> StatusEntry | None:
        """The entry of an id, if it is live or in progress."""
        return next((entry for entry in self.entries if entry.id == segment), None)

    def find_load(self, attempt: str) -> StatusEntry | None:
        """The entry that a load in progress has made."""
        return next((entry for entry in self.loading if entry.attempt == attempt), None)

    def find_compaction(self, attempt: str) -> RunningCompaction | None:
        """The compaction of an attempt, if it is still registered."""
        return next((running for running in self.running if running.attempt == attempt), None)

    def __str__(self) -> str:
        return f"version {self.version} ({self.operation}): {len(self.entries)} segments, {len(self.running)} running"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusHeader:
    """What tells one version from another, without its entries."""

    version: Count
    commit: RunId
    ancestors: tuple[RunId, ...]
    written_ms: int
    clock_ms: int | None = None
    ordered_since: Count = 0
    operation: str


def dump_status(status: TableStatus) -> bytes:
    """Write a status in its two lines."""
    header = {
        "format_version": STATUS_FORMAT,
        **to_plain(replace(status, entries=())),
        "properties": dict(status.properties),
    }
    del header["entries"]
    return _dump_lines(header, status.entries)


def parse_status(data: bytes, *, path: str) -> TableStatus:
    """Read a status; CorruptionError if it is damaged, RefusedError if it is from a newer packstone."""
    plain, entries = _parse_lines(data, path=path)
    try:
        if type(plain.get("properties")) is not dict:
            raise ValueError("its properties are not an object")  # noqa: TRY301 - as all that follows
        plain["properties"] = [list(item) for item in plain["properties"].items()]
        header: _Plain = from_plain(_Plain, plain)
        status = TableStatus(**{name: getattr(header, name) for name in _Plain.__slots__}, entries=entries)
        _check_relations(status)
    except (ValueError, InvalidInputError, RecursionError) as error:
        raise damaged(path, error) from error
    return status


def parse_header(data: bytes, *, path: str) -> StatusHeader:
    """Read the first line only; the digest is that of all lines."""
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
    """Write a list of retired or cleaned segments."""
    return _dump_lines({"format_version": STATUS_FORMAT, "commit": commit}, entries)


def parse_entries(data: bytes, *, path: str) -> tuple[StatusEntry, ...]:
    """Read such a list."""
    return _parse_lines(data, path=path)[1]


def _check_relations(status: TableStatus) -> None:
    """What no writer of ours writes; ValueError says what."""
    ids = [entry.id for entry in status.entries]
    if any(later <= earlier for earlier, later in pairwise(ids)):
        raise ValueError("its segments are not in order, or one is listed twice")
    if ids and ids[-1].load >= status.next_load:
        raise ValueError(f"segment {ids[-1]} is not below the next load {status.next_load}")
    there = set(ids)
    inputs = [segment for running in status.running for segment in running.inputs]
    if len(set(inputs)) < len(inputs) or not there.issuperset(inputs):
        raise ValueError("a segment that is being merged is not there, or is being merged twice")
    for entry in status.entries:
        if entry.segment_file is None and entry.rows:
            raise ValueError(f"segment {entry.id} has rows and no segment file")
    for column in status.columns:
        if not column.name:
            raise ValueError("a column has no name")
        parse_type(column.type_text, column=column.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plain:
    """A status as the first line has it."""

    version: Count
    commit: RunId
    ancestors: tuple[RunId, ...]
    written_ms: int
    clock_ms: int | None = None
    ordered_since: Count = 0
    operation: str
    table_id: str
    columns: tuple[Column, ...]
    properties: tuple[tuple[str, str], ...]
    next_load: Count
    running: tuple[RunningCompaction, ...]
    retired_file: Name | None
    history_files: tuple[Name, ...]


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
    """Numbers that can be, and names that lead nowhere but to the folders of the table."""
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
    """Make objects field by field through their slots: a call of each constructor would take four times as long."""
    made = [object.__new__(kind) for _ in range(count)]
    for field in fields(kind):  # type: ignore[arg-type]  # both are dataclasses
        deque(map(getattr(kind, field.name).__set__, made, columns[field.name]), maxlen=0)
    return made
