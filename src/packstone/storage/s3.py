"""``FileIO`` on S3 and compatible stores.

A path is ``s3://bucket/key``. There are no folders: a folder exists while a key begins with its name, so making one
does nothing, and removing its last file removes it. There is no rename either. Commits rely on the conditional put:
``If-None-Match: *`` creates an object only if it does not exist.

Not every compatible store honours that header; some overwrite the object and report success. So this has to be tested
before it is relied on (``storage/store_checks.py``).

Settings come from the environment (``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_ACCESS_KEY_ID`` …). An ``S3FileIO``
holds only the settings, so it can be sent to workers, which need none of their own; each process opens its own clients.
Keys are never shown: not in a ``repr``, and so not in a message or a log.
"""

from __future__ import annotations

import contextlib
import functools
import os
import posixpath
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError, UnavailableError
from packstone.model.files import Permissions
from packstone.storage.fileio import Capabilities, Entry, EntryKind, check_whole_size
from packstone.storage.s3_streams import ObjectReader, ObjectWriter, as_os_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from obstore import ObjectMeta
    from obstore.store import S3Store

_PREFIX: Final = "s3://"
_PERMISSIONS: Final = Permissions(uid=0, gid=0, mode=0o644)  # objects have no owner, group or mode
_NANOSECONDS: Final = 1_000_000_000
_DELETE_AT_ONCE: Final = 1000  # the limit of one request
_TRY: Final = "packstone-try"
_USED_BY: list[int] = []  # the first process that used S3; in a forked process this is its parent


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """The address of the store and the keys to it; without keys a process uses the role of its machine."""

    endpoint: str = ""  # empty: Amazon's endpoint of the region
    region: str = ""
    key_id: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> S3Settings:
        """Read the environment variables that Amazon's own tools read."""
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
        endpoint = next((environment[name] for name in names if environment.get(name)), "")
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise InvalidInputError("AWS_ENDPOINT_URL must begin with https:// or http://; correct or unset it.")
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
        keys = [environment.get(f"AWS_{name}", "") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")]
        if bool(keys[0]) != bool(keys[1]):
            raise InvalidInputError(
                "Only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set; set both or none of them."
            )
        return cls(endpoint=endpoint.rstrip("/"), region=region, key_id=keys[0], secret=keys[1], token=keys[2])


@dataclass(frozen=True, slots=True)
class S3FileIO:
    """``FileIO`` on obstore."""

    settings: S3Settings

    @property
    def capabilities(self) -> Capabilities:
        """Conditional puts, if a test shows that the store honours them."""
        return Capabilities(atomic_rename=False, create_if_absent=True, has_folders=False, needs_proof=True)

    def list_dir(self, path: str) -> Iterator[Entry]:
        """Yield the entries directly below the path; an empty folder does not exist."""
        import obstore  # an extra

        store, key = self._at(path)
        with as_os_errors(path):
            found = obstore.list_with_delimiter(store, key or None)
        if key and not found["objects"] and not found["common_prefixes"]:
            raise FileNotFoundError(2, "No such folder", path)
        for prefix in found["common_prefixes"]:
            yield _folder(posixpath.basename(prefix))
        for meta in found["objects"]:
            if meta["path"] != key:  # else the marker that some tools create for an empty folder
                yield _entry(meta)

    def stat(self, path: str) -> Entry | None:
        """Describe an object, or a folder if something is below the path."""
        import obstore  # an extra

        if not _key_of(path)[0]:
            return None  # above the buckets
        store, key = self._at(path)
        if key:
            with contextlib.suppress(FileNotFoundError), as_os_errors(path):
                return _entry(obstore.head(store, key))
        with contextlib.suppress(FileNotFoundError), as_os_errors(path):
            is_there = any(True for _ in obstore.list(store, key or None, chunk_size=1))
            return _folder(posixpath.basename(path)) if is_there or not key else None
        return None  # the bucket does not exist

    def read_permissions(self, path: str) -> Permissions:
        """Return constants: objects have no permissions."""
        return _PERMISSIONS

    def read_bytes(self, path: str) -> bytes:
        """Read a small object completely."""
        import obstore  # an extra

        store, key = self._at(path)
        with as_os_errors(path):
            found = obstore.get(store, key)
            check_whole_size(path, found.meta["size"])
            return bytes(found.bytes())

    def open_input(self, path: str) -> Any:
        """Open for random reads; every read is of the version that existed when it was opened."""
        import obstore  # an extra
        import pyarrow as pa  # slow to import, not needed to plan

        store, key = self._at(path)
        with as_os_errors(path):
            meta = obstore.head(store, key)

        def fetch(start: int, stop: int) -> Any:
            with as_os_errors(path):
                wanted: Any = {"range": (start, stop), "if_match": meta["e_tag"]}
                return obstore.get(store, key, options=wanted).bytes()

        return pa.PythonFile(ObjectReader(fetch, meta["size"]), mode="r")

    def open_output(self, path: str) -> ObjectWriter:
        """Open an upload: nothing is visible before it is closed."""
        store, key = self._at(path)
        return ObjectWriter(store, key, path=path)

    def write_new(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Put an object only if it does not exist.

        The client repeats a put whose response was lost or was a 5xx, and may then find the object of its own first
        try. So every call marks its object, and a call that finds its own mark has succeeded.
        """
        import obstore  # an extra
        from obstore.exceptions import AlreadyExistsError  # an extra

        store, key = self._at(path)
        mark = os.urandom(16).hex()
        with as_os_errors(path):
            try:
                obstore.put(store, key, data, mode="create", attributes={_TRY: mark})
            except AlreadyExistsError:
                if not _is_marked(store, key, mark):
                    raise

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Put an object, replacing any existing one."""
        import obstore  # an extra

        store, key = self._at(path)
        with as_os_errors(path):
            obstore.put(store, key, data, use_multipart=False)

    def move(self, source: str, target: str) -> None:
        """Copy without replacing, then remove: two steps; if killed between them, both names exist."""
        import obstore  # an extra

        store, key = self._at(source)
        target_bucket, target_key = _key_of(target)
        if target_bucket != _key_of(source)[0]:
            raise OSError(18, "Objects are not moved between buckets", source, None, target)
        if source == target:
            raise FileExistsError(17, "File exists", target)
        with as_os_errors(source):
            obstore.head(store, key)
        with as_os_errors(target):
            obstore.copy(store, key, target_key, overwrite=False)
        self.remove(source)

    def remove(self, path: str) -> None:
        """Delete an object, which may be absent."""
        import obstore  # an extra

        store, key = self._at(path)
        with as_os_errors(path):
            obstore.delete(store, key)

    def remove_tree(self, path: str) -> None:
        """Delete everything below the path, a thousand objects at a time."""
        import obstore  # an extra

        store, key = self._at(path)
        if not key:
            raise InvalidInputError(f"{path} is a bucket, and packstone never empties a whole bucket; name a folder.")
        with as_os_errors(path):
            for page in obstore.list(store, key, chunk_size=_DELETE_AT_ONCE):
                obstore.delete(store, [meta["path"] for meta in page])

    def remove_empty_dir(self, path: str) -> bool:
        """Whether nothing is below the path, in which case the folder does not exist."""
        import obstore  # an extra

        store, key = self._at(path)
        with as_os_errors(path):
            pages = obstore.list(store, key or None, chunk_size=2)
            return all(meta["path"] == key for page in pages for meta in page)

    def limited(self, mode: int) -> S3FileIO:  # policies of the bucket decide who reads
        """Return the same store: objects have no modes."""
        return self

    def make_dirs(self, path: str, *, like: Permissions | None = None, durable: bool = True) -> None:
        """Do nothing: there are no folders."""

    def sync_dir(self, path: str) -> None:
        """Do nothing: a put is durable when it returns."""

    def sync_file(self, path: str) -> None:
        """Do nothing: a put is durable when it returns."""

    def set_permissions(self, path: str, permissions: Permissions) -> None:
        """Do nothing for the constants of `read_permissions`; PermissionError for anything else."""
        if permissions != _PERMISSIONS:
            raise PermissionError(1, "Objects have no owner, group or mode", path)

    def free_bytes(self, path: str) -> int:
        """Return a large constant: the store has no limit."""
        return 1 << 62

    def store_id(self, path: str) -> str:
        """Return the bucket and its store."""
        return f"{_PREFIX}{_key_of(path)[0]} of {self.settings.endpoint or self.settings.region or 'Amazon'}"

    def may_write(self, path: str) -> bool:
        """Return True: only a put can find out, and it raises an error itself."""
        return True

    def why_not_replace(self, directory: str, permissions: Permissions) -> str:
        """Return nothing: only a put can find out."""
        return ""

    def _at(self, path: str) -> tuple[S3Store, str]:
        bucket, key = _key_of(path)
        if not bucket:
            raise FileNotFoundError(2, "No bucket", path)
        _check_not_forked()
        return _open_bucket(self.settings, bucket), key


def _check_not_forked() -> None:
    """Raise if the process was forked after the S3 client was created.

    Otherwise it would wait for ever: the client's threads do not survive a fork, and are started only once.
    """
    if not _USED_BY:
        _USED_BY.append(os.getpid())
    if _USED_BY[0] != os.getpid():
        raise UnavailableError(
            "This process was forked from one that had already used S3, and connections do not survive a fork; start "
            "processes before S3 is used, or use multiprocessing's start method spawn."
        )


@functools.cache
def _open_bucket(settings: S3Settings, bucket: str) -> S3Store:
    """Open the client of a bucket; cached."""
    try:
        from obstore.store import S3Store  # an extra
    except ImportError:
        raise InvalidInputError("s3: paths need obstore; install it with: pip install obstore") from None
    config: dict[str, Any] = {}
    if settings.endpoint:
        config |= {"endpoint": settings.endpoint, "aws_endpoint_url_s3": settings.endpoint}
    named = {
        "region": settings.region,
        "access_key_id": settings.key_id,
        "secret_access_key": settings.secret,
        "session_token": settings.token,
    }
    config |= {name: value for name, value in named.items() if value}
    if not os.environ.get("AWS_COPY_IF_NOT_EXISTS"):
        config["copy_if_not_exists"] = "multipart"
    is_plain = settings.endpoint.startswith("http://")
    return S3Store(bucket, config=config, client_options={"allow_http": is_plain})  # type: ignore[arg-type]


def _key_of(path: str) -> tuple[str, str]:
    """Return bucket and key of a path; the bucket is empty above the buckets (``s3:``)."""
    bucket, _, key = path.removeprefix(_PREFIX).partition("/") if path.startswith(_PREFIX) else ("", "", "")
    return bucket, key.rstrip("/")


def _is_marked(store: S3Store, key: str, mark: str) -> bool:
    import obstore  # an extra

    try:
        return obstore.get(store, key, options={"range": (0, 1)}).attributes.get(_TRY) == mark
    except FileNotFoundError:  # another writer's object, removed by now
        return False


def _entry(meta: ObjectMeta) -> Entry:
    return Entry(
        name=posixpath.basename(meta["path"]),
        kind=EntryKind.FILE,
        size_bytes=meta["size"],
        mtime_ns=_version_time(meta),
        permissions=_PERMISSIONS,
    )


def _folder(name: str) -> Entry:
    return Entry(name=name, kind=EntryKind.DIRECTORY, size_bytes=0, mtime_ns=0, permissions=_PERMISSIONS)


def _version_time(meta: ObjectMeta) -> int:
    """Return the second in which the object was put, with a digest of its ETag as the nanoseconds.

    Versions are distinguished by size and time, and S3 has whole seconds only: the ETag distinguishes two puts in one
    second. A listing may have milliseconds where a head has none, so fractions of a second are ignored.
    """
    tag = (meta["e_tag"] or "").removeprefix("W/").strip('"')
    return int(meta["last_modified"].timestamp()) * _NANOSECONDS + zlib.crc32(tag.encode()) % _NANOSECONDS
