"""Which partitions, buckets and files of a snapshot a filter needs, distributed over splits.

Partitions are selected by their values, files by their statistics. The filter does not select buckets: that would need
Paimon's hash of the bucket key. Records expire in a compaction, not in a scan.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from packstone.errors import InvalidInputError, RefusedError
from packstone.model.times import format_moment
from packstone.query.filter.expression import FALSE, And, Compare, Expression, Op, all_of, columns_of
from packstone.query.filter.may_match import may_match
from packstone.query.scan.plan import (
    MAX_SPLIT_BYTES,
    OPEN_COST_BYTES,
    PredicateEffect,
    PruneLevel,
    PruneReport,
    ScanFile,
    ScanPlan,
    Split,
    split_files,
)
from packstone.query.scan.request import DEFAULT_OPTIONS, ScanOptions, ScanRequest, fallen_behind, read_request
from packstone.rewrite.data_files.parquet_output import has_order
from packstone.rewrite.merge_tree.spec import (
    DataFormat,
    InputFile,
    KeyRange,
    MergeEngine,
    MergeSpec,
    OutputSpec,
    Section,
    pack_positions,
    pack_schema,
    pack_value,
)
from packstone.rewrite.sorted_merge.block_facts import is_bytes
from packstone.strategy.sections import split_sections
from packstone.tables.paimon.family import PAIMON
from packstone.tables.paimon.format.binary_row import decode_row, row_arity
from packstone.tables.paimon.format.data_file import FileSource
from packstone.tables.paimon.format.data_type import TypeRoot, time_unit, to_arrow, to_arrow_field
from packstone.tables.paimon.format.deletion_vectors import (
    index_file_path,
    read_deletion_entries,
    read_deletion_vectors,
)
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.paths import partition_values
from packstone.tables.paimon.format.snapshot import CommitKind, list_snapshot_ids, read_latest_snapshot, read_snapshot
from packstone.tables.paimon.format.store import open_store
from packstone.tables.paimon.merge_specs import InputFiles, engine_spec, is_same_type, sequence_columns
from packstone.tables.paimon.plan import key_order, tree_file
from packstone.tables.paimon.refusals import refuse_files, refuse_read

if TYPE_CHECKING:
    from packstone.query.filter.may_match import Mask
    from packstone.query.scan.caches import ScanCaches
    from packstone.query.scan.request import Selection
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.format.data_file import BucketFiles, DataFileMeta, SimpleStats
    from packstone.tables.paimon.format.data_type import DataField, DataType
    from packstone.tables.paimon.format.manifest_list import IndexEntry
    from packstone.tables.paimon.format.schema import TableSchema
    from packstone.tables.paimon.format.snapshot import Snapshot
    from packstone.tables.paimon.format.store import PaimonStore


_NOTHING_NEW: Final = frozenset({CommitKind.COMPACT, CommitKind.ANALYZE})


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonSource:
    """A Paimon table at one snapshot."""

    io: FileIO
    store: PaimonStore
    snapshot: Snapshot | None

    @property
    def path(self) -> str:
        """The table's folder."""
        return self.store.path

    @property
    def family(self) -> str:
        """The name of the family."""
        return PAIMON.name

    @property
    def version(self) -> int:
        """The number of the snapshot."""
        return 0 if self.snapshot is None else self.snapshot.id

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return pa.schema([to_arrow_field(field) for field in self.store.schema.fields])

    @classmethod
    def open(cls, io: FileIO, path: str, *, version: int | None, as_of_ms: int | None) -> Self:
        """Open a table at the newest snapshot, at one by number, or at the newest one at a moment."""
        store = open_store(io, path)
        snapshot = _snapshot(io, store.path, version=version, as_of_ms=as_of_ms)
        is_past = version is not None or as_of_ms is not None
        if is_past and snapshot is not None:
            store = replace(store, schema=store.schemas[snapshot.schema_id])
        return cls(io=io, store=store, snapshot=snapshot)

    @classmethod
    def find_added(cls, io: FileIO, path: str, versions: range) -> tuple[Self, ...]:
        """Return the appends of all snapshots but the first of a range."""
        store = open_store(io, path)
        cls(io=io, store=store, snapshot=None).check_streamable()
        found = []
        for number in versions[1:]:
            try:
                snapshot = read_snapshot(io, path, number)
            except FileNotFoundError:
                raise fallen_behind(path, number) from None
            if snapshot.commit_kind == CommitKind.APPEND:
                # Only what it added: no base, and no deletion vectors of rows that it did not add.
                delta = replace(snapshot, base_manifest_list="", index_manifest=None)
                found.append(cls(io=io, store=store, snapshot=delta))
            elif snapshot.commit_kind not in _NOTHING_NEW:
                raise RefusedError(
                    f"{path}: snapshot {number} ({snapshot.commit_kind}) has replaced rows, and a stream gives new "
                    f"rows only; begin a new stream, with starting-version {number} to leave out what was there then.",
                    table=path,
                )
        return tuple(found)

    def check_streamable(self) -> None:
        """Refuse a table with a primary key."""
        if self.store.schema.primary_keys:
            raise RefusedError(
                f"{self.path} has a primary key: its changes are updates and deletes, and a stream gives new rows "
                "only; read it whole, or stream it with Paimon's own connector.",
                table=self.path,
            )

    def plan(self, selection: Selection, *, caches: ScanCaches | None = None) -> ScanPlan:
        """Plan a scan."""
        return plan_paimon_scan(
            self.io,
            self.store,
            self.snapshot,
            columns=selection.columns,
            where=selection.where,
            caches=caches,
            options=selection.options,
        )


