"""Undo a run by one more COMPACT snapshot: remove its outputs, add copies of its inputs on their original levels.

The files themselves cannot be added again. What Paimon's source says (apache/paimon 5dacde516b, August 2026):

(a) Readers match DELETE and ADD by identity, in no order. ``AbstractFileStoreScan.readAndMergeFileEntries`` and
    pypaimon's ``ManifestFileManager.read_entries_parallel`` collect the DELETE entries of all manifests of a snapshot
    and drop every ADD of the same partition, bucket, level and name. An input that is added again on its level would
    vanish; ``FileEntry.mergeEntries`` even fails ("Trying to add file ... which is already in the the map").
(b) Expiry looks at one delta at a time. ``FileDeletionBase.planDeletedInDeltaManifest`` removes every path that a
    delta deletes, unless *the same* delta adds it again. When the compaction's snapshot expires, its inputs are
    removed, although a later snapshot may have added them again.

So each input is copied under a new name, and the copy gets the old manifest entry: level, keys, sequence numbers and
statistics unchanged. This applies to files that were only moved to another level, too.

(c) The level of a file says how old it is: a merge takes the upper levels and expects older rows below. If another job
    has compacted newer rows to a level above 0 since, older rows would come to lie above them, and an engine that
    merges in steps (partial-update) could let the older rows win. Such a run is refused.

All buckets of a run are undone in one snapshot, or none is. Cost: the driver reads every input, writes its copy and
reads it back; both need space until the snapshots before the restore expire.

The plan comes from the table: the deltas of the run's snapshots name the inputs and outputs with all their metadata.
Over several waves and rounds they are summed up, so that files which the run itself replaced do not appear:

    snapshot 7   -a L0  -b L0  +x L4
    snapshot 9   -x L4  -c L5  +y L5       the net: -a L0  -b L0  -c L5  +y L5; undone: y out, copies of a, b, c in
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import (
    CommitUnknownError,
    ConflictError,
    PackstoneError,
    RefusedError,
    UnavailableError,
    storage_sentence,
)
from packstone.model.maintenance import RestorePlan
from packstone.model.outcome import UnitOutcome
from packstone.model.sizes import format_bytes
from packstone.model.unit import How
from packstone.runs.clock import new_uuid, system_clock
from packstone.runs.folder import PartRecord, WaveRecord
from packstone.runs.interrupts import Interrupted, finish_first
from packstone.storage.store_checks import copy_file
from packstone.tables.paimon.commit import commit_edits
from packstone.tables.paimon.conflicts import Edit, TouchedReader, file_line, find_conflicts
from packstone.tables.paimon.format.data_file import BucketFiles, FileKind
from packstone.tables.paimon.format.paths import bucket_folders
from packstone.tables.paimon.format.references import FileReferences, read_references
from packstone.tables.paimon.format.snapshot import list_snapshot_ids, read_latest_snapshot
from packstone.tables.paimon.plan import key_order
from packstone.tables.paimon.refusals import file_format_name, refuse_files
from packstone.tables.paimon.tasks import PAIMON_JOB
from packstone.tables.paimon.verify import find_committed, name_committer, read_commits, read_delta, read_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packstone.runs.folder import Run, RunFolders, RunInfo
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.commit import CommitOptions
    from packstone.tables.paimon.conflicts import BucketId, Touched
    from packstone.tables.paimon.format.data_file import DataFileMeta, FileIdentity
    from packstone.tables.paimon.format.references import FileKey
    from packstone.tables.paimon.format.snapshot import Snapshot
    from packstone.tables.paimon.format.store import PaimonStore
    from packstone.tables.paimon.tasks import PaimonContext
    from packstone.tables.paimon.verify import PaimonWave, RunCommit

_NAMES_AT_ONCE: Final = 1_000  # in one record of names
_SPACE_MARGIN_PCT: Final = 10
_SUFFIX: Final = re.compile(r".*-\d+((\.[A-Za-z0-9]+)+)")  # after the number: an optional codec, and the format


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copies:
    """The inverse of one bucket, with the names of the copies."""

    part: str
    edit: Edit
    sources: tuple[str, ...]
    targets: tuple[str, ...]


def restore(
    store: PaimonStore, plan: RestorePlan, run: Run, *, options: CommitOptions, context: PaimonContext
) -> RestorePlan:
    """Copy the inputs and publish the inverse; if publishing certainly failed, remove the copies."""
    _check_alone(store, plan, run)
    _check_room(store, plan)
    buckets = _name_copies(store, plan.detail)
    targets = [path for bucket in buckets for path in bucket.targets]
    is_published = False
    try:
        _copy_all(store.io, buckets, record=run.record_created)
        with finish_first():
            run.check_not_fenced()
            run.record_wave(_wave_record(plan, run, buckets, context=context))
            _commit(store, buckets, run, options=options)
            is_published = True
            run.note_published(targets)
    except BaseException as error:
        if is_published and isinstance(error, Interrupted):
            return plan  # interrupted after everything was done
        if not is_published and not isinstance(error, CommitUnknownError):
            _take_back(store, run, targets)
        if isinstance(error, OSError):
            raise UnavailableError(f"{storage_sentence(error)} Nothing was undone.", table=store.path) from error
        raise
    return plan


def _take_back(store: PaimonStore, run: Run, targets: Sequence[str]) -> None:
    """Remove the files of a restore that was not published; in doubt remove nothing, `clean` checks again later."""
    with finish_first(), contextlib.suppress(OSError, PackstoneError):
        if not read_commits(store.io, store.path, run.id):
            run.discard(targets)
            run.forget_wave(1)


def _check_alone(store: PaimonStore, plan: RestorePlan, run: Run) -> None:
    """Raise ConflictError if another run undoes the same run: each records its intent before it looks for others.

    The commit alone does not detect this: if the compaction left no file in a bucket, a second restore of it finds no
    input missing.
    """
    for other in run.folders.list_runs():
        info = run.folders.read_info(other)
        if other == run.id or info is None or info.restores != plan.run:
            continue
        if not run.folders.is_dead(other, now_seconds=run.store_now()):
            raise ConflictError(f"Run {other} ({info.process}) is undoing run {plan.run} already.")
    by = find_restored(store, run.folders, plan.run)
    if by is not None:
        raise ConflictError(f"Run {plan.run} was undone by run {by} in the meantime.")


def _check_room(store: PaimonStore, plan: RestorePlan) -> None:
    need = plan.bytes_restored * (100 + _SPACE_MARGIN_PCT) // 100
    free = store.io.free_bytes(store.path)
    if need > free:
        raise RefusedError(
            f"Run {plan.run} is not undone: copies of its inputs need {format_bytes(need)}, and {format_bytes(free)} "
            f"are free in {store.path}."
        )


def _name_copies(store: PaimonStore, undos: Sequence[Undo]) -> list[_Copies]:
    """Give every input a name that no file ever had; the suffix stays, because readers use it."""
    own, number, found = new_uuid(), 0, []
    for undo in undos:
        files, targets = [], []
        for file, source in zip(undo.edit.after, undo.sources, strict=True):
            match = _SUFFIX.fullmatch(file.file_name)
            suffix = match[1] if match else f".{file_format_name(file.file_name)}"
            name = f"{store.options.data_file_prefix}{own}-{number}{suffix}"
            number += 1
            files.append(replace(file, file_name=name))
            targets.append(f"{posixpath.dirname(source)}/{name}")
        edit = replace(undo.edit, after=tuple(files))
        found.append(_Copies(part=undo.part, edit=edit, sources=undo.sources, targets=tuple(targets)))
    return found


def _copy_all(io: FileIO, buckets: list[_Copies], *, record: Callable[[tuple[str, ...]], None]) -> None:
    """Copy file after file; the names are recorded before the files are created."""
    todo = [
        (source, target, file.file_size)
        for bucket in buckets
        for source, target, file in zip(bucket.sources, bucket.targets, bucket.edit.after, strict=True)
    ]
    for at in range(0, len(todo), _NAMES_AT_ONCE):
        some = todo[at : at + _NAMES_AT_ONCE]
        record(tuple(target for _, target, _ in some))
        for source, target, size_bytes in some:
            copy_data_file(io, source, target, size_bytes=size_bytes)


def copy_data_file(io: FileIO, source: str, target: str, *, size_bytes: int) -> None:
    """Copy a file; RefusedError if it is missing or its size has changed."""
    found = io.stat(source)
    if found is None or found.size_bytes != size_bytes:
        raise RefusedError(f"{source} is gone or no longer has {size_bytes} bytes; nothing was undone.")
    copy_file(io, source, target)


def _wave_record(
    plan: RestorePlan, run: Run, buckets: list[_Copies], *, context: PaimonContext
) -> WaveRecord[Any, Any, Any]:
    """The record of what is about to be published, from which later commands know that the run was undone."""
    parts: tuple[PartRecord[Any, Any], ...] = tuple(
        PartRecord(part=bucket.part, units=(), results=(), outcomes=(_outcome(plan, bucket),)) for bucket in buckets
    )
    return WaveRecord(run=run.id, wave=1, context=context, parts=parts)


def _outcome(plan: RestorePlan, bucket: _Copies) -> UnitOutcome:
    edit = bucket.edit
    return UnitOutcome(
        partition=bucket.part,
        inputs=tuple(file.file_name for file in edit.before),
        outputs=tuple(file.file_name for file in edit.after),
        how=How.COPY,
        why=f"run {plan.run} is undone",
        bytes_before=sum(file.file_size for file in edit.before),
        bytes_after=sum(file.file_size for file in edit.after),
        rows=sum(file.row_count for file in edit.after),
    )


def _commit(store: PaimonStore, buckets: list[_Copies], run: Run, *, options: CommitOptions) -> None:
    created: list[str] = []

    def record(paths: tuple[str, ...]) -> None:
        created.extend(paths)
        run.record_created(paths)

    commit_edits(
        store.io,
        store.path,
        (bucket.edit for bucket in buckets),
        options=replace(options, all_or_nothing=True),
        clock=replace(system_clock(), new_id=new_uuid),  # Paimon names files by UUIDs
        record=record,
    )
    run.note_published(created)


# ---- plan ----


_NOTE = "The compacted files stay on disk until the snapshots before the restore expire."


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """What undoing a run changes in one bucket."""

    part: str
    edit: Edit  # removes the run's outputs, adds its inputs under their own names
    sources: tuple[str, ...]  # where those inputs are


@dataclass(slots=True, kw_only=True)
class _Net:
    """The net change of one bucket by all snapshots of a run."""

    total_buckets: int
    added: dict[FileIdentity, DataFileMeta] = field(default_factory=dict)
    removed: list[tuple[DataFileMeta, Snapshot]] = field(default_factory=list)  # with the snapshot that removed it

    @property
    def inputs(self) -> tuple[DataFileMeta, ...]:
        """Files that the run removed and others had added."""
        return tuple(file for file, _ in self.removed)

    @property
    def outputs(self) -> tuple[DataFileMeta, ...]:
        """Files that the run added and did not replace itself."""
        return tuple(self.added.values())


def plan_restore(store: PaimonStore, folders: RunFolders, run: str) -> RestorePlan:
    """Plan the inverse of a run; a plan without parts has nothing to undo. RefusedError says why it is impossible."""
    info = folders.read_known(run, table=store.path)
    if info.restores is not None:
        raise RefusedError(f"Run {run} undid run {info.restores}; compact {store.path} again instead.")
    undos: tuple[Undo, ...] = ()
    if find_restored(store, folders, run) is None:
        waves = tuple(folders.read_waves(run, PAIMON_JOB))
        commits = read_commits(store.io, store.path, run, lean=False)
        if _is_published(store, info, waves, commits=commits):
            undos = tuple(_Planner(store, run, waves=waves, commits=commits).plan())
    files = [file for undo in undos for file in undo.edit.after]
    return RestorePlan(
        table=store.path,
        run=run,
        parts=tuple(undo.part for undo in undos),
        files_restored=len(files),
        files_removed=sum(len(undo.edit.before) for undo in undos),
        bytes_restored=sum(file.file_size for file in files),
        note=_NOTE if undos else "",
        detail=undos,
    )


def find_restored(store: PaimonStore, folders: RunFolders, run: str) -> str | None:
    """The run that has undone a run, or None; a restore that was killed before it was published does not count."""
    for other in folders.list_runs():
        info = folders.read_info(other)
        if info is not None and info.restores == run:
            waves = folders.read_waves(other, PAIMON_JOB)
            if any(find_committed(store.io, store.path, wave) for wave in waves):
                return other
    return None


def _is_published(
    store: PaimonStore, info: RunInfo, waves: tuple[PaimonWave, ...], *, commits: tuple[RunCommit, ...]
) -> bool:
    """Whether a run published something; RefusedError unless all of it can still be read from its snapshots."""
    expired = RefusedError(
        f"Run {info.run} is not undone: some of its snapshots have expired, and with them the record of its inputs."
    )
    if not commits:
        oldest = next(read_snapshots(store.io, store.path), None)
        if not waves or oldest is None or oldest.id == 1:
            return False
        started_ms = datetime.fromisoformat(info.started_at).timestamp() * 1000
        if oldest.time_millis > started_ms or any(find_committed(store.io, store.path, w, commits=()) for w in waves):
            raise expired
        return False
    found = _match(waves, commits)
    if len(commits) > sum(found):
        raise RefusedError(f"Run {info.run} is not undone: its record does not name all that it published.")
    # Snapshots expire oldest first, and only the last wave of a killed run can be recorded without being published.
    if not all(found[: len(found) - found[::-1].index(True)]):
        raise expired
    return True


def _match(waves: tuple[PaimonWave, ...], commits: tuple[RunCommit, ...]) -> list[bool]:
    """Whether one of the snapshots published each wave; both are in order of time.

    Matched from the last to the first, because a file that is moved to another level twice has the same name in both
    waves: if only the later snapshot is left, it belongs to the later wave.
    """
    found, left = [], len(commits)
    for wave in reversed(waves):
        at = next((at for at in reversed(range(left)) if any(map(commits[at].holds, wave.parts))), None)
        found.append(at is not None)
        left = left if at is None else at
    return found[::-1]


class _Planner:
    """Plans the undoing of one run from the current state of a table."""

    def __init__(
        self, store: PaimonStore, run: str, *, waves: tuple[PaimonWave, ...], commits: tuple[RunCommit, ...]
    ) -> None:
        self._store, self._io, self._run = store, store.io, run
        self._nets = _sum_up(commits)
        self._own = {commit.snapshot.id for commit in commits}
        self._with_vectors = _inputs_with_vectors(waves)
        self._removed: dict[FileIdentity, Snapshot] = {}  # outputs, and the snapshot that removed each
        self._raised: dict[BucketId, dict[tuple[str, int], Snapshot]] = {}  # files that others put above level 0 since

    def plan(self) -> Iterator[Undo]:
        """Yield the undo of each bucket; RefusedError if one of them cannot be undone."""
        latest = read_latest_snapshot(self._io, self._store.path)
        if latest is None or not self._nets:
            return
        self._read_later()
        touched = TouchedReader(
            self._io, self._store.path, buckets=self._nets, partition_types=self._store.schema.partition_types
        ).read(latest)
        protected = self._find_protected()
        for at, net in self._nets.items():
            edit = Edit(
                partition=at[0], bucket=at[1], total_buckets=net.total_buckets, before=net.outputs, after=net.inputs
            )
            bucket = BucketFiles(partition=at[0], bucket=at[1], total_buckets=net.total_buckets, files=net.inputs)
            part = self._store.bucket_label(bucket)
            sources = self._find_sources(at, net)
            why = next(self._reasons(edit, net, touched=touched, protected=protected, sources=sources), None)
            if why is not None:
                raise RefusedError(f"Run {self._run} is not undone: {part}: {why}.", table=self._store.path, part=part)
            yield Undo(part=part, edit=edit, sources=tuple(path for path in sources if path is not None))

    def _reasons(
        self,
        edit: Edit,
        net: _Net,
        *,
        touched: Touched,
        protected: frozenset[FileKey],
        sources: list[str | None],
    ) -> Iterator[str]:
        total = self._store.options.bucket
        if edit.total_buckets != total > 0:
            yield f"its files were written for {edit.total_buckets} buckets, and the table has {total} now"
        yield from self._removed_outputs(net, touched.files.get(edit.bucket_id, ()))
        why = refuse_files(net.inputs)
        if why is not None:
            yield why
        for file in net.inputs:
            if file.extra_files:
                yield f"{file.file_name} has extra files ({file.extra_files[0]}), which are not copied"
            if file.file_name in self._with_vectors:
                yield f"{file.file_name} had deletion vectors, which the compaction applied and dropped"
        for (file, snapshot), source in zip(net.removed, sources, strict=True):
            if source is None:
                yield f"its input {file.file_name} is gone or no longer has {file.file_size} bytes"
            elif (*edit.bucket_id, file.file_name) not in protected:
                yield f"no snapshot before {snapshot.id} and no tag keeps its input {file.file_name}: it has expired"
        yield from self._raised_since(edit, touched)
        order = key_order(self._store.schema) if self._store.schema.is_primary_key else None
        yield from (conflict.why for conflict in find_conflicts((edit,), touched, key_order=order))

    def _removed_outputs(self, net: _Net, live: tuple[DataFileMeta, ...]) -> Iterator[str]:
        lines = {file_line(file) for file in live}
        for identity, file in net.added.items():
            if file_line(file) not in lines:
                by = self._removed.get(identity)
                who = "somebody" if by is None else name_committer(by)
                yield f"its output {file.file_name} is no longer in the table, {who} removed it"

    def _raised_since(self, edit: Edit, touched: Touched) -> Iterator[str]:
        """Name a file that holds newer rows on a level above 0: inputs of the run must not lie above it."""
        raised = self._raised.get(edit.bucket_id, {})
        for file in touched.files.get(edit.bucket_id, ()) if self._store.schema.is_primary_key else ():
            by = raised.get((file.file_name, file.level))
            if by is not None:
                yield f"{name_committer(by)} put newer rows on level {file.level} since ({file.file_name})"

    def _read_later(self) -> None:
        """Note what others did to the buckets since the run began to publish."""
        for snapshot in read_snapshots(self._io, self._store.path, after=min(self._own)):
            if snapshot.id in self._own:
                continue
            for entry in read_delta(self._io, self._store.path, snapshot):
                at = entry.partition, entry.bucket
                if at not in self._nets:
                    continue
                if entry.kind is FileKind.DELETE and entry.identity in self._nets[at].added:
                    self._removed[entry.identity] = snapshot
                elif entry.kind is FileKind.ADD and entry.file.level > 0:
                    self._raised.setdefault(at, {})[entry.file.file_name, entry.file.level] = snapshot

    def _find_sources(self, at: BucketId, net: _Net) -> list[str | None]:
        """The paths of the inputs of a bucket; None for one that is missing or has another size."""
        folders = bucket_folders(self._store.path, self._store.schema, partition=at[0], bucket=at[1])
        found: list[str | None] = []
        for file in net.inputs:
            paths = (f"{folder}/{file.file_name}" for folder in folders)
            stats = ((path, self._io.stat(path)) for path in paths)
            is_there = (path for path, one in stats if one is not None and one.size_bytes == file.file_size)
            found.append(next(is_there, None))
        return found

    def _find_protected(self) -> frozenset[FileKey]:
        """The inputs that an unexpired snapshot, a tag or a branch keeps; others may be removed at any moment."""
        ids = set(list_snapshot_ids(self._io, self._store.path))
        kept: set[FileKey] = set()
        others: set[FileKey] = set()
        for at, net in self._nets.items():
            for file, snapshot in net.removed:
                (kept if snapshot.id - 1 in ids else others).add((*at, file.file_name))
        if others:
            lookup = FileReferences(self._io, self._store.path, wanted=others)
            for snapshot in read_references(self._io, self._store.path).snapshots:
                kept |= lookup.live(snapshot)
        return frozenset(kept)


def _sum_up(commits: tuple[RunCommit, ...]) -> dict[BucketId, _Net]:
    """The net changes of a run, by bucket, without the buckets that it left unchanged."""
    nets: dict[BucketId, _Net] = {}
    for commit in commits:
        for entry in commit.entries:
            net = nets.setdefault((entry.partition, entry.bucket), _Net(total_buckets=entry.total_buckets))
            if entry.kind is FileKind.ADD:
                net.added[entry.identity] = entry.file
            elif net.added.pop(entry.identity, None) is None:
                net.removed.append((entry.file, commit.snapshot))
    return {at: net for at, net in nets.items() if net.added or net.removed}


def _inputs_with_vectors(waves: tuple[PaimonWave, ...]) -> frozenset[str]:
    """The names of inputs that had deletion vectors."""
    units = (unit for wave in waves for part in wave.parts for unit in part.units)
    specs = (unit.merge.files if unit.merge else unit.append.inputs if unit.append else () for unit in units)
    return frozenset(file.path.rpartition("/")[2] for files in specs for file in files if file.deleted)
