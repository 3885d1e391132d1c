"""Write runs down in the history, whether they went well or not, and what became of them later.

The history is a convenience: journals and backups live with the data. So a history that cannot be written is a
warning, never a failed merge.
"""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packstone import __version__
from packstone.errors import ConflictError, PackstoneError, RefusedError
from packstone.history.store import default_history_url, open_history
from packstone.model.outcome import Outcome, Status
from packstone.model.run_record import RunRecord, UnitRecord
from packstone.model.skipped import SkipKind
from packstone.service.run_session import new_run_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.history.store import RunHistory

RESTORED = "restored"


def history_address(url: str | None = None) -> str:
    """Find the history database: what the caller says, the environment, the user's data folder."""
    return url or os.environ.get("PACKSTONE_HISTORY") or default_history_url()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """Writes to one history database; ``url=None`` writes nowhere."""

    url: str | None

    def record(self, outcome: Outcome, *, command: str, began: datetime) -> Outcome:
        """Record a run that ended; return the outcome, with a warning if it could not be recorded."""
        if outcome.status is Status.NOTHING_TO_DO:
            return outcome
        record = _run_record(outcome, command, began)
        warning = self._write(lambda history: history.record_run(record, _unit_records(outcome)))
        return replace(outcome, warnings=(*outcome.warnings, warning)) if warning else outcome

    def record_error(self, outcome: Outcome, error: PackstoneError, *, command: str, began: datetime) -> None:
        """Record a run that an error ended before it committed anything."""
        status = Status.CONFLICT if isinstance(error, ConflictError) else Status.FAILED
        status = Status.REFUSED if isinstance(error, RefusedError) else status
        self.record(replace(outcome, status=status, message=error.message), command=command, began=began)

    def mark_restored(self, run: str) -> None:
        """Let the history say that a run was undone, if it knows the run and can be written."""

        def mark(history: RunHistory) -> None:
            found = history.read_run(run)
            if found is not None:
                history.record_run(replace(found[0], status=RESTORED), found[1])

        self._write(mark)

    def _write(self, write: Callable[[RunHistory], None]) -> str | None:
        """Do it, or say in one sentence why not."""
        if self.url is None:
            return None
        try:
            with open_history(self.url) as history:
                write(history)
        except PackstoneError as error:
            return f"The run is done but could not be recorded: {error.message}"
        return None


def _run_record(outcome: Outcome, command: str, began: datetime) -> RunRecord:
    return RunRecord(
        run=outcome.run or new_run_id(),
        command=command,
        family=outcome.family,
        table=outcome.table,
        strategy=outcome.strategy,
        status=outcome.status.value,
        started_at=began,
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
        host=socket.gethostname(),
        user=_user(),
        packstone_version=__version__,
        message=_message(outcome),
    )


def _message(outcome: Outcome) -> str:
    """The first few things that went wrong; what was merely not needed or filtered out only if nothing did."""
    quiet = (SkipKind.NOT_NEEDED, SkipKind.FILTERED)
    loudest_first = sorted(outcome.skipped, key=lambda skip: skip.kind in quiet)
    return ("; ".join(str(skip) for skip in loudest_first[:5]) or outcome.message)[:1000]


def _unit_records(outcome: Outcome) -> tuple[UnitRecord, ...]:
    return tuple(
        UnitRecord(
            run=outcome.run or "",
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