def _snapshot(io: FileIO, table: str, *, version: int | None, as_of_ms: int | None) -> Snapshot | None:
    if as_of_ms is not None:
        return _snapshot_as_of(io, table, as_of_ms)
    if version is None:
        return read_latest_snapshot(io, table)
    try:
        return read_snapshot(io, table, version)
    except FileNotFoundError:
        raise InvalidInputError(f"{table} has no snapshot {version}; {_kept(io, table)}.") from None


def _snapshot_as_of(io: FileIO, table: str, moment_ms: int) -> Snapshot:
    """Return the newest snapshot at a moment; the times of snapshots rise with their numbers."""
    ids = list_snapshot_ids(io, table)
    low, high = 0, len(ids)  # the first `low` ones are old enough, from `high` on they are too young
    found = None
    while low < high:
        middle = (low + high) // 2
        try:
            snapshot = read_snapshot(io, table, ids[middle])
        except FileNotFoundError:  # it has expired since, as have all before it
            low = middle + 1
            continue
        if snapshot.time_millis <= moment_ms:
            found, low = snapshot, middle + 1
        else:
            high = middle
    if found is None:
        when = format_moment(moment_ms)
        raise InvalidInputError(f"{table} has no snapshot of {when} (UTC); {_kept(io, table)}.")
    return found


def _kept(io: FileIO, table: str) -> str:
    ids = list_snapshot_ids(io, table)
    return f"it keeps {ids[0]} to {ids[-1]}" if ids else "it has none yet"


def plan_paimon_scan(
    io: FileIO,
    store: PaimonStore,
    snapshot: Snapshot | None,
    *,
    columns: Sequence[str] | None = None,
    where: str | Expression | None = None,
    caches: ScanCaches | None = None,  # noqa: ARG001 - as for the other families; manifests are not cached yet
    options: ScanOptions = DEFAULT_OPTIONS,
) -> ScanPlan:
    """Plan a scan of one snapshot (None: the table has none yet) in the columns of the store's schema."""
    why = refuse_read(store.schema)
    if why is not None:
        raise RefusedError(f"{store.location} cannot be read by this version: {why}.", table=store.path)
    schema = pa.schema([pa.field(one.name, to_arrow(one.type), one.type.nullable) for one in store.schema.fields])
    request = read_request(schema, columns=columns, where=where, zone=options.zone)
    planner = _Planner(io, store, request)
    if snapshot is not None and request.expression != FALSE:
        planner.read(snapshot, explain=options.explain)
    splits = tuple(planner.splits(parallelism=options.parallelism))
    return ScanPlan(
        schema=request.schema,
        splits=splits,
        report=planner.report(splits),
        unpushed=request.unpushed,
        needs_merge=any(split.needs_merge for split in splits),
    )


