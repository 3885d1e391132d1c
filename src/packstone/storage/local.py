"""Files of this machine (and of whatever is mounted on it)."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat as stat_bits
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from packstone.model.files import Permissions
from packstone.storage.fileio import Capabilities, Entry, Kind
from packstone.storage.local_attributes import read_attributes, set_attributes

if TYPE_CHECKING:
    from collections.abc import Iterator

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
# File systems without the flag (some network mounts) answer one of these; link + unlink does it there.
_NO_SUCH_FLAG = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_MAKE_DIRS_ATTEMPTS = 20


class LocalFileIO:
    """``FileIO`` on the operating system's own calls."""

    capabilities = Capabilities(atomic_rename=True, create_if_absent=True, durable_write=True)

    def list_dir(self, path: str) -> Iterator[Entry]:
        """Yield entries with one stat each; links are named, not followed."""
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # removed since the listing began
                    continue
                yield _entry(entry.name, found)

    def stat(self, path: str) -> Entry | None:
        """Describe one path without following a link."""
        try:
            return _entry(os.path.basename(path), os.lstat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_permissions(self, path: str) -> Permissions:
        """Owner, group, mode, the ACL and the user's extended attributes."""
        found = _entry(os.path.basename(path), os.lstat(path)).permissions
        return replace(found, attributes=read_attributes(path))

    def read_bytes(self, path: str) -> bytes:
        """Read a small file whole."""
        with open(path, "rb") as file:
            return file.read()

    def open_input(self, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Open with pyarrow, whose readers then work without the interpreter's lock."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import, not needed to plan

        return pa.OSFile(os.fsencode(path), "r")  # a name need not be text

    def open_output(self, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Open a new file with pyarrow."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import, not needed to plan

        return pa.OSFile(os.fsencode(path), "wb")

    def write_new(self, path: str, data: bytes) -> None:
        """Write aside, then link: the name appears once, with whole and durable content."""
        aside = _write_aside(path, data)
        try:
            os.link(aside, path)
        finally:
            os.unlink(aside)
        self.sync_dir(os.path.dirname(path))

    def replace(self, path: str, data: bytes) -> None:
        """Write aside, then rename over."""
        aside = _write_aside(path, data)
        os.rename(aside, path)
        self.sync_dir(os.path.dirname(path))

    def move(self, source: str, target: str) -> None:
        """Rename without replacing, in one system call where the file system can."""
        failed = _rename_noreplace(source, target)
        if failed in _NO_SUCH_FLAG:
            _link_and_unlink(source, target)
        elif failed == errno.EEXIST and _are_one_file(source, target):
            os.unlink(source)  # a move by link and unlink was cut between the two
        elif failed:
            raise OSError(failed, os.strerror(failed), source, None, target)

    def remove(self, path: str) -> None:
        """Unlink; an absent file is fine."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        """Remove a folder of our own; files that vanish meanwhile are fine."""
        shutil.rmtree(path, ignore_errors=True)

    def remove_empty_dir(self, path: str) -> bool:
        """Remove the directory if nothing is in it."""
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def make_dirs(self, path: str) -> None:
        """Create the missing ancestors and make each new name durable in its parent."""
        missing = []
        at = path
        while not os.path.isdir(at):
            missing.append(at)
            at = os.path.dirname(at)
        _make_dirs(path)
        for made in reversed(missing):
            self.sync_dir(os.path.dirname(made))

    def sync_dir(self, path: str) -> None:
        """Fsync the directory."""
        _fsync(path, os.O_RDONLY | os.O_DIRECTORY)

    def sync_file(self, path: str) -> None:
        """Fsync the file."""
        _fsync(path, os.O_RDONLY)

    def set_permissions(self, path: str, permissions: Permissions) -> None:
        """Set owner and group where they differ (that may need rights), then mode, ACL and extended attributes."""
        now = os.lstat(path)
        if (now.st_uid, now.st_gid) != (permissions.uid, permissions.gid):
            os.chown(path, permissions.uid, permissions.gid)
        os.chmod(path, permissions.mode)
        set_attributes(path, permissions.attributes)

    def free_bytes(self, path: str) -> int:
        """What an unprivileged user may still write."""
        return shutil.disk_usage(_existing_ancestor(path)).free

    def store_id(self, path: str) -> str:
        """Name the device: renames stay within one."""
        return f"dev{os.stat(_existing_ancestor(path)).st_dev}"

    def may_write(self, path: str) -> bool:
        """Ask the kernel."""
        return os.access(path, os.W_OK | os.X_OK)


def _entry(name: str, found: os.stat_result) -> Entry:
    return Entry(
        name=name,
        kind=_kind(found.st_mode),
        size_bytes=found.st_size,
        mtime_ns=found.st_mtime_ns,
        permissions=Permissions(uid=found.st_uid, gid=found.st_gid, mode=stat_bits.S_IMODE(found.st_mode)),
    )


def _kind(mode: int) -> Kind:
    if stat_bits.S_ISREG(mode):
        return Kind.FILE
    if stat_bits.S_ISDIR(mode):
        return Kind.DIRECTORY
    return Kind.LINK if stat_bits.S_ISLNK(mode) else Kind.OTHER


def _write_aside(path: str, data: bytes) -> str:
    handle, aside = tempfile.mkstemp(prefix=".new-", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), 0o644)  # records are for everybody who may see the table
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(aside)
        raise
    return aside


def _make_dirs(path: str) -> None:
    for _ in range(_MAKE_DIRS_ATTEMPTS):
        try:
            os.makedirs(path, exist_ok=True)
        except FileNotFoundError:  # another run, at its end, removed an ancestor that was still empty
            continue
        return
    os.makedirs(path, exist_ok=True)


def _rename_noreplace(source: str, target: str) -> int:
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # an older C library, another system
        return errno.ENOSYS
    done = call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE)
    return ctypes.get_errno() if done else 0


def _link_and_unlink(source: str, target: str) -> None:
    """Rename by two steps; killed between them, the file has two names, which a second call mends."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        if not _are_one_file(source, target):
            raise
    os.unlink(source)


def _are_one_file(source: str, target: str) -> bool:
    """Whether these are two names of one file; one name given twice is not."""
    if os.path.normpath(source) == os.path.normpath(target):
        return False
    try:
        return os.path.samestat(os.lstat(source), os.lstat(target))
    except FileNotFoundError:
        return False


def _fsync(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _existing_ancestor(path: str) -> str:
    at = path
    while not os.path.exists(at):
        at = os.path.dirname(at)
    return at
