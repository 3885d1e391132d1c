"""What a table still has of what was written: which units of a run can be verified again, and which files are damaged.

===================================  ==========================================================================
inputs and outputs on disk           the proof of the compaction is repeated
inputs have expired                  outputs are read, and their fingerprint is compared with the record
an output is gone, and live          a problem: no commit removed it from the table
an output is gone, and not live      nothing to prove: a later commit replaced it, and expiry removed its file
===================================  ==========================================================================

A file that was only moved to another level was not rewritten: there is nothing to prove.

What a run published is read from the table itself: the commit user of its snapshots contains the run's id. A run
records each wave before it publishes it, so a record alone proves nothing: the run may have been killed between the
two. The delta of a snapshot proves it, as long as the snapshot exists. Later only the outputs do: their names are
unique, and only the run can have added them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyarrow import orc

from packstone.errors import CorruptionError, InvalidInputError
from packstone.model.files import FileFormat
from packstone.model.maintenance import CheckedPart, Damage, ProvedUnit, TableCheck, ToProve, damage_in
from packstone.model.sizes import plural
from packstone.model.unit import How, UnitResult, UnitStatus
from packstone.rewrite.blame_file import blame_file
from packstone.rewrite.formats.parquet_footer import open_parquet
from packstone.rewrite.small_files.merge_unit import read_through
from packstone.runs.tasks import Attempt, Job
from packstone.storage.fileio import list_file_sizes
from packstone.tables.paimon.format.data_file import BucketFiles, FileKind
from packstone.tables.paimon.format.deletion_vectors import (
    index_file_path,
    read_deletion_entries,
    read_deletion_vectors,
)
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.manifest import read_manifest
from packstone.tables.paimon.format.manifest_list import read_all_manifests, read_manifest_list
from packstone.tables.paimon.format.paths import data_file_path, extra_file_paths, manifest_folder
from packstone.tables.paimon.format.schema import SEQUENCE_NUMBER, VALUE_KIND
from packstone.tables.paimon.format.snapshot import (
    list_snapshot_ids,
    read_latest_snapshot,
    read_snapshot,
    snapshot_path,
)
from packstone.tables.paimon.tasks import PAIMON_JOB

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from packstone.model.maintenance import CheckRequest
    from packstone.runs.folder import PartRecord, RunFolders, WaveRecord
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.format.data_file import DataFileMeta, ManifestEntry
    from packstone.tables.paimon.format.snapshot import Snapshot
    from packstone.tables.paimon.format.store import PaimonStore
    from packstone.tables.paimon.tasks import PaimonUnit

    PaimonPart = PartRecord[PaimonUnit, DataFileMeta]
    PaimonWave = WaveRecord[Any, PaimonUnit, DataFileMeta]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rewrite:
    """A unit that a run published."""

    part: str
    unit: PaimonUnit
    result: UnitResult[DataFileMeta]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the output files."""
        return tuple(file.file_name for file in self.result.outputs)

    @property
    def label(self) -> str:
        """The bucket and the names of its outputs."""
        first = self.outputs[0] if self.outputs else "no rows"
        more = f" and {plural(len(self.outputs) - 1, 'more file')}" if self.outputs[1:] else ""
        return f"{self.part}/{first}{more}"