@dataclass(slots=True)
class _Totals:
    partitions: set[bytes] = dataclasses.field(default_factory=set)
    buckets: int = 0
    kept_buckets: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    excluded: list[int] = dataclasses.field(default_factory=list)  # files, by each part of the filter


class _Planner:
    """Collects the files that one scan reads."""

    def __init__(self, io: FileIO, store: PaimonStore, request: ScanRequest) -> None:
        self._io, self._store, self._request = io, store, request
        self._scan = BucketScan(store, request)
        self._wanted: dict[bytes, bool] = {}
        self._found = Found()
        self._totals = _Totals(excluded=[0] * len(request.parts))

    def read(self, snapshot: Snapshot, *, explain: bool) -> None:
        """Read all buckets; with ``explain``, count those of excluded partitions too."""
        vectors: dict[tuple[bytes, int], list[IndexEntry]] = {}
        for entry in read_deletion_entries(self._io, self._store.path, snapshot):
            vectors.setdefault((entry.partition, entry.bucket), []).append(entry)
        buckets = read_live_files(
            self._io,
            self._store.path,
            snapshot,
            wanted=None if explain else lambda partition, _: self._is_wanted(partition),
            lean=self._request.expression is None,
        )
        for bucket in buckets:
            self._count(bucket, explain=explain)
            if self._is_wanted(bucket.partition):
                before = self._found.file_count
                entries = vectors.get((bucket.partition, bucket.bucket), ())
                self._scan.take(bucket, self._deleted(bucket, entries), self._found)
                self._totals.kept_buckets += self._found.file_count > before

    def splits(self, *, parallelism: int | None) -> Iterator[Split]:
        """Yield the splits of what was found."""
        empty = self._request.empty_split(is_tested=True)
        for files in split_files(self._found.raw, group_bytes=[()] * len(self._found.raw), parallelism=parallelism):
            size = sum(file.read_bytes for file in files)
            yield replace(empty, files=files, read_bytes=size, rows=sum(file.rows for file in files))
        for file in self._found.whole:
            yield replace(empty, inputs=(file,), read_bytes=file.size_bytes, rows=file.rows)
        for sections in _distribute(self._found.sections, parallelism):
            spec = self._scan.merge_spec(sections)
            rows = sum(file.rows for file in spec.files)
            yield replace(empty, merge=spec, read_bytes=sum(map(_size_of, sections)), rows=rows)

    def report(self, splits: Sequence[Split]) -> PruneReport:
        """The report of what was excluded."""
        totals = self._totals
        kept = sum(self._wanted.get(partition, False) for partition in totals.partitions)
        effects = zip(self._request.parts, totals.excluded, strict=True)
        return PruneReport(
            filter=self._request.text,
            columns=tuple(self._request.schema.names),
            levels=(
                PruneLevel(name="partitions", total=len(totals.partitions), kept=kept),
                PruneLevel(name="buckets", total=totals.buckets, kept=totals.kept_buckets),
                PruneLevel(name="files", total=totals.files, kept=self._found.file_count),
            ),
            predicates=tuple(
                PredicateEffect(predicate=str(part), level="files", excluded=count) for part, count in effects
            ),
            total_rows=totals.rows,
            kept_rows=sum(split.rows for split in splits),
            total_bytes=totals.bytes,
            read_bytes=sum(split.read_bytes for split in splits),
            splits=len(splits),
            merged_splits=sum(split.needs_merge for split in splits),
        )

    def _is_wanted(self, partition: bytes) -> bool:
        """Whether a partition may hold matching rows; computed once for each."""
        if partition not in self._wanted:
            expression = self._request.expression
            is_wanted = expression is None or may_hold_partition(expression, self._store.schema, partition)
            self._wanted[partition] = is_wanted
        return self._wanted[partition]

    def _count(self, bucket: BucketFiles, *, explain: bool) -> None:
        totals = self._totals
        totals.partitions.add(bucket.partition)
        totals.buckets += 1
        totals.files += len(bucket.files)
        totals.rows += sum(file.row_count for file in bucket.files)
        totals.bytes += sum(file.file_size for file in bucket.files)
        for at, part in enumerate(self._request.parts if explain else ()):
            if may_hold_partition(part, self._store.schema, bucket.partition):
                totals.excluded[at] += self._scan.exclude(part, bucket)
            else:
                totals.excluded[at] += len(bucket.files)

    def _deleted(self, bucket: BucketFiles, entries: Sequence[IndexEntry]) -> dict[str, str]:
        """Positions of deleted rows, by file."""
        if not entries:
            return {}
        in_bucket = (self._store.schema.option("index-file-in-data-file-dir") or "").lower() == "true"
        folder = self._store.bucket_folder(bucket) if in_bucket else None
        found: dict[str, str] = {}
        for entry in entries:
            path = index_file_path(self._store.path, entry, bucket_folder=folder)
            vectors = read_deletion_vectors(self._io, path, entry.ranges or ())
            found.update({name: pack_positions(positions) for name, positions in vectors.items()})
        return found


