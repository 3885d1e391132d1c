"""The status of a segment table at one version: live segments, running work, and the file format of both.

A version is a small *head* and the *chunks* that it names. The head (Metadata/status) is one JSON object in two lines:
the first line holds everything except entries, so that a search for a version by time parses only that line; the
second holds the few entries that changed lately, column by column. All other entries are in chunks (Metadata/entries,
and Metadata/retired for compacted and deleted segments): immutable lists that many versions share. A head names each
of its chunks with size and digest, and the positions in it that no longer count. So a commit writes a few kilobytes
however many segments there are:

    version 41   chunk a (64 entries)                           + 15 entries in the head
    version 42   chunk a                    chunk b (16)                                       a load was finished
    version 43   chunk a                    chunk b             + 1                            a load began
    version 44   chunk a without 3, 4, 5    chunk b             + 1 + the merged segment       3, 4, 5 were compacted

`plan_chunks` decides when entries move to a new chunk. Chunks grow by a factor of four, so there are few, and an entry
is written a few times in its life. 100,000 entries take 18 MB and 0.6 s of one core to read.

The content is checked (model/codec.py): it ends in a digest, and every file name must be a plain name. A newer
``format_version`` is refused: acting on a partly understood status could lose rows. Formats 1 and 2 held all entries in
the status, format 3 knew no deleted rows; they are read, and the next commit writes format 4.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
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
    read_seal,
    seal,
    to_plain,
)
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.model.sizes import format_bytes
from packstone.tables.segments.format.columns import TableColumn, parse_type

_T = TypeVar("_T")

STATUS_FORMAT: Final = 4  # 1 had no digest, 2 no chunks, 3 no delete files
_WHOLE_FORMAT: Final = 2  # the newest format whose status contains all entries
_MOST_IN_FILE: Final = 10_000_000  # entries of a chunk: ours have at most _LARGEST_CHUNK
DAY_MS: Final = 86_400_000
MAX_LABEL_CHARS: Final = 128
MAX_LABELS: Final = 1_000  # of one segment; a job is not repeated after a thousand later ones
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
    "labels": frozenset({list}),
    "delete_file": _TEXT | _NONE,
    "deleted_rows": _NUMBER,
}
_COUNTS: Final = ("load", "merges", "data_bytes", "index_bytes", "rows", "files", "bad_rows", "deleted_rows")
# What entries of older formats lack, with the first format that has it.
_ADDED: Final[Mapping[str, tuple[int, Callable[[], Any]]]] = {
    "labels": (3, list),
    "delete_file": (4, lambda: None),
    "deleted_rows": (4, int),
}
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
    rows: int = 0  # in its files, deleted ones included
    files: int = 0
    bad_rows: int = 0
    segment_file: str | None = None  # a name in Metadata/segments; None: nothing was committed
    attempt: str
    is_major: bool = False
    merged_into: SegmentId | None = None
    modified_ms: int | None = None  # when it was compacted or deleted; retention counts from here
    labels: tuple[str, ...] = ()  # of the loads inside, oldest first, at most MAX_LABELS; a retired one keeps its own
    delete_file: str | None = None  # a name in Metadata/deletes; None: no row is deleted
    deleted_rows: int = 0  # in that file, fewer than `rows`: a segment without rows is retired

    @property
    def live_rows(self) -> int:
        """The rows that readers see."""
        return self.rows - self.deleted_rows

    @property
    def content(self) -> tuple[str | None, str | None]:
        """The names of the files that determine its rows; files are never changed, so equal names mean equal rows."""
        return self.segment_file, self.delete_file

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
        deleted = f" ({self.deleted_rows} deleted)" if self.deleted_rows else ""
        size = f"{self.rows} rows{deleted} {self.files} files {format_bytes(self.data_bytes)}"
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
    segment: SegmentId  # the live segment that contains the load's rows


def check_label(label: object) -> None:
    """Raise ValueError unless a label is a short line of printable text."""
    if not isinstance(label, str) or not label.strip() or len(label) > MAX_LABEL_CHARS or not label.isprintable():
        raise ValueError(f"the label must be 1 to {MAX_LABEL_CHARS} printable characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRef:
    """How a head names a chunk."""

    name: Name
    digest: str = ""  # the seal of the file; empty only for the retired list of an older format
    size_bytes: Count = 0
    count: Count = 0
    gone: tuple[Count, ...] = ()  # positions that no longer count, as runs: begin, end, begin, end, …

    def __post_init__(self) -> None:
        """Check that the runs are in order and inside the chunk."""
        inside = self.count <= _MOST_IN_FILE and (not self.gone or self.gone[-1] <= self.count)
        if len(self.gone) % 2 or not inside or any(later <= earlier for earlier, later in pairwise(self.gone)):
            raise ValueError(f"the chunk {self.name} does not have these entries")

    @property
    def gone_positions(self) -> frozenset[int]:
        """The positions of entries that were changed or removed since the chunk was written."""
        runs = zip(self.gone[::2], self.gone[1::2], strict=True)
        return frozenset(at for begin, end in runs for at in range(begin, end))


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryChunk:
    """A chunk with its content; ``ref.gone`` is empty."""

    ref: ChunkRef
    entries: tuple[StatusEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntries:
    """A list of entries as a head holds it."""

    chunks: tuple[ChunkRef, ...] = ()
    recent: tuple[StatusEntry, ...] = ()  # those that are in no chunk


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
    retired: StoredEntries = field(default_factory=StoredEntries)  # compacted and deleted segments; chunks not read
    history_files: tuple[Name, ...] = ()  # names in Metadata/history, oldest first
    # The chunks that contain unchanged entries: the same objects as in `entries`. Not part of the table's state.
    chunks: tuple[EntryChunk, ...] = field(default=(), compare=False, repr=False)

    @property
    def labels(self) -> tuple[LoadLabel, ...]:
        """The labels of loads whose rows are live, by segment."""
        return tuple(LoadLabel(label=label, segment=entry.id) for entry in self.entries for label in entry.labels)

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
        found = (entry.id for entry in self.entries if label in entry.labels)
        return next((LoadLabel(label=label, segment=segment) for segment in found), None)

    def find_load(self, attempt: str) -> StatusEntry | None:
        """The entry of a load in progress."""
        newest_first = reversed(self.entries)  # a running load is one of the last
        return next((entry for entry in newest_first if entry.attempt == attempt and entry.is_running), None)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusHead(StatusHeader):
    """A version without the content of its chunks."""

    live: StoredEntries
    retired: StoredEntries
    history_files: tuple[Name, ...]


ReadChunk: TypeAlias = Callable[[ChunkRef], tuple[StatusEntry, ...]]


def dump_status(status: TableStatus) -> bytes:
    """Return the head of a version; its chunks are written already."""
    live = store_entries(status.entries, status.chunks)
    plain = to_plain(replace(status, entries=(), chunks=(), retired=StoredEntries()))
    for name in ("entries", "chunks", "retired"):
        del plain[name]
    header = {
        "format_version": STATUS_FORMAT,
        **plain,
        "properties": dict(status.properties),
        "chunks": [to_plain(ref) for ref in live.chunks],
        "retired_chunks": [to_plain(ref) for ref in status.retired.chunks],
    }
    return _dump_lines(header, {"entries": live.recent, "retired": status.retired.recent})


def parse_status(data: bytes, *, path: str, read_chunk: ReadChunk | None = None) -> TableStatus:
    """Parse a version and read its chunks; CorruptionError if it is damaged, RefusedError if it is from a newer one."""
    plain, live, retired = _parse_head(data, path=path)
    chunks = tuple(
        EntryChunk(ref=replace(ref, gone=()), entries=read_chunk(ref)) for ref in live.chunks if read_chunk is not None
    )
    try:
        status = TableStatus(
            **{one.name: getattr(plain, one.name) for one in fields(_Plain) if not one.name.endswith("chunks")},
            entries=join_entries(live, [chunk.entries for chunk in chunks]),
            chunks=chunks,
            retired=retired,
        )
        _check_relations(status)
    except (ValueError, InvalidInputError) as error:
        raise damaged(path, error) from error
    return status


def parse_head(data: bytes, *, path: str) -> StatusHead:
    """Parse a version without reading its chunks."""
    plain, live, retired = _parse_head(data, path=path)
    header = {one.name: getattr(plain, one.name) for one in fields(StatusHeader)}
    return StatusHead(**header, live=live, retired=retired, history_files=plain.history_files)


def _parse_head(data: bytes, *, path: str) -> tuple[_Plain, StoredEntries, StoredEntries]:
    plain = parse_sealed(data, path=path, newest=STATUS_FORMAT)
    try:
        if plain["format_version"] <= _WHOLE_FORMAT:
            _upgrade(plain)
        for name in ("entries", "retired"):
            _add_columns(plain.get(name), version=plain["format_version"])
        if type(plain.get("properties")) is not dict:
            raise ValueError("its properties are not an object")  # noqa: TRY301 - as all that follows
        plain["properties"] = [list(item) for item in plain["properties"].items()]
        head: _Plain = from_plain(_Plain, plain)
        live = StoredEntries(chunks=head.chunks, recent=_from_columns(plain.get("entries")))
        retired = StoredEntries(chunks=head.retired_chunks, recent=_from_columns(plain.get("retired")))
    except (ValueError, InvalidInputError, RecursionError) as error:
        raise damaged(path, error) from error
    return head, live, retired


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListedLabel:
    """A label of format 2: the load's own segment, then each segment into which it was merged."""

    label: str
    segments: tuple[SegmentId, ...]


