"""Publish the partitions of a wave: claim them, record all intents, list each again, swap or relocate it."""

from __future__ import annotations

import contextlib
import posixpath
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from packstone.errors import ConflictError, PackstoneError, RefusedError, storage_sentence
from packstone.model.unit import SPLICE_DIGEST
from packstone.runs import owner as ownership
from packstone.runs.clock import now_seconds
from packstone.runs.interrupts import is_urgent
from packstone.runs.owner import Owner
from packstone.storage.fileio import EntryKind
from packstone.storage.location import parse_location
from packstone.tables.hive.journal import OutputFile, Relocation, SwapIntent, check_not_exchanged, make_backup
from packstone.tables.hive.listing import SUMMARY_NAMES, list_again
from packstone.tables.hive.recover import find_unfinished
from packstone.tables.hive.swap import commit_swap, give_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packstone.model.files import FileEntry
    from packstone.model.unit import StagedFile, UnitResult, UnitSpec
    from packstone.runs.folder import Run
    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.hive.journal import Journal
    from packstone.tables.hive.listing import PartitionListing
    from packstone.tables.hive.options import HiveOptions
    from packstone.tables.hive.relocate import LocationPublish

_DAY_SECONDS = 86_400
_JOURNAL_INPUTS: Final = 50_000  # files in one journal: some 20 MB, and a record has at most 256 MB


@dataclass(slots=True)
class Claims:
    """The partitions that a run owns."""

    journal: Journal
    run: Run
    waves: Iterator[int] = field(default_factory=lambda: count(1))  # numbers of journals
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """One partition of a wave that is ready to be published."""

    listing: PartitionListing
    folder: Entry | None  # of the partition, before anything was read
    written: list[UnitSpec]
    results: Mapping[int, UnitResult[StagedFile]]
    number: int
    copied: Mapping[FileEntry, str]  # staged copies of files that are not merged, for a new folder


@dataclass(slots=True, kw_only=True)
class WaveOutcome:
    """What became of the partitions of a wave; those that are in none of these were not begun."""

    gaps_ms: dict[str, float] = field(default_factory=dict)  # published, with the time readers could see a gap
    conflicts: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # may be half-done