def _distribute(sections: Sequence[Section], parallelism: int | None) -> Iterator[list[Section]]:
    """Distribute sections over splits by bytes, by the rule of `split_files`; a section is never cut."""
    total = sum(_size_of(section) + OPEN_COST_BYTES for section in sections)
    target = min(MAX_SPLIT_BYTES, max(OPEN_COST_BYTES, total // (parallelism or os.cpu_count() or 1)))
    current: list[Section] = []
    filled = 0
    for section in sorted(sections, key=_size_of, reverse=True):
        if current and filled + _size_of(section) > target:
            yield current
            current, filled = [], 0
        current.append(section)
        filled += _size_of(section) + OPEN_COST_BYTES
    if current:
        yield current


def _size_of(section: Section) -> int:
    return sum(file.size_bytes for run in section for file in run)


# ---- files of a bucket ----
# What a scan reads of each bucket: files as they are, or versions that must be merged.
#
# Within a bucket of a primary-key table, files are cut into sections whose key ranges do not overlap. A section of
# one run above level 0 without delete markers has one version of each key: it is read *raw*, file by file, and any
# part of the filter may exclude a file. In every other section versions are merged first and rows are filtered
# afterwards; there only conditions on the key may exclude a file, because all versions of a row share the key: a file
# without `v > 5` may still hold the newest version of a row whose older version matches.
#
# Tables with deletion vectors, and the engine first-row, show no rows of level 0 and need no merge: stale rows are
# marked as deleted, or were never written.
#
# Files are excluded, before they are opened, by the statistics of their manifest entries, as the index that
# `query/filter/may_match.py` tests. The statistics are those of the schema that wrote the file: columns are found by
# field id. A missing fact (no statistics of a column, a type that changed by more than a widening, NaN as a bound)
# counts as unknown and excludes nothing. Any file may hold NaN, whatever its bounds say.
#
# Source: Apache Paimon (research notes 6.6, 6.9).


_NANOSECONDS: Final = "ns"
_TIMESTAMPS: Final = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


@dataclass(slots=True)
class Found:
    """The files and sections that a scan reads of some buckets."""

    raw: list[ScanFile] = dataclasses.field(default_factory=list)  # Parquet, by row groups
    whole: list[InputFile] = dataclasses.field(default_factory=list)  # other formats
    sections: list[Section] = dataclasses.field(default_factory=list)  # to be merged

    @property
    def file_count(self) -> int:
        """Number of files read."""
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
        """Add what a scan reads of one bucket; ``deleted`` are the positions of deleted rows by file."""
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
        """Number of a bucket's files that this part of the filter alone would exclude if nothing were merged."""
        return len(bucket.files) - int(self._may_hold(predicate, bucket.files).sum())

    def merge_spec(self, sections: Sequence[Section]) -> MergeSpec:
        """The spec for the kernel: only the requested columns, and those that order versions."""
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
            if described.file_format is DataFormat.PARQUET and is_plain:
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
        """Whether a file has nanosecond timestamps: Java stores them as INT96, which may overflow when read."""
        fields = self._store.schemas[file.schema_id].fields
        return any(one.type.root in _TIMESTAMPS and time_unit(one.type) == _NANOSECONDS for one in fields)


def _has_one_version(runs: Sequence[Sequence[DataFileMeta]]) -> bool:
    """Whether no key occurs twice, and no row is a delete marker.

    Where delete markers were not counted there may be one. pypaimon always records 0, so a file that was written by a
    load and only got a new level is not trusted either; a merge of one run costs little more than a read.
    """
    return len(runs) == 1 and all(
        file.level > 0 and file.delete_row_count == 0 and file.file_source is not FileSource.APPEND for file in runs[0]
    )


def _is_on(store: PaimonStore, name: str) -> bool:
    return (store.schema.option(name) or "").lower() == "true"


# ---- statistics ----


@dataclass(frozen=True, slots=True)
class _Facts:
    """Statistics of one column of one file; None: unknown."""

    low: Any = None
    high: Any = None
    nulls: int | None = None
    type: DataType | None = None  # when the file was written


_UNKNOWN = _Facts()


def may_hold_partition(expression: Expression, schema: TableSchema, partition: bytes) -> bool:
    """Whether a row of this partition can match, by the values that all its rows have."""
    columns: dict[str, pa.Array] = {"rows": pa.array([1], pa.int64())}
    for field, value in zip(schema.partition_fields, partition_values(schema, partition), strict=True):
        known = _Facts(low=value, high=value, nulls=0 if value is not None else 1)
        columns |= _columns(field, [known])
    return bool(may_match(expression, pa.table(columns))[0])


def may_hold_files(
    expression: Expression,
    files: Sequence[DataFileMeta],
    *,
    schema: TableSchema,
    schemas: Mapping[int, TableSchema],
    keys_only: bool = False,
) -> Mask:
    """Which files can hold a matching row; ``keys_only`` uses only statistics of the key, which all versions share."""
    wanted = set(columns_of(expression))
    fields = [field for field in schema.fields if field.name in wanted]
    if keys_only:
        fields = [field for field in fields if field.name in schema.trimmed_primary_keys]
    found = [_file_facts(file, schemas[file.schema_id], keys_only=keys_only) for file in files]
    columns: dict[str, pa.Array] = {"rows": pa.array([file.row_count for file in files], pa.int64())}
    for field in fields:
        facts = (one.get(field.id, _UNKNOWN) for one in found)
        columns |= _columns(field, [one if _is_same(one, field) else _UNKNOWN for one in facts])
    return may_match(expression, pa.table(columns))


def key_part(expression: Expression | None, schema: TableSchema) -> Expression | None:
    """The parts of a filter (joined by AND) that use the key only: they hold for all versions of a row or for none."""
    if expression is None:
        return None
    names = {*schema.primary_keys, *schema.partition_keys}
    parts = [part for part in _parts(expression) if (used := columns_of(part)) and names.issuperset(used)]
    return all_of(parts) if parts else None


def find_key_range(expression: Expression | None, schema: TableSchema) -> KeyRange | None:
    """The range of the first key column that the filter allows; a merge reads only that and filters rows afterwards.

    A range that is too wide does no harm; the upper bound is exclusive, so it must lie above the value.
    """
    name = schema.trimmed_primary_keys[0]
    kind = to_arrow_field(schema.field(name)).type
    lower = upper = None
    for part in _parts(expression) if expression is not None else ():
        if not isinstance(part, Compare) or part.column != name or part.op is Op.NE:
            continue
        if part.op in (Op.EQ, Op.GE, Op.GT):
            lower = part.literal
        if part.op in (Op.EQ, Op.LE, Op.LT):
            upper = _above(part.literal, kind)
    if (lower is None and upper is None) or pt.is_floating(kind):  # Paimon orders NaN and the two zeros differently
        return None
    return KeyRange(
        lower=None if lower is None else pack_value(lower), upper=None if upper is None else pack_value(upper)
    )


def _parts(expression: Expression) -> tuple[Expression, ...]:
    return expression.parts if isinstance(expression, And) else (expression,)


def _above(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    """The next larger value; None if the type has none or it is not known."""
    plain = value.as_py()
    if pt.is_signed_integer(kind):
        return pa.scalar(plain + 1, kind) if plain + 1 < 1 << (kind.bit_width - 1) else None
    if pt.is_string(kind):
        return pa.scalar(plain + "\x00", kind)
    return None


def _file_facts(file: DataFileMeta, written: TableSchema, *, keys_only: bool) -> dict[int, _Facts]:
    """The statistics of a file's columns, by field id."""
    if keys_only:
        return dict(_read_stats(file.key_stats, written.trimmed_key_fields))
    names = file.value_stats_cols
    fields = written.value_fields if names is None else tuple(written.field(name) for name in names)
    return dict(_read_stats(file.value_stats, fields))


def _read_stats(stats: SimpleStats, fields: Sequence[DataField]) -> Iterable[tuple[int, _Facts]]:
    types = tuple(field.type for field in fields)
    if any(row_arity(row) != len(types) for row in (stats.min_values, stats.max_values)):
        return
    lows, highs = decode_row(stats.min_values, types), decode_row(stats.max_values, types)
    counts = stats.null_counts if stats.null_counts and len(stats.null_counts) == len(types) else (None,) * len(types)
    for field, low, high, nulls in zip(fields, lows, highs, counts, strict=True):
        # Java orders NaN last, so a NaN bound says nothing of other values.
        known = (None, None) if _is_nan(low) or _is_nan(high) else (low, high)
        yield field.id, _Facts(low=known[0], high=known[1], nulls=nulls, type=field.type)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_same(facts: _Facts, field: DataField) -> bool:
    """Whether the values mean now what they meant when the file was written.

    A time in another unit would not, nor a text that readers cut to a shorter length.
    """
    if facts.type is None or is_same_type(facts.type, field.type):
        return True
    return bool(pt.is_signed_integer(to_arrow(facts.type)) and pt.is_signed_integer(to_arrow(field.type)))


def _columns(field: DataField, facts: Sequence[_Facts]) -> dict[str, pa.Array]:
    """The columns of the index that describe one column of the table."""
    kind = to_arrow_field(field).type
    name = field.name
    columns = {f"nulls.{name}": pa.array([one.nulls for one in facts], pa.int64())}
    if not has_order(kind) or pt.is_time(kind):
        return columns
    for end, values in (("min", [one.low for one in facts]), ("max", [one.high for one in facts])):
        bounds = _bounds(values, kind)
        if bounds is None:
            return {f"nulls.{name}": columns[f"nulls.{name}"]}
        columns[f"{end}.{name}"] = bounds
    return columns


def _bounds(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """The bounds as Arrow; None if some value does not fit, because the column had another type in that file."""
    if is_bytes(kind):
        return pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.binary())
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
