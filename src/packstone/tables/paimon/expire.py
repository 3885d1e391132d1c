"""Remove snapshots that are over, and the files that nobody else needs.

A compaction deletes nothing; its inputs go when the last snapshot that could read them goes. Which files: those that a
delta after the oldest expired snapshot deletes, up to and including the first retained one's, unless the first retained
snapshot, a later commit, a tag, a branch or a changelog still has them. (Paimon looks only at the nearest tag and
trusts the deltas; a rollback brings files back under their old names, so we look at everybody who could have them.)

Order, and why:

    1. the hint EARLIEST moves to the first retained snapshot    new readers do not start on what is about to go;
       and LATEST to the newest                                  Java believes one whose successor does not exist, so
                                                                 one that lags behind would lead to an expired snapshot
    2. data files, with their extra files                        their names are only in the manifests, so they go first
    3. manifests, then the lists that name them; index files,    a list that is still there leads to what is left
       then their manifests; statistics
    4. snapshots, oldest first                                   as long as one is there, the next run finds the rest

Killed anywhere, every retained snapshot and every tag is readable, and the next run removes the rest: it begins at the
oldest snapshot file that exists, not at the hint. Empty folders are left, as Paimon does by default.

On any doubt (an unreadable tag, an unknown branch, changelogs that outlive snapshots) nothing is removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packstone.errors import ConflictError, CorruptionError, InvalidInputError, RefusedError, storage_sentence
from packstone.tables.paimon.manifest import read_manifest
from packstone.tables.paimon.manifest_entry import FileKind, ManifestEntry
from packstone.tables.paimon.manifest_list import read_manifest_list
from packstone.tables.paimon.mentions import FileKey, Mentions, file_key, manifest_lists, metadata_names
from packstone.tables.paimon.paths import bucket_folders, data_file_path, extra_file_paths
from packstone.tables.paimon.protectors import list_protector_names, read_protectors
from packstone.tables.paimon.retention import RetentionOptions, pick_expired
from packstone.tables.paimon.snapshot_files import (
    list_snapshot_ids,
    read_snapshot,
    snapshot_path,
    write_earliest_hint,
    write_latest_hint,
)
from packstone.tables.paimon.table_schema import read_latest_schema
from packstone.tables.paimon.touched import read_index_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.protectors import Protectors
    from packstone.tables.paimon.snapshot import Snapshot
    from packstone.tables.paimon.table_schema import TableSchema

# With one of these set, Paimon turns an expired snapshot into a changelog of its own; we do not write those.
_CHANGELOG_OPTIONS: Final = ("changelog.num-retained.min", "changelog.num-retained.max", "changelog.time-retained")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryPlan:
    """What would go, in the order in which it goes, and why no more."""

    table: str
    expired: tuple[int, ...]
    first_retained: int | None
    data_files: tuple[str, ...]
    data_bytes: int
    metadata_files: tuple[str, ...]
    why: str
    in_doubt: bool = False  # nothing goes, because something could not be read or is not understood
    left_alone: tuple[str, ...] = ()  # files that would go but stand where we do not remove anything
    protectors: frozenset[str] = frozenset()

    def __str__(self) -> str:
        files = len(self.data_files)
        return f"{len(self.expired)} snapshots, {files} data files ({self.data_bytes}B): {self.why}"


def plan_expiry(io: FileIO, table: str, options: RetentionOptions, *, now_ms: int) -> ExpiryPlan:
    """Decide which snapshots go and list every file that goes with them; nothing is changed."""
    if options.retained_max < options.retained_min:
        raise InvalidInputError(
            f"At most {options.retained_max} and at least {options.retained_min} snapshots cannot both be kept."
        )
    try:
        return _Expiry(io, table).plan(options, now_ms=now_ms)
    except OSError as error:
        return _nothing(table, f"{storage_sentence(error)} Nothing is removed.", in_doubt=True)
    except (CorruptionError, RefusedError) as error:
        return _nothing(table, f"{error.message} Nothing is removed.", in_doubt=True)


def expire(io: FileIO, plan: ExpiryPlan) -> None:
    """Remove what the plan lists. Running it again after a crash, or after a new plan, removes the rest.

    ConflictError, and nothing is removed, if tags, branches or the first retained snapshot changed since the plan.
    """
    if plan.first_retained is None or not plan.expired:
        return
    table = plan.table
    if list_protector_names(io, table) != plan.protectors:
        raise ConflictError(f"{table}: tags, branches or changelogs changed since the plan; nothing was removed.")
    if io.stat(snapshot_path(table, plan.first_retained)) is None:
        raise ConflictError(f"{table}: snapshot {plan.first_retained} is gone since the plan; nothing was removed.")
    write_earliest_hint(io, table, plan.first_retained)
    write_latest_hint(io, table, list_snapshot_ids(io, table)[-1])
    for path in (*plan.data_files, *plan.metadata_files):
        io.remove(path)
    for number in plan.expired:
        io.remove(snapshot_path(table, number))


class _Expiry:
    """One look at a table."""

    def __init__(self, io: FileIO, table: str) -> None:
        self._io, self._table = io, table
        self._folder = f"{table}/manifest"

    def plan(self, options: RetentionOptions, *, now_ms: int) -> ExpiryPlan:
        schema = read_latest_schema(self._io, self._table)
        _check_changelogs(schema)
        protectors = read_protectors(self._io, self._table)
        ids = list_snapshot_ids(self._io, self._table)
        if not ids:
            return _nothing(self._table, "there is no snapshot")
        found = pick_expired(
            ids,
            time_ms=lambda number: read_snapshot(self._io, self._table, number).time_millis,
            options=options,
            now_ms=now_ms,
            next_to_consume=protectors.next_to_consume,
        )
        if not found.expired:
            return _nothing(self._table, found.why)
        expired = [read_snapshot(self._io, self._table, number) for number in found.expired]
        retained = [read_snapshot(self._io, self._table, number) for number in ids if number >= found.first_retained]
        data = self._data_files(expired, retained, protectors=protectors)
        paths, left = self._paths(schema, data)
        metadata, left_indexes = self._metadata(schema, expired, needed=self._needed(retained, protectors))
        return ExpiryPlan(
            table=self._table,
            expired=found.expired,
            first_retained=found.first_retained,
            data_files=paths,
            data_bytes=sum(entry.file.file_size for entry in data.values() if not entry.file.external_path),
            metadata_files=metadata,
            why=found.why,
            left_alone=(*left, *left_indexes),
            protectors=protectors.names,
        )

    # ---- data files --------------------------------------------------------------------------------------------------

    def _data_files(
        self, expired: list[Snapshot], retained: list[Snapshot], *, protectors: Protectors
    ) -> dict[FileKey, ManifestEntry]:
        gone = self._candidates(expired, retained[0])
        if not gone:
            return gone
        mentions = Mentions(self._io, self._table, wanted=gone.keys())
        kept = mentions.live(retained[0])
        for snapshot in retained[1:]:
            kept |= mentions.added(snapshot.delta_manifest_list)
        for snapshot in retained:
            kept |= mentions.added(snapshot.changelog_manifest_list)
        for snapshot in protectors.snapshots:
            kept |= mentions.live(snapshot) | mentions.added(snapshot.changelog_manifest_list)
        for name in (name for changelog in protectors.changelogs for name in manifest_lists(changelog)):
            kept |= mentions.added(name)
        return {key: entry for key, entry in gone.items() if key not in kept}

    def _candidates(self, expired: list[Snapshot], first_retained: Snapshot) -> dict[FileKey, ManifestEntry]:
        """Collect what the deltas delete, and the changelogs that only expired snapshots have."""
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
        """Those whose last line is a DELETE: an ADD after it means that the file only moved to another level."""
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
            if len(folders) > 1:  # spelled in one way or the other
                folders = tuple(at for at in folders if self._io.stat(data_file_path(at, entry.file)) is not None)
            for folder in folders:
                paths += [*extra_file_paths(folder, entry.file), data_file_path(folder, entry.file)]
        return tuple(paths), tuple(left)

    # ---- metadata ----------------------------------------------------------------------------------------------------

    def _needed(self, retained: list[Snapshot], protectors: Protectors) -> set[str]:
        keepers = (*retained, *protectors.snapshots, *protectors.changelogs)
        return {name for snapshot in keepers for name in metadata_names(self._io, self._table, snapshot)}

    def _metadata(
        self, schema: TableSchema, expired: list[Snapshot], *, needed: set[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Name the files of expired snapshots that nobody needs, each before the file that names it."""
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
        """Of an expired snapshot: what is missing was removed by a run that was killed, after its data files."""
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
