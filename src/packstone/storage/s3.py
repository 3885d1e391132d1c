"""Objects of S3 and of the stores that speak as it does, as files.

A path is ``s3://bucket/key``. There are no folders: one *is* there while a key begins with its name, so making one does
nothing, and the last file that goes takes it along. There is no rename either. What there is, and what commits are
built on, is the conditional put: ``If-None-Match: *`` creates an object only if there is none.

Not every store that speaks S3 honours that header; some overwrite and say that all is well. So the promise has to be
proved before it is relied on (``storage/exclusive.py``).

Settings come from the environment (``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_ACCESS_KEY_ID`` …). An ``S3FileIO``
holds them and nothing else, so it travels to workers, which need none of their own; each process opens its own
clients. Keys are never shown: not in a ``repr``, and so not in a message or a log.
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
from packstone.storage.fileio import Capabilities, Entry, Kind, check_whole_size
from packstone.storage.s3_errors import as_os_errors
from packstone.storage.s3_reader import ObjectReader
from packstone.storage.s3_writer import ObjectWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from obstore import ObjectMeta
    from obstore.store import S3Store

SCHEME: Final = "s3"
_PREFIX: Final = "s3://"
_NOBODY: Final = Permissions(uid=0, gid=0, mode=0o644)  # objects have no owner, group or mode
_NANOSECONDS: Final = 1_000_000_000
_DELETE_AT_ONCE: Final = 1000  # what one request takes
_TRY: Final = "packstone-try"
_USED_BY: list[int] = []  # the process that used S3 first; a forked one finds its parent here


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """Where the store is, and the keys to it; without keys a process looks for a role of its own machine."""

    endpoint: str = ""  # empty: that of Amazon's region
    region: str = ""
    key_id: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> S3Settings:
        """Read what Amazon's own tools read."""
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
        endpoint = next((environment[name] for name in names if environment.get(name)), "")
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise InvalidInputError("AWS_ENDPOINT_URL must begin with https:// or http://; set it so, or not at all.")
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
        keys = [environment.get(f"AWS_{name}", "") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")]
        if bool(keys[0]) != bool(keys[1]):
            raise InvalidInputError(
                "Of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only one is set; set both, or none of them."
            )
        return cls(endpoint=endpoint.rstrip("/"), region=region, key_id=keys[0], secret=keys[1], token=keys[2])


@dataclass(frozen=True, slots=True)
class S3FileIO:
    """``FileIO`` on obstore."""

    settings: S3Settings

    @property
    def capabilities(self) -> Capabilities:
        """Conditional puts, if the store honours them: to be proved."""
        return Capabilities(
            atomic_rename=False, create_if_absent=True, durable_write=True, has_folders=False, needs_proof=True
        )

    def list_dir(self, path: str) -> Iterator[Entry]:
        """Yield what is directly below the path; a folder that nothing is in does not exist."""
        import obstore  # noqa: PLC0415 - an extra

        store, key = self._at(path)
        with as_os_errors(path):
            found = obstore.list_with_delimiter(store, key or None)
        if key and not found["objects"] and not found["common_prefixes"]:
            raise FileNotFoundError(2, "No such folder", path)
        for prefix in found["common_prefixes"]:
            yield _folder(posixpath.basename(prefix))
        for meta in found["objects"]:
            if meta["path"] != key:  # else the marker that some tools put for an empty folder
                yield _entry(meta)

    def stat(self, path: str) -> Entry | None:
        """Describe an object, or say that a folder is there because something is below it."""
        import obstore  # noqa: PLC0415 - an extra

        if not _key_of(path)[0]:
            return None  # above all buckets
        store, key = self._at(path)
        if key:
            with contextlib.suppress(FileNotFoundError), as_os_errors(path):
                return _entry(obstore.head(store, key))
        with contextlib.suppress(FileNotFoundError), as_os_errors(path):
            is_there = any(True for _ in obstore.list(store, key or None, chunk_size=1))
            return _folder(posixpath.basename(path)) if is_there or not key else None
        return None  # not even the bucket

    def read_permissions(self, path: str) -> Permissions:  # noqa: ARG002 - the protocol's signature
        """Objects have none."""
        return _NOBODY

    def read_bytes(self, path: str) -> bytes:
        """Read a small object whole."""
        import obstore  # noqa: PLC0415 - an extra

        store, key = self._at(path)
        with as_os_errors(path):
            found = obstore.get(store, key)
            check_whole_size(path, found.meta["size"])
            return bytes(found.bytes())

    def open_input(self, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Open for random reads; every range is of the version that was there at first."""
        import obstore  # noqa: PLC0415 - an extra
        import pyarrow as pa  # noqa: PLC0415 - slow to import, not needed to plan

        store, key = self._at(path)
        with as_os_errors(path):
            meta = obstore.head(store, key)

        def fetch(start: int, stop: int) -> Any:  # noqa: ANN401 - a buffer
            with as_os_errors(path):
                wanted: Any = {"range": (start, stop), "if_match": meta["e_tag"]}
                return obstore.get(store, key, options=wanted).bytes()

        return pa.PythonFile(ObjectReader(fetch, meta["size"]), mode="r")

    def open_output(self, path: str) -> ObjectWriter:
        """Open an upload: nothing is to be seen before it is closed."""
        store, key = self._at(path)
        return ObjectWriter(store, key, path=path)

    def write_new(self, path: str, data: bytes) -> None:
        """Put only if there is none.

        The client repeats a put whose answer was lost or was a 5xx, and then its own first try is in the way. So every
        call marks its object, and one that finds its own mark has succeeded.
        """
        import obstore  # noqa: PLC0415 - an extra
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415 - an extra

        store, key = self._at(path)
        mark = os.urandom(16).hex()
        with as_os_errors(path):
            try:
                obstore.put(store, key, data, mode="create", attributes={_TRY: mark})
            except AlreadyExistsError:
                if not _is_marked(store, key, mark):
                    raise

    def replace(self, path: str, data: bytes) -> None:
        """Put over whatever is there."""
        import obstore  # noqa: PLC0415 - an extra

        store, key = self._at(path)
        with as_os_errors(path):
            obstore.put(store, key, data, use_multipart=False)

    def move(self, source: str, target: str) -> None:
        """Copy where there is nothing, then remove: two steps, and cut between them both names are there."""
        import obstore  # noqa: PLC0415 - an extra

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
        """Delete; an absent object is fine."""
        import obstore  # noqa: PLC0415 - an extra

        store, key = self._at(path)
        with as_os_errors(path):
            obstore.delete(store, key)

    def remove_tree(self, path: str) -> None:
        """Delete all that is below, a thousand at a time."""
        import obstore  # noqa: PLC0415 - an extra

        store, key = self._at(path)
        if not key:
            raise InvalidInputError(f"{path} is a whole bucket, which packstone never empties.")
        with as_os_errors(path):
            for page in obstore.list(store, key, chunk_size=_DELETE_AT_ONCE):
                obstore.delete(store, [meta["path"] for meta in page])

    def remove_empty_dir(self, path: str) -> bool:
        """Whether nothing is below it, which is the same as that it is not there."""
        import obstore  # noqa: PLC0415 - an extra

        store, key = self._at(path)
        with as_os_errors(path):
            pages = obstore.list(store, key or None, chunk_size=2)
            return all(meta["path"] == key for page in pages for meta in page)

    def limited(self, mode: int) -> S3FileIO:  # noqa: ARG002 - policies of the bucket decide who reads
        """The same store: objects have no modes."""
        return self

    def make_dirs(self, path: str, *, like: Permissions | None = None) -> None:
        """Nothing: there are no folders."""

    def sync_dir(self, path: str) -> None:
        """Nothing: a put that was answered is durable."""

    def sync_file(self, path: str) -> None:
        """Nothing: a put that was answered is durable."""

    def set_permissions(self, path: str, permissions: Permissions) -> None:
        """Nothing, for what every object has; PermissionError for anything else."""
        if permissions != _NOBODY:
            raise PermissionError(1, "Objects have no owner, group or mode", path)

    def free_bytes(self, path: str) -> int:  # noqa: ARG002 - the protocol's signature
        """As much as one pays for."""
        return 1 << 62

    def store_id(self, path: str) -> str:
        """Name the bucket and the store that it is in."""
        return f"{_PREFIX}{_key_of(path)[0]} of {self.settings.endpoint or self.settings.region or 'Amazon'}"

    def may_write(self, path: str) -> bool:  # noqa: ARG002 - the protocol's signature
        """Only a put can tell; it says so itself."""
        return True

    def _at(self, path: str) -> tuple[S3Store, str]:
        bucket, key = _key_of(path)
        if not bucket:
            raise FileNotFoundError(2, "No bucket", path)
        _check_not_forked()
        return _open_bucket(self.settings, bucket), key


def _check_not_forked() -> None:
    """Say so, instead of waiting for ever: the client's threads do not survive a fork, and are started once only."""
    if not _USED_BY:
        _USED_BY.append(os.getpid())
    if _USED_BY[0] != os.getpid():
        raise UnavailableError(
            "This process was forked from one that had used S3 already, and connections do not survive that; start "
            "processes before, or with multiprocessing's method spawn."
        )


@functools.cache
def _open_bucket(settings: S3Settings, bucket: str) -> S3Store:
    """One client for each bucket."""
    try:
        from obstore.store import S3Store  # noqa: PLC0415 - an extra
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
    """Bucket and key of a path; no bucket for what is above them (``s3:``)."""
    bucket, _, key = path.removeprefix(_PREFIX).partition("/") if path.startswith(_PREFIX) else ("", "", "")
    return bucket, key.rstrip("/")


def _is_marked(store: S3Store, key: str, mark: str) -> bool:
    import obstore  # noqa: PLC0415 - an extra

    try:
        return obstore.get(store, key, options={"range": (0, 1)}).attributes.get(_TRY) == mark
    except FileNotFoundError:  # somebody's, and gone by now
        return False


def _entry(meta: ObjectMeta) -> Entry:
    return Entry(
        name=posixpath.basename(meta["path"]),
        kind=Kind.FILE,
        size_bytes=meta["size"],
        mtime_ns=_version_time(meta),
        permissions=_NOBODY,
    )


def _folder(name: str) -> Entry:
    return Entry(name=name, kind=Kind.DIRECTORY, size_bytes=0, mtime_ns=0, permissions=_NOBODY)


def _version_time(meta: ObjectMeta) -> int:
    """The second in which the object was put, and in the place of the nanoseconds a digest of its ETag.

    Versions are told apart by size and time, and S3 has whole seconds only: of two puts in one second the ETag tells.
    A listing may know milliseconds where a head does not, so nothing below the second is taken from the clock.
    """
    tag = (meta["e_tag"] or "").removeprefix("W/").strip('"')
    return int(meta["last_modified"].timestamp()) * _NANOSECONDS + zlib.crc32(tag.encode()) % _NANOSECONDS