def find_provable(folders: RunFolders, table: str, run: str) -> Iterator[ToProve[PaimonUnit, DataFileMeta]]:
    """Yield the rewritten units of a run, with the files readable now; InvalidInputError if there is no such run."""
    io, info = folders.io, folders.read_known(run, table=table)
    if info.restores is not None:
        raise InvalidInputError(f"Run {run} undid run {info.restores}; it merged nothing that could be proved.")
    parts = tuple(_published(folders, table, run))
    rewrites = tuple(one for part in parts for one in _rewrites(part))
    if parts and not rewrites:
        raise InvalidInputError(f"Run {run} only moved files to other levels; it merged nothing that could be proved.")
    gone = {one.unit.number: _gone(io, one) for one in rewrites}
    missing = frozenset(name for names in gone.values() for name in names)
    latest = read_latest_snapshot(io, table) if missing else None
    live = find_live(io, table, latest, names=missing) if latest is not None else frozenset()
    for one in rewrites:
        lost = [name for name in gone[one.unit.number] if name in live]
        if lost:
            why = f"{one.part}/{lost[0]}: the file is gone, and no snapshot removed it from the table"
            yield ToProve(label=one.label, proved=None, problem=why)
        elif not gone[one.unit.number]:
            has_inputs = all(io.stat(path) is not None for path, _ in one.unit.input_files)
            if one.outputs or has_inputs:
                yield _to_prove(one, has_inputs=has_inputs)


def _published(folders: RunFolders, table: str, run: str) -> Iterator[PaimonPart]:
    commits = read_commits(folders.io, table, run)
    find = partial(find_committed, folders.io, table, commits=commits)
    return folders.read_committed(run, PAIMON_JOB, find)


def _rewrites(part: PaimonPart) -> Iterator[_Rewrite]:
    for unit, result in part.proofs:
        if result.status is UnitStatus.WRITTEN and result.how is not How.UPGRADE:
            yield _Rewrite(part=part.part, unit=unit, result=result)


def _gone(io: FileIO, one: _Rewrite) -> Sequence[str]:
    return [name for name in one.outputs if io.stat(f"{one.unit.directory}/{name}") is None]


def _to_prove(one: _Rewrite, *, has_inputs: bool) -> ToProve[PaimonUnit, DataFileMeta]:
    return ToProve(
        label=one.label,
        proved=ProvedUnit(unit=one.unit, outputs=one.result.outputs, has_inputs=has_inputs),
        rows=one.result.rows_out,
        fingerprint=one.result.fingerprint,
    )


_USER = "packstone-"


def commit_user(run: str) -> str:
    """The commit user of a run's snapshots."""
    return f"{_USER}{run}"


def name_committer(snapshot: Snapshot) -> str:
    """A snapshot and its publisher, for messages."""
    by = snapshot.commit_user
    who = f"run {by.removeprefix(_USER)}" if by.startswith(_USER) else f"{snapshot.commit_kind} of user {by}"
    return f"snapshot {snapshot.id} ({who})"


@dataclass(frozen=True)
class RunCommit:
    """One snapshot of a run, with the changes that it made."""

    snapshot: Snapshot
    entries: tuple[ManifestEntry, ...]

    @cached_property
    def added(self) -> frozenset[str]:
        """The names of the files that it added."""
        return frozenset(entry.file.file_name for entry in self.entries if entry.kind is FileKind.ADD)

    @cached_property
    def removed(self) -> frozenset[str]:
        """The names of the files that it removed."""
        return frozenset(entry.file.file_name for entry in self.entries if entry.kind is FileKind.DELETE)

    def holds(self, part: PaimonPart) -> bool:
        """Whether it published everything recorded of a part."""
        return all(
            all(name in self.added for name in outcome.outputs) and all(name in self.removed for name in outcome.inputs)
            for outcome in part.outcomes
        )


def read_commits(io: FileIO, table: str, run: str, *, lean: bool = True) -> tuple[RunCommit, ...]:
    """The snapshots of a run that have not expired, oldest first; ``lean`` leaves statistics out."""
    found = []
    for snapshot in read_snapshots(io, table):
        if snapshot.commit_user == commit_user(run):
            try:
                found.append(RunCommit(snapshot=snapshot, entries=tuple(read_delta(io, table, snapshot, lean=lean))))
            except CorruptionError:
                if io.stat(snapshot_path(table, snapshot.id)) is not None:
                    raise
                # It expired while it was read.
    return tuple(found)


