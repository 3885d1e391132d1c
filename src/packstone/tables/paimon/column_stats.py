"""The statistics of a new data file, in the mode that the table asks for.

::

    none         nothing
    counts       the number of nulls
    truncate(n)  also smallest and largest value, strings and binaries cut to n characters (bytes)
    full         the same, uncut

A cut smallest value is a prefix; a cut largest one is a prefix whose last character is raised by one, so that it is
still not smaller than the value. If none can be raised, neither value is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from packstone.errors import InvalidInputError
from packstone.rewrite.merge.merge_spec import ColumnFacts, PlainValue
from packstone.tables.paimon.binary_row import encode_row
from packstone.tables.paimon.data_file_meta import SimpleStats
from packstone.tables.paimon.data_type import DataField
from packstone.tables.paimon.table_options import TableOptions

_MODE: Final = re.compile(r"(?P<name>none|counts|full|truncate)(?:\((?P<length>[0-9]+)\))?")
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)  # no characters of their own


class StatsKind(StrEnum):
    """How much is kept of a column."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsMode:
    """A kind, and for ``truncate`` the length."""

    kind: StatsKind
    length: int = 0

    def __str__(self) -> str:
        return f"truncate({self.length})" if self.kind is StatsKind.TRUNCATE else str(self.kind)


KEY_MODE: Final = StatsMode(kind=StatsKind.TRUNCATE, length=128)  # of key columns, whatever the table's mode


def parse_stats_mode(text: str) -> StatsMode:
    """Read ``none``, ``counts``, ``truncate(16)`` or ``full``."""
    match = _MODE.fullmatch(text.strip().lower())
    if match is None or (match["name"] == "truncate") != bool(int(match["length"] or 0)):
        raise InvalidInputError(
            f"{text!r} is no statistics mode; write none, counts, truncate(16) or full.", value=text
        )
    return StatsMode(kind=StatsKind(match["name"]), length=int(match["length"] or 0))


def stats_modes(
    fields: Sequence[DataField], options: TableOptions, *, level: int, given: Mapping[str, str]
) -> tuple[StatsMode, ...]:
    """The mode of each value column: ``fields.<name>.stats-mode``, else that of the level while columns are kept."""
    default = parse_stats_mode(options.stats_mode_of(level))
    kept = options.stats_keep_first_columns
    modes = []
    for number, field in enumerate(fields):
        own = given.get(f"fields.{field.name}.stats-mode")
        beyond = 0 <= kept <= number
        modes.append(parse_stats_mode(own) if own else StatsMode(kind=StatsKind.NONE) if beyond else default)
    return tuple(modes)


def value_stats(
    facts: Sequence[ColumnFacts], fields: Sequence[DataField], modes: Sequence[StatsMode], *, dense: bool = True
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Statistics of the value columns, and the names of those that have some; None if all have.

    Dense (Paimon's default) leaves the others out of the rows; otherwise they stand there as nulls.
    """
    columns = [_column(*three) for three in zip(facts, fields, modes, strict=True)]
    if not dense:
        return _stats(columns), None
    having = [column for column in columns if column.null_count is not None]
    names = tuple(column.field.name for column in having)
    return _stats(having), None if len(having) == len(fields) else names


def key_stats(facts: Sequence[ColumnFacts], fields: Sequence[DataField]) -> SimpleStats:
    """Statistics of the key columns."""
    return _stats([_column(fact, field, KEY_MODE) for fact, field in zip(facts, fields, strict=True)])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    field: DataField
    minimum: PlainValue = None
    maximum: PlainValue = None
    null_count: int | None = None  # None: there are no statistics of this column


def _stats(columns: Sequence[_Column]) -> SimpleStats:
    types = [column.field.type for column in columns]
    return SimpleStats(
        min_values=encode_row([column.minimum for column in columns], types),
        max_values=encode_row([column.maximum for column in columns], types),
        null_counts=tuple(column.null_count for column in columns),
    )


def _column(facts: ColumnFacts, field: DataField, mode: StatsMode) -> _Column:
    if mode.kind is StatsKind.NONE or not field.type.is_atomic:
        return _Column(field=field)
    if mode.kind is StatsKind.COUNTS:
        return _Column(field=field, null_count=facts.null_count)
    minimum, maximum = facts.minimum, facts.maximum
    if mode.kind is StatsKind.TRUNCATE:
        minimum, maximum = _cut(minimum, mode.length), _cut_up(maximum, mode.length)
    if minimum is None or maximum is None:
        minimum = maximum = None
    return _Column(field=field, minimum=minimum, maximum=maximum, null_count=facts.null_count)


def _cut(value: PlainValue, length: int) -> PlainValue:
    return value[:length] if isinstance(value, str | bytes) else value


def _cut_up(value: PlainValue, length: int) -> PlainValue:
    if not isinstance(value, str | bytes) or len(value) <= length:
        return value
    return _raise_text(value[:length]) if isinstance(value, str) else _raise_bytes(value[:length])


def _raise_text(prefix: str) -> str | None:
    """The smallest text that is greater than every text with this prefix."""
    for end in range(len(prefix) - 1, -1, -1):
        following = ord(prefix[end]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST_CHARACTER:
            return prefix[:end] + chr(following)
    return None


def _raise_bytes(prefix: bytes) -> bytes | None:
    """The same of bytes; none becomes 0x80, which is negative for Java Paimon up to 1.4."""
    kept = prefix.rstrip(b"\x7f\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
