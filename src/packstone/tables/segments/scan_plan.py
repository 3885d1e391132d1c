"""Which row groups of a segment table a filter needs, from the indexes of its segments.

Nothing is listed and no data file is opened: row groups are chosen by their bounds in the index; a file, or a segment,
of which none is left is left out with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from packstone.pruning.may_match import may_match, must_match
from packstone.pruning.prune import Pruned, PrunedBy, prune
from packstone.scan.caches import process_caches
from packstone.scan.explain_blooms import explain_blooms
from packstone.scan.partitions import split_files
from packstone.scan.prune_report import PredicateEffect, PruneLevel, PruneReport
from packstone.scan.scan_plan import ScanFile, ScanPlan, Split
from packstone.scan.scan_request import DEFAULT_OPTIONS, ScanOptions, ScanRequest, read_request
from packstone.tables.segments.column_types import to_arrow
from packstone.tables.segments.layout import data_file_path
from packstone.tables.segments.properties import parse_properties
from packstone.tables.segments.scan_index import IndexPart, Numbers, VersionIndex, read_version_index

if TYPE_CHECKING:
    from packstone.pruning.expression import Expression
    from packstone.scan.caches import ScanCaches
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.status import TableStatus

Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kept:
    """What is left of one part of the index."""

    part: IndexPart
    pruned: Pruned
    must: Flags  # of those that are left, one for one

    def column(self, name: str) -> Numbers:
        """A column of the index, of what is left."""
        whole: Numbers = self.part.index.column(name).to_numpy()
        return whole[self.pruned.kept]


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
    """Plan a scan of one version; ``columns`` None is all of them, in the table's order."""
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
        level = explain_blooms(io, files, request, columns=blooms, caches=caches)
        report = report if level is None else replace(report, levels=(*report.levels, level))
    return ScanPlan(
        schema=request.schema,
        splits=splits,
        report=report,
        residual=request.expression if any(split.filter for split in splits) else None,
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
    """The files with their row groups that are left, and the sizes of these."""
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
        group_sizes = sizes[begin:end].tolist()
        yield (
            ScanFile(
                path=data_file_path(table, data.path),
                size_bytes=data.size_bytes,
                row_groups=tuple(groups[begin:end].tolist()),
                row_counts=tuple(rows[begin:end].tolist()),
                must_match=tuple(groups[begin:end][one.must[begin:end]].tolist()),
                read_bytes=sum(group_sizes),
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
    """How row groups were found, and why so: `by tree: 1 range of sort keys; by vector: not sorted`."""
    found = Counter((one.pruned.by, one.pruned.why) for one in kept)
    return "; ".join(f"by {by}: {why}" for by, why in found)


def _effects(request: ScanRequest, index: VersionIndex) -> Iterator[PredicateEffect]:
    for predicate in request.parts:
        excluded = sum(int(np.count_nonzero(~may_match(predicate, part.index))) for part in index.parts)
        yield PredicateEffect(predicate=str(predicate), level="row groups", excluded=excluded)


def _sum(part: IndexPart, name: str) -> int:
    return int(part.index.column(name).to_numpy().sum())
