"""The history of runs: record one, list them, read one.

Recording is idempotent by the run's id. A run whose record could not be written (no connection, a crash)
is recorded again from its journal, perhaps twice and by two processes; the last word replaces the others,
and nothing is counted double.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import platformdirs
from sqlalchemy import URL, Engine, RowMapping, String, Table, delete, insert, select

from packstone.errors import InvalidInputError
from packstone.history.connect import WRITES, display_url, make_engine, one_sentence, parse_url
from packstone.history.migrate import migrate
from packstone.history.schema import RUN_ID_CHARS, RUNS, UNITS
from packstone.model.run_record import RunRecord, UnitRecord, to_utc


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

    def record_run(self, run: RunRecord, units: tuple[UnitRecord, ...] = ()) -> None:
        """Write the run and its units in one transaction, in place of what was recorded under its id."""
        _check_ids(run, units)
        unit_rows = [_row(UNITS, asdict(unit)) | {"position": number} for number, unit in enumerate(units)]
        with (
            one_sentence(self._engine.url),
            self._engine.execution_options(**{WRITES: True}).begin() as connection,
        ):
            connection.execute(delete(UNITS).where(UNITS.c.run == run.run))
            connection.execute(delete(RUNS).where(RUNS.c.run == run.run))
            connection.execute(insert(RUNS), _row(RUNS, asdict(run)))
            if unit_rows:
                connection.execute(insert(UNITS), unit_rows)

    def list_runs(
        self,
        *,
        table: str | None = None,
        status: str | None = None,
        since: datetime | None = None,
        limit: int = 50,
    ) -> tuple[RunRecord, ...]:
        """Return the newest runs first: of one table, with one status, started at or after a moment."""
        if limit < 1:
            raise InvalidInputError(f"The limit {limit} asks for no runs; give 1 or more.", value=limit)
        query = select(RUNS).order_by(RUNS.c.started_at.desc(), RUNS.c.run.desc()).limit(limit)
        if table is not None:
            query = query.where(RUNS.c.table == _fitted(table, RUNS.c.table.type))
        if status is not None:
            query = query.where(RUNS.c.status == status)
        if since is not None:
            query = query.where(RUNS.c.started_at >= to_utc(since))
        with one_sentence(self._engine.url), self._engine.connect() as connection:
            return tuple(_run_record(row) for row in connection.execute(query).mappings())

    def read_run(self, run_id: str) -> tuple[RunRecord, tuple[UnitRecord, ...]] | None:
        """Return a run and its units in the order they were recorded, or None if there is no such run."""
        units_query = select(UNITS).where(UNITS.c.run == run_id).order_by(UNITS.c.position)
        # One transaction, so that a replay in between cannot pair the old run with the new units.
        with one_sentence(self._engine.url), self._engine.connect() as connection:
            row = connection.execute(select(RUNS).where(RUNS.c.run == run_id)).mappings().one_or_none()
            if row is None:
                return None
            units = tuple(_unit_record(unit) for unit in connection.execute(units_query).mappings())
        return _run_record(row), units

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


def _unit_record(row: RowMapping) -> UnitRecord:
    return UnitRecord(**{column.key: row[column] for column in UNITS.c if column is not UNITS.c.position})
