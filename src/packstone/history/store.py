"""The history of runs: record one, list them, read one.

Recording is idempotent by the run's id. A run whose record could not be written (no connection, a crash)
is recorded again from its journal, perhaps twice and by two processes; the last word replaces the others,
and nothing is counted double.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import platformdirs
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
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
from packstone.history.connect import WRITES, display_url, is_server, make_engine, one_sentence, parse_url
from packstone.history.migrate import migrate
from packstone.history.schema import FILES, RUN_ID_CHARS, RUNS, SKIPS, UNITS
from packstone.model.run_record import RunFacts, RunRecord, SkipRecord, UnitRecord, to_utc

T = TypeVar("T")

_ATTEMPTS = 5
_BATCH = 1000
_INPUT, _OUTPUT = "input", "output"
_SKIP_FIELDS = ("run", "what", "why", "kind")
# Deadlock and lock wait of MySQL; deadlock and serialisation failure of PostgreSQL.
_COLLISIONS = (1213, 1205, 1020, "40P01", "40001")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilters:
    """Which runs: of one table, that ended so, of one family, started at or after, and before, a moment."""

    table: str | None = None
    status: str | tuple[str, ...] | None = None
    family: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def default_history_url() -> str:
    """Return the address of the SQLite file in the user's data folder."""
    path = platformdirs.user_data_path("packstone", appauthor=False) / "history.db"
    return URL.create("sqlite", database=str(path)).render_as_string()


def open_history(url: str) -> RunHistory:
    """Open the history at ``url``, creating or upgrading it as needed."""
    parsed = parse_url(url)
    engine = make_engine(parsed)
    try:
        with one_sentence(parsed):
            migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return RunHistory(engine)


