"""What may become of a segment, as one table. Every edit goes through it (`check_transition`).

CarbonData's other statuses (streaming, update, failure) are known by name only: nothing leads to them here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from packstone.errors import ConflictError
from packstone.model.segment import SegmentId, SegmentStatus
from packstone.tables.segments.status import StatusEntry

# How an entry comes into being: a load is announced, a merged segment appears finished.
FIRST: Final = frozenset(
    {
        SegmentStatus.IN_PROGRESS,
        SegmentStatus.OVERWRITE_IN_PROGRESS,
        SegmentStatus.SUCCESS,
        SegmentStatus.PARTIAL_SUCCESS,  # a member had bad rows
    }
)

_LOADED: Final = frozenset({SegmentStatus.SUCCESS, SegmentStatus.PARTIAL_SUCCESS, SegmentStatus.MARKED_FOR_DELETE})
_RETIRING: Final = frozenset({SegmentStatus.COMPACTED, SegmentStatus.MARKED_FOR_DELETE})

TRANSITIONS: Final[Mapping[SegmentStatus, frozenset[SegmentStatus]]] = {
    SegmentStatus.IN_PROGRESS: _LOADED,  # marked for delete: it failed, was empty, or its process died
    SegmentStatus.OVERWRITE_IN_PROGRESS: _LOADED,
    SegmentStatus.SUCCESS: _RETIRING,
    SegmentStatus.PARTIAL_SUCCESS: _RETIRING,
    SegmentStatus.MARKED_FOR_UPDATE: _RETIRING,
    SegmentStatus.COMPACTED: frozenset(),  # clean removes it and writes it into the history
    SegmentStatus.MARKED_FOR_DELETE: frozenset(),
    SegmentStatus.STREAMING: frozenset(),
    SegmentStatus.STREAMING_FINISH: frozenset(),
    SegmentStatus.FAILURE: frozenset(),
    SegmentStatus.UPDATE: frozenset(),
}

VISIBLE: Final = frozenset(status for status, later in TRANSITIONS.items() if later == _RETIRING)  # readers see it
DELETABLE: Final = VISIBLE  # by id or by date
MERGEABLE: Final = VISIBLE
RETIRED: Final = _RETIRING  # in the retired list, not among the entries


def check_transition(segment: SegmentId, before: SegmentStatus, after: SegmentStatus) -> None:
    """Raise ConflictError unless the table allows the step."""
    if after not in TRANSITIONS[before]:
        raise ConflictError(
            f"Segment {segment} is {before} and cannot become {after}; somebody else was quicker.", segment=str(segment)
        )


def retire(
    entry: StatusEntry, after: SegmentStatus, *, now_ms: int, merged_into: SegmentId | None = None
) -> StatusEntry:
    """The entry as it stands in the retired list."""
    check_transition(entry.id, entry.status, after)
    return replace(entry, status=after, modified_ms=now_ms, merged_into=merged_into)
