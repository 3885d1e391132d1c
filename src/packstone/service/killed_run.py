"""What a killed run did, found out afterwards: for Hive directories from the journal beside the table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packstone import __version__
from packstone.model.run_record import RunFacts, RunRecord, UnitRecord
from packstone.storage.stores import open_store
from packstone.tables.hive.journal import Journal
from packstone.tables.hive.layout import find_layout
from packstone.tables.hive.recover import is_ended, unfinished_swaps
from packstone.tables.hive.restore import is_undone

if TYPE_CHECKING:
    from packstone.service.unrecorded import Unrecorded
    from packstone.tables.hive.journal import Mark, OutputFile, SwapIntent

RESTORED = "restored"


def find_facts(entry: Unrecorded) -> RunFacts | None:
    """Return what can be known of a killed run, or None while that is not settled: a swap must be recovered first."""
    nothing = RunFacts(run=_empty_record(entry))
    if entry.family != "hive":
        message = "The run was killed before it could be recorded; what it published stands."
        return replace(nothing, run=replace(nothing.run, message=message))
    journal = _journal(entry)
    if any(intent.run == entry.run for intent in unfinished_swaps(journal)):
        return None
    marks = ((intent, journal.read_mark(intent, "done")) for intent in journal.read_intents(entry.run))
    swaps = tuple((intent, mark) for intent, mark in marks if mark is not None)
    if not swaps:
        return replace(nothing, run=replace(nothing.run, message="The run was killed before it published anything."))
    return _from_swaps(nothing.run, swaps, status=RESTORED if is_undone(journal, entry.run) else "partial")


def has_ended(entry: Unrecorded) -> bool:
    """Whether the journal says that a run is over, for one whose process cannot be seen from here."""
    return entry.family == "hive" and is_ended(_journal(entry), entry.run)


def _journal(entry: Unrecorded) -> Journal:
    io = open_store(entry.table)
    return Journal(io=io, layout=find_layout(io, entry.table)[0])


def _empty_record(entry: Unrecorded) -> RunRecord:
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
        packstone_version=__version__,
    )


def _from_swaps(empty: RunRecord, swaps: tuple[tuple[SwapIntent, Mark], ...], *, status: str) -> RunFacts:
    """The sums of what was merged: how many files lay beside that, only the run itself knew."""
    outputs = [(intent, output) for intent, _ in swaps for output in intent.outputs]
    units = tuple(_unit(number, intent, output) for number, (intent, output) in enumerate(outputs))
    before, after = (sum(getattr(o, f"read_seconds_{when}") for _, o in outputs) for when in ("before", "after"))
    ended = datetime.fromtimestamp(max(mark.at for _, mark in swaps), UTC)
    run = replace(
        empty,
        status=status,
        finished_at=max(ended, empty.started_at),
        files_before=sum(unit.inputs for unit in units),
        files_after=len(units),
        bytes_before=sum(unit.bytes_before for unit in units),
        bytes_after=sum(unit.bytes_after for unit in units),
        rows=sum(unit.rows for unit in units),
        verified=outputs[0][1].verified,
        seconds=max(0.0, (ended - empty.started_at).total_seconds()),
        verify_seconds=before + after,
        swap_ms=sum(mark.swap_ms for _, mark in swaps),
        read_seconds_before=before,
        read_seconds_after=after,
        message="The run was killed before it could be recorded; these are the merges that it had published.",
    )
    return RunFacts(run=run, units=units)


def _unit(number: int, intent: SwapIntent, output: OutputFile) -> UnitRecord:
    sizes = {file.name: file.size_bytes for file in intent.inputs}
    return UnitRecord(
        run=intent.run,
        partition=intent.partition,
        unit=number,
        how=output.how,
        status="committed",
        why=output.why,
        inputs=len(output.inputs),
        outputs=1,
        bytes_before=sum(sizes[name] for name in output.inputs),
        bytes_after=output.size_bytes,
        rows=output.rows,
        fingerprint=output.fingerprint,
        read_seconds_before=output.read_seconds_before,
        read_seconds_after=output.read_seconds_after,
        seconds=output.seconds,
        input_names=output.inputs,
        output_names=(output.name,),
    )