def read_snapshots(io: FileIO, table: str, *, after: int = 0) -> Iterator[Snapshot]:
    """Yield the snapshots with a number larger than ``after``, oldest first."""
    for number in list_snapshot_ids(io, table):
        if number > after:
            try:
                yield read_snapshot(io, table, number)
            except FileNotFoundError:
                continue  # expired since the listing


def read_delta(io: FileIO, table: str, snapshot: Snapshot, *, lean: bool = True) -> Iterator[ManifestEntry]:
    """Yield the changes that a snapshot made."""
    for meta in read_manifest_list(io, f"{table}/manifest/{snapshot.delta_manifest_list}"):
        yield from read_manifest(io, f"{table}/manifest/{meta.file_name}", lean=lean)


def find_committed(
    io: FileIO, table: str, wave: PaimonWave, *, commits: tuple[RunCommit, ...] | None = None
) -> frozenset[str]:
    """The buckets of a recorded wave that were published; ``commits`` are those of its run, if already read.

    If the snapshot of the wave has expired, a bucket counts if the oldest remaining snapshot names an output of it.
    """
    if commits is None:
        commits = read_commits(io, table, wave.run)
    held = frozenset(part.part for part in wave.parts if any(commit.holds(part) for commit in commits))
    oldest = next(read_snapshots(io, table), None)
    if held or oldest is None or oldest.id == 1:
        return held
    outputs = {part.part: _written(part) for part in wave.parts}
    named = find_named(io, table, oldest, names=frozenset().union(*outputs.values()))
    return frozenset(part for part, names in outputs.items() if names & named)


def find_named(io: FileIO, table: str, snapshot: Snapshot, *, names: Collection[str]) -> frozenset[str]:
    """The names that a snapshot, or one that it builds on, has added."""
    return frozenset(name for name, kind in _lines(io, table, snapshot, names=names) if kind is FileKind.ADD)


def find_live(io: FileIO, table: str, snapshot: Snapshot, *, names: Collection[str]) -> frozenset[str]:
    """The names that are live in a snapshot, on any level."""
    balance: dict[str, int] = {}
    for name, kind in _lines(io, table, snapshot, names=names):
        balance[name] = balance.get(name, 0) + (1 if kind is FileKind.ADD else -1)
    return frozenset(name for name, count in balance.items() if count > 0)


def _lines(io: FileIO, table: str, snapshot: Snapshot, *, names: Collection[str]) -> Iterator[tuple[str, FileKind]]:
    for meta in read_all_manifests(io, table, snapshot) if names else ():
        for entry in read_manifest(io, f"{table}/manifest/{meta.file_name}", lean=True):
            if entry.file.file_name in names:
                yield entry.file.file_name, entry.kind


def _written(part: PaimonPart) -> frozenset[str]:
    """The outputs of a part that the run created: all but files that were only upgraded."""
    return frozenset(name for one in part.outcomes if one.how != How.UPGRADE for name in one.outputs)


# ---- check ----


_UNIT_FILES: Final = 64
_FOOTER_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """A data file, with the rows that its manifest records, and the columns of its schema."""

    path: str
    rows: int
    columns: tuple[str, ...] = ()
    size_bytes: int

    @property
    def file_format(self) -> str:
        """Its format: the ending of its name."""
        return self.path.rpartition(".")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCheck:
    """Some data files of a bucket."""

    number: int
    files: tuple[CheckedFile, ...]
    deep: bool

    @property
    def input_bytes(self) -> int:
        """What it reads: all data, or footers only."""
        return sum(file.size_bytes for file in self.files) if self.deep else len(self.files) * _FOOTER_BYTES

    @property
    def input_files(self) -> tuple[tuple[str, str], ...]:
        """The files that it decodes."""
        return tuple((file.path, file.file_format) for file in self.files) if self.deep else ()


