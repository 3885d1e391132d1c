"""Staging, journal and backup of a Hive table.

They live in the table's state folder (tables/state_folder.py)::

    .packstone/orders/
        owners/<partition>/000001.json       who works on the partition
        runs/<run>/run.json                  what the run is, and which process
        runs/<run>/heartbeat                 its time says that the process lives
        runs/<run>/<partition>~1.*.json      the journal of one swap
        deaths/                              files that were being read when a process died
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
from packstone.tables.state_folder import DEATHS_FOLDER, STATE_FOLDER, find_state_folder, is_of_namesake

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

    def is_folder_of(self, directory: str, partition: str) -> bool:
        """Whether a partition can be in this folder: its own, or one that a run of ours published for it."""
        if directory == self.directory(partition):
            return True
        run, _, below = directory.removeprefix(f"{self.versions}/").partition("/")
        inside = directory.startswith(f"{self.versions}/") and run not in {"", ".", ".."}
        whole = posixpath.basename(self.root)
        return inside and below in {partition or whole, f"{whole}/{partition}" if partition else whole}

    def version(self, run: str, partition: str) -> str:
        """Name the folder that a run publishes a partition in."""
        return f"{self.versions}/{run}/{partition or posixpath.basename(self.root)}"

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

    @property
    def deaths(self) -> str:
        """Where inputs are noted that ended a process."""
        return f"{self.state}/{DEATHS_FOLDER}"

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
    half-done swap of the other, and merge its files: rows would double. A state folder without runs holds nothing back.
    """
    _check_own_state(io, layout)
    at = posixpath.dirname(layout.root)
    while at and not is_store_root(at):
        parent, name = posixpath.split(at)
        is_beside = _has_runs(io, f"{parent.rstrip('/')}/{STATE_FOLDER}/{name}")
        if is_beside or (_has_runs(io, f"{at}/{STATE_FOLDER}/{name}") and not is_of_namesake(io, at)):
            raise RefusedError(
                f"{layout.root} lies in {at}, which packstone keeps records of as one table; give {at} itself.",
                table=at,
            )
        at = parent


def _check_own_state(io: FileIO, layout: TableLayout) -> None:
    """Refuse a table whose state can only be in its root, where that of a table of the same name already is."""
    name = posixpath.basename(layout.root)
    is_inside = layout.state == f"{layout.root}/{STATE_FOLDER}/{name}"
    if is_inside and _has_runs(io, layout.state) and is_of_namesake(io, layout.root):
        raise RefusedError(
            f"{layout.state} holds the records of the table {layout.root}/{name}, and no records can be kept beside "
            f"{layout.root}; give {layout.root}/{name}.",
            table=layout.root,
        )


def _has_runs(io: FileIO, state: str) -> bool:
    if io.stat(f"{state}/runs") is None:
        return False
    try:
        return next(iter(io.list_dir(f"{state}/runs")), None) is not None
    except OSError:
        return True  # it exists and cannot be listed: it may hold anything


def own_tables_below(io: FileIO, directory: str) -> frozenset[str]:
    """Name the folders of a directory that are tables of their own: Packstone keeps records of them beside them."""
    try:
        names = [entry.name for entry in io.list_dir(f"{directory}/{STATE_FOLDER}")]
    except OSError:
        return frozenset()
    own = posixpath.basename(directory)
    states = (name for name in names if name != own or is_of_namesake(io, directory))
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
