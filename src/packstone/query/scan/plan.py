"""The plan of a scan: splits, which executors read one by one, and a report of what is skipped and why.

A split holds plain values only, so it can be pickled and sent as JSON (model/codec.py); its filter is resolved.
``split_files`` distributes row groups to splits of about the same size.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from packstone.model.codec import to_plain
from packstone.model.sizes import format_bytes
from packstone.rewrite.merge_tree.spec import ColumnSource, InputFile, MergeSpec

if TYPE_CHECKING:
    import pyarrow as pa

    from packstone.query.filter.expression import Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFile:
    """Row groups of one Parquet file that may hold matching rows."""

    path: str
    size_bytes: int  # of the whole file; path and size identify a version of the file
    row_groups: tuple[int, ...] = ()  # ascending; empty: all that may match by the file's own footer
    row_counts: tuple[int, ...] = ()  # one for each of these row groups; else one number for the file
    must_match: tuple[int, ...] = ()  # those of them in which every row matches, so no row is tested
    read_bytes: int = 0  # of these row groups
    # The file's column for each of the table's; one that is not listed has the same name, or is not in this file.
    columns: tuple[ColumnSource, ...] = ()
    deleted: str = ""  # positions of deleted rows, as `pack_positions` writes them
    bloom_crc: int = 0  # of its bloom filters, if it was recorded (block_facts.bloom_checksum)
    footer_digest: str = ""  # parquet_checks.digest_footer, in hex, if it was recorded

    @property
    def rows(self) -> int:
        """How many rows the row groups have, deleted ones included."""
        return sum(self.row_counts)

    def __str__(self) -> str:
        return f"{self.path} {len(self.row_groups)} row groups {self.rows} rows {format_bytes(self.read_bytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What one task reads: row groups of Parquet files, whole files of any format, or a merge of versions."""

    schema: str  # pack_schema of the returned columns
    filter: str = ""  # pack_filter of the filter for each row; empty: all rows are returned
    filter_schema: str = ""  # pack_schema of the filter's columns, in the table's types
    files: tuple[ScanFile, ...] = ()
    inputs: tuple[InputFile, ...] = ()
    merge: MergeSpec | None = None  # its output is not used: nothing is written
    read_bytes: int = 0
    rows: int = 0  # read; the filter may drop some of them
    hosts: tuple[str, ...] = ()  # that store its blocks, the preferred one first; empty: any, or unknown

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it reads."""
        inputs = (*self.inputs, *(self.merge.files if self.merge is not None else ()))
        return (*(file.path for file in self.files), *(file.path for file in inputs))

    @property
    def needs_merge(self) -> bool:
        """Whether versions of rows are merged."""
        return self.merge is not None

    def __str__(self) -> str:
        files = self.merge.files if self.merge is not None else (*self.files, *self.inputs)
        what = "merge of " if self.needs_merge else ""
        return f"{what}{len(files)} files {self.rows} rows {format_bytes(self.read_bytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """A scan of one version of a table.

    ``unpushed`` are parts of the filter that only Spark can evaluate. ``read_split`` does not apply them: a caller
    with Spark applies them to the returned rows, a caller without Spark must refuse them (``check_pushed``).
    """

    schema: pa.Schema
    splits: tuple[Split, ...]
    report: PruneReport
    unpushed: tuple[Expression, ...] = ()
    needs_merge: bool = False


MAX_SPLIT_BYTES: Final = 128 << 20
OPEN_COST_BYTES: Final = 4 << 20


def split_files(
    files: Sequence[ScanFile],
    *,
    group_bytes: Sequence[Sequence[int]],
    parallelism: int | None = None,
    max_split_bytes: int = MAX_SPLIT_BYTES,
    open_cost_bytes: int = OPEN_COST_BYTES,
) -> tuple[tuple[ScanFile, ...], ...]:
    """Distribute files to splits; ``group_bytes`` are the sizes of each file's row groups (empty: it stays whole).

    Opening a file counts as a fixed number of bytes in addition to its own. The target size of a split is ``min(128 MB,
    max(open cost, all / parallelism))``, as in CarbonData's merge_small_files (research notes 5.2) and in Spark; it
    gives the number of splits. These two fill one split after another, and the last gets the remainder; here the
    largest piece goes first, and each piece to the split with the fewest bytes so far, so that the splits end at about
    the same time. A file that is larger than a split is cut between row groups.
    """
    total, tasks = sum(file.read_bytes + open_cost_bytes for file in files), parallelism or os.cpu_count() or 1
    target = min(max_split_bytes, max(open_cost_bytes, -(-total // tasks)))
    pieces = [piece for file, sizes in zip(files, group_bytes, strict=True) for piece in _cut(file, sizes, target)]
    return _distribute(pieces, -(-total // target), max_bytes=max_split_bytes, open_cost_bytes=open_cost_bytes)


def _distribute(
    pieces: Sequence[ScanFile], count: int, *, max_bytes: int, open_cost_bytes: int
) -> tuple[tuple[ScanFile, ...], ...]:
    """Assign each piece, the largest first, to the split with the fewest bytes, or to a new one if it does not fit."""
    splits: list[list[ScanFile]] = [[] for _ in range(count)]
    filled = [(0, at) for at in range(count)]
    for piece in sorted(pieces, key=lambda piece: -piece.read_bytes):
        size_bytes, at = filled[0]
        if splits[at] and size_bytes + piece.read_bytes > max_bytes:
            at = len(splits)
            splits.append([])
            heapq.heappush(filled, (piece.read_bytes + open_cost_bytes, at))
        else:
            heapq.heapreplace(filled, (size_bytes + piece.read_bytes + open_cost_bytes, at))
        splits[at].append(piece)
    return tuple(tuple(split) for split in splits if split)


HostBytes: TypeAlias = Mapping[str, int]
_MOST_HOSTS: Final = 3  # of a split, as CarbonData and Spark name them


def group_by_host(splits: Sequence[Split], blocks: Mapping[str, HostBytes]) -> tuple[Split, ...]:
    """Distribute the files of splits again, so that each split reads what one host stores, and hosts read alike.

    ``blocks`` has the bytes that each host stores of a file. As in CarbonData's ``distributeSplits``, a host gets files
    up to an equal share of all bytes, the host with the fewest candidates first, because the others can choose. What is
    left goes to the least loaded host that stores it, or to the least loaded of all. A split that merges versions, or
    reads whole files of other formats, stays as it is, and gets its hosts only.

    ::

        bytes of the files   a 4   b 3   c 3   d 2          share of a host: 12 / 2 = 6
        stored by            x y   x     x y   y      ->    y reads a d, x reads b c
    """
    fixed = [replace(one, hosts=_hosts_of(one.paths, blocks)) for one in splits if one.inputs or one.merge is not None]
    free = [one for one in splits if not (one.inputs or one.merge is not None)]
    files = [file for one in free for file in one.files]
    total = sum(file.read_bytes for file in files)
    placed: list[Split] = []
    for host, local in _share_out(files, blocks).items():
        size_bytes = sum(file.read_bytes for file in local)
        count = max(1, round(len(free) * size_bytes / max(1, total)))
        groups = _distribute(local, count, max_bytes=MAX_SPLIT_BYTES, open_cost_bytes=OPEN_COST_BYTES)
        placed += [_with_files(free, group, hosts=_hosts_of_files(host, group, blocks)) for group in groups]
    return (*placed, *fixed)


def _share_out(files: Sequence[ScanFile], blocks: Mapping[str, HostBytes]) -> dict[str, list[ScanFile]]:
    """The files that each host reads; the name of the host is empty if no host is known."""
    hosts = sorted({host for file in files for host in blocks.get(file.path, ())}) or [""]
    share = -(-sum(file.read_bytes for file in files) // len(hosts))
    waiting = dict(enumerate(sorted(files, key=lambda file: (-file.read_bytes, file.path))))
    candidates = {host: [at for at, file in waiting.items() if host in blocks.get(file.path, ())] for host in hosts}
    found: dict[str, list[ScanFile]] = {host: [] for host in hosts}
    filled = dict.fromkeys(hosts, 0)

    def give(host: str, at: int) -> None:
        file = waiting.pop(at)
        found[host].append(file)
        filled[host] += file.read_bytes

    for host in sorted(hosts, key=lambda host: (sum(waiting[at].read_bytes for at in candidates[host]), host)):
        for at in candidates[host]:
            if at in waiting and filled[host] + waiting[at].read_bytes <= share:
                give(host, at)
    for at in tuple(waiting):
        local = [host for host in hosts if at in candidates[host]]
        give(min(local or hosts, key=lambda host: (filled[host], host)), at)
    return {host: some for host, some in found.items() if some}


def _with_files(splits: Sequence[Split], files: tuple[ScanFile, ...], *, hosts: tuple[str, ...]) -> Split:
    # Row groups that must match are not tested in any split, so the filter costs nothing where it was not needed.
    model = next((one for one in splits if one.filter), splits[0])
    read_bytes, rows = sum(file.read_bytes for file in files), sum(file.rows for file in files)
    return replace(model, files=files, read_bytes=read_bytes, rows=rows, hosts=hosts)


def _hosts_of_files(host: str, files: Sequence[ScanFile], blocks: Mapping[str, HostBytes]) -> tuple[str, ...]:
    others = _hosts_of([file.path for file in files], blocks)
    return tuple(dict.fromkeys((host, *others)))[:_MOST_HOSTS] if host else ()


def _hosts_of(paths: Iterable[str], blocks: Mapping[str, HostBytes]) -> tuple[str, ...]:
    """The hosts that store the most of these files."""
    size_bytes: Counter[str] = Counter()
    for path in paths:
        size_bytes.update(blocks.get(path, {}))
    return tuple(sorted(size_bytes, key=lambda host: (-size_bytes[host], host))[:_MOST_HOSTS])


def _cut(file: ScanFile, sizes: Sequence[int], target_bytes: int) -> Iterator[ScanFile]:
    if file.read_bytes <= target_bytes or len(sizes) < 2:  # one row group cannot be cut
        yield file
        return
    first, filled = 0, 0
    for at, size in enumerate(sizes):
        if at > first and filled + size > target_bytes:
            yield _part(file, first, at, read_bytes=filled)
            first, filled = at, 0
        filled += size
    yield _part(file, first, len(sizes), read_bytes=filled)


def _part(file: ScanFile, begin: int, end: int, *, read_bytes: int) -> ScanFile:
    groups = file.row_groups[begin:end]
    return replace(
        file,
        row_groups=groups,
        row_counts=file.row_counts[begin:end],
        must_match=tuple(group for group in file.must_match if group in groups),
        read_bytes=read_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneLevel:
    """What one level of the table (segments, files, row groups) keeps; ``how`` says what decided it."""

    name: str
    total: int
    kept: int
    how: str = ""

    def __str__(self) -> str:
        how = f" ({self.how})" if self.how else ""
        return f"{self.name}: {self.kept} of {self.total}{how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateEffect:
    """How many pieces one part of the filter (parts are joined by AND) excludes on its own."""

    predicate: str
    level: str  # what is excluded: row groups, files
    excluded: int

    def __str__(self) -> str:
        return f"{self.predicate}: excludes {self.excluded} {self.level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What a scan skips, level by level. Bytes are those of whole row groups; a scan of few columns reads fewer."""

    filter: str = ""  # the SQL of the resolved, normalised filter; empty: none
    columns: tuple[str, ...] = ()
    levels: tuple[PruneLevel, ...] = ()
    predicates: tuple[PredicateEffect, ...] = ()
    total_rows: int = 0
    kept_rows: int = 0  # read; not all of them match
    total_bytes: int = 0
    read_bytes: int = 0
    splits: int = 0
    merged_splits: int = 0  # of them, those in which versions of rows are merged

    def to_json(self) -> dict[str, Any]:
        """The report as plain values, for ``json``."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def __str__(self) -> str:
        merged = f", {self.merged_splits} of them merged" if self.merged_splits else ""
        lines = [
            f"filter: {self.filter or 'none'}",
            f"columns: {', '.join(self.columns) or 'none'}",
            *map(str, self.levels),
            *(f"  {effect}" for effect in self.predicates),
            f"rows: {self.kept_rows} of {self.total_rows}",
            f"bytes: {format_bytes(self.read_bytes)} of {format_bytes(self.total_bytes)}",
            f"splits: {self.splits}{merged}",
        ]
        return "\n".join(lines)
