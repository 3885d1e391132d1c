"""A table of any family at one version, ready to be scanned, and the rows that were added between two versions.

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

from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from packstone.errors import InvalidInputError
from packstone.tables.families import FAMILIES, find_table

if TYPE_CHECKING:
    import pyarrow as pa

    from packstone.query.scan.caches import ScanCaches
    from packstone.query.scan.plan import ScanPlan
    from packstone.query.scan.request import Selection
    from packstone.storage.fileio import FileIO

START: Final = 0  # before the first version


class ScanSource(Protocol):
    """A table at one version; a family whose rows can be scanned names such a class in its row."""

    @property
    def io(self) -> FileIO:
        """Its files."""
        ...

    @property
    def path(self) -> str:
        """The table's folder."""
        ...

    @property
    def family(self) -> str:
        """The name of the family."""
        ...

    @property
    def version(self) -> int:
        """The number of the version."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        ...

    @classmethod
    def open(cls, io: FileIO, path: str, *, version: int | None, as_of_ms: int | None) -> Self:
        """Open a table at the newest version, at one by number, or at the newest one at a moment."""
        ...

    @classmethod
    def find_added(cls, io: FileIO, path: str, versions: range) -> tuple[Self, ...]:
        """Return the sources, in order, of the rows that all versions but the first of a range added."""
        ...

    def plan(self, selection: Selection, *, caches: ScanCaches | None = None) -> ScanPlan:
        """Plan a scan."""
        ...

    def check_streamable(self) -> None:
        """Refuse a table whose changes are more than new rows."""
        ...


def open_source(io: FileIO, path: str, *, version: int | None = None, as_of_ms: int | None = None) -> ScanSource:
    """Open the table at a path at one version: the newest, one by number, or the newest at a moment."""
    if version is not None and as_of_ms is not None:
        raise InvalidInputError("Give either a version or a moment, not both.")
    kind, root = _find(io, path)
    source: ScanSource = kind.open(io, root, version=version, as_of_ms=as_of_ms)
    return source


def find_added(io: FileIO, path: str, *, after: int, upto: int) -> tuple[ScanSource, ...]:
    """Return the sources, in order, of the rows that versions ``after + 1`` to ``upto`` added."""
    if after >= upto:
        return ()
    if after == START:
        source = open_source(io, path, version=upto)
        source.check_streamable()
        return (source,)
    kind, root = _find(io, path)
    added: tuple[ScanSource, ...] = kind.find_added(io, root, range(after, upto + 1))
    return added


def _find(io: FileIO, path: str) -> tuple[Any, str]:
    """Return the class of a table's sources, and the table."""
    if io.stat(path) is None:
        raise InvalidInputError(f"{path} does not exist.", path=path)
    family, root = find_table(io, path)
    if not family.is_scanned:
        known = " nor ".join(one.singular for one in reversed(FAMILIES) if one.is_scanned)
        raise InvalidInputError(
            f"{path} is neither {known}; read a directory of files with Spark or DuckDB.", path=path
        )
    if root != path.rstrip("/"):
        raise InvalidInputError(f"{path} lies inside the table {root}; give the table.", path=path)
    return family.load_source(), root
