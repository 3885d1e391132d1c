"""Commit edits as one COMPACT snapshot: optimistic, with an exclusive create, and identified by a UUID.

    1. read the newest snapshot and its entries for the touched buckets
    2. drop the edits that no longer fit it; the caller plans their buckets again
    3. write manifests and lists under unique names, then publish ``snapshot-<newest + 1>`` exclusively
    4. if another writer committed first: wait, and start again at 1; if the outcome is unknown: first check whether
       the snapshot exists

A commit never changes or removes an existing file of the table: inputs stay until expiry.

Publishing is the one step that makes a commit visible. Ours is exclusive: ``write_new`` lets exactly one of several
callers create ``snapshot-<id>``. Other writers (Java, Python) check whether the file exists and then rename over it, so
one that checked before us may still replace the snapshot that we published. Nothing on a file system can prevent that,
so we read our snapshot back:

    after publishing, and again a moment later           the window of such a writer is milliseconds
    before building on it, and at the end of the run     so that a loss is reported, with what to do about it

A missing hint does no harm, because readers look for the next number anyway. A hint that is written late
may do harm: Java believes a hint whose successor does not exist, for example because it has expired.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from packstone.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    RefusedError,
    UnavailableError,
    storage_sentence,
)
from packstone.model.run_record import VERSION
from packstone.storage.store_checks import check_exclusive
from packstone.tables.paimon.conflicts import (
    BucketConflict,
    Touched,
    TouchedReader,
    check_edits,
    file_line,
    find_conflicts,
    raise_conflicts,
)
from packstone.tables.paimon.draft import DraftWriter, MergeLimits
from packstone.tables.paimon.format.manifest import UNREAD_STATS
from packstone.tables.paimon.format.paths import bucket_folders, data_file_path
from packstone.tables.paimon.format.schema import read_latest_schema
from packstone.tables.paimon.format.snapshot import (
    dump_snapshot,
    find_latest_id,
    list_snapshot_ids,
    read_latest_snapshot,
    read_snapshot,
    snapshot_path,
    write_latest_hint,
)
from packstone.tables.paimon.plan import key_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packstone.runs.clock import Clock
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.conflicts import BucketId, Edit
    from packstone.tables.paimon.draft import Draft
    from packstone.tables.paimon.format.data_file import DataFileMeta
    from packstone.tables.paimon.format.schema import TableSchema
    from packstone.tables.paimon.format.snapshot import Snapshot
    from packstone.tables.paimon.format.table_options import TableOptions

_SNAPSHOT_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReport:
    """The outcome of a commit."""

    published: Published | None  # None: no edit was left to commit
    committed: tuple[BucketId, ...]
    conflicting: tuple[BucketConflict, ...]
    attempts: int

    @property
    def snapshot_id(self) -> int | None:
        """The number of our snapshot."""
        return self.published.snapshot_id if self.published else None


def commit_edits(
    io: FileIO,
    table: str,
    edits: Iterable[Edit],
    *,
    options: CommitOptions,
    clock: Clock,
    record: Callable[[tuple[str, ...]], None],
    earlier: tuple[Published, ...] = (),
) -> CommitReport:
    """Publish the edits that still fit as one snapshot; report those that do not.

    With ``options.all_or_nothing``, one edit that does not fit raises ConflictError, and nothing is published.
    ``earlier`` are the snapshots that this run published before: each is read again, because we build on them.
    ConflictError: every race was lost, or an earlier snapshot was replaced; none of these edits was published, so
    their outputs may be removed. CommitUnknownError: the message says what to check before a retry; the outputs must
    stay.
    """
    check_can_publish(io, table, single_writer=options.single_writer)
    commit = _Commit(io, table, edits=tuple(edits), options=options, clock=clock, record=record)
    for published in earlier:
        check_published(io, table, published)
    return commit.run()


class _Commit:
    """The state of one commit over its attempts."""

    def __init__(
        self,
        io: FileIO,
        table: str,
        *,
        edits: tuple[Edit, ...],
        options: CommitOptions,
        clock: Clock,
        record: Callable[[tuple[str, ...]], None],
    ) -> None:
        check_edits(edits)
        self._io, self._table, self._options, self._clock = io, table, options, clock
        self._edits = edits
        self._conflicts: list[BucketConflict] = []
        self._writer = DraftWriter(io, table, options=options, clock=clock, record=record)
        self._seen: tuple[Snapshot, Touched] | None = None
        self._unknown: Draft | None = None  # may or may not have been published

    def run(self) -> CommitReport:
        """Try until it is published, or until there is a reason to stop."""
        try:
            return self._run()
        except OSError as error:
            self._close()
            if self._unknown is not None:
                raise self._not_known(self._unknown) from error
            raise UnavailableError(f"{storage_sentence(error)} Nothing was committed.", table=self._table) from error
        except BaseException:
            self._close()
            raise

    def _run(self) -> CommitReport:
        retries = self._options.retry.max_retries
        for attempt in range(retries + 1):
            if attempt:
                self._clock.sleep(self._options.retry.seconds(attempt - 1, random=self._clock.random()))
            report = self._attempt(attempt + 1)
            if report is not None:
                return report
        if self._unknown is not None:
            raise self._not_known(self._unknown)
        raise ConflictError(
            f"{self._table}: {retries + 1} attempts to commit lost the race against other writers; nothing was "
            "committed. Run it again when they are less busy, or raise commit.max-retries."
        )

    def _attempt(self, number: int) -> CommitReport | None:
        base = read_latest_snapshot(self._io, self._table)
        if base is None:
            raise InvalidInputError(f"{self._table} has no snapshot, so there is nothing to compact.")
        # Only after the base is read: if our snapshot appears later than this, the next number is taken.
        ours = self._look_for_unknown(base)
        if ours is not None:
            return self._finish(ours, number)
        if base.version is not None and base.version > _SNAPSHOT_VERSION:
            raise RefusedError(f"{base} of {self._table} has format {base.version}, which is too new for packstone.")
        try:
            draft = self._draft(base)
        except CorruptionError:
            if self._is_expired(base):
                return None  # it expired while we read it: the table is not broken, we were slow
            raise
        if draft is None:
            self._close()
            return CommitReport(published=None, committed=(), conflicting=tuple(self._conflicts), attempts=number)
        return self._publish(draft, number)

    def _draft(self, base: Snapshot) -> Draft | None:
        schema = read_latest_schema(self._io, self._table)
        touched = self._read_touched(base, schema)
        order = key_order(schema) if schema.is_primary_key else None
        self._drop(find_conflicts(self._edits, touched, key_order=order))
        self._drop(self._find_missing(schema))
        if not self._edits:
            return None
        edits = tuple(_complete(edit, touched.files.get(edit.bucket_id, ())) for edit in self._edits)
        return self._writer.write(base, edits, schema=schema)

    def _drop(self, conflicts: tuple[BucketConflict, ...]) -> None:
        if conflicts and self._options.all_or_nothing:
            if self._unknown is not None:
                raise self._not_known(self._unknown)
            raise_conflicts(conflicts)
        self._conflicts.extend(conflicts)
        lost = {(conflict.partition, conflict.bucket) for conflict in conflicts}
        self._edits = tuple(edit for edit in self._edits if edit.bucket_id not in lost)

    def _find_missing(self, schema: TableSchema) -> tuple[BucketConflict, ...]:
        """Check that every output exists before a manifest names it: publishing a missing file breaks the table."""
        found = []
        for edit in self._edits:
            folders = bucket_folders(self._table, schema, partition=edit.partition, bucket=edit.bucket)
            known = {file.file_name for file in edit.before}
            for file in edit.after:
                if file.file_name not in known and not _is_there(self._io, folders, file):
                    why = f"the output {file.file_name} is missing or does not have {file.file_size} bytes"
                    found.append(BucketConflict(partition=edit.partition, bucket=edit.bucket, why=why))
                    break
        return tuple(found)

    def _read_touched(self, base: Snapshot, schema: TableSchema) -> Touched:
        reader = TouchedReader(
            self._io,
            self._table,
            buckets=(edit.bucket_id for edit in self._edits),
            partition_types=schema.partition_types,
        )
        touched = None
        if self._seen is not None:
            seen, before = self._seen
            touched = reader.advance(before, seen=seen, latest=base)
        if touched is None:
            touched = reader.read(base)
        self._seen = base, touched
        return touched

    def _publish(self, draft: Draft, number: int) -> CommitReport | None:
        # From here on, whatever interrupts us, it may be published: remove none of it until we know that it is not.
        self._writer.keep()
        self._unknown = draft
        match publish_snapshot(self._io, self._table, draft.snapshot):
            case SnapshotPublish.OURS:
                return self._finish(draft.snapshot, number)
            case SnapshotPublish.TAKEN:
                self._unknown = None
                self._writer.discard(draft)
            case SnapshotPublish.UNKNOWN:
                pass
        return None

    def _look_for_unknown(self, base: Snapshot) -> Snapshot | None:
        if self._unknown is None:
            return None
        ours = find_ours(self._io, self._table, self._unknown.snapshot)
        if ours is None and base.id >= self._unknown.snapshot.id:
            self._writer.discard(self._unknown)  # another writer has its number: it is not published and never will be
            self._unknown = None
        return ours

    def _finish(self, snapshot: Snapshot, number: int) -> CommitReport:
        published = Published(snapshot_id=snapshot.id, uuid=snapshot.uuid or "")
        try:
            check_published(self._io, self._table, published)
            self._clock.sleep(self._options.settle_seconds)
            check_published(self._io, self._table, published)
        except ConflictError as conflict:
            # Another writer may have read ours before it was replaced and be building on it: its files must stay.
            raise CommitUnknownError(conflict.message, **conflict.facts) from conflict
        except OSError as error:
            raise CommitUnknownError(
                f"{self._table}: {published} was published but cannot be read back ({error}); check it before you "
                "compact again.",
                snapshot=snapshot.id,
            ) from error
        return CommitReport(
            published=published,
            committed=tuple(edit.bucket_id for edit in self._edits),
            conflicting=tuple(self._conflicts),
            attempts=number,
        )

    def _close(self) -> None:
        if self._unknown is None:
            self._writer.close()

    def _not_known(self, draft: Draft) -> CommitUnknownError:
        number, uuid = draft.snapshot.id, draft.snapshot.uuid
        return CommitUnknownError(
            f"{self._table}: the storage did not say whether snapshot {number} was published; look for uuid {uuid} in "
            "its snapshots before you compact again.",
            snapshot=number,
        )

    def _is_expired(self, base: Snapshot) -> bool:
        latest = read_latest_snapshot(self._io, self._table)
        return latest is not None and latest.id > base.id


def _is_there(io: FileIO, folders: tuple[str, ...], file: DataFileMeta) -> bool:
    stats = (io.stat(data_file_path(folder, file)) for folder in folders)
    return any(found is not None and found.size_bytes == file.file_size for found in stats)


def _complete(edit: Edit, live: tuple[DataFileMeta, ...]) -> Edit:
    """The edit with its inputs as the table has them: a plan may have been made without their statistics."""
    known = {file_line(file): file for file in live}
    before = tuple(known[file_line(file)] for file in edit.before)
    by_name = {file.file_name: file for file in before}
    after = tuple(
        replace(by_name[file.file_name], level=file.level, delete_row_count=file.delete_row_count)
        if file.file_name in by_name and UNREAD_STATS in (file.key_stats, file.value_stats)
        else file
        for file in edit.after
    )
    return replace(edit, before=before, after=after)


# ---- publish ----


BATCH_IDENTIFIER = 2**63 - 1  # every batch commit has it, so it identifies nothing


class SnapshotPublish(StrEnum):
    """How an attempt to publish ended."""

    OURS = "ours"
    TAKEN = "taken"  # another writer has the number: build on theirs and try the next
    UNKNOWN = "unknown"  # the storage failed, and the number is still free: our snapshot may yet appear


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A snapshot that we published; the UUID distinguishes it from another writer's snapshot of the same number."""

    snapshot_id: int
    uuid: str

    def __str__(self) -> str:
        return f"snapshot {self.snapshot_id} ({self.uuid})"


