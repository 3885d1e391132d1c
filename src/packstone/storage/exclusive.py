"""Prove that a store keeps the promise on which commits are built: create only if absent.

Some servers that speak S3 take no notice of the condition of a put, overwrite, and say that all is well; on such a
store two writers would both believe that they have published. Nothing but a try can tell. So before the first
commit one object is created twice: the second time must be refused, and the first content must be there still. Once for
each store and process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from packstone.errors import RefusedError, UnavailableError, storage_sentence

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_PROVED: set[tuple[str, str]] = set()


def check_exclusive(io: FileIO, folder: str, *, what: str) -> None:
    """Refuse, by name, a store on which two writers could both believe that they have created one file.

    The folder is one of ours, for the probe; ``what`` two writers could publish twice, for the sentence.
    """
    if not io.capabilities.create_if_absent:
        raise _refusal(type(io).__name__, what)
    if not io.capabilities.needs_proof:
        return
    store = (type(io).__name__, io.store_id(folder))
    if store in _PROVED:
        return
    try:
        keeps_promise = _creates_once(io, folder)
    except OSError as error:
        raise UnavailableError(f"{storage_sentence(error)} Nothing was committed.", folder=folder) from error
    if not keeps_promise:
        raise _refusal(store[1], what)
    _PROVED.add(store)


def _creates_once(io: FileIO, folder: str) -> bool:
    io.make_dirs(folder)
    # Named as local files that are not whole yet are: whoever tidies up the folder knows what it is.
    probe = f"{folder}/.new-{os.urandom(4).hex()}"
    io.write_new(probe, b"first")
    try:
        io.write_new(probe, b"second")
    except FileExistsError:
        return io.read_bytes(probe) == b"first"
    finally:
        io.remove(probe)
    return False


def _refusal(store: str, what: str) -> RefusedError:
    return RefusedError(
        f"{store} cannot create a file only if it is absent, so two writers could publish one {what}; nothing was "
        "committed. Keep the table on a store that can (for S3: one that honours If-None-Match)."
    )
