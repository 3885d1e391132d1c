"""Find files of a segment table that are missing, or are not what was written.

=================  =================================================================================================
`health`, always   folders are listed: a missing file, another size (``find_wrong_files``)
`check`            also every record of the version and of those before it (digests), every index (digest, order of
                   its row groups), and the footer of every data file against the index
`check --deep`     also every row: number, order, bounds and nulls of each row group against the index
=================  =================================================================================================

Listing takes one listing of the segment files, of the index files and of the delete files, and one of the folder of
each segment; a segment file is read only if its folder does not hold as many files and bytes as the status says. No
file is inspected singly. Several threads list folders, because on HDFS and S3 each listing waits some milliseconds.

Data files are read by tasks of an engine (``CHECK_JOB``). Each unit has several files of one sorted run of one segment,
because their order is checked together. The driver holds the records of one segment at a time.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packstone.errors import CorruptionError, PackstoneError, RefusedError
from packstone.model.codec import Name, damaged
from packstone.model.files import FileFormat
from packstone.model.maintenance import CheckedPart, Damage, TableCheck, damage_in
from packstone.model.unit import UnitResult, UnitStatus
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.merge_tree.spec import pack_schema
from packstone.rewrite.proof.order_codes import find_disorder
from packstone.rewrite.sorted_merge.block_facts import part_schema, write_part
from packstone.rewrite.sorted_merge.spec import WrittenBlockFile, WrittenBlocks
from packstone.rewrite.sorted_merge.verify import check_footer, check_rows
from packstone.runs.tasks import Attempt, Job
from packstone.storage.fileio import list_file_sizes
from packstone.tables.segments.format.columns import parse_columns, to_arrow
from packstone.tables.segments.format.delete_file import read_deletes
from packstone.tables.segments.format.layout import (
    data_file_path,
    delete_file_path,
    deletes_folder,
    entries_folder,
    hint_path,
    history_path,
    index_file_name,
    index_file_path,
    index_folder,
    retired_folder,
    segment_file_path,
    segment_folder,
    segments_folder,
    status_path,
)
from packstone.tables.segments.format.segment_file import damaged_index, read_index, read_segment, read_segment_file
from packstone.tables.segments.format.status import parse_chunk
from packstone.tables.segments.format.status_files import (
    check_hint,
    find_latest,
    list_lost_versions,
    list_versions,
    newest_known,
    note_newest,
    read_head,
    read_history,
    read_kept_version,
    read_latest,
    read_retired,
    read_version,
)
from packstone.tables.segments.leftovers import list_attempts, table_runs

if TYPE_CHECKING:
    from packstone.model.maintenance import CheckRequest
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.format.segment_file import DataFile, SegmentFile
    from packstone.tables.segments.format.status import ChunkRef, StatusEntry, TableStatus

_THREADS: Final = 16
_FEW_SEGMENTS: Final = 32  # up to this many are listed one after another, without threads
_CHUNK: Final = 2_000  # entries that are submitted to the threads at once


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongFile:
    """A file of a segment that differs from what was written; the path is relative to the table."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


def find_wrong_files(
    io: FileIO, table: str, entries: Sequence[StatusEntry]
) -> Iterator[tuple[StatusEntry, tuple[WrongFile, ...]]]:
    """Yield the segments with missing or changed files, and those files; the entries are live."""
    segments, indexes = list_file_sizes(io, segments_folder(table)), list_file_sizes(io, index_folder(table))
    deletes = list_file_sizes(io, deletes_folder(table)) if any(entry.delete_file for entry in entries) else {}

    def check(entry: StatusEntry) -> tuple[WrongFile, ...]:
        own = segment_file_path("", entry.segment_file or "").removeprefix("/")
        found = _compare({own: None}, {own: segments.get(entry.segment_file or "")})
        index = index_file_name(entry.id, entry.attempt)
        path = index_file_path("", index).removeprefix("/")
        found += _compare({path: entry.index_bytes}, {path: indexes.get(index)})
        if entry.delete_file is not None:
            path = delete_file_path("", entry.delete_file).removeprefix("/")
            found += _compare({path: None}, {path: deletes.get(entry.delete_file)})
        return (*found, *_check_data(io, table, entry))

    for begin in range(0, len(entries), _CHUNK):
        some = entries[begin : begin + _CHUNK]
        for entry, wrong in zip(some, _map(check, some), strict=True):
            if wrong:
                yield entry, wrong


