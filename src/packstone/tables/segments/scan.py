"""Plan a scan of a segment table: the row groups that a filter needs, from the indexes of its segments.

Planning lists no folder and opens no data file: it selects row groups by their bounds in the index, and skips a file or
segment of which no row group is left.

Reading the indexes takes longer than testing them, so both are cached: the index of each segment (a segment file is
written once, so its name identifies its content), and for each version of the table the joined indexes, because one
test over all row groups is faster than one for each of a hundred segments. Big sorted segments are kept apart: they
have a tree over their sort keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa

from packstone.errors import CorruptionError, InvalidInputError
from packstone.query.filter.key_search import (
    SEARCH_COST_BLOCKLETS,
    Pruned,
    PrunedBy,
    SortedKeys,
    build_sorted_keys,
    prune,
)
from packstone.query.filter.may_match import may_match, must_match
from packstone.query.scan.bloom import requested_columns
from packstone.query.scan.caches import process_caches
from packstone.query.scan.dictionaries import has_dictionary_test
from packstone.query.scan.plan import PredicateEffect, PruneLevel, PruneReport, ScanFile, ScanPlan, Split, split_files
from packstone.query.scan.request import DEFAULT_OPTIONS, ScanOptions, ScanRequest, fallen_behind, read_request
from packstone.query.scan.scanned_file import ScannedFile
from packstone.rewrite.merge_tree.spec import pack_positions
from packstone.tables.segments.family import SEGMENTS
from packstone.tables.segments.format.columns import to_arrow
from packstone.tables.segments.format.delete_file import read_deletes
from packstone.tables.segments.format.layout import data_file_path
from packstone.tables.segments.format.properties import parse_properties
from packstone.tables.segments.format.segment_file import DataFile, SegmentFile, read_index, read_segment
from packstone.tables.segments.format.status_files import (
    find_as_of,
    list_versions,
    read_floor,
    read_kept_version,
    read_latest,
    read_version,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from packstone.query.filter.expression import Expression
    from packstone.query.scan.caches import ScanCaches
    from packstone.query.scan.request import Selection
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.format.status import EntryKey, StatusEntry, TableStatus

Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kept:
    """The row groups of one part of the index that the filter may match."""

    part: IndexPart
    pruned: Pruned
    must: Flags  # one flag for each remaining row group

    def column(self, name: str) -> Numbers:
        """A column of the index, for the remaining row groups."""
        whole: Numbers = self.part.index.column(name).to_numpy()
        return whole[self.pruned.kept]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSource:
    """A segment table at one version."""

    io: FileIO
    path: str
    status: TableStatus

    @property
    def family(self) -> str:
        """The name of the family."""
        return SEGMENTS.name

    @property
    def version(self) -> int:
        """The version of the status."""
        return self.status.version

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return to_arrow(self.status.columns)

    @classmethod
    def open(cls, io: FileIO, path: str, *, version: int | None, as_of_ms: int | None) -> Self:
        """Open a table at the newest version, at one by number, or at the newest one at a moment."""
        if version is not None:
            status = read_kept_version(io, path, version)
        else:
            status = read_latest(io, path) if as_of_ms is None else find_as_of(io, path, as_of_ms)
        return cls(io=io, path=path, status=status)

    @classmethod
    def find_added(cls, io: FileIO, path: str, versions: range) -> tuple[Self, ...]:
        """Return the loads of all versions but the first of a range, without rows that were deleted in the range.

        A load is in progress in the version before the one that publishes it. A segment that is live again after
        `restore` is not, and its rows were added before.
        """
        before = _read(io, path, versions[0])
        found: list[TableStatus] = []
        latest: dict[EntryKey, StatusEntry] = {}
        for version in versions[1:]:
            status = _read(io, path, version)
            loading = {entry.key for entry in before.loading}
            new = tuple(entry for entry in status.live if entry.key in loading)
            if new:
                found.append(replace(status, entries=new, running=()))
            latest.update((entry.key, entry) for entry in status.live)
            before = status
        if read_floor(io, path) > versions[0]:
            raise fallen_behind(path, versions[0])
        loads = (replace(one, entries=tuple(latest[entry.key] for entry in one.entries)) for one in found)
        return tuple(cls(io=io, path=path, status=status) for status in loads)

    def check_streamable(self) -> None:
        """Do nothing: a load only adds rows; rows that are deleted later are not taken back."""

    def plan(self, selection: Selection, *, caches: ScanCaches | None = None) -> ScanPlan:
        """Plan a scan."""
        return plan_segment_scan(
            self.io,
            self.path,
            status=self.status,
            columns=selection.columns,
            where=selection.where,
            caches=caches,
            options=selection.options,
        )


def _read(io: FileIO, table: str, version: int) -> TableStatus:
    try:
        return read_version(io, table, version)
    except FileNotFoundError:
        raise fallen_behind(table, version) from None


def plan_segment_scan(
    io: FileIO,
    table: str,
    *,
    status: TableStatus,
    columns: Sequence[str] | None = None,
    where: str | Expression | None = None,
    caches: ScanCaches | None = None,
    options: ScanOptions = DEFAULT_OPTIONS,
) -> ScanPlan:
    """Plan a scan of one version; ``columns`` None means all columns, in the table's order."""
    request = read_request(to_arrow(status.columns), columns=columns, where=where, zone=options.zone)
    caches = caches or process_caches()
    index = read_version_index(io, table, status, caches=caches)
    kept = [_prune_part(part, request.expression) for part in index.parts]
    files, sizes = _scan_files(table, index, kept)
    splits = tuple(
        _split(request, some) for some in split_files(files, group_bytes=sizes, parallelism=options.parallelism)
    )
    report = _report(request, index, kept, files=files, splits=splits, explain=options.explain)
    if options.explain:
        blooms = parse_properties(status.properties, status.columns).bloom_columns
        more = explain_data_files(io, files, request, blooms=blooms, caches=caches)
        report = replace(report, levels=(*report.levels, *more))
    return ScanPlan(
        schema=request.schema,
        splits=splits,
        report=report,
        unpushed=request.unpushed,
    )


