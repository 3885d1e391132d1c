"""The paths of a Hive table: staging, journal and backup.

They live in the table's state folder (runs/state_folder.py)::

    .packstone/orders/
        owners/<partition>/000001.json       the run that owns the partition
        runs/<run>/run.json                  the run and its process
        runs/<run>/heartbeat                 its time shows that the process is alive
        runs/<run>/wave-0001.*.json          the journal of the swaps of a wave
        runs/<run>/<partition>~1.*.json      what happened to one swap since
        deaths/                              files that were being read when a process died
        staging/<run>/                       specs, results and outputs before they are published
        backup/<run>/<k=v>/<name>.kept       originals, until their retention expires
        unrecorded/<run>.json                runs that the history does not know yet (history/spool.py)
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from packstone.errors import RefusedError
from packstone.runs.state_folder import DEATHS_FOLDER, STATE_FOLDER, find_state_folder, is_of_namesake
from packstone.storage.location import is_store_root

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

KEPT_SUFFIX = ".kept"
PLAN_PREFIX = "plan-"
_MAX_ID_CHARS = 120  # leaves room for endings below the 255 bytes a name may have
_VERSION = re.compile(r"^(?P<parent>.*)/\.packstone/(?P<name>[^/]+)/versions/[^/]+/(?P=name)$")
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")
_PARTITION_FOLDER = re.compile(r"^[^=/]+=[^/]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """The paths of one table."""

    root: str
    state: str

    def directory(self, partition: str) -> str:
        """Return the folder of a partition; the root is partition ''."""
        return f"{self.root}/{partition}" if partition else self.root

    def name_inside(self, path: str) -> str | None:
        """Return the partition of a folder below the table, or below a version of it that we published; else None."""
        if path == self.root:
            return ""
        if path.startswith(f"{self.root}/"):
            return path[len(self.root) + 1 :]
        if path.startswith(f"{self.versions}/"):
            return path[len(self.versions) + 1 :].partition("/")[2] or None
        return None

    def is_folder_of(self, directory: str, partition: str) -> bool:
        """Whether a partition can be in this folder: its own, or one that one of our runs published for it."""
        if directory == self.directory(partition):
            return True
        run, _, below = directory.removeprefix(f"{self.versions}/").partition("/")
        inside = directory.startswith(f"{self.versions}/") and run not in {"", ".", ".."}
        whole = posixpath.basename(self.root)
        return inside and below in {partition or whole, f"{whole}/{partition}" if partition else whole}

    def version(self, run: str, partition: str) -> str:
        """Return the folder in which a run publishes a partition."""
        return f"{self.versions}/{run}/{partition or posixpath.basename(self.root)}"

    @property
    def versions(self) -> str:
        """The folder of partitions that were published by location."""
        return f"{self.state}/versions"

    def owners(self, partition: str) -> str:
        """Return the folder of a partition's owner files."""
        return f"{self.state}/owners/{partition_id(partition)}"

    @property
    def runs(self) -> str:
        """The folder of all journals."""
        return f"{self.state}/runs"

    def run(self, run: str) -> str:
        """Return the folder of one run's journal."""
        return f"{self.runs}/{run}"

    def heartbeat(self, run: str) -> str:
        """Return the file whose time shows that the run is alive."""
        return f"{self.run(run)}/heartbeat"

    def staging(self, run: str) -> str:
        """Return the folder of a run's unpublished files."""
        return f"{self.state}/staging/{run}"

    @property
    def deaths(self) -> str:
        """The folder that records inputs whose reading killed a process."""
        return f"{self.state}/{DEATHS_FOLDER}"

    def backup(self, run: str, *, backup_root: str | None = None) -> str:
        """Return the folder of a run's originals."""
        if backup_root is None:
            return f"{self.state}/backup/{run}"
        return f"{backup_root}/{posixpath.basename(self.root)}/{run}"


def find_layout(io: FileIO, path: str) -> tuple[TableLayout, str]:
    """Split a target into its table and partition, and find the table's state folder."""
    root, partition = split_target(path)
    return TableLayout(root=root, state=find_state_folder(io, root)), partition