def find_unnamed_segments(io: FileIO, table: str) -> tuple[str, ...]:
    """Segment files that neither the newest version nor a run names: a status file may have been lost.

    The files are listed first: a status that is read afterwards names them, or they belong to a run.
    """
    there = list_file_sizes(io, segments_folder(table))
    attempts = set(list_attempts(io, table))
    status = read_latest(io, table)
    known = {entry.segment_file for entry in (*status.entries, *read_retired(io, table, status))}
    return tuple(
        name
        for name in sorted(there)
        if name.endswith(".json") and name not in known and name.removesuffix(".json").partition("_")[2] not in attempts
    )


def check_no_lost_load(io: FileIO, table: str) -> None:
    """Raise CorruptionError if a finished load is missing in the newest version, or still in progress there.

    Then its status files were lost together with the hint: a commit would reuse their numbers, and the rows could not
    be recovered. A run ends after its last commit, so a load without an active run has finished. Each command that
    writes checks this once; a scan lists nothing. Only runs of suspect files are inspected, since a table may have had
    many runs.

    A process checks a table once, and again if the newest version is older than the one that it has seen or published:
    otherwise each of a thousand loads would list the files of a thousand segments. Versions that are lost and replaced
    while it runs were replaced by another process, which has checked the table itself.
    """
    latest = read_latest(io, table)
    if not 0 < newest_known(table, latest) <= latest.version:
        _check_all_loads(io, table)
        note_newest(table, latest)


def _check_all_loads(io: FileIO, table: str) -> None:
    names = sorted(list_file_sizes(io, segments_folder(table)))
    runs = set(table_runs(io, table).list_runs())
    suspects = _find_suspects(names, read_latest(io, table))
    if suspects and runs:
        active = set(list_attempts(io, table)) & runs
        status = read_latest(io, table)  # again: a run that has ended by now has committed before this read
        suspects = [name for name in _find_suspects(suspects, status) if _attempt_of(name) not in active]
    for name in suspects:
        raise CorruptionError(
            f"{segment_file_path(table, name)} belongs to a load that has finished, but the newest status file, of "
            f"version {read_latest(io, table).version}, does not name it. Put the missing status files back from a "
            "copy; nothing is changed until then.",
            table=table,
            file=segment_file_path(table, name),
        )


def _find_suspects(names: Iterable[str], status: TableStatus) -> list[str]:
    """Segment files of loads that are not finished in a status; merges are ignored, since losing one loses no rows."""
    found, loading = [], {entry.attempt: str(entry.id) for entry in status.loading}
    for name in names:
        segment = name.partition("_")[0]
        if not name.endswith(".json") or not segment.isdigit():
            continue
        if int(segment) >= status.next_load or loading.get(_attempt_of(name)) == segment:
            found.append(name)
    return found


def _attempt_of(name: str) -> str:
    return name.removesuffix(".json").partition("_")[2]


def _map(
    check: Callable[[StatusEntry], tuple[WrongFile, ...]], some: Sequence[StatusEntry]
) -> list[tuple[WrongFile, ...]]:
    if len(some) <= _FEW_SEGMENTS:
        return [check(entry) for entry in some]
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(check, some))


# ---- check ----


_UNIT_FILES: Final = 64  # of which a task reads the footers
_UNIT_BYTES: Final = 256 << 20  # read by one unit of a deep check


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """What all units of a check have in common."""

    table: str
    deep: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentCheck:
    """Consecutive files of one run of a segment."""

    number: int
    segment_file: Name
    first: int  # positions in the segment file
    count: int
    size_bytes: int
    input_files: tuple[tuple[str, str], ...] = ()  # those that are decoded

    @property
    def input_bytes(self) -> int:
        """What it reads: all data, or footers only."""
        return self.size_bytes if self.input_files else self.count * _FOOTER_BYTES


_FOOTER_BYTES: Final = 16 << 10


def check_segments(io: FileIO, table: str, request: CheckRequest) -> TableCheck:
    """Begin to check a version; of the newest one also the status files of the versions that are kept."""
    context = CheckContext(table=table, deep=request.deep)
    if request.version is not None:
        version = read_kept_version(io, table, request.version).version
    else:
        version = find_latest(io, table)
    parts = _check_parts(io, context, version, with_older=request.version is None)
    return TableCheck(version=version, parts=parts, job=CHECK_JOB, context=context)


