"""Files in memory: for tests of protocols, where a million steps must cost nothing."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any, Self

from packstone.model.files import Permissions
from packstone.storage.fileio import Capabilities, Entry, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT_OWNED = Permissions(uid=0, gid=0, mode=0o644)


class MemoryFileIO:
    """A dict of paths. It lives as long as the object; a crash is an exception, not an end of process."""

    capabilities = Capabilities(atomic_rename=True, create_if_absent=True, durable_write=False)

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
            return Entry(name=name, kind=Kind.FILE, size_bytes=len(data), mtime_ns=mtime_ns, permissions=permissions)
        if path in self._dirs:
            return Entry(name=name, kind=Kind.DIRECTORY, size_bytes=0, mtime_ns=0, permissions=_ROOT_OWNED)
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

    def open_input(self, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Open the content as a pyarrow file."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        return pa.BufferReader(self.read_bytes(path))

    def open_output(self, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Open a file object whose content is stored when it is closed."""
        return _MemoryOutput(self, path)

    def write_new(self, path: str, data: bytes) -> None:
        """Create, or say that it exists."""
        if path in self._files:
            raise FileExistsError(path)
        self.replace(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Store under the path with a later time than anything before."""
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
        """Forget a file."""
        self._files.pop(path, None)

    def remove_tree(self, path: str) -> None:
        """Forget all below."""
        below = path + "/"
        self._files = {p: f for p, f in self._files.items() if not p.startswith(below)}
        self._dirs = {p for p in self._dirs if p != path and not p.startswith(below)}

    def remove_empty_dir(self, path: str) -> bool:
        """Forget a folder with nothing in it."""
        if path in self._dirs and any(True for _ in self.list_dir(path)):
            return False
        self._dirs.discard(path)
        return True

    def limited(self, mode: int) -> Self:  # noqa: ARG002 - nobody else can see this memory
        """The same store: there are no other users."""
        return self

    def make_dirs(self, path: str, *, like: Permissions | None = None) -> None:  # noqa: ARG002 - as above
        """Remember the folder and its ancestors."""
        at = path
        while at not in self._dirs:
            self._dirs.add(at)
            at = posixpath.dirname(at)

    def sync_dir(self, path: str) -> None:
        """Nothing is more durable than anything else here."""

    def sync_file(self, path: str) -> None:
        """Nothing is more durable than anything else here."""

    def set_permissions(self, path: str, permissions: Permissions) -> None:
        """Remember the permissions."""
        data, mtime_ns, _ = self._files[path]
        self._files[path] = (data, mtime_ns, permissions)

    def free_bytes(self, path: str) -> int:  # noqa: ARG002 - the protocol's signature
        """Plenty."""
        return 1 << 62

    def store_id(self, path: str) -> str:  # noqa: ARG002 - the protocol's signature
        """All of memory is one store."""
        return "memory"

    def may_write(self, path: str) -> bool:
        """Existing folders are writable."""
        return path in self._dirs


class _MemoryOutput:
    """Collect writes; hand them over at close."""

    def __init__(self, owner: MemoryFileIO, path: str) -> None:
        self._owner, self._path, self._parts = owner, path, bytearray()
        self.closed = False

    def write(self, data: bytes) -> int:
        self._parts += data
        return len(data)

    def tell(self) -> int:
        return len(self._parts)

    def flush(self) -> None:
        """Nothing is buffered elsewhere."""

    def close(self) -> None:
        if not self.closed:
            self._owner.replace(self._path, bytes(self._parts))
            self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