def _prune_part(part: IndexPart, expression: Expression | None) -> _Kept:
    rows = part.index.num_rows
    if expression is None:
        every = np.arange(rows)
        pruned = Pruned(kept=every, by=PrunedBy.VECTOR, why="no filter", blocklets=rows, tested=0)
        return _Kept(part=part, pruned=pruned, must=np.ones(rows, dtype=bool))
    pruned = prune(expression, part.index, keys=part.keys)
    if part.keys is None and part.is_sorted:
        pruned = replace(pruned, why="too small to search")
    return _Kept(part=part, pruned=pruned, must=must_match(expression, part.index, at=pruned.kept))


def _scan_files(table: str, index: VersionIndex, kept: Sequence[_Kept]) -> tuple[list[ScanFile], list[list[int]]]:
    """The files with their remaining row groups, and the sizes of these."""
    files, sizes = [], []
    for one in kept:
        for file, group_sizes in _files_of(table, index, one):
            files.append(file)
            sizes.append(group_sizes)
    return files, sizes


def _files_of(table: str, index: VersionIndex, one: _Kept) -> Iterator[tuple[ScanFile, list[int]]]:
    at = one.part.file[one.pruned.kept]
    if not len(at):
        return
    groups, rows, sizes = (one.column(name) for name in ("row_group", "rows", "size_bytes"))
    cuts = [0, *(np.flatnonzero(np.diff(at)) + 1).tolist(), len(at)]
    for begin, end in pairwise(cuts):
        data = index.files[int(at[begin])]
        deleted = index.deleted.get(data.path)
        if deleted is not None and deleted.rows == data.rows:
            continue
        group_sizes = sizes[begin:end].tolist()
        yield (
            ScanFile(
                path=data_file_path(table, data.path),
                size_bytes=data.size_bytes,
                bloom_crc=data.bloom_crc,
                footer_digest=data.footer_digest,
                row_groups=tuple(groups[begin:end].tolist()),
                row_counts=tuple(rows[begin:end].tolist()),
                must_match=tuple(groups[begin:end][one.must[begin:end]].tolist()),
                read_bytes=sum(group_sizes),
                deleted="" if deleted is None else deleted.positions,
            ),
            group_sizes,
        )


def _split(request: ScanRequest, files: tuple[ScanFile, ...]) -> Split:
    is_tested = any(len(file.must_match) < len(file.row_groups) for file in files)
    return replace(
        request.empty_split(is_tested=is_tested),
        files=files,
        read_bytes=sum(file.read_bytes for file in files),
        rows=sum(file.rows for file in files),
    )


def _report(
    request: ScanRequest,
    index: VersionIndex,
    kept: Sequence[_Kept],
    *,
    files: Sequence[ScanFile],
    splits: Sequence[Split],
    explain: bool,
) -> PruneReport:
    segments = sum(len(np.unique(one.part.segment[one.pruned.kept])) for one in kept)
    groups = PruneLevel(
        name="row groups",
        total=sum(part.index.num_rows for part in index.parts),
        kept=sum(len(one.pruned.kept) for one in kept),
        how=_how(kept),
    )
    return PruneReport(
        filter=request.text,
        columns=tuple(request.schema.names),
        levels=(
            PruneLevel(name="segments", total=index.segments, kept=segments),
            PruneLevel(name="files", total=len(index.files), kept=len(files)),
            groups,
        ),
        predicates=tuple(_effects(request, index)) if explain else (),
        total_rows=sum(file.rows for file in index.files),
        kept_rows=sum(file.rows for file in files),
        total_bytes=sum(_sum(part, "size_bytes") for part in index.parts),
        read_bytes=sum(file.read_bytes for file in files),
        splits=len(splits),
    )