def _check_parts(
    io: FileIO, context: CheckContext, version: int, *, with_older: bool
) -> Iterator[CheckedPart[SegmentCheck]]:
    table, numbers = context.table, itertools.count()
    seen: set[str] = set()
    if with_older:
        yield _check_older(io, table, seen)
    try:
        status = read_version(io, table, version)
    except (CorruptionError, RefusedError) as error:
        yield CheckedPart(files=1, damage=(Damage.of(error, status_path(table, version)),))
        return
    lists = len(status.retired.chunks) + len(status.history_files)
    yield CheckedPart(files=1 + len(status.chunks) + lists, damage=tuple(_check_lists(io, table, status, seen=seen)))
    entries = [entry for entry in status.live if entry.segment_file is not None]
    for entry in entries:
        yield _check_segment(io, context, entry, numbers=numbers)


def _check_older(io: FileIO, table: str, seen: set[str]) -> CheckedPart[SegmentCheck]:
    """Read the heads of the other versions, and each of their chunks once."""
    damage = [
        Damage(file=status_path(table, lost), why="it is missing, so the versions before it cannot be read")
        for lost in list_lost_versions(io, table)
    ]
    damage += damage_in(hint_path(table), functools.partial(check_hint, io, table))
    versions = list_versions(io, table)
    for version in versions[:-1]:
        try:
            head = read_head(io, table, version)
            if head.version != version:
                raise damaged(status_path(table, version), f"it says that it is version {head.version}")
        except FileNotFoundError:
            continue  # cleaned since
        except (CorruptionError, RefusedError) as error:
            damage.append(Damage.of(error, status_path(table, version)))
            continue
        damage += _check_chunks(io, entries_folder(table), head.live.chunks, seen=seen)
        damage += _check_chunks(io, retired_folder(table), head.retired.chunks, seen=seen)
    return CheckedPart(files=len(versions), damage=tuple(damage))  # of the other versions, and the hint


def _check_chunks(io: FileIO, folder: str, refs: Iterable[ChunkRef], *, seen: set[str]) -> Iterator[Damage]:
    for ref in refs:
        path = f"{folder}/{ref.name}"
        if path not in seen:
            seen.add(path)
            yield from damage_in(path, functools.partial(_read_chunk_file, io, path, ref))


def _read_chunk_file(io: FileIO, path: str, ref: ChunkRef) -> None:
    parse_chunk(io.read_bytes(path), ref, path=path)  # not from the cache: the file is what is checked


def _check_lists(io: FileIO, table: str, status: TableStatus, *, seen: set[str]) -> Iterator[Damage]:
    yield from _check_chunks(io, entries_folder(table), [chunk.ref for chunk in status.chunks], seen=seen)
    yield from _check_chunks(io, retired_folder(table), status.retired.chunks, seen=seen)
    for name in status.history_files:
        yield from damage_in(
            history_path(table, name),
            functools.partial(read_history, io, table, replace(status, history_files=(name,))),
        )


def _check_segment(
    io: FileIO, context: CheckContext, entry: StatusEntry, *, numbers: Iterator[int]
) -> CheckedPart[SegmentCheck]:
    table, files = context.table, 2 + (entry.delete_file is not None)
    try:
        segment = read_segment(io, table, entry)
        files += len(segment.files)
        index = read_index(io, table, segment)
        _check_index_order(index, segment, path=index_file_path(table, segment.index_file))
        read_deletes(io, table, entry, segment=segment)
    except FileNotFoundError as error:
        damage = Damage(file=str(error.filename or error), why=f"is missing; segment {entry.id} needs it")
        return CheckedPart(files=files, rows=entry.live_rows, damage=(damage,))
    except (CorruptionError, RefusedError) as error:
        damage = Damage.of(error, segment_file_path(table, entry.segment_file or ""))
        return CheckedPart(files=files, rows=entry.live_rows, damage=(damage,))
    return CheckedPart(
        files=files,
        size_bytes=segment.data_bytes + entry.index_bytes,
        rows=entry.live_rows,
        units=tuple(_cut_units(segment, context, numbers=numbers)),
    )


def _cut_units(segment: SegmentFile, context: CheckContext, *, numbers: Iterator[int]) -> Iterator[SegmentCheck]:
    first = 0
    for _, run in itertools.groupby(segment.files, key=lambda file: file.run):
        some: list[DataFile] = []
        for file in run:
            is_full = len(some) >= _UNIT_FILES or (
                context.deep and sum(one.size_bytes for one in some) + file.size_bytes > _UNIT_BYTES
            )
            if some and is_full:
                yield _make_unit(segment, context, some, first=first, number=next(numbers))
                first, some = first + len(some), []
            some.append(file)
        yield _make_unit(segment, context, some, first=first, number=next(numbers))
        first += len(some)


