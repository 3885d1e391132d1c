"""The verbs around a compaction, for every family: recover, verify, check, restore, clean, also of all tables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError, PackstoneError, storage_sentence
from packstone.model.maintenance import Damage
from packstone.model.unit import UnitStatus
from packstone.pipeline.open import METASTORE_VARIABLE, open_catalog
from packstone.pipeline.record import open_current_history
from packstone.pipeline.table import Table
from packstone.runs.folder import RunFolders, is_run_id
from packstone.runs.interrupts import finish_first
from packstone.runs.state_folder import make_scratch
from packstone.runs.tasks import check_done, pack_units, prove_job
from packstone.storage.fileio import list_entries
from packstone.storage.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packstone.model.maintenance import (
        CheckedPart,
        CheckRequest,
        CleanPlan,
        CleanRequest,
        Recovered,
        RestorePlan,
        TableCheck,
        ToProve,
    )
    from packstone.model.outcome import EngineUse
    from packstone.model.unit import UnitResult
    from packstone.pipeline.contract import FamilyTable
    from packstone.runs.engine import Engine
    from packstone.runs.folder import Run
    from packstone.spark.session import SparkSettings

    AnyTable = FamilyTable[Any, Any, Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverReport:
    """What dead runs left, and what was done about it."""

    table: str
    found: tuple[Recovered, ...]

    @property
    def actions(self) -> tuple[str, ...]:
        """Descriptions of what was finished, undone or removed."""
        return tuple(str(one) for one in self.found if not one.is_left)

    @property
    def left(self) -> tuple[str, ...]:
        """Descriptions of what was left for a person to decide."""
        return tuple(str(one) for one in self.found if one.is_left)

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        status = "recovered" if self.actions else "nothing-to-do"
        return {
            "format_version": 1,
            "table": self.table,
            "status": "conflict" if self.left else status,
            "actions": list(self.actions),
            "left_alone": list(self.left),
        }


def recover(table: AnyTable, begin: Callable[[], Run]) -> RecoverReport:
    """Finish or undo what dead runs left; start no run if there is nothing to recover."""
    found: tuple[Recovered, ...] = ()
    if any(list_entries(table.io, f"{table.state}/{name}") for name in ("runs", "staging", "backup")):
        with begin() as run, finish_first():
            found = tuple(table.recover(run))
    return RecoverReport(table=table.root, found=found)


def clean(table: AnyTable, request: CleanRequest, begin: Callable[[], Run], *, dry_run: bool) -> CleanPlan:
    """List what may be removed, and unless it is a dry run, remove it."""
    plan: CleanPlan = table.plan_clean(request)
    if dry_run:
        return plan
    if plan.is_empty and not table.one_commit and not list_entries(table.io, f"{table.state}/runs"):
        return plan  # no run was ever made here: do not leave records of this one either
    with begin() as run:
        return table.clean(plan, run, request)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The result of proving a run again."""

    table: str
    run: str
    proved: int
    with_inputs: int
    problems: tuple[str, ...]
    rows: int
    engine: EngineUse | None = None  # None if nothing could be read
    read_times: tuple[dict[str, Any], ...] = ()  # for originals and merged files, if they were measured

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        plain = {
            "format_version": 1,
            "table": self.table,
            "run": self.run,
            "status": "failed" if self.problems else "verified",
            "files": self.proved,
            "files_with_originals": self.with_inputs,
            "rows": self.rows,
            "engine": None if self.engine is None else self.engine.to_json(),
            "problems": list(self.problems),
        }
        return {**plain, "read_times": list(self.read_times)} if self.read_times else plain


def check_known(table: AnyTable, run_id: str) -> None:
    """Raise InvalidInputError for a run that left no records beside the table."""
    if not is_run_id(run_id):
        raise InvalidInputError(f"{run_id!r} is not the id of a run.")
    if run_id not in RunFolders(io=table.io, state=table.state).list_runs():
        raise InvalidInputError(f"There is no run {run_id} of {table.root}; `packstone history` lists the runs.")


