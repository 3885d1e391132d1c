"""From a bucket's plan to the payloads of tasks: specs for the kernels, cut to the size of a task.

A big rewrite is cut into pieces for several tasks, so that one bucket is not one giant task. Sections come first: they
do not overlap, so any cut between two of them is free. A section that is still too big is cut by ranges of its first
key column. Where its Parquet files have many row groups, their smallest keys are the candidates; where they have few,
keys are sampled from the files. A cut need not be a key that exists: every piece takes the rows in ``[lower, upper)``,
so no row is lost or doubled whatever the cut. Cuts only decide how evenly the work is spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from packstone.model.unit import How
from packstone.rewrite.formats.parquet_footer import open_parquet
from packstone.rewrite.merge_tree.spec import (
    AppendSpec,
    DataFormat,
    Expiry,
    KeyRange,
    MergeSpec,
    OutputSpec,
    pack_positions,
    pack_schema,
    pack_value,
)
from packstone.tables.paimon.format.data_file import FileSource
from packstone.tables.paimon.format.data_type import TypeRoot, to_arrow
from packstone.tables.paimon.format.deletion_vectors import index_file_path, read_deletion_vectors
from packstone.tables.paimon.format.schema import KEY_PREFIX
from packstone.tables.paimon.merge_specs import InputFiles, engine_spec, sequence_columns
from packstone.tables.paimon.refusals import file_format_name, rejects_retractions
from packstone.tables.paimon.tasks import PaimonUnit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.rewrite.merge_tree.spec import InputFile
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.format.data_file import DataFileMeta
    from packstone.tables.paimon.format.manifest_list import IndexEntry
    from packstone.tables.paimon.format.schema import TableSchema
    from packstone.tables.paimon.format.store import PaimonStore
    from packstone.tables.paimon.options import PaimonOptions
    from packstone.tables.paimon.plan import BucketPlan, BucketUnit, FileSections

_NO_COMPRESSION = frozenset({"", "none", "null", "uncompressed"})


def needs_no_task(unit: BucketUnit) -> bool:
    """Whether an upgrade can be trusted as recorded: a compaction wrote the file and counted its deletes."""
    file = unit.files[0]
    is_known = file.file_source is FileSource.COMPACT and file.delete_row_count is not None
    return unit.how is How.UPGRADE and is_known


@dataclass(slots=True)
class UnitMaker:
    """Makes the payloads of one run; units are numbered consecutively."""

    store: PaimonStore
    options: PaimonOptions
    now_seconds: int
    _numbers: count[int]

    @classmethod
    def start(cls, store: PaimonStore, options: PaimonOptions, *, now_seconds: int) -> UnitMaker:
        """Begin a run."""
        return cls(store, options, now_seconds, count(1))

    def make(
        self, plan: BucketPlan, planned: BucketUnit, *, index_entries: tuple[IndexEntry, ...] = ()
    ) -> Iterator[PaimonUnit]:
        """Yield the payloads of one planned unit: one, or several if it is big."""
        folder = self.store.bucket_folder(plan.bucket)
        deleted = self._deleted(index_entries, folder) if index_entries else {}
        if not self.store.schema.is_primary_key:
            yield self._append(planned, folder, deleted=deleted)
            return
        splitter = Splitter(
            io=self.store.io,
            schema=self.store.schema,
            path_of=lambda meta: f"{folder}/{meta.file_name}",
            task_bytes=self.options.task_bytes,
        )
        whole = RewritePiece(sections=planned.sections, key_range=None, size_bytes=planned.input_bytes)
        for piece in (whole,) if planned.how is How.UPGRADE else splitter.split(planned):
            yield self._merge(planned, piece, folder, deleted=deleted)

    def _merge(self, planned: BucketUnit, piece: RewritePiece, folder: str, *, deleted: dict[str, str]) -> PaimonUnit:
        schema, options = self.store.schema, self.store.options
        spec = MergeSpec(
            sections=tuple(
                tuple(tuple(self._input(meta, folder, deleted) for meta in run) for run in section)
                for section in piece.sections
            ),
            arrow_schema=pack_schema(schema.arrow_file_schema),
            key_columns=tuple(field.name for field in schema.key_fields),
            sequence_columns=sequence_columns(schema),
            sequence_descending=options.sequence_order.startswith("desc"),
            engine=engine_spec(schema),
            drop_deletes=planned.drop_deletes,
            # An expired row that is dropped from only some of the runs would expose an older version of its key.
            expiry=self._expiry() if planned.to_top else None,
            key_range=piece.key_range,
            output=self._output(folder, planned.output_level),
            memory_bytes=self.options.memory_bytes,
            verify=self.options.verify,
            accept_invalid_text=self.options.accept_invalid_text,
        )
        return self._unit(planned, merge=spec, input_bytes=piece.size_bytes)

    def _append(self, planned: BucketUnit, folder: str, *, deleted: dict[str, str]) -> PaimonUnit:
        spec = AppendSpec(
            inputs=tuple(self._input(meta, folder, deleted) for meta in planned.files),
            arrow_schema=pack_schema(self.store.schema.arrow_file_schema),
            output=self._output(folder, planned.output_level),
            memory_bytes=self.options.memory_bytes,
            verify=self.options.verify,
            accept_invalid_text=self.options.accept_invalid_text,
        )
        return self._unit(planned, append=spec, input_bytes=planned.input_bytes)

    def _unit(
        self,
        planned: BucketUnit,
        *,
        input_bytes: int,
        merge: MergeSpec | None = None,
        append: AppendSpec | None = None,
    ) -> PaimonUnit:
        level = planned.output_level
        return PaimonUnit(
            number=next(self._numbers),
            how=planned.how,
            level=level,
            input_bytes=input_bytes,
            merge=merge,
            append=append,
            first_sequence=min(file.min_sequence_number for file in planned.files),
            upgraded=planned.files[0] if planned.how is How.UPGRADE else None,
            file_format=self.store.options.format_of(level),
            compression=self.store.options.compression_of(level),
            to_top=planned.to_top,
            rejects_retractions=not planned.to_top and rejects_retractions(self.store.schema),
        )

    def _input(self, meta: DataFileMeta, folder: str, deleted: dict[str, str]) -> InputFile:
        files = InputFiles(schema=self.store.schema, schemas=self.store.schemas)
        return files.describe(meta, f"{folder}/{meta.file_name}", deleted=deleted.get(meta.file_name, ""))

    def _output(self, folder: str, level: int) -> OutputSpec:
        options = self.store.options
        codec = options.compression_of(level)
        return OutputSpec(
            directory=folder,
            file_format=DataFormat(options.format_of(level)),
            compression="none" if codec in _NO_COMPRESSION else codec,
            compression_level=options.zstd_level if codec == "zstd" else None,
            target_bytes=options.target_file_bytes,
            **({} if options.file_block_bytes is None else {"block_bytes": options.file_block_bytes}),
            thin=options.thin_mode,
        )

    def _expiry(self) -> Expiry | None:
        options = self.store.options
        if options.record_expire_ms is None or options.record_time_field is None:
            return None
        return Expiry(
            column=options.record_time_field,
            now_seconds=self.now_seconds,
            expire_seconds=options.record_expire_ms // 1000,
        )

    def _deleted(self, entries: tuple[IndexEntry, ...], folder: str) -> dict[str, str]:
        in_bucket = (self.store.schema.option("index-file-in-data-file-dir") or "").lower() == "true"
        found: dict[str, str] = {}
        for entry in entries:
            path = index_file_path(self.store.path, entry, bucket_folder=folder if in_bucket else None)
            vectors = read_deletion_vectors(self.store.io, path, entry.ranges or ())
            found.update({name: pack_positions(positions) for name, positions in vectors.items()})
        return found


# ---- split ----


# Floats compare differently in Java and in Arrow, and a range of two booleans is not worth cutting.
_UNCUTTABLE: Final = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BOOLEAN})
_TOO_BIG_NUM, _TOO_BIG_DEN = 3, 2  # a section is cut when it is larger than 3/2 of a task
_SAMPLES_PER_FILE: Final = 2048
_GROUPS_PER_PIECE: Final = 8  # with at least this many row groups per piece, their keys are good candidates
_BATCH_ROWS: Final = 65_536
_MICROS: Final = 6  # fractional digits of a second; finer times are stored as INT96, which has no statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePiece:
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

    def split(self, unit: BucketUnit) -> tuple[RewritePiece, ...]:
        """Cut one rewrite into pieces of about ``task_bytes``, in the order of keys."""
        pieces: list[RewritePiece] = []
        waiting: list[Any] = []
        waiting_bytes = 0
        for section in unit.sections:
            size = sum(file.file_size for run in section for file in run)
            is_big = size * _TOO_BIG_DEN > self.task_bytes * _TOO_BIG_NUM
            if waiting and (is_big or waiting_bytes + size > self.task_bytes):
                pieces.append(RewritePiece(sections=tuple(waiting), key_range=None, size_bytes=waiting_bytes))
                waiting, waiting_bytes = [], 0
            if is_big:
                pieces.extend(self._split_section((section,), size))
            else:
                waiting.append(section)
                waiting_bytes += size
        if waiting:
            pieces.append(RewritePiece(sections=tuple(waiting), key_range=None, size_bytes=waiting_bytes))
        return tuple(pieces)

    def _split_section(self, sections: FileSections, size_bytes: int) -> Iterator[RewritePiece]:
        files = [file for run in sections[0] for file in run]
        count = -(-size_bytes // self.task_bytes)
        cuts = self._cuts(files, count)
        bounds = [None, *(pack_value(cut) for cut in cuts), None]
        for lower, upper in pairwise(bounds):
            key_range = KeyRange(lower=lower, upper=upper) if cuts else None
            yield RewritePiece(sections=sections, key_range=key_range, size_bytes=size_bytes // (len(cuts) + 1))

    def _cuts(self, files: list[DataFileMeta], count: int) -> list[pa.Scalar]:
        """Find up to ``count - 1`` keys that spread the bytes about evenly; none if they cannot be compared."""
        field = self.schema.trimmed_key_fields[0]
        is_readable = all(file_format_name(file.file_name) == DataFormat.PARQUET for file in files)
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
    """Yield the smallest key and the size of every row group that has statistics."""
    metadata = parquet.metadata
    at = _key_column(parquet, name)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        statistics = group.column(at).statistics
        if statistics is not None and statistics.has_min_max:
            yield statistics.min, group.total_byte_size


def _samples(meta: DataFileMeta, parquet: pq.ParquetFile, name: str) -> Iterator[tuple[Any, int]]:
    """Yield evenly spaced keys of a file, each with its share of the bytes."""
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