def _make_unit(
    segment: SegmentFile, context: CheckContext, files: Sequence[DataFile], *, first: int, number: int
) -> SegmentCheck:
    decoded = [(data_file_path(context.table, file.path), FileFormat.PARQUET.value) for file in files if context.deep]
    return SegmentCheck(
        number=number,
        segment_file=segment.name,
        first=first,
        count=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        input_files=tuple(decoded),
    )


def _check_index_order(index: pa.Table, segment: SegmentFile, *, path: str) -> None:
    """Raise CorruptionError unless the row groups of each run are in order: a search by key would miss rows."""
    if not segment.sort_columns or not index.num_rows:
        return
    runs = np.array([file.run for file in segment.files])[index.column("file").to_numpy()]
    for run in np.unique(runs):
        at = np.flatnonzero(runs == run)
        both = to_column(np.stack([at, at + index.num_rows]).T.reshape(-1))  # start and end of each, in turn
        ends = [
            pa.concat_arrays([index.column(f"{end}.{name}").combine_chunks() for end in ("start", "end")]).take(both)
            for name in segment.sort_columns
        ]
        wrong = find_disorder(ends, may_repeat=True)
        if wrong is not None:
            raise damaged_index(path, f"row group {int(at[wrong // 2])} of segment {segment.id} is out of order")


def check_data_files(attempt: Attempt, context: CheckContext, unit: SegmentCheck) -> UnitResult[Damage]:
    """Compare data files with the index: their footers, and in a deep check all rows."""
    io, table = attempt.io, context.table
    found: list[Damage] = []
    segment = read_segment_file(io, table, unit.segment_file)
    index = read_index(io, table, segment)
    schema = to_arrow(parse_columns(segment.schema))
    files = [
        _as_written(table, segment, index, at=at, schema=schema) for at in range(unit.first, unit.first + unit.count)
    ]
    written = WrittenBlocks(
        files=tuple(files),
        arrow_schema=pack_schema(schema),
        sort_columns=segment.sort_columns,
    )
    sound: list[WrittenBlockFile] = []
    for file in files:
        damage = tuple(damage_in(file.path, functools.partial(check_footer, io, written, file)))
        found += damage
        sound += [] if damage else [file]
    if context.deep and sound:
        found += damage_in(sound[0].path, functools.partial(check_rows, io, replace(written, files=tuple(sound))))
    return UnitResult(number=unit.number, status=UnitStatus.WRITTEN, outputs=tuple(found))


def _as_written(table: str, segment: SegmentFile, index: pa.Table, *, at: int, schema: pa.Schema) -> WrittenBlockFile:
    file = segment.files[at]
    rows = index.filter(pc.equal(index.column("file"), at))
    wanted = part_schema(schema, segment.sort_columns)
    (part,) = rows.select(wanted.names).cast(wanted).combine_chunks().to_batches()
    return WrittenBlockFile(
        path=data_file_path(table, file.path),
        size_bytes=file.size_bytes,
        rows=file.rows,
        part=write_part(part),
        bloom_crc=file.bloom_crc,
        page_index_crc=file.page_index_crc,
        footer_digest=file.footer_digest,
    )


CHECK_JOB: Final = Job(context=CheckContext, unit=SegmentCheck, output=Damage, do=check_data_files)


# ---- files by listing ----


def _check_data(io: FileIO, table: str, entry: StatusEntry) -> tuple[WrongFile, ...]:
    folder = segment_folder(entry.id)
    there = list_file_sizes(io, f"{table}/{folder}")
    if (len(there), sum(there.values())) == (entry.files, entry.data_bytes):
        return ()
    try:
        files = read_segment(io, table, entry).files
    except FileNotFoundError:
        return _check_count(entry, folder, len(there))
    except PackstoneError as error:
        return (WrongFile(path=folder, why=f"cannot be compared: {error.message}"),)
    wanted = {file.path: file.size_bytes for file in files}
    return _compare(wanted, {f"{folder}/{name}": size for name, size in there.items()})


def _check_count(entry: StatusEntry, folder: str, there: int) -> tuple[WrongFile, ...]:
    """Compare only the number of files: without the segment file their names are unknown."""
    if there >= entry.files:
        return ()
    return (WrongFile(path=folder, why=f"holds {there} of {entry.files} files"),)


def _compare(wanted: Mapping[str, int | None], there: Mapping[str, int | None]) -> tuple[WrongFile, ...]:
    found = []
    for path, size in wanted.items():
        got = there.get(path)
        if got is None:
            found.append(WrongFile(path=path, why="is gone"))
        elif size is not None and got != size:
            found.append(WrongFile(path=path, why=f"has {got:,} bytes instead of {size:,}"))
    return tuple(found)
