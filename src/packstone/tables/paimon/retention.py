"""Which snapshots are over: Paimon's rule, as a pure function.

keep at least ``retained_min`` and, if they are old enough, no more than ``retained_max``
a snapshot goes only if its *successor* is older than ``time_retained_ms``: whoever began to read it when it was the
newest had that long
what a consumer has still to read stays, and all after it
at most ``limit`` go at once
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.model.sizes import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from packstone.tables.paimon.table_options import TableOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """The options ``snapshot.num-retained.min`` and ``.max``, ``snapshot.time-retained``, ``snapshot.expire.limit``."""

    retained_min: int = 10
    retained_max: int = 2**31 - 1
    time_retained_ms: int = 3_600_000
    limit: int = 50

    @classmethod
    def of(cls, options: TableOptions) -> RetentionOptions:
        """Take them from the table."""
        return cls(
            retained_min=options.snapshot_retained_min,
            retained_max=options.snapshot_retained_max,
            time_retained_ms=options.snapshot_time_retained_ms,
            limit=options.snapshot_expire_limit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expirable:
    """The snapshots that may go, oldest first, the first one that stays, and why no more go."""

    expired: tuple[int, ...]
    first_retained: int
    why: str


def pick_expired(
    ids: Sequence[int],
    *,
    time_ms: Callable[[int], int],
    options: RetentionOptions,
    now_ms: int,
    next_to_consume: int | None = None,
) -> Expirable:
    """Choose the snapshots that are over. ``ids`` is not empty; ``time_ms`` tells when one of them was committed."""
    earliest, latest = ids[0], ids[-1]
    bounds = [
        (latest - max(options.retained_min, 1) + 1, _always_kept(max(options.retained_min, 1))),
        (earliest + options.limit, f"at most {options.limit} go at once"),
    ]
    if next_to_consume is not None:
        bounds.append((next_to_consume, f"a consumer has not read snapshot {next_to_consume} yet"))
    end, why = min(bounds)
    for snapshot_id in (at for at in ids if max(latest - options.retained_max + 1, earliest) <= at < end):
        following = next((at for at in ids if at > snapshot_id), latest)
        if now_ms - options.time_retained_ms <= time_ms(following):
            end, why = (
                snapshot_id,
                f"snapshot {following} is younger than {format_duration(options.time_retained_ms / 1000)}",
            )
            break
    expired = tuple(at for at in ids if at < end)
    first = next(at for at in ids if at >= end) if end > earliest else earliest
    return Expirable(expired=expired, first_retained=first, why=why)


def _always_kept(count: int) -> str:
    return "the newest snapshot is always kept" if count == 1 else f"{count} snapshots are always kept"
