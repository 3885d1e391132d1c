"""Record runs in the history, successful or not, and their later status.

The history is a convenience: journals and backups are stored with the data. So a history that cannot be written is a
warning, never a failed merge; the record is kept in a spool folder (history/spool.py) and a later command writes it.

``replay`` writes these records, and those of runs that were killed. Recording is by the run's id, so any number of
processes may replay any number of times, also at once. What a killed run published is read from the records beside its
table, in every family.
"""

from __future__ import annotations

import contextlib
import getpass
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

from packstone.errors import ConflictError, PackstoneError, RefusedError
from packstone.history.spool import PendingRecord, PendingRecords, user_spool
from packstone.history.sqlite_file import default_history_url, history_key, record_run
from packstone.model.outcome import Outcome, SkipKind, Status
from packstone.model.run_record import VERSION, RunFacts, RunRecord, SkipRecord, UnitRecord
from packstone.runs.clock import new_run_id, now_utc
from packstone.runs.folder import RunFolders
from packstone.runs.interrupts import Interrupted, finish_first
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.stores import open_store
from packstone.tables.families import find_family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from packstone.history.store import RunHistory
    from packstone.model.maintenance import PublishedRun
    from packstone.model.outcome import UnitOutcome
    from packstone.pipeline.contract import FamilyTable

MAX_SKIPS = 1_000  # of one run; `plan` lists all of them
RESTORED: Final = "restored"
# The liveness of a process on another machine or of an earlier boot cannot be checked; no run takes longer than this.
OUT_OF_SIGHT: Final = timedelta(days=2)


