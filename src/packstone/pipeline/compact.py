"""The one loop of a compaction, for every family: rounds of waves of parts.

::

    for number in 1, 2, …:                          ends with a round without plans
        for wave in waves(plans(number)):           hours, budget, limits of a wave
            works = room and claim                  parts that another run holds are left out
            while units := units(works):            stage after stage: run, prove
            commit                                  in one piece, or part by part; signals wait for it
            again                                   plan the same part once more, or release it

If an error stops the run, it reports what it committed before. If the run is interrupted, it first commits the parts of
the current wave that are written and proved; a second signal discards these too.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Generic

from packstone.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    PackstoneError,
    RefusedError,
    UnavailableError,
    VerificationError,
    storage_sentence,
)
from packstone.model.limits import Allowance, Budget, Filters
from packstone.model.outcome import SkipKind, SkipLog, Skipped
from packstone.model.sizes import format_bytes, format_duration
from packstone.model.unit import OutputT, UnitStatus
from packstone.model.work import PlanT, UnitT, Work
from packstone.runs.clock import now_utc
from packstone.runs.folder import PartRecord, WaveRecord
from packstone.runs.interrupts import Interrupted, finish_first, is_interruption, is_urgent
from packstone.runs.reuse import FinishedUnits, reuse_job
from packstone.runs.tasks import pack_units, read_finished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packstone.model.outcome import UnitOutcome
    from packstone.model.unit import UnitResult
    from packstone.model.work import Commit
    from packstone.pipeline.contract import FamilyTable
    from packstone.runs.engine import Engine
    from packstone.runs.folder import Run
    from packstone.runs.tasks import Progress
    from packstone.storage.fileio import FileIO

_LOG = logging.getLogger("packstone")


@dataclass(slots=True)
class Tally:
    """What a run did."""

    units: list[UnitOutcome] = field(default_factory=list)
    skipped: SkipLog = field(default_factory=SkipLog)
    versions: list[int] = field(default_factory=list)
    commit_ms: float = 0.0
    reader_gap_ms: float = 0.0
    offered: set[str] = field(default_factory=set)  # parts to merge that were planned so far
    published: set[str] = field(default_factory=set)
    reused: int = 0  # units taken from a killed run that had finished them
    is_planned: bool = False  # all parts were offered
    is_whole: bool = False  # nothing is left to do
    is_interrupted: bool = False

    def note_interrupt(self, root: str) -> None:
        """Note that the run on the table in ``root`` was interrupted; a second note changes nothing."""
        if not self.is_interrupted:
            self.is_interrupted = True
            self.note_stop(root, "The run was interrupted before it finished.")

    def note_stop(self, root: str, why: str) -> None:
        """Note why the run ended early, so that it counts as failed or partial."""
        self.skipped.append(Skipped(what=root, why=why, kind=SkipKind.FAILED))


@dataclass(frozen=True, slots=True)
class _Stage(Generic[PlanT, UnitT, OutputT]):
    """The units that run together: the work each belongs to, and the folder where their tasks leave results."""

    works: dict[int, Work[PlanT, UnitT, OutputT]]  # by the number of the unit
    staging: str
    is_reuse: bool = False  # outputs of killed runs are proved; a unit that fails here is merged normally


@dataclass(slots=True)
class Compaction(Generic[PlanT, UnitT, OutputT]):
    """The state of one run over the plans that it is given; ``tally`` holds what it did."""

    table: FamilyTable[PlanT, UnitT, OutputT, Any]
    run: Run
    engine: Engine
    admission: Admission[PlanT, UnitT, OutputT]
    progress: Progress
    is_saved: bool = False  # a saved plan is carried out as it is: no part is planned again
    tally: Tally = field(default_factory=Tally)
    _open: list[Work[PlanT, UnitT, OutputT]] = field(default_factory=list)  # claimed and not yet published
    _claimed: dict[str, PlanT] = field(default_factory=dict)
    _reported: set[tuple[str, str]] = field(default_factory=set)
    _waves: int = 0
    _stage: _Stage[PlanT, UnitT, OutputT] | None = None  # the stage that is running
    _finished: FinishedUnits[Any, UnitT, OutputT] | None = None
    _preparing: Work[PlanT, UnitT, OutputT] | None = None  # its next units are being made: its state is inconsistent
    _is_written: bool = False  # all open works can be committed
    _is_stopping: bool = False
    _done_units: int = 0
    _done_bytes: int = 0

    def carry_out(self, plans: Callable[[int], Iterator[PlanT | Skipped]]) -> None:
        """Run round after round until one offers no plan."""
        try:
            self._run_rounds(plans)
            self.table.finish(self.run)
            self.tally.is_whole = True
        except Exception as error:
            if is_interruption(error):
                self.tally.note_interrupt(self.table.root)
                return
            if not isinstance(error, (PackstoneError, OSError)):
                raise
            stop = error if isinstance(error, PackstoneError) else UnavailableError(storage_sentence(error))
            if not self.tally.units:
                raise stop from error
            self.tally.note_stop(self.table.root, f"The run stopped before its end. {stop.message}")
        except Interrupted:
            self.tally.note_interrupt(self.table.root)
        except KeyboardInterrupt:  # from a notebook, which must receive it too
            self.tally.note_interrupt(self.table.root)
            raise
        finally:
            if self._claimed:  # parts that were waiting for another pass
                with contextlib.suppress(OSError, PackstoneError, Interrupted), finish_first():
                    self._release(list(self._claimed.values()), unfinished=True)

    def _release(self, plans: Sequence[PlanT], *, unfinished: bool = False) -> None:
        self.table.release(plans, self.run, unfinished=unfinished)
        for plan in plans:
            self._claimed.pop(plan.part, None)

    def _run_rounds(self, plans: Callable[[int], Iterator[PlanT | Skipped]]) -> None:
        for number in count(1):
            is_offered, units, size_bytes = False, 0, 0
            wave: list[Work[PlanT, UnitT, OutputT]] = []
            for plan in plans(number):
                if isinstance(plan, Skipped):
                    self.tally.skipped.append(plan)
                    continue
                is_offered = True
                if not self._admit(Work(plan=plan), wave):
                    continue
                units, size_bytes = units + wave[-1].plan.unit_count, size_bytes + wave[-1].plan.read_bytes
                if self._is_full(units, size_bytes):
                    wave = self._run_wave(wave)
                    units = sum(work.plan.unit_count for work in wave)
                    size_bytes = sum(work.plan.read_bytes for work in wave)
            self.tally.is_planned = True
            while wave:
                wave = self._run_wave(wave)
            if not is_offered:
                return

    def _admit(self, work: Work[PlanT, UnitT, OutputT], wave: list[Work[PlanT, UnitT, OutputT]]) -> bool:
        """Add a work to the wave, cut to the budget; report once what does not fit."""
        is_admitted, why = self.admission.admit(work)
        if why and (work.part, why) not in self._reported:
            self._reported.add((work.part, why))
            self._skip(work.part, why, SkipKind.FILTERED)
        if is_admitted:
            self.tally.offered.add(work.part)
            wave.append(work)
        return is_admitted

    def _is_full(self, units: int, size_bytes: int) -> bool:
        limits = self.table.wave
        return units >= limits.units or size_bytes >= limits.size_bytes

    def _skip(self, what: str, why: str, kind: SkipKind) -> None:
        self.tally.skipped.append(Skipped(what=what, why=why, kind=kind))

    def _begin(self, wave: list[Work[PlanT, UnitT, OutputT]]) -> None:
        """Claim the works that fit in the free space; the claimed ones are open from here on."""
        crowded = find_crowded(self.table.io, self.table.output_home, wave)
        for part, why in crowded.items():
            self._skip(part, why, SkipKind.REFUSED)
        held = [work.plan for work in wave if work.part in crowded and work.part in self._claimed]
        if held:
            self._release(held)
        wanted = [work for work in wave if work.part not in crowded]
        if not wanted:
            return
        self.engine.expect(
            self.table.job,
            files=sum(work.plan.file_count for work in wanted),
            size_bytes=sum(work.plan.read_bytes for work in wanted),
        )
        with finish_first():
            taken = self.table.claim([work.plan for work in wanted], self.run)
            self._open += [work for work in wanted if work.part not in taken]
            self._claimed |= {work.part: work.plan for work in self._open}
        for part, who in taken.items():
            self._skip(part, who, SkipKind.CONFLICT)

    def _run_wave(self, wave: list[Work[PlanT, UnitT, OutputT]]) -> list[Work[PlanT, UnitT, OutputT]]:
        """Write, prove and publish a wave; return the parts that need another pass."""
        self._waves += 1
        following: list[Work[PlanT, UnitT, OutputT]] = []
        self._stage, self._is_written = None, False
        try:
            self._begin(wave)
            read_bytes = sum(work.plan.read_bytes for work in self._open)
            _LOG.info("%s: wave %d, %d parts, %d bytes", self.run.id, self._waves, len(self._open), read_bytes)
            self._write()
            self._is_written = True
            self._finish(list(self._open), following)
        except BaseException as error:
            self._end_wave(error)
            raise
        self.run.remove_wave_staging(self._waves)
        return following

    def _write(self) -> None:
        """Run stage after stage until every part can be committed."""
        for stage in count(1):
            staged: dict[int, Work[PlanT, UnitT, OutputT]] = {}
            units: list[UnitT] = []
            for work in list(self._open):
                for unit in self._next_units(work):
                    work.units[unit.number] = unit
                    staged[unit.number] = work
                    units.append(unit)
            if not units:
                return
            self._run_units(units, staged, stage=stage)
            if self.table.whole_parts:
                for work in [work for work in self._open if work.failures]:
                    self._note_failures(work)
                    self._drop(work)

    def _next_units(self, work: Work[PlanT, UnitT, OutputT]) -> Sequence[UnitT]:
        self._preparing = work
        try:
            units = self.table.units(work)
        except CorruptionError as error:
            self._skip(work.part, error.message, SkipKind.UNREADABLE)
        except RefusedError as error:
            self._skip(work.part, error.message, SkipKind.REFUSED)
        else:
            self._preparing = None
            return units
        self._drop(work)
        return ()

    def _run_units(self, units: list[UnitT], staged: dict[int, Work[PlanT, UnitT, OutputT]], *, stage: int) -> None:
        count, total_bytes = len(units), sum(unit.input_bytes for unit in units)
        taken, taken_bytes = 0, 0

        def report(done: int, size_bytes: int) -> None:
            self.progress.update(
                done_units=self._done_units + taken + done,
                units=self._done_units + count,
                done_bytes=self._done_bytes + taken_bytes + size_bytes,
                total_bytes=self._done_bytes + total_bytes,
            )

        report(0, 0)
        units = self._reuse(units, staged, stage=stage, report=report)
        taken, taken_bytes = count - len(units), total_bytes - sum(unit.input_bytes for unit in units)
        if units:
            self._merge(units, staged, stage=stage, report=report)
        self._done_units += count
        self._done_bytes += total_bytes

    def _merge(
        self,
        units: list[UnitT],
        staged: dict[int, Work[PlanT, UnitT, OutputT]],
        *,
        stage: int,
        report: Callable[[int, int], None],
    ) -> None:
        table, staging = self.table, self.run.staging(self._waves, stage)
        self._stage = _Stage(staged, staging)
        tasks = pack_units(
            units,
            context=table.context(self.run),
            parallelism=self.engine.parallelism,
            parallel=self.admission.budget.parallel,
            deaths=self.run.folders.deaths,
        )
        works = {id(work): work for work in staged.values()}.values()
        what = f"merge {sum(work.plan.file_count for work in works)} files of {table.root}"
        try:
            for result in self.engine.run(table.job, tasks, staging=staging, what=what, on_progress=report):
                self._take(staged[result.number], result, staging)
        finally:
            self.run.tasks_may_outlive |= self.engine.tasks_may_outlive_job

    def _reuse(
        self,
        units: list[UnitT],
        staged: dict[int, Work[PlanT, UnitT, OutputT]],
        *,
        stage: int,
        report: Callable[[int, int], None],
    ) -> list[UnitT]:
        """Take over units that killed runs had finished, and prove them again; return the units still to merge."""
        if not self.run.inherited:
            return units
        table = self.table
        if self._finished is None:
            self._finished = FinishedUnits(self.run, table.job)
        context = table.context(self.run)
        finished = self._finished.take(units, context)
        if not finished:
            return units
        staging = self.run.staging(self._waves, stage, kind="r")
        self._stage = _Stage(staged, staging, is_reuse=True)
        parallel = self.admission.budget.parallel
        tasks = pack_units(finished, context=context, parallelism=self.engine.parallelism, parallel=parallel)
        what = f"prove {len(finished)} finished merges of {table.root}"
        for result in self.engine.run(reuse_job(table.job), tasks, staging=staging, what=what, on_progress=report):
            if result.status is UnitStatus.WRITTEN:
                staged[result.number].results[result.number] = result
                self.tally.reused += 1
        return [unit for unit in units if unit.number not in staged[unit.number].results]

    def _take(self, work: Work[PlanT, UnitT, OutputT], result: UnitResult[OutputT], staging: str) -> None:
        work.results[result.number] = result
        if result.status is UnitStatus.MISMATCH and self.table.changed_input(work.units[result.number]) is None:
            self._stop_with_evidence(work, result.message, staging)

    def _stop_with_evidence(self, work: Work[PlanT, UnitT, OutputT], why: str, staging: str) -> None:
        """Raise VerificationError; nothing of the part is published or removed, so that it can be inspected."""
        self.run.keep_evidence = True
        self._open.remove(work)
        with contextlib.suppress(OSError, PackstoneError), finish_first():
            self._release([work.plan])
        raise VerificationError(f"{work.part}: {why} The evidence is kept in {staging}.", staging=staging)

    def _note_failures(self, work: Work[PlanT, UnitT, OutputT]) -> None:
        """Report for each unit that was not written why it was left alone."""
        is_whole = self.table.whole_parts
        kinds = {
            UnitStatus.UNREADABLE: SkipKind.UNREADABLE,
            UnitStatus.UNFAITHFUL: SkipKind.REFUSED if is_whole else SkipKind.LEFT_ALONE,
            UnitStatus.GROWN: SkipKind.LEFT_ALONE,
        }
        for unit, result in work.failures[: 1 if is_whole else None]:
            changed = self.table.changed_input(unit)
            if changed is not None:
                self._skip(work.part, changed, SkipKind.CONFLICT)
                continue
            name = "" if is_whole or result.status is not UnitStatus.UNREADABLE else result.blamed.rpartition("/")[2]
            why = result.message
            if result.status is UnitStatus.UNFAITHFUL and not is_whole:
                why = f"{len(unit.input_files)} files cannot be written back identically: {why}"
            self._skip(self.table.label(work.part, name), why, kinds.get(result.status, SkipKind.FAILED))

    def _finish(self, works: list[Work[PlanT, UnitT, OutputT]], following: list[Work[PlanT, UnitT, OutputT]]) -> None:
        """Commit the works of a wave that wrote something; plan each once more, or release it."""
        lost: dict[str, str] = {}
        written = [work for work in works if work.is_written]
        if not self.table.whole_parts:
            for work in works:
                self._note_failures(work)
        going_on = [work for work in works if not work.is_written]
        if written:
            commit = self._commit(written)
            if commit is not None:
                lost.update(commit.lost)
                going_on += [work for work in written if work.part in commit.committed or work.part in lost]
            elif self.table.one_commit:
                return
        for work in going_on:
            if work.part in lost:
                self.table.discard(work, self.run)
            self._go_on(work, lost.get(work.part), following)

    def _commit(self, works: list[Work[PlanT, UnitT, OutputT]]) -> Commit | None:
        """Publish the works; return None if all of them were lost and have been dropped.

        A signal waits until it is known for each work whether it is published; the works that are not published can
        still be committed afterwards.
        """
        table, began = self.table, time.perf_counter()
        with finish_first():
            try:
                if table.one_commit:
                    self._record_wave(works)
                commit = table.commit(works, self.run)
                self._note_commit(commit, works)
                self._note_unpublished(commit, works)
            except ConflictError as conflict:
                self.run.forget_wave(self._waves)
                for work in works:
                    self._skip(work.part, conflict.message, SkipKind.CONFLICT)
                    self._drop(work)
                return None
            except (PackstoneError, OSError) as error:
                if table.one_commit:
                    self._give_up(error)
                    raise
                why = error.message if isinstance(error, PackstoneError) else storage_sentence(error)
                for work in works:
                    self._leave(work, why)
                return None
            except BaseException as error:
                self._give_up(error)
                raise
        commit_ms = (time.perf_counter() - began) * 1000
        self.tally.commit_ms += commit_ms
        _LOG.info("%s: committed %s in %.0f ms", self.run.id, ", ".join(commit.committed) or "nothing", commit_ms)
        return commit

    def _record_wave(self, works: Sequence[Work[PlanT, UnitT, OutputT]]) -> None:
        parts = tuple(
            PartRecord(
                part=work.part,
                units=tuple(work.units.values()),
                results=tuple(work.results.values()),
                outcomes=self.table.outcomes(work),
            )
            for work in works
        )
        context = self.table.context(self.run)
        self.run.record_wave(
            WaveRecord(run=self.run.id, wave=self._waves, context=context, parts=parts, verified=str(self.table.verify))
        )

    def _note_commit(self, commit: Commit, works: Sequence[Work[PlanT, UnitT, OutputT]]) -> None:
        """Note what is published, while signals wait: published works must not be discarded any more."""
        self._open = [work for work in self._open if work.part not in commit.committed]
        self.tally.published |= commit.committed.keys()
        for outcomes in commit.committed.values():
            self.tally.units += outcomes
        self.tally.reader_gap_ms += commit.reader_gap_ms
        if commit.version is not None:
            self.tally.versions.append(commit.version)
        if commit.lost and self.table.one_commit:
            kept = [work for work in works if work.part in commit.committed]
            if kept:
                self._record_wave(kept)
            else:
                self.run.forget_wave(self._waves)

    def _note_unpublished(self, commit: Commit, works: Sequence[Work[PlanT, UnitT, OutputT]]) -> None:
        """Drop the parts that were in conflict, and leave those that failed as they are."""
        for work in works:
            if work.part in commit.conflicts:
                self._skip(work.part, commit.conflicts[work.part], SkipKind.CONFLICT)
                self._drop(work)
            elif work.part in commit.failed:
                self._leave(work, commit.failed[work.part])

    def _leave(self, work: Work[PlanT, UnitT, OutputT], why: str) -> None:
        """Release a part whose commit may be incomplete; keep its staged files."""
        self._skip(work.part, why, SkipKind.FAILED)
        self._open.remove(work)
        self.run.keep_staging = True
        self._release([work.plan], unfinished=True)

    def _go_on(
        self,
        work: Work[PlanT, UnitT, OutputT],
        lost: str | None,
        following: list[Work[PlanT, UnitT, OutputT]],
    ) -> None:
        """Plan the same part once more, or release it."""
        plan: PlanT | Skipped | None = None
        if not self.is_saved and not self._is_stopping:
            plan = self.table.again(work, lost)
        elif lost is not None:
            plan = Skipped(what=work.part, why=lost, kind=SkipKind.CONFLICT)
        if work in self._open:
            self._open.remove(work)
        if isinstance(plan, Skipped):
            self.tally.skipped.append(plan)
        elif plan is not None and self._admit(Work(plan=plan, passes=work.passes + 1), following):
            return
        self._release([work.plan])

    def _drop(self, work: Work[PlanT, UnitT, OutputT]) -> None:
        """Discard a part that is definitely not published: first its claim, then its files."""
        self._open.remove(work)
        self._release([work.plan])
        self.table.discard(work, self.run)

    def _end_wave(self, error: BaseException) -> None:
        """Discard the open works; after an interrupt, first publish those that are written and proved."""
        if is_interruption(error) and not is_urgent():
            try:
                self._publish_finished()
            except BaseException as second:
                self._give_up(second)
                raise
        self._give_up(error)

    def _publish_finished(self) -> None:
        """Commit the parts that are written and proved; the others stay open."""
        self._is_stopping = True
        if not self._is_written:
            self._take_finished()
        finished = [work for work in list(self._open) if self._is_written or self._is_finished(work)]
        if finished:
            self._finish(finished, [])

    def _take_finished(self) -> None:
        """Read the results of finished units whose task or job had not ended: each unit leaves its own result."""
        if self._stage is None:
            return
        staging, works = self._stage.staging, self._stage.works
        for result in read_finished(self.table.io, staging, job=self.table.job):
            work = works.get(result.number)
            is_wanted = result.status is UnitStatus.WRITTEN or not self._stage.is_reuse
            if work is not None and result.number not in work.results and is_wanted:
                self._take(work, result, staging)

    def _is_finished(self, work: Work[PlanT, UnitT, OutputT]) -> bool:
        """Return whether a part of an interrupted wave can be committed: all of it, or its finished units."""
        if not work.units or work is self._preparing:
            return False
        missing = [number for number in work.units if number not in work.results]
        if self.table.whole_parts:
            is_done = not missing and not work.failures
            return is_done and not self._next_units(work) and work in self._open
        for number in missing:
            del work.units[number]
        return bool(work.units)

    def _give_up(self, error: BaseException) -> None:
        """Release and discard the open works; what cannot be removed now, `clean` and `recover` remove later."""
        is_unknown = isinstance(error, CommitUnknownError)
        works, self._open = self._open, []
        self.run.keep_records |= is_unknown
        with contextlib.suppress(OSError, PackstoneError, Interrupted), finish_first():
            if works:
                unfinished = is_unknown or not self.table.one_commit
                self._release([work.plan for work in works], unfinished=unfinished)
            for work in works if not is_unknown else ():
                self.table.discard(work, self.run)


# ---- waves ----
# Decide which work may begin now: by the caller's hours, time and budget, and by the free space of the store.


_SPACE_MARGIN_PCT: Final = 10


@dataclass(slots=True)
class Admission(Generic[PlanT, UnitT, OutputT]):
    """Admits works one by one, and subtracts what they read from the budget."""

    filters: Filters
    budget: Budget
    _left: Allowance = field(init=False)
    _began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._left = Allowance(budget=self.budget)

    def admit(self, work: Work[PlanT, UnitT, OutputT]) -> tuple[bool, str]:
        """Cut a work to the rest of the budget.

        Return whether anything of it is admitted, and the reason if part of it is not (empty otherwise).
        """
        stop = self._why_stop()
        if stop is not None:
            return False, stop
        plan, why = work.plan.within(self._left)
        if plan is None:
            return False, why
        work.plan = plan
        self._left = self._left.less(plan.read_bytes, plan.file_count)
        return True, why

    def _why_stop(self) -> str | None:
        limit = self.budget.max_seconds
        if limit is not None and time.monotonic() - self._began >= limit:
            return f"over the budget of --max-time {format_duration(limit)}"
        return outside_hours(self.filters)


def outside_hours(filters: Filters) -> str | None:
    """Say why work may not begin at this hour, or None if it may."""
    if filters.window is None or filters.window.contains(now_utc()):
        return None
    return f"the current time is outside --between {filters.window}"


def find_crowded(io: FileIO, home: str, works: Iterable[Work[PlanT, UnitT, OutputT]]) -> dict[str, str]:
    """The parts whose outputs do not fit in the free space, each with the reason."""
    free = io.free_bytes(home)
    crowded: dict[str, str] = {}
    for work in works:
        need = work.plan.write_bytes * (100 + _SPACE_MARGIN_PCT) // 100
        if need > free:
            why = f"its merged files need {format_bytes(need)} and {format_bytes(free)} are free in {home}"
            crowded[work.part] = why
        else:
            free -= need
    return crowded
