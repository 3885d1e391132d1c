"""Filters and budgets: which parts of a table a command may touch, when, and how much of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from packstone.errors import InvalidInputError
from packstone.model.sizes import format_bytes, plural
from packstone.model.times import TimeWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Conditions on partitions, on ages and on the time of day; all must hold.

    The family decides what must be older than ``min_age_seconds``: a file of a Hive directory, a partition of a Paimon
    table (its newest file), a segment (its newest load).
    """

    where: str | None = None
    min_age_seconds: float = 0.0
    exclude: tuple[str, ...] = ()
    window: TimeWindow | None = None

    def __post_init__(self) -> None:
        if not self.min_age_seconds >= 0:  # written this way, it refuses NaN too
            raise InvalidInputError(f"min_age_seconds is {self.min_age_seconds:g}; it must not be negative.")

    def check_honoured(self, honoured: frozenset[str], *, family: str) -> None:
        """Raise InvalidInputError for a condition that a family cannot apply: ignoring it would touch too much."""
        given = {"where": self.where, "min_age": self.min_age_seconds, "exclude": self.exclude}
        for name, value in given.items():
            if value and name not in honoured:
                raise InvalidInputError(f"{family} cannot be filtered by {name.replace('_', '-')}.", filter=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much one run may do; what does not fit is left for the next run and named."""

    max_bytes: int | None = None
    max_files: int | None = None
    max_seconds: float | None = None  # no part begins after this duration
    parallel: int | None = None  # units that run at once

    def __post_init__(self) -> None:
        if self.max_files is not None and self.max_files < 1:
            raise InvalidInputError(f"max_files is {self.max_files}; it must be at least 1.")
        if self.max_seconds is not None and not self.max_seconds >= 0:  # written this way, it refuses NaN too
            raise InvalidInputError(f"max_seconds is {self.max_seconds:g}; it must not be negative.")
        if self.parallel is not None and self.parallel < 1:
            raise InvalidInputError(f"--parallel is {self.parallel}; it must be at least 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What is left of a budget."""

    budget: Budget
    bytes_used: int = 0
    files_used: int = 0

    def why_not(self, size_bytes: int, files: int) -> str:
        """Say which limit this much more work would exceed; empty if none."""
        max_bytes, max_files = self.budget.max_bytes, self.budget.max_files
        if max_bytes is not None and self.bytes_used + size_bytes > max_bytes:
            return f"over the budget of --max-bytes {format_bytes(max_bytes)}"
        if max_files is not None and self.files_used + files > max_files:
            return f"over the budget of {plural(max_files, 'file')}"
        return ""

    def less(self, size_bytes: int, files: int) -> Allowance:
        """What is left after this much more work."""
        return replace(self, bytes_used=self.bytes_used + size_bytes, files_used=self.files_used + files)