def check_paimon(io: FileIO, store: PaimonStore, request: CheckRequest) -> TableCheck:
    """Begin to check a snapshot: manifests and indexes here, data files by tasks."""
    if request.version is None:
        snapshot = read_latest_snapshot(io, store.path)
    else:
        try:
            snapshot = read_snapshot(io, store.path, request.version)
        except FileNotFoundError:
            kept = list_snapshot_ids(io, store.path)
            which = f"it keeps {kept[0]} to {kept[-1]}" if kept else "it has none"
            raise InvalidInputError(f"{store.path} has no snapshot {request.version}; {which}.") from None
    parts = iter(()) if snapshot is None else _check_snapshot(io, store, snapshot, deep=request.deep)
    return TableCheck(version=None if snapshot is None else snapshot.id, parts=parts, job=PAIMON_CHECK_JOB)


def _check_snapshot(
    io: FileIO, store: PaimonStore, snapshot: Snapshot, *, deep: bool
) -> Iterator[CheckedPart[BucketCheck]]:
    numbers, rows, is_plain = count(), 0, True
    metadata = _check_metadata(io, store, snapshot)
    yield metadata
    try:
        for bucket in () if metadata.damage else read_live_files(io, store.path, snapshot, lean=True):
            rows += sum(file.row_count for file in bucket.files)
            is_plain &= all(file.write_cols is None for file in bucket.files)  # else files share their rows
            yield _check_bucket(io, store, bucket, deep=deep, numbers=numbers)
    except CorruptionError as error:
        yield CheckedPart(damage=(Damage.of(error, snapshot_path(store.path, snapshot.id)),))
        return
    recorded = snapshot.total_record_count
    if not metadata.damage and is_plain and recorded is not None and recorded != rows:
        why = f"it records {recorded:,} rows, but its manifests have {rows:,}"
        yield CheckedPart(damage=(Damage(file=snapshot_path(store.path, snapshot.id), why=why),))


def _check_metadata(io: FileIO, store: PaimonStore, snapshot: Snapshot) -> CheckedPart[BucketCheck]:
    """Check manifest lists, manifests, and index files with their checksums."""
    folder, damage = manifest_folder(store.path), list[Damage]()
    sizes = list_file_sizes(io, folder)
    wanted: dict[str, int | None] = {}
    lists = (
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
        (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),
    )
    for name, size_bytes in ((name, size_bytes) for name, size_bytes in lists if name):
        wanted[name] = size_bytes
        for one in damage_in(f"{folder}/{name}", partial(_add_manifests, io, f"{folder}/{name}", wanted)):
            damage += [one] if name in sizes else []  # a missing file is reported below
    if snapshot.index_manifest:
        wanted[snapshot.index_manifest] = None
    damage += _compare(folder, wanted, sizes)
    if snapshot.schema_id not in store.schemas:
        path = f"{store.path}/schema/schema-{snapshot.schema_id}"
        damage.append(Damage(file=path, why=f"it is missing; snapshot {snapshot.id} names it"))
    indexes = 0
    if not damage:
        for entry in read_deletion_entries(io, store.path, snapshot):
            indexes += 1
            in_bucket = (store.schema.option("index-file-in-data-file-dir") or "").lower() == "true"
            at = BucketFiles(partition=entry.partition, bucket=entry.bucket, total_buckets=0, files=())
            path = index_file_path(store.path, entry, bucket_folder=store.bucket_folder(at) if in_bucket else None)
            damage += damage_in(path, partial(read_deletion_vectors, io, path, entry.ranges or ()))
    return CheckedPart(files=1 + len(wanted) + indexes, damage=tuple(damage))


def _add_manifests(io: FileIO, path: str, wanted: dict[str, int | None]) -> None:
    wanted.update((meta.file_name, meta.file_size) for meta in read_manifest_list(io, path))


