"""The tasks on a Hive directory: merge units and copy files, inspect files, or prove merged files again."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from packstone.errors import PackstoneError, UnfaithfulError
from packstone.model.files import FileEntry
from packstone.model.maintenance import Damage, ProvedUnit, damage_in
from packstone.model.unit import Fingerprint, How, StagedFile, UnitResult, UnitSpec, UnitStatus
from packstone.rewrite.blame_file import describe_error
from packstone.rewrite.small_files.merge_unit import KERNELS, Written, kernel_of, read_through, reuse_unit, run_unit
from packstone.runs.reuse import FinishedUnit
from packstone.runs.tasks import Attempt, Job, Reuse
from packstone.storage.location import scheme_of
from packstone.tables.hive.file_facts import FileFacts, Verdict, format_by_name, read_file_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packstone.storage.fileio import FileIO
    from packstone.tables.hive.journal import Journal

_FOOTER_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFiles:
    """Files of one folder."""

    directory: str
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedFiles:
    """The facts of files of one folder: most share all but their name, so each different one is stated once."""

    kinds: tuple[FileFacts, ...]  # without a name
    which: tuple[int, ...]  # for each file, the index of its kind

    @classmethod
    def of(cls, facts: Iterable[FileFacts]) -> Self:
        """Combine the facts of files."""
        kinds: dict[FileFacts, int] = {}
        which = tuple(kinds.setdefault(replace(one, name=""), len(kinds)) for one in facts)
        return cls(kinds=tuple(kinds), which=which)

    def by_name(self, files: tuple[FileEntry, ...]) -> dict[str, FileFacts]:
        """The facts of each file, by its name."""
        named = zip(files, self.which, strict=True)
        return {file.name: replace(self.kinds[at], name=file.name) for file, at in named}


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsUnit:
    """Files of some folders to inspect."""

    number: int
    folders: tuple[FolderFiles, ...]
    codec: str

    @property
    def input_files(self) -> tuple[tuple[str, str], ...]:
        """One file of each format that the names suggest: its code is loaded before a worker starts."""
        named = {
            name: f"{folder.directory}/{file.name}"
            for folder in self.folders
            for file in folder.files
            if (name := format_by_name(file.name)) is not None
        }
        return tuple((path, name) for name, path in named.items())

    @property
    def input_bytes(self) -> int:
        """About what it reads: footers only."""
        return sum(len(folder.files) for folder in self.folders) * _FOOTER_BYTES


def merge_or_copy(attempt: Attempt, _context: None, spec: UnitSpec) -> UnitResult[StagedFile]:
    """Merge the inputs of a unit and prove the output, or copy its one input."""
    if spec.how is not How.COPY:
        return run_unit(attempt.io, spec, staging=attempt.staging, attempt=attempt.name)
    from packstone.tables.hive.relocate import copy_alike  # only publishing by location copies

    target = f"{attempt.staging}/copy-{spec.number:05d}-{attempt.name}"
    outputs: tuple[StagedFile, ...] = (StagedFile(path=target),)
    try:
        copy_alike(attempt.io, f"{spec.directory}/{spec.inputs[0].name}", target)
    except (OSError, PackstoneError):
        outputs = ()  # the commit copies it, or raises the reason why it cannot
    return UnitResult(number=spec.number, status=UnitStatus.WRITTEN, how=How.COPY, outputs=outputs)


def read_facts(attempt: Attempt, _context: None, unit: FactsUnit) -> UnitResult[InspectedFiles]:
    """Inspect some files."""
    outputs = tuple(
        InspectedFiles.of(
            read_file_facts(attempt.io, folder.directory, file, codec=unit.codec) for file in folder.files
        )
        for folder in unit.folders
    )
    return UnitResult(number=unit.number, status=UnitStatus.WRITTEN, outputs=outputs)


def prove_again(attempt: Attempt, _context: None, proved: ProvedUnit[UnitSpec, StagedFile]) -> UnitResult[StagedFile]:
    """Fingerprint a merged file again and, while they are kept, its originals."""
    spec, (output,) = proved.unit, proved.outputs
    written = Written(
        how=spec.how, ordered=output.ordered, copied=output.copied_columns, header_lines=spec.header_lines
    )
    sides: list[tuple[str, tuple[str, ...]]] = [("the merged file", (output.path,))]
    if proved.has_inputs:
        sides.append(("its originals", tuple(f"{spec.directory}/{file.name}" for file in spec.inputs)))
    found: list[Fingerprint] = []
    for which, paths in sides:
        try:
            found.append(kernel_of(spec.file_format).fingerprint(attempt.io, paths, written=written))
        except Exception as error:  # noqa: BLE001 - damaged bytes make decoders raise anything
            said = str(error) if isinstance(error, (PackstoneError, OSError)) else describe_error(error)
            message = f"{which} cannot be read: {said}"
            return UnitResult(number=spec.number, status=UnitStatus.UNREADABLE, message=message)
    after, before = found[0], found[-1]
    is_same = after == before  # also where only the number of rows was recorded
    return UnitResult(
        number=spec.number,
        status=UnitStatus.WRITTEN if is_same else UnitStatus.MISMATCH,
        message="" if is_same else f"the merged file holds {after}, its originals {before}",
        rows_in=before.rows,
        rows_out=after.rows,
        fingerprint=str(after),
    )


def reuse_merge(
    attempt: Attempt, _context: None, finished: FinishedUnit[UnitSpec, StagedFile]
) -> UnitResult[StagedFile]:
    """Reuse what a killed run had merged, and prove it; copying again is as fast as reusing a copy."""
    if finished.unit.how is How.COPY:
        return merge_or_copy(attempt, None, finished.unit)
    return reuse_unit(attempt.io, finished.unit, finished.result, staging=attempt.staging, attempt=attempt.name)


def _identity(context: None, spec: UnitSpec) -> tuple[None, UnitSpec]:
    """Return a unit without the names that a run gives it, to compare units of different runs."""
    return context, replace(spec, number=0, output_name="", why="")


def _output_path(_spec: UnitSpec, output: StagedFile) -> str:
    return output.path


HIVE_JOB: Final = Job(
    context=type(None),
    unit=UnitSpec,
    output=StagedFile,
    do=merge_or_copy,
    read_through=read_through,
    prove=prove_again,
    reuse=Reuse(do=reuse_merge, identity=_identity, output_path=_output_path),
    load_format=kernel_of,
)
FACTS_JOB: Final = Job(context=type(None), unit=FactsUnit, output=InspectedFiles, do=read_facts, load_format=kernel_of)


# ---- measure reading the same rows from the originals and from the merged files ----
#
# The two reads of a verification come one after the other, so the second finds a warmer cache. Here the sides
# alternate, each several times, with the same columns. A cold read first asks the kernel to drop the files' pages.
# The best time of each side counts.

_RUNS: Final = 3
_MAX_BYTES: Final = 1 << 30  # a sample is enough to compare, and the user waits


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMeasurement:
    """The best time of each side, and what was read."""

    cache: str
    seconds_before: float
    seconds_after: float
    files_before: int
    files_after: int
    runs: int
    engine: str


def measure_reads(journal: Journal, run: str) -> tuple[dict[str, object], ...]:
    """Measure cold and warm reads of a run's originals (still kept) and of its outputs."""
    io = journal.io
    before: list[tuple[str, str]] = []
    after: list[tuple[str, str]] = []
    size_bytes = 0
    for intent in journal.read_intents(run):
        by_name = {file.name: file for file in intent.inputs}
        for output in intent.outputs:
            if size_bytes > _MAX_BYTES or io.stat(intent.published(output)) is None:
                continue
            size_bytes += output.size_bytes
            after.append((output.merged_as, intent.published(output)))
            before.extend((output.merged_as, intent.kept(by_name[name])) for name in output.inputs)
    if not after:
        return ()
    readings = (_measure(io, before, after, cache=cache) for cache in ("cold", "warm"))
    return tuple({name: getattr(reading, name) for name in reading.__slots__} for reading in readings)


