"""The parts of a merge tree: data files with a key range and a level, and sorted runs of them.

On level 0 every file is a run of its own; on each higher level, all files together are one run. Both print in one line
and parse back::

    L0 f7 10MB                                 a run: level, name, bytes
    L0 f7 [a-f] 10MB deletes=3 dv expired      a file: level, name, smallest and largest key, bytes, facts
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

from packstone.errors import InvalidInputError
from packstone.model.sizes import ExactSize

UNKNOWN = "?"
_RUN = re.compile(r"L(?P<level>[0-9]+) (?P<name>\S+) (?P<size>[0-9]+[KMGT]?B?)")
_FILE = re.compile(
    r"L(?P<level>[0-9]+) (?P<name>\S+) \[(?P<min>[^\]-]+)-(?P<max>[^\]-]+)\] (?P<size>[0-9]+[KMGT]?B?)"
    r"(?: seq=(?P<first>[0-9]+)-(?P<last>[0-9]+))?(?: created=(?P<created>[0-9]+))?"
    r"(?: deletes=(?P<deletes>[0-9]+|\?))?(?P<dv> dv)?(?P<expired> expired)?"
)


class Key(Protocol):
    """Anything with an order: a number, a string, memory-comparable bytes."""

    def __lt__(self, other: Any, /) -> bool:
        """Whether this key sorts first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """One data file of a merge tree, as far as decisions need it."""

    name: str
    level: int
    size_bytes: int
    min_key: Key
    max_key: Key
    delete_rows: int | None = 0  # None if its writer did not record it, so it may hold deletes
    has_deletion_vector: bool = False
    may_be_expired: bool = False
    min_sequence: int = 0
    max_sequence: int = 0
    created_ms: int = 0

    @property
    def may_hold_deletes(self) -> bool:
        """Whether a row of this file may be a delete marker."""
        return self.delete_rows != 0

    @classmethod
    def parse(cls, line: str) -> TreeFile:
        """Read a line such as ``L0 f7 [a-f] 10MB``; keys that are whole numbers compare as numbers."""
        match = _FILE.fullmatch(line)
        if match is None:
            raise InvalidInputError(f"{line!r} is not a file; write for example L0 f7 [1-9] 10MB.", value=line)
        deletes = match["deletes"] or "0"
        return cls(
            name=match["name"],
            level=int(match["level"]),
            size_bytes=ExactSize.parse(match["size"]),
            min_key=_key(match["min"]),
            max_key=_key(match["max"]),
            delete_rows=None if deletes == UNKNOWN else int(deletes),
            has_deletion_vector=match["dv"] is not None,
            may_be_expired=match["expired"] is not None,
            min_sequence=int(match["first"] or 0),
            max_sequence=int(match["last"] or 0),
            created_ms=int(match["created"] or 0),
        )

    def __str__(self) -> str:
        facts = [
            f"seq={self.min_sequence}-{self.max_sequence}" if self.max_sequence else "",
            f"created={self.created_ms}" if self.created_ms else "",
            f"deletes={UNKNOWN if self.delete_rows is None else self.delete_rows}" if self.may_hold_deletes else "",
            "dv" if self.has_deletion_vector else "",
            "expired" if self.may_be_expired else "",
        ]
        main = f"L{self.level} {self.name} [{self.min_key}-{self.max_key}] {ExactSize(self.size_bytes)}"
        return " ".join([main, *filter(None, facts)])


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRun:
    """A set of files whose keys do not overlap; ``files`` is needed only by rules that inspect single files."""

    level: int
    size_bytes: int
    name: str = ""
    files: tuple[TreeFile, ...] = ()

    @classmethod
    def parse(cls, line: str) -> SortedRun:
        """Read a line such as ``L0 f7 10MB``."""
        match = _RUN.fullmatch(line)
        if match is None:
            raise InvalidInputError(f"{line!r} is not a sorted run; write for example L0 f7 10MB.", value=line)
        return cls(level=int(match["level"]), name=match["name"], size_bytes=ExactSize.parse(match["size"]))

    def __str__(self) -> str:
        return f"L{self.level} {self.name} {ExactSize(self.size_bytes)}"


class Level(int):
    """A level of a merge tree; prints as ``L4``."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"L{int(self)}"


def _key(text: str) -> Key:
    return int(text) if text.isdecimal() else text
