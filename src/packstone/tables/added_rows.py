"""What was added to a table between two versions, for streams: the rows of each load or append, once.

=====================  ===============================  =====================================================
                       segment table                    Paimon table without primary key
=====================  ===============================  =====================================================
gives rows             a load, an overwrite             an APPEND snapshot
gives none             compactions, deletes, clean      COMPACT and ANALYZE snapshots
stops the stream       a version in between is cleaned  a snapshot in between has expired; OVERWRITE
=====================  ===============================  =====================================================

Two versions do not tell what came between them: a load may be merged with older segments before anybody looks. So every
version in between is looked at, and the files of a load are read from its own segment file, which stays as long as its
version does. A stream that starts at version 0 begins with all rows of the version that is the newest then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError, RefusedError
from packstone.tables.paimon.snapshot import CommitKind
from packstone.tables.paimon.snapshot_files import read_snapshot
from packstone.tables.paimon.store import open_store
from packstone.tables.probe import Family, find_table
from packstone.tables.scan_source import PaimonSource, ScanSource, SegmentSource, open_source
from packstone.tables.segments.status_files import read_floor, read_version

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO
    from packstone.tables.segments.status import TableStatus

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
    """Sources that together hold the rows that versions ``after + 1`` to ``upto`` have added, in order."""
    if after >= upto:
        return ()
    if after == START:
        source = open_source(io, path, version=upto)
        check_streamable(source)
        return (source,)
    family, root = find_table(io, path)
    find = _added_loads if family is Family.SEGMENTS else _added_appends
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
            # Only what it added: a snapshot without a base, and without marks on rows that it did not add.
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
        f"{table}: version {version} is cleaned, so what was added since cannot be told any more; begin a new stream "
        "(a new checkpoint), and keep versions for longer than a stream stands still.",
        table=table,
    )
