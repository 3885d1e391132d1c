"""Open the store of a path: the only module that maps schemes to implementations.

A store can be sent to other processes: every ``FileIO`` pickles to its settings, so a driver passes its own to the
tasks that it starts, and a worker needs no configuration of its own.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError, UnsupportedSchemeError
from packstone.storage.fileio import EntryKind
from packstone.storage.local import LocalFileIO
from packstone.storage.location import parse_location, scheme_of, split_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packstone.storage.fileio import FileIO


def open_store(path: str) -> FileIO:
    """Open the store of an absolute path from ``parse_location``; raises if an HDFS does not answer."""
    scheme = scheme_of(path)
    opener = _OPENERS.get(scheme)
    if opener is None:
        raise UnsupportedSchemeError(f"{scheme}: storage is not supported by this version of packstone.", scheme=scheme)
    return opener(path)


def store_beside(io: FileIO, home: str, path: str) -> FileIO:
    """Return the store of a path: ``io``, the store of ``home``, if it is the same one, else a new one."""
    return io if split_store(path)[0] == split_store(home)[0] else open_store(path)


def _open_local(_path: str) -> FileIO:
    return LocalFileIO()


def _open_hdfs(path: str) -> FileIO:
    from packstone.storage.hdfs import HdfsFileIO  # most calls are local
    from packstone.storage.hdfs_connection import (
        HdfsSettings,  # as above
        check_answers,  # as above
    )

    settings = HdfsSettings.from_environment(path, os.environ)
    check_answers(settings)
    return HdfsFileIO(settings)


def _open_s3(_path: str) -> FileIO:
    from packstone.storage.s3 import S3FileIO, S3Settings  # only when needed

    try:
        import obstore  # noqa: F401 - an extra; whoever uses the store imports it again
    except ImportError:
        raise InvalidInputError("s3: paths need obstore; install it with: pip install obstore") from None
    return S3FileIO(S3Settings.from_environment(os.environ))


# A new store needs a row here and its scheme in location.py; its library is imported when it is opened.
_OPENERS: Final[Mapping[str, Callable[[str], FileIO]]] = {
    "file": _open_local,
    "hdfs": _open_hdfs,
    "s3": _open_s3,
}


def find_file(given: str) -> str:
    """Return the absolute path of a file from a path or URI; unlike a target it is never the name of a table."""
    return parse_location(given).path if ":/" in given else os.path.realpath(given)


def find_file_to_write(given: str, *, option: str) -> str:
    """Return the absolute path of a file that can be written or replaced; errors name the option."""
    if Path(given).absolute().is_relative_to("/dev"):  # /dev/stdout may be a regular file, which would be replaced
        raise InvalidInputError(f"{option} {given} is a device; name a file, or use --format json for standard output.")
    path = find_file(given)
    io, folder = open_store(path), posixpath.dirname(path)
    above, found = io.stat(folder), io.stat(path)
    if above is None or above.kind is not EntryKind.DIRECTORY:
        raise InvalidInputError(
            f"{option} {given}: the folder {folder} does not exist; create it, or name another file."
        )
    if found is not None and found.kind is not EntryKind.FILE:
        raise InvalidInputError(f"{option} {given} is not a regular file; name a file.")
    return path
