"""Staging, journal and backup of a Hive table.

They live in the table's state folder (tables/state_folder.py)::

    .packstone/orders/
        owners/<partition>/000001.json       who works on the partition
        runs/<run>/run.json                  what the run is, and which process
        runs/<run>/heartbeat                 its time says that the process lives
        runs/<run>/<partition>~1.*.json      the journal of one swap
        staging/<run>/                       specs, results and outputs before they are published
        backup/<run>/<k=v>/<name>.kept       originals, until their time is over
        unrecorded/<run>.json                runs that the history does not know yet (service/unrecorded.py)
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from packstone.errors import RefusedError
from packstone.storage.location import is_store_root
from packstone.tables.state_folder import STATE_FOLDER, find_state_folder

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

KEPT_SUFFIX = ".kept"
PLAN_PREFIX = "plan-"
_MAX_ID_CHARS = 120  # leaves room for endings below the 255 bytes a name may have
_VERSION = re.compile(r"^(?P<parent>.*)/\.packstone/(?P<name>[^/]+)/versions/[^/]+/(?P=name)$")
_PARTITION_FOLDER = re.compile(r"^[^=/]+=[^/]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """The paths of one table."""

    root: str
    state: str

    def directory(self, partition: str) -> str:
        """Name the folder of a partition; the root is partition ''."""
        return f"{self.root}/{partition}" if partition else self.root

    def name_inside(self, path: str) -> str | None:
        """Name a folder as a partition: below the table, or below a version of it that we published; None elsewhere."""
        if path == self.root:
            return ""
        if path.startswith(f"{self.root}/"):
            return path[len(self.root) + 1 :]
        if path.startswith(f"{self.versions}/"):
            return path[len(self.versions) + 1 :].partition("/")[2] or None
        return None

    @property
    def versions(self) -> str:
        """Name the folder of partitions that were published by their location."""
        return f"{self.state}/versions"

    def owners(self, partition: str) -> str:
        """Name the folder of a partition's owner files."""
        return f"{self.state}/owners/{partition_id(partition)}"

    @property
    def runs(self) -> str:
        """Name the folder of all journals."""
        return f"{self.state}/runs"

    def run(self, run: str) -> str:
        """Name the folder of one run's journal."""
        return f"{self.runs}/{run}"

    def heartbeat(self, run: str) -> str:
        """Name the file whose time says that the run lives."""
        return f"{self.run(run)}/heartbeat"

    def staging(self, run: str) -> str:
        """Name the folder of what is not published yet."""
        return f"{self.state}/staging/{run}"

    def plan_staging(self, plan: str) -> str:
        """Name the folder of what the tasks of a plan answer, which is no run."""
        return self.staging(f"{PLAN_PREFIX}{plan}")

    def backup(self, run: str, *, backup_root: str | None = None) -> str:
        """Name the folder of a run's originals."""
        if backup_root is None:
            return f"{self.state}/backup/{run}"
        return f"{backup_root}/{posixpath.basename(self.root)}/{run}"


def find_layout(io: FileIO, path: str) -> tuple[TableLayout, str]:
    """Split a target into its table and the partition in it, and find where our files live."""
    root, partition = split_target(path)
    return TableLayout(root=root, state=find_state_folder(io, root)), partition


def split_target(path: str) -> tuple[str, str]:
    """Split off the trailing ``k=v`` folders: the table is the path without them."""
    parts = path.split("/")
    cut = len(parts)
    while cut > 1 and _PARTITION_FOLDER.match(parts[cut - 1]):
        cut -= 1
    return "/".join(parts[:cut]) or "/", "/".join(parts[cut:])


def home_of(path: str) -> str:
    """The folder of a table without partitions whose location is a version that we published; else the path itself."""
    found = _VERSION.match(path)
    return path if found is None else f"{found['parent']}/{found['name']}"


def check_not_nested(io: FileIO, layout: TableLayout) -> None:
    """Refuse a folder that lies in what Packstone already keeps records of as one table.

    Owners and journals belong to a table. If ``lake`` and ``lake/orders`` were two, a run on one would not see the
    half-done swap of the other, and merge its files: rows would double.
    """
    at = layout.root
    while at and not is_store_root(at):
        parent, name = posixpath.split(at)
        places = (f"{parent.rstrip('/')}/{STATE_FOLDER}/{name}", f"{at}/{STATE_FOLDER}/{name}")
        if at != layout.root and any(io.stat(f"{place}/runs") is not None for place in places):
            raise RefusedError(
                f"{layout.root} lies in {at}, which packstone keeps records of as one table; give {at} itself, or "
                f"remove {places[0]} if it is no table any more.",
                table=at,
            )
        at = parent


def own_tables_below(io: FileIO, directory: str) -> frozenset[str]:
    """Name the folders of a directory that are tables of their own: Packstone keeps records of them beside them."""
    try:
        names = [entry.name for entry in io.list_dir(f"{directory}/{STATE_FOLDER}")]
    except OSError:
        return frozenset()
    states = (name for name in names if name != posixpath.basename(directory))
    return frozenset(name for name in states if io.stat(f"{directory}/{STATE_FOLDER}/{name}/runs") is not None)


def partition_id(partition: str) -> str:
    """Make one file name of a partition's path, readable where it can be."""
    if not partition:
        return "@table"
    name = quote(partition.encode("utf-8", "surrogateescape"), safe="=")
    if len(name) <= _MAX_ID_CHARS:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _MAX_ID_CHARS - 17]}@{digest}"
