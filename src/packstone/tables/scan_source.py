"""A table at one version, ready to be scanned, whatever its family; and what was added between two versions.

The *version* of a segment table is that of its status, the version of a Paimon table the number of its snapshot; 0 is
the version of a Paimon table without a snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from packstone.errors import InvalidInputError
from packstone.model.moment import format_moment
from packstone.scan.scan_request import DEFAULT_OPTIONS, ScanOptions
from packstone.tables.paimon.data_type import to_arrow_field
from packstone.tables.paimon.scan_plan import plan_paimon_scan
from packstone.tables.paimon.snapshot_files import list_snapshot_ids, read_latest_snapshot, read_snapshot
from packstone.tables.paimon.store import open_store
from packstone.tables.probe import Family, find_table
from packstone.tables.segments.column_types import to_arrow
from packstone.tables.segments.scan_plan import plan_segment_scan
from packstone.tables.segments.status_files import find_as_of, read_kept_version, read_latest

if TYPE_CHECKING:
    import pyarrow as pa

    from packstone.pruning.expression import Expression
    from packstone.scan.caches import ScanCaches
    from packstone.scan.scan_plan import ScanPlan
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.snapshot import Snapshot
    from packstone.tables.paimon.store import PaimonStore
    from packstone.tables.segments.status import TableStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is asked for; ``columns`` None is all of them."""

    columns: tuple[str, ...] | None = None
    where: str | Expression | None = None
    options: ScanOptions = DEFAULT_OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSource:
    """A segment table at one version."""

    io: FileIO
    path: str
    status: TableStatus

    @property
    def family(self) -> Family:
        """Segments."""
        return Family.SEGMENTS

    @property
    def version(self) -> int:
        """Of the status."""
        return self.status.version

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return to_arrow(self.status.columns)

    def plan(self, selection: Selection, *, caches: ScanCaches | None = None) -> ScanPlan:
        """Plan a scan."""
        return plan_segment_scan(
            self.io,
            self.path,
            status=self.status,
            columns=selection.columns,
            where=selection.where,
            caches=caches,
            options=selection.options,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonSource:
    """A Paimon table at one snapshot."""

    io: FileIO
    store: PaimonStore
    snapshot: Snapshot | None

    @property
    def path(self) -> str:
        """The table's folder."""
        return self.store.path

    @property
    def family(self) -> Family:
        """Paimon."""
        return Family.PAIMON

    @property
    def version(self) -> int:
        """The number of the snapshot."""
        return 0 if self.snapshot is None else self.snapshot.id

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        return pa.schema([to_arrow_field(field) for field in self.store.schema.fields])

    def plan(self, selection: Selection, *, caches: ScanCaches | None = None) -> ScanPlan:
        """Plan a scan."""
        return plan_paimon_scan(
            self.io,
            self.store,
            self.snapshot,
            columns=selection.columns,
            where=selection.where,
            caches=caches,
            options=selection.options,
        )


ScanSource: TypeAlias = SegmentSource | PaimonSource


def open_source(io: FileIO, path: str, *, version: int | None = None, as_of_ms: int | None = None) -> ScanSource:
    """Find the table of a path and pin one version: the newest, one by number, or the newest one of a moment."""
    if version is not None and as_of_ms is not None:
        raise InvalidInputError("Give either a version or a moment, not both.")
    if io.stat(path) is None:
        raise InvalidInputError(f"{path} does not exist.", path=path)
    family, root = find_table(io, path)
    if family is Family.HIVE:
        raise InvalidInputError(
            f"{path} is neither a segment table nor a Paimon table; read a directory of files with Spark or DuckDB.",
            path=path,
        )
    if root != path.rstrip("/"):
        raise InvalidInputError(f"{path} lies inside the table {root}; give the table.", path=path)
    if family is Family.SEGMENTS:
        return SegmentSource(io=io, path=root, status=_status(io, root, version=version, as_of_ms=as_of_ms))
    store = open_store(io, root)
    is_past = version is not None or as_of_ms is not None
    snapshot = _snapshot(io, store.path, version=version, as_of_ms=as_of_ms)
    if is_past and snapshot is not None:
        store = replace(store, schema=store.schemas[snapshot.schema_id])
    return PaimonSource(io=io, store=store, snapshot=snapshot)


def _status(io: FileIO, table: str, *, version: int | None, as_of_ms: int | None) -> TableStatus:
    if version is not None:
        return read_kept_version(io, table, version)
    return read_latest(io, table) if as_of_ms is None else find_as_of(io, table, as_of_ms)


def _snapshot(io: FileIO, table: str, *, version: int | None, as_of_ms: int | None) -> Snapshot | None:
    if as_of_ms is not None:
        return _snapshot_as_of(io, table, as_of_ms)
    if version is None:
        return read_latest_snapshot(io, table)
    try:
        return read_snapshot(io, table, version)
    except FileNotFoundError:
        raise InvalidInputError(f"{table} has no snapshot {version}; {_kept(io, table)}.") from None


def _snapshot_as_of(io: FileIO, table: str, moment_ms: int) -> Snapshot:
    """The newest snapshot that was not written later; their times rise with their numbers."""
    ids = list_snapshot_ids(io, table)
    low, high = 0, len(ids)  # the first `low` ones are old enough, from `high` on they are too young
    found = None
    while low < high:
        middle = (low + high) // 2
        try:
            snapshot = read_snapshot(io, table, ids[middle])
        except FileNotFoundError:  # it has expired since, and so have all before it
            low = middle + 1
            continue
        if snapshot.time_millis <= moment_ms:
            found, low = snapshot, middle + 1
        else:
            high = middle
    if found is None:
        when = format_moment(moment_ms)
        raise InvalidInputError(f"{table} has no snapshot of {when} (UTC); {_kept(io, table)}.")
    return found


def _kept(io: FileIO, table: str) -> str:
    ids = list_snapshot_ids(io, table)
    return f"it keeps {ids[0]} to {ids[-1]}" if ids else "it has none yet"