def _upgrade(plain: dict[str, Any]) -> None:
    """Turn a status of format 1 or 2, which held all entries and one list of labels, into format 3."""
    retired = plain.pop("retired_file", None)
    plain["chunks"], plain["retired"] = [], _to_columns(())
    plain["retired_chunks"] = [] if retired is None else [{"name": retired}]
    found: dict[str, list[str]] = {}
    listed: tuple[_ListedLabel, ...] = from_plain(tuple[_ListedLabel, ...], plain.pop("labels", []))
    for one in listed:
        found.setdefault(str(one.segments[-1:]), []).append(one.label)
    columns = _add_columns(plain.get("entries"), version=_WHOLE_FORMAT)
    if found and columns:
        ids = zip(columns["load"], columns["merges"], strict=True)
        columns["labels"] = [found.get(str((SegmentId(*segment),)), []) for segment in ids]


def _add_columns(columns: object, *, version: int) -> dict[str, list[Any]]:
    """Add the columns that entries of an older format do not have."""
    if type(columns) is not dict or type(columns.get("load")) is not list:
        return {}  # damaged, which is reported later
    for name, (first, make) in _ADDED.items():
        if version < first and name not in columns:
            columns[name] = [make() for _ in columns["load"]]
    return columns


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
    """Return a chunk, or a list of cleaned segments, as JSON."""
    return _dump_lines({"format_version": STATUS_FORMAT, "commit": commit}, {"entries": entries})