class RunHistory:
    """An open history database; threads may share the object, processes open their own."""

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def record_run(
        self, run: RunRecord, units: tuple[UnitRecord, ...] = (), skips: tuple[SkipRecord, ...] = ()
    ) -> None:
        """Write the run with all that belongs to it in one transaction, in place of what its id had before."""
        _check_ids(run, units)
        with one_sentence(self._engine.url):
            self._with_patience(lambda connection: _replace_run(connection, run, units, skips=skips))

    def record_if_absent(self, facts: RunFacts) -> bool:
        """Record a run unless its id is known: what was recorded at the time knows more than what is found later."""
        _check_ids(facts.run, facts.units)

        def write(connection: Connection) -> bool:
            if connection.execute(select(RUNS.c.run).where(RUNS.c.run == facts.run.run)).first() is not None:
                return False
            _replace_run(connection, facts.run, facts.units, skips=facts.skips)
            return True

        with one_sentence(self._engine.url):
            return self._with_patience(write)

    def set_status(self, run_id: str, status: str) -> bool:
        """Change how a run ended, for one that was undone later; False if it is not known."""

        def write(connection: Connection) -> bool:
            # Asked first: MySQL counts a row that already says so as not updated.
            if connection.execute(select(RUNS.c.run).where(RUNS.c.run == run_id)).first() is None:
                return False
            connection.execute(update(RUNS).where(RUNS.c.run == run_id).values(status=status))
            return True

        with one_sentence(self._engine.url):
            return self._with_patience(write)

    def list_runs(self, filters: RunFilters | None = None, *, limit: int = 50, **by: Any) -> tuple[RunRecord, ...]:  # noqa: ANN401
        """Return the newest runs first: those that pass the filters, given whole or by name."""
        if limit < 1:
            raise InvalidInputError(f"The limit {limit} asks for no runs; give 1 or more.", value=limit)
        chosen = filters or RunFilters(**by)
        query = select(RUNS).where(*_conditions(chosen)).order_by(RUNS.c.started_at.desc(), RUNS.c.run.desc())
        with one_sentence(self._engine.url), self._engine.connect() as connection:
            return tuple(_run_record(row) for row in connection.execute(query.limit(limit)).mappings())

    def list_tables(self, *, family: str) -> tuple[str, ...]:
        """Name the tables of a family that runs were recorded of."""
        query = select(RUNS.c.table).where(RUNS.c.family == family).distinct().order_by(RUNS.c.table)
        with one_sentence(self._engine.url), self._engine.connect() as connection:
            return tuple(connection.scalars(query))

    def count_runs(self, filters: RunFilters) -> int:
        """Count the runs that pass the filters."""
        query = select(func.count()).select_from(RUNS).where(*_conditions(filters))
        with one_sentence(self._engine.url), self._engine.connect() as connection:
            return connection.scalar(query) or 0

    def remove_runs(self, filters: RunFilters) -> int:
        """Forget the runs that pass the filters, a thousand in a transaction; return how many they were."""
        removed = 0
        oldest = select(RUNS.c.run).where(*_conditions(filters)).order_by(RUNS.c.started_at).limit(_BATCH)

        def forget(connection: Connection) -> int:
            found = list(connection.scalars(oldest))
            for table in (FILES, SKIPS, UNITS, RUNS):
                connection.execute(delete(table).where(table.c.run.in_(found)))
            return len(found)

        with one_sentence(self._engine.url):
            while (count := self._with_patience(forget)) > 0:
                removed += count
        return removed

    def read_run(self, run_id: str) -> tuple[RunRecord, tuple[UnitRecord, ...]] | None:
        """Return a run and its units in the order they were recorded, or None if there is no such run."""
        facts = self.read_facts(run_id)
        return None if facts is None else (facts.run, facts.units)

    def read_facts(self, run_id: str) -> RunFacts | None:
        """Return all that is recorded of a run, or None if there is no such run."""
        engine = self._engine
        if is_server(engine.url):  # one view of it all, so that a replay cannot pair the old run with the new units
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

    def _with_patience(self, write: Callable[[Connection], T]) -> T:
        """Write in one transaction; if another one was in its way, once more.

        Two processes that replay one run at once both delete and both insert it: SQLite lets them queue, the servers
        fail one of them, with a deadlock or a double key.
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

    def close(self) -> None:
        """Close all connections; the object is of no use afterwards."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        """Print the address without its password."""
        return display_url(self._engine.url)


def _check_ids(run: RunRecord, units: tuple[UnitRecord, ...]) -> None:
    """Refuse an id that would be cut, for it is the key, and units that belong to another run."""
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
    connection.execute(insert(RUNS), _row(RUNS, asdict(run)))
    rows: dict[Table, list[dict[str, Any]]] = {
        UNITS: [_row(UNITS, _unit_values(unit)) | {"position": number} for number, unit in enumerate(units)],
        FILES: [_row(FILES, row) for row in _file_rows(units)],
        SKIPS: [_row(SKIPS, asdict(skip)) | {"position": number} for number, skip in enumerate(skips)],
    }
    for table, values in rows.items():
        if values:
            connection.execute(insert(table), values)


def _unit_values(unit: UnitRecord) -> dict[str, Any]:
    return {name: value for name, value in asdict(unit).items() if name not in ("input_names", "output_names")}


def _file_rows(units: tuple[UnitRecord, ...]) -> Iterator[dict[str, Any]]:
    for number, unit in enumerate(units):
        for side, names in ((_INPUT, unit.input_names), (_OUTPUT, unit.output_names)):
            for position, name in enumerate(names):
                yield {"run": unit.run, "unit_position": number, "side": side, "position": position, "name": name}


def _read_names(connection: Connection, run_id: str) -> dict[tuple[int, str], list[str]]:
    query = select(FILES).where(FILES.c.run == run_id).order_by(FILES.c.unit_position, FILES.c.side, FILES.c.position)
    names: dict[tuple[int, str], list[str]] = {}
    for row in connection.execute(query).mappings():
        names.setdefault((row[FILES.c.unit_position], row[FILES.c.side]), []).append(row[FILES.c.name])
    return names


def _conditions(filters: RunFilters) -> Iterator[ColumnElement[bool]]:
    if filters.table is not None:
        yield RUNS.c.table == _fitted(filters.table, RUNS.c.table.type)
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
        name: _fitted(value, table.c[name].type) if isinstance(value, str) else value for name, value in values.items()
    }


def _fitted(text: str, column_type: object) -> str:
    """Make a text that every database takes: a record with a shortened path is worth more than none.

    A file name may hold bytes that are no UTF-8 (Python keeps them as lone surrogates, which no driver
    takes), and PostgreSQL takes no NUL.
    """
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\0")
    length = column_type.length if isinstance(column_type, String) else None
    return clean if length is None or len(clean) <= length else clean[: length - 1] + "…"


def _run_record(row: RowMapping) -> RunRecord:
    return RunRecord(**{column.key: row[column] for column in RUNS.c})


def _unit_record(row: RowMapping, names: dict[tuple[int, str], list[str]]) -> UnitRecord:
    position = row[UNITS.c.position]
    return UnitRecord(
        **{column.key: row[column] for column in UNITS.c if column is not UNITS.c.position},
        input_names=tuple(names.get((position, _INPUT), ())),
        output_names=tuple(names.get((position, _OUTPUT), ())),
    )
