"""The versions of a JSON-lines table: ``manifest/<20 digits>.json``; the highest number is the table.

A version is never removed, so its number is never taken again by a writer that fell asleep. A replaced file stays in
``kept`` until its time is up: a restore can take it back, `clean` can drop it, and of two that try at once one loses
the race for the next number and looks again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from jsonl_family.family import MANIFEST_NAME
from packstone.errors import CommitUnknownError, ConflictError, storage_sentence
from packstone.model.codec import dump_record, load_record
from packstone.storage.fileio import list_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from packstone.storage.fileio import FileIO

_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file of a partition, below the table's root."""

    partition: str
    name: str
    rows: int
    size_bytes: int
    keep_until: float = 0.0  # of a replaced file, in seconds since 1970

    @property
    def key(self) -> str:
        """Where it is below the table's root."""
        return f"{self.partition}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version."""

    version: int = 0
    run: str = ""  # which run published it
    restores: str = ""  # the run that it undoes
    files: tuple[DataFile, ...] = ()
    kept: tuple[DataFile, ...] = ()

    @property
    def live(self) -> frozenset[str]:
        """The keys of the files that hold the rows."""
        return frozenset(file.key for file in self.files)

    @property
    def named(self) -> frozenset[str]:
        """The keys of all files that must not be removed."""
        return self.live | {file.key for file in self.kept}

    def swap(self, out: Collection[str], put_in: Iterable[DataFile], *, keep_until: float) -> Manifest:
        """Put files in the place of others, which are kept for a time; pure."""
        added = tuple(replace(file, keep_until=0.0) for file in put_in)
        gone = tuple(replace(file, keep_until=keep_until) for file in self.files if file.key in out)
        back = {file.key for file in added}
        return replace(
            self,
            files=(*(file for file in self.files if file.key not in out), *added),
            kept=(*(file for file in self.kept if file.key not in back), *gone),
        )


def read_versions(io: FileIO, root: str) -> Iterator[Manifest]:
    """Yield the versions of a table, newest first."""
    names = (entry.name for entry in list_entries(io, f"{root}/manifest"))
    for name in sorted(filter(MANIFEST_NAME.match, names), reverse=True):
        path = f"{root}/manifest/{name}"
        yield load_record(Manifest, io.read_bytes(path), path=path)


def publish(
    io: FileIO, root: str, edit: Callable[[Manifest], Manifest | None], *, run: str, restores: str = ""
) -> Manifest:
    """Publish what ``edit`` makes of the newest version; if another writer was quicker, look again. None: nothing."""
    for _ in range(_ATTEMPTS):
        base = next(read_versions(io, root), Manifest())
        edited = edit(base)
        if edited is None:
            return base
        after = replace(edited, version=base.version + 1, run=run, restores=restores)
        path, content = f"{root}/manifest/{after.version:020d}.json", dump_record(after)
        try:
            io.write_new(path, content)
        except FileExistsError:
            if io.read_bytes(path) != content:  # otherwise it is ours: a store may try a write twice
                continue
        except OSError as error:
            raise CommitUnknownError(f"{storage_sentence(error)} Look whether {path} is there.") from error
        return after
    raise ConflictError(f"Other writers were quicker {_ATTEMPTS} times; nothing was published in {root}.")
