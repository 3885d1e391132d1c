"""Addresses: what a user types, and the store and path it means."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from packstone.errors import InvalidInputError, UnsupportedSchemeError

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
_TABLE_NAME = re.compile(r"^[A-Za-z_]\w*\.[A-Za-z_]\w*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A store by its scheme, and an absolute path in it."""

    scheme: str
    path: str

    def __str__(self) -> str:
        return self.path


def parse_location(text: str) -> Location:
    """Understand a path, a ``file:`` URI; refuse other schemes by name."""
    if not text.strip():
        raise InvalidInputError("The target is empty; give a path or a file: URI.")
    if "\0" in text:
        raise InvalidInputError("The target holds a NUL character; give a path or a file: URI.")
    scheme = _SCHEME.match(text)
    if scheme is None:
        _check_not_a_table_name(text)
        return Location(scheme="file", path=_absolute(text))
    if scheme.group(1).lower() != "file":
        name = scheme.group(1).lower()
        raise UnsupportedSchemeError(
            f"{name}: storage is not supported by this version of packstone; use a local path or a file: URI.",
            scheme=name,
        )
    return Location(scheme="file", path=_absolute(_path_of_file_uri(text)))


def join_location(filesystem: str, partition: str) -> Location:
    """Join the first two of the classic three arguments: ``hdfs://nn:9000/`` and ``/data/t/dt=1``."""
    base = parse_location(filesystem)
    if _SCHEME.match(partition):
        return parse_location(partition)
    return Location(scheme=base.scheme, path=_absolute(base.path.rstrip("/") + "/" + partition.lstrip("/")))


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
    # Links are resolved, so that one folder has one owner and one journal whatever it is called.
    return os.path.realpath(path)


def _check_not_a_table_name(text: str) -> None:
    if _TABLE_NAME.match(text) and not os.path.lexists(text):
        raise InvalidInputError(
            f"{text} is no path here, and tables by name need a metastore, which this version does not read yet; "
            f"give the table's folder, a new one as ./{text}."
        )
