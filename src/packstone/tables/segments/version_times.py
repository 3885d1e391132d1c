"""When versions were written, though the clocks of writers differ.

A version has the time of its writer's clock, but never less than the previous version has: so times are in order, and a
clock that is behind does no harm. A clock that is ahead would: after one commit from next year, all that follows would
be of next year, and ``--as-of`` today would not find it. So a writer that finds the newest version more than ten
minutes in its future looks at what the clocks said in the last sixteen versions. If fewer clocks have to be wrong for
its own time to be right, it writes its own time, and ``ordered_since`` says that the order begins anew there.

*As of* a moment is the newest version, by number, that was written at or before it:

=======  =====  =====  ======  =====  =====
version  1      2      3       4      5
clock    10:00  10:05  +1 y    10:07  10:09
time     10:00  10:05  +1 y    10:07  10:09   as of 10:08: version 4;  as of 10:06: version 2
=======  =====  =====  ======  =====  =====
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from packstone.errors import CorruptionError

if TYPE_CHECKING:
    from packstone.tables.segments.status import StatusHeader, TableStatus

_TOLERANCE_MS: Final = 600_000  # clocks of one cluster differ by less
_WITNESSES: Final = 16

ReadHeader = Callable[[int], "StatusHeader"]  # of a version; FileNotFoundError if it is gone


def settle_time(base: TableStatus, *, now_ms: int, read_header: ReadHeader) -> tuple[int, int]:
    """The time of the version that follows ``base``, and since which version times are in order."""
    if now_ms >= base.written_ms:
        return now_ms, base.ordered_since
    if base.written_ms - now_ms > _TOLERANCE_MS:
        clocks = _last_clocks(base, read_header)
        with_ours = 1 + _longest_order([clock for clock in clocks if clock <= now_ms])
        if with_ours >= _longest_order(clocks):
            return now_ms, base.version + 1
    return base.written_ms, base.ordered_since


def list_runs(versions: range, read_header: ReadHeader) -> Iterator[range]:
    """Cut versions into runs whose times are in order, newest first; mostly there is one."""
    last = versions[-1]
    while last >= versions[0]:
        first = min(max(read_header(last).ordered_since, versions[0]), last)
        yield range(first, last + 1)
        last = first - 1


def find_version(versions: range, moment_ms: int, read_header: ReadHeader) -> int | None:
    """The newest version written at or before a moment; None if all are younger."""
    for run in list_runs(versions, read_header):
        count = _count_until(run, moment_ms, read_header)
        if count:
            return run[count - 1]
    return None


def first_needed(versions: range, cutoff_ms: int, *, now_ms: int, read_header: ReadHeader) -> int:
    """The version that was the newest at the cutoff: what came before it is older than the cutoff for certain.

    A version of the future is as old as the next one that is not: its writer's clock was ahead.
    """
    ahead: int | None = None  # where versions of the future begin, as long as nothing is found after them
    for run in [*list_runs(versions, read_header)][::-1]:
        late = _count_until(run, cutoff_ms, read_header)
        if late == len(run):
            ahead = None
            continue
        begin = ahead if late == 0 and ahead is not None else run[late]
        if _count_until(run, now_ms, read_header) > late:
            return max(begin - 1, versions[0])
        ahead = begin
    return versions[-1] if ahead is None else max(ahead - 1, versions[0])


def _count_until(run: range, moment_ms: int, read_header: ReadHeader) -> int:
    """How many of a run were written at or before a moment."""
    return bisect_right(run, moment_ms, key=lambda version: read_header(version).written_ms)


def _last_clocks(base: TableStatus, read_header: ReadHeader) -> list[int]:
    """What the clocks said in the last versions, the newest last."""
    found: list[StatusHeader | TableStatus] = [base]
    with contextlib.suppress(FileNotFoundError, CorruptionError):  # cleaned: then there are fewer witnesses
        for version in range(base.version - 1, max(0, base.version - _WITNESSES), -1):
            found.append(read_header(version))  # noqa: PERF401 - what came before an error stays
    return [one.written_ms if one.clock_ms is None else one.clock_ms for one in reversed(found)]


def _longest_order(clocks: list[int]) -> int:
    """How many of these can be right at once: the length of the longest part that never decreases."""
    ends: list[int] = []
    for clock in clocks:
        at = bisect_right(ends, clock)
        ends[at : at + 1] = [clock]
    return len(ends)
