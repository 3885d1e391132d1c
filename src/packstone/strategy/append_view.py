"""Files of an append table as the strategies see them, and what a merge of some makes of them.

A file prints in one line and parses back::

    10MB                             its bytes
    10MB rows=100 deleted=21 dv=x compacted      and what is known of its rows
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.model.exact_size import ExactSize
from packstone.model.megabytes import MB

if TYPE_CHECKING:
    from packstone.strategy.pick import Decision

DEFAULT_TARGET_BYTES: Final = 256 * MB
DEFAULT_MIN_FILES: Final = 5
_FILE = re.compile(
    r"(?P<size>[0-9]+[KMGT]?B?)(?: rows=(?P<rows>[0-9]+))?(?: deleted=(?P<deleted>[0-9]+|\?))?(?: dv=(?P<dv>\S+))?"
    r"(?P<compacted> compacted)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFile:
    """One file of a partition or bucket, in the order of its rows."""

    size_bytes: int
    rows: int = 0
    deleted_rows: int | None = 0  # by deletion vectors; None: not known
    dv_index: str = ""  # the index file that holds its deletion vector, if it has one
    is_compacted: bool = False  # written by a compaction

    @property
    def has_deletion_vector(self) -> bool:
        """Whether rows of it are marked as deleted."""
        return self.dv_index != ""

    @classmethod
    def parse(cls, line: str) -> AppendFile:
        """Read a line such as ``10MB rows=100 deleted=21 dv=x``."""
        match = _FILE.fullmatch(line)
        if match is None:
            raise InvalidInputError(f"{line!r} is no file; write for example 10MB or 10MB rows=9 deleted=3 dv=x.")
        deleted = match["deleted"] or "0"
        return cls(
            size_bytes=ExactSize.parse(match["size"]),
            rows=int(match["rows"] or 0),
            deleted_rows=None if deleted == "?" else int(deleted),
            dv_index=match["dv"] or "",
            is_compacted=match["compacted"] is not None,
        )

    def __str__(self) -> str:
        facts = [
            f"rows={self.rows}" if self.rows else "",
            f"deleted={'?' if self.deleted_rows is None else self.deleted_rows}" if self.deleted_rows != 0 else "",
            f"dv={self.dv_index}" if self.dv_index else "",
            "compacted" if self.is_compacted else "",
        ]
        return " ".join([str(ExactSize(self.size_bytes)), *filter(None, facts)])


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendView:
    """The files of one partition (unaware buckets) or of one bucket, and how long they have waited."""

    files: tuple[AppendFile, ...]
    rounds_waited: int = 0  # earlier rounds that packed nothing; only a streaming job counts them


def roll(size_bytes: int, *, target_bytes: int) -> tuple[int, ...]:
    """Cut a merged size into files as a rolling writer does; nothing still makes one empty file."""
    full, rest = divmod(size_bytes, target_bytes)
    return (target_bytes,) * full + ((rest,) if rest or not full else ())


def apply_append_decision(view: AppendView, decision: Decision[ExactSize], *, target_bytes: int) -> AppendView:
    """Put the merged files, rolled at the target, in the place of each pick's first input."""
    made: dict[int, tuple[AppendFile, ...]] = {}
    gone: set[int] = set()
    for pick in decision.picks:
        gone.update(pick.inputs)
        made[min(pick.inputs)] = tuple(
            AppendFile(size_bytes=size, is_compacted=True) for size in roll(pick.output, target_bytes=target_bytes)
        )
    files: list[AppendFile] = []
    for at, file in enumerate(view.files):
        files.extend(made.get(at, () if at in gone else (file,)))
    return replace(view, files=tuple(files), rounds_waited=0 if gone else view.rounds_waited + 1)
