"""Reuse the finished units of a killed run: prove their outputs again and take them over instead of merging again.

A unit that is done leaves its result in the staging folder. The next run plans as usual; for a unit that equals one of
a dead run in everything that shapes its output (the same inputs with their sizes and times, the same options), the
outputs are moved to names of the new run and proved against the inputs by content. Merging is skipped, proving is not:
no file left on disk is trusted, and a unit that fails the proof is merged as if it had never been there.

The move makes the reuse exclusive: of two runs that want the same output, one no longer finds it, and merges. So
nothing is reused on a store without an atomic rename.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic

from packstone.errors import CorruptionError, PackstoneError
from packstone.model.codec import dump_record, kind_of
from packstone.model.maintenance import UnitAgain
from packstone.model.unit import OutputT, UnitResult, UnitStatus
from packstone.model.work import UnitT
from packstone.runs.tasks import ContextT, Job, Reuse, Task, list_tasks, read_finished
from packstone.storage.fileio import EntryKind, list_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.runs.folder import Run
    from packstone.storage.fileio import FileIO

_WAVE: Final = re.compile(r"w[0-9]{4,9}")
_STAGE: Final = re.compile(r"([sr])[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedUnit(UnitAgain[UnitT], Generic[UnitT, OutputT]):
    """A unit of this run, and the result of an equal unit of a dead run, which is taken over."""

    result: UnitResult[OutputT]


def reuse_job(job: Job[ContextT, UnitT, OutputT]) -> Job[ContextT, FinishedUnit[UnitT, OutputT], OutputT]:
    """The job that takes over finished units of a job; a job without ``reuse`` has no such units."""
    do: Any = job.reuse.do if job.reuse is not None else job.do
    kind = kind_of(FinishedUnit, job.unit, job.output)
    return Job(context=job.context, unit=kind, output=job.output, do=do)


class FinishedUnits(Generic[ContextT, UnitT, OutputT]):
    """The finished units of the dead runs that a run inherited; each is taken once."""

    def __init__(self, run: Run, job: Job[ContextT, UnitT, OutputT]) -> None:
        self._reuse = job.reuse
        self._found: dict[bytes, UnitResult[OutputT]] = {}
        if job.reuse is None or not run.io.capabilities.atomic_rename:
            return
        for dead in run.inherited:
            with contextlib.suppress(PackstoneError, OSError):  # what cannot be read is merged again
                self._found |= dict(_read_run(run, dead, job, reuse=job.reuse))

    def take(self, units: Sequence[UnitT], context: ContextT) -> list[FinishedUnit[UnitT, OutputT]]:
        """Take those of the units that a dead run had finished."""
        if self._reuse is None or not self._found:
            return []
        reuse = self._reuse
        found = ((unit, self._found.pop(_key(reuse, context, unit), None)) for unit in units)
        return [FinishedUnit(unit=unit, result=result) for unit, result in found if result is not None]


def check_is_there(io: FileIO, path: str, *, size_bytes: int, mtime_ns: int | None = None) -> None:
    """Raise CorruptionError unless a finished output has the recorded size and time."""
    found = io.stat(path)
    is_same = found is not None and found.kind is EntryKind.FILE and found.size_bytes == size_bytes
    if not is_same or (mtime_ns is not None and found is not None and found.mtime_ns != mtime_ns):
        raise CorruptionError(f"{path} is not the file that was written.", file=path)


def _key(reuse: Reuse[ContextT, UnitT, OutputT], context: ContextT, unit: UnitT) -> bytes:
    """A unit with everything that shapes its output, as bytes that can be compared."""
    same_context, same_unit = reuse.identity(context, unit)
    return dump_record(Task(number=0, context=same_context, units=(same_unit,)))


def _read_run(
    run: Run, dead: str, job: Job[ContextT, UnitT, OutputT], *, reuse: Reuse[ContextT, UnitT, OutputT]
) -> Iterator[tuple[bytes, UnitResult[OutputT]]]:
    """Yield the finished units of a dead run, except of waves that it was about to publish: they may be published."""
    io, folders = run.io, run.folders
    staging, created = folders.staging(dead), frozenset(folders.read_created(dead))
    published = folders.list_waves(dead)
    for wave in list_entries(io, staging):
        if not _WAVE.fullmatch(wave.name) or int(wave.name[1:]) in published:
            continue
        for stage in list_entries(io, f"{staging}/{wave.name}"):
            kind = _STAGE.fullmatch(stage.name)
            if kind is None or stage.kind is not EntryKind.DIRECTORY:
                continue
            folder = f"{staging}/{wave.name}/{stage.name}"
            for context, unit, result in _read_stage(io, folder, job, again=kind[1] == "r"):
                # All outputs must be files that the dead run wrote: a damaged record must not move a file of the table.
                # And they must exist: two dead runs can name one unit, if the later one took it over from the earlier.
                paths = [reuse.output_path(unit, output) for output in result.outputs]
                is_own = all(path in created or path.rpartition("/")[0] == folder for path in paths)
                if paths and is_own and all(io.stat(path) is not None for path in paths):
                    yield _key(reuse, context, unit), result


def _read_stage(
    io: FileIO, folder: str, job: Job[ContextT, UnitT, OutputT], *, again: bool
) -> Iterator[tuple[ContextT, UnitT, UnitResult[OutputT]]]:
    """Yield the finished units in one folder; ``again``: they were themselves taken over from an earlier run."""
    results = {result.number: result for result in read_finished(io, folder, job=job)}
    tasks: Iterator[Task[ContextT, Any]] = list_tasks(io, folder, reuse_job(job) if again else job)
    for task in tasks:
        for payload in task.units:
            result = results.get(payload.number)
            if result is not None and result.status is UnitStatus.WRITTEN:
                yield task.context, payload.unit if again else payload, result
