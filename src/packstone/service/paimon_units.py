"""From a bucket's plan to the payloads of tasks: specs for the kernels, cut to the size of a task."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from packstone.model.unit import How
from packstone.rewrite.merge.deleted_positions import pack_positions
from packstone.rewrite.merge.merge_spec import AppendSpec, Expiry, FileFormat, MergeSpec, OutputSpec, pack_schema
from packstone.tables.paimon.data_file_meta import FileSource
from packstone.tables.paimon.deletion_vectors import index_file_path, read_deletion_vectors
from packstone.tables.paimon.merge_specs import InputFiles, engine_spec, sequence_columns
from packstone.tables.paimon.refusals import minds_retracts
from packstone.tables.paimon.split_unit import Piece, Splitter
from packstone.tables.paimon.tasks import PaimonUnit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.model.paimon_options import PaimonOptions
    from packstone.rewrite.merge.merge_spec import InputFile
    from packstone.tables.paimon.data_file_meta import DataFileMeta
    from packstone.tables.paimon.index_manifest import IndexEntry
    from packstone.tables.paimon.plan_bucket import BucketPlan, PlannedUnit
    from packstone.tables.paimon.store import PaimonStore

_NO_COMPRESSION = frozenset({"", "none", "null", "uncompressed"})


def needs_no_task(unit: PlannedUnit) -> bool:
    """Tell whether an upgrade can be trusted as recorded: a compaction wrote the file and counted its deletes."""
    file = unit.files[0]
    is_known = file.file_source is FileSource.COMPACT and file.delete_row_count is not None
    return unit.how is How.UPGRADE and is_known


@dataclass(slots=True)
class UnitMaker:
    """Makes the payloads of one run; units are numbered through."""

    store: PaimonStore
    asked: PaimonOptions
    now_seconds: int
    _numbers: count[int]

    @classmethod
    def start(cls, store: PaimonStore, asked: PaimonOptions, *, now_seconds: int) -> UnitMaker:
        """Begin a run."""
        return cls(store, asked, now_seconds, count(1))

    def make(
        self, plan: BucketPlan, planned: PlannedUnit, *, index_entries: tuple[IndexEntry, ...] = ()
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
            task_bytes=self.asked.task_bytes,
        )
        whole = Piece(sections=planned.sections, key_range=None, size_bytes=planned.input_bytes)
        for piece in (whole,) if planned.how is How.UPGRADE else splitter.split(planned):
            yield self._merge(planned, piece, folder, deleted=deleted)

    def _merge(self, planned: PlannedUnit, piece: Piece, folder: str, *, deleted: dict[str, str]) -> PaimonUnit:
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
            # Dropped from a part of the runs, an expired row would uncover an older version of its key.
            expiry=self._expiry() if planned.to_top else None,
            key_range=piece.key_range,
            output=self._output(folder, planned.output_level),
            memory_bytes=self.asked.memory_bytes,
            verify=self.asked.verify,
            accept_invalid_text=self.asked.accept_invalid_text,
        )
        return self._unit(planned, merge=spec, input_bytes=piece.size_bytes)

    def _append(self, planned: PlannedUnit, folder: str, *, deleted: dict[str, str]) -> PaimonUnit:
        spec = AppendSpec(
            inputs=tuple(self._input(meta, folder, deleted) for meta in planned.files),
            arrow_schema=pack_schema(self.store.schema.arrow_file_schema),
            output=self._output(folder, planned.output_level),
            memory_bytes=self.asked.memory_bytes,
            verify=self.asked.verify,
            accept_invalid_text=self.asked.accept_invalid_text,
        )
        return self._unit(planned, append=spec, input_bytes=planned.input_bytes)

    def _unit(
        self,
        planned: PlannedUnit,
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
            minds_retracts=not planned.to_top and minds_retracts(self.store.schema),
        )

    def _input(self, meta: DataFileMeta, folder: str, deleted: dict[str, str]) -> InputFile:
        files = InputFiles(schema=self.store.schema, schemas=self.store.schemas)
        return files.describe(meta, f"{folder}/{meta.file_name}", deleted=deleted.get(meta.file_name, ""))

    def _output(self, folder: str, level: int) -> OutputSpec:
        options = self.store.options
        codec = options.compression_of(level)
        return OutputSpec(
            directory=folder,
            file_format=FileFormat(options.format_of(level)),
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