def verify(table: AnyTable, run_id: str, begin: Callable[[], Run], *, engine: Engine) -> VerifyReport:
    """Prove again what a run published: against its inputs while they exist, and against the record."""
    check_known(table, run_id)
    found: list[ToProve[Any, Any]] = list(table.prove(run_id))
    claims = [(one, one.proved) for one in found if one.proved is not None]
    problems = [one.problem for one in found if one.problem]
    if not found:
        raise InvalidInputError(f"Run {run_id} has no merged files left to prove: it was undone, or merged again.")
    results: dict[int, UnitResult[Any]] = {}
    with begin() as run:
        units = [unit for _, unit in claims]
        files = sum(len(unit.outputs) + (len(unit.unit.input_files) if unit.has_inputs else 0) for unit in units)
        engine.expect(table.job, files=files, size_bytes=sum(unit.input_bytes for unit in units))
        tasks = pack_units(units, context=table.context(run), parallelism=engine.parallelism)
        staging, what = run.staging(1, 1), f"verify {run_id}"
        for result in engine.run(prove_job(table.job), tasks, staging=staging, what=what, on_progress=_no_report):
            results[result.number] = result
    for one, unit in claims:
        problems += _problems(one, results[unit.number])
    return VerifyReport(
        table=table.root,
        run=run_id,
        proved=sum(len(unit.outputs) for _, unit in claims),
        with_inputs=sum(len(unit.outputs) for _, unit in claims if unit.has_inputs),
        problems=tuple(problems),
        rows=sum(one.rows for one, _ in claims),
        engine=engine.used,
    )


