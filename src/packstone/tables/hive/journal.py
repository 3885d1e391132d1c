"""The journal of swaps: one file for the intents of a wave, and small files for later facts, each written atomically.

An intent must name exactly the folders that the layout gives its run and partition, or it counts as damaged: a user who
may write beside a table must not decide which files of others are moved or removed.

A swap of one partition is named ``<partition>~<number>`` in its run. Its state is a set of facts: ``intent`` (what
will be moved), then ``done`` or ``undone``; later ``restoring``, ``restored``, ``cleaned``, and ``emptied`` (the new
folder of an undone relocation).

::

    wave-0001.intent.json        the intents of all swaps of a wave, synced before the first file is moved
    dt=1~1.done.json             a swap is done; not synced while its wave is being published
    wave-0001.marks.json         all swaps of the wave that are done or undone, synced; the files above are removed
    dt=1~1.restoring.json        and so on: facts that commands after the run add, each synced

A power cut may take the ``done`` of swaps whose wave was not closed yet. Recovery does not need them: it finds the
outputs in place and finishes such a swap by recording it. It does need them once the partition may change again, so a
wave is closed before the run releases its partitions or plans them again.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import CommitUnknownError, ConflictError
from packstone.model.codec import (
    AbsolutePath,
    Count,
    Name,
    RelativePath,
    RunId,
    Seconds,
    damaged,
    dump_record,
    load_record,
)
from packstone.model.files import FileEntry, FileFormat
from packstone.model.unit import SPLICE_DIGEST, How, Verify
from packstone.rewrite.small_files.merge_unit import Written
from packstone.runs.folder import Ended, RunFolders, list_names
from packstone.storage.fileio import EntryKind
from packstone.tables.hive.layout import KEPT_SUFFIX, TableLayout, partition_id
from packstone.tables.hive.listing import SUMMARY_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packstone.storage.fileio import FileIO

_INTENT = ".intent.json"
_WAVE: Final = re.compile(r"wave-([0-9]{4,9})\.intent\.json")
_SETTLED: Final = ("done", "undone")  # the facts that end the swaps of a wave
_CACHED_WAVES: Final = 4
_BACKUP_NOTE = ".packstone-backup.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """One merged file: its staged path, its final name, and what was proved of it."""

    staged_path: AbsolutePath
    name: Name
    size_bytes: Count
    mtime_ns: int
    rows: Count
    fingerprint: str
    verified: Verify
    how: How
    header_lines: Count
    inputs: tuple[Name, ...]
    ordered: bool = False  # whether the fingerprint depends on the order of the rows
    copied_columns: tuple[Count, ...] = ()  # of a splice: the columns that the fingerprint covers by their pages
    digest: Count = 1  # of a splice: the definition of its fingerprint
    file_format: str = ""  # empty in old records, from when there were two formats
    why: str = ""
    seconds: float = 0.0
    read_seconds_before: float = 0.0
    read_seconds_after: float = 0.0

    @property
    def known_fingerprint(self) -> str:
        """The fingerprint; empty if it is that of a splice by another definition, which is not computed any more."""
        return "" if self.how == How.SPLICE and self.digest != SPLICE_DIGEST else self.fingerprint

    @property
    def merged_as(self) -> str:
        """The format whose kernel wrote the file, and can prove it again."""
        return self.file_format or (FileFormat.TEXT if self.how == How.CONCATENATE else FileFormat.PARQUET)

    @property
    def written(self) -> Written:
        """How it was written."""
        return Written(
            how=How(self.how), ordered=self.ordered, copied=self.copied_columns, header_lines=self.header_lines
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """A partition that is published at a new location; its old folder is the backup."""

    table: str  # db.table
    name: str  # of the partition, as Hive spells it
    old_location: str  # both as the metastore spells them
    new_location: str
    folder: AbsolutePath  # the new location as a path
    copies: tuple[FileEntry, ...]  # files of the old folder that are carried over as they are


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapIntent:
    """All that any later process needs to finish or undo a swap."""

    run: RunId
    number: Count
    partition: RelativePath
    directory: AbsolutePath
    backup_directory: AbsolutePath
    inputs: tuple[FileEntry, ...]
    outputs: tuple[OutputFile, ...]
    summaries: tuple[AbsolutePath, ...]
    keep_until: Seconds
    switch: Relocation | None = None
    wave: Count = 0  # the number of the journal file that holds it; 0: a file of its own, as earlier versions wrote

    def __post_init__(self) -> None:
        """Check that every input is in exactly one output, and that no output name occurs twice."""
        merged = [name for output in self.outputs for name in output.inputs]
        if sorted(merged) != sorted({file.name for file in self.inputs}) or len(merged) != len(self.inputs):
            raise ValueError("inputs: they differ from the inputs of its outputs")
        if len({output.name for output in self.outputs}) != len(self.outputs) or not self.outputs:
            raise ValueError("outputs: there is none, or two have the same name")

    @property
    def key(self) -> str:
        """The swap's name in its run's folder."""
        return f"{partition_id(self.partition)}~{self.number}"

    def place(self, file: FileEntry) -> str:
        """Return the path of an input while it is live."""
        return f"{self.directory}/{file.name}"

    def kept(self, file: FileEntry) -> str:
        """Return the path of an input while it is kept as an original."""
        return f"{self.backup_directory}/{file.name}{KEPT_SUFFIX}" if self.switch is None else self.place(file)

    def published(self, output: OutputFile) -> str:
        """Return the path of an output once it is live."""
        return f"{self.directory if self.switch is None else self.switch.folder}/{output.name}"

    def kept_summary(self, number: int) -> str:
        """Return the path of a summary file while it is kept."""
        name = self.summaries[number].rpartition("/")[2]
        return f"{self.backup_directory}/{name}.{number}{KEPT_SUFFIX}"

    def __str__(self) -> str:
        return f"{self.run} {self.key}: {len(self.inputs)} files -> {len(self.outputs)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveIntents:
    """The intents of the swaps of a wave, in the order in which they are published."""

    run: RunId
    wave: Count
    swaps: tuple[SwapIntent, ...]

    def __post_init__(self) -> None:
        """Check that every swap belongs to the wave, and that none occurs twice."""
        for swap in self.swaps:
            if (swap.run, swap.wave) != (self.run, self.wave):
                raise ValueError(f"swaps: {swap.key} is of wave {swap.wave} of run {swap.run}")
        if len({swap.key for swap in self.swaps}) != len(self.swaps) or not self.swaps:
            raise ValueError("swaps: there is none, or one occurs twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupNote:
    """A note in a backup folder outside the state folder: it proves that somebody with write access made it ours."""

    run: RunId
    table: AbsolutePath


def make_backup(io: FileIO, layout: TableLayout, intent: SwapIntent, *, made: dict[str, None]) -> None:
    """Create the backup folder of a swap; a folder that the user chose gets a note that it is ours.

    ``made``: the backup folders that exist already. New ones are added, and are not durable until the caller syncs the
    folders that contain them: one sync serves many partitions.
    """
    home = _backup_of_run(intent)
    _make_backup_folders(io, layout, intent, made=made)
    if home != layout.backup(intent.run) and io.stat(f"{home}/{_BACKUP_NOTE}") is None:
        io.replace(f"{home}/{_BACKUP_NOTE}", dump_record(BackupNote(run=intent.run, table=layout.root)))


def make_backup_again(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """Create the backup folder of a recovered swap again, if it was empty and has been removed."""
    if io.stat(intent.backup_directory) is None and _backup_of_run(intent) != layout.backup(intent.run):
        raise CommitUnknownError(
            f"The backup folder {intent.backup_directory} of run {intent.run} is gone; nothing was changed. Create "
            "it, and run `packstone recover` again."
        )
    _make_backup_folders(io, layout, intent, made=None)


def _make_backup_folders(io: FileIO, layout: TableLayout, intent: SwapIntent, *, made: dict[str, None] | None) -> None:
    """Create the folders of a backup, each as private as the folder its files come from; durable without ``made``."""
    home, root = _backup_of_run(intent), intent.directory.removesuffix(f"/{intent.partition}")
    names = intent.partition.split("/") if intent.partition else []
    for depth in range(len(names) + 1):
        below = "".join(f"/{name}" for name in names[:depth])
        if made is not None and f"{home}{below}" in made:
            continue
        source = next((path for path in (f"{root}{below}", layout.root) if io.stat(path) is not None), None)
        like = None if source is None else io.read_permissions(source)
        io.make_dirs(f"{home}{below}", like=like, durable=made is None or depth == 0)
        if made is not None:
            made[f"{home}{below}"] = None


def remove_empty_backup(io: FileIO, intent: SwapIntent) -> None:
    """Remove the backup folder of a swap and those above it, up to that of its run, as far as they are empty."""
    at = intent.backup_directory
    if intent.switch is not None:  # a folder of the table itself, or of a version of it: those above it stay
        if intent.partition:
            io.remove_empty_dir(at)
        return
    for folder in (at, *_parents(at, up_to=_backup_of_run(intent))):
        if folder == _backup_of_run(intent) and {e.name for e in list_names(io, folder)} == {_BACKUP_NOTE}:
            io.remove(f"{folder}/{_BACKUP_NOTE}")
        if not io.remove_empty_dir(folder):
            return


def check_reachable(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """CommitUnknownError if a folder of a swap has become a symbolic link: it would lead out of the table."""
    exchanged = find_exchanged(io, layout, intent)
    if exchanged is not None:
        raise CommitUnknownError(f"{exchanged}; nothing was changed there, and all files are kept.")


def find_exchanged(io: FileIO, layout: TableLayout, intent: SwapIntent, *, only: str = "") -> str | None:
    """Say which folder of a swap (or of the path ``only``) has become a link or a file; None if all are folders."""
    places = {intent.directory, intent.backup_directory, *(posixpath.dirname(o.staged_path) for o in intent.outputs)}
    if intent.switch is not None:
        places.add(intent.switch.folder)
    bases = (layout.root, layout.state, _backup_of_run(intent))
    for place in [only] if only else sorted(places):
        base = next((base for base in bases if f"{place}/".startswith(f"{base}/")), layout.root)
        for folder in (place, *_parents(place, up_to=base)):
            found = io.stat(folder)
            if folder != base and found is not None and found.kind is not EntryKind.DIRECTORY:
                return f"{folder} is a {found.kind} and not the folder that run {intent.run} worked on"
    return None


def check_not_exchanged(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """ConflictError if a folder of a swap was replaced by a link; called before the first move and again after it."""
    exchanged = find_exchanged(io, layout, intent)
    if exchanged is not None:
        raise ConflictError(f"{exchanged}; nothing was changed.")


def _check_folders(io: FileIO, layout: TableLayout, intent: SwapIntent, *, is_settled: Callable[[], bool]) -> None:
    """ValueError unless every folder that an intent names is one that the layout gives its run and partition.

    ``is_settled``: whether it was undone, restored or cleaned: its backup and the note in it are gone, and not checked.
    """
    if not layout.is_folder_of(intent.directory, intent.partition):
        raise ValueError(f"{intent.directory} is not the folder of partition {intent.partition!r}")
    for output in intent.outputs:
        if not output.staged_path.startswith(f"{layout.staging(intent.run)}/"):
            raise ValueError(f"{output.staged_path} is not in the staging folder of run {intent.run}")
    _check_summaries(layout, intent)
    if intent.switch is not None:
        if intent.backup_directory != intent.directory:
            raise ValueError("the backup of a partition with a new location is not its old folder")
        if intent.switch.folder != layout.version(intent.run, intent.partition):
            raise ValueError(f"{intent.switch.folder} is not where run {intent.run} publishes")
    else:
        is_ours = intent.backup_directory == f"{layout.backup(intent.run)}/{intent.partition}".rstrip("/")
        if not is_ours and not is_settled():
            _check_backup_elsewhere(io, layout, intent)


def _check_summaries(layout: TableLayout, intent: SwapIntent) -> None:
    for path in intent.summaries:
        folder, name = posixpath.split(path)
        if name not in SUMMARY_NAMES or folder not in {intent.directory, layout.root}:
            raise ValueError(f"{path} is not a summary file of the partition")


def _check_backup_elsewhere(io: FileIO, layout: TableLayout, intent: SwapIntent) -> None:
    """ValueError unless a backup that the user chose ends like ours and holds the note of a run of this table."""
    home = _backup_of_run(intent)
    end = f"/{posixpath.basename(layout.root)}/{intent.run}"
    note = f"{home}/{_BACKUP_NOTE}"
    if not home.endswith(end) or f"{home}/{intent.partition}".rstrip("/") != intent.backup_directory:
        raise ValueError(f"{intent.backup_directory} is not a backup folder of run {intent.run}")
    known = load_record(BackupNote, io.read_bytes(note), path=note) if io.stat(note) is not None else None
    if known != BackupNote(run=intent.run, table=layout.root):
        raise ValueError(f"{home} does not say that it is the backup of run {intent.run}")


def _backup_of_run(intent: SwapIntent) -> str:
    return intent.backup_directory.removesuffix(f"/{intent.partition}") if intent.partition else intent.backup_directory


def _parents(path: str, *, up_to: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first, up to and including the given one."""
    while path != up_to and path.startswith(up_to):
        path = posixpath.dirname(path)
        yield path


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftFile:
    """A file of a folder to which the metastore no longer points."""

    name: Name
    size_bytes: Count
    mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One fact about a swap, with its time."""

    at: Seconds
    swap_ms: float = 0.0
    why: str = ""
    left: tuple[LeftFile, ...] = ()  # in the new folder of an undone relocation: readers may still use it


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapMark:
    """The fact that ended a swap of a wave."""

    key: Name
    name: Name
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveMarks:
    """The facts that ended the swaps of a wave."""

    run: RunId
    wave: Count
    swaps: tuple[SwapMark, ...]

    def __post_init__(self) -> None:
        """Check that every fact is one that ends a swap."""
        for swap in self.swaps:
            if swap.name not in _SETTLED:
                raise ValueError(f"swaps: {swap.name!r} does not end a swap")


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """The journal of one table."""

    io: FileIO
    layout: TableLayout
    _unsynced: dict[str, SwapMark] = field(default_factory=dict, compare=False, repr=False)  # of the wave being written
    _cache: dict[str, tuple[Any, Any]] = field(default_factory=dict, compare=False, repr=False)  # path -> stat, value

    def write_intents(self, intents: Sequence[SwapIntent]) -> None:
        """Record what the swaps of a wave will move, before anything is moved."""
        first = intents[0]
        record = WaveIntents(run=first.run, wave=first.wave, swaps=tuple(intents))
        path = self._wave_path(first, "intent")
        self.io.write_new(path, dump_record(record))
        self._keep(path, _by_partition(record))
        self._unsynced.clear()

    def write_mark(self, intent: SwapIntent, name: str, mark: Mark, *, durable: bool = True) -> None:
        """Record a fact; a fact that is already recorded stays as it is. Not durable: until the wave is closed."""
        if not durable:
            self._unsynced[intent.key] = SwapMark(key=intent.key, name=name, mark=mark)
        path = self._path(intent, name)
        try:
            self.io.write_new(path, dump_record(mark), durable=durable)
        except FileExistsError:
            if _is_lost(intent, name, self.io.read_bytes(path)):
                self.io.replace(path, dump_record(mark), durable=durable)

    def close_wave(self, intent: SwapIntent) -> None:
        """Make the facts about the swaps of this intent's wave durable, in one file instead of one for each."""
        marks = tuple(self._unsynced.values())
        if not marks:
            return
        path = self._wave_path(intent, "marks")
        self.io.write_new(path, dump_record(WaveMarks(run=intent.run, wave=intent.wave, swaps=marks)))
        self._keep(path, {(one.key, one.name): one.mark for one in marks})
        folder = self.layout.run(intent.run)
        for mark in marks:
            self.io.remove(f"{folder}/{mark.key}.{mark.name}.json")
        self._unsynced.clear()

    def read_mark(self, intent: SwapIntent, name: str) -> Mark | None:
        """Read a fact; None if it was not recorded, or was lost in a power cut before its wave was closed."""
        found = self._closed_marks(intent).get((intent.key, name)) if name in _SETTLED else None
        if found is not None:
            return found
        path = self._path(intent, name)
        try:
            data = self.io.read_bytes(path)
        except FileNotFoundError:
            return None
        return None if _is_lost(intent, name, data) else load_record(Mark, data, path=path)

    def has_mark(self, intent: SwapIntent, *names: str) -> bool:
        """Whether one of these facts was recorded."""
        return any(self._has_mark(intent, name) for name in names)

    def _has_mark(self, intent: SwapIntent, name: str) -> bool:
        if not intent.wave or name not in _SETTLED:
            return self.io.stat(self._path(intent, name)) is not None
        if (intent.key, name) in self._closed_marks(intent):
            return True
        try:
            return not _is_lost(intent, name, self.io.read_bytes(self._path(intent, name)))
        except FileNotFoundError:
            return False

    def _closed_marks(self, intent: SwapIntent) -> dict[tuple[str, str], Mark]:
        """The facts about the swaps of an intent's wave; empty while it is not closed."""
        if not intent.wave:
            return {}
        path = self._wave_path(intent, "marks")

        def load(data: bytes) -> dict[tuple[str, str], Mark]:
            found = load_record(WaveMarks, data, path=path)
            if (found.run, found.wave) != (intent.run, intent.wave):
                raise damaged(path, f"it is the record of wave {found.wave} of run {found.run}")
            return {(one.key, one.name): one.mark for one in found.swaps}

        marks: dict[tuple[str, str], Mark] = self._read_once(path, load) or {}
        return marks

    def _read_once(self, path: str, load: Callable[[bytes], Any]) -> Any:
        """Read a file of a wave, which is written once, or return it from memory; None if it does not exist."""
        found = self.io.stat(path)
        if found is None:
            return None
        known = self._cache.get(path)
        if known is not None and known[0] == found:
            return known[1]
        try:
            value = load(self.io.read_bytes(path))
        except FileNotFoundError:
            return None
        self._keep(path, value)
        return value

    def _keep(self, path: str, value: Any) -> None:
        """Remember a file that was written or read just now; few are kept, because a wave may have many swaps."""
        self._cache.pop(path, None)
        while len(self._cache) >= 2 * _CACHED_WAVES:
            self._cache.pop(next(iter(self._cache)))
        found = self.io.stat(path)
        if found is not None:
            self._cache[path] = found, value

    @property
    def runs(self) -> RunFolders:
        """The folders of all runs."""
        return RunFolders(io=self.io, state=self.layout.state)

    def list_runs(self) -> list[str]:
        """List the runs that left a folder, oldest first (a run's id begins with its time)."""
        return self.runs.list_runs()

    def closed_at(self, run: str) -> float | None:
        """Return when a run was closed, by the file system's clock; None if something may be left to do for it."""
        found = self.io.stat(self._closed_path(run))
        return None if found is None else found.mtime_ns / 1e9

    def close_run(self, run: str) -> None:
        """Record that nothing is left to do for a run; its records are kept for reference only."""
        self.io.replace(self._closed_path(run), dump_record(Ended(run=run)))

    def _closed_path(self, run: str) -> str:
        return f"{self.layout.run(run)}/closed.json"

    def read_intents(self, run: str, *, partition: str | None = None) -> Iterator[SwapIntent]:
        """Yield the swaps of a run, or of one partition of it, one at a time, wave by wave."""
        folder = self.layout.run(run)
        begin = "" if partition is None else f"{partition_id(partition)}~"
        names = (entry.name for entry in list_names(self.io, folder))
        for name in sorted(name for name in names if name.endswith(_INTENT)):
            path, wave = f"{folder}/{name}", _WAVE.fullmatch(name)
            if wave is not None:
                yield from self._read_wave(run, int(wave[1]), path=path, partition=partition)
            elif name.startswith(begin):
                intent = load_record(SwapIntent, self.io.read_bytes(path), path=path)
                if (intent.run, intent.wave, f"{intent.key}{_INTENT}") != (run, 0, name):
                    raise damaged(path, f"it is the record of {intent.key} of run {intent.run}")
                yield self._checked(intent, path)

    def _read_wave(self, run: str, wave: int, *, path: str, partition: str | None) -> Iterator[SwapIntent]:
        def load(data: bytes) -> dict[str, list[SwapIntent]]:
            found = load_record(WaveIntents, data, path=path)
            if (found.run, found.wave) != (run, wave):
                raise damaged(path, f"it is the record of wave {found.wave} of run {found.run}")
            return _by_partition(found)

        swaps: dict[str, list[SwapIntent]] = self._read_once(path, load) or {}
        for group in swaps.values() if partition is None else (swaps.get(partition, []),):
            for intent in group:
                yield self._checked(intent, path)

    def _checked(self, intent: SwapIntent, path: str) -> SwapIntent:
        try:
            _check_folders(
                self.io,
                self.layout,
                intent,
                is_settled=lambda: self.has_mark(intent, "undone", "restored", "cleaned"),
            )
        except ValueError as error:
            raise damaged(path, error) from error
        return intent

    def _path(self, intent: SwapIntent, name: str) -> str:
        return f"{self.layout.run(intent.run)}/{intent.key}.{name}.json"

    def _wave_path(self, intent: SwapIntent, name: str) -> str:
        return f"{self.layout.run(intent.run)}/wave-{intent.wave:04d}.{name}.json"


def _by_partition(record: WaveIntents) -> dict[str, list[SwapIntent]]:
    found: dict[str, list[SwapIntent]] = {}
    for swap in record.swaps:
        found.setdefault(swap.partition, []).append(swap)
    return found


def _is_lost(intent: SwapIntent, name: str, data: bytes) -> bool:
    """Whether a power cut took the content of a fact that was not synced."""
    return bool(intent.wave) and name in _SETTLED and not data.strip(b"\0")
