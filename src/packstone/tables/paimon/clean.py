"""Free space: remove the leftovers of dead runs and expired snapshots, with the files that only those need.

Leftovers are files of our own runs, identified by the names that a run recorded, never by a pattern. Data files and
manifests are written directly under their final names, which nothing refers to until a snapshot does. So a run first
records the paths that it is about to create in its own folder (runs/folder.py).

A recorded file that still exists, is older than a day, and is named by no snapshot, tag, branch or changelog, is a
leftover. The files of a run whose process is alive are left alone, whatever their age; so is a path whose name does not
have the form of our names.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import CorruptionError, InvalidInputError, PackstoneError, RefusedError, storage_sentence
from packstone.model.codec import load_record
from packstone.model.maintenance import CleanPlan
from packstone.model.sizes import format_bytes, plural
from packstone.runs.clock import now_seconds
from packstone.runs.folder import CreatedFiles, RunFolders
from packstone.tables.paimon.expire import RetentionOptions, expire, plan_expiry
from packstone.tables.paimon.format.manifest import read_manifest
from packstone.tables.paimon.format.manifest_list import read_manifest_list
from packstone.tables.paimon.format.references import manifest_lists, metadata_names, read_references
from packstone.tables.paimon.format.snapshot import list_snapshot_ids, read_snapshot
from packstone.tables.paimon.refusals import refuse_clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.model.maintenance import CleanRequest
    from packstone.runs.folder import RunInfo
    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.paimon.expire import ExpiryPlan
    from packstone.tables.paimon.format.snapshot import Snapshot
    from packstone.tables.paimon.format.store import PaimonStore

RUN_RECORD_SECONDS: Final = 30 * 86_400  # weeks later users want to know what a run did and whether it can be undone
_SHOWN_PATHS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonClean(CleanPlan):
    """What was removed, or would be."""

    table: str
    leftovers: Leftovers
    expiry: ExpiryPlan | None  # None: expiring snapshots was not requested

    @property
    def files(self) -> int:
        """Number of files to remove."""
        metadata = len(self.expiry.metadata_files) + len(self.expiry.expired) if self.expiry else 0
        data = len(self.expiry.data_files) if self.expiry else 0
        return len(self.leftovers.paths) + data + metadata

    @property
    def bytes(self) -> int:
        """Bytes of data that are freed."""
        return self.leftovers.size_bytes + (self.expiry.data_bytes if self.expiry else 0)

    @property
    def refused(self) -> str:
        """Why no snapshot expires, if something was in doubt."""
        return self.expiry.why if self.expiry is not None and self.expiry.in_doubt else ""

    def describe(self) -> str:
        """A short description of what is removed."""
        parts = [plural(len(self.leftovers.paths), "leftover")] if self.leftovers.paths else []
        if self.expiry is not None and self.expiry.expired:
            parts.append(plural(len(self.expiry.expired), "snapshot"))
            parts.append(plural(len(self.expiry.data_files), "data file"))
            parts.append(plural(len(self.expiry.metadata_files), "metadata file"))
        return f"{', '.join(parts)}: {format_bytes(self.bytes)}"

    def notes(self) -> tuple[str, ...]:
        """The paths of leftovers, and what is kept and why."""
        lines = [f"  {one}" for one in self.leftovers.paths[:_SHOWN_PATHS]]
        lines += [f"left alone: {why}" for why in self.leftovers.kept]
        if self.expiry is not None:
            lines.append(f"{'refused' if self.expiry.in_doubt else 'no more snapshots expire'}: {self.expiry.why}")
            lines += [f"left alone: {one}" for one in self.expiry.left_alone]
        return tuple(lines)

    def to_json(self, *, dry_run: bool = False) -> dict[str, Any]:
        """The documented keys."""
        status = "planned" if dry_run else "cleaned"
        plain: dict[str, Any] = {
            "format_version": 1,
            "table": self.table,
            "family": "paimon",
            "status": "refused" if self.refused and not self.files else status if self.files else "nothing-to-do",
            "files": self.files,
            "bytes": self.bytes,
            "leftovers": list(self.leftovers.paths),
            "left_alone": [*self.leftovers.kept, *(self.expiry.left_alone if self.expiry else ())],
        }
        if self.expiry is not None:
            plain["snapshots_expired"] = list(self.expiry.expired)
            plain["first_snapshot_kept"] = self.expiry.first_retained
            plain["data_files"] = len(self.expiry.data_files)
            plain["metadata_files"] = len(self.expiry.metadata_files)
            plain["why_no_more"] = self.expiry.why
        return plain


def plan_clean(store: PaimonStore, *, state: str, request: CleanRequest) -> PaimonClean:
    """List what may be removed now; RefusedError if nothing may be removed from this table."""
    why = refuse_clean(store.schema)
    if why is not None:
        raise RefusedError(f"Nothing is removed from {store.path}: {why}.", table=store.path)
    limits = [name for name in request.given if name != "expire_snapshots"]
    if limits and not request.expire_snapshots:
        raise InvalidInputError(f"--{limits[0].removesuffix('_seconds').replace('_', '-')} needs --expire-snapshots.")
    now = now_seconds()
    leftovers = find_leftovers(
        store.io, store.path, runs_folder=f"{state}/runs", now_seconds=now, safe_age_seconds=SAFE_AGE_SECONDS
    )
    expiry = None
    if request.expire_snapshots:
        expiry = plan_expiry(store.io, store.path, _retention(store, request), now_ms=int(now * 1000))
    return PaimonClean(table=store.path, leftovers=leftovers, expiry=expiry)


def remove_planned(store: PaimonStore, plan: PaimonClean, *, state: str) -> None:
    """Remove what a plan lists, and the old records of runs without recorded files."""
    if plan.expiry is not None and not plan.expiry.in_doubt:
        expire(store.io, plan.expiry)
    remove_leftovers(store.io, plan.leftovers)
    runs = RunFolders(io=store.io, state=state)
    for run in runs.list_runs():
        info = store.io.stat(f"{runs.folder(run)}/run.json")
        is_old = info is not None and now_seconds() - info.mtime_ns / 1e9 > RUN_RECORD_SECONDS
        if is_old and not runs.list_created(run):
            store.io.remove_tree(runs.folder(run))


def _retention(store: PaimonStore, request: CleanRequest) -> RetentionOptions:
    own = RetentionOptions.of(store.options)
    older = request.older_than_seconds
    return replace(
        own,
        retained_min=own.retained_min if request.retain_min is None else request.retain_min,
        retained_max=own.retained_max if request.retain_max is None else request.retain_max,
        time_retained_ms=own.time_retained_ms if older is None else int(older * 1000),
        limit=own.limit if request.max_expired is None else request.max_expired,
    )


# ---- leftovers ----


SAFE_AGE_SECONDS: Final = 86_400  # as in Paimon's remove_orphan_files; no healthy commit takes longer
_UUID: Final = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_OURS: Final = re.compile(rf".*{_UUID}-\d+(\.[A-Za-z0-9.]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Files that may be removed, run by run, and why others are kept."""

    table: str
    paths: tuple[str, ...]
    size_bytes: int
    records: tuple[str, ...]  # records all of whose paths are gone, live, or about to be removed
    kept: tuple[str, ...]  # one sentence each

    def __str__(self) -> str:
        return f"{len(self.paths)} leftovers, {self.size_bytes}B"