def _check_bucket(
    io: FileIO, store: PaimonStore, bucket: BucketFiles, *, deep: bool, numbers: Iterator[int]
) -> CheckedPart[BucketCheck]:
    try:
        folder = store.bucket_folder(bucket)
    except CorruptionError as error:
        return CheckedPart(files=len(bucket.files), damage=(Damage.of(error, store.bucket_label(bucket)),))
    sizes = list_file_sizes(io, folder)
    files, wanted = list[CheckedFile](), dict[str, int | None]()
    for file in bucket.files:
        path = data_file_path(folder, file)
        for other in (path, *extra_file_paths(folder, file)):
            at, _, name = other.rpartition("/")
            wanted[name] = file.file_size if other == path else None
            if at != folder:  # an external path
                found = io.stat(other)
                sizes |= {} if found is None else {name: found.size_bytes}
        if sizes.get(file.file_name) == file.file_size:
            columns = _columns_in(store, file)
            files.append(CheckedFile(path=path, rows=file.row_count, size_bytes=file.file_size, columns=columns))
    units = (
        BucketCheck(number=next(numbers), files=tuple(files[begin : begin + _UNIT_FILES]), deep=deep)
        for begin in range(0, len(files), _UNIT_FILES)
    )
    return CheckedPart(
        files=len(wanted),
        size_bytes=sum(file.file_size for file in bucket.files),
        rows=sum(file.row_count for file in bucket.files),
        damage=tuple(_compare(folder, wanted, sizes)),
        units=tuple(units),
    )


def _columns_in(store: PaimonStore, file: DataFileMeta) -> tuple[str, ...]:
    """The columns that a data file must have; none if its schema is unknown."""
    schema = store.schemas.get(file.schema_id)
    if schema is None:
        return ()
    names = tuple(field.name for field in schema.fields) if file.write_cols is None else file.write_cols
    return (*names, SEQUENCE_NUMBER.name, VALUE_KIND.name) if schema.is_primary_key else names


def _compare(folder: str, wanted: Mapping[str, int | None], sizes: Mapping[str, int]) -> Iterator[Damage]:
    for name, size_bytes in wanted.items():
        found = sizes.get(name)
        if found is None:
            yield Damage(file=f"{folder}/{name}", why="it is missing")
        elif size_bytes is not None and found != size_bytes:
            yield Damage(file=f"{folder}/{name}", why=f"it has {found:,} bytes instead of {size_bytes:,}")


def check_data_files(attempt: Attempt, _context: None, unit: BucketCheck) -> UnitResult[Damage]:
    """Compare the rows in footers with the manifest; in a deep check, decode whole files."""
    found: list[Damage] = []
    for file in unit.files:
        damage = tuple(damage_in(file.path, partial(_check_footer, attempt.io, file)))
        if unit.deep and not damage:
            damage = tuple(damage_in(file.path, partial(_decode, attempt.io, file)))
        found += damage
    return UnitResult(number=unit.number, status=UnitStatus.WRITTEN, outputs=tuple(found))


def _check_footer(io: FileIO, file: CheckedFile) -> None:
    if file.file_format == FileFormat.PARQUET:
        with open_parquet(io, file.path) as parquet:
            rows, names = parquet.metadata.num_rows, parquet.schema_arrow.names
    elif file.file_format == FileFormat.ORC:
        with blame_file(file.path, "has a broken ORC footer"), io.open_input(file.path) as source:
            opened = orc.ORCFile(source)
            rows, names = opened.nrows, opened.schema.names
    else:
        return  # Avro has no footer
    lost = [name for name in file.columns if names.count(name) != 1]
    if lost:
        raise CorruptionError(f"{file.path} has no column {lost[0]}, or more than one", file=file.path)
    if rows != file.rows:
        raise CorruptionError(f"{file.path} has {rows:,} rows, but its manifest records {file.rows:,}", file=file.path)


def _decode(io: FileIO, file: CheckedFile) -> None:
    if file.file_format in {FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO}:
        read_through(io, file.path, file.file_format)


PAIMON_CHECK_JOB: Final = Job(context=type(None), unit=BucketCheck, output=Damage, do=check_data_files)