def check_can_publish(io: FileIO, table: str, *, single_writer: bool) -> None:
    """Raise RefusedError for a store on which two writers could both believe that they have a number.

    Where there is no rename, other writers publish by a put that overwrites. They exclude each other by their catalog's
    lock, which we cannot take; so the user has to confirm that there are no other writers.
    """
    can = io.capabilities
    if can.create_if_absent and not can.atomic_rename and not single_writer:
        raise RefusedError(
            f"{table} is on an object store, where other writers publish snapshots by a put that overwrites, and "
            "packstone does not take their catalog's lock; if no other writer uses the table during the run, give "
            "--set single-writer=true.",
            table=table,
        )
    check_exclusive(io, f"{table}/manifest", what="snapshot")


def publish_snapshot(io: FileIO, table: str, snapshot: Snapshot) -> SnapshotPublish:
    """Try to give the snapshot its number.

    A number that is absent may be free, or expired: a commit that stalls for longer than snapshots are retained finds
    its number absent again, and would publish below the newest snapshot, where nobody sees it. Snapshots expire from
    the oldest on, so the number was not expired while its predecessor exists; that is checked before and after.
    """
    if _is_behind(io, table, snapshot.id):
        return SnapshotPublish.TAKEN
    try:
        io.write_new(snapshot_path(table, snapshot.id), dump_snapshot(snapshot))
    except FileExistsError:
        outcome = _read_publisher(io, table, snapshot)  # another writer's, or ours if the first response was lost
    except OSError:
        outcome = _read_publisher(io, table, snapshot)  # it may have been written despite the error
    else:
        outcome = SnapshotPublish.OURS
    if outcome is SnapshotPublish.OURS and _came_late(io, table, snapshot.id):
        io.remove(snapshot_path(table, snapshot.id))
        return SnapshotPublish.TAKEN
    if outcome is SnapshotPublish.OURS:
        _write_hint(io, table, snapshot.id)
    return outcome


