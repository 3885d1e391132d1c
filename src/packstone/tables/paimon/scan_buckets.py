"""What a scan reads of each bucket: files as they are, or versions that must be merged.

Within a bucket of a primary-key table, files are cut into sections whose keys do not meet. A section of one run above
level 0 without delete markers has one version of each key: it is read *raw*, file by file, and any part of the filter
may leave a file out. In every other section versions are merged first and rows are tested after; there a file is left
out only by what the filter asks of the key, because all versions of a row share it: a file without `v > 5` may still
hold the newest version of a row whose older one has it.

Tables with deletion vectors, and the engine first-row, show no rows of level 0 and need no merge: what is stale is
marked, or was never written.

Source: Apache Paimon (research notes 6.6, 6.9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from packstone.errors import RefusedError
from packstone.rewrite.merge.merge_spec import (
    FileFormat,
    InputFile,
    MergeEngine,
    MergeSpec,
    OutputSpec,
    Section,
    pack_schema,
)
from packstone.scan.scan_plan import ScanFile
from packstone.strategy.sections import split_sections
from packstone.tables.paimon.bucket_view import key_order, tree_file
from packstone.tables.paimon.data_file_meta import FileSource
from packstone.tables.paimon.data_type import TypeRoot, time_unit
from packstone.tables.paimon.merge_specs import InputFiles, engine_spec, sequence_columns
from packstone.tables.paimon.refusals import refuse_files
from packstone.tables.paimon.scan_facts import find_key_range, key_part, may_hold_files

if TYPE_CHECKING:
    from packstone.pruning.blocklet_facts import Mask
    from packstone.pruning.expression import Expression
    from packstone.scan.scan_request import ScanRequest
    from packstone.tables.paimon.data_file_meta import DataFileMeta
    from packstone.tables.paimon.manifest_entry import BucketFiles
    from packstone.tables.paimon.store import PaimonStore

_NANOSECONDS: Final = "ns"
_TIMESTAMPS: Final = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


@dataclass(slots=True)
class Found:
    """What is read of some buckets."""

    raw: list[ScanFile] = field(default_factory=list)  # Parquet, by row groups
    whole: list[InputFile] = field(default_factory=list)  # other formats
    sections: list[Section] = field(default_factory=list)  # to be merged

    @property
    def file_count(self) -> int:
        """How many files are read."""
        merged = sum(len(run) for section in self.sections for run in section)
        return len(self.raw) + len(self.whole) + merged


Describe: TypeAlias = "Callable[[DataFileMeta], InputFile]"


class BucketScan:
    """Chooses what to read of the buckets of one table."""

    def __init__(self, store: PaimonStore, request: ScanRequest) -> None:
        self._store, self._request = store, request
        schema = store.schema
        self._inputs = InputFiles(schema=schema, schemas=store.schemas)
        self._order = key_order(schema) if schema.is_primary_key else None
        self._key_part = key_part(request.expression, schema)
        self._needed = {*request.schema.names, *request.filter_schema.names}
        engine = (schema.option("merge-engine") or MergeEngine.DEDUPLICATE).lower()
        has_vectors = _is_on(store, "deletion-vectors.enabled") and not _is_on(store, "deletion-vectors.merge-on-read")
        self._is_settled = self._order is not None and (has_vectors or engine == MergeEngine.FIRST_ROW)

    def take(self, bucket: BucketFiles, deleted: Mapping[str, str], found: Found) -> None:
        """Add what is read of one bucket; ``deleted`` are positions of rows by file."""
        why = refuse_files(bucket.files, reading=True)
        if why is not None:
            raise RefusedError(f"{self._store.bucket_label(bucket)} cannot be read: {why}.", table=self._store.path)
        files = [file for file in bucket.files if not self._is_settled or file.level > 0]
        folder = self._store.bucket_folder(bucket) if files else ""

        def describe(file: DataFileMeta) -> InputFile:
            path, gone = f"{folder}/{file.file_name}", deleted.get(file.file_name, "")
            return self._inputs.describe(file, path, deleted=gone)

        if self._order is None or self._is_settled:
            self._take_raw(files, describe, found)
            return
        by_name = {file.file_name: file for file in files}
        for section in split_sections(tree_file(file, self._order) for file in files):
            runs = [[by_name[file.name] for file in run] for run in section]
            if _has_one_version(runs):
                self._take_raw(runs[0], describe, found)
            else:
                self._take_merged(runs, describe, found)

    def exclude(self, predicate: Expression, bucket: BucketFiles) -> int:
        """How many of a bucket's files this part of the filter alone would leave out if nothing were merged."""
        return len(bucket.files) - int(self._may_hold(predicate, bucket.files).sum())

    def merge_spec(self, sections: Sequence[Section]) -> MergeSpec:
        """What the kernel is told: only the columns that somebody asks for, and those that order versions."""
        schema, options = self._store.schema, self._store.options
        ordering = sequence_columns(schema)
        fixed = {one.name for one in schema.file_fields} - {one.name for one in schema.fields}
        kept = pa.schema([one for one in schema.arrow_file_schema if one.name in {*self._needed, *ordering, *fixed}])
        engine = engine_spec(schema)
        aggregates = tuple(one for one in engine.aggregates if one.column in kept.names)
        return MergeSpec(
            sections=tuple(sections),
            arrow_schema=pack_schema(kept),
            key_columns=tuple(one.name for one in schema.key_fields),
            sequence_columns=ordering,
            sequence_descending=options.sequence_order.startswith("desc"),
            engine=replace(engine, aggregates=aggregates),
            drop_deletes=True,
            key_range=find_key_range(self._request.expression, schema),
            output=OutputSpec(directory=""),
        )

    def _take_raw(self, files: Sequence[DataFileMeta], describe: Describe, found: Found) -> None:
        for file in self._left(files, self._request.expression):
            described = describe(file)
            is_plain = not (self._has_nanoseconds(file) or self._has_changed_lengths(described))
            if described.file_format is FileFormat.PARQUET and is_plain:
                found.raw.append(self._scan_file(described))
            else:
                found.whole.append(described)

    def _take_merged(self, runs: Sequence[Sequence[DataFileMeta]], describe: Describe, found: Found) -> None:
        kept = [self._left(run, self._key_part, keys_only=True) for run in runs]
        described = (tuple(map(describe, run)) for run in kept)
        section = tuple(run for run in described if run)
        if section:
            found.sections.append(section)

    def _left(
        self, files: Sequence[DataFileMeta], expression: Expression | None, *, keys_only: bool = False
    ) -> list[DataFileMeta]:
        if expression is None or not files:
            return list(files)
        mask = self._may_hold(expression, files, keys_only=keys_only)
        return [file for file, is_kept in zip(files, mask, strict=True) if is_kept]

    def _may_hold(self, expression: Expression, files: Sequence[DataFileMeta], *, keys_only: bool = False) -> Mask:
        store = self._store
        return may_hold_files(expression, files, schema=store.schema, schemas=store.schemas, keys_only=keys_only)

    def _scan_file(self, file: InputFile) -> ScanFile:
        return ScanFile(
            path=file.path,
            size_bytes=file.size_bytes,
            row_counts=(file.rows,),
            read_bytes=file.size_bytes,
            columns=tuple(one for one in file.columns if one.target in self._needed),
            deleted=file.deleted,
        )

    def _has_changed_lengths(self, file: InputFile) -> bool:
        return any(one.min_length or one.max_length is not None for one in file.columns if one.target in self._needed)

    def _has_nanoseconds(self, file: DataFileMeta) -> bool:
        """Java stores them as INT96, which wraps silently if it is not read with care."""
        fields = self._store.schemas[file.schema_id].fields
        return any(one.type.root in _TIMESTAMPS and time_unit(one.type) == _NANOSECONDS for one in fields)


def _has_one_version(runs: Sequence[Sequence[DataFileMeta]]) -> bool:
    """Whether no key is there twice, and no row is a delete marker.

    Where nobody counted these there may be one. pypaimon always records 0, so a file that was written by a load and
    merely got a new level is not believed either; a merge of one run costs little more than a read.
    """
    return len(runs) == 1 and all(
        file.level > 0 and file.delete_row_count == 0 and file.file_source is not FileSource.APPEND for file in runs[0]
    )


def _is_on(store: PaimonStore, name: str) -> bool:
    return (store.schema.option(name) or "").lower() == "true"