def history_address(url: str | None = None) -> str:
    """The address of the history database: the caller's, else PACKSTONE_HISTORY, else in the user's data folder."""
    return url or os.environ.get("PACKSTONE_HISTORY") or default_history_url()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Writes to one history database; ``url=None`` writes nowhere."""

    url: str | None
    beside: PendingRecords | None = None  # the table's own folder of unrecorded runs

    def begin(self, *, command: str, family: str, table: str, strategy: str) -> RecordedRun:
        """Give a new run its id and its pending record, so that the history also lists a run that is killed."""
        entry = PendingRecord(
            run=new_run_id(),
            history="" if self.url is None else history_key(self.url),
            command=command,
            family=family,
            table=table,
            strategy=strategy,
            started_at=now_utc(),
            user=_user(),
            process=ProcessIdentity.mine(),
        )
        return RecordedRun(self, entry)

    def mark_restored(self, run: str, *, family: str, table: str) -> None:
        """Mark a run as undone in the history, now or as soon as it can be written."""
        if self.url is None:
            return
        begun = self.begin(command="restore", family=family, table=table, strategy="")
        entry = replace(begun.entry, run=run, restored=True)
        if self.write(lambda history: history.set_status(run, RESTORED)) is not None:
            self.keep(entry)

    def write(self, write: Callable[[RunHistory], object], *, run: str = "") -> str | None:
        """Write to the history, after the pending records of other runs; return the error message if that fails."""
        if self.url is None:
            return None
        from packstone.history.store import open_history  # with SQLAlchemy, which most runs do without

        try:
            with open_history(self.url) as history:
                key = history_key(self.url)
                for spool in self._spools:
                    replay(history, spool, key=key, besides=run)
                write(history)
        except PackstoneError as error:
            return error.message
        return None

    def record(self, facts: RunFacts) -> str | None:
        """Write a run, after the pending records of others; return the error message if that fails."""
        run = facts.run.run
        if self.url is None:
            return None
        key = history_key(self.url)
        if not any(spool.has_others(run, history=key) for spool in self._spools) and record_run(self.url, facts):
            return None
        return self.write(lambda history: history.record_run(facts.run, facts.units, facts.skips), run=run)

    def keep(self, entry: PendingRecord) -> bool:
        """Write an entry to every spool that is writable; return False if none is."""
        kept = False
        for spool in self._spools if self.url is not None else ():
            with contextlib.suppress(OSError, PackstoneError):
                spool.write(entry)
                kept = True
        return kept

    def forget(self, entry: PendingRecord) -> None:
        """Remove an entry from the spools: it is recorded, or there is nothing to record."""
        for spool in self._spools if self.url is not None else ():
            with contextlib.suppress(OSError, PackstoneError):
                spool.remove(entry)

    @property
    def _spools(self) -> tuple[PendingRecords, ...]:
        return (user_spool(),) if self.beside is None else (user_spool(), self.beside)


class RecordedRun:
    """A run that the history will list, however it ends; use it as a context manager."""

    __slots__ = ("_is_kept", "_recorder", "entry")

    def __init__(self, recorder: Recorder, entry: PendingRecord) -> None:
        self._recorder, self.entry = recorder, entry
        self._is_kept = False

    @property
    def run(self) -> str:
        """Its id."""
        return self.entry.run

    @property
    def command(self) -> str:
        """The command of the run."""
        return self.entry.command

    def __enter__(self) -> Self:
        try:
            with finish_first():
                self._recorder.keep(self.entry)
        except BaseException:  # an interrupt; no work has begun
            self._recorder.forget(self.entry)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_kept:
            return
        try:
            with finish_first():
                self._recorder.forget(self.entry)
        except Interrupted:
            if kind is not None:  # otherwise the work is done, and there is nothing left to stop
                raise

    def record(self, outcome: Outcome) -> Outcome:
        """Record the outcome; return it, with a warning if it could not be recorded."""
        if outcome.status is Status.NOTHING_TO_DO:
            return outcome
        facts = _facts(outcome, self.entry)
        # Keep the record before connecting to the database: a kill while the database is slow must not lose it.
        # An interrupt at this point is ignored, because the work is done and its outcome must be reported.
        with contextlib.suppress(Interrupted), finish_first():
            self._is_kept = self._recorder.keep(replace(self.entry, facts=facts))
        try:
            failure = self._recorder.record(facts)
        except Interrupted:
            failure = "It was interrupted."
        if failure is None:
            self._is_kept = False
            return outcome
        later = " The next command that reaches the database records it." if self._is_kept else ""
        warning = f"The run is done but could not be recorded: {failure}{later}"
        return replace(outcome, warnings=(*outcome.warnings, warning))

    def record_error(self, outcome: Outcome, error: PackstoneError) -> None:
        """Record a run that an error ended before it committed anything."""
        status = Status.CONFLICT if isinstance(error, ConflictError) else Status.FAILED
        status = Status.REFUSED if isinstance(error, RefusedError) else status
        self.record(replace(outcome, status=status, message=error.message))


def _facts(outcome: Outcome, entry: PendingRecord) -> RunFacts:
    return RunFacts(
        run=_run_record(outcome, entry),
        units=unit_records(outcome.units, entry.run),
        skips=_skip_records(outcome, entry.run),
    )


def _run_record(outcome: Outcome, entry: PendingRecord) -> RunRecord:
    return replace(
        _empty_record(entry),
        family=outcome.family,
        table=outcome.table,
        strategy=outcome.strategy,
        status=outcome.status.value,
        finished_at=now_utc(),
        files_before=outcome.files_before,
        files_after=outcome.files_after,
        bytes_before=outcome.bytes_before,
        bytes_after=outcome.bytes_after,
        rows=outcome.rows,
        verified=outcome.verified,
        seconds=outcome.seconds,
        verify_seconds=outcome.verify_seconds,
        swap_ms=outcome.reader_gap_ms,
        read_seconds_before=_total(outcome, "read_seconds_before"),
        read_seconds_after=_total(outcome, "read_seconds_after"),
        message=_message(outcome),
    )


def _message(outcome: Outcome) -> str:
    """The first few problems; what was only not needed or filtered out follows them."""
    quiet = (SkipKind.NOT_NEEDED, SkipKind.FILTERED)
    loudest_first = sorted(outcome.skipped, key=lambda skip: skip.kind in quiet)
    return ("; ".join(str(skip) for skip in loudest_first[:5]) or outcome.message)[:1000]


def _skip_records(outcome: Outcome, run: str) -> tuple[SkipRecord, ...]:
    loud = (skip for skip in outcome.skipped if skip.kind is not SkipKind.NOT_NEEDED)
    return tuple(
        SkipRecord(run=run, what=skip.what, why=skip.why, kind=skip.kind.value) for skip in islice(loud, MAX_SKIPS)
    )


def _total(outcome: Outcome, name: str) -> float | None:
    """The sum of a read time over all units; None if there are no units."""
    return sum(getattr(unit, name) for unit in outcome.units) if outcome.units else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user of this id
        return ""


def open_current_history(url: str) -> RunHistory:
    """Open a history for reading, after recording the pending runs of this machine."""
    from packstone.history.store import open_history

    history = open_history(url)
    try:
        replay(history, user_spool(), key=history_key(url))
    except BaseException:
        history.close()
        raise
    return history


def replay(history: RunHistory, spool: PendingRecords, *, key: str, besides: str = "") -> int:
    """Record the pending entries of a folder for this history, except one run; return how many were recorded."""
    count = 0
    for entry in tuple(spool.list_entries(key)):
        if entry.run == besides:
            continue
        try:
            if _replay_one(history, entry):
                spool.remove(entry)
                count += 1
        except (PackstoneError, OSError):
            continue  # the table or the database cannot be reached: a later command tries again
    return count


def _replay_one(history: RunHistory, entry: PendingRecord) -> bool:
    if entry.restored:
        history.set_status(entry.run, RESTORED)
        return True
    if entry.facts is not None:
        known = history.read_run(entry.run)
        was_undone = known is not None and known[0].status == RESTORED
        run = replace(entry.facts.run, status=RESTORED) if was_undone else entry.facts.run
        history.record_run(run, entry.facts.units, entry.facts.skips)
        return True
    if entry.process.is_on_this_host() and entry.process.is_running():
        return False
    table = _open(entry)
    if not entry.process.is_on_this_host() and not _has_ended(entry, table):
        return False
    facts = _find_facts(entry, table)
    if facts is None:
        return False
    history.record_if_absent(facts)
    return True


def _open(entry: PendingRecord) -> FamilyTable[Any, Any, Any, Any] | None:
    """The table of a run; None if it no longer exists, or if this version of packstone does not know its family."""
    family, io = find_family(entry.family), open_store(entry.table)
    if family is None or io.stat(entry.table) is None:
        return None
    opened: FamilyTable[Any, Any, Any, Any] = family.load_table()(io, entry.table)
    return opened


def _has_ended(entry: PendingRecord, table: FamilyTable[Any, Any, Any, Any] | None) -> bool:
    if now_utc() - entry.started_at > OUT_OF_SIGHT:
        return True
    return table is not None and RunFolders(io=table.io, state=table.state).is_ended(entry.run)


def _find_facts(entry: PendingRecord, table: FamilyTable[Any, Any, Any, Any] | None) -> RunFacts | None:
    """The facts of a killed run; None while they are not final, because something must be recovered first."""
    nothing = RunFacts(run=_empty_record(entry))
    if table is None:
        return replace(nothing, run=replace(nothing.run, message="The run was killed, and its table is gone."))
    published = table.read_published(entry.run)
    if published is None:
        return None
    if not published.outcomes:
        return replace(nothing, run=replace(nothing.run, message="The run was killed before it published anything."))
    return _from_published(nothing.run, published)


def _from_published(empty: RunRecord, published: PublishedRun) -> RunFacts:
    """The facts of the merges that a killed run published; the counts leave out the files that it did not merge."""
    outcomes = published.outcomes
    ended = empty.started_at
    if published.ended_seconds is not None:
        ended = datetime.fromtimestamp(published.ended_seconds, UTC)
    before = sum(one.read_seconds_before for one in outcomes)
    after = sum(one.read_seconds_after for one in outcomes)
    run = replace(
        empty,
        status=RESTORED if published.is_undone else "partial",
        finished_at=max(ended, empty.started_at),
        files_before=sum(one.files_in for one in outcomes),
        files_after=sum(len(one.outputs) for one in outcomes),
        bytes_before=sum(one.bytes_before for one in outcomes),
        bytes_after=sum(one.bytes_after for one in outcomes),
        rows=sum(one.rows for one in outcomes),
        verified=published.verified,
        seconds=max(0.0, (ended - empty.started_at).total_seconds()),
        verify_seconds=before + after,
        swap_ms=published.reader_gap_ms,
        read_seconds_before=before,
        read_seconds_after=after,
        message="The run was killed before it could be recorded; these are the merges that it had published.",
    )
    return RunFacts(run=run, units=unit_records(outcomes, empty.run))


def _empty_record(entry: PendingRecord) -> RunRecord:
    """What is known of a run when it begins; it has failed unless its outcome says otherwise."""
    return RunRecord(
        run=entry.run,
        command=entry.command,
        family=entry.family,
        table=entry.table,
        strategy=entry.strategy,
        status="failed",
        started_at=entry.started_at,
        finished_at=entry.started_at,
        files_before=0,
        files_after=0,
        bytes_before=0,
        bytes_after=0,
        rows=0,
        verified="none",
        seconds=0.0,
        verify_seconds=0.0,
        swap_ms=0.0,
        read_seconds_before=None,
        read_seconds_after=None,
        host=entry.process.host,
        user=entry.user,
        packstone_version=VERSION,
    )


def unit_records(outcomes: Iterable[UnitOutcome], run: str) -> tuple[UnitRecord, ...]:
    """The rows of the history for what a run merged."""
    return tuple(
        UnitRecord(
            run=run,
            partition=unit.partition,
            unit=number,
            how=unit.how,
            status="committed",
            why=unit.why,
            inputs=len(unit.inputs),
            outputs=len(unit.outputs),
            bytes_before=unit.bytes_before,
            bytes_after=unit.bytes_after,
            rows=unit.rows,
            fingerprint=unit.fingerprint,
            read_seconds_before=unit.read_seconds_before,
            read_seconds_after=unit.read_seconds_after,
            seconds=unit.seconds,
            input_names=unit.inputs,
            output_names=unit.outputs,
        )
        for number, unit in enumerate(outcomes)
    )