def split_target(path: str) -> tuple[str, str]:
    """Split off the trailing ``k=v`` folders: the table is the path without them."""
    parts = path.split("/")
    cut = len(parts)
    while cut > 1 and _PARTITION_FOLDER.match(parts[cut - 1]):
        cut -= 1
    return "/".join(parts[:cut]) or "/", "/".join(parts[cut:])


def table_of_version(path: str) -> str:
    """Return the table's folder if the path is a published version of an unpartitioned table, else the path itself."""
    found = _VERSION.match(path)
    return path if found is None else f"{found['parent']}/{found['name']}"


def check_not_nested(io: FileIO, layout: TableLayout) -> None:
    """Refuse a folder inside another folder that Packstone already keeps records of as one table.

    Owners and journals belong to a table. If ``lake`` and ``lake/orders`` were two tables, a run on one would not see
    the half-done swap of the other, and would merge its files: rows would double. A state folder without runs does not
    count.
    """
    _check_own_state(io, layout)
    at = posixpath.dirname(layout.root)
    while at and not is_store_root(at):
        parent, name = posixpath.split(at)
        is_beside = has_runs(io, f"{parent.rstrip('/')}/{STATE_FOLDER}/{name}")
        if is_beside or (has_runs(io, f"{at}/{STATE_FOLDER}/{name}") and not is_of_namesake(io, at)):
            raise RefusedError(
                f"{layout.root} lies in {at}, which packstone keeps records of as one table; give {at} itself.",
                table=at,
            )
        at = parent


def _check_own_state(io: FileIO, layout: TableLayout) -> None:
    """Refuse a table whose state folder must be in its root, where a table of the same name already has its own."""
    name = posixpath.basename(layout.root)
    is_inside = layout.state == f"{layout.root}/{STATE_FOLDER}/{name}"
    if is_inside and has_runs(io, layout.state) and is_of_namesake(io, layout.root):
        raise RefusedError(
            f"{layout.state} holds the records of the table {layout.root}/{name}, and no records can be kept beside "
            f"{layout.root}; give {layout.root}/{name}.",
            table=layout.root,
        )


def has_runs(io: FileIO, state: str) -> bool:
    """Whether a state folder holds records of runs."""
    if io.stat(f"{state}/runs") is None:
        return False
    try:
        return next(iter(io.list_dir(f"{state}/runs")), None) is not None
    except OSError:
        return True  # it exists and cannot be listed: it may hold anything


def own_tables_below(io: FileIO, directory: str) -> frozenset[str]:
    """Return the subfolders that are separate tables: Packstone keeps records of them in this directory."""
    try:
        names = [entry.name for entry in io.list_dir(f"{directory}/{STATE_FOLDER}")]
    except OSError:
        return frozenset()
    own = posixpath.basename(directory)
    states = (name for name in names if name != own or is_of_namesake(io, directory))
    return frozenset(name for name in states if io.stat(f"{directory}/{STATE_FOLDER}/{name}/runs") is not None)


def partition_id(partition: str) -> str:
    """Return a file name for a partition's path, readable as far as possible."""
    if not partition:
        return "@table"
    name = quote(partition.encode("utf-8", "surrogateescape"), safe="=")
    if len(name) <= _MAX_ID_CHARS:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _MAX_ID_CHARS - 17]}@{digest}"


def parse_partition(partition: str) -> dict[str, str | None]:
    """Parse columns and values from a partition's path; folders without ``=`` have none."""
    values: dict[str, str | None] = {}
    for folder in partition.split("/"):
        column, equals, value = folder.partition("=")
        if equals and column:
            values[unescape(column)] = None if value == NULL_PARTITION else unescape(value)
    return values


def unescape(text: str) -> str:
    """Undo Hive's escaping of path names: ``%3A`` is a colon; a lone percent sign stays."""
    if "%" not in text:
        return text
    raw = _ESCAPED.sub(lambda m: chr(int(m.group(1), 16)), text)
    try:  # Hive escapes single bytes of ASCII; other writers escape the bytes of UTF-8
        return raw.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return raw
