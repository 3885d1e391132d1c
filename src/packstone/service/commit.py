"""Publish one partition of a run: the second listing, the intent, the swap."""

from __future__ import annotations

import posixpath
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import ConflictError, RefusedError
from packstone.storage.fileio import Kind
from packstone.storage.location import parse_location
from packstone.tables.hive.journal import OutputFile, SwapIntent, Switch
from packstone.tables.hive.listing import SUMMARY_NAMES, list_again
from packstone.tables.hive.swap import commit_swap
from packstone.tables.hive.switch import commit_switch, new_location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.model.files import FileEntry
    from packstone.model.merge_options import MergeOptions
    from packstone.model.unit import StagedFile, UnitResult, UnitSpec
    from packstone.service.run_session import RunSession
    from packstone.storage.fileio import Entry
    from packstone.tables.hive.listing import PartitionListing
    from packstone.tables.hive.switch import ByLocation

_DAY_SECONDS = 86_400


def second_listing(session: RunSession, before: PartitionListing) -> PartitionListing:
    """List a partition again, as late as possible; ConflictError if it was dropped."""
    try:
        return list_again(session.io, session.layout.root, before, now_seconds=time.time())
    except FileNotFoundError:
        raise ConflictError(f"{before.directory} was removed while it was being merged.") from None


def commit_partition(
    session: RunSession,
    listing: PartitionListing,
    *,
    written: list[UnitSpec],
    results: Mapping[int, UnitResult[StagedFile]],
    number: int,
    options: MergeOptions,
    publish: ByLocation | None = None,
    copied: Mapping[FileEntry, str] | None = None,
) -> float:
    """Swap a partition's merged files in, or publish a new folder; return the milliseconds readers could see a gap."""
    session.check_owned(listing.partition)
    again = second_listing(session, listing)
    if again.writing is not None:
        raise ConflictError(f"{again.writing}; nothing was changed there")
    if again.refused is not None:
        raise ConflictError(f"{listing.directory} must not be merged any more: {again.refused}")
    if publish is not None:
        # Only copies of what the file is now.
        now = {file.name: (copied or {})[file] for file in again.files if file in (copied or {})}
        merged = _Merged(written=written, results=results, copied=now)
        return _publish_folder(session, again, merged=merged, options=options, publish=publish)
    backup = session.layout.backup(session.run, backup_root=options.backup_root)
    intent = SwapIntent(
        run=session.run,
        number=number,
        partition=listing.partition,
        directory=listing.directory,
        backup_directory=f"{backup}/{listing.partition}".rstrip("/"),
        inputs=tuple(file for spec in written for file in spec.inputs),
        outputs=tuple(_output(spec, results[spec.number]) for spec in written),
        summaries=_summaries(session, listing),
        keep_until=time.time() + options.keep_days * _DAY_SECONDS,
    )
    return commit_swap(
        session.journal,
        intent,
        now_seconds=time.time(),
        check_ours=lambda: session.check_owned(listing.partition),
    )


def check_same_folder(session: RunSession, directory: str, *, before: Entry | None) -> None:
    """ConflictError if a partition's folder was exchanged since it was read: a symbolic link would lead elsewhere."""
    now = session.io.stat(directory)
    if now is None or before is None:
        raise ConflictError(f"{directory} was removed while it was being merged.")
    if now.kind is not Kind.DIRECTORY or (now.kind, now.identity) != (before.kind, before.identity):
        raise ConflictError(f"{directory} was exchanged for another {now.kind} while it was being merged.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merged:
    """What waits in the staging folder for a new folder."""

    written: list[UnitSpec]
    results: Mapping[int, UnitResult[StagedFile]]
    copied: Mapping[str, str]


def _publish_folder(
    session: RunSession,
    listing: PartitionListing,
    *,
    merged: _Merged,
    options: MergeOptions,
    publish: ByLocation,
) -> float:
    name = listing.told.name if listing.told is not None else ""
    old = publish.catalog.read_location(publish.table, name)
    if old is None or parse_location(old).path != listing.directory:
        raise ConflictError(f"{publish.table} {name or 'itself'} is not at {listing.directory} any more.")
    inputs = tuple(file for spec in merged.written for file in spec.inputs)
    names = {file.name for file in inputs}
    last = listing.partition or posixpath.basename(session.layout.root)
    folder = f"{session.layout.versions}/{session.run}/{last}"
    intent = SwapIntent(
        run=session.run,
        number=1,
        partition=listing.partition,
        directory=listing.directory,
        backup_directory=listing.directory,
        inputs=inputs,
        outputs=tuple(_output(spec, merged.results[spec.number]) for spec in merged.written),
        summaries=(),
        keep_until=time.time() + options.keep_days * _DAY_SECONDS,
        switch=Switch(
            table=publish.table,
            name=name,
            old_location=old,
            new_location=new_location(old, listing.directory, folder),
            folder=folder,
            copies=tuple(file for file in listing.files if file.name not in names),
        ),
    )
    return commit_switch(
        session.journal,
        intent,
        catalog=publish.catalog,
        now_seconds=time.time(),
        check_ours=lambda: session.check_owned(listing.partition),
        copied=merged.copied,
    )


def check_backup_root(session: RunSession, backup_root: str | None) -> None:
    """A backup is a rename, so it must be on the table's own store."""
    if backup_root is None:
        return
    io, root = session.io, session.layout.root
    if io.store_id(backup_root) != io.store_id(root):
        raise RefusedError(
            f"--backup {backup_root} is on another file system than {root}; originals are moved, not copied."
        )
    # Also by way of the table's name, which stands in the path: --backup /lake for /lake/orders.
    folder = session.layout.backup(session.run, backup_root=backup_root)
    if f"{backup_root}/".startswith(f"{root}/") or folder.startswith(f"{root}/"):
        raise RefusedError(f"--backup {backup_root} lies inside the table, where readers would find the originals.")


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


def _summaries(session: RunSession, listing: PartitionListing) -> tuple[str, ...]:
    """Summary files that name the originals: in the partition, and in the table's root."""
    folders = {listing.directory, session.layout.root}
    paths = (f"{folder}/{name}" for folder in sorted(folders) for name in SUMMARY_NAMES)
    return tuple(path for path in paths if session.io.stat(path) is not None)
