"""Commit edits as one COMPACT snapshot: optimistic, exclusive, told apart from everybody else's.

    1. read the newest snapshot, and what it says of the touched buckets
    2. take out the edits that do not fit it any more; the caller plans their buckets again
    3. write manifests and lists under names of their own, then publish ``snapshot-<newest + 1>`` exclusively
    4. somebody was quicker: wait, and again from 1; the outcome is unknown: first look whether it is there

Nothing of the table is ever changed or removed: inputs stay until expiry.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from packstone.tables.paimon.bucket_view import key_order
from packstone.tables.paimon.conflicts import BucketConflict, Touched, file_line, find_conflicts
from packstone.tables.paimon.draft import DraftWriter
from packstone.tables.paimon.edit import check_edits
from packstone.tables.paimon.manifest import UNREAD_STATS
from packstone.tables.paimon.paths import bucket_folders, data_file_path
from packstone.tables.paimon.publish import (
    Publish,
    Published,
    check_can_publish,
    check_published,
    find_ours,
    publish_snapshot,
)
from packstone.tables.paimon.snapshot_files import read_latest_snapshot
from packstone.tables.paimon.table_schema import read_latest_schema
from packstone.tables.paimon.touched import TouchedReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packstone.runs.clock import Clock
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.commit_options import CommitOptions
    from packstone.tables.paimon.data_file_meta import DataFileMeta
    from packstone.tables.paimon.draft import Draft
    from packstone.tables.paimon.edit import BucketId, Edit
    from packstone.tables.paimon.snapshot import Snapshot
    from packstone.tables.paimon.table_schema import TableSchema

_SNAPSHOT_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReport:
    """What became of the edits."""

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

    ``earlier`` are the snapshots that this run published before: each is read again, because we build on them.
    ConflictError: every race was lost, or an earlier snapshot was replaced; nothing of these edits was published, so
    their outputs may go. CommitUnknownError: look before you retry, the message says at what; the outputs must stay.
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
        self._unknown: Draft | None = None  # published or not, we could not find out

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
        # After the base is read: a snapshot of ours that appears later than this makes the next number taken.
        ours = self._look_for_unknown(base)
        if ours is not None:
            return self._finish(ours, number)
        if base.version is not None and base.version > _SNAPSHOT_VERSION:
            raise RefusedError(f"{base} of {self._table} has format {base.version}, which is too new for packstone.")
        try:
            draft = self._draft(base)
        except CorruptionError:
            if self._is_expired(base):
                return None  # while we read it; not a broken table, but a slow reader
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
        self._conflicts.extend(conflicts)
        lost = {(conflict.partition, conflict.bucket) for conflict in conflicts}
        self._edits = tuple(edit for edit in self._edits if edit.bucket_id not in lost)

    def _find_missing(self, schema: TableSchema) -> tuple[BucketConflict, ...]:
        """Look for every output before a manifest names it: what is published without its files is a broken table."""
        found = []
        for edit in self._edits:
            folders = bucket_folders(self._table, schema, partition=edit.partition, bucket=edit.bucket)
            known = {file.file_name for file in edit.before}
            for file in edit.after:
                if file.file_name not in known and not _is_there(self._io, folders, file):
                    why = f"the output {file.file_name} is not there, or not of {file.file_size} bytes"
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
        # From here on until we know better it may be published, whatever interrupts us: nothing of it is removed.
        self._writer.keep()
        self._unknown = draft
        match publish_snapshot(self._io, self._table, draft.snapshot):
            case Publish.OURS:
                return self._finish(draft.snapshot, number)
            case Publish.TAKEN:
                self._unknown = None
                self._writer.discard(draft)
            case Publish.UNKNOWN:
                pass
        return None

    def _look_for_unknown(self, base: Snapshot) -> Snapshot | None:
        if self._unknown is None:
            return None
        ours = find_ours(self._io, self._table, self._unknown.snapshot)
        if ours is None and base.id >= self._unknown.snapshot.id:
            self._writer.discard(self._unknown)  # its number is somebody else's, so it never was and never will be
            self._unknown = None
        return ours

    def _finish(self, snapshot: Snapshot, number: int) -> CommitReport:
        published = Published(snapshot_id=snapshot.id, uuid=snapshot.uuid or "")
        try:
            check_published(self._io, self._table, published)
            self._clock.sleep(self._options.settle_seconds)
            check_published(self._io, self._table, published)
        except ConflictError as conflict:
            # Somebody may have read ours before it was replaced and be building on it: its files must stay.
            raise CommitUnknownError(conflict.message, **conflict.facts) from conflict
        except OSError as error:
            raise CommitUnknownError(
                f"{self._table}: {published} was published but cannot be read again ({error}); look at it before you "
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
    """Take the inputs as the table has them: a plan may have been made without their statistics."""
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
