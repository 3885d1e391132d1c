"""What the fields of records may hold beyond their types: checks that the codec makes when it reads a record.

A record beside a table may have been damaged or made by somebody else, so a name must not lead elsewhere, and a number
must not be what no writer of ours writes.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

_RUN: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,79}")
_MAX_ID: Final = 1 << 32  # of a user, a group
_MAX_PID: Final = 1 << 31  # what kill() takes
_MAX_MODE: Final = 0o7777
_YEAR_9999: Final = 253_402_300_800


def check_name(name: str) -> None:
    """Make sure that a text is one component of a path: not empty, not a way up, no slash."""
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise ValueError(f"{name[:60]!r} is not the name of a file")


def checked_name(name: str) -> str:
    """Return the name of a file in somebody's metadata; ValueError if it leads to another folder."""
    check_name(name)
    return name


def check_relative(path: str) -> None:
    """A path below a folder, or the folder itself (empty)."""
    if path:
        for name in path.split("/"):
            check_name(name)


def check_absolute(path: str) -> None:
    """A path of this machine or of a store, without a way up."""
    scheme, colon, rest = path.partition("://")
    inside = rest.partition("/")[2] if colon and scheme.isalnum() else path[1:] if path.startswith("/") else None
    if inside is None or "\0" in path or not {".", ".."}.isdisjoint(inside.split("/")):
        raise ValueError(f"{path[:60]!r} is not an absolute path")


def check_run(run: str) -> None:
    """The id of a run, which is also the name of its folders."""
    if _RUN.fullmatch(run) is None:
        raise ValueError(f"{run[:60]!r} is not the id of a run")


def check_count(number: int) -> None:
    """A number of things, bytes or rows."""
    if number < 0:
        raise ValueError(f"{number} is less than nothing")


def check_pid(number: int) -> None:
    """The number of a process, as the operating system's calls take it."""
    if not 0 < number < _MAX_PID:
        raise ValueError(f"{number} is not the number of a process")


def check_owner_id(number: int) -> None:
    """The number of a user or a group; -1 where the store has none."""
    if not -1 <= number < _MAX_ID:
        raise ValueError(f"{number} is not the number of a user or a group")


def check_mode(mode: int) -> None:
    """The permission bits of a file."""
    if not 0 <= mode <= _MAX_MODE:
        raise ValueError(f"{mode} is not the mode of a file")


def check_seconds(seconds: float) -> None:
    """A moment, in seconds since 1970, that a calendar can show."""
    if not 0 <= seconds < _YEAR_9999:
        raise ValueError(f"{seconds} is not a moment since 1970")


Name: TypeAlias = Annotated[str, check_name]
RelativePath: TypeAlias = Annotated[str, check_relative]
AbsolutePath: TypeAlias = Annotated[str, check_absolute]
RunId: TypeAlias = Annotated[str, check_run]
Count: TypeAlias = Annotated[int, check_count]
Pid: TypeAlias = Annotated[int, check_pid]
OwnerId: TypeAlias = Annotated[int, check_owner_id]
Mode: TypeAlias = Annotated[int, check_mode]
Seconds: TypeAlias = Annotated[float, check_seconds]
