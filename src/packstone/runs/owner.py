"""The owner of a partition: a file that is created if absent, and taken over only from a dead owner.

Owner files are numbered, ``<folder>/000001.json``, and the highest number is the owner. A claim creates the
next number exclusively. Why not one file that is removed and created again: two processes that both find
a dead owner would race, and the slower one would remove the file the quicker one has just made (ABA).
With numbers the slower one finds its number taken, and loses.

``liveness`` decides whether an owner is dead; ``take_over`` never takes from a process that is known to run.

Owner files are not synced, because a power cut ends the owner too. It may leave an owner file that is empty or full of
zeros: that is a dead owner, which may have left a swap half-done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packstone.errors import ConflictError, CorruptionError
from packstone.model.codec import AbsolutePath, RunId, dump_record, load_record
from packstone.runs.liveness import ProcessIdentity

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The content of an owner file."""

    run: RunId
    process: ProcessIdentity
    heartbeat_path: AbsolutePath
    released: bool = False
    unfinished: bool = False  # released with a swap half-done: the next owner must look for it

    @property
    def is_clean(self) -> bool:
        """Whether nothing can be half-done: the owner recorded that itself."""
        return self.released and not self.unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownOwner:
    """A damaged owner file: a run owns the partition, or did."""

    why: str
    is_lost: bool = False  # a power cut took its content: the run is dead


def is_dead(io: FileIO, owner: Owner, *, now_seconds: float) -> bool:
    """Whether an owner may be taken over without the user's permission."""
    if owner.released:
        return True
    heartbeat = io.stat(owner.heartbeat_path)
    if heartbeat is None:  # its run has ended, though its process may live on and could not record that (a full disk)
        return True
    return owner.process.is_dead(heartbeat_seconds=heartbeat.mtime_ns / 1e9, now_seconds=now_seconds)


def may_take_over(io: FileIO, owner: Owner, *, now_seconds: float, take_over: bool) -> bool:
    """Whether an owner's work may be taken over: it is dead, or the user says so and it is on another host."""
    return is_dead(io, owner, now_seconds=now_seconds) or (take_over and not owner.process.is_on_this_host())


def read_owner(io: FileIO, folder: str) -> tuple[int, Owner | UnknownOwner | None]:
    """Read the current owner and its number; (0, None) if there never was a claim."""
    number = _latest_number(io, folder)
    if number == 0:
        return 0, None
    path = _path(folder, number)
    try:
        data = io.read_bytes(path)
        if not data.strip(b"\0"):
            return number, UnknownOwner(why=f"{path} is empty.", is_lost=True)
        return number, load_record(Owner, data, path=path)
    except FileNotFoundError:  # removed by a newer owner since the listing; read again
        return read_owner(io, folder)
    except CorruptionError as error:
        return number, UnknownOwner(why=error.message)


def _latest_number(io: FileIO, folder: str) -> int:
    try:
        stems = [entry.name.removesuffix(".json") for entry in io.list_dir(folder) if entry.name.endswith(".json")]
    except FileNotFoundError:
        return 0
    return max((int(stem) for stem in stems if stem.isascii() and stem.isdigit()), default=0)


def claim(io: FileIO, folder: str, owner: Owner, *, what: str, now_seconds: float, take_over: bool = False) -> int:
    """Become the owner and return the number of the claim; ConflictError if a live run is the owner."""
    return succeed(io, folder, owner, what=what, now_seconds=now_seconds, take_over=take_over)[0]


def succeed(
    io: FileIO, folder: str, owner: Owner, *, what: str, now_seconds: float, take_over: bool = False
) -> tuple[int, Owner | UnknownOwner | None]:
    """Become the owner as ``claim`` does; return the number of the claim and the previous owner."""
    io.make_dirs(folder, durable=False)
    number, present = read_owner(io, folder)
    if isinstance(present, UnknownOwner):
        if not present.is_lost and not take_over:
            raise ConflictError(f"{present.why} Give --take-over if you are sure that no other run works on {what}.")
    elif (
        present is not None
        and present.run != owner.run
        and not may_take_over(io, present, now_seconds=now_seconds, take_over=take_over)
    ):
        advice = "stop it" if present.process.is_on_this_host() else "give --take-over if you are sure that it is dead"
        why = f"owned by run {present.run} ({present.process}); wait for it, or {advice}"
        raise ConflictError(f"{what} is {why}.", owner=present.run, why=why)
    try:
        io.write_new(_path(folder, number + 1), dump_record(owner), durable=False)
    except FileExistsError:
        raise ConflictError(f"{what} was just claimed by another run; try again later.") from None
    check_owned(io, folder, number + 1, what=what)
    for old in range(max(1, number - 8), number + 1):
        io.remove(_path(folder, old))
    return number + 1, present


def check_owned(io: FileIO, folder: str, number: int, *, what: str) -> None:
    """Raise ConflictError unless the claim is still the highest; called again before every swap."""
    if _latest_number(io, folder) != number:
        raise ConflictError(f"{what} was taken over by another run; nothing more is changed there.")


def release(io: FileIO, folder: str, *, number: int, owner: Owner, unfinished: bool = False) -> None:
    """Release the partition; the number stays taken, so that a slow rival cannot reuse it."""
    record = dump_record(replace(owner, released=True, unfinished=unfinished))
    io.replace(_path(folder, number), record, durable=False)


def _path(folder: str, number: int) -> str:
    return f"{folder}/{number:06d}.json"