def parse_entries(data: bytes, *, path: str) -> tuple[StatusEntry, ...]:
    """Parse a chunk, or a list of cleaned segments."""
    plain = parse_sealed(data, path=path, newest=STATUS_FORMAT)
    _add_columns(plain.get("entries"), version=plain["format_version"])
    try:
        return _from_columns(plain.get("entries"))
    except (ValueError, InvalidInputError) as error:
        raise damaged(path, error) from error


def name_chunk(name: str, data: bytes, entries: Sequence[StatusEntry]) -> EntryChunk:
    """Return the chunk that this file is."""
    ref = ChunkRef(name=name, digest=read_seal(data), size_bytes=len(data), count=len(entries))
    return EntryChunk(ref=ref, entries=tuple(entries))


def parse_chunk(data: bytes, ref: ChunkRef, *, path: str) -> tuple[StatusEntry, ...]:
    """Parse a chunk; CorruptionError unless it is exactly the file that the head names."""
    if ref.digest and (len(data) != ref.size_bytes or read_seal(data) != ref.digest):
        raise damaged(path, "its size or digest is not the one in the status")
    entries = parse_entries(data, path=path)
    if ref.digest and len(entries) != ref.count:
        raise damaged(path, f"it has {len(entries)} entries instead of {ref.count}")
    return entries