def find_leftovers(
    io: FileIO,
    table: str,
    *,
    runs_folder: str,
    now_seconds: float,
    safe_age_seconds: float = SAFE_AGE_SECONDS,
) -> Leftovers:
    """Find leftovers by the records of all dead runs; changes nothing."""
    kept: list[str] = []
    there: dict[str, dict[str, Entry]] = {}  # by record: the files that it names and that exist
    for record in _records_of_dead(io, runs_folder, now_seconds=now_seconds, kept=kept):
        try:
            there[record] = _look(io, table, record)
        except PackstoneError as error:
            kept.append(error.message)

    def is_old(found: Entry | None) -> bool:
        return found is not None and now_seconds - found.mtime_ns / 1e9 > safe_age_seconds

    old = {path: found for files in there.values() for path, found in files.items() if is_old(found)}
    try:
        needed = _needed(io, table, old) if old else set()
    except (CorruptionError, RefusedError) as error:
        return _nothing(table, (*kept, f"{error.message} Nothing is removed."))
    except OSError as error:
        return _nothing(table, (*kept, f"{storage_sentence(error)} Nothing is removed."))
    # A worker may outlive its driver and still create what a record names: a young record stays, like a young file.
    done = tuple(record for record, files in there.items() if is_old(io.stat(record)) and old.keys() >= files.keys())
    going = {path: found.size_bytes for path, found in old.items() if path not in needed}
    return Leftovers(table=table, paths=tuple(going), size_bytes=sum(going.values()), records=done, kept=tuple(kept))


