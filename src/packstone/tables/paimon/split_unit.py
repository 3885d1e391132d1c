"""Cut a big rewrite into pieces for several tasks, so that one bucket is not one giant task.

Sections come first: they do not overlap, so any cut between two of them is free. A section that is still too big is
cut by ranges of its first key column. Where the row groups of its Parquet files are many, their smallest keys are
the candidates; where they are few, keys are sampled from the biggest files. A cut need not be a key that exists:
every piece takes the rows in ``[lower, upper)``, so nothing is lost or doubled whatever the cut. Cuts only decide how
evenly the work is spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from packstone.rewrite.merge.merge_spec import FileFormat, KeyRange, pack_value
from packstone.rewrite.parquet.footer import open_parquet
from packstone.tables.paimon.data_type import TypeRoot, to_arrow
from packstone.tables.paimon.refusals import file_format_name
from packstone.tables.paimon.table_schema import KEY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.data_file_meta import DataFileMeta
    from packstone.tables.paimon.plan_bucket import FileSections, PlannedUnit
    from packstone.tables.paimon.table_schema import TableSchema

# Floats compare otherwise in Java than in Arrow, and two booleans are no range worth cutting.
_UNCUTTABLE: Final = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BOOLEAN})
_TOO_BIG_NUM, _TOO_BIG_DEN = 3, 2  # a section is cut when it is half as big again as a task
_SAMPLES_PER_FILE: Final = 2048
_GROUPS_PER_PIECE: Final = 8  # so many row groups for each piece make good candidates
_BATCH_ROWS: Final = 65_536
_MICROS: Final = 6  # digits of a second; finer ones stand as INT96, which has no statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a rewrite that one task can do alone."""

    sections: FileSections
    key_range: KeyRange | None
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Splitter:
    """Cuts the rewrites of one table."""

    io: FileIO
    schema: TableSchema
    path_of: Callable[[DataFileMeta], str]
    task_bytes: int

    def split(self, unit: PlannedUnit) -> tuple[Piece, ...]:
        """Cut one rewrite into pieces of about ``task_bytes``, in the order of keys."""
        pieces: list[Piece] = []
        waiting: list[Any] = []
        waiting_bytes = 0
        for section in unit.sections:
            size = sum(file.file_size for run in section for file in run)
            is_big = size * _TOO_BIG_DEN > self.task_bytes * _TOO_BIG_NUM
            if waiting and (is_big or waiting_bytes + size > self.task_bytes):
                pieces.append(Piece(sections=tuple(waiting), key_range=None, size_bytes=waiting_bytes))
                waiting, waiting_bytes = [], 0
            if is_big:
                pieces.extend(self._split_section((section,), size))
            else:
                waiting.append(section)
                waiting_bytes += size
        if waiting:
            pieces.append(Piece(sections=tuple(waiting), key_range=None, size_bytes=waiting_bytes))
        return tuple(pieces)

    def _split_section(self, sections: FileSections, size_bytes: int) -> Iterator[Piece]:
        files = [file for run in sections[0] for file in run]
        count = -(-size_bytes // self.task_bytes)
        cuts = self._cuts(files, count)
        bounds = [None, *(pack_value(cut) for cut in cuts), None]
        for lower, upper in pairwise(bounds):
            key_range = KeyRange(lower=lower, upper=upper) if cuts else None
            yield Piece(sections=sections, key_range=key_range, size_bytes=size_bytes // (len(cuts) + 1))

    def _cuts(self, files: list[DataFileMeta], count: int) -> list[pa.Scalar]:
        """Find up to ``count - 1`` keys that spread the bytes about evenly; none if they cannot be compared."""
        field = self.schema.trimmed_key_fields[0]
        is_readable = all(file_format_name(file.file_name) == FileFormat.PARQUET for file in files)
        is_nanos = (field.type.precision or 0) > _MICROS and field.type.root is not TypeRoot.DECIMAL
        if count <= 1 or field.type.root in _UNCUTTABLE or is_nanos or not is_readable:
            return []
        opened = [(file, open_parquet(self.io, self.path_of(file))) for file in files]
        try:
            weighted = [point for file in opened for point in _group_starts(file[1], field.name)]
            if len(weighted) < count * _GROUPS_PER_PIECE:
                weighted = [point for file in opened for point in _samples(*file, field.name)]
        finally:
            for _, parquet in opened:
                parquet.close(force=True)
        return _quantiles(weighted, to_arrow(field.type), count)


def _group_starts(parquet: pq.ParquetFile, name: str) -> Iterator[tuple[Any, int]]:
    """Yield the smallest key and the size of every row group that tells."""
    metadata = parquet.metadata
    at = _key_column(parquet, name)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        statistics = group.column(at).statistics
        if statistics is not None and statistics.has_min_max:
            yield statistics.min, group.total_byte_size


def _samples(meta: DataFileMeta, parquet: pq.ParquetFile, name: str) -> Iterator[tuple[Any, int]]:
    """Yield evenly spaced keys of a file, each standing for its share of the bytes."""
    rows = max(1, parquet.metadata.num_rows)
    step = max(1, rows // _SAMPLES_PER_FILE)
    column = parquet.schema.column(_key_column(parquet, name)).path
    share = meta.file_size * step // rows
    skip = 0
    for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=[column], use_threads=False):
        yield from ((value, share) for value in batch.column(0)[skip::step].to_pylist())
        skip = (skip - len(batch)) % step


def _key_column(parquet: pq.ParquetFile, name: str) -> int:
    """Find the key column; a file in thin mode has only the value column."""
    paths = [parquet.schema.column(at).path for at in range(len(parquet.schema))]
    return paths.index(KEY_PREFIX + name if KEY_PREFIX + name in paths else name)


def _quantiles(weighted: list[tuple[Any, int]], arrow_type: pa.DataType, count: int) -> list[pa.Scalar]:
    known = sorted((point for point in weighted if point[0] is not None), key=lambda point: point[0])
    if not known:
        return []
    share = sum(weight for _, weight in known) / count
    cuts: list[Any] = []
    total = 0
    for value, weight in known:
        if total >= share * (len(cuts) + 1) and (not cuts or cuts[-1] < value) and value > known[0][0]:
            cuts.append(value)
        total += weight
    return [pa.scalar(cut, type=arrow_type) for cut in cuts[: count - 1]]
