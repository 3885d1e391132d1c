"""Files of this machine (and of whatever is mounted on it)."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import errno
import os
import shutil
import stat as stat_bits
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from packstone.errors import CorruptionError
from packstone.model.files import Permissions
from packstone.storage.fileio import (
    MAX_WHOLE_BYTES,
    PRIVATE,
    Capabilities,
    Entry,
    Kind,
    check_whole_size,
    file_mode,
    folder_mode,
    without_group,
)
from packstone.storage.local_attributes import find_acl, inherits_acl, read_attributes, set_attributes, set_folder_acl

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
    most_mode = 0o644  # of new data files

    def limited(self, mode: int) -> Self:
        """Create files with at most this mode."""
        limited = copy.copy(self)
        limited.most_mode = self.most_mode & mode
        return limited

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
        with os.fdopen(_open_file(path), "rb") as file:
            data = file.read(MAX_WHOLE_BYTES + 1)  # files of /proc have no size
        check_whole_size(path, len(data))
        return data

    def open_input(self, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Open with pyarrow, whose readers then work without the interpreter's lock."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import, not needed to plan

        return pa.OSFile(os.fsencode(path), "r")  # a name need not be text

    def open_output(self, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Open a new file with pyarrow, which knows no modes: so it is made first."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import, not needed to plan

        folder = os.stat(os.path.dirname(path))
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, file_mode(folder.st_mode, self.most_mode))
        try:
            _give(handle, folder.st_uid, folder.st_gid)
        finally:
            os.close(handle)
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
        with contextlib.suppress(RecursionError):  # folders of others, hundreds deep: like all that cannot be removed
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

    def make_dirs(self, path: str, *, like: Permissions | None = None) -> None:
        """Create the missing ancestors and make each new name durable in its parent."""
        for _ in range(_MAKE_DIRS_ATTEMPTS):
            try:
                self._make_dirs(path, like)
            except FileNotFoundError:  # another run, at its end, removed an ancestor that was still empty
                continue
            return
        self._make_dirs(path, like)

    def _make_dirs(self, path: str, like: Permissions | None) -> None:
        missing = []
        at = path
        while not os.path.isdir(at):
            missing.append(at)
            at = os.path.dirname(at)
        made = [folder for folder in reversed(missing) if _make_dir(folder, like)]
        for folder in made:
            above = os.path.dirname(folder)
            _give_folder(folder, os.stat(above), like)
            self.sync_dir(above)

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


def _open_file(path: str) -> int:
    """Open a file to read it whole, without waiting: a FIFO waits for a writer, and a device may never end."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise CorruptionError(f"{path} should be a file, and is a socket or a device.", path=path) from error
        raise
    try:
        _check_whole_file(path, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check_whole_file(path: str, found: os.stat_result) -> None:
    if not stat_bits.S_ISREG(found.st_mode):
        kind = "folder" if stat_bits.S_ISDIR(found.st_mode) else "pipe or a device"
        raise CorruptionError(f"{path} should be a file, and is a {kind}.", path=path)
    check_whole_size(path, found.st_size)


def _entry(name: str, found: os.stat_result) -> Entry:
    return Entry(
        name=name,
        kind=_kind(found.st_mode),
        size_bytes=found.st_size,
        mtime_ns=found.st_mtime_ns,
        permissions=Permissions(uid=found.st_uid, gid=found.st_gid, mode=stat_bits.S_IMODE(found.st_mode)),
        identity=(found.st_dev, found.st_ino),
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
            folder = os.stat(os.path.dirname(path))
            os.fchmod(file.fileno(), file_mode(folder.st_mode))  # for everybody who may enter the folder
            _give(file.fileno(), folder.st_uid, folder.st_gid)
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(aside)
        raise
    return aside


def _make_dir(path: str, like: Permissions | None) -> bool:
    """Make one folder; False if another run did.

    With ``like`` it has that ACL and no other: a default ACL of the folder above may name users who must not enter. It
    is closed until then, which makes inherited entries void.
    """
    above = os.path.dirname(path)
    mode = folder_mode(os.stat(above).st_mode, like)
    acl = find_acl(like.attributes) if like is not None else None
    is_closed = like is not None and (acl is not None or inherits_acl(above))
    try:
        os.mkdir(path, PRIVATE.mode if is_closed else mode)
        if is_closed:
            set_folder_acl(path, acl)
            os.chmod(path, mode)  # where there is an ACL, this limits its mask
    except FileExistsError:
        if os.path.isdir(path):
            return False
        raise
    return True


def _give_folder(path: str, above: os.stat_result, like: Permissions | None) -> None:
    user, group = (above.st_uid, above.st_gid) if like is None or like.gid < 0 else (like.uid, like.gid)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _give(handle, user, group)
    finally:
        os.close(handle)


def _give(handle: int, user: int, group: int) -> None:
    """Give a new file or folder the group that its mode is meant for; if we may not, the group is like everybody.

    What root makes belongs to the owner of what it is made for: a run of root must not lock the table's owner out.
    """
    now = os.fstat(handle)
    if os.geteuid() == 0 and (now.st_uid, now.st_gid) != (user, group):
        os.fchown(handle, user, group)
        return
    mode = stat_bits.S_IMODE(now.st_mode)
    if now.st_gid == group or without_group(mode) == mode:
        return
    try:
        os.fchown(handle, -1, group)
    except OSError:
        os.fchmod(handle, without_group(mode))


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
    at = os.path.abspath(path)  # the ancestors of a relative path would never end
    while not os.path.exists(at):
        at = os.path.dirname(at)
    return at
