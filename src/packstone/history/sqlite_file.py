"""Record a run in a history that is a SQLite file, without SQLAlchemy: importing that takes longer than a small merge.

Only the usual case is served here: a plain address, a file of this version's schema. For anything else ``record_run``
returns False, and ``store.py`` creates or upgrades the file, connects to a server, or says what is wrong.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import platformdirs

if TYPE_CHECKING:
    from packstone.model.run_record import RunFacts, RunRecord, SkipRecord, UnitRecord

# The one transaction of a run takes milliseconds: a longer wait means that another process is stuck.
BUSY_TIMEOUT_SECONDS: Final = 30
VERSION_TABLE: Final = "packstone_schema_version"
# In the order in which they were added; this Packstone needs the last one. Listed here as well as in the migrations,
# so that Alembic need not be imported.
REVISIONS: Final = ("0003",)
RUN_TABLE: Final = "packstone_run"
UNIT_TABLE: Final = "packstone_unit"
FILE_TABLE: Final = "packstone_file"
SKIP_TABLE: Final = "packstone_skip"
INPUT, OUTPUT = "input", "output"

# Columns whose name differs from the field of the record, because the field is a reserved word in some database.
_RENAMED: Final = {
    RUN_TABLE: {"run": "run_id", "table": "table_path", "rows": "row_count", "user": "user_name"},
    UNIT_TABLE: {
        "run": "run_id", "partition": "partition_name", "unit": "unit_number", "inputs": "input_files",
        "outputs": "output_files", "rows": "row_count",
    },
    FILE_TABLE: {"run": "run_id", "name": "file_name"},
    SKIP_TABLE: {"run": "run_id"},
}  # fmt: skip
# An address of which nothing needs to be decoded; those of a home folder or with options are left to SQLAlchemy.
_PLAIN: Final = re.compile(r"sqlite:///(/?[\w.+ -][\w./+ -]*)", re.ASCII)
_LENGTH: Final = re.compile(r"VARCHAR\((\d+)\)")

Rows = dict[str, list[dict[str, Any]]]


def default_history_url() -> str:
    """Return the address of the SQLite file in the user's data folder."""
    url = f"sqlite:///{platformdirs.user_data_path('packstone', appauthor=False) / 'history.db'}"
    if find_file(url) is not None:
        return url
    from sqlalchemy import URL

    return URL.create("sqlite", database=url.removeprefix("sqlite:///")).render_as_string()


def find_file(url: str) -> Path | None:
    """Return the file of a plain SQLite address, None for any other address."""
    found = _PLAIN.fullmatch(url)
    return Path(found[1]).absolute() if found else None


def history_key(url: str) -> str:
    """Return an identity of a history that is safe to store: its address without password and query."""
    path = find_file(url)
    if path is not None:
        return f"sqlite:///{path}"
    from packstone.history.connect import database_key

    return database_key(url)


def check_url(url: str) -> None:
    """Raise InvalidInputError if the address can never work; called before hours of work, not after."""
    if find_file(url) is None:
        from packstone.history.connect import check_address

        check_address(url)


def record_run(url: str, facts: RunFacts) -> bool:
    """Write a run in one transaction; return False, with nothing written, if this is not the usual case."""
    path = find_file(url)
    if path is None or not path.is_file():
        return False
    try:
        address = f"{path.as_uri()}?mode=rw"  # a file that was just removed is not created
        with closing(sqlite3.connect(address, BUSY_TIMEOUT_SECONDS, isolation_level=None, uri=True)) as database:
            database.execute("BEGIN IMMEDIATE")  # see ``_on_sqlite_begin`` in connect.py
            if database.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchall() != [(REVISIONS[-1],)]:
                return False
            _replace_run(database, facts)
            database.execute("COMMIT")
    except sqlite3.Error:
        return False
    return True


def _replace_run(database: sqlite3.Connection, facts: RunFacts) -> None:
    for table, rows in rows_by_table(facts.run, facts.units, facts.skips).items():
        database.execute(f"DELETE FROM {table} WHERE run_id = ?", (facts.run.run,))
        if not rows:
            continue
        lengths = _read_lengths(database, table)
        keys = list(rows[0])
        names = [_RENAMED[table].get(key, key) for key in keys]
        limits = [(key, lengths.get(name)) for key, name in zip(keys, names, strict=True)]
        places = ", ".join("?" * len(keys))
        database.executemany(
            f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})",
            ([_stored(row[key], length) for key, length in limits] for row in rows),
        )


def _read_lengths(database: sqlite3.Connection, table: str) -> dict[str, int]:
    """The length of each column of texts, by its name."""
    declared = database.execute(f"PRAGMA table_info({table})").fetchall()
    found = ((name, _LENGTH.fullmatch(kind)) for _, name, kind, *_ in declared)
    return {name: int(length[1]) for name, length in found if length}


def _stored(value: object, length: int | None) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
    return fitted(value, length) if isinstance(value, str) else value


# ---- rows, for any database ----


def rows_by_table(run: RunRecord, units: tuple[UnitRecord, ...], skips: tuple[SkipRecord, ...]) -> Rows:
    """The rows of a run by table, the run's own first; a row has the names of the record's fields."""
    return {
        RUN_TABLE: [_values(run)],
        UNIT_TABLE: [_values(unit) | {"position": number} for number, unit in enumerate(units)],
        FILE_TABLE: list(_file_rows(units)),
        SKIP_TABLE: [_values(skip) | {"position": number} for number, skip in enumerate(skips)],
    }


def _values(record: RunRecord | UnitRecord | SkipRecord) -> dict[str, Any]:
    """The fields of a record that are columns; the names of files have a table of their own."""
    names = (field.name for field in fields(record))
    return {name: getattr(record, name) for name in names if name not in ("input_names", "output_names")}


def _file_rows(units: tuple[UnitRecord, ...]) -> Iterator[dict[str, Any]]:
    for number, unit in enumerate(units):
        for side, names in ((INPUT, unit.input_names), (OUTPUT, unit.output_names)):
            for position, name in enumerate(names):
                yield {"run": unit.run, "unit_position": number, "side": side, "position": position, "name": name}


def fitted(text: str, length: int | None) -> str:
    """Return a text that every database accepts: a record with a shortened path is better than no record.

    A file name may contain bytes that are not UTF-8 (Python keeps them as lone surrogates, which no driver accepts),
    and PostgreSQL does not accept NUL.
    """
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\0")
    return clean if length is None or len(clean) <= length else clean[: length - 1] + "…"
