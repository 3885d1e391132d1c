"""One attempt at a commit, up to the point where it is published: its manifests, its lists, its snapshot.

All of it has names of its own, written down before it is created, and nothing refers to it until the snapshot has its
number. So an attempt that fails for certain is wiped out, and one whose outcome is unknown is left to ``leftovers``.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError
from packstone.tables.paimon.index_manifest import write_index_manifest
from packstone.tables.paimon.manifest import read_manifest, write_manifests
from packstone.tables.paimon.manifest_entry import FileKind
from packstone.tables.paimon.manifest_list import read_all_manifests, write_manifest_list
from packstone.tables.paimon.manifest_merge import merge_manifests
from packstone.tables.paimon.snapshot import CommitKind, Snapshot
from packstone.tables.paimon.touched import read_index_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packstone.runs.clock import Clock
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.commit_options import CommitOptions
    from packstone.tables.paimon.edit import Edit
    from packstone.tables.paimon.manifest_entry import ManifestEntry
    from packstone.tables.paimon.manifest_file_meta import ManifestFileMeta
    from packstone.tables.paimon.table_schema import TableSchema

# The one property that outlives a commit: writers that number rows by snapshot start from it.
_MAX_SEQUENCE: Final = "sequence.generation.max-sequence-number"
_NAMES_AT_ONCE: Final = 16  # one record for so many manifests


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Manifests of the base, and what took their place."""

    before: tuple[ManifestFileMeta, ...]
    after: tuple[ManifestFileMeta, ...]

    @property
    def created(self) -> tuple[str, ...]:
        """Names of the new ones."""
        known = {meta.file_name for meta in self.before}
        return tuple(meta.file_name for meta in self.after if meta.file_name not in known)

    def apply(self, manifests: tuple[ManifestFileMeta, ...]) -> tuple[ManifestFileMeta, ...] | None:
        """Put it in the place of the same manifests of a later snapshot; None if they are not its first ones."""
        if manifests[: len(self.before)] != self.before:
            return None
        return self.after + manifests[len(self.before) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A snapshot with all that it needs, written but not published."""

    snapshot: Snapshot
    merged: Merged
    created: tuple[str, ...]  # paths, without those of ``merged``


class DraftWriter:
    """Writes the drafts of one commit."""

    def __init__(
        self,
        io: FileIO,
        table: str,
        *,
        options: CommitOptions,
        clock: Clock,
        record: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._io, self._table = io, table
        self._options, self._clock, self._record = options, clock, record
        self._folder = f"{table}/manifest"
        self._uuid = clock.new_id()  # of the snapshot, the same in all attempts: by it we find it again
        self._merged: Merged | None = None  # of an attempt that failed, to be used again
        self._may_merge = True

    def write(self, base: Snapshot, edits: tuple[Edit, ...], *, schema: TableSchema) -> Draft:
        """Write the manifests of an attempt; what was written is removed again if that fails."""
        names = _Names(self._folder, self._clock, record=self._record)
        try:
            merged = self._merge(base, schema, names)
            base_list = self._write_list(merged.after, names)
            delta = self._write(chain.from_iterable(edit.entries() for edit in edits), names, schema)
            delta_list = self._write_list(delta, names)
            snapshot = replace(
                self._snapshot(base, edits, schema=schema, lists=(base_list, delta_list)),
                index_manifest=self._index_manifest(base, edits, names),
            )
        except BaseException:
            self._remove(names.given)
            raise
        self._merged, self._may_merge = merged, False
        kept = {f"{self._folder}/{name}" for name in merged.created}
        return Draft(snapshot=snapshot, merged=merged, created=tuple(path for path in names.given if path not in kept))

    def discard(self, draft: Draft) -> None:
        """Remove a draft that certainly was not published; merged manifests are kept for the next attempt."""
        self._remove(draft.created)
        self._merged = draft.merged

    def keep(self) -> None:
        """Never remove what the last draft needs: it may be published."""
        self._merged = None

    def close(self) -> None:
        """Remove merged manifests that no draft will use any more."""
        if self._merged is not None:
            self._remove(f"{self._folder}/{name}" for name in self._merged.created)
            self._merged = None

    def _merge(self, base: Snapshot, schema: TableSchema, names: _Names) -> Merged:
        """Merge in the first attempt only: a loser of races must be quick, not thorough."""
        manifests = read_all_manifests(self._io, self._table, base)
        if self._merged is not None:
            after = self._merged.apply(manifests)
            if after is not None:
                return Merged(before=manifests, after=after)
            self.close()
        if not self._may_merge:
            return Merged(before=manifests, after=manifests)
        try:
            after = merge_manifests(
                manifests,
                self._options.merge,
                read=lambda meta: read_manifest(self._io, f"{self._folder}/{meta.file_name}"),
                scan=lambda meta: read_manifest(self._io, f"{self._folder}/{meta.file_name}", lean=True),
                write=lambda entries: self._write(entries, names, schema),
            )
        except CorruptionError:
            return Merged(before=manifests, after=manifests)  # merging is no reason to fail a commit
        return Merged(before=manifests, after=after)

    def _write(
        self, entries: Iterable[ManifestEntry], names: _Names, schema: TableSchema
    ) -> tuple[ManifestFileMeta, ...]:
        return write_manifests(
            self._io,
            self._folder,
            entries,
            names=names.manifests(),
            partition_types=schema.partition_types,
            target_bytes=self._options.merge.target_bytes,
            codec=self._options.manifest_codec,
        )

    def _write_list(self, metas: tuple[ManifestFileMeta, ...], names: _Names) -> tuple[str, int]:
        return write_manifest_list(
            self._io, self._folder, metas, name=names.manifest_list(), codec=self._options.manifest_codec
        )

    def _snapshot(
        self,
        base: Snapshot,
        edits: tuple[Edit, ...],
        *,
        schema: TableSchema,
        lists: tuple[tuple[str, int], tuple[str, int]],
    ) -> Snapshot:
        (base_list, base_size), (delta_list, delta_size) = lists
        delta_rows = sum(edit.delta_rows for edit in edits)
        return Snapshot(
            id=base.id + 1,
            uuid=self._uuid,
            schema_id=schema.id,
            base_manifest_list=base_list,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_list,
            delta_manifest_list_size=delta_size,
            commit_user=self._options.user,
            writer_version=self._options.writer_version,
            commit_identifier=self._options.identifier,
            commit_kind=CommitKind.COMPACT,
            time_millis=self._clock.now_ms(),
            total_record_count=self._total_rows(base) + delta_rows,
            delta_record_count=delta_rows,
            watermark=base.watermark,
            statistics=self._statistics(base, schema),
            properties=_properties(base, edits),
            next_row_id=base.next_row_id or 0,
            unknown=base.unknown,
        )

    def _index_manifest(self, base: Snapshot, edits: tuple[Edit, ...], names: _Names) -> str | None:
        """Take consumed deletion vectors out of the index manifest; otherwise it goes on as it is."""
        gone = {name for edit in edits for name in edit.index_files}
        if not gone:
            return base.index_manifest
        left = [entry for entry in read_index_entries(self._io, self._table, base) if entry.file_name not in gone]
        if not left:
            return None
        name = names.index_manifest()
        write_index_manifest(self._io, self._folder, left, name=name, codec=self._options.manifest_codec)
        return name

    def _total_rows(self, base: Snapshot) -> int:
        if base.total_record_count is not None:
            return base.total_record_count
        # A writer of long ago did not count.
        rows = 0
        for meta in read_all_manifests(self._io, self._table, base):
            for entry in read_manifest(self._io, f"{self._folder}/{meta.file_name}", lean=True):
                rows += entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
        return rows

    def _statistics(self, base: Snapshot, schema: TableSchema) -> str | None:
        """Keep the table's statistics if they are of the present schema; optimisers do without what is in doubt."""
        if base.statistics is None:
            return None
        try:
            content = json.loads(self._io.read_bytes(f"{self._table}/statistics/{base.statistics}"))
        except (OSError, ValueError):
            return None
        is_present = isinstance(content, dict) and content.get("schemaId") == schema.id
        return base.statistics if is_present else None

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(OSError):  # its name is on record; it will go later
                self._io.remove(path)


class _Names:
    """Names of one attempt, each on record before it is given out."""

    def __init__(self, folder: str, clock: Clock, *, record: Callable[[tuple[str, ...]], None]) -> None:
        self._folder, self._record = folder, record
        self._id = clock.new_id()
        self._reserved = 0
        self._lists = 0
        self._manifests = 0
        self.given: list[str] = []

    def manifest_list(self) -> str:
        """Name the next manifest list."""
        if self._reserved == 0:
            self._reserve()
        name = f"manifest-list-{self._id}-{self._lists}"
        self._lists += 1
        return self._give(name)

    def index_manifest(self) -> str:
        """Name the index manifest."""
        return self._give(f"index-manifest-{self._id}-0")

    def manifests(self) -> Iterator[str]:
        """Name manifests, one after the other."""
        while True:
            if self._manifests >= self._reserved:
                self._reserve()
            self._manifests += 1
            yield self._give(f"manifest-{self._id}-{self._manifests - 1}")

    def _reserve(self) -> None:
        numbers = range(self._reserved, self._reserved + _NAMES_AT_ONCE)
        names = [f"manifest-{self._id}-{number}" for number in numbers]
        if self._reserved == 0:
            names += [f"manifest-list-{self._id}-{number}" for number in range(2)]
            names += [f"index-manifest-{self._id}-0"]
        self._record(tuple(f"{self._folder}/{name}" for name in names))
        self._reserved += _NAMES_AT_ONCE

    def _give(self, name: str) -> str:
        self.given.append(f"{self._folder}/{name}")
        return name


def _properties(base: Snapshot, edits: tuple[Edit, ...]) -> tuple[tuple[str, str], ...] | None:
    """Carry the largest sequence number on, if somebody keeps it there; all other properties belong to their commit."""
    for name, value in base.properties or ():
        if name == _MAX_SEQUENCE:
            added = (file.max_sequence_number for edit in edits for file in edit.after)
            return ((name, str(max((int(value), *added)))),)
    return None
