"""Parse the paths and URIs that users give into the absolute paths that Packstone uses.

An absolute path is one string everywhere: a local path is plain (``/data/t``), any other has its scheme and authority
(``hdfs://nn:9000/data/t``). So a path in a journal, in the history or in a message is complete, and joining and
splitting at slashes works for all of them. Percent signs are literal, as in Hadoop's own paths: Hive's names are full
of them (``dt=a%3Ab``).
"""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from packstone.errors import InvalidInputError, UnsupportedSchemeError

_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
_REMOTE: Final = re.compile(r"^([a-z][a-z0-9+.-]*)://([^/]*)(?:/(.*))?$", re.DOTALL)
_TABLE_NAME: Final = re.compile(r"^[A-Za-z_]\w*\.[A-Za-z_]\w*$")
# Scheme as typed -> scheme of the store; storage/stores.py opens it.
_REMOTE_SCHEMES: Final[dict[str, str]] = {"hdfs": "hdfs", "s3": "s3", "s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A store by its scheme, and an absolute path in it."""

    scheme: str
    path: str

    def __str__(self) -> str:
        return self.path


def parse_location(text: str) -> Location:
    """Parse a path or a URI; refuse schemes without a store, with an error that names the scheme."""
    if not text.strip():
        raise InvalidInputError("The target is empty; give a path or a URI.")
    if "\0" in text:
        raise InvalidInputError("The target holds a NUL character; give a path or a URI.")
    scheme = _SCHEME.match(text)
    if scheme is None:
        _check_not_a_table_name(text)
        return Location(scheme="file", path=_absolute(text))
    name = scheme.group(1).lower()
    if name == "file":
        return Location(scheme="file", path=_absolute(_path_of_file_uri(text)))
    if name not in _REMOTE_SCHEMES:
        known = ", ".join(f"{one}:" for one in ("file", *_REMOTE_SCHEMES))
        raise UnsupportedSchemeError(
            f"{name}: storage is not supported by this version of packstone; use a local path or a URI ({known}).",
            scheme=name,
        )
    return _remote(_REMOTE_SCHEMES[name], text[len(name) + 1 :])


def join_location(filesystem: str, partition: str) -> Location:
    """Join the first two of the classic three arguments: ``hdfs://nn:9000/`` and ``/data/t/dt=1``."""
    if _SCHEME.match(partition):
        return parse_location(partition)
    base = parse_location(filesystem)
    joined = base.path.rstrip("/") + "/" + partition.lstrip("/")
    return Location(scheme="file", path=_absolute(joined)) if base.scheme == "file" else parse_location(joined)


def scheme_of(path: str) -> str:
    """The scheme of an absolute path."""
    found = _REMOTE.match(path)
    return found.group(1) if found else "file"


def is_store_root(path: str) -> bool:
    """Whether a path is the root of its store: ``/``, ``hdfs://nn:9000``."""
    found = _REMOTE.match(path)
    return path == "/" if found is None else not found.group(3)


def split_store(path: str) -> tuple[str, str]:
    """Split an absolute path into the root of its store and the path in it: ``hdfs://nn:9000`` and ``/data/t``."""
    found = _REMOTE.match(path)
    return ("", path) if found is None else (f"{found.group(1)}://{found.group(2)}", "/" + (found.group(3) or ""))


def _remote(scheme: str, rest: str) -> Location:
    authority, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
    if not authority and scheme == "hdfs":
        authority = _default_namenode(f"{scheme}:{rest}")
    if not authority:
        place = "bucket" if scheme == "s3" else "host"
        raise InvalidInputError(f"{scheme}:{rest} names no {place}; write {scheme}://{place.upper()}/PATH.")
    inside = posixpath.normpath("/" + path.lstrip("/")).lstrip("/")
    return Location(scheme=scheme, path=f"{scheme}://{authority}/{inside}" if inside else f"{scheme}://{authority}")


def _default_namenode(text: str) -> str:
    """Resolve ``hdfs:///path`` to the file system that the Hadoop configuration names."""
    from packstone.storage.hdfs_connection import HdfsSettings  # imports XML, which most calls do not need

    return HdfsSettings.from_environment(text, os.environ).url.partition("://")[2]


def _path_of_file_uri(text: str) -> str:
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        raise InvalidInputError(
            f"{text} names the host {parts.netloc}; a file: URI has three slashes, as in file:///data."
        )
    # Hadoop's Path does not decode percent signs and Hive's own names are full of them (dt=a%3Ab), so a
    # URI is decoded only where the undecoded path does not exist.
    raw = text[len("file:") :].removeprefix("//" + parts.netloc)
    return raw if os.path.lexists(raw) else unquote(raw) if os.path.lexists(unquote(raw)) else raw


def _absolute(path: str) -> str:
    # Resolve links, so that one folder has one owner and one journal under any of its names.
    return os.path.realpath(path)


def is_table_name(text: str) -> bool:
    """Whether this is ``db.table`` and not an existing path."""
    return bool(_TABLE_NAME.match(text)) and not os.path.lexists(text)


def _check_not_a_table_name(text: str) -> None:
    if is_table_name(text):
        raise InvalidInputError(
            f"{text} is not an existing path; for a table by its name give --metastore URL; "
            f"otherwise give the table's folder, a new one as ./{text}."
        )
