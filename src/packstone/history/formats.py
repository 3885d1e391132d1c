"""The table ``hive_format_type`` in the history database: filled by a refresh, read by name or by location.

A refresh is idempotent and incremental. Page by page, it adds new rows, changes rows that differ, and updates only
``seen_at`` of the others. Rows of this metastore whose ``seen_at`` is older than the start of the refresh no longer
exist in the metastore; they are removed at the end, so a killed refresh removes nothing.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, RowMapping, String, bindparam, delete, insert, select, update

from packstone.history.connect import WRITES, OpenDatabase, one_sentence
from packstone.history.schema import FORMATS, open_migrated
from packstone.model.metastore import FormatRecord, RefreshCounts, SeenFormat, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

PAGE = 2_000
_FIELDS = tuple(one.name for one in fields(FormatRecord))


class FormatTable(OpenDatabase):
    """The table in an open history database."""

    __slots__ = ()

    def __init__(self, url: str) -> None:
        super().__init__(open_migrated(url))

    def refresh(
        self, records: Iterable[FormatRecord], *, metastore: str, clock: Callable[[], datetime]
    ) -> RefreshCounts:
        """Write the records of a metastore, which are read page by page, and remove the rows it no longer has.

        Each page gets its own time, so that two concurrent refreshes do not remove rows that the other has just seen.
        """
        counts, began = RefreshCounts(), clock()
        source = iter(records)
        while page := list(islice(source, PAGE)):
            with one_sentence(self._engine.url), self._write() as connection:
                counts = counts.plus(_write_page(connection, page, now=clock()))
        unseen = delete(FORMATS).where(
            FORMATS.c.metastore == _fitted(metastore, "metastore"), FORMATS.c.seen_at < began
        )
        with one_sentence(self._engine.url), self._write() as connection:
            removed = connection.execute(unseen).rowcount
        return counts.plus(RefreshCounts(removed=removed))

    def list_formats(
        self, *, database: str = "", table: str = "", partition: str | None = None, limit: int = 100
    ) -> tuple[SeenFormat, ...]:
        """Return rows by name, tables before their partitions; ``partition=""`` is the table itself."""
        query = select(FORMATS)
        query = query.where(FORMATS.c.database == database) if database else query
        query = query.where(FORMATS.c.table == table) if table else query
        query = query.where(FORMATS.c.partition == partition) if partition is not None else query
        names = (FORMATS.c.database, FORMATS.c.table, FORMATS.c.partition, FORMATS.c.metastore)
        return self._read(query.order_by(*names).limit(limit))

    def find_formats(self, *locations: str) -> tuple[SeenFormat, ...]:
        """Return rows by location; give every spelling of it."""
        return self._read(select(FORMATS).where(FORMATS.c.location_key.in_([digest(one) for one in locations])))

    def _write(self) -> Any:
        return self._engine.execution_options(**{WRITES: True}).begin()

    def _read(self, query: Any) -> tuple[SeenFormat, ...]:
        with one_sentence(self._engine.url), self._engine.connect() as connection:
            return tuple(_seen(row) for row in connection.execute(query).mappings())


def _write_page(connection: Connection, page: list[FormatRecord], *, now: datetime) -> RefreshCounts:
    rows = {record.key: _row(record) for record in page}
    known = {
        row[FORMATS.c.key]: {name: row[FORMATS.c[name]] for name in _FIELDS}
        for row in connection.execute(select(FORMATS).where(FORMATS.c.key.in_(list(rows)))).mappings()
    }
    new = [key for key in rows if key not in known]
    changed = [key for key in known if known[key] != rows[key]]
    same = [key for key in known if known[key] == rows[key]]
    if new:
        connection.execute(insert(FORMATS), [_whole(key, rows[key], now=now) for key in new])
    if changed:
        values = [{**_whole(key, rows[key], now=now), "old_key": key} for key in changed]
        connection.execute(update(FORMATS).where(FORMATS.c.key == bindparam("old_key")), values)
    if same:
        connection.execute(update(FORMATS).where(FORMATS.c.key.in_(same)).values(seen_at=now))
    return RefreshCounts(added=len(new), changed=len(changed), same=len(same))


def _row(record: FormatRecord) -> dict[str, Any]:
    return {name: _fitted(value, name) for name, value in asdict(record).items()}


def _whole(key: str, row: dict[str, Any], *, now: datetime) -> dict[str, Any]:
    return {**row, "key": key, "location_key": digest(row["location"]), "seen_at": now, "changed_at": now}


def _fitted(value: Any, name: str) -> Any:
    """Truncate a text to its column and escape NUL, which PostgreSQL does not accept."""
    column_type = FORMATS.c[name].type
    if not isinstance(column_type, String) or not isinstance(value, str):
        return value
    return value.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\0")[: column_type.length]


def _seen(row: RowMapping) -> SeenFormat:
    record = FormatRecord(**{name: row[FORMATS.c[name]] for name in _FIELDS})
    return SeenFormat(record=record, seen_at=row[FORMATS.c.seen_at], changed_at=row[FORMATS.c.changed_at])
