"""Split one merge of segments into pieces of work: which files are sorted, which overlap, where to cut.

1. Files of segments that are sorted by the table's sort columns (or by more: sorted by ``a, b`` is sorted by ``a``)
   have a first and a last key in their index. They are split into *sections* whose key ranges do not overlap, each
   packed into the fewest runs: files that do not overlap are read one after another instead of in parallel.
2. Sections are gathered into pieces of about ``task_bytes``. A section that is too big is cut by ranges of the first
   sort column, at keys from the indexes, each weighted by the bytes of its row group. A cut need not be an existing
   key: every piece takes the rows in ``[lower, upper)``, so no cut loses or duplicates rows; it only decides how evenly
   the work is spread. Rows without a key (null) belong to the first range. A key with more bytes than a piece stays in
   one piece: the range cannot separate rows of one key.
3. Unsorted files are sorted by the kernel. If the whole merge is one piece, they are part of it; otherwise every piece
   would read them completely, so they are first sorted, in chunks of ``task_bytes``, into runs (`plan_sorting`), which
   then are inputs like the others.
4. Without sort columns files are joined in the order of segments and of their files.

Pieces are in key order, so the files written for them, piece by piece, are one run.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import CorruptionError
from packstone.rewrite.merge_tree.cursor import BatchKeys
from packstone.rewrite.merge_tree.spec import KeyRange, pack_value
from packstone.rewrite.sorted_merge.spec import OrderedFile
from packstone.strategy.sections import cut_sections

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packstone.rewrite.merge_tree.cursor import RowKey
    from packstone.rewrite.sorted_merge.spec import OrderedSection

_TOO_BIG_NUM, _TOO_BIG_DEN = 3, 2  # a section is cut when it is more than 1.5 times as big as a task
KeyElement = tuple[Any, ...]  # (0,) for null, (1, value): how one column of a key compares


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPoint:
    """An existing value of the first sort column, and the approximate bytes of rows near it."""

    element: KeyElement
    value: pa.Scalar
    weight_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedFile:
    """A sorted file with its first and last key."""

    file: OrderedFile
    first: RowKey
    last: RowKey
    points: tuple[KeyPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePiece:
    """A part of a merge that one task can do alone."""

    sections: tuple[OrderedSection, ...]
    unsorted: tuple[OrderedFile, ...] = ()
    key_range: KeyRange | None = None
    size_bytes: int

    def __str__(self) -> str:
        runs = sum(len(section) for section in self.sections)
        return f"{len(self.sections)} sections {runs} runs {len(self.unsorted)} unsorted {self.size_bytes}B"


def keyed_files(files: Sequence[OrderedFile], index: pa.Table, sort_columns: Sequence[str]) -> tuple[KeyedFile, ...]:
    """Return sorted files with their keys from the index: the first and the last key of every row group."""
    starts = _keys(index, "start", sort_columns)
    ends = _keys(index, "end", sort_columns)
    places = index.column("file").to_pylist()
    groups = index.column("row_group").to_pylist()
    sizes = index.column("size_bytes").to_pylist()
    rows = sorted(range(len(places)), key=lambda row: (places[row], groups[row]))
    first_values, last_values = index.column(f"start.{sort_columns[0]}"), index.column(f"end.{sort_columns[0]}")
    found: dict[int, KeyedFile] = {}
    for at, members in groupby(rows, key=lambda row: places[row]):
        own = list(members)
        points = []
        for row in own:
            first, last = starts.get(row), ends.get(row)
            points.append(KeyPoint(element=first[0], value=first_values[row], weight_bytes=sizes[row] // 2))
            points.append(KeyPoint(element=last[0], value=last_values[row], weight_bytes=sizes[row] // 2))
        found[at] = KeyedFile(file=files[at], first=starts.get(own[0]), last=ends.get(own[-1]), points=tuple(points))
    if len(found) != len(files):
        missing = next(file for at, file in enumerate(files) if at not in found)
        raise CorruptionError(
            f"The segment's index has no entry for {missing.path}; load the segment again.", file=missing.path
        )
    return tuple(found[at] for at in sorted(found))


def plan_pieces(
    files: Sequence[KeyedFile], unsorted: Sequence[OrderedFile] = (), *, task_bytes: int
) -> tuple[MergePiece, ...]:
    """Split a sorted merge into pieces, in key order; pass unsorted files only if the whole merge is one piece."""
    total = sum(one.file.size_bytes for one in files) + sum(file.size_bytes for file in unsorted)
    if unsorted:
        sections = tuple(_as_section(runs) for runs in split_sections(files))
        return (MergePiece(sections=sections, unsorted=tuple(unsorted), size_bytes=total),)
    return tuple(_gather(split_sections(files), task_bytes))


def needs_sorting_first(files: Sequence[KeyedFile], unsorted: Sequence[OrderedFile], *, task_bytes: int) -> bool:
    """Whether several pieces would read the unsorted files, so that these must be sorted first."""
    total = sum(one.file.size_bytes for one in files) + sum(file.size_bytes for file in unsorted)
    return bool(unsorted) and _is_too_big(total, task_bytes)


def plan_sorting(unsorted: Sequence[OrderedFile], *, task_bytes: int) -> tuple[MergePiece, ...]:
    """Return chunks of unsorted files, each of which becomes one sorted run."""
    return tuple(
        MergePiece(sections=(), unsorted=tuple(chunk), size_bytes=sum(file.size_bytes for file in chunk))
        for chunk in _chunks(unsorted, task_bytes)
    )


def plan_joining(files: Sequence[OrderedFile], *, task_bytes: int) -> tuple[MergePiece, ...]:
    """Return pieces of adjacent files, in their order, for a table without sort columns."""
    return tuple(
        MergePiece(sections=((tuple(chunk),),), size_bytes=sum(file.size_bytes for file in chunk))
        for chunk in _chunks(files, task_bytes)
    )


def split_sections(files: Iterable[KeyedFile]) -> tuple[tuple[tuple[KeyedFile, ...], ...], ...]:
    """Split files into sections whose key ranges do not overlap, each packed into the fewest runs.

    Unlike in a merge tree (strategy/sections.py), where equal keys must be merged, a file may begin with the last key
    of the previous file: the two are read one after another. So a key that fills many files makes one run of them, not
    as many runs as files.
    """
    return cut_sections(files, lambda one: (one.first, one.last), may_touch=True)


def _gather(sections: Sequence[tuple[tuple[KeyedFile, ...], ...]], task_bytes: int) -> Iterator[MergePiece]:
    waiting: list[OrderedSection] = []
    waiting_bytes = 0
    for runs in sections:
        size = sum(one.file.size_bytes for run in runs for one in run)
        is_big = _is_too_big(size, task_bytes)
        if waiting and (is_big or waiting_bytes + size > task_bytes):
            yield MergePiece(sections=tuple(waiting), size_bytes=waiting_bytes)
            waiting, waiting_bytes = [], 0
        if is_big:
            yield from _cut_section(runs, size, task_bytes)
        else:
            waiting.append(_as_section(runs))
            waiting_bytes += size
    if waiting:
        yield MergePiece(sections=tuple(waiting), size_bytes=waiting_bytes)


def _cut_section(runs: tuple[tuple[KeyedFile, ...], ...], size_bytes: int, task_bytes: int) -> Iterator[MergePiece]:
    points = [point for run in runs for one in run for point in one.points]
    cuts = _quantiles(points, count=-(-size_bytes // task_bytes))
    if not cuts:
        yield MergePiece(sections=(_as_section(runs),), size_bytes=size_bytes)
        return
    for lower, upper in pairwise([None, *cuts, None]):
        inside = [tuple(one for one in run if _meets(one, lower, upper)) for run in runs]
        yield MergePiece(
            sections=(_as_section([run for run in inside if run]),),
            key_range=KeyRange(
                lower=None if lower is None else pack_value(lower.value),
                upper=None if upper is None else pack_value(upper.value),
            ),
            size_bytes=size_bytes // (len(cuts) + 1),
        )


def _meets(one: KeyedFile, lower: KeyPoint | None, upper: KeyPoint | None) -> bool:
    is_above = lower is None or one.last[0] >= lower.element
    return is_above and (upper is None or one.first[0] < upper.element)


def _quantiles(points: list[KeyPoint], *, count: int) -> list[KeyPoint]:
    """Return up to ``count - 1`` keys that split the bytes about evenly; none if the type cannot be cut."""
    known = sorted((point for point in points if point.value.is_valid), key=lambda point: point.element)
    if count <= 1 or not known or not _is_cuttable(known[0].value.type):
        return []
    share = sum(point.weight_bytes for point in known) / count
    cuts: list[KeyPoint] = []
    total = 0
    for point in known:
        is_new = point.element > (cuts[-1] if cuts else known[0]).element
        if total >= share * (len(cuts) + 1) and is_new:
            cuts.append(point)
        total += point.weight_bytes
    return cuts[: count - 1]


def _is_cuttable(kind: pa.DataType) -> bool:
    """Whether cutting a range of this type is useful; two booleans are not worth it."""
    return not pt.is_boolean(kind)


def _is_too_big(size_bytes: int, task_bytes: int) -> bool:
    return size_bytes * _TOO_BIG_DEN > task_bytes * _TOO_BIG_NUM


def _as_section(runs: Iterable[Iterable[KeyedFile]]) -> OrderedSection:
    return tuple(tuple(one.file for one in run) for run in runs)


def _chunks(files: Sequence[OrderedFile], task_bytes: int) -> Iterator[list[OrderedFile]]:
    chunk: list[OrderedFile] = []
    size = 0
    for file in files:
        if chunk and size + file.size_bytes > task_bytes:
            yield chunk
            chunk, size = [], 0
        chunk.append(file)
        size += file.size_bytes
    if chunk:
        yield chunk


def _keys(index: pa.Table, which: str, sort_columns: Sequence[str]) -> BatchKeys:
    names = [f"{which}.{name}" for name in sort_columns]
    batches = index.select(names).combine_chunks().to_batches()
    empty = pa.RecordBatch.from_pylist([], schema=index.select(names).schema)
    return BatchKeys(batches[0] if batches else empty, names)
