"""Compact a table and write it down: the run goes into the history whether it went well or not."""

from __future__ import annotations

import contextlib
import getpass
import socket
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packstone import __version__
from packstone.errors import ConflictError, InvalidInputError, PackstoneError, RefusedError
from packstone.history.store import open_history
from packstone.model.outcome import Outcome, Status
from packstone.model.run_record import RunRecord, UnitRecord
from packstone.service.hive_table import empty_outcome
from packstone.service.measure_read import ReadMeasurement, measure_reads

if TYPE_CHECKING:
    from packstone.model.filters import Budget, Filters
    from packstone.model.merge_options import MergeOptions
    from packstone.service.hive_table import HiveTable


def compact_and_record(
    table: HiveTable,
    options: MergeOptions,
    *,
    filters: Filters,
    budget: Budget,
    take_over: bool,
    command: str,
    history_url: str,
    measure_read: bool = False,
) -> tuple[Outcome, list[str]]:
    """Run, then record; a history that cannot be written is a warning, never a failed merge."""
    began = datetime.now(UTC)
    try:
        outcome = table.compact(options, filters=filters, budget=budget, take_over=take_over, command=command)
    except PackstoneError as error:
        if not isinstance(error, InvalidInputError):  # a wrong call is no run
            with contextlib.suppress(PackstoneError), open_history(history_url) as history:
                history.record_run(_run_record(_stopped(table, error), command, began))
        raise
    if measure_read and outcome.run is not None:
        readings = measure_reads(table.journal, outcome.run)
        outcome = replace(outcome, read_times=tuple(_plain(reading) for reading in readings))
    if outcome.status is Status.NOTHING_TO_DO:
        return outcome, []
    try:
        with open_history(history_url) as history:
            history.record_run(_run_record(outcome, command, began), _unit_records(outcome))
    except PackstoneError as error:
        return outcome, [f"The run is done but could not be recorded: {error.message}"]
    return outcome, []


def _stopped(table: HiveTable, error: PackstoneError) -> Outcome:
    """What the history says of a run that ended in an error and committed nothing."""
    status = Status.CONFLICT if isinstance(error, ConflictError) else Status.FAILED
    status = Status.REFUSED if isinstance(error, RefusedError) else status
    return replace(empty_outcome(table.path, status, (), verified="none"), message=error.message)


def _run_record(outcome: Outcome, command: str, began: datetime) -> RunRecord:
    return RunRecord(
        run=outcome.run or f"{began:%Y%m%dT%H%M%S}-none-{abs(hash(outcome.table)) % 10**6:06d}",
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
        message=("; ".join(str(skip) for skip in outcome.skipped[:5]) or outcome.message)[:1000],
    )


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


def _plain(reading: ReadMeasurement) -> dict[str, object]:
    return {name: getattr(reading, name) for name in reading.__slots__}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user of that number
        return ""
