"""A table of any family at one version, ready to be scanned; and the rows that were added between two versions.

The *version* of a segment table is that of its status, the version of a Paimon table the number of its snapshot; 0 is
the version of a Paimon table without a snapshot.

Streams read the rows of each load or append once:

=====================  ===============================  =====================================================
                       segment table                    Paimon table without primary key
=====================  ===============================  =====================================================
gives rows             a load, an overwrite             an APPEND snapshot
gives none             compactions, deletes, clean      COMPACT and ANALYZE snapshots
stops the stream       a version in between is cleaned  a snapshot in between has expired; OVERWRITE
=====================  ===============================  =====================================================

Two versions do not show what came between them: a load may be merged with older segments before a stream reads it. So
every version in between is read, and the files of a load come from its own segment file, which stays as long as its
version does. A stream that starts at version 0 begins with all rows of the version that is the newest then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from packstone.errors import InvalidInputError, RefusedError
from packstone.model.times import format_moment
from packstone.query.scan.request import DEFAULT_OPTIONS, ScanOptions
from packstone.tables.families import find_table
from packstone.tables.paimon.family import PAIMON
from packstone.tables.paimon.format.data_type import to_arrow_field
from packstone.tables.paimon.format.snapshot import CommitKind, list_snapshot_ids, read_latest_snapshot, read_snapshot
from packstone.tables.paimon.format.store import open_store
from packstone.tables.paimon.scan import plan_paimon_scan
from packstone.tables.segments.family import SEGMENTS
from packstone.tables.segments.format.columns import to_arrow
from packstone.tables.segments.format.status_files import (
    find_as_of,
    read_floor,
    read_kept_version,
    read_latest,
    read_version,
)
from packstone.tables.segments.scan import plan_segment_scan

if TYPE_CHECKING:
    import pyarrow as pa

    from packstone.query.filter.expression import Expression
    from packstone.query.scan.caches import ScanCaches
    from packstone.query.scan.plan import ScanPlan
    from packstone.storage.fileio import FileIO
    from packstone.tables.paimon.format.snapshot import Snapshot
    from packstone.tables.paimon.format.store import PaimonStore
    from packstone.tables.segments.format.status import TableStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The requested columns and rows; ``columns`` None means all columns."""

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
    def family(self) -> str:
        """The name of the family."""
        return SEGMENTS.name

    @property
    def version(self) -> int:
        """The version of the status."""
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
    def family(self) -> str:
        """The name of the family."""
        return PAIMON.name

    @property
    def version(self) -> int:
        """The number of the snapshot."""
        return 0 if self.snapshot is None else self.snapshot.id

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        import pyarrow as pa

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
    """Open the table at a path at one version: the newest, one by number, or the newest at a moment."""
    if version is not None and as_of_ms is not None:
        raise InvalidInputError("Give either a version or a moment, not both.")
    if io.stat(path) is None:
        raise InvalidInputError(f"{path} does not exist.", path=path)
    family, root = find_table(io, path)
    if not family.is_scanned:
        raise InvalidInputError(
            f"{path} is neither a segment table nor a Paimon table; read a directory of files with Spark or DuckDB.",
            path=path,
        )
    if root != path.rstrip("/"):
        raise InvalidInputError(f"{path} lies inside the table {root}; give the table.", path=path)
    if family is SEGMENTS:
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
    """Return the newest snapshot at a moment; the times of snapshots rise with their numbers."""
    ids = list_snapshot_ids(io, table)
    low, high = 0, len(ids)  # the first `low` ones are old enough, from `high` on they are too young
    found = None
    while low < high:
        middle = (low + high) // 2
        try:
            snapshot = read_snapshot(io, table, ids[middle])
        except FileNotFoundError:  # it has expired since, as have all before it
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


# ---- rows added between versions ----

START: Final = 0  # before the first version
_NOTHING_NEW: Final = frozenset({CommitKind.COMPACT, CommitKind.ANALYZE})


def check_streamable(source: ScanSource) -> None:
    """Refuse a table whose changes are more than new rows."""
    if isinstance(source, PaimonSource) and source.store.schema.primary_keys:
        raise RefusedError(
            f"{source.path} has a primary key: its changes are updates and deletes, and a stream gives new rows only; "
            "read it whole, or stream it with Paimon's own connector.",
            table=source.path,
        )


def find_added(io: FileIO, path: str, *, after: int, upto: int) -> tuple[ScanSource, ...]:
    """Return the sources, in order, of the rows that versions ``after + 1`` to ``upto`` added."""
    if after >= upto:
        return ()
    if after == START:
        source = open_source(io, path, version=upto)
        check_streamable(source)
        return (source,)
    family, root = find_table(io, path)
    find = _added_loads if family is SEGMENTS else _added_appends
    return find(io, root, range(after, upto + 1))


def _added_loads(io: FileIO, table: str, versions: range) -> tuple[SegmentSource, ...]:
    before = _read(io, table, versions[0])
    found = []
    for version in versions[1:]:
        status = _read(io, table, version)
        known = {entry.id for entry in before.live}
        new = tuple(entry for entry in status.live if entry.id not in known and not entry.id.merges)
        if new:
            found.append(SegmentSource(io=io, path=table, status=replace(status, entries=new, running=())))
        before = status
    if read_floor(io, table) > versions[0]:
        raise _fallen_behind(table, versions[0])
    return tuple(found)


def _read(io: FileIO, table: str, version: int) -> TableStatus:
    try:
        return read_version(io, table, version)
    except FileNotFoundError:
        raise _fallen_behind(table, version) from None


def _added_appends(io: FileIO, table: str, versions: range) -> tuple[PaimonSource, ...]:
    store = open_store(io, table)
    check_streamable(PaimonSource(io=io, store=store, snapshot=None))
    found = []
    for number in versions[1:]:
        try:
            snapshot = read_snapshot(io, table, number)
        except FileNotFoundError:
            raise _fallen_behind(table, number) from None
        if snapshot.commit_kind == CommitKind.APPEND:
            # Only what it added: a snapshot without a base, and without deletion vectors of rows that it did not add.
            delta = replace(snapshot, base_manifest_list="", index_manifest=None)
            found.append(PaimonSource(io=io, store=store, snapshot=delta))
        elif snapshot.commit_kind not in _NOTHING_NEW:
            raise RefusedError(
                f"{table}: snapshot {number} ({snapshot.commit_kind}) has replaced rows, and a stream gives new rows "
                f"only; begin a new stream, with starting-version {number} to leave out what was there then.",
                table=table,
            )
    return tuple(found)


def _fallen_behind(table: str, version: int) -> InvalidInputError:
    return InvalidInputError(
        f"{table}: version {version} has been cleaned, so the rows added since are no longer known; begin a new stream "
        "(a new checkpoint), and keep versions for longer than a stream pauses.",
        table=table,
    )
