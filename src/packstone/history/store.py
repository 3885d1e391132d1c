"""The history of runs: record a run, list runs, read one, delete old ones.

Recording is idempotent by the run's id. A run whose record could not be written (no connection, a crash) is recorded
later from its journal, perhaps twice and by two processes; the last record replaces the others, and nothing is counted
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    String,
    Table,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError

from packstone.errors import InvalidInputError
from packstone.history.connect import WRITES, OpenDatabase, display_url, is_server, one_sentence
from packstone.history.schema import FILES, METADATA, RUN_ID_CHARS, RUNS, SKIPS, UNITS, open_migrated
from packstone.history.sqlite_file import INPUT, OUTPUT, fitted, rows_by_table
from packstone.model.run_record import RunFacts, RunRecord, SkipRecord, UnitRecord, to_utc
from packstone.model.sizes import parse_duration
from packstone.model.times import parse_moment
from packstone.runs.clock import now_utc

T = TypeVar("T")

_ATTEMPTS = 5
_BATCH = 1000
_SKIP_FIELDS = ("run", "what", "why", "kind")
# Deadlock, lock wait timeout and changed record of MySQL and MariaDB; deadlock and serialisation failure of PostgreSQL.
_COLLISIONS = (1213, 1205, 1020, "40P01", "40001")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilters:
    """Which runs to select: by table, status, family, and start time (``since`` inclusive, ``until`` exclusive)."""

    table: str | None = None
    status: str | tuple[str, ...] | None = None
    family: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def open_history(url: str) -> RunHistory:
    """Open the history at ``url``, creating or upgrading it as needed."""
    return RunHistory(open_migrated(url))


class RunHistory(OpenDatabase):
    """An open history database; threads may share the object, processes open their own."""

    __slots__ = ()

    def record_run(
        self, run: RunRecord, units: tuple[UnitRecord, ...] = (), skips: tuple[SkipRecord, ...] = ()
    ) -> None:
        """Write the run with its units and skips in one transaction; replace an earlier record of the same id."""
        _check_ids(run, units)
        with one_sentence(self._engine.url):
            self._write_with_retries(lambda connection: _replace_run(connection, run, units, skips=skips))

    def record_if_absent(self, facts: RunFacts) -> bool:
        """Record a run unless its id exists: a record written by the run has more facts than one made later."""
        _check_ids(facts.run, facts.units)

        def write(connection: Connection) -> bool:
            if connection.execute(select(RUNS.c.run).where(RUNS.c.run == facts.run.run)).first() is not None:
                return False
            _replace_run(connection, facts.run, facts.units, skips=facts.skips)
            return True

        with one_sentence(self._engine.url):
            return self._write_with_retries(write)

    def set_status(self, run_id: str, status: str) -> bool:
        """Change the status of a run, for one that was undone later; return False if there is no such run."""

        def write(connection: Connection) -> bool:
            # Checked first: MySQL counts a row that already has this status as not updated.
            if connection.execute(select(RUNS.c.run).where(RUNS.c.run == run_id)).first() is None:
                return False
            connection.execute(update(RUNS).where(RUNS.c.run == run_id).values(status=status))
            return True

        with one_sentence(self._engine.url):
            return self._write_with_retries(write)

    def list_runs(self, filters: RunFilters | None = None, *, limit: int = 50, **by: Any) -> tuple[RunRecord, ...]:
        """Return the runs that pass the filters, newest first; give a ``RunFilters`` or its fields by name."""
        if limit < 1:
            raise InvalidInputError(f"The limit {limit} is too small; give 1 or more.", value=limit)
        chosen = filters or RunFilters(**by)
        query = select(RUNS).where(*_conditions(chosen)).order_by(RUNS.c.started_at.desc(), RUNS.c.run.desc())
        with one_sentence(self._engine.url), self._engine.connect() as connection:
            return tuple(_run_record(row) for row in connection.execute(query.limit(limit)).mappings())

    def list_tables(self) -> tuple[str, ...]:
        """Return the tables that have recorded runs."""
        query = select(RUNS.c.table).distinct().order_by(RUNS.c.table)
        with one_sentence(self._engine.url), self._engine.connect() as connection:
            return tuple(connection.scalars(query))

    def count_runs(self, filters: RunFilters) -> int:
        """Count the runs that pass the filters."""
        query = select(func.count()).select_from(RUNS).where(*_conditions(filters))
        with one_sentence(self._engine.url), self._engine.connect() as connection:
            return connection.scalar(query) or 0

    def remove_runs(self, filters: RunFilters) -> int:
        """Delete the runs that pass the filters, a thousand per transaction; return their number."""
        removed = 0
        oldest = select(RUNS.c.run).where(*_conditions(filters)).order_by(RUNS.c.started_at).limit(_BATCH)

        def remove(connection: Connection) -> int:
            found = list(connection.scalars(oldest))
            for table in (FILES, SKIPS, UNITS, RUNS):
                connection.execute(delete(table).where(table.c.run.in_(found)))
            return len(found)

        with one_sentence(self._engine.url):
            while (count := self._write_with_retries(remove)) > 0:
                removed += count
        return removed

    def read_run(self, run_id: str) -> tuple[RunRecord, tuple[UnitRecord, ...]] | None:
        """Return a run and its units in the order they were recorded, or None if there is no such run."""
        facts = self.read_facts(run_id)
        return None if facts is None else (facts.run, facts.units)

    def read_facts(self, run_id: str) -> RunFacts | None:
        """Return everything that is recorded of a run, or None if there is no such run."""
        engine = self._engine
        if is_server(engine.url):  # one snapshot, so that a concurrent replay cannot mix the old run with new units
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with one_sentence(engine.url), engine.connect() as connection:
            row = connection.execute(select(RUNS).where(RUNS.c.run == run_id)).mappings().one_or_none()
            if row is None:
                return None
            names = _read_names(connection, run_id)
            units = connection.execute(select(UNITS).where(UNITS.c.run == run_id).order_by(UNITS.c.position)).mappings()
            skips = connection.execute(select(SKIPS).where(SKIPS.c.run == run_id).order_by(SKIPS.c.position)).mappings()
            return RunFacts(
                run=_run_record(row),
                units=tuple(_unit_record(unit, names) for unit in units),
                skips=tuple(SkipRecord(**{name: skip[SKIPS.c[name]] for name in _SKIP_FIELDS}) for skip in skips),
            )

    def _write_with_retries(self, write: Callable[[Connection], T]) -> T:
        """Write in one transaction; retry if it collides with another one.

        Two processes that replay the same run both delete and insert it: in SQLite one waits for the other, a server
        fails one of them with a deadlock or a duplicate key.
        """
        for _ in range(_ATTEMPTS):
            try:
                with self._engine.execution_options(**{WRITES: True}).begin() as connection:
                    return write(connection)
            except DBAPIError as error:
                if not _is_collision(error):
                    raise
        with self._engine.execution_options(**{WRITES: True}).begin() as connection:
            return write(connection)

    def __str__(self) -> str:
        """Return the address without its password."""
        return display_url(self._engine.url)


def _check_ids(run: RunRecord, units: tuple[UnitRecord, ...]) -> None:
    """Refuse an id that would be truncated, because it is the key, and units that belong to another run."""
    if not 0 < len(run.run) <= RUN_ID_CHARS:
        raise InvalidInputError(f"The run id {run.run!r} must have 1 to {RUN_ID_CHARS} characters.", run=run.run)
    for unit in units:
        if unit.run != run.run:
            raise InvalidInputError(f"The unit {unit.unit} belongs to run {unit.run!r}, not {run.run!r}.", run=run.run)


def _replace_run(
    connection: Connection, run: RunRecord, units: tuple[UnitRecord, ...], *, skips: tuple[SkipRecord, ...]
) -> None:
    for table in (FILES, SKIPS, UNITS, RUNS):
        connection.execute(delete(table).where(table.c.run == run.run))
    for name, rows in rows_by_table(run, units, skips).items():
        table = METADATA.tables[name]
        if rows:
            connection.execute(insert(table), [_row(table, row) for row in rows])


def _read_names(connection: Connection, run_id: str) -> dict[tuple[int, str], list[str]]:
    query = select(FILES).where(FILES.c.run == run_id).order_by(FILES.c.unit_position, FILES.c.side, FILES.c.position)
    names: dict[tuple[int, str], list[str]] = {}
    for row in connection.execute(query).mappings():
        names.setdefault((row[FILES.c.unit_position], row[FILES.c.side]), []).append(row[FILES.c.name])
    return names


def _conditions(filters: RunFilters) -> Iterator[ColumnElement[bool]]:
    if filters.table is not None:
        yield RUNS.c.table == fitted(filters.table, _length(RUNS.c.table.type))
    if filters.status:
        yield RUNS.c.status.in_((filters.status,) if isinstance(filters.status, str) else filters.status)
    if filters.family is not None:
        yield RUNS.c.family == filters.family
    if filters.since is not None:
        yield RUNS.c.started_at >= to_utc(filters.since)
    if filters.until is not None:
        yield RUNS.c.started_at < to_utc(filters.until)


def _is_collision(error: DBAPIError) -> bool:
    if isinstance(error, IntegrityError):
        return True
    codes = (getattr(error.orig, "sqlstate", None), *(error.orig.args[:1] if error.orig else ()))
    return any(code in _COLLISIONS for code in codes)


def _row(table: Table, values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: fitted(value, _length(table.c[name].type)) if isinstance(value, str) else value
        for name, value in values.items()
    }


def _length(column_type: object) -> int | None:
    return column_type.length if isinstance(column_type, String) else None


def _run_record(row: RowMapping) -> RunRecord:
    return RunRecord(**{column.key: row[column] for column in RUNS.c})


def _unit_record(row: RowMapping, names: dict[tuple[int, str], list[str]]) -> UnitRecord:
    position = row[UNITS.c.position]
    return UnitRecord(
        **{column.key: row[column] for column in UNITS.c if column is not UNITS.c.position},
        input_names=tuple(names.get((position, INPUT), ())),
        output_names=tuple(names.get((position, OUTPUT), ())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPruneReport:
    """How many runs were deleted, or would be."""

    dry_run: bool
    before: datetime
    runs: int

    def to_json(self) -> dict[str, Any]:
        """Return the documented keys."""
        status = "nothing-to-do" if not self.runs else "planned" if self.dry_run else "pruned"
        return {"format_version": 1, "status": status, "before": self.before.isoformat(), "runs": self.runs}


def parse_when(text: str) -> datetime:
    """Parse a time, ``2026-01-31 12:30``, or an age, ``7d``, which means seven days ago."""
    if any(mark in text for mark in "-:T"):
        return datetime.fromtimestamp(parse_moment(text) / 1000, UTC)
    try:
        return now_utc() - parse_duration(text)
    except (InvalidInputError, OverflowError):
        raise InvalidInputError(
            f"{text!r} is neither a time nor an age; write for example 2026-01-31, '2026-01-31 12:30' (UTC) or 7d.",
            value=text,
        ) from None


def prune_history(url: str, *, before: datetime, dry_run: bool) -> HistoryPruneReport:
    """Delete the records of runs that started before a time."""
    old = RunFilters(until=before)
    with open_history(url) as history:
        runs = history.count_runs(old) if dry_run else history.remove_runs(old)
    return HistoryPruneReport(dry_run=dry_run, before=before, runs=runs)
