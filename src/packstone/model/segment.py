"""A segment: one load, or the merge of several, as strategies and people see it.

An id is a pair of whole numbers, printed ``12`` or ``12.3``: the smallest load inside, and how many merges its first
member went through. As a decimal fraction, 0.10 would equal 0.1 and sort before 0.2; as a pair it does neither.

A segment prints in one line and parses back, defaults left out::

    ID[:MB][@DAY][=STATUS][+major][+external][-DELETED%]
    0.1:300   7:12.5@3   4=marked-for-delete   0.2:900@9+major   5:80-40%
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from packstone.errors import InvalidInputError
from packstone.model.codec import Count
from packstone.model.sizes import format_mb, parse_mb

_ID = re.compile(r"(0|[1-9][0-9]*)(?:\.([1-9][0-9]*))?")
_SEGMENT = re.compile(
    r"(?P<id>[0-9.]+)(?::(?P<mb>[0-9]+(?:\.[0-9]+)?))?(?:@(?P<day>-?[0-9]+))?(?:=(?P<status>[a-z-]+))?"
    r"(?P<major>\+major)?(?P<external>\+external)?(?:-(?P<deleted>[0-9]{1,2})%)?"
)


class SegmentStatus(StrEnum):
    """The status of a load; CarbonData's words in lower case with hyphens."""

    SUCCESS = "success"
    PARTIAL_SUCCESS = "partial-success"
    MARKED_FOR_UPDATE = "marked-for-update"
    STREAMING = "streaming"
    STREAMING_FINISH = "streaming-finish"
    IN_PROGRESS = "in-progress"
    OVERWRITE_IN_PROGRESS = "overwrite-in-progress"
    COMPACTED = "compacted"
    MARKED_FOR_DELETE = "marked-for-delete"
    FAILURE = "failure"
    UPDATE = "update"


@dataclass(frozen=True, slots=True, order=True)
class SegmentId:
    """The first load of a segment, and the number of merges; compares as a pair."""

    load: Count
    merges: Count = 0

    @classmethod
    def parse(cls, text: str) -> SegmentId:
        """Read ``12`` or ``12.3``."""
        match = _ID.fullmatch(text)
        if match is None:
            raise InvalidInputError(f"{text!r} is not a segment id; write for example 12 or 0.1.", value=text)
        return cls(int(match[1]), int(match[2] or 0))

    def __str__(self) -> str:
        return f"{self.load}.{self.merges}" if self.merges else str(self.load)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One entry of a table's status, as far as decisions need it."""

    id: SegmentId
    size_bytes: int = 0
    load_day: int = 0  # a count of calendar days; only differences matter
    status: SegmentStatus = SegmentStatus.SUCCESS
    is_major: bool = False
    is_external: bool = False  # in another format, added by reference; never merged
    deleted_pct: int = 0  # of its rows, rounded down

    @classmethod
    def parse(cls, text: str) -> Segment:
        """Read one item of the grammar above."""
        match = _SEGMENT.fullmatch(text)
        if match is None:
            raise InvalidInputError(
                f"{text!r} is not a segment; write ID[:MB][@DAY][=STATUS][+major][+external][-DELETED%], for example "
                "0.1:300@5.",
                value=text,
            )
        return cls(
            id=SegmentId.parse(match["id"]),
            size_bytes=parse_mb(Decimal(match["mb"] or 0)),
            load_day=int(match["day"] or 0),
            status=_status(match["status"] or SegmentStatus.SUCCESS),
            is_major=match["major"] is not None,
            is_external=match["external"] is not None,
            deleted_pct=int(match["deleted"] or 0),
        )

    def __str__(self) -> str:
        size = f":{format_mb(self.size_bytes)}" if self.size_bytes else ""
        day = f"@{self.load_day}" if self.load_day else ""
        status = "" if self.status is SegmentStatus.SUCCESS else f"={self.status}"
        deleted = f"-{self.deleted_pct}%" if self.deleted_pct else ""
        return f"{self.id}{size}{day}{status}{'+major' * self.is_major}{'+external' * self.is_external}{deleted}"


def _status(text: str) -> SegmentStatus:
    try:
        return SegmentStatus(text)
    except ValueError:
        known = ", ".join(SegmentStatus)
        raise InvalidInputError(f"{text!r} is not a segment status; use one of {known}.", value=text) from None
