"""Publish one partition of a run: claim it, list it again, record the intent, swap or relocate."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packstone.errors import ConflictError, RefusedError
from packstone.runs import owner as ownership
from packstone.runs.clock import now_seconds
from packstone.runs.owner import Owner
from packstone.storage.fileio import EntryKind
from packstone.storage.location import parse_location
from packstone.tables.hive.journal import OutputFile, Relocation, SwapIntent
from packstone.tables.hive.listing import SUMMARY_NAMES, list_again
from packstone.tables.hive.recover import find_unfinished
from packstone.tables.hive.swap import commit_swap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.model.files import FileEntry
    from packstone.model.unit import StagedFile, UnitResult, UnitSpec
    from packstone.runs.folder import Run
    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.hive.journal import Journal
    from packstone.tables.hive.listing import PartitionListing
    from packstone.tables.hive.options import HiveOptions
    from packstone.tables.hive.relocate import LocationPublish

_DAY_SECONDS = 86_400


@dataclass(slots=True)
class Claims:
    """The partitions that a run owns."""

    journal: Journal
    run: Run
    _numbers: dict[str, int] = field(default_factory=dict)

    def claim(self, partition: str) -> None:
        """Own a partition; ConflictError if a live run owns it, or a run died in the middle of a swap there."""
        if partition in self._numbers:
            return
        io, layout = self.journal.io, self.journal.layout
        folder, what = layout.owners(partition), layout.directory(partition)
        self._numbers[partition], before = ownership.succeed(
            io, folder, self.run.owner, what=what, now_seconds=self.run.store_now(), take_over=self.run.take_over
        )
        if before is None or (isinstance(before, Owner) and before.is_clean):
            return
        # We recovered the table when we began, but the owner may have died since; then our listing shows half a swap.
        dead = find_unfinished(self.journal, partition, besides=self.run.id)
        if dead is not None:
            self.release(partition, unfinished=True)
            raise ConflictError(f"{what} was left half-way by run {dead}; run `packstone recover`, then try again.")

    def check_owned(self, partition: str) -> None:
        """ConflictError if another run took the partition over."""
        self.run.check_not_fenced()
        layout = self.journal.layout
        folder, what = layout.owners(partition), layout.directory(partition)
        ownership.check_owned(self.journal.io, folder, self._numbers[partition], what=what)

    def release(self, partition: str, *, unfinished: bool = False) -> None:
        """Give up ownership of a partition."""
        number = self._numbers.pop(partition, None)
        if number is not None:
            folder = self.journal.layout.owners(partition)
            ownership.release(self.journal.io, folder, number=number, owner=self.run.owner, unfinished=unfinished)

    def release_all(self, *, unfinished: bool = False) -> None:
        """Give up ownership of all partitions."""
        for partition in list(self._numbers):
            self.release(partition, unfinished=unfinished)


def second_listing(journal: Journal, before: PartitionListing) -> PartitionListing:
    """List a partition again, as late as possible; ConflictError if it was dropped."""
    try:
        return list_again(journal.io, journal.layout.root, before, now_seconds=now_seconds())
    except FileNotFoundError:
        raise ConflictError(f"{before.directory} was removed while it was being merged.") from None


def commit_partition(
    claims: Claims,
    listing: PartitionListing,
    *,
    written: list[UnitSpec],
    results: Mapping[int, UnitResult[StagedFile]],
    number: int,
    options: HiveOptions,
    publish: LocationPublish | None = None,
    copied: Mapping[FileEntry, str] | None = None,
) -> float:
    """Swap a partition's merged files in, or publish a new folder; return the milliseconds readers could see a gap."""
    journal, run = claims.journal, claims.run.id
    claims.check_owned(listing.partition)
    again = second_listing(journal, listing)
    if again.writing is not None:
        raise ConflictError(f"{again.writing}; nothing was changed there")
    if again.refused is not None:
        raise ConflictError(f"{listing.directory} must no longer be merged: {again.refused}")
    if publish is not None:
        # Only copies of files that are unchanged since.
        now = {file.name: (copied or {})[file] for file in again.files if file in (copied or {})}
        merged = _Merged(written=written, results=results, copied=now)
        return _publish_folder(claims, again, merged=merged, options=options, publish=publish)
    backup = journal.layout.backup(run, backup_root=options.backup_root)
    intent = SwapIntent(
        run=run,
        number=number,
        partition=listing.partition,
        directory=listing.directory,
        backup_directory=f"{backup}/{listing.partition}".rstrip("/"),
        inputs=tuple(file for spec in written for file in spec.inputs),
        outputs=tuple(_output(spec, results[spec.number]) for spec in written),
        summaries=_summaries(journal, listing),
        keep_until=now_seconds() + options.keep_days * _DAY_SECONDS,
    )
    return commit_swap(
        journal,
        intent,
        now_seconds=now_seconds(),
        check_ours=lambda: claims.check_owned(listing.partition),
    )


