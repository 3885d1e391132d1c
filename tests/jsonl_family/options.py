"""How a JSON-lines table is compacted."""

from __future__ import annotations

from dataclasses import dataclass

from packstone.errors import InvalidInputError
from packstone.model.sizes import parse_bytes, parse_count, parse_number
from packstone.tables.family import Options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlOptions(Options):
    """Which files are small, and how long replaced files are kept."""

    strategy: str = "small-files"
    verify: str = "content"
    target_bytes: int = option(
        "target-size", parse_bytes, default=120 << 20, shown="120M", text="Merge files that are smaller than this."
    )
    keep_days: float = option("keep-days", parse_number, default=7.0, shown="7", text="Keep replaced files this long.")
    fan_in: int = option(
        "fan-in", parse_count, default=2, shown="2", text="Leave a partition alone that has fewer small files."
    )

    def __post_init__(self) -> None:
        if not self.keep_days >= 0:
            raise InvalidInputError(f"keep-days is {self.keep_days:g}; it must not be negative.")
        if self.fan_in < 2:
            raise InvalidInputError(f"fan-in is {self.fan_in}; it must be at least 2.")
