"""Remove expired snapshots and the files that only they need.

Which snapshots expire is Paimon's rule, ``pick_expired``:

- keep at least ``retained_min`` snapshots, and at most ``retained_max`` of those that are old enough
- a snapshot expires only if its *successor* is older than ``time_retained_ms``: whoever began to read it while it was
  the newest had that much time
- keep the snapshots that a consumer still has to read, and all after them
- at most ``limit`` expire at once

A compaction deletes nothing; its inputs are removed together with the last snapshot that could read them. The files to
remove are those that a delta after the oldest expired snapshot deletes, up to and including the delta of the first
retained one, unless the first retained snapshot, a later commit, a tag, a branch or a changelog still has them. (Paimon
checks only the nearest tag and trusts the deltas; a rollback adds files again under their old names, so we check
everything that could refer to them.)

The order of removal, and why:

    1. the hint EARLIEST moves to the first retained snapshot    new readers do not start on what is about to be
       and LATEST to the newest                                  removed; Java trusts a hint whose successor does not
                                                                 exist, so an old one would lead to an expired snapshot
    2. data files, with their extra files                        only the manifests name them, so they are removed first
    3. manifests, then the lists that name them; index files,    a list that still exists leads to the remaining files
       then their manifests; statistics
    4. snapshots, oldest first                                   as long as one exists, the next run finds the rest

If the process is killed at any point, every retained snapshot and every tag is readable, and the next run removes the
rest: it begins at the oldest snapshot file that exists, not at the hint. Empty folders are left, as Paimon does by
default.

In any doubt (an unreadable tag, an unknown branch, changelogs that outlive snapshots) nothing is removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packstone.errors import ConflictError, CorruptionError, InvalidInputError, RefusedError, storage_sentence
from packstone.model.sizes import format_duration
from packstone.tables.paimon.conflicts import read_index_entries
from packstone.tables.paimon.format.data_file import FileKind, ManifestEntry
from packstone.tables.paimon.format.manifest import read_manifest
from packstone.tables.paimon.format.manifest_list import read_manifest_list
from packstone.tables.paimon.format.paths import bucket_folders, data_file_path, extra_file_paths
from packstone.tables.paimon.format.references import (
    FileKey,
    FileReferences,
    file_key,
    list_reference_names,
    manifest_lists,
    metadata_names,
    read_references,
)
from packstone.tables.paimon.format.schema import read_latest_schema
from packstone.tables.paimon.format.snapshot import (
    list_snapshot_ids,
    read_snapshot,
    snapshot_path,
    write_earliest_hint,
    write_latest_hint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.format.references import References
    from packstone.tables.paimon.format.schema import TableSchema
    from packstone.tables.paimon.format.snapshot import Snapshot
    from packstone.tables.paimon.format.table_options import TableOptions

# With one of these set, Paimon turns an expired snapshot into a separate changelog; we do not write those.
_CHANGELOG_OPTIONS: Final = ("changelog.num-retained.min", "changelog.num-retained.max", "changelog.time-retained")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """What is to be removed, in the order of removal, and why no more snapshots expire."""

    table: str
    expired: tuple[int, ...]
    first_retained: int | None
    data_files: tuple[str, ...]
    data_bytes: int
    metadata_files: tuple[str, ...]
    why: str
    in_doubt: bool = False  # nothing is removed, because something could not be read or is unknown
    left_alone: tuple[str, ...] = ()  # unneeded files in places where we do not remove anything
    references: frozenset[str] = frozenset()

    def __str__(self) -> str:
        files = len(self.data_files)
        return f"{len(self.expired)} snapshots, {files} data files ({self.data_bytes}B): {self.why}"


def plan_expiry(io: FileIO, table: str, options: RetentionOptions, *, now_ms: int) -> ExpiryPlan:
    """Decide which snapshots expire and list every file that is removed with them; changes nothing."""
    if options.retained_max < options.retained_min:
        raise InvalidInputError(
            f"Cannot keep at most {options.retained_max} and at least {options.retained_min} snapshots."
        )
    try:
        return _Expiry(io, table).plan(options, now_ms=now_ms)
    except OSError as error:
        return _nothing(table, f"{storage_sentence(error)} Nothing is removed.", in_doubt=True)
    except (CorruptionError, RefusedError) as error:
        return _nothing(table, f"{error.message} Nothing is removed.", in_doubt=True)


def expire(io: FileIO, plan: ExpiryPlan) -> None:
    """Remove what the plan lists. After a crash, running it again or with a new plan removes the rest.

    Raises ConflictError and removes nothing if tags, branches or the first retained snapshot changed since the plan.
    """
    if plan.first_retained is None or not plan.expired:
        return
    table = plan.table
    if list_reference_names(io, table) != plan.references:
        raise ConflictError(
            f"{table}: tags, branches or changelogs changed since the plan; nothing was removed. Plan again."
        )
    if io.stat(snapshot_path(table, plan.first_retained)) is None:
        raise ConflictError(
            f"{table}: snapshot {plan.first_retained} is gone, although the plan keeps it; nothing was removed. "
            "Plan again."
        )
    write_earliest_hint(io, table, plan.first_retained)
    write_latest_hint(io, table, list_snapshot_ids(io, table)[-1])
    for path in (*plan.data_files, *plan.metadata_files):
        io.remove(path)
    for number in plan.expired:
        io.remove(snapshot_path(table, number))


class _Expiry:
    """Plans the expiry of one table from its current state."""

    def __init__(self, io: FileIO, table: str) -> None:
        self._io, self._table = io, table
        self._folder = f"{table}/manifest"

    def plan(self, options: RetentionOptions, *, now_ms: int) -> ExpiryPlan:
        schema = read_latest_schema(self._io, self._table)
        _check_changelogs(schema)
        references = read_references(self._io, self._table)
        ids = list_snapshot_ids(self._io, self._table)
        if not ids:
            return _nothing(self._table, "there is no snapshot")
        found = pick_expired(
            ids,
            time_ms=lambda number: read_snapshot(self._io, self._table, number).time_millis,
            options=options,
            now_ms=now_ms,
            next_to_consume=references.next_to_consume,
        )
        if not found.expired:
            return _nothing(self._table, found.why)
        expired = [read_snapshot(self._io, self._table, number) for number in found.expired]
        retained = [read_snapshot(self._io, self._table, number) for number in ids if number >= found.first_retained]
        data = self._data_files(expired, retained, references=references)
        paths, left = self._paths(schema, data)
        metadata, left_indexes = self._metadata(schema, expired, needed=self._needed(retained, references))
        return ExpiryPlan(
            table=self._table,
            expired=found.expired,
            first_retained=found.first_retained,
            data_files=paths,
            data_bytes=sum(entry.file.file_size for entry in data.values() if not entry.file.external_path),
            metadata_files=metadata,
            why=found.why,
            left_alone=(*left, *left_indexes),
            references=references.names,
        )

    # ---- data files --------------------------------------------------------------------------------------------------

    def _data_files(
        self, expired: list[Snapshot], retained: list[Snapshot], *, references: References
    ) -> dict[FileKey, ManifestEntry]:
        gone = self._candidates(expired, retained[0])
        if not gone:
            return gone
        lookup = FileReferences(self._io, self._table, wanted=gone.keys())
        kept = lookup.live(retained[0])
        for snapshot in retained[1:]:
            kept |= lookup.added(snapshot.delta_manifest_list)
        for snapshot in retained:
            kept |= lookup.added(snapshot.changelog_manifest_list)
        for snapshot in references.snapshots:
            kept |= lookup.live(snapshot) | lookup.added(snapshot.changelog_manifest_list)
        for name in (name for changelog in references.changelogs for name in manifest_lists(changelog)):
            kept |= lookup.added(name)
        return {key: entry for key, entry in gone.items() if key not in kept}

    def _candidates(self, expired: list[Snapshot], first_retained: Snapshot) -> dict[FileKey, ManifestEntry]:
        """Files that the deltas delete, and changelog files that only expired snapshots have."""
        gone: dict[FileKey, ManifestEntry] = {}
        for snapshot in expired[1:]:
            gone |= self._deleted_by(self._entries_if_there(snapshot.delta_manifest_list))
        gone |= self._deleted_by(self._entries(first_retained.delta_manifest_list))
        for snapshot in expired:
            for entry in self._entries_if_there(snapshot.changelog_manifest_list):
                if entry.kind is FileKind.ADD:
                    gone[file_key(entry)] = entry
        return gone

    def _deleted_by(self, entries: Iterable[ManifestEntry]) -> dict[FileKey, ManifestEntry]:
        """Files whose last entry is a DELETE: an ADD after it means that the file only moved to another level."""
        gone: dict[FileKey, ManifestEntry] = {}
        for entry in entries:
            if entry.kind is FileKind.DELETE:
                gone[file_key(entry)] = entry
            else:
                gone.pop(file_key(entry), None)
        return gone

    def _paths(
        self, schema: TableSchema, data: dict[FileKey, ManifestEntry]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        paths: list[str] = []
        left: list[str] = []
        for entry in data.values():
            if entry.file.external_path:
                left.append(entry.file.external_path)
                continue
            folders = bucket_folders(self._table, schema, partition=entry.partition, bucket=entry.bucket)
            if len(folders) > 1:  # the folder may be spelled in either of two ways
                folders = tuple(at for at in folders if self._io.stat(data_file_path(at, entry.file)) is not None)
            for folder in folders:
                paths += [*extra_file_paths(folder, entry.file), data_file_path(folder, entry.file)]
        return tuple(paths), tuple(left)

    # ---- metadata ----------------------------------------------------------------------------------------------------

    def _needed(self, retained: list[Snapshot], references: References) -> set[str]:
        keepers = (*retained, *references.snapshots, *references.changelogs)
        return {name for snapshot in keepers for name in metadata_names(self._io, self._table, snapshot)}

    def _metadata(
        self, schema: TableSchema, expired: list[Snapshot], *, needed: set[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The metadata files that only expired snapshots need, each before the file that names it."""
        named: dict[str, None] = {}  # in order, each once
        naming: dict[str, None] = {}
        left: list[str] = []
        for snapshot in expired:
            for list_name in manifest_lists(snapshot):
                path = f"{self._folder}/{list_name}"
                if list_name in needed or self._io.stat(path) is None:
                    continue
                for meta in read_manifest_list(self._io, path):
                    if meta.file_name not in needed:
                        named[f"{self._folder}/{meta.file_name}"] = None
                naming[path] = None
            if snapshot.index_manifest is not None and snapshot.index_manifest not in needed:
                files, elsewhere = self._index_files(schema, snapshot, needed=needed)
                named |= dict.fromkeys(files)
                left += elsewhere
                naming[f"{self._folder}/{snapshot.index_manifest}"] = None
            if snapshot.statistics is not None and snapshot.statistics not in needed:
                named[f"{self._table}/statistics/{snapshot.statistics}"] = None
        return (*named, *naming), tuple(dict.fromkeys(left))

    def _index_files(self, schema: TableSchema, snapshot: Snapshot, *, needed: set[str]) -> tuple[list[str], list[str]]:
        if self._io.stat(f"{self._folder}/{snapshot.index_manifest}") is None:
            return [], []
        beside_data = (schema.option("index-file-in-data-file-dir") or "false").lower() == "true"
        files: list[str] = []
        left: list[str] = []
        for entry in read_index_entries(self._io, self._table, snapshot):
            if entry.file_name in needed:
                continue
            if beside_data or entry.external_path:
                left.append(entry.external_path or entry.file_name)
            else:
                files.append(f"{self._table}/index/{entry.file_name}")
        return files, left

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _entries(self, list_name: str) -> Iterator[ManifestEntry]:
        for meta in read_manifest_list(self._io, f"{self._folder}/{list_name}"):
            yield from read_manifest(self._io, f"{self._folder}/{meta.file_name}", lean=True)

    def _entries_if_there(self, list_name: str | None) -> Iterator[ManifestEntry]:
        """Entries of an expired snapshot; a missing manifest was removed, after its data files, by a killed run."""
        if list_name is None or self._io.stat(f"{self._folder}/{list_name}") is None:
            return
        for meta in read_manifest_list(self._io, f"{self._folder}/{list_name}"):
            path = f"{self._folder}/{meta.file_name}"
            if self._io.stat(path) is not None:
                yield from read_manifest(self._io, path, lean=True)