@dataclass(frozen=True, slots=True)
class WaveCommit:
    """Publishes the partitions of a wave: all intents are recorded together, then they are swapped one by one.

    A conflict or a failure costs its own partition only. After a second signal no further partition is begun.
    """

    claims: Claims
    options: HiveOptions
    publish: LocationPublish | None

    def commit(self, publications: Sequence[Publication]) -> WaveOutcome:
        """Publish the partitions, in batches whose journal is a record of a usual size."""
        outcome = WaveOutcome()
        batch: list[Publication] = []
        inputs = 0
        for one in publications:
            count = sum(len(spec.inputs) for spec in one.written)
            if batch and inputs + count > _JOURNAL_INPUTS:
                self._commit_batch(batch, outcome)
                batch, inputs = [], 0
            batch.append(one)
            inputs += count
        if batch:
            self._commit_batch(batch, outcome)
        return outcome

    def _commit_batch(self, batch: Sequence[Publication], outcome: WaveOutcome) -> None:
        journal = self.claims.journal
        if is_urgent():
            return
        wave = next(self.claims.waves)
        made: dict[str, None] = {}
        ready: list[tuple[Publication, SwapIntent]] = []
        for one in batch:
            with self._noting(one, outcome):
                ready.append((one, self._prepare(one, wave, made=made)))
        if not ready:
            return
        intents = [intent for _, intent in ready]
        for folder in sorted({posixpath.dirname(folder) for folder in made}):
            journal.io.sync_dir(folder)
        journal.write_intents(intents)
        for one, intent in ready:
            if is_urgent():
                give_up(journal, intent, now_seconds=now_seconds(), why="interrupted")
                continue
            with self._noting(one, outcome):
                outcome.gaps_ms[one.listing.partition] = self._publish(one, intent)
        journal.close_wave(intents[0])

    @contextlib.contextmanager
    def _noting(self, one: Publication, outcome: WaveOutcome) -> Iterator[None]:
        """Note why a partition is not published; the others go on."""
        try:
            yield
        except ConflictError as conflict:
            outcome.conflicts[one.listing.partition] = conflict.message
        except PackstoneError as error:
            outcome.failed[one.listing.partition] = error.message
        except OSError as error:
            outcome.failed[one.listing.partition] = storage_sentence(error)

    def _prepare(self, one: Publication, wave: int, *, made: dict[str, None]) -> SwapIntent:
        """Return the intent of a partition, and make its backup folder."""
        journal, listing = self.claims.journal, one.listing
        check_same_folder(journal.io, listing.directory, before=one.folder)
        if self.publish is not None:
            self.claims.check_owned(listing.partition)
            intent = self._relocation(one, _still_mergeable(second_listing(journal, listing)), self.publish)
        else:
            intent = self._swap(one)
        intent = replace(intent, wave=wave)
        check_not_exchanged(journal.io, journal.layout, intent)
        if self.publish is None:
            make_backup(journal.io, journal.layout, intent, made=made)
        return intent

    def _publish(self, one: Publication, intent: SwapIntent) -> float:
        journal, listing = self.claims.journal, one.listing

        def check_ours() -> None:
            self.claims.check_owned(listing.partition)

        if self.publish is not None and intent.switch is not None:
            from packstone.tables.hive.relocate import commit_relocation

            # Only copies of files that are unchanged since.
            copied = {file.name: one.copied[file] for file in intent.switch.copies if file in one.copied}
            catalog, now = self.publish.catalog, now_seconds()
            return commit_relocation(
                journal, intent, catalog=catalog, now_seconds=now, check_ours=check_ours, copied=copied
            )
        return commit_swap(
            journal,
            intent,
            now_seconds=now_seconds(),
            check_ours=check_ours,
            check_unchanged=lambda: self._check_unchanged(one, intent),
        )

    def _check_unchanged(self, one: Publication, intent: SwapIntent) -> None:
        """ConflictError unless every input is still the file that was read, and nobody writes in the partition."""
        journal = self.claims.journal
        check_same_folder(journal.io, intent.directory, before=one.folder)
        again = _still_mergeable(second_listing(journal, one.listing))
        now = {file.name: (file.size_bytes, file.mtime_ns) for file in again.files}
        for file in intent.inputs:
            if now.get(file.name) != (file.size_bytes, file.mtime_ns):
                raise ConflictError(f"{intent.place(file)} changed while it was being merged; nothing was changed.")

    def _swap(self, one: Publication) -> SwapIntent:
        journal, run, listing = self.claims.journal, self.claims.run.id, one.listing
        backup = journal.layout.backup(run, backup_root=self.options.backup_root)
        return SwapIntent(
            run=run,
            number=one.number,
            partition=listing.partition,
            directory=listing.directory,
            backup_directory=f"{backup}/{listing.partition}".rstrip("/"),
            inputs=tuple(file for spec in one.written for file in spec.inputs),
            outputs=tuple(_output(spec, one.results[spec.number]) for spec in one.written),
            summaries=_summaries(journal, listing),
            keep_until=now_seconds() + self.options.keep_days * _DAY_SECONDS,
        )

    def _relocation(self, one: Publication, again: PartitionListing, publish: LocationPublish) -> SwapIntent:
        from packstone.tables.hive.relocate import new_location

        journal, run, listing = self.claims.journal, self.claims.run.id, again
        name = listing.facts.name if listing.facts is not None else ""
        old = publish.catalog.read_location(publish.table, name)
        if old is None or parse_location(old).path != listing.directory:
            raise ConflictError(f"{publish.table} {name or 'itself'} is no longer at {listing.directory}.")
        inputs = tuple(file for spec in one.written for file in spec.inputs)
        names = {file.name for file in inputs}
        last = listing.partition or posixpath.basename(journal.layout.root)
        folder = f"{journal.layout.versions}/{run}/{last}"
        return SwapIntent(
            run=run,
            number=1,
            partition=listing.partition,
            directory=listing.directory,
            backup_directory=listing.directory,
            inputs=inputs,
            outputs=tuple(_output(spec, one.results[spec.number]) for spec in one.written),
            summaries=(),
            keep_until=now_seconds() + self.options.keep_days * _DAY_SECONDS,
            switch=Relocation(
                table=publish.table,
                name=name,
                old_location=old,
                new_location=new_location(old, listing.directory, folder),
                folder=folder,
                copies=tuple(file for file in listing.files if file.name not in names),
            ),
        )


def _still_mergeable(listing: PartitionListing) -> PartitionListing:
    if listing.writing is not None:
        raise ConflictError(f"{listing.writing}; nothing was changed there")
    if listing.refused is not None:
        raise ConflictError(f"{listing.directory} must no longer be merged: {listing.refused}")
    return listing


def check_same_folder(io: FileIO, directory: str, *, before: Entry | None) -> None:
    """ConflictError if a partition's folder was replaced since it was read: a symbolic link would lead elsewhere."""
    now = io.stat(directory)
    if now is None or before is None:
        raise ConflictError(f"{directory} was removed while it was being merged.")
    if now.kind is not EntryKind.DIRECTORY or (now.kind, now.identity) != (before.kind, before.identity):
        raise ConflictError(f"{directory} was exchanged for another {now.kind} while it was being merged.")


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
        digest=SPLICE_DIGEST,
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