def remove_leftovers(io: FileIO, leftovers: Leftovers) -> None:
    """Remove the files, then the records that are no longer needed; a second call removes the rest."""
    for path in leftovers.paths:
        io.remove(path)
    for record in leftovers.records:
        io.remove(record)


def _records_of_dead(io: FileIO, runs_folder: str, *, now_seconds: float, kept: list[str]) -> Iterator[str]:
    runs = RunFolders(io=io, state=posixpath.dirname(runs_folder))
    for run in runs.list_runs():
        records = runs.list_created(run)
        if not records:
            continue
        try:
            who = runs.read_info(run)
            is_dead = runs.is_dead(run, now_seconds=now_seconds) and not _is_running(runs, run, who)
        except (OSError, PackstoneError):
            who, is_dead = None, False
        if who is None:
            kept.append(f"Run {run} has no readable run.json; its files are left alone.")
        elif is_dead:
            yield from records
        else:
            kept.append(f"Run {run} is still running ({who.process}); its files are left alone.")


def _is_running(runs: RunFolders, run: str, who: RunInfo | None) -> bool:
    """Whether a run's process is alive on this host and the run has not ended, whatever its heartbeat says."""
    if who is None or runs.is_ended(run):
        return False
    return who.process.is_on_this_host() and who.process.is_running()


def _look(io: FileIO, table: str, record: str) -> dict[str, Entry]:
    paths = load_record(CreatedFiles, io.read_bytes(record), path=record).paths
    found = {path: io.stat(path) for path in paths if _is_ours(path, table)}
    return {path: entry for path, entry in found.items() if entry is not None}


def _needed(io: FileIO, table: str, paths: Iterable[str]) -> set[str]:
    """The paths that some reference names; matched by file name, which is unique because of its uuid."""
    wanted = {path.rpartition("/")[2]: path for path in paths}
    references = read_references(io, table)
    found: set[str] = set()
    seen: set[str] = set()
    for snapshot in (*_snapshots(io, table), *references.snapshots, *references.changelogs):
        found |= {wanted[name] for name in metadata_names(io, table, snapshot) if name in wanted}
        for list_name in manifest_lists(snapshot):
            for meta in read_manifest_list(io, f"{table}/manifest/{list_name}"):
                if meta.file_name in seen:
                    continue
                seen.add(meta.file_name)
                for entry in read_manifest(io, f"{table}/manifest/{meta.file_name}", lean=True):
                    names = (entry.file.file_name, *entry.file.extra_files)
                    found |= {wanted[name] for name in names if name in wanted}
    return found


def _snapshots(io: FileIO, table: str) -> Iterator[Snapshot]:
    for number in list_snapshot_ids(io, table):
        try:
            yield read_snapshot(io, table, number)
        except FileNotFoundError:
            continue  # expired since the listing: its files are not leftovers of ours, or a later one names them


def _is_ours(path: str, table: str) -> bool:
    """Whether a recorded path can be one that we made: below the table, named with a uuid and a number."""
    inside = path.startswith(f"{table}/") and ".." not in path.split("/")
    return inside and _OURS.fullmatch(path.rpartition("/")[2]) is not None


def _nothing(table: str, kept: tuple[str, ...]) -> Leftovers:
    return Leftovers(table=table, paths=(), size_bytes=0, records=(), kept=kept)