def _how(kept: Sequence[_Kept]) -> str:
    """Describe how row groups were found, and why: `by tree: 1 range of sort keys; by vector: not sorted`."""
    found = Counter((one.pruned.by, one.pruned.why) for one in kept)
    return "; ".join(f"by {by}: {why}" for by, why in found)


def _effects(request: ScanRequest, index: VersionIndex) -> Iterator[PredicateEffect]:
    for predicate in request.parts:
        excluded = sum(int(np.count_nonzero(~may_match(predicate, part.index))) for part in index.parts)
        yield PredicateEffect(predicate=str(predicate), level="row groups", excluded=excluded)


def _sum(part: IndexPart, name: str) -> int:
    return int(part.index.column(name).to_numpy().sum())


# ---- the indexes of a version ----


Numbers = np.ndarray[Any, np.dtype[np.int64]]

_FILE_BYTES = 400  # memory of the record of one file
# An index of fewer row groups is never searched (`pruning.prune`), so its tree need not be built.
_SEARCHED_FROM = 2 * SEARCH_COST_BLOCKLETS


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedInFile:
    """The deleted rows of one data file."""

    path: str
    rows: int
    positions: str  # as `pack_positions` writes them


def deleted_bytes(deleted: Iterable[DeletedInFile]) -> int:
    """The memory that the deleted rows of a segment take."""
    return sum(_FILE_BYTES + len(one.positions) for one in deleted)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SegmentIndex:
    """The segment file and the index of one segment; its deleted rows depend on the version."""

    segment: SegmentFile
    index: pa.Table
    deleted: tuple[DeletedInFile, ...] = ()  # one for each file with deleted rows

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return int(self.index.nbytes) + len(self.segment.files) * _FILE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexPart:
    """Row groups that are tested together; ``file`` and ``segment`` are positions within the version."""

    index: pa.Table
    file: Numbers
    segment: Numbers
    keys: SortedKeys | None = None
    is_sorted: bool = False  # sorted, but too small to be searched with a tree

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        keys = 0 if self.keys is None else self.keys.nbytes
        return int(self.index.nbytes) + self.file.nbytes + self.segment.nbytes + keys


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VersionIndex:
    """All segments, files and index parts of a version."""

    files: tuple[DataFile, ...]
    segments: int
    parts: tuple[IndexPart, ...]
    deleted: Mapping[str, DeletedInFile]  # by the path of the data file

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return sum(part.nbytes for part in self.parts) + len(self.files) * _FILE_BYTES


def read_version_index(io: FileIO, table: str, status: TableStatus, *, caches: ScanCaches) -> VersionIndex:
    """Return the index of a version, from the cache if it was read before."""

    def load() -> VersionIndex:
        return _join([_read_segment(io, table, entry, status=status, caches=caches) for entry in entries])

    entries = [entry for entry in status.live if entry.segment_file is not None]
    # A stream reads some segments of a version only, with rows that later versions deleted.
    key = (status.table_id, status.version, status.commit, hash(tuple(entry.content for entry in entries)))
    found: VersionIndex = caches.index.get_or_load(key, load, lambda one: one.nbytes)
    return found


def _read_segment(
    io: FileIO, table: str, entry: StatusEntry, *, status: TableStatus, caches: ScanCaches
) -> SegmentIndex:
    def load() -> SegmentIndex:
        try:
            segment = read_segment(io, table, entry)
            index = read_index(io, table, segment)
        except (FileNotFoundError, CorruptionError) as error:
            if isinstance(error, FileNotFoundError) or isinstance(error.__cause__, FileNotFoundError):
                raise _gone(io, table, status, error=error) from error
            raise
        return SegmentIndex(segment=segment, index=index)

    found: SegmentIndex = caches.index.get_or_load((status.table_id, entry.segment_file), load, lambda one: one.nbytes)
    if entry.delete_file is None:
        return found

    def load_deletes() -> tuple[DeletedInFile, ...]:
        try:
            deleted = read_deletes(io, table, entry, segment=found.segment)
        except FileNotFoundError as error:
            raise _gone(io, table, status, error=error) from error
        return tuple(
            DeletedInFile(path=path, rows=len(at), positions=pack_positions(at)) for path, at in deleted.items()
        )

    key = (status.table_id, "deletes", *entry.content)
    deleted: tuple[DeletedInFile, ...] = caches.index.get_or_load(key, load_deletes, deleted_bytes)
    return replace(found, deleted=deleted)