def check_same_folder(io: FileIO, directory: str, *, before: Entry | None) -> None:
    """ConflictError if a partition's folder was replaced since it was read: a symbolic link would lead elsewhere."""
    now = io.stat(directory)
    if now is None or before is None:
        raise ConflictError(f"{directory} was removed while it was being merged.")
    if now.kind is not EntryKind.DIRECTORY or (now.kind, now.identity) != (before.kind, before.identity):
        raise ConflictError(f"{directory} was exchanged for another {now.kind} while it was being merged.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merged:
    """The staged files of a new folder."""

    written: list[UnitSpec]
    results: Mapping[int, UnitResult[StagedFile]]
    copied: Mapping[str, str]


def _publish_folder(
    claims: Claims,
    listing: PartitionListing,
    *,
    merged: _Merged,
    options: HiveOptions,
    publish: LocationPublish,
) -> float:
    from packstone.tables.hive.relocate import commit_relocation, new_location

    journal, run = claims.journal, claims.run.id
    name = listing.facts.name if listing.facts is not None else ""
    old = publish.catalog.read_location(publish.table, name)
    if old is None or parse_location(old).path != listing.directory:
        raise ConflictError(f"{publish.table} {name or 'itself'} is no longer at {listing.directory}.")
    inputs = tuple(file for spec in merged.written for file in spec.inputs)
    names = {file.name for file in inputs}
    last = listing.partition or posixpath.basename(journal.layout.root)
    folder = f"{journal.layout.versions}/{run}/{last}"
    intent = SwapIntent(
        run=run,
        number=1,
        partition=listing.partition,
        directory=listing.directory,
        backup_directory=listing.directory,
        inputs=inputs,
        outputs=tuple(_output(spec, merged.results[spec.number]) for spec in merged.written),
        summaries=(),
        keep_until=now_seconds() + options.keep_days * _DAY_SECONDS,
        switch=Relocation(
            table=publish.table,
            name=name,
            old_location=old,
            new_location=new_location(old, listing.directory, folder),
            folder=folder,
            copies=tuple(file for file in listing.files if file.name not in names),
        ),
    )
    return commit_relocation(
        journal,
        intent,
        catalog=publish.catalog,
        now_seconds=now_seconds(),
        check_ours=lambda: claims.check_owned(listing.partition),
        copied=merged.copied,
    )


def check_backup_root(journal: Journal, backup_root: str | None, *, run: str) -> None:
    """Refuse a backup folder on another store than the table's (originals are renamed), or inside the table."""
    if backup_root is None:
        return
    io, root = journal.io, journal.layout.root
    if io.store_id(backup_root) != io.store_id(root):
        raise RefusedError(
            f"The backup folder {backup_root} is on another file system than {root}; originals are moved, not copied."
        )
    # Also through the table's name, which is part of the path: backup=/lake for /lake/orders.
    folder = journal.layout.backup(run, backup_root=backup_root)
    if f"{backup_root}/".startswith(f"{root}/") or folder.startswith(f"{root}/"):
        raise RefusedError(
            f"The backup folder {backup_root} lies inside the table, where readers would find the originals."
        )


def _output(spec: UnitSpec, result: UnitResult[StagedFile]) -> OutputFile:
    (staged,) = result.outputs
    return OutputFile(
        staged_path=staged.path,
        name=spec.output_name,
        size_bytes=staged.size_bytes,
        mtime_ns=staged.mtime_ns,
        rows=result.rows_out,
        fingerprint=result.fingerprint,
        verified=spec.verify,
        how=result.how,
        header_lines=spec.header_lines,
        inputs=tuple(file.name for file in spec.inputs),
        ordered=staged.ordered,
        copied_columns=staged.copied_columns,
        file_format=spec.file_format,
        why=spec.why,
        seconds=result.seconds,
        read_seconds_before=result.read_seconds_before,
        read_seconds_after=result.read_seconds_after,
    )


def _summaries(journal: Journal, listing: PartitionListing) -> tuple[str, ...]:
    """Summary files that name the originals: in the partition, and in the table's root."""
    folders = {listing.directory, journal.layout.root}
    paths = (f"{folder}/{name}" for folder in sorted(folders) for name in SUMMARY_NAMES)
    return tuple(path for path in paths if journal.io.stat(path) is not None)