# ---- entries in chunks ----

_MOST_RECENT: Final = 16  # entries in a head: about 3 KB, so that a head fits into one block of a disk
_LABELS_PER_ENTRY: Final = 8  # this many labels weigh as much as an entry
_GROWTH: Final = 4
_LARGEST_CHUNK: Final = 4_096  # entries, 0.7 MB
_MOST_RUNS: Final = 64  # of gone entries in one chunk


def store_entries(entries: Sequence[StatusEntry], chunks: Iterable[EntryChunk]) -> StoredEntries:
    """Return how a head holds these entries.

    An entry that an edit left alone is the object that its chunk contains, so objects are compared, not values: 2 ms
    for 10,000 entries. Equal entries that are other objects are stored in the head, which is right, only longer.
    """
    there = set(map(id, entries))
    refs: list[ChunkRef] = []
    chunked: set[int] = set()
    for chunk in chunks:
        gone = _gone(chunk, there)
        if len(gone) < len(chunk.entries):
            refs.append(replace(chunk.ref, count=len(chunk.entries), gone=_to_runs(gone)))
            chunked.update(map(id, chunk.entries))
    return StoredEntries(chunks=tuple(refs), recent=tuple(entry for entry in entries if id(entry) not in chunked))


def join_entries(stored: StoredEntries, contents: Iterable[Sequence[StatusEntry]]) -> tuple[StatusEntry, ...]:
    """Return the entries in id order; ``contents`` are those of the chunks."""
    found = list(stored.recent)
    for ref, content in zip(stored.chunks, contents, strict=True):
        gone = ref.gone_positions
        found += [entry for at, entry in enumerate(content) if at not in gone] if gone else content
    return tuple(sorted(found, key=lambda entry: (entry.id.load, entry.id.merges)))


