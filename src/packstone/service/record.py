"""Write runs down in the history, whether they went well or not, and what became of them later.

The history is a convenience: journals and backups live with the data. So a history that cannot be written is a
warning, never a failed merge; the record is kept (service/unrecorded.py) and written by a later command.
"""

from __future__ import annotations

import contextlib
import getpass
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Self

from packstone import __version__
from packstone.errors import ConflictError, PackstoneError, RefusedError
from packstone.history.connect import history_key
from packstone.history.store import default_history_url, open_history
from packstone.model.outcome import Outcome, Status
from packstone.model.run_record import RunFacts, RunRecord, SkipRecord, UnitRecord
from packstone.model.skipped import SkipKind
from packstone.runs.clock import new_run_id
from packstone.runs.interrupts import Interrupted, finish_first
from packstone.runs.liveness import ProcessIdentity
from packstone.service.killed_run import RESTORED
from packstone.service.replay import replay
from packstone.service.unrecorded import Spool, Unrecorded, user_spool

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.history.store import RunHistory

MAX_SKIPS = 1_000  # of one run: whoever wants the ten thousandth partition that was left alone runs `plan`


def history_address(url: str | None = None) -> str:
    """Find the history database: what the caller says, the environment, the user's data folder."""
    return url or os.environ.get("PACKSTONE_HISTORY") or default_history_url()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Writes to one history database; ``url=None`` writes nowhere."""

    url: str | None
    beside: Spool | None = None  # the table's own folder of unrecorded runs

    def begin(self, *, command: str, family: str, table: str, strategy: str) -> BegunRun:
        """Name a run that begins, and write down that it did: if it is killed, somebody will want to know."""
        entry = Unrecorded(
            run=new_run_id(),
            history="" if self.url is None else history_key(self.url),
            command=command,
            family=family,
            table=table,
            strategy=strategy,
            started_at=datetime.now(UTC),
            user=_user(),
            process=ProcessIdentity.mine(),
        )
        return BegunRun(self, entry)

    def mark_restored(self, run: str, *, table: str) -> None:
        """Let the history say that a run was undone, as soon as it can be written."""
        if self.url is None:
            return
        begun = self.begin(command="restore", family="hive", table=table, strategy="")
        entry = replace(begun.entry, run=run, restored=True)
        if self.write(lambda history: history.set_status(run, RESTORED)) is not None:
            self.keep(entry)

    def write(self, write: Callable[[RunHistory], object], *, run: str = "") -> str | None:
        """Do it, after what other runs could not do before, or say in one sentence why not."""
        if self.url is None:
            return None
        try:
            with open_history(self.url) as history:
                key = history_key(self.url)
                for spool in self._spools:
                    replay(history, spool, key=key, besides=run)
                write(history)
        except PackstoneError as error:
            return error.message
        return None

    def keep(self, entry: Unrecorded) -> bool:
        """Keep an entry for later wherever that is possible; False if it is nowhere."""
        kept = False
        for spool in self._spools if self.url is not None else ():
            with contextlib.suppress(OSError, PackstoneError):
                spool.write(entry)
                kept = True
        return kept

    def forget(self, entry: Unrecorded) -> None:
        """Drop an entry: the history knows."""
        for spool in self._spools if self.url is not None else ():
            with contextlib.suppress(OSError, PackstoneError):
                spool.remove(entry)

    @property
    def _spools(self) -> tuple[Spool, ...]:
        return (user_spool(),) if self.beside is None else (user_spool(), self.beside)


class BegunRun:
    """A run that the history will know, whatever becomes of it; use it as a context manager."""

    __slots__ = ("_is_kept", "_recorder", "entry")

    def __init__(self, recorder: Recorder, entry: Unrecorded) -> None:
        self._recorder, self.entry = recorder, entry
        self._is_kept = False

    @property
    def run(self) -> str:
        """Its id."""
        return self.entry.run

    @property
    def command(self) -> str:
        """What was asked for."""
        return self.entry.command

    def __enter__(self) -> Self:
        try:
            with finish_first():
                self._recorder.keep(self.entry)
        except BaseException:  # of an interrupt; nothing has begun
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
            if kind is not None:  # otherwise all is done, and there is nothing left to stop
                raise

    def record(self, outcome: Outcome) -> Outcome:
        """Record how it ended; return the outcome, with a warning if it could not be recorded."""
        if outcome.status is Status.NOTHING_TO_DO:
            return outcome
        facts = _facts(outcome, self.entry)
        # Before the database is asked: whoever has no patience with it, or kills us, does not lose the record.
        # Asked to stop when all is over, we tell what was done all the same.
        with contextlib.suppress(Interrupted), finish_first():
            self._is_kept = self._recorder.keep(replace(self.entry, facts=facts))
        try:
            failure = self._recorder.write(
                lambda history: history.record_run(facts.run, facts.units, facts.skips), run=self.run
            )
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


def _facts(outcome: Outcome, entry: Unrecorded) -> RunFacts:
    return RunFacts(
        run=_run_record(outcome, entry),
        units=_unit_records(outcome, entry.run),
        skips=_skip_records(outcome, entry.run),
    )


def _run_record(outcome: Outcome, entry: Unrecorded) -> RunRecord:
    return RunRecord(
        run=entry.run,
        command=entry.command,
        family=outcome.family,
        table=outcome.table,
        strategy=outcome.strategy,
        status=outcome.status.value,
        started_at=entry.started_at,
        finished_at=datetime.now(UTC),
        files_before=outcome.files_before,
        files_after=outcome.files_after,
        bytes_before=outcome.bytes_before,
        bytes_after=outcome.bytes_after,
        rows=outcome.rows,
        verified=outcome.verified,
        seconds=outcome.seconds,
        verify_seconds=outcome.verify_seconds,
        swap_ms=outcome.swap_ms,
        read_seconds_before=_total(outcome, "read_seconds_before"),
        read_seconds_after=_total(outcome, "read_seconds_after"),
        host=entry.process.host,
        user=entry.user,
        packstone_version=__version__,
        message=_message(outcome),
    )


def _message(outcome: Outcome) -> str:
    """The first few things that went wrong; what was merely not needed or filtered out only if nothing did."""
    quiet = (SkipKind.NOT_NEEDED, SkipKind.FILTERED)
    loudest_first = sorted(outcome.skipped, key=lambda skip: skip.kind in quiet)
    return ("; ".join(str(skip) for skip in loudest_first[:5]) or outcome.message)[:1000]


def _skip_records(outcome: Outcome, run: str) -> tuple[SkipRecord, ...]:
    loud = (skip for skip in outcome.skipped if skip.kind is not SkipKind.NOT_NEEDED)
    return tuple(
        SkipRecord(run=run, what=skip.what, why=skip.why, kind=skip.kind.value) for skip in islice(loud, MAX_SKIPS)
    )


def _unit_records(outcome: Outcome, run: str) -> tuple[UnitRecord, ...]:
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
        for number, unit in enumerate(outcome.units)
    )


def _total(outcome: Outcome, name: str) -> float | None:
    """Read times add up over units; with nothing verified there is nothing to tell."""
    return sum(getattr(unit, name) for unit in outcome.units) if outcome.units else None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user of that number
        return ""
