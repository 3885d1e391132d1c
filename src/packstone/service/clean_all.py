"""Remove backups whose time is over from all Hive directories that a history knows.

Each table is cleaned as if it were named: by its own journal, under its own owners. So it does no harm if two do this
at once, or while tables are being merged; and a table that cannot be cleaned is told and does not stop the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packstone.errors import PackstoneError, storage_sentence
from packstone.service.hive_table import HiveTable
from packstone.service.maintenance import CleanReport
from packstone.service.replay import open_current_history
from packstone.storage.stores import open_store
from packstone.tables.hive.layout import split_target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packstone.tables.hive.switch import LocationCatalog


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanTable:
    """A table that could not be cleaned, and why."""

    table: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanAllReport:
    """What was removed of each table, or would be; which tables are gone, which could not be reached."""

    dry_run: bool
    tables: tuple[CleanReport, ...]
    gone: tuple[str, ...]
    failed: tuple[UncleanTable, ...]

    @property
    def with_runs(self) -> tuple[CleanReport, ...]:
        """The tables that had something to remove."""
        return tuple(report for report in self.tables if report.runs)

    @property
    def files(self) -> int:
        """How many originals."""
        return sum(report.files for report in self.tables)

    @property
    def bytes(self) -> int:
        """How big they are."""
        return sum(report.bytes for report in self.tables)

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        done = ("planned" if self.dry_run else "cleaned") if self.with_runs else "nothing-to-do"
        return {
            "format_version": 1,
            "status": "partial" if self.failed else done,
            "files": self.files,
            "bytes": self.bytes,
            "tables": [report.to_json() for report in self.tables],
            "gone": list(self.gone),
            "failed": [{"table": one.table, "why": one.why} for one in self.failed],
        }


def list_recorded_tables(history_url: str) -> tuple[str, ...]:
    """Name the Hive directories that the history knows; a partition stands for its table."""
    with open_current_history(history_url) as history:
        targets = history.list_tables(family="hive")
    return tuple(sorted({split_target(target)[0] for target in targets}))


def clean_all(tables: Iterable[str], *, dry_run: bool, catalog: LocationCatalog | None = None) -> CleanAllReport:
    """Clean one table after the other; what was published by location only with the catalogue that has it."""
    reports: list[CleanReport] = []
    gone: list[str] = []
    failed: list[UncleanTable] = []
    for table in tables:
        try:
            if open_store(table).stat(table) is None:
                gone.append(table)
                continue
            reports.append(HiveTable(table, catalog=catalog).clean(dry_run=dry_run))
            failed += [UncleanTable(table=table, why=why) for why in reports[-1].damaged]
        except PackstoneError as error:
            failed.append(UncleanTable(table=table, why=error.message))
        except OSError as error:
            failed.append(UncleanTable(table=table, why=storage_sentence(error)))
    return CleanAllReport(dry_run=dry_run, tables=tuple(reports), gone=tuple(gone), failed=tuple(failed))