_CHECKED_AT_ONCE: Final = 2_000  # units
_LISTED_DAMAGE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a check of a table has found."""

    table: str
    family: str
    version: int | None
    deep: bool
    files: int
    bytes: int
    rows: int
    damaged: int
    damage: tuple[Damage, ...]  # at most a thousand
    engine: EngineUse | None = None  # None if no data file was read

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": self.family,
            "version": self.version,
            "status": "damaged" if self.damaged else "sound",
            "deep": self.deep,
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "damaged": self.damaged,
            "damage": [{"file": one.file, "why": one.why} for one in self.damage],
            "engine": None if self.engine is None else self.engine.to_json(),
        }


def check(table: AnyTable, request: CheckRequest, *, family: str, engine: Engine, staging: str) -> CheckReport:
    """Check a version of a table: metadata here, data files on the engine, some thousand at a time."""
    begun = table.check(request)
    files = size_bytes = rows = count = damaged = 0
    damage: list[Damage] = []
    for parts in _batches(begun.parts):
        units = [unit for part in parts for unit in part.units]
        found = [one for part in parts for one in part.damage]
        if units:
            count += 1
            scratch = f"{staging}/check-{count:04d}"
            make_scratch(table.io, scratch, root=table.root, state=table.state)
            read_bytes = sum(unit.input_bytes for unit in units) if request.deep else 0  # else footers only
            engine.expect(begun.job, files=sum(part.files for part in parts), size_bytes=read_bytes)
            found += _check_units(begun, units, engine=engine, staging=scratch)
        files += sum(part.files for part in parts)
        size_bytes += sum(part.size_bytes for part in parts)
        rows += sum(part.rows for part in parts)
        damaged += len(found)
        damage += found[: _LISTED_DAMAGE - len(damage)]
    return CheckReport(
        table=table.path,
        family=family,
        version=begun.version,
        deep=request.deep,
        files=files,
        bytes=size_bytes,
        rows=rows,
        damaged=damaged,
        damage=tuple(damage),
        engine=engine.used if count else None,
    )


def _batches(parts: Iterable[CheckedPart[Any]]) -> Iterator[list[CheckedPart[Any]]]:
    batch: list[CheckedPart[Any]] = []
    units = 0
    for part in parts:
        batch.append(part)
        units += len(part.units)
        if units >= _CHECKED_AT_ONCE:
            yield batch
            batch, units = [], 0
    yield batch


def _check_units(begun: TableCheck, units: Sequence[Any], *, engine: Engine, staging: str) -> list[Damage]:
    tasks = pack_units(units, context=begun.context, parallelism=engine.parallelism)
    found: list[Damage] = []
    for result in engine.run(begun.job, tasks, staging=staging, what="check", on_progress=_no_report):
        if result.status is UnitStatus.UNREADABLE:  # its process died with this file
            found.append(Damage(file=result.blamed, why=result.message.rstrip(".")))
        else:
            check_done(result)
            found += result.outputs
    return found


def _no_report(_units: int, _size_bytes: int) -> None:
    """Show no progress."""


def _problems(claim: ToProve[Any, Any], result: UnitResult[Any]) -> Iterable[str]:
    if result.status is not UnitStatus.WRITTEN:
        yield f"{claim.label}: {result.message}"
    elif claim.is_counted and result.rows_out != claim.rows:
        yield f"{claim.label}: the merged files hold {result.rows_out} rows, but {claim.rows} were recorded"
    elif not claim.is_counted and claim.fingerprint and result.fingerprint != claim.fingerprint:
        yield f"{claim.label}: the merged files have the fingerprint {result.fingerprint}, not {claim.fingerprint}"


def restore(table: AnyTable, run_id: str, begin: Callable[[], Run]) -> RestorePlan:
    """Undo one run: everything it did at or below the target, or nothing if a part of it cannot be undone."""
    check_known(table, run_id)
    with begin() as run:
        table.begin(run)
        plan: RestorePlan = table.plan_restore(run_id)
        if plan.parts:
            plan = table.restore(plan, run)
    return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanTable:
    """A table that could not be cleaned, and why."""

    table: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanAllReport:
    """What was removed of each table, or would be; which tables are gone, which could not be reached."""

    dry_run: bool
    tables: tuple[tuple[str, CleanPlan], ...]
    gone: tuple[str, ...]
    failed: tuple[UncleanTable, ...]

    @property
    def with_files(self) -> tuple[tuple[str, CleanPlan], ...]:
        """The tables that had something to remove."""
        return tuple((table, plan) for table, plan in self.tables if not plan.is_empty)

    @property
    def files(self) -> int:
        """The number of files removed, or to remove."""
        return sum(plan.files for _, plan in self.tables)

    @property
    def bytes(self) -> int:
        """The total size of these files."""
        return sum(plan.bytes for _, plan in self.tables)

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        done = ("planned" if self.dry_run else "cleaned") if self.with_files else "nothing-to-do"
        return {
            "format_version": 1,
            "status": "partial" if self.failed else done,
            "files": self.files,
            "bytes": self.bytes,
            "tables": [plan.to_json(dry_run=self.dry_run) for _, plan in self.tables],
            "gone": list(self.gone),
            "failed": [{"table": one.table, "why": one.why} for one in self.failed],
        }


def clean_recorded_tables(
    history_url: str, *, dry_run: bool, metastore: str | None = None, settings: SparkSettings | None = None
) -> CleanAllReport:
    """Clean the tables of all runs in a history.

    What was published by location is cleaned only if a metastore is known: only it says where partitions are.
    """
    with open_current_history(history_url) as history:
        targets = history.list_tables()
    address = metastore or os.environ.get(METASTORE_VARIABLE)
    catalog, close = open_catalog(address, settings) if address else (None, _close_nothing)
    try:
        return clean_all(list_roots(targets), lambda path: clean_one(path, catalog, dry_run=dry_run), dry_run=dry_run)
    finally:
        close()


def _close_nothing() -> None:
    """Do nothing: no catalog was opened."""


def list_roots(targets: Sequence[str]) -> tuple[str, ...]:
    """The tables of some targets: a partition yields its table; a target that no longer exists yields itself."""
    found: set[str] = set()
    gone: set[str] = set()
    for target in targets:
        try:
            found.add(Table(target).open().root)
        except (PackstoneError, OSError):
            gone.add(target)  # reported when it is cleaned
    inside = {one for one in gone for other in found | gone if one.startswith(f"{other}/")}
    return tuple(sorted(found | (gone - inside)))


def clean_one(path: str, catalog: Any, *, dry_run: bool) -> CleanPlan | None:
    """Clean one table as ``Table.clean`` does; None if it no longer exists. The catalog says where partitions are."""
    if open_store(path).stat(path) is None:
        return None
    table = Table(path)
    if catalog is not None and table.family_row.has_partition_targets:
        table = Table(path, named={"catalog": catalog})
    return table.clean(dry_run=dry_run)


def clean_all(tables: Sequence[str], clean_one: Callable[[str], CleanPlan | None], *, dry_run: bool) -> CleanAllReport:
    """Clean one table after another; ``clean_one`` returns None for a table that no longer exists.

    Each table is cleaned as by a command of its own, so two such runs at once, or compactions meanwhile, do no harm. A
    table that cannot be cleaned is reported and does not stop the others.
    """
    reports: list[tuple[str, CleanPlan]] = []
    gone: list[str] = []
    failed: list[UncleanTable] = []
    for table in tables:
        try:
            plan = clean_one(table)
        except PackstoneError as error:
            failed.append(UncleanTable(table=table, why=error.message))
            continue
        except OSError as error:
            failed.append(UncleanTable(table=table, why=storage_sentence(error)))
            continue
        if plan is None:
            gone.append(table)
            continue
        reports.append((table, plan))
        failed += [UncleanTable(table=table, why=why) for why in plan.problems]
    return CleanAllReport(dry_run=dry_run, tables=tuple(reports), gone=tuple(gone), failed=tuple(failed))