def _is_behind(io: FileIO, table: str, number: int) -> bool:
    """Whether a number has been used already, by a snapshot that may have expired since."""
    return not _has_predecessor(io, table, number) and (find_latest_id(io, table) or 0) >= number


def _came_late(io: FileIO, table: str, number: int) -> bool:
    """Whether our snapshot took the number of an expired one: a later snapshot is older than it."""
    if _has_predecessor(io, table, number):
        return False
    ours = io.stat(snapshot_path(table, number))
    later = (io.stat(snapshot_path(table, one)) for one in list_snapshot_ids(io, table) if one > number)
    return ours is not None and any(one is not None and one.mtime_ns < ours.mtime_ns for one in later)


def _has_predecessor(io: FileIO, table: str, number: int) -> bool:
    return number == 1 or io.stat(snapshot_path(table, number - 1)) is not None


def find_ours(io: FileIO, table: str, snapshot: Snapshot) -> Snapshot | None:
    """Our commit, at its number or a later one, found by its uuid or by user, identifier and kind; None if absent."""
    latest = find_latest_id(io, table) or 0
    for snapshot_id in range(snapshot.id, latest + 1):
        try:
            there = read_snapshot(io, table, snapshot_id)
        except FileNotFoundError:
            continue  # expired
        if is_same_commit(there, snapshot):
            return there
    return None


