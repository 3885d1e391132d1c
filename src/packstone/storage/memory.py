"""``FileIO`` in memory, for protocol tests with very many steps."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Self

from packstone.model.files import Permissions
from packstone.storage.fileio import Capabilities, Entry, EntryKind, WriteOnly

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT_OWNED = Permissions(uid=0, gid=0, mode=0o644)


class MemoryFileIO:
    """A dict of paths, which lives as long as the object; a crash is an exception, not a killed process."""

    capabilities = Capabilities(atomic_rename=True, create_if_absent=True)

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, int, Permissions]] = {}
        self._dirs: set[str] = {"/"}
        self._clock_ns = 0

    def list_dir(self, path: str) -> Iterator[Entry]:
        """Yield files and folders directly below the path."""
        if path not in self._dirs:
            raise FileNotFoundError(path)
        names = {p for p in (*self._files, *self._dirs) if p != path and posixpath.dirname(p) == path}
        for name in sorted(names):
            found = self.stat(name)
            if found is not None:
                yield found

    def stat(self, path: str) -> Entry | None:
        """Describe one path."""
        name = posixpath.basename(path)
        if path in self._files:
            data, mtime_ns, permissions = self._files[path]
            return Entry(
                name=name, kind=EntryKind.FILE, size_bytes=len(data), mtime_ns=mtime_ns, permissions=permissions
            )
        if path in self._dirs:
            return Entry(name=name, kind=EntryKind.DIRECTORY, size_bytes=0, mtime_ns=0, permissions=_ROOT_OWNED)
        return None

    def read_permissions(self, path: str) -> Permissions:
        """Return what was set."""
        found = self.stat(path)
        if found is None:
            raise FileNotFoundError(path)
        return found.permissions

    def read_bytes(self, path: str) -> bytes:
        """Return the content."""
        if path not in self._files:
            raise FileNotFoundError(path)
        return self._files[path][0]

    def open_input(self, path: str) -> Any:
        """Open the content as a pyarrow file."""
        import pyarrow as pa  # slow to import

        return pa.BufferReader(self.read_bytes(path))

    def open_output(self, path: str) -> Any:
        """Open a file object whose content is stored when it is closed."""
        return _MemoryOutput(self, path)

    def write_new(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Create a file; FileExistsError if it exists."""
        if path in self._files:
            raise FileExistsError(path)
        self.replace(path, data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Store the content with a later time than any file before."""
        if posixpath.dirname(path) not in self._dirs:
            raise FileNotFoundError(posixpath.dirname(path))
        self._clock_ns += 1
        self._files[path] = (data, self._clock_ns, _ROOT_OWNED)

    def move(self, source: str, target: str) -> None:
        """Rename a file."""
        if source not in self._files:
            raise FileNotFoundError(source)
        if target in self._files:
            raise FileExistsError(target)
        if posixpath.dirname(target) not in self._dirs:
            raise FileNotFoundError(posixpath.dirname(target))
        self._files[target] = self._files.pop(source)

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._files.pop(path, None)

    def remove_tree(self, path: str) -> None:
        """Remove everything below the path."""
        below = path + "/"
        self._files = {p: f for p, f in self._files.items() if not p.startswith(below)}
        self._dirs = {p for p in self._dirs if p != path and not p.startswith(below)}

    def remove_empty_dir(self, path: str) -> bool:
        """Remove a folder if it is empty."""
        if path in self._dirs and any(True for _ in self.list_dir(path)):
            return False
        self._dirs.discard(path)
        return True

    def limited(self, mode: int) -> Self:  # other processes cannot see this memory
        """Return the same store: there are no other users."""
        return self

    def make_dirs(self, path: str, *, like: Permissions | None = None, durable: bool = True) -> None:
        """Add the folder and its ancestors."""
        at = path
        while at not in self._dirs:
            self._dirs.add(at)
            at = posixpath.dirname(at)

    def sync_dir(self, path: str) -> None:
        """Do nothing: memory is never durable."""

    def sync_file(self, path: str) -> None:
        """Do nothing: memory is never durable."""

    def set_permissions(self, path: str, permissions: Permissions) -> None:
        """Store the permissions."""
        data, mtime_ns, _ = self._files[path]
        self._files[path] = (data, mtime_ns, permissions)

    def free_bytes(self, path: str) -> int:
        """Return a large constant."""
        return 1 << 62

    def store_id(self, path: str) -> str:
        """Return one id for all paths."""
        return "memory"

    def may_write(self, path: str) -> bool:
        """Whether the folder exists: existing folders are writable."""
        return path in self._dirs

    def why_not_replace(self, directory: str, permissions: Permissions) -> str:
        """Return nothing: everything is allowed."""
        return ""


class _MemoryOutput(WriteOnly):
    """Collects writes and stores them when it is closed."""

    def __init__(self, owner: MemoryFileIO, path: str) -> None:
        self._owner, self._path, self._parts = owner, path, bytearray()
        self.closed = False

    def write(self, data: bytes) -> int:
        self._parts += data
        return len(data)

    def tell(self) -> int:
        return len(self._parts)

    def flush(self) -> None:
        """Do nothing: nothing else is buffered."""

    def close(self) -> None:
        if not self.closed:
            self._owner.replace(self._path, bytes(self._parts))
            self.closed = True

    def __exit__(self, *_: object) -> None:
        self.close()
