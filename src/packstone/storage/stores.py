"""From an address to the store that holds it: the only place that knows which implementation serves which scheme.

A store is opened by a path, used by whoever opened it, and may travel: every ``FileIO`` pickles to its settings, so
that a driver hands its own to the tasks it starts, and a worker needs no configuration of its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from packstone.errors import UnsupportedSchemeError
from packstone.storage.local import LocalFileIO
from packstone.storage.location import scheme_of, split_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packstone.storage.fileio import FileIO


def open_store(path: str) -> FileIO:
    """Open the store of an absolute path, as ``parse_location`` gives it; an HDFS must answer."""
    scheme = scheme_of(path)
    opener = _OPENERS.get(scheme)
    if opener is None:
        raise UnsupportedSchemeError(f"{scheme}: storage is not supported by this version of packstone.", scheme=scheme)
    return opener(path)


def store_beside(io: FileIO, home: str, path: str) -> FileIO:
    """The store of a path: the one that is open for ``home`` if that is the same, else one of its own."""
    return io if split_store(path)[0] == split_store(home)[0] else open_store(path)


def _open_local(_path: str) -> FileIO:
    return LocalFileIO()


def _open_hdfs(path: str) -> FileIO:
    from packstone.storage.hdfs import HdfsFileIO  # noqa: PLC0415 - most calls are local
    from packstone.storage.hdfs_contact import check_answers  # noqa: PLC0415 - as above
    from packstone.storage.hdfs_settings import HdfsSettings  # noqa: PLC0415 - as above

    settings = HdfsSettings.from_environment(path, os.environ)
    check_answers(settings)
    return HdfsFileIO(settings)


def _open_s3(_path: str) -> FileIO:
    from packstone.storage.s3 import S3FileIO, S3Settings  # noqa: PLC0415 - only if it is asked for

    return S3FileIO(S3Settings.from_environment(os.environ))


# A row here and the scheme in location.py make a new store known; the library behind it is imported when it is opened.
_OPENERS: Final[Mapping[str, Callable[[str], FileIO]]] = {
    "file": _open_local,
    "hdfs": _open_hdfs,
    "s3": _open_s3,
}
