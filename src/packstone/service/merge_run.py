"""One compaction of a Hive directory: plan → run → verify → commit, in waves of partitions.

A wave bounds everything at once: the staging space, the driver's memory, what a budget or a closing time window
can overshoot by, and how much is lost when the run is killed. Each partition of a wave is one swap; a conflict in
one skips that one. After a swap the partition is planned again over the files known at the start and the outputs
of this run, until that plan is empty: so a second command has nothing to do.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packstone.errors import (
    ConflictError,
    PackstoneError,
    UnavailableError,
    VerificationError,
    storage_sentence,
)
from packstone.model.outcome import UnitOutcome
from packstone.model.sizes import format_bytes
from packstone.model.skipped import SkipKind, SkipLog, Skipped
from packstone.model.unit import How, StagedFile, UnitResult, UnitSpec, UnitStatus
from packstone.runs.interrupts import Interrupted, finish_first
from packstone.runs.tasks import pack_units
from packstone.service.commit import check_same_folder, commit_partition, second_listing
from packstone.storage.store_hazards import why_no_move
from packstone.tables.hive.known_outputs import output_name
from packstone.tables.hive.tasks import HIVE_JOB
from packstone.tables.state_folder import make_staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packstone.model.files import FileEntry, Permissions
    from packstone.model.filters import Budget
    from packstone.model.merge_options import MergeOptions
    from packstone.runs.engine import Engine
    from packstone.runs.tasks import Progress
    from packstone.service.planner import Planner
    from packstone.service.run_session import RunSession
    from packstone.storage.fileio import Entry
    from packstone.tables.hive.plan_partition import PartitionPlan, PlannedUnit
    from packstone.tables.hive.switch import ByLocation

WAVE_BYTES = 4 << 30
WAVE_UNITS = 512
_SPACE_MARGIN_PCT = 10


@dataclass(slots=True)
class PartitionWork:
    """A partition in flight: its plan, and the names that this run may still touch in it."""

    plan: PartitionPlan
    allowed: set[str]
    number: int = 1
    units: list[UnitSpec] = field(default_factory=list)
    results: dict[int, UnitResult[StagedFile]] = field(default_factory=dict)
    copies: list[UnitSpec] = field(default_factory=list)  # what a new folder needs beside the merged files
    folder: Entry | None = None  # what its folder was before anything was read

    @property
    def staging_bytes(self) -> int:
        """How much is written for it."""
        return sum(spec.input_bytes for spec in (*self.units, *self.copies))

    @property
    def copied(self) -> dict[FileEntry, str]:
        """Where copies wait; a file whose copy failed is copied by whoever publishes."""
        done = ((spec.inputs[0], self.results.get(spec.number)) for spec in self.copies)
        return {file: one.outputs[0].path for file, one in done if one is not None and one.outputs}

    @property
    def partition(self) -> str:
        """Which partition this is."""
        return self.plan.listing.partition


@dataclass(slots=True)
class MergeRun:
    """The state of one run; ``units`` and ``skipped`` are its answer."""

    session: RunSession
    planner: Planner
    engine: Engine
    options: MergeOptions
    budget: Budget
    may_go_on: Callable[[], str | None]
    progress: Progress
    publish: ByLocation | None = None  # None: in place
    units: list[UnitOutcome] = field(default_factory=list)
    skipped: SkipLog = field(default_factory=SkipLog)
    swap_ms: float = 0.0
    files_removed: int = 0
    bytes_removed: int = 0
    _next_unit: int = 0
    _waves: int = 0
    _bytes_taken: int = 0
    _files_taken: int = 0
    _done_units: int = 0
    _done_bytes: int = 0

    def run(self, plans: Iterable[PartitionPlan]) -> None:
        """Take up the plans; if the run must stop, what it committed before is still its answer."""
        try:
            self._run_all(plans)
        except Interrupted:
            if not self.units:
                raise
            self._note_stop("It was interrupted.")
        except (PackstoneError, OSError) as error:
            stop = error if isinstance(error, PackstoneError) else UnavailableError(storage_sentence(error))
            if not self.units:
                raise stop from error
            self._note_stop(stop.message)

    def _note_stop(self, why: str) -> None:
        what = self.session.layout.root
        self.skipped.append(Skipped(what=what, why=f"The run stopped before its end. {why}", kind=SkipKind.FAILED))

    def _run_all(self, plans: Iterable[PartitionPlan]) -> None:
        """Wave after wave, round after round."""
        wave: list[PartitionWork] = []
        for plan in plans:
            self.skipped.extend(plan.skipped)
            if not plan.units:
                continue
            self._take_up(PartitionWork(plan=plan, allowed={file.name for file in plan.listing.files}), wave)
            if _is_full(wave):
                wave = self._run_wave(wave)
        while wave:
            wave = self._run_wave(wave)

    def _take_up(self, work: PartitionWork, wave: list[PartitionWork]) -> None:
        """Claim a partition, and cut its plan to the budget."""
        what = work.partition or work.plan.listing.directory
        stop = self.may_go_on()
        if stop is not None:
            self.skipped.append(Skipped(what=what, why=stop, kind=SkipKind.FILTERED))
            return
        fixed = self._why_not_movable(work.plan.listing.directory)
        if fixed is not None:
            self.skipped.append(Skipped(what=what, why=fixed, kind=SkipKind.REFUSED))
            return
        try:
            self.session.claim(work.partition)
        except ConflictError as conflict:
            self.skipped.append(Skipped(what=what, why=conflict.message, kind=SkipKind.CONFLICT))
            return
        work.folder = self.session.io.stat(work.plan.listing.directory)
        for planned in work.plan.units:
            over = self._over_budget(planned)
            if over is not None:
                self.skipped.append(Skipped(what=what, why=over, kind=SkipKind.FILTERED))
                continue
            work.units.append(self._spec(work, planned))
        if work.units:
            work.copies += self._copies(work) if self.publish is not None else ()
            wave.append(work)
        else:
            self.session.release(work.partition)

    def _why_not_movable(self, directory: str) -> str | None:
        """A partition can be a mount or an encryption zone of its own."""
        io, state = self.session.io, self.session.layout.state
        places = (directory, f"{state}/staging", self.options.backup_root or f"{state}/backup")
        if len({io.store_id(path) for path in places}) != 1:
            return "it is on another file system than its table's backup, and originals are moved, not copied"
        return why_no_move(io, directory, state)

    def _spec(self, work: PartitionWork, planned: PlannedUnit) -> UnitSpec:
        self._next_unit += 1
        self._bytes_taken += planned.input_bytes
        self._files_taken += len(planned.inputs)
        return UnitSpec(
            number=self._next_unit,
            partition=work.partition,
            directory=work.plan.listing.directory,
            inputs=planned.inputs,
            how=planned.how,
            file_format=planned.file_format,
            output_name=output_name(self.session.run, self._next_unit, planned.inputs),
            why=planned.why,
            codec=self.options.codec,
            header_lines=work.plan.listing.header_lines(self.options.header_lines) or 0,
            verify=self.options.verify,
            accept_invalid_text=self.options.accept_invalid_text,
            permissions=self._permissions(work.plan.listing.directory, planned.inputs[0]),
        )

    def _copies(self, work: PartitionWork) -> Iterator[UnitSpec]:
        """What is not merged goes along into the new folder."""
        merged = {file.name for spec in work.units for file in spec.inputs}
        for file in work.plan.listing.files:
            if file.name not in merged:
                self._next_unit += 1
                yield UnitSpec(
                    number=self._next_unit,
                    partition=work.partition,
                    directory=work.plan.listing.directory,
                    inputs=(file,),
                    how=How.COPY,
                    file_format="",
                    output_name=file.name,
                    why="carried over into the new folder",
                    permissions=file.permissions,
                )

    def _permissions(self, directory: str, first: FileEntry) -> Permissions:
        """What all inputs of a unit agree in; an input that is gone by now is found out by its task."""
        try:
            return self.session.io.read_permissions(f"{directory}/{first.name}")
        except FileNotFoundError:
            return first.permissions

    def _over_budget(self, planned: PlannedUnit) -> str | None:
        budget = self.budget
        if budget.max_bytes is not None and self._bytes_taken + planned.input_bytes > budget.max_bytes:
            return f"over the budget of --max-bytes {format_bytes(budget.max_bytes)}"
        if budget.max_files is not None and self._files_taken + len(planned.inputs) > budget.max_files:
            return f"over the budget of --max-files {budget.max_files}"
        return None

    def _run_wave(self, wave: list[PartitionWork]) -> list[PartitionWork]:
        """Write, verify and publish a wave; return the partitions that have another round to go."""
        self._waves += 1
        staging = f"{self.session.layout.staging(self.session.run)}/w{self._waves:04d}"
        wave = self._with_room(wave)
        if not wave:
            return []
        make_staging(self.session.io, self.session.layout.state, staging)
        self._run_units(wave, staging)
        again: list[PartitionWork] = []
        for work in wave:
            self._finish_partition(work, again)
        if not self.session.keep_staging:
            self.session.io.remove_tree(staging)
        return again

    def _with_room(self, wave: list[PartitionWork]) -> list[PartitionWork]:
        """Drop the partitions for which there is no space to stage."""
        layout = self.session.layout
        free = self.session.io.free_bytes(layout.state)
        kept: list[PartitionWork] = []
        for work in wave:
            need = work.staging_bytes * (100 + _SPACE_MARGIN_PCT) // 100
            if need > free:
                why = f"staging needs {format_bytes(need)} and {format_bytes(free)} are free beside the table"
                what = work.partition or work.plan.listing.directory
                self.skipped.append(Skipped(what=what, why=why, kind=SkipKind.REFUSED))
                self.session.release(work.partition)
                continue
            free -= need
            kept.append(work)
        return kept

    def _run_units(self, wave: list[PartitionWork], staging: str) -> None:
        specs = [spec for work in wave for spec in work.units]
        copies = [spec for work in wave for spec in work.copies]
        units = [*specs, *copies]
        tasks = pack_units(units, context=None, parallel=self.budget.parallel, deaths=self.session.layout.deaths)
        count, total_bytes = len(units), sum(work.staging_bytes for work in wave)

        def report(units: int, size_bytes: int) -> None:
            done_units, done_bytes = self._done_units + units, self._done_bytes + size_bytes
            self.progress.update(
                done_units=done_units,
                units=self._done_units + count,
                done_bytes=done_bytes,
                total_bytes=self._done_bytes + total_bytes,
            )

        report(0, 0)
        what = f"merge {sum(len(s.inputs) for s in specs)} files of {self.session.layout.root}"
        owner = {spec.number: work for work in wave for spec in (*work.units, *work.copies)}
        by_number = {spec.number: spec for spec in units}
        for result in self.engine.run(HIVE_JOB, tasks, staging=staging, what=what, on_progress=report):
            owner[result.number].results[result.number] = result
            if result.status is UnitStatus.MISMATCH and self._changed_input(by_number[result.number]) is None:
                self.session.keep_evidence = True
                raise VerificationError(f"{result.message} The evidence is kept in {staging}.", staging=staging)
        self._done_units += count
        self._done_bytes += total_bytes

    def _finish_partition(self, work: PartitionWork, again: list[PartitionWork]) -> None:
        what = work.partition or work.plan.listing.directory
        written = [spec for spec in work.units if work.results[spec.number].status is UnitStatus.WRITTEN]
        broken = self._note_failures(work)
        if written:
            try:
                with finish_first():
                    check_same_folder(self.session, work.plan.listing.directory, before=work.folder)
                    swapped = commit_partition(
                        self.session,
                        work.plan.listing,
                        written=written,
                        results=work.results,
                        number=work.number,
                        options=self.options,
                        publish=self.publish,
                        copied=work.copied,
                    )
                    self._note_committed(work, written, swapped)
            except ConflictError as conflict:
                self.skipped.append(Skipped(what=what, why=conflict.message, kind=SkipKind.CONFLICT))
                self.session.release(work.partition)
                return
            except (PackstoneError, OSError) as error:
                why = error.message if isinstance(error, PackstoneError) else storage_sentence(error)
                self.skipped.append(Skipped(what=what, why=why, kind=SkipKind.FAILED))
                self.session.keep_staging = True
                self.session.release(work.partition, is_unfinished=True)
                return
        work.allowed -= broken
        if written or broken:
            self._next_round(work, again)
        else:
            self.session.release(work.partition)

    def _changed_input(self, spec: UnitSpec) -> str | None:
        """Why a unit went wrong, if somebody wrote to its inputs: that is no broken file and no wrong merge."""
        for file in spec.inputs:
            path = f"{spec.directory}/{file.name}"
            found = self.session.io.stat(path)
            if found is None or (found.size_bytes, found.mtime_ns) != (file.size_bytes, file.mtime_ns):
                return f"{path} changed or was removed while it was being read; nothing was changed."
        return None

    def _note_failures(self, work: PartitionWork) -> set[str]:
        """Turn what went wrong into skips; return the names not to try again."""
        broken: set[str] = set()
        for spec in work.units:
            result = work.results[spec.number]
            what = work.partition or work.plan.listing.directory
            changed = None if result.status is UnitStatus.WRITTEN else self._changed_input(spec)
            if changed is not None:
                broken |= {file.name for file in spec.inputs}
                self.skipped.append(Skipped(what=what, why=changed, kind=SkipKind.CONFLICT))
            elif result.status is UnitStatus.UNREADABLE:
                name = result.blamed.rpartition("/")[2]
                broken |= {name} if name else {file.name for file in spec.inputs}
                what = f"{work.partition}/{name}" if work.partition else name
                self.skipped.append(Skipped(what=what, why=result.message, kind=SkipKind.UNREADABLE))
            elif result.status is UnitStatus.UNFAITHFUL:
                broken |= {file.name for file in spec.inputs}
                why = f"{len(spec.inputs)} files cannot be written back identically: {result.message}"
                self.skipped.append(Skipped(what=what, why=why, kind=SkipKind.LEFT_ALONE))
            elif result.status is UnitStatus.GROWN:
                broken |= {file.name for file in spec.inputs}
                self.skipped.append(Skipped(what=what, why=result.message, kind=SkipKind.LEFT_ALONE))
            elif result.status is UnitStatus.FAILED:
                broken |= {file.name for file in spec.inputs}
                self.skipped.append(Skipped(what=what, why=result.message, kind=SkipKind.FAILED))
        return broken

    def _note_committed(self, work: PartitionWork, written: list[UnitSpec], swap_ms: float) -> None:
        self.swap_ms += swap_ms
        for spec in written:
            result = work.results[spec.number]
            self.files_removed += len(spec.inputs) - 1
            self.bytes_removed += spec.input_bytes - result.outputs[0].size_bytes
            work.allowed -= {file.name for file in spec.inputs}
            work.allowed.add(spec.output_name)
            self.units.append(_unit_outcome(spec, result))

    def _next_round(self, work: PartitionWork, again: list[PartitionWork]) -> None:
        if self.publish is not None:  # each round would be another copy of all that stays
            self.session.release(work.partition)
            return
        try:
            listing = second_listing(self.session, work.plan.listing)
        except ConflictError as conflict:
            self.skipped.append(Skipped(what=work.partition, why=conflict.message, kind=SkipKind.CONFLICT))
            self.session.release(work.partition)
            return
        plan = self.planner.plan_again(listing, work.allowed)
        following = PartitionWork(plan=plan, allowed=work.allowed, number=work.number + 1)
        if plan.units:
            self._take_up(following, again)
        else:
            self.session.release(work.partition)


def _unit_outcome(spec: UnitSpec, result: UnitResult[StagedFile]) -> UnitOutcome:
    return UnitOutcome(
        partition=spec.partition,
        inputs=tuple(file.name for file in spec.inputs),
        outputs=(spec.output_name,),
        how=result.how,
        why=spec.why,
        bytes_before=spec.input_bytes,
        bytes_after=result.outputs[0].size_bytes,
        rows=result.rows_out,
        fingerprint=result.fingerprint,
        seconds=result.seconds,
        read_seconds_before=result.read_seconds_before,
        read_seconds_after=result.read_seconds_after,
        why_bigger=result.why_bigger,
    )


def _is_full(wave: list[PartitionWork]) -> bool:
    specs = [spec for work in wave for spec in work.units]
    return len(specs) >= WAVE_UNITS or sum(spec.input_bytes for spec in specs) >= WAVE_BYTES


def now_utc() -> datetime:
    """The time, with its zone."""
    return datetime.now(UTC)


def deadline(seconds: float | None) -> Callable[[], bool]:
    """Make the question whether the time is over."""
    if seconds is None:
        return lambda: False
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until
