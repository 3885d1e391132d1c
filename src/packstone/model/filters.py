"""Which partitions a command may touch, when, and how much of them."""

from __future__ import annotations

from dataclasses import dataclass

from packstone.errors import InvalidInputError
from packstone.model.time_window import TimeWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Conditions on partitions and on the time of day; all must hold."""

    where: str | None = None
    older_than_seconds: float = 0.0
    exclude: tuple[str, ...] = ()
    window: TimeWindow | None = None

    def check_honoured(self, honoured: frozenset[str], *, family: str) -> None:
        """Raise InvalidInputError for a condition that a family cannot apply: ignored, it would touch too much."""
        given = {"where": self.where, "older_than": self.older_than_seconds, "exclude": self.exclude}
        for name, value in given.items():
            if value and name not in honoured:
                raise InvalidInputError(f"{family} cannot be filtered by {name.replace('_', '-')}.", filter=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much one run may do; what does not fit is left for the next run and named."""

    max_bytes: int | None = None
    max_files: int | None = None
    max_seconds: float | None = None
    parallel: int | None = None

    def __post_init__(self) -> None:
        if self.max_files is not None and self.max_files < 1:
            raise InvalidInputError(f"--max-files is {self.max_files}; it must be at least 1.")
        if self.max_seconds is not None and not self.max_seconds >= 0:  # so written, NaN is refused too
            raise InvalidInputError(f"--max-seconds is {self.max_seconds:g}; it must not be negative.")
        if self.parallel is not None and self.parallel < 1:
            raise InvalidInputError(f"--parallel is {self.parallel}; it must be at least 1.")