def _gone(io: FileIO, table: str, status: TableStatus, *, error: Exception) -> Exception:
    """The error for a missing file: either the version was cleaned while it was read, or it is damaged."""
    if status.version not in list_versions(io, table):
        return InvalidInputError(
            f"Version {status.version} of {table} was cleaned while it was read; read a newer one."
        )
    if isinstance(error, CorruptionError):
        return error  # it names the file
    path = str(getattr(error, "filename", None) or error)
    return CorruptionError(
        f"{path} is missing, but version {status.version} of {table} names it; restore it from a copy.", file=path
    )


def _join(segments: Sequence[SegmentIndex]) -> VersionIndex:
    files: list[DataFile] = []
    alone: list[IndexPart] = []
    # Equal texts mean equal types (segment_file.py checks that); hashing 10,000 Arrow schemas takes a second.
    together: dict[tuple[object, ...], list[IndexPart]] = {}
    for at, one in enumerate(segments):
        part = _number(one, first_file=len(files), segment=at)
        files += one.segment.files
        if part.keys is not None:
            alone.append(part)
        elif part.index.num_rows:
            kind = one.segment.schema, one.segment.sort_columns, *part.index.column_names
            together.setdefault(kind, []).append(part)
    joined = (_concatenate(parts) for parts in together.values())
    return VersionIndex(
        files=tuple(files),
        segments=len(segments),
        parts=(*alone, *joined),
        deleted={one.path: one for segment in segments for one in segment.deleted},
    )


def _number(one: SegmentIndex, *, first_file: int, segment: int) -> IndexPart:
    index, keys = one.index, None
    if index.num_rows >= _SEARCHED_FROM and one.segment.sort_columns:
        keys = build_sorted_keys(index, one.segment.sort_columns)
    file = index.column("file").to_numpy().astype(np.int64) + first_file
    return IndexPart(
        index=index,
        file=file,
        segment=np.full(len(file), segment, dtype=np.int64),
        keys=keys,
        is_sorted=bool(one.segment.sort_columns),
    )


def _concatenate(parts: Sequence[IndexPart]) -> IndexPart:
    if len(parts) == 1:
        return parts[0]
    joined = pa.concat_tables([part.index for part in parts])
    # Only a tree needs the keys of first and last rows.
    names = [name for name in joined.column_names if not name.startswith(("start.", "end.", "exact."))]
    return IndexPart(
        index=joined.select(names).combine_chunks(),
        file=np.concatenate([part.file for part in parts]),
        segment=np.concatenate([part.segment for part in parts]),
        is_sorted=any(part.is_sorted for part in parts),
    )


_MOST_GROUPS: Final = 10_000
_MOST_FILES: Final = 1_000


def explain_data_files(
    io: FileIO, files: Sequence[ScanFile], request: ScanRequest, *, blooms: Collection[str], caches: ScanCaches
) -> tuple[PruneLevel, ...]:
    """Return what bloom filters and dictionaries in the data files leave of a planned scan, as far as they are used.

    Only for `explain`: tasks test them when they read. Testing them beforehand reads footers, bloom filters and
    dictionaries, but no rows.
    """
    expression = request.expression
    if expression is None:
        return ()
    requested = ", ".join(sorted(requested_columns(expression, blooms)))
    total = sum(len(file.row_groups) for file in files)
    is_too_much = total > _MOST_GROUPS or len(files) > _MOST_FILES
    if is_too_much and requested:
        how = f"of {requested}: too many to test here"
        return (PruneLevel(name="bloom filters", total=total, kept=total, how=how),)
    if is_too_much or not (requested or has_dictionary_test(expression)):
        return ()
    tested: set[str] = set()
    by_bloom = by_dictionary = 0
    for file in files:
        opened = ScannedFile(io, file, request.filter_schema.names, caches=caches)
        schema, sure = request.filter_schema, frozenset(file.must_match)
        try:
            groups = opened.prune_by_bloom_filters(expression, schema, groups=file.row_groups, sure=sure)
            by_bloom += len(groups)
            if groups:
                groups = opened.prune_by_dictionaries(expression, schema, groups=groups, sure=sure, tested=tested)
            by_dictionary += len(groups)
        finally:
            opened.close()
    levels = []
    if requested:
        levels.append(PruneLevel(name="bloom filters", total=total, kept=by_bloom, how=f"of {requested}"))
    if tested:
        how = f"of {', '.join(sorted(tested))}"
        levels.append(PruneLevel(name="dictionaries", total=by_bloom, kept=by_dictionary, how=how))
    return tuple(levels)
