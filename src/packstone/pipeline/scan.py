"""A scan as users see it: the rows of one version that pass a filter, as Arrow or as a Spark DataFrame.

    scan = table.scan(columns=["id", "amount"], where="country = 'DE' AND amount > 100")
    print(scan.explain())
    scan.to_arrow(); scan.to_df(spark); scan.count()

A scan is planned once, for one version: reading it twice gives the same rows, whatever is loaded in between.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packstone.errors import CorruptionError, InvalidInputError, PackstoneError, RefusedError
from packstone.query.filter.expression import Filter, columns_of
from packstone.query.filter.parse_filter import parse_filter
from packstone.query.filter.resolve import resolve
from packstone.query.scan.caches import process_caches
from packstone.query.scan.read_split import FEW_ROWS_BYTES, check_pushed, count_split, read_at_once, read_split
from packstone.query.scan.request import ScanOptions, Selection
from packstone.spark.frames import (
    find_session,
    read_here,
    read_parquet_files,
    read_splits,
    session_parallelism,
    session_zone,
    spark_tests,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from packstone.query.filter.expression import Expression
    from packstone.query.scan.caches import CacheStats
    from packstone.query.scan.plan import PruneReport, ScanPlan
    from packstone.tables.scan_source import ScanSource

DEFAULT_ZONE = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """What a scan reads and what it leaves out, and why."""

    table: str
    family: str
    version: int
    pruned: PruneReport
    unpushed: tuple[str, ...] = ()  # parts of the filter that only Spark can evaluate
    caches: tuple[tuple[str, CacheStats], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values, for ``json``."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": self.family,
            "version": self.version,
            **self.pruned.to_json(),
            "unpushed": list(self.unpushed),
            "caches": {name: _plain_stats(stats) for name, stats in self.caches},
        }

    def __str__(self) -> str:
        lines = [f"{self.table} version {self.version}", str(self.pruned)]
        lines += [f"left to Spark: {part}" for part in self.unpushed]
        return "\n".join(lines)


class Scan:
    """The rows of one version of a table that pass a filter; made by ``table.scan``."""

    def __init__(
        self,
        source: ScanSource,
        *,
        columns: Iterable[str] | None = None,
        where: str | Expression | None = None,
        timezone: str | None = None,
        spark: Any = None,
    ) -> None:
        check_filter(where)
        names = None if columns is None else (columns,) if isinstance(columns, str) else tuple(columns)
        self._source, self._where, self._zone, self._spark = source, where, timezone, spark
        options = ScanOptions(zone=timezone or DEFAULT_ZONE)
        self._selection = Selection(columns=names, where=where, options=options)
        self._plans: dict[Selection, ScanPlan] = {}

    @property
    def source(self) -> ScanSource:
        """The table at the version that is read."""
        return self._source

    @property
    def table(self) -> str:
        """The table's folder."""
        return self._source.path

    @property
    def family(self) -> str:
        """The family of the table."""
        return str(self._source.family)

    @property
    def version(self) -> int:
        """The version that is read: the version of the status file, or the number of the snapshot."""
        return self._source.version

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return self._plan().schema

    def explain(self) -> ScanReport:
        """Report what is read and what is left out, level by level; read no row."""
        plan = self._plan(self._with(explain=True))
        return ScanReport(
            table=self.table,
            family=self.family,
            version=self.version,
            pruned=plan.report,
            unpushed=tuple(str(part) for part in plan.unpushed),
            caches=tuple(cache_stats().items()),
        )

    def to_batches(self, *, threads: int = 1) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow batches, read by this process; ``threads`` is the number of splits read at once."""
        if threads < 1:
            raise InvalidInputError(f"{threads} threads read nothing; give 1 or more.")
        plan = self._plan()
        check_pushed(plan)
        io = self._source.io
        parts = [read_split(io, split, caches=process_caches()) for split in plan.splits]
        batches = itertools.chain.from_iterable(parts) if threads == 1 else read_at_once(parts, threads)
        return self._guarded(batches)

    def to_reader(self, *, threads: int = 1) -> pa.RecordBatchReader:
        """The rows as an Arrow stream, which DuckDB, Polars and others accept."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches(threads=threads))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows through Arrow's C stream interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self, *, threads: int = 1) -> pa.Table:
        """All rows as one Arrow table, in memory."""
        import pyarrow as pa

        return pa.Table.from_batches(list(self.to_batches(threads=threads)), schema=self.schema)

    def count(self) -> int:
        """The number of matching rows; row groups in which all rows match are not read."""
        plan = self._plan(replace(self._selection, columns=()))
        check_pushed(plan)
        counts = (count_split(self._source.io, split, caches=process_caches()) for split in plan.splits)
        return sum(self._guarded(counts))

    def to_df(self, spark: Any = None, *, driver_bytes: int = FEW_ROWS_BYTES) -> Any:
        """The rows as a Spark DataFrame, read by Spark's own Parquet reader or by tasks of Packstone.

        Tasks of Packstone read files that must be merged on read, and the rows of a filter that selects few of them. If
        the selected rows take at most ``driver_bytes``, and are found in the time that a job takes to start, this
        process reads them and passes them to Spark; 0 turns that off.

        Local times in the filter are in the session's zone unless the scan names one.
        """
        if driver_bytes < 0:
            raise InvalidInputError(f"driver_bytes is {driver_bytes}; give 0 to leave all reading to tasks, or more.")
        session = find_session(spark if spark is not None else self._spark)
        request = self._with(zone=self._zone or session_zone(session), parallelism=session_parallelism(session))
        plan = self._plan(request)
        names = plan.schema.names
        if plan.unpushed:  # Spark tests these, so it needs their columns
            self._check_zone(plan.unpushed, session_zone(session))
            extra = {name.lower(): name for part in plan.unpushed for name in columns_of(part)}
            known = {name.lower() for name in names}
            needed = (*names, *(name for low, name in extra.items() if low not in known))
            plan = self._plan(replace(request, columns=needed))
        frame = self._read_whole_files(session, plan)
        if frame is None:
            frame = self._read_rows(session, plan, driver_bytes=driver_bytes)
            for part in plan.unpushed:
                frame = frame.where(str(part))
            if not plan.unpushed:
                return frame
        return frame.select([f"`{name.replace('`', '``')}`" for name in names])

    def _read_whole_files(self, session: Any, plan: ScanPlan) -> Any:
        frame = read_parquet_files(
            session, plan, self._needed(plan), family=self._source.family, is_filtered=self._where is not None
        )
        if frame is not None:
            # Spark also reads the row groups that the plan leaves out, so the filter stays even if all others match.
            for test in self._spark_tests(session_zone(session)):
                frame = frame.where(test)
        return frame

    def _read_rows(self, session: Any, plan: ScanPlan, *, driver_bytes: int) -> Any:
        io, frame = self._source.io, None
        if driver_bytes and self._where is not None:
            try:
                frame = read_here(session, plan, io, max_bytes=driver_bytes)
            except FileNotFoundError as error:
                raise self._gone(error) from error
        return read_splits(session, plan, io) if frame is None else frame

    def _check_zone(self, parts: Iterable[Expression], zone: str) -> None:
        """Raise RefusedError if only Spark can evaluate a filter on times, and would do so in another zone."""
        import pyarrow as pa

        times = {one.name for one in self._source.schema if pa.types.is_temporal(one.type)}
        doubtful = [part for part in parts if times.intersection(columns_of(part))]
        if doubtful and self._zone not in (None, zone):
            raise RefusedError(
                f"Spark tests {doubtful[0]} in {zone}, not in {self._zone}; set spark.sql.session.timeZone, or leave "
                "the zone of the scan out.",
                table=self.table,
            )

    def _spark_tests(self, zone: str) -> tuple[str, ...]:
        if self._where is None:
            return ()
        schema = self._source.schema
        parsed = parse_filter(self._where) if isinstance(self._where, str) else self._where
        # Spark gets literals of the columns' own types. With the literals as written, it would round 1.5 to 2 in a
        # comparison with a decimal(38,0), and read local times in the session's zone though the scan names another.
        return spark_tests(resolve(parsed, schema, zone=self._zone or zone), schema)

    def _needed(self, plan: ScanPlan) -> pa.Schema:
        """The columns of the result, and those of the filter."""
        import pyarrow as pa

        parsed = parse_filter(self._where) if isinstance(self._where, str) else self._where
        tested = {name.lower() for name in (columns_of(parsed) if parsed is not None else ())}
        out = set(plan.schema.names)
        return pa.schema([one for one in self._source.schema if one.name in out or one.name.lower() in tested])

    def _with(self, **options: Any) -> Selection:
        return replace(self._selection, options=replace(self._selection.options, **options))

    def _plan(self, selection: Selection | None = None) -> ScanPlan:
        wanted = selection or self._selection
        if wanted not in self._plans:
            try:
                self._plans[wanted] = self._source.plan(wanted, caches=process_caches())
            except FileNotFoundError as error:
                raise self._gone(error) from error
        return self._plans[wanted]

    def _guarded(self, items: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from items
        except FileNotFoundError as error:
            raise self._gone(error) from error

    def _gone(self, error: FileNotFoundError) -> PackstoneError:
        """The error for a missing file: `clean` removes those of older versions only."""
        name = str(error.filename or "a file")
        with contextlib.suppress(PackstoneError, FileNotFoundError):
            newest = self._source.open(self._source.io, self.table, version=None, as_of_ms=None)
            if newest.version == self.version:
                return CorruptionError(
                    f"{name} is missing, but version {self.version} of {self.table}, the newest one, names it; restore "
                    "it from a copy.",
                    file=name,
                )
        return InvalidInputError(
            f"Version {self.version} of {self.table} needs {name}, which no longer exists: it was cleaned or removed; "
            "scan a newer version."
        )

    def __repr__(self) -> str:
        where = f", where={str(self._where)!r}" if self._where is not None else ""
        return f"Scan({self.table!r}, version={self.version}{where})"


def cache_stats() -> dict[str, CacheStats]:
    """The size and the hits of the caches of this process: indexes of segments, footers of files."""
    return process_caches().stats()


def check_filter(where: object) -> None:
    """Raise InvalidInputError unless a filter is SQL text or made of ``packstone.col``."""
    if where is not None and not isinstance(where, str | Filter):
        raise InvalidInputError(
            f"A {type(where).__name__} is not a filter; give SQL text, or packstone.col('id') == 5 and the like."
        )


def _plain_stats(stats: CacheStats) -> dict[str, int]:
    return {name: getattr(stats, name) for name in type(stats).__slots__}
