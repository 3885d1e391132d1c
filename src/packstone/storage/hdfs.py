"""``FileIO`` on HDFS, with the library ``hdfs-native``: it needs no JVM, and works in Spark's workers as in the driver.

A path is ``hdfs://nn:9000/data/t``; percent signs in it are part of the name, as in Hadoop itself. Commits rely on the
NameNode: a rename without overwriting is atomic, exclusive and in the journal when it returns, so names need no sync.
The DataNodes sync the bytes before a file is closed.

If the NameNode is down or in safe mode, calls wait: the library retries while nothing listens, this module while the
NameNode refuses. If it dies during a request, the request is repeated, which is harmless. A rename may have happened
although its response was lost, so after an error both names are checked.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import grp
import os
import posixpath
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from packstone.errors import InvalidInputError
from packstone.model.files import Permissions
from packstone.storage.fileio import (
    Capabilities,
    Entry,
    EntryKind,
    WriteOnly,
    check_whole_size,
    file_mode,
    folder_mode,
    incomplete_path,
    without_group,
)
from packstone.storage.hdfs_connection import (
    BrokenConnectionError,
    DataNodesError,
    HdfsSettings,
    as_os_errors,
    block_bytes_of,
    client_url,
    find_user,
    with_few_retries,
)
from packstone.storage.s3_streams import ObjectReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hdfs_native import AclEntry, Client, FileReader, FileStatus, FileWriter

T = TypeVar("T")

NO_QUOTA: Final = 1 << 63  # the library returns Hadoop's -1 as an unsigned number
_PLENTY: Final = 1 << 62
# While a file is open, a whole block counts against the quota, however small the file is. Records are written with the
# smallest block size that NameNodes allow by default; data files with the configured one.
_RECORD_BLOCK_BYTES: Final = 1 << 20
_UNREACHABLE: set[str] = set()  # HDFS addresses that did not respond when this process last waited for them
_MAY_WRITE: Final = 0o3  # write and enter
_WAITS_SECONDS: Final = (0.2, 0.5, 1, 2, 4, 8, 15, 15, 15)  # a NameNode leaves safe mode half a minute after its start
_BROKEN_SECONDS: Final = 60  # how long a request is repeated whose connection broke
_ASIDE_WAITS_SECONDS: Final = (0.5, 1, 2, 4, 8)  # DataNodes come back, and NameNodes notice which are down
_ACKNOWLEDGED_SECONDS: Final = 75  # what Hadoop's own client waits for a pipeline of three DataNodes


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
        """Everything that a commit needs."""
        return Capabilities(atomic_rename=True, create_if_absent=True)

    def list_dir(self, path: str) -> Iterator[Entry]:
        """Yield entries as the NameNode sends them."""
        inside = self._inside(path)
        for found in self._ask(path, lambda client: list(client.list_status(inside))):
            if found.path == inside and not found.isdir:
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
            yield _entry(found)

    def stat(self, path: str) -> Entry | None:
        """Describe one path; nothing exists above the root."""
        if not self._is_inside(path):
            return None
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return _entry(self._info(path))
        return None

    def read_permissions(self, path: str) -> Permissions:
        """Return owner, group, mode, replication and the entries of the ACL."""
        found = _entry(self._info(path)).permissions
        acl = self._ask(path, lambda client: client.get_acl_status(self._inside(path)))
        return _with_acl(found, acl_texts(acl.entries))

    def read_bytes(self, path: str) -> bytes:
        """Read a small file completely."""
        return self._ask(path, lambda client: _read_whole(client.read(self._inside(path)), path))

    def open_input(self, path: str) -> Any:
        """Open for random reads, with read-ahead."""
        import pyarrow as pa  # slow to import, not needed to plan

        reader = self._ask(path, lambda client: client.read(self._inside(path)))

        def fetch(start: int, stop: int) -> bytes:
            with as_os_errors(path):
                return _read_range(reader, start, stop)

        return pa.PythonFile(ObjectReader(fetch, len(reader)), mode="r")

    def open_output(self, path: str) -> Any:
        """Open a new file; it is durable when closed, and a close that fails raises."""
        import pyarrow as pa  # slow to import, not needed to plan

        return pa.PythonFile(self._create(path, overwrite=True, most=self.most_mode), mode="w")

    def write_new(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write a temporary file, then rename it: the NameNode lets one of many writers succeed."""
        aside = self._write_aside(path, data)
        try:
            self.move(aside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(aside)
            raise

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write a temporary file, then rename it over the target, which is one step of the NameNode."""
        aside = self._write_aside(path, data)
        self._rename(aside, path, overwrite=True)

    def move(self, source: str, target: str) -> None:
        """Rename without replacing; a rename that happened but whose response was lost counts as done."""
        self._rename(source, target, overwrite=False)

    def remove(self, path: str) -> None:
        """Delete one file, which may be absent; bypasses the trash."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._ask(path, lambda client: client.delete(self._inside(path), recursive=False))

    def remove_tree(self, path: str) -> None:
        """Delete a folder of our own with its content, in one step of the NameNode."""
        with contextlib.suppress(OSError):
            self._ask(path, lambda client: client.delete(self._inside(path), recursive=True))

    def remove_empty_dir(self, path: str) -> bool:
        """Delete the directory if it is empty."""
        try:
            self._ask(path, lambda client: client.delete(self._inside(path), recursive=False))
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def make_dirs(self, path: str, *, like: Permissions | None = None, durable: bool = True) -> None:
        """Create the directory and its ancestors, one by one: each gets the mode that its parent allows."""
        missing, at = [], path
        while (found := self.stat(at)) is None and at != self.settings.url:
            missing.append(at)
            at = posixpath.dirname(at)
        above = 0o755 if found is None else found.permissions.mode
        for folder in reversed(missing):
            above = folder_mode(above, like)
            self._make_dir(folder, above, like)
        if found is not None and found.kind is not EntryKind.DIRECTORY:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", at)

    def _make_dir(self, path: str, mode: int, like: Permissions | None) -> None:
        inside = self._inside(path)
        self._ask(path, lambda client: client.mkdirs(inside, permission=mode, create_parent=True))
        if like is not None:
            self._set_folder_acl(path, mode, like.attributes)
        if like is None or not like.group or without_group(mode) == mode:
            return
        now = _entry(self._info(path)).permissions  # HDFS gives it the group of its parent
        if now.group == like.group:
            return
        try:
            self._ask(path, lambda client: client.set_owner(inside, None, like.group))
        except OSError:
            self._ask(path, lambda client: client.set_permission(inside, without_group(mode)))

    def _set_folder_acl(self, path: str, mode: int, wanted: tuple[str, ...]) -> None:
        """Replace the ACL that a new folder inherited from the default ACL of its parent."""
        inside = self._inside(path)
        if self._ask(path, lambda client: client.get_acl_status(inside)).entries:
            self._ask(path, lambda client: client.remove_acl(inside))
            self._ask(path, lambda client: client.set_permission(inside, mode))
        if wanted:
            entries = acl_entries(wanted, mode=mode)
            self._ask(path, lambda client: client.set_acl(inside, entries))

    def sync_dir(self, path: str) -> None:
        """Do nothing: names are in the NameNode's journal before it responds."""

    def sync_file(self, path: str) -> None:
        """Do nothing: files are synced before they are closed, and only their writer can sync them."""

    def set_permissions(self, path: str, permissions: Permissions) -> None:
        """Set owner and group where they differ (which may need privileges), mode, ACL and replication."""
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
        """The space that the quotas of the path's ancestors leave; the library cannot report the free disk space."""
        at, free = self._existing_ancestor(self._inside(path)), _PLENTY
        while at != "/":  # the summary of the root walks the whole tree
            free = min(free, self._free_below_quota(at))
            at = posixpath.dirname(at)
        return free

    def store_id(self, path: str) -> str:
        """Return the id of the HDFS; the library does not report encryption zones, between which a rename fails."""
        self._inside(path)
        return self.settings.url

    def may_write(self, path: str) -> bool:
        """Decide by owner, group and mode; the library cannot ask the NameNode, and a superuser is not recognised."""
        with contextlib.suppress(OSError):
            found = self._info(path)
            user = self.settings.user or find_user(os.environ)
            shift = 6 if found.owner == user else 3 if found.group in _groups() else 0
            return found.permission >> shift & _MAY_WRITE == _MAY_WRITE
        return False

    def why_not_replace(self, directory: str, permissions: Permissions) -> str:
        """Return nothing: a superuser may do everything and is not recognised."""
        return ""

    def block_bytes(self) -> int:
        """The block size of new data files, from the configuration."""
        return block_bytes_of(dict(self.settings.client))

    def read_summary(self, path: str) -> Any:
        """Return the content summary of a folder: length, quotas and their use."""
        return self._ask(path, lambda client: client.get_content_summary(self._inside(path)))

    def _is_inside(self, path: str) -> bool:
        return path == self.settings.url or path.startswith(f"{self.settings.url}/")

    def _inside(self, path: str) -> str:
        if not self._is_inside(path):
            raise FileNotFoundError(errno.ENOENT, f"Not a path of {self.settings.url}", path)
        return path[len(self.settings.url) :].rstrip("/") or "/"

    def _ask(self, path: str, request: Callable[[Client], T]) -> T:
        """Send a request to the NameNode; repeats it while the NameNode is not ready."""
        broken_until = time.monotonic() + _BROKEN_SECONDS
        for wait_seconds in (*_WAITS_SECONDS, None):
            try:
                with as_os_errors(path):
                    response = request(_client(os.getpid(), self._retry_settings()))
            except TimeoutError as error:
                # Give up if every call is disconnected, as by a proxy in front of a dead NameNode.
                is_expired = self.settings.url in _UNREACHABLE or time.monotonic() > broken_until
                if is_expired or wait_seconds is None or not isinstance(error, BrokenConnectionError):
                    _UNREACHABLE.add(self.settings.url)
                    raise
                time.sleep(wait_seconds)
            except BlockingIOError:  # EAGAIN: safe mode
                if wait_seconds is None:
                    raise
                time.sleep(wait_seconds)
            else:
                _UNREACHABLE.discard(self.settings.url)
                return response
        raise AssertionError("the last wait raises")

    def _retry_settings(self) -> HdfsSettings:
        """Settings with many retries; with few after this HDFS was unreachable, so that a failed run can end soon."""
        return with_few_retries(self.settings) if self.settings.url in _UNREACHABLE else self.settings

    def _info(self, path: str) -> FileStatus:
        return self._ask(path, lambda client: client.get_file_info(self._inside(path)))

    def _create(self, path: str, *, overwrite: bool, block_bytes: int | None = None, most: int = 0o644) -> HdfsWriter:
        from hdfs_native import WriteOptions  # an extra

        mode = file_mode(self._info(posixpath.dirname(path)).permission, most)
        options = WriteOptions(overwrite=overwrite, create_parent=False, permission=mode, block_size=block_bytes)
        return HdfsWriter(self._ask(path, lambda client: client.create(self._inside(path), options)), path)

    def _write_aside(self, path: str, data: bytes) -> str:
        """Write a temporary file; if no DataNode is available, or one dies meanwhile, retry under another name."""
        for wait_seconds in (*_ASIDE_WAITS_SECONDS, None):
            aside = incomplete_path(path)
            try:
                with self._create(aside, overwrite=False, block_bytes=_RECORD_BLOCK_BYTES) as file:
                    file.write(data)
            except (FileExistsError, TimeoutError, DataNodesError):  # the first: our own create, its response was lost
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
        except PermissionError:  # a summary needs read access to everything below, including other users' folders
            return _PLENTY
        if summary.space_quota >= NO_QUOTA:
            return _PLENTY
        # A quota counts every replica. The NameNode decides how many a new file gets; existing files show it.
        copies = max(1, -(-summary.space_consumed // summary.length)) if summary.length else 1
        return max(0, (summary.space_quota - summary.space_consumed) // copies - self.block_bytes())

    def _existing_ancestor(self, inside: str) -> str:
        at = inside
        while at != "/" and self.stat(self.settings.url + at) is None:
            at = posixpath.dirname(at)
        return at


# A forked child opens its own client. The library keeps connections to DataNodes in a pool that all clients of a
# process share, so a process must not fork after it read data; Spark's workers are forked from one that never reads.
@functools.cache
def _client(pid: int, settings: HdfsSettings) -> Client:  # noqa: ARG001 - the key is its use
    try:
        from hdfs_native import Client  # an extra
    except ImportError:
        raise InvalidInputError("hdfs: paths need hdfs-native; install it with: pip install hdfs-native") from None
    settings.act_as_user()
    return Client(client_url(settings.url, os.environ), dict(settings.client))


def _entry(found: FileStatus) -> Entry:
    return Entry(
        name=posixpath.basename(found.path),
        kind=EntryKind.DIRECTORY if found.isdir else EntryKind.FILE,
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
    """The facts that identify a file; the library does not report an inode number."""
    return found.isdir, found.length, found.modification_time, found.owner, found.group, found.permission


def _read_whole(reader: FileReader, path: str) -> bytes:
    check_whole_size(path, len(reader))
    return _read_range(reader, 0, None)


def _read_range(reader: Any, start: int, stop: int | None) -> bytes:
    length = (len(reader) if stop is None else stop) - start
    return reader.read_range(start, length) if length > 0 else b""


def _groups() -> set[str]:
    names = set()
    for number in os.getgroups():
        with contextlib.suppress(KeyError):
            names.add(grp.getgrgid(number).gr_name)
    return names


# ---- ACL entries as text, in the format of ``hdfs dfs -getfacl``: ``user:joe:rwx`` ----


_LETTERS: Final = "rwx"


def acl_texts(entries: Iterable[AclEntry]) -> tuple[str, ...]:
    """Return the entries of a file's ACL as text, without those that the mode contains."""
    return tuple(sorted(f"{e.type}:{e.name or ''}:{e.permissions}" for e in entries if e.scope == "access"))


def acl_entries(texts: Iterable[str], *, mode: int) -> list[AclEntry]:
    """Return the complete ACL: the entries, and owner, mask and others from the mode."""
    from hdfs_native import AclEntry  # an extra

    # With an ACL the group bits of the mode hold the mask, and the group has an entry of its own.
    bits: Any = (("user", mode >> 6), ("mask", mode >> 3), ("other", mode))
    whole = [AclEntry(kind, "access", _action(number & 0o7)) for kind, number in bits]
    for text in texts:
        kind, name, action = cast("Any", text.split(":", 2))  # the literals that the library expects
        whole.append(AclEntry(kind, "access", action, name or None))
    return whole


def _action(bits: int) -> Any:
    return "".join(letter if bits >> (2 - at) & 1 else "-" for at, letter in enumerate(_LETTERS))


_PIECE_BYTES: Final = 1 << 20


class HdfsWriter(WriteOnly):
    """A file object for ``pyarrow.PythonFile`` that sends big pieces; ``close`` raises unless every byte is durable.

    The library waits for a DataNode without a limit: for ever, if that died while this process slept. So each of its
    calls is made by a thread, which is left behind if there is no answer.
    """

    def __init__(self, writer: FileWriter, path: str) -> None:
        self._writer, self._path = writer, path
        self._kept = bytearray()
        self._written = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        """Buffer bytes; sends them when there are enough."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        self._kept += data
        if len(self._kept) >= _PIECE_BYTES:
            self._send()
        return len(data)

    def tell(self) -> int:
        """The number of bytes written so far."""
        return self._written + len(self._kept)

    def flush(self) -> None:
        """Do nothing: readers see a file when it is closed."""

    def close(self) -> None:
        """Send the rest, let the DataNodes write it to disk, and close the file on the NameNode."""
        if self.closed:
            return
        self.closed = True
        self._send()
        with as_os_errors(self._path):
            if self._written:
                self._sync()
            self._call(self._writer.close)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self) -> None:
        if self._kept:
            with as_os_errors(self._path):
                self._call(functools.partial(self._writer.write, bytes(self._kept)))
            self._written += len(self._kept)
            self._kept = bytearray()

    def _sync(self) -> None:
        try:
            self._call(self._writer.hsync)
        except RuntimeError as error:
            if "unsupported" not in str(error).lower():  # erasure-coded files can only be closed
                raise

    def _call(self, call: Callable[[], object]) -> None:
        """Make a call of the library; DataNodesError if it does not return in time."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - raised by the caller
                raised.append(error)

        thread = threading.Thread(target=run, name="packstone-hdfs", daemon=True)
        thread.start()
        thread.join(_ACKNOWLEDGED_SECONDS)
        if thread.is_alive():
            self.closed = True  # the library's object is still in use
            why = f"the DataNodes have not acknowledged what was written for {_ACKNOWLEDGED_SECONDS} s"
            raise DataNodesError(errno.ETIMEDOUT, why, self._path)
        if raised:
            raise raised[0]