def is_same_commit(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots are attempts of the same commit."""
    if one.uuid is not None and one.uuid == other.uuid:
        return True
    if BATCH_IDENTIFIER in (one.commit_identifier, other.commit_identifier):
        return False
    return (one.commit_user, one.commit_identifier, one.commit_kind) == (
        other.commit_user,
        other.commit_identifier,
        other.commit_kind,
    )


def check_published(io: FileIO, table: str, published: Published) -> None:
    """Re-read a snapshot that we published; raise if it is not as we wrote it. An expired one is fine.

    ConflictError: another writer replaced it and no later snapshot exists: our commit did not happen.
    CommitUnknownError: it was replaced or removed, and later snapshots exist: they may be built on either.
    """
    number = published.snapshot_id
    try:
        there = read_snapshot(io, table, number)
    except FileNotFoundError:
        _check_expired(io, table, number)
        return
    if there.uuid == published.uuid:
        return
    by = f"{there.commit_kind} of user {there.commit_user} ({there.writer_version or 'unknown writer'})"
    path = snapshot_path(table, number)
    if (find_latest_id(io, table) or 0) <= number:
        raise ConflictError(
            f"{path}, which packstone had published, was replaced by an {by} that did not see it; the table has the "
            "rows from before the compaction and those of that commit. Plan again; a catalog lock prevents this.",
            snapshot=number,
        )
    raise CommitUnknownError(
        f"{path}, which packstone had published, was replaced by an {by} after later snapshots were built; compare "
        f"{there.delta_manifest_list} with snapshot {number + 1} to see whose files are missing, and write them again.",
        snapshot=number,
    )


def _check_expired(io: FileIO, table: str, number: int) -> None:
    ids = list_snapshot_ids(io, table)
    if ids and ids[0] > number:
        return
    raise CommitUnknownError(
        f"{snapshot_path(table, number)}, which packstone had published, is missing, although older snapshots exist; "
        "somebody rolled the table back or removed the snapshot. Check the table's snapshots before you compact again.",
        snapshot=number,
    )


def _write_hint(io: FileIO, table: str, number: int) -> None:
    """Write the hint LATEST unless a later snapshot exists: Java trusts a hint whose successor does not exist.

    So a late hint, written when its successor has expired already, would point to a snapshot that does not exist.
    """
    with contextlib.suppress(OSError):
        if io.stat(snapshot_path(table, number + 1)) is None:
            write_latest_hint(io, table, number)


def _read_publisher(io: FileIO, table: str, snapshot: Snapshot) -> SnapshotPublish:
    try:
        there = read_snapshot(io, table, snapshot.id)
    except (OSError, CorruptionError):
        return SnapshotPublish.UNKNOWN
    return SnapshotPublish.OURS if is_same_commit(there, snapshot) else SnapshotPublish.TAKEN


# ---- options ----


_JITTER_SHARE = 0.2  # as in Paimon
_MAX_DOUBLINGS = 62  # larger than any cap needs; keeps the number small


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryWait:
    """How long to wait before a commit is retried: doubling, capped, with jitter so that writers do not retry in step.

    The table's options ``commit.max-retries``, ``commit.min-retry-wait`` and ``commit.max-retry-wait``.
    """

    max_retries: int = 10
    min_ms: int = 10
    max_ms: int = 10_000

    def seconds(self, retry: int, *, random: float) -> float:
        """Seconds to wait before retry 0, 1, …; ``random`` is a random number in [0, 1)."""
        wait_ms = min(self.min_ms * 2 ** min(retry, _MAX_DOUBLINGS), self.max_ms)
        return wait_ms * (1 + _JITTER_SHARE * random) / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """Who commits, how often a commit is retried, and how manifests are merged."""

    user: str
    writer_version: str  # "packstone-0.1.0"
    identifier: int = BATCH_IDENTIFIER
    retry: RetryWait = field(default_factory=RetryWait)
    merge: MergeLimits = field(default_factory=MergeLimits)
    manifest_codec: str = "zstd"
    single_writer: bool = False  # no other writer uses the table during the run; required on object stores
    all_or_nothing: bool = False  # one edit that no longer fits fails all of them
    settle_seconds: float = 0.05  # how long after publishing we check again; other writers' window is milliseconds

    @classmethod
    def of(cls, options: TableOptions, *, user: str, single_writer: bool) -> CommitOptions:
        """The commit options of a table."""
        return cls(
            user=user,
            writer_version=f"packstone-{VERSION}",
            retry=RetryWait(
                max_retries=options.commit_max_retries,
                min_ms=options.commit_min_retry_wait_ms,
                max_ms=options.commit_max_retry_wait_ms,
            ),
            merge=MergeLimits(
                target_bytes=options.manifest_target_bytes,
                full_threshold_bytes=options.manifest_full_threshold_bytes,
                min_count=options.manifest_merge_min_count,
            ),
            manifest_codec=options.manifest_compression,
            single_writer=single_writer,
        )
