"""The history's records of a run: a ``RunRecord``, for each unit a ``UnitRecord``, for each skip a ``SkipRecord``.

They answer the questions people ask weeks later, on a dashboard as well as on the command line: how many
files and bytes were saved, what failed and why, and how long the same rows took to read before and after.
Read times are None where nothing was read twice (``verified`` is ``none``, a metadata-only upgrade): a
zero would drag every average down.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from packstone.errors import InvalidInputError
from packstone.model.sizes import format_bytes, format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run over one table; the same keys and meanings as the JSON of ``packstone compact``."""

    run: str
    command: str
    family: str
    table: str
    strategy: str
    status: str
    started_at: datetime
    finished_at: datetime
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int
    verified: str
    seconds: float
    verify_seconds: float
    swap_ms: float
    read_seconds_before: float | None
    read_seconds_after: float | None
    host: str
    user: str
    packstone_version: str
    message: str = ""

    def __post_init__(self) -> None:
        """Keep both times in UTC, so that equal instants are equal records."""
        object.__setattr__(self, "started_at", to_utc(self.started_at))
        object.__setattr__(self, "finished_at", to_utc(self.finished_at))

    def __str__(self) -> str:
        """Print as ``r1 committed /lake/t: 100 -> 2 files, 50.0 MB -> 48.0 MB in 1.2 s``."""
        return (
            f"{self.run} {self.status} {self.table}: {self.files_before} -> {self.files_after} files, "
            f"{format_bytes(self.bytes_before)} -> {format_bytes(self.bytes_after)} "
            f"in {format_duration(self.seconds)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRecord:
    """One unit of a run: some files of one partition that became others, or the reason why they did not."""

    run: str
    partition: str
    unit: int
    how: str
    status: str
    why: str
    inputs: int
    outputs: int
    bytes_before: int
    bytes_after: int
    rows: int
    fingerprint: str
    read_seconds_before: float | None
    read_seconds_after: float | None
    seconds: float
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Print as ``r1 u0 dt=2019-07-01 committed rewrite: 50 -> 1 files, 25.0 MB -> 24.0 MB``."""
        return (
            f"{self.run} u{self.unit} {self.partition or '.'} {self.status} {self.how}: "
            f"{self.inputs} -> {self.outputs} files, "
            f"{format_bytes(self.bytes_before)} -> {format_bytes(self.bytes_after)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipRecord:
    """Something that a run left alone, and why; ``kind`` is a ``SkipKind``."""

    run: str
    what: str
    why: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Everything the history stores about a run."""

    run: RunRecord
    units: tuple[UnitRecord, ...] = ()
    skips: tuple[SkipRecord, ...] = ()


def to_utc(moment: datetime) -> datetime:
    """Return the same instant in UTC; InvalidInputError for a time without a zone, which names no instant."""
    if moment.utcoffset() is None:
        raise InvalidInputError(f"The time {moment.isoformat()} has no time zone; give an aware datetime.")
    return moment.astimezone(UTC)


VERSION: Final = "0.1.0"  # of this package, as written into records and snapshots