def plan_chunks(
    entries: Sequence[StatusEntry], chunks: Iterable[EntryChunk]
) -> tuple[tuple[EntryChunk, ...], tuple[StatusEntry, ...]]:
    """Return the chunks to keep, and the entries to write as a new chunk; usually there are none.

    Entries move when the head has many, or when more than half of a chunk is gone. Smaller chunks are merged into the
    new one, as in an LSM tree: each chunk that is kept is more than four times as large as the next. Loads in progress
    stay in the head, because they change soon.
    """
    there = set(map(id, entries))
    kept = [(chunk, [entry for entry in chunk.entries if id(entry) in there]) for chunk in chunks]
    kept = sorted((one for one in kept if one[1]), key=lambda one: len(one[1]))
    chunked = {id(entry) for _, left in kept for entry in left}
    moving = [entry for entry in entries if id(entry) not in chunked and not entry.is_running]
    weight = sum(1 + len(entry.labels) // _LABELS_PER_ENTRY for entry in moving)
    worn = [one for one in kept if _is_worn(*one, there)]
    if weight >= _MOST_RECENT or worn:
        for one in kept.copy():
            fits = len(one[1]) <= _GROWTH * len(moving) and len(one[1]) + len(moving) <= _LARGEST_CHUNK
            if fits or one in worn:
                moving += one[1]
                kept.remove(one)
    else:
        moving = []
    ordered = sorted(moving, key=lambda entry: (entry.id.load, entry.id.merges))
    return tuple(chunk for chunk, _ in kept), tuple(ordered)


def _is_worn(chunk: EntryChunk, left: Sequence[StatusEntry], there: Collection[int]) -> bool:
    gone_count = len(chunk.entries) - len(left)
    if not chunk.ref.digest or gone_count > len(left):
        return True
    return gone_count > _MOST_RUNS and len(_to_runs(_gone(chunk, there))) > 2 * _MOST_RUNS


def _gone(chunk: EntryChunk, there: Collection[int]) -> list[int]:
    return [at for at, entry in enumerate(chunk.entries) if id(entry) not in there]


def _to_runs(positions: Iterable[int]) -> tuple[int, ...]:
    runs: list[int] = []
    for at in positions:
        if runs and runs[-1] == at:
            runs[-1] = at + 1
        else:
            runs += [at, at + 1]
    return tuple(runs)


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
        _check_rows(entry)
    labels = [label for entry in status.entries for label in entry.labels]
    if len(set(labels)) < len(labels):
        raise ValueError("a label is listed twice")
    for column in status.columns:
        if not column.name:
            raise ValueError("a column has no name")
        parse_type(column.type_text, column=column.name)


def _check_rows(entry: StatusEntry) -> None:
    if entry.segment_file is None and entry.rows:
        raise ValueError(f"segment {entry.id} has rows but no segment file")
    if (entry.delete_file is None) != (entry.deleted_rows == 0) or entry.deleted_rows > max(0, entry.rows - 1):
        raise ValueError(f"segment {entry.id} of {entry.rows} rows has {entry.deleted_rows} deleted ones")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plain(StatusHeader):
    """The content of the first line of a status."""

    table_id: str
    columns: tuple[TableColumn, ...]
    properties: tuple[tuple[str, str], ...]
    next_load: Count
    running: tuple[RunningCompaction, ...]
    chunks: tuple[ChunkRef, ...]
    retired_chunks: tuple[ChunkRef, ...]
    history_files: tuple[Name, ...]


def _dump_lines(header: Mapping[str, Any], lists: Mapping[str, Sequence[StatusEntry]]) -> bytes:
    first = json.dumps(header, separators=(",", ":")).removesuffix("}")
    columns = {name: _to_columns(entries) for name, entries in lists.items()}
    second = json.dumps(columns, separators=(",", ":")).removeprefix("{")
    return seal(f"{first},\n{second}".encode())


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
        "labels": [_to_labels(texts) for texts in columns["labels"]],
    }
    return tuple(_make(StatusEntry, values, count=count))


def _to_labels(texts: list[Any]) -> tuple[str, ...]:
    for text in texts:
        if type(text) is not str:
            raise ValueError("labels of its entries")
        check_label(text)
    return tuple(texts)


def _check_ranges(columns: Mapping[str, list[Any]]) -> None:
    """Check that numbers are in range, and that names cannot lead outside the table's folders."""
    for name in _COLUMNS:
        numbers = [value for value in columns[name] if type(value) is int]
        least = 0 if name in _COUNTS else -_MAX_INT
        if numbers and (min(numbers) < least or max(numbers) >= _MAX_INT):
            raise ValueError(f"{name} of its entries is out of range")
    patterns = {"segment_file": _SEGMENT_FILES, "delete_file": _SEGMENT_FILES, "attempt": _ATTEMPTS}
    for what, pattern in patterns.items():
        names = [name for name in columns[what] if name is not None]
        lines = "".join(f"{name}\n" for name in names)
        if lines.count("\n") != len(names) or pattern.fullmatch(lines) is None:
            raise ValueError(f"{what} of its entries is not the name of a file")


def _make(kind: type[_T], columns: Mapping[str, list[Any]], *, count: int) -> list[_T]:
    """Create objects by setting their slots field by field: calling each constructor would take four times as long."""
    made = [object.__new__(kind) for _ in range(count)]
    for one in fields(kind):  # type: ignore[arg-type]  # both are dataclasses
        deque(map(getattr(kind, one.name).__set__, made, columns[one.name]), maxlen=0)
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
