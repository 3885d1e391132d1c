"""Files that runs of ours left behind: known by the names that they wrote down, never by a pattern.

Data files and manifests are written straight under their final names, which nothing refers to until a snapshot does. So
a run writes the paths that it is about to create into its own folder first::

    <state>/runs/<run>/run.json              who runs it
    <state>/runs/<run>/created-<label>.json  paths, before they exist
    <state>/runs/<run>/ended.json            it is over, though its process may live on

What is recorded, still there, older than a day, and named by no snapshot, tag, branch or changelog, is a leftover. A
run whose process is alive is left alone, whatever its age; so is a name that is not one of ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError, PackstoneError, RefusedError, storage_sentence
from packstone.model.codec import dump_record, load_record
from packstone.model.record_fields import AbsolutePath, RunId
from packstone.runs.liveness import LEASE_SECONDS, ProcessIdentity
from packstone.tables.paimon.manifest import read_manifest
from packstone.tables.paimon.manifest_list import read_manifest_list
from packstone.tables.paimon.mentions import manifest_lists, metadata_names
from packstone.tables.paimon.protectors import read_protectors
from packstone.tables.paimon.snapshot_files import list_snapshot_ids, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.storage.fileio import Entry, FileIO
    from packstone.tables.paimon.snapshot import Snapshot

SAFE_AGE_SECONDS: Final = 86_400  # as Paimon's remove_orphan_files; a slower commit than this has other troubles
_CREATED: Final = re.compile(r"created-.+\.json")
_UUID: Final = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_OURS: Final = re.compile(rf".*{_UUID}-\d+(\.[A-Za-z0-9.]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedFiles:
    """Paths that a run is about to create."""

    paths: tuple[AbsolutePath, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """The part of a run's record that says whether it lives."""

    run: RunId
    process: ProcessIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What may go, run by run, and why other things stay."""

    table: str
    paths: tuple[str, ...]
    size_bytes: int
    records: tuple[str, ...]  # records all of whose paths are gone, live, or about to go
    kept: tuple[str, ...]  # one sentence each

    def __str__(self) -> str:
        return f"{len(self.paths)} leftovers, {self.size_bytes}B"


def record_created(io: FileIO, run_folder: str, paths: tuple[str, ...], *, label: str) -> None:
    """Write down paths before they are created; the label is unique in its run."""
    io.write_new(f"{run_folder}/created-{label}.json", dump_record(CreatedFiles(paths=paths)))


def find_leftovers(
    io: FileIO,
    table: str,
    *,
    runs_folder: str,
    now_seconds: float,
    safe_age_seconds: float = SAFE_AGE_SECONDS,
) -> Leftovers:
    """Look through the records of all runs that are over; nothing is changed."""
    kept: list[str] = []
    there: dict[str, dict[str, Entry]] = {}  # by record: what it names and is there
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
    """Remove the files, then the records that have nothing left to tell; a second call removes the rest."""
    for path in leftovers.paths:
        io.remove(path)
    for record in leftovers.records:
        io.remove(record)


def _records_of_dead(io: FileIO, runs_folder: str, *, now_seconds: float, kept: list[str]) -> Iterator[str]:
    for run in _names(io, runs_folder):
        folder = f"{runs_folder}/{run}"
        records = [f"{folder}/{name}" for name in _names(io, folder) if _CREATED.fullmatch(name)]
        if not records:
            continue
        try:
            who = load_record(RunIdentity, io.read_bytes(f"{folder}/run.json"), path=f"{folder}/run.json")
        except (OSError, PackstoneError):
            kept.append(f"Run {run} does not say who it is; its files are left alone.")
            continue
        if _is_over(io, folder, who.process, now_seconds=now_seconds):
            yield from records
        else:
            kept.append(f"Run {run} is still at work ({who.process}); its files are left alone.")


def _is_over(io: FileIO, folder: str, process: ProcessIdentity, *, now_seconds: float) -> bool:
    """Whether a run is dead or has ended; of another host's, without a heartbeat, only the age of its files tells."""
    if io.stat(f"{folder}/ended.json") is not None:
        return True
    if process.is_on_this_host():
        return not process.is_running()
    heartbeat = io.stat(f"{folder}/heartbeat")
    return heartbeat is None or now_seconds - heartbeat.mtime_ns / 1e9 > LEASE_SECONDS


def _look(io: FileIO, table: str, record: str) -> dict[str, Entry]:
    paths = load_record(CreatedFiles, io.read_bytes(record), path=record).paths
    found = {path: io.stat(path) for path in paths if _is_ours(path, table)}
    return {path: entry for path, entry in found.items() if entry is not None}


def _needed(io: FileIO, table: str, paths: Iterable[str]) -> set[str]:
    """Those of the paths that somebody names; by file name, which is unique because of its uuid."""
    wanted = {path.rpartition("/")[2]: path for path in paths}
    protectors = read_protectors(io, table)
    found: set[str] = set()
    seen: set[str] = set()
    for snapshot in (*_snapshots(io, table), *protectors.snapshots, *protectors.changelogs):
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
            continue  # expired since the listing: its files are no leftovers of ours, or a later one names them


def _is_ours(path: str, table: str) -> bool:
    """Whether a recorded path can be one that we made: below the table, named with a uuid and a number."""
    inside = path.startswith(f"{table}/") and ".." not in path.split("/")
    return inside and _OURS.fullmatch(path.rpartition("/")[2]) is not None


def _names(io: FileIO, folder: str) -> list[str]:
    try:
        return sorted(entry.name for entry in io.list_dir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _nothing(table: str, kept: tuple[str, ...]) -> Leftovers:
    return Leftovers(table=table, paths=(), size_bytes=0, records=(), kept=kept)