def _measure(
    io: FileIO, before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]], *, cache: str
) -> ReadMeasurement:
    best = [float("inf"), float("inf")]
    for turn in range(_RUNS):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            files = (before, after)[side]
            if cache == "cold":
                _drop_pages([path for _, path in files])
            began = time.perf_counter()
            _read_all(io, files)
            best[side] = min(best[side], time.perf_counter() - began)
    return ReadMeasurement(
        cache=cache,
        seconds_before=best[0],
        seconds_after=best[1],
        files_before=len(before),
        files_after=len(after),
        runs=_RUNS,
        engine="pyarrow, all columns, one thread",
    )


def _read_all(io: FileIO, files: Sequence[tuple[str, str]]) -> None:
    for file_format, path in files:
        kernel_of(file_format).read_through(io, path)


def _drop_pages(paths: Sequence[str]) -> None:
    for path in paths:
        if scheme_of(path) != "file":
            continue  # another machine's cache is not ours to empty; its cold reads are warm ones
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)  # dirty pages cannot be dropped
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderCheck:
    """Some files of a folder to check."""

    number: int
    folder: FolderFiles
    deep: bool
    input_files: tuple[tuple[str, str], ...] = ()

    @property
    def input_bytes(self) -> int:
        """What it reads: all data, or footers only."""
        files = self.folder.files
        return sum(file.size_bytes for file in files) if self.deep else len(files) * _FOOTER_BYTES


def check_files(attempt: Attempt, _context: None, unit: FolderCheck) -> UnitResult[Damage]:
    """Find files that cannot be read: by their footers or first bytes, in a deep check by decoding them."""
    found: list[Damage] = []
    for file in unit.folder.files:
        path = f"{unit.folder.directory}/{file.name}"
        facts = read_file_facts(attempt.io, unit.folder.directory, file, codec="keep")
        if facts.verdict is Verdict.UNREADABLE:
            found.append(Damage(file=path, why=facts.why.rstrip(".")))
        elif unit.deep and facts.file_format in KERNELS:
            with suppress(UnfaithfulError):  # not merged, but not damaged either
                found += damage_in(path, partial(read_through, attempt.io, path, facts.file_format))
    return UnitResult(number=unit.number, status=UnitStatus.WRITTEN, outputs=tuple(found))


HIVE_CHECK_JOB: Final = Job(context=type(None), unit=FolderCheck, output=Damage, do=check_files, load_format=kernel_of)
