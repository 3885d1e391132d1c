"""Check a store before it is used: exclusive create, rename and quotas; and copy files with verification.

Commits rely on exclusive create. Some S3-compatible servers ignore the condition of a put, overwrite the object, and
report success; on such a store two writers could publish the same version. Only a trial shows this. So before the first
commit one object is created twice: the second time must fail, and the first content must still be there. This is done
once for each store and process.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import CorruptionError, RefusedError, UnavailableError, storage_sentence
from packstone.model.sizes import format_bytes
from packstone.storage.fileio import abandon_output, incomplete_path
from packstone.storage.location import scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO
    from packstone.storage.hdfs import HdfsFileIO

_PROVED: set[tuple[str, str]] = set()


def check_exclusive(io: FileIO, folder: str, *, what: str) -> None:
    """Refuse a store on which two writers could both create one file; the error names the store.

    The folder is one of ours, for the trial; ``what`` names what two writers could publish twice, for the error.
    """
    if not io.capabilities.create_if_absent:
        raise _refusal(type(io).__name__, what)
    if not io.capabilities.needs_proof:
        return
    store = (type(io).__name__, io.store_id(folder))
    if store in _PROVED:
        return
    try:
        is_exclusive = _creates_once(io, folder)
    except OSError as error:
        raise UnavailableError(f"{storage_sentence(error)} Nothing was committed.", folder=folder) from error
    if not is_exclusive:
        raise _refusal(store[1], what)
    _PROVED.add(store)


def _creates_once(io: FileIO, folder: str) -> bool:
    io.make_dirs(folder)
    probe = incomplete_path(f"{folder}/probe")  # such a name, so that a cleanup of the folder recognises it
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


# ---- hazards of a store: no rename; snapshots, quotas and encryption zones of HDFS ----


_NEARLY_FULL: Final = 0.8
_SNAPSHOTS: Final = ".snapshot"


def find_store_hazards(io: FileIO, path: str) -> Iterator[tuple[str, str]]:
    """Yield the hazards of the folder and its ancestors, each with its evidence."""
    if not io.capabilities.atomic_rename:
        yield (
            "object-store",
            "there is no atomic rename here: no merging in place, only `--publish location`",
        )
    hdfs = _as_hdfs(io, path)
    if hdfs is None:
        return
    at = path
    while at != hdfs.settings.url:
        yield from _snapshots(hdfs, at)
        yield from _quotas(hdfs, at)
        at = posixpath.dirname(at)
    yield from _snapshots(hdfs, at)  # quotas of the root are not read: its summary walks the whole tree


def why_no_move(io: FileIO, directory: str, state: str) -> str | None:
    """Try a rename from a partition to our own folder; return why it fails, before anything depends on it.

    HDFS renames only within one encryption zone, and the library does not report zones. On local disks comparing the
    store ids is enough.
    """
    if _as_hdfs(io, directory) is None:
        return None
    name = f".packstone-try-{os.urandom(6).hex()}"
    source, target = f"{directory}/{name}", f"{state}/{name}"
    try:
        io.replace(source, b"")
        io.move(source, target)
    except OSError as error:
        return (
            f"HDFS does not let files move from here to {state} ({error.strerror}); if the table is an encryption "
            "zone, make the folder .packstone in its root with a folder of the table's name in it, and run again"
        )
    finally:
        for left in (source, target):
            io.remove(left)
    return None


def _as_hdfs(io: FileIO, path: str) -> HdfsFileIO | None:
    """Return the store of a path if it is an HDFS; does not import the HDFS code for other stores."""
    if scheme_of(path) != "hdfs":
        return None
    from packstone.storage.hdfs import HdfsFileIO

    return io if isinstance(io, HdfsFileIO) else None


def _snapshots(io: HdfsFileIO, folder: str) -> Iterator[tuple[str, str]]:
    if io.stat(f"{folder}/{_SNAPSHOTS}") is None:
        return
    count = sum(1 for _ in io.list_dir(f"{folder}/{_SNAPSHOTS}"))
    if count:
        yield (
            "hdfs-snapshots",
            f"{count} snapshots of {folder} keep the blocks of merged files; space comes back when they are deleted",
        )


def _quotas(io: HdfsFileIO, folder: str) -> Iterator[tuple[str, str]]:
    from packstone.storage.hdfs import NO_QUOTA

    summary = io.read_summary(folder)
    names = summary.file_count + summary.directory_count
    if summary.quota < NO_QUOTA and names >= _NEARLY_FULL * summary.quota:
        yield "hdfs-quota", f"{folder} holds {names:,} of {summary.quota:,} names that its quota allows"
    if summary.space_quota >= NO_QUOTA:
        return
    used, most = format_bytes(summary.space_consumed), format_bytes(summary.space_quota)
    says = f"{folder} holds {used} of {most} that its quota allows, copies included"
    if summary.space_consumed >= _NEARLY_FULL * summary.space_quota:
        yield "hdfs-quota", says
    elif summary.space_quota - summary.space_consumed < io.block_bytes():
        yield "hdfs-quota", f"{says}; a file takes a block of {format_bytes(io.block_bytes())} while it is written"


_CHUNK_BYTES: Final = 8 << 20


def copy_file(io: FileIO, source: str, target: str) -> None:
    """Copy a file within a store, durably and with bounded memory, and read the copy back to verify it.

    The copy is not more accessible than the source. FileNotFoundError if the source is missing; CorruptionError if the
    copy differs, which includes a source that changes while it is copied.
    """
    found = io.stat(source)
    if found is None:
        raise FileNotFoundError(2, "There is no such file", source)
    private = io.limited(found.permissions.mode) if io.capabilities.has_folders else io
    output = private.open_output(target)
    try:
        copied = _digest(io, source, write=output.write)
    except BaseException:
        abandon_output(output)
        raise
    output.close()
    io.sync_file(target)
    if copied != _digest(io, target) or copied[0] != found.size_bytes:
        raise CorruptionError(f"The copy {target} differs from {source}; nothing was published.", file=target)


def _digest(io: FileIO, path: str, *, write: Callable[[bytes], Any] = len) -> tuple[int, bytes]:
    """Return the size and the digest of a file; passes its chunks to ``write``."""
    digest = hashlib.blake2b()
    with io.open_input(path) as read:
        size, at = read.size(), 0
        while at < size:
            chunk = read.read_at(min(_CHUNK_BYTES, size - at), at)
            if not chunk:
                break  # the file became shorter: the returned size shows it
            digest.update(chunk)
            write(chunk)
            at += len(chunk)
    return at, digest.digest()
