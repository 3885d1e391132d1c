"""Files of HDFS, by the library ``hdfs-native``: no JVM, and Spark's workers use it as the driver does.

A path is ``hdfs://nn:9000/data/t``; percent signs in it are part of the name, as for Hadoop itself. What commits are
built on is the NameNode: a rename without overwriting is atomic, exclusive and in the journal when it returns, so
names need no syncing. Bytes are synced by the DataNodes before a file is closed.

A NameNode that is away or in safe mode is waited for: by the library while nothing listens, by us while it refuses. If
it dies with a question of ours, that is asked again: to ask twice does no harm. A rename may have happened although its
answer was lost, so after an error the names are looked at.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import grp
import os
import posixpath
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from packstone.errors import InvalidInputError
from packstone.model.files import Permissions
from packstone.storage.fileio import Capabilities, Entry, Kind, check_whole_size, file_mode, folder_mode, without_group
from packstone.storage.hdfs_acl import acl_entries, acl_texts
from packstone.storage.hdfs_contact import hasty
from packstone.storage.hdfs_errors import BrokenConnectionError, as_os_errors
from packstone.storage.hdfs_kerberos import client_url
from packstone.storage.hdfs_settings import HdfsSettings, block_bytes_of, find_user
from packstone.storage.hdfs_writer import HdfsWriter
from packstone.storage.s3_reader import ObjectReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hdfs_native import Client, FileReader, FileStatus

T = TypeVar("T")

NO_QUOTA: Final = 1 << 63  # the library shows Hadoop's -1 as an unsigned number
_PLENTY: Final = 1 << 62
# While a file is open its quota pays for a whole block, however little is in it. Records are written with the smallest
# block that NameNodes allow by default; data files with the configured one.
_RECORD_BLOCK_BYTES: Final = 1 << 20
_SILENT: set[str] = set()  # where nobody answered when this process last asked, however long it waited
_MAY_WRITE: Final = 0o3  # write and enter
_WAITS_SECONDS: Final = (0.2, 0.5, 1, 2, 4, 8, 15, 15, 15)  # a NameNode leaves safe mode half a minute after its start
_BROKEN_SECONDS: Final = 60  # how long a question is asked anew whose connection broke
_ASIDE_WAITS_SECONDS: Final = (0.5, 1, 2, 4, 8)  # DataNodes come back, and NameNodes learn which have gone


@dataclass(frozen=True, slots=True)
class HdfsFileIO:
    """``FileIO`` on ``hdfs-native``; holds settings only, each process opens its own client."""

    settings: HdfsSettings
    most_mode: int = 0o644  # of new data files

    def limited(self, mode: int) -> HdfsFileIO:
        """Create files with at most this mode."""
        return HdfsFileIO(self.settings, self.most_mode & mode)

    @property
    def capabilities(self) -> Capabilities:
        """All that a commit wants."""
        return Capabilities(atomic_rename=True, create_if_absent=True, durable_write=True)

    def list_dir(self, path: str) -> Iterator[Entry]:
        """Yield entries as the NameNode sends them."""
        inside = self._inside(path)
        for found in self._ask(path, lambda client: list(client.list_status(inside))):
            if found.path == inside and not found.isdir:
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
            yield _entry(found)

    def stat(self, path: str) -> Entry | None:
        """Describe one path; above the root there is nothing."""
        if not self._is_inside(path):
            return None
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return _entry(self._info(path))
        return None

    def read_permissions(self, path: str) -> Permissions:
        """Owner, group, mode, replication and the entries of the ACL."""
        found = _entry(self._info(path)).permissions
        acl = self._ask(path, lambda client: client.get_acl_status(self._inside(path)))
        return _with_acl(found, acl_texts(acl.entries))

    def read_bytes(self, path: str) -> bytes:
        """Read a small file whole."""
        return self._ask(path, lambda client: _read_whole(client.read(self._inside(path)), path))

    def open_input(self, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Open for random reads, with read-ahead."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import, not needed to plan

        reader = self._ask(path, lambda client: client.read(self._inside(path)))

        def fetch(start: int, stop: int) -> bytes:
            with as_os_errors(path):
                return _read_range(reader, start, stop)

        return pa.PythonFile(ObjectReader(fetch, len(reader)), mode="r")

    def open_output(self, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Open a new file; it is durable when closed, and a close that fails raises."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import, not needed to plan

        return pa.PythonFile(self._create(path, overwrite=True, most=self.most_mode), mode="w")

    def write_new(self, path: str, data: bytes) -> None:
        """Write aside, then rename: the NameNode lets one of many succeed."""
        aside = self._write_aside(path, data)
        try:
            self.move(aside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(aside)
            raise

    def replace(self, path: str, data: bytes) -> None:
        """Write aside, then rename over, which is one step of the NameNode."""
        aside = self._write_aside(path, data)
        self._rename(aside, path, overwrite=True)

    def move(self, source: str, target: str) -> None:
        """Rename without replacing; a rename whose answer was lost counts as done."""
        self._rename(source, target, overwrite=False)

    def remove(self, path: str) -> None:
        """Delete one file; an absent one is fine. Nothing goes to the trash."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._ask(path, lambda client: client.delete(self._inside(path), recursive=False))

    def remove_tree(self, path: str) -> None:
        """Delete a folder of our own with all that is in it, in one step of the NameNode."""
        with contextlib.suppress(OSError):
            self._ask(path, lambda client: client.delete(self._inside(path), recursive=True))

    def remove_empty_dir(self, path: str) -> bool:
        """Delete the directory if nothing is in it."""
        try:
            self._ask(path, lambda client: client.delete(self._inside(path), recursive=False))
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def make_dirs(self, path: str, *, like: Permissions | None = None) -> None:
        """Create the directory and its ancestors, one by one: each has the mode that the one above it allows."""
        missing, at = [], path
        while (found := self.stat(at)) is None and at != self.settings.url:
            missing.append(at)
            at = posixpath.dirname(at)
        above = 0o755 if found is None else found.permissions.mode
        for folder in reversed(missing):
            above = folder_mode(above, like)
            self._make_dir(folder, above, like)
        if found is not None and found.kind is not Kind.DIRECTORY:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", at)

    def _make_dir(self, path: str, mode: int, like: Permissions | None) -> None:
        inside = self._inside(path)
        self._ask(path, lambda client: client.mkdirs(inside, permission=mode, create_parent=True))
        if like is not None:
            self._set_folder_acl(path, mode, like.attributes)
        if like is None or not like.group or without_group(mode) == mode:
            return
        now = _entry(self._info(path)).permissions  # its group is that of the folder above it
        if now.group == like.group:
            return
        try:
            self._ask(path, lambda client: client.set_owner(inside, None, like.group))
        except OSError:
            self._ask(path, lambda client: client.set_permission(inside, without_group(mode)))

    def _set_folder_acl(self, path: str, mode: int, wanted: tuple[str, ...]) -> None:
        """Replace the ACL that a new folder got from the default ACL of the one above."""
        inside = self._inside(path)
        if self._ask(path, lambda client: client.get_acl_status(inside)).entries:
            self._ask(path, lambda client: client.remove_acl(inside))
            self._ask(path, lambda client: client.set_permission(inside, mode))
        if wanted:
            entries = acl_entries(wanted, mode=mode)
            self._ask(path, lambda client: client.set_acl(inside, entries))

    def sync_dir(self, path: str) -> None:
        """Nothing to do: names are in the NameNode's journal before it answers."""

    def sync_file(self, path: str) -> None:
        """Nothing to do: files are synced before they are closed, and only their writer could."""

    def set_permissions(self, path: str, permissions: Permissions) -> None:
        """Set owner and group where they differ (that may need rights), mode, ACL and replication."""
        inside, now = self._inside(path), self.read_permissions(path)
        if (now.owner, now.group) != (permissions.owner, permissions.group):
            self._ask(path, lambda client: client.set_owner(inside, permissions.owner, permissions.group))
        if permissions.attributes:
            entries = acl_entries(permissions.attributes, mode=permissions.mode)
            self._ask(path, lambda client: client.set_acl(inside, entries))
        elif now.attributes:
            self._ask(path, lambda client: client.remove_acl(inside))
        self._ask(path, lambda client: client.set_permission(inside, permissions.mode))
        if permissions.replication not in (0, now.replication):
            self._ask(path, lambda client: client.set_replication(inside, permissions.replication))

    def free_bytes(self, path: str) -> int:
        """What the space quotas of the path's ancestors leave; how full the disks are the library cannot tell."""
        at, free = self._existing_ancestor(self._inside(path)), _PLENTY
        while at != "/":  # the root's summary walks over all there is
            free = min(free, self._free_below_quota(at))
            at = posixpath.dirname(at)
        return free

    def store_id(self, path: str) -> str:
        """Name the HDFS; encryption zones, between which a rename fails, the library cannot tell."""
        self._inside(path)
        return self.settings.url

    def may_write(self, path: str) -> bool:
        """Judge by owner, group and mode; the library cannot ask the NameNode, and a superuser is not recognised."""
        with contextlib.suppress(OSError):
            found = self._info(path)
            user = self.settings.user or find_user(os.environ)
            shift = 6 if found.owner == user else 3 if found.group in _groups() else 0
            return found.permission >> shift & _MAY_WRITE == _MAY_WRITE
        return False

    def block_bytes(self) -> int:
        """How big the blocks of new data files are, as far as the configuration tells."""
        return block_bytes_of(dict(self.settings.client))

    def read_summary(self, path: str) -> Any:  # noqa: ANN401 - the library's own type
        """Sum up a folder: length, quotas and what is consumed of them."""
        return self._ask(path, lambda client: client.get_content_summary(self._inside(path)))

    def _is_inside(self, path: str) -> bool:
        return path == self.settings.url or path.startswith(f"{self.settings.url}/")

    def _inside(self, path: str) -> str:
        if not self._is_inside(path):
            raise FileNotFoundError(errno.ENOENT, f"Not a path of {self.settings.url}", path)
        return path[len(self.settings.url) :].rstrip("/") or "/"

    def _ask(self, path: str, question: Callable[[Client], T]) -> T:
        """Ask the NameNode, again and again while it is not ready."""
        broken_until = time.monotonic() + _BROKEN_SECONDS
        for wait_seconds in (*_WAITS_SECONDS, None):
            try:
                with as_os_errors(path):
                    answer = question(_client(os.getpid(), self._mood()))
            except TimeoutError as error:
                # What hangs up on every call, as a proxy before a dead NameNode, the library has tried for long.
                is_over = self.settings.url in _SILENT or time.monotonic() > broken_until
                if is_over or wait_seconds is None or not isinstance(error, BrokenConnectionError):
                    _SILENT.add(self.settings.url)
                    raise
                time.sleep(wait_seconds)
            except BlockingIOError:  # what EAGAIN is: safe mode
                if wait_seconds is None:
                    raise
                time.sleep(wait_seconds)
            else:
                _SILENT.discard(self.settings.url)
                return answer
        raise AssertionError("the last wait raises")

    def _mood(self) -> HdfsSettings:
        """Patient, until an HDFS was waited for in vain; then few tries, so that a run that failed comes to its end."""
        return hasty(self.settings) if self.settings.url in _SILENT else self.settings

    def _info(self, path: str) -> FileStatus:
        return self._ask(path, lambda client: client.get_file_info(self._inside(path)))

    def _create(self, path: str, *, overwrite: bool, block_bytes: int | None = None, most: int = 0o644) -> HdfsWriter:
        from hdfs_native import WriteOptions  # noqa: PLC0415 - an extra

        mode = file_mode(self._info(posixpath.dirname(path)).permission, most)
        options = WriteOptions(overwrite=overwrite, create_parent=False, permission=mode, block_size=block_bytes)
        return HdfsWriter(self._ask(path, lambda client: client.create(self._inside(path), options)), path)

    def _write_aside(self, path: str, data: bytes) -> str:
        """Write under a name of its own; one that fails for want of a DataNode is written again, under another."""
        for wait_seconds in (*_ASIDE_WAITS_SECONDS, None):
            aside = f"{posixpath.dirname(path)}/.new-{os.urandom(4).hex()}"
            try:
                with self._create(aside, overwrite=False, block_bytes=_RECORD_BLOCK_BYTES) as file:
                    file.write(data)
            except (FileExistsError, TimeoutError):  # the first: our own create, whose answer was lost
                if wait_seconds is None:
                    raise
                time.sleep(wait_seconds)
            else:
                return aside
            with contextlib.suppress(OSError):
                self.remove(aside)
        raise AssertionError("the last attempt raises")

    def _rename(self, source: str, target: str, *, overwrite: bool) -> None:
        before = self._info(source)
        inside = self._inside(target)
        try:
            self._ask(source, lambda client: client.rename(self._inside(source), inside, overwrite=overwrite))
        except OSError as error:
            if source != target and self._was_moved(before, source, target):
                return
            if isinstance(error, FileExistsError):
                raise FileExistsError(errno.EEXIST, "File exists", target) from error
            if isinstance(error, NotADirectoryError):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", target) from error
            raise

    def _was_moved(self, before: FileStatus, source: str, target: str) -> bool:
        with contextlib.suppress(OSError):
            there = self._info(target)
            return self.stat(source) is None and _marks(there) == _marks(before)
        return False

    def _free_below_quota(self, inside: str) -> int:
        try:
            summary = self.read_summary(self.settings.url + inside)
        except PermissionError:  # a sum is only for who may read all that is below: also the folders of other users
            return _PLENTY
        if summary.space_quota >= NO_QUOTA:
            return _PLENTY
        # A quota counts every copy. How many a new file gets the NameNode decides; what is there tells.
        copies = max(1, -(-summary.space_consumed // summary.length)) if summary.length else 1
        return max(0, (summary.space_quota - summary.space_consumed) // copies - self.block_bytes())

    def _existing_ancestor(self, inside: str) -> str:
        at = inside
        while at != "/" and self.stat(self.settings.url + at) is None:
            at = posixpath.dirname(at)
        return at


# A forked child opens its own client. Connections to DataNodes the library keeps in a place that all clients of a
# process share, so nothing should fork after it read data; Spark's workers are forked from a process that never reads.
@functools.cache
def _client(pid: int, settings: HdfsSettings) -> Client:  # noqa: ARG001 - the key is its use
    try:
        from hdfs_native import Client  # noqa: PLC0415 - an extra
    except ImportError:
        raise InvalidInputError("hdfs: paths need hdfs-native; install it with: pip install hdfs-native") from None
    settings.act_as_user()
    return Client(client_url(settings.url, os.environ), dict(settings.client))


def _entry(found: FileStatus) -> Entry:
    return Entry(
        name=posixpath.basename(found.path),
        kind=Kind.DIRECTORY if found.isdir else Kind.FILE,
        size_bytes=found.length,
        mtime_ns=found.modification_time * 1_000_000,
        permissions=Permissions(
            mode=found.permission & 0o7777, owner=found.owner, group=found.group, replication=found.replication or 0
        ),
    )


def _with_acl(permissions: Permissions, acl: tuple[str, ...]) -> Permissions:
    return Permissions(
        mode=permissions.mode,
        owner=permissions.owner,
        group=permissions.group,
        replication=permissions.replication,
        attributes=acl,
    )


def _marks(found: FileStatus) -> tuple[object, ...]:
    """What tells one file from another; the library shows no inode number."""
    return found.isdir, found.length, found.modification_time, found.owner, found.group, found.permission


def _read_whole(reader: FileReader, path: str) -> bytes:
    check_whole_size(path, len(reader))
    return _read_range(reader, 0, None)


def _read_range(reader: Any, start: int, stop: int | None) -> bytes:  # noqa: ANN401 - the library's own type
    length = (len(reader) if stop is None else stop) - start
    return reader.read_range(start, length) if length > 0 else b""


def _groups() -> set[str]:
    names = set()
    for number in os.getgroups():
        with contextlib.suppress(KeyError):
            names.add(grp.getgrgid(number).gr_name)
    return names
