"""``FileIO`` on the local file system and its mounts.

ACLs and extended attributes are represented as text: ``user.origin=<base64>``. The kernel stores a POSIX ACL as the
attribute ``system.posix_acl_access``. Attributes in ``security.*`` and ``trusted.*`` describe the machine, not the
data, and are not copied.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import ctypes
import errno
import os
import shutil
import stat as stat_bits
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

from packstone.errors import CorruptionError
from packstone.model.files import Permissions
from packstone.storage.fileio import (
    MAX_WHOLE_BYTES,
    PRIVATE,
    Capabilities,
    Entry,
    EntryKind,
    check_whole_size,
    file_mode,
    folder_mode,
    incomplete_path,
    without_group,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
# File systems without the flag (some network mounts) return one of these; there, use link and unlink.
_NO_SUCH_FLAG = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_MAKE_DIRS_ATTEMPTS = 20
_ACL: Final = "system.posix_acl_access"
_DEFAULT_ACL: Final = "system.posix_acl_default"
_OURS: Final = ("user.", _ACL)
_NONE_HERE: Final = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class LocalFileIO:
    """``FileIO`` on the operating system's own calls."""

    capabilities = Capabilities(atomic_rename=True, create_if_absent=True)
    most_mode = 0o644  # of new data files

    def limited(self, mode: int) -> Self:
        """Create files with at most this mode."""
        limited = copy.copy(self)
        limited.most_mode = self.most_mode & mode
        return limited

    def list_dir(self, path: str) -> Iterator[Entry]:
        """Yield entries with one stat each; links are reported, not followed."""
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
        """Return owner, group, mode, the ACL and the user's extended attributes."""
        found = _entry(os.path.basename(path), os.lstat(path)).permissions
        return replace(found, attributes=_read_attributes(path))

    def read_bytes(self, path: str) -> bytes:
        """Read a small file completely."""
        with os.fdopen(_open_file(path), "rb") as file:
            data = file.read(MAX_WHOLE_BYTES + 1)  # files of /proc have no size
        check_whole_size(path, len(data))
        return data

    def open_input(self, path: str) -> Any:
        """Open with pyarrow, whose readers release the interpreter lock."""
        import pyarrow as pa  # slow to import, not needed to plan

        return pa.OSFile(os.fsencode(path), "r")  # a name may be invalid UTF-8

    def open_output(self, path: str) -> Any:
        """Open a new file with pyarrow; the file is created first, because pyarrow cannot set its mode."""
        import pyarrow as pa  # slow to import, not needed to plan

        folder = os.stat(os.path.dirname(path))
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, file_mode(folder.st_mode, self.most_mode))
        try:
            _set_owner(handle, folder.st_uid, folder.st_gid)
        finally:
            os.close(handle)
        return pa.OSFile(os.fsencode(path), "wb")

    def write_new(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write a temporary file, then link it: the name appears once, with complete and durable content."""
        aside = _write_aside(path, data, durable=durable)
        try:
            os.link(aside, path)
        finally:
            os.unlink(aside)
        if durable:
            self.sync_dir(os.path.dirname(path))

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Write a temporary file, then rename it over the target."""
        aside = _write_aside(path, data, durable=durable)
        os.rename(aside, path)
        if durable:
            self.sync_dir(os.path.dirname(path))

    def move(self, source: str, target: str) -> None:
        """Rename without replacing, in one system call if the file system supports it."""
        failed = _rename_noreplace(source, target)
        if failed in _NO_SUCH_FLAG:
            _link_and_unlink(source, target)
        elif failed == errno.EEXIST and _are_one_file(source, target):
            os.unlink(source)  # a move by link and unlink was killed between the two
        elif failed:
            raise OSError(failed, os.strerror(failed), source, None, target)

    def remove(self, path: str) -> None:
        """Unlink a file, which may be absent."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        """Remove a folder of our own; ignores files that disappear at the same time."""
        with contextlib.suppress(RecursionError):  # foreign folders, hundreds deep: ignored like other failures
            shutil.rmtree(path, ignore_errors=True)

    def remove_empty_dir(self, path: str) -> bool:
        """Remove the directory if it is empty."""
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def make_dirs(self, path: str, *, like: Permissions | None = None, durable: bool = True) -> None:
        """Create the missing ancestors and make each new name durable in its parent."""
        for _ in range(_MAKE_DIRS_ATTEMPTS):
            try:
                self._make_dirs(path, like, durable=durable)
            except FileNotFoundError:  # another run that ended removed an ancestor that was still empty
                continue
            return
        self._make_dirs(path, like, durable=durable)

    def _make_dirs(self, path: str, like: Permissions | None, *, durable: bool) -> None:
        missing = []
        at = path
        while not os.path.isdir(at):
            missing.append(at)
            at = os.path.dirname(at)
        made = [folder for folder in reversed(missing) if _make_dir(folder, like)]
        for folder in made:
            above = os.path.dirname(folder)
            _set_folder_owner(folder, os.stat(above), like)
            if durable:
                self.sync_dir(above)

    def sync_dir(self, path: str) -> None:
        """Fsync the directory."""
        _fsync(path, os.O_RDONLY | os.O_DIRECTORY)

    def sync_file(self, path: str) -> None:
        """Fsync the file."""
        _fsync(path, os.O_RDONLY)

    def set_permissions(self, path: str, permissions: Permissions) -> None:
        """Set owner and group where they differ (which may need privileges), then mode, ACL and extended attributes."""
        now = os.lstat(path)
        if (now.st_uid, now.st_gid) != (permissions.uid, permissions.gid):
            os.chown(path, permissions.uid, permissions.gid)
        os.chmod(path, permissions.mode)
        _set_attributes(path, permissions.attributes)

    def free_bytes(self, path: str) -> int:
        """The space that an unprivileged user may still use."""
        return shutil.disk_usage(_existing_ancestor(path)).free

    def store_id(self, path: str) -> str:
        """Return the device: renames work only within one."""
        return f"dev{os.stat(_existing_ancestor(path)).st_dev}"

    def may_write(self, path: str) -> bool:
        """Ask the kernel."""
        return os.access(path, os.W_OK | os.X_OK)

    def why_not_replace(self, directory: str, permissions: Permissions) -> str:
        """Ask the kernel for the directory; only a privileged process may give its files to somebody else."""
        if not self.may_write(directory):
            return "this user may not write to the folder"
        if _is_privileged():
            return ""
        if permissions.uid != os.geteuid():
            return "its files belong to another user, and this user cannot give the merged file to that one"
        if permissions.gid not in (os.getegid(), *os.getgroups()):
            return "its files belong to a group of which this user is not a member, so the merged file could not"
        return ""


def _is_privileged() -> bool:
    """Whether this process is root, or has any capability of root's; True where that cannot be found out."""
    if os.geteuid() == 0:
        return True
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return any(line.startswith("CapEff:") and int(line.split()[1], 16) for line in file)
    except (OSError, ValueError):  # not Linux
        return True


def _open_file(path: str) -> int:
    """Open a file to read it completely, without blocking: a FIFO waits for a writer, and a device may never end."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise CorruptionError(f"{path} should be a file, but is a socket or a device.", path=path) from error
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
        raise CorruptionError(f"{path} should be a file, but is a {kind}.", path=path)
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


def _kind(mode: int) -> EntryKind:
    if stat_bits.S_ISREG(mode):
        return EntryKind.FILE
    if stat_bits.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    return EntryKind.LINK if stat_bits.S_ISLNK(mode) else EntryKind.OTHER


def _write_aside(path: str, data: bytes, *, durable: bool) -> str:
    at, aside = os.path.dirname(path), incomplete_path(path)
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]
        folder = os.stat(at)
        os.fchmod(handle, file_mode(folder.st_mode))  # readable by everybody who may enter the folder
        _set_owner(handle, folder.st_uid, folder.st_gid)
        if durable:
            os.fsync(handle)
    except BaseException:
        os.unlink(aside)
        raise
    finally:
        os.close(handle)
    return aside


def _make_dir(path: str, like: Permissions | None) -> bool:
    """Make one folder; False if another run has made it.

    With ``like`` it gets that ACL and no other: the default ACL of its parent may name users who must not enter. Until
    then its mode is closed, which makes inherited entries ineffective.
    """
    above = os.path.dirname(path)
    mode = folder_mode(os.stat(above).st_mode, like)
    acl = _find_acl(like.attributes) if like is not None else None
    is_closed = like is not None and (acl is not None or _inherits_acl(above))
    try:
        os.mkdir(path, PRIVATE.mode if is_closed else mode)
        if is_closed:
            _set_folder_acl(path, acl)
            os.chmod(path, mode)  # if there is an ACL, this limits its mask
    except FileExistsError:
        if os.path.isdir(path):
            return False
        raise
    return True


def _set_folder_owner(path: str, above: os.stat_result, like: Permissions | None) -> None:
    user, group = (above.st_uid, above.st_gid) if like is None or like.gid < 0 else (like.uid, like.gid)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _set_owner(handle, user, group)
    finally:
        os.close(handle)


def _set_owner(handle: int, user: int, group: int) -> None:
    """Set the group that the mode is meant for; if not allowed, limit the group to the permissions of all users.

    A process of root also sets the owner: a run as root must not lock the table's owner out.
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
    call = _renameat2()
    if call is None:
        return errno.ENOSYS
    done = call(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE)
    return ctypes.get_errno() if done else 0


@cache
def _renameat2() -> Any:
    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # an older C library, or not Linux
        return None


def _link_and_unlink(source: str, target: str) -> None:
    """Rename in two steps; if killed between them, the file has two names, which a second call corrects."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        if not _are_one_file(source, target):
            raise
    os.unlink(source)


def _are_one_file(source: str, target: str) -> bool:
    """Whether these are two different names of one file."""
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
    at = os.path.abspath(path)  # for a relative path the loop would not end
    while not os.path.exists(at):
        at = os.path.dirname(at)
    return at


def _read_attributes(path: str) -> tuple[str, ...]:
    """Read the extended attributes; empty if the file system does not support them."""
    if not hasattr(os, "listxattr"):
        return ()  # not Linux
    return tuple(
        f"{name}={_base64(os.getxattr(path, name, follow_symlinks=False))}" for name in sorted(_attribute_names(path))
    )


def _set_attributes(path: str, wanted: Iterable[str]) -> None:
    """Set exactly these extended attributes; OSError if the file system cannot store one."""
    now, texts = set(_read_attributes(path)), set(wanted)
    kept = {text.partition("=")[0] for text in texts}
    for text in sorted(now - texts):
        name = text.partition("=")[0]
        if name not in kept:
            os.removexattr(path, name, follow_symlinks=False)
    for text in sorted(texts - now):
        name, _, value = text.partition("=")
        os.setxattr(path, name, base64.b64decode(value), follow_symlinks=False)


def _inherits_acl(folder: str) -> bool:
    """Whether new files in a folder inherit the entries of a default ACL."""
    return hasattr(os, "listxattr") and _DEFAULT_ACL in _list_attributes(folder)


def _find_acl(attributes: Iterable[str]) -> bytes | None:
    """The ACL among attributes, in the kernel's format."""
    found = (text.partition("=") for text in attributes)
    return next((base64.b64decode(value) for name, _, value in found if name == _ACL), None)


def _set_folder_acl(path: str, acl: bytes | None) -> None:
    """Set the ACL of a folder and its default ACL; None removes both, including inherited entries."""
    found = _list_attributes(path)
    for name in (_DEFAULT_ACL, _ACL):
        if acl is not None:
            os.setxattr(path, name, acl, follow_symlinks=False)
        elif name in found:
            os.removexattr(path, name, follow_symlinks=False)


def _attribute_names(path: str) -> list[str]:
    return [name for name in _list_attributes(path) if name.startswith(_OURS)]


def _list_attributes(path: str) -> list[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NONE_HERE:
            return []
        raise


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
