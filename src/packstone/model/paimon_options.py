"""What a compaction of a Paimon table is told, beside the table's own options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from packstone.errors import InvalidInputError
from packstone.model.unit import Verify

PartitionSpec: TypeAlias = tuple[tuple[str, str], ...]
_BUCKETS = re.compile(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?")
_GB = 1 << 30
_MB = 1 << 20


class PaimonStrategy(StrEnum):
    """How runs are chosen."""

    MINOR = "minor"  # the table's own: universal, or force-up-level0 where its options ask for it
    FULL = "full"
    UNIVERSAL = "universal"
    FORCE_UP_LEVEL0 = "force-up-level0"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonOptions:
    """How to compact, which buckets, and how the work is cut."""

    strategy: PaimonStrategy = PaimonStrategy.MINOR  # its name will do
    rules: str = "2.1"  # the generation of the universal rules
    partitions: tuple[PartitionSpec, ...] = ()  # any of these; empty: all
    buckets: tuple[tuple[int, int], ...] = ()  # ranges, both ends included; empty: all
    partition_idle_seconds: float | None = None
    overrides: tuple[tuple[str, str], ...] = ()  # table options for this run only
    leftovers: bool = False
    single_writer: bool = False  # nobody else writes to the table meanwhile; on object stores somebody has to say so
    verify: Verify = Verify.CONTENT
    accept_invalid_text: bool = False  # merge files whose strings are not UTF-8, such as Latin-1, too
    commit_every_bytes: int = 16 * _GB
    task_bytes: int = 256 * _MB  # a bigger rewrite is split by key over tasks
    memory_bytes: int = 256 * _MB

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", parse_strategy(self.strategy))
        if self.commit_every_bytes <= 0:
            raise InvalidInputError("--commit-every must be larger than zero, for example 16G.")
        if self.partition_idle_seconds is not None and self.partition_idle_seconds < 0:
            raise InvalidInputError("--partition-idle-time must not be negative.")


def parse_strategy(name: str) -> PaimonStrategy:
    """Read a strategy's name."""
    try:
        return PaimonStrategy(name)
    except ValueError:
        known = ", ".join(PaimonStrategy)
        raise InvalidInputError(f"{name} is no strategy for Paimon tables; use one of {known}.") from None


def parse_partitions(text: str) -> tuple[PartitionSpec, ...]:
    """Read ``p1=0,p2=0;p1=1``: commas join the columns of one partition, semicolons separate partitions."""
    specs = []
    for group in text.split(";"):
        pairs = [pair.partition("=") for pair in group.split(",")]
        if any(not name.strip() or not equals for name, equals, _ in pairs):
            raise InvalidInputError(f"--partitions {text} cannot be read; write for example p1=0,p2=0;p1=1.")
        specs.append(tuple((name.strip(), value.strip()) for name, _, value in pairs))
    return tuple(specs)


def parse_buckets(text: str) -> tuple[tuple[int, int], ...]:
    """Read ``5``, ``1,3`` or ``0-99,200-299``."""
    ranges = []
    for part in text.split(","):
        match = _BUCKETS.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise InvalidInputError(f"--buckets {text} cannot be read; write for example 5, 1,3 or 0-99.")
        ranges.append((first, last))
    return tuple(ranges)


def parse_overrides(pairs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Read ``k=v`` pairs."""
    found = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidInputError(f"--option {pair} is no KEY=VALUE.")
        found.append((name.strip(), value.strip()))
    return tuple(found)
