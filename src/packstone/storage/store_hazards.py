"""What a store itself puts in the way of a merge: no rename; snapshots, quotas and walls of HDFS."""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING, Final

from packstone.model.sizes import format_bytes
from packstone.storage.hdfs import NO_QUOTA, HdfsFileIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.storage.fileio import FileIO

_NEARLY_FULL: Final = 0.8
_SNAPSHOTS: Final = ".snapshot"


def find_store_hazards(io: FileIO, path: str) -> Iterator[tuple[str, str]]:
    """Name the hazards of the folder and of what is above it, each with its evidence."""
    if not io.capabilities.atomic_rename:
        yield (
            "object-store",
            "there is no atomic rename here: no merging in place, only `--publish location`",
        )
    if not isinstance(io, HdfsFileIO):
        return
    at = path
    while at != io.settings.url:
        yield from _snapshots(io, at)
        yield from _quotas(io, at)
        at = posixpath.dirname(at)
    yield from _snapshots(io, at)  # the root's quotas are not asked: its summary walks over all there is


def why_no_move(io: FileIO, directory: str, state: str) -> str | None:
    """Try a rename from a partition to our own folder; say why it fails, before anything depends on it.

    HDFS renames within one encryption zone only, and the library does not tell zones. On local disks the store's id
    tells all.
    """
    if not isinstance(io, HdfsFileIO):
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