def _check_changelogs(schema: TableSchema) -> None:
    for name in _CHANGELOG_OPTIONS:
        if schema.option(name) is not None:
            raise RefusedError(
                f"The table keeps changelogs longer than snapshots ({name}); expire its snapshots with Paimon itself."
            )


def _nothing(table: str, why: str, *, in_doubt: bool = False) -> ExpiryPlan:
    return ExpiryPlan(
        table=table,
        expired=(),
        first_retained=None,
        data_files=(),
        data_bytes=0,
        metadata_files=(),
        why=why,
        in_doubt=in_doubt,
    )


# ---- retention ----


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """The options ``snapshot.num-retained.min`` and ``.max``, ``snapshot.time-retained``, ``snapshot.expire.limit``."""

    retained_min: int = 10
    retained_max: int = 2**31 - 1
    time_retained_ms: int = 3_600_000
    limit: int = 50

    @classmethod
    def of(cls, options: TableOptions) -> RetentionOptions:
        """The retention options of a table."""
        return cls(
            retained_min=options.snapshot_retained_min,
            retained_max=options.snapshot_retained_max,
            time_retained_ms=options.snapshot_time_retained_ms,
            limit=options.snapshot_expire_limit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expirable:
    """The snapshots that may be removed, oldest first, the first one that stays, and why no more expire."""

    expired: tuple[int, ...]
    first_retained: int
    why: str


def pick_expired(
    ids: Sequence[int],
    *,
    time_ms: Callable[[int], int],
    options: RetentionOptions,
    now_ms: int,
    next_to_consume: int | None = None,
) -> Expirable:
    """Choose the expired snapshots; pure. ``ids`` is not empty; ``time_ms`` returns when a snapshot was committed."""
    earliest, latest = ids[0], ids[-1]
    bounds = [
        (latest - max(options.retained_min, 1) + 1, _always_kept(max(options.retained_min, 1))),
        (earliest + options.limit, f"at most {options.limit} expire at once"),
    ]
    if next_to_consume is not None:
        bounds.append((next_to_consume, f"a consumer has not read snapshot {next_to_consume} yet"))
    end, why = min(bounds)
    for snapshot_id in (at for at in ids if max(latest - options.retained_max + 1, earliest) <= at < end):
        following = next((at for at in ids if at > snapshot_id), latest)
        if now_ms - options.time_retained_ms <= time_ms(following):
            end, why = (
                snapshot_id,
                f"snapshot {following} is younger than {format_duration(options.time_retained_ms / 1000)}",
            )
            break
    expired = tuple(at for at in ids if at < end)
    first = next(at for at in ids if at >= end) if end > earliest else earliest
    return Expirable(expired=expired, first_retained=first, why=why)


def _always_kept(count: int) -> str:
    return "the newest snapshot is always kept" if count == 1 else f"{count} snapshots are always kept"
