"""The properties of a segment table under CarbonData's names: parsed, checked, with their defaults.

An invalid value is an error that names the property and what is allowed; CarbonData silently uses a default for some
and checks others differently at CREATE and at ALTER (research notes, trap B11). All of them can be altered (B12).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from packstone.errors import InvalidInputError
from packstone.rewrite.load.convert_rows import BadRecords
from packstone.strategy.major import DEFAULT_MAJOR_SIZE_MB
from packstone.strategy.minor import DEFAULT_THRESHOLD, MAX_THRESHOLD, REASONS
from packstone.strategy.segment_view import MAX_DAYS, MAX_PRESERVE, DaysRule
from packstone.tables.family import Option
from packstone.tables.segments.format.columns import TableColumn


class SortScope(StrEnum):
    """The range within which the rows of a load are sorted."""

    NO_SORT = "NO_SORT"  # input order
    LOCAL_SORT = "LOCAL_SORT"  # within what one task writes
    GLOBAL_SORT = "GLOBAL_SORT"  # over the whole segment


class Compression(StrEnum):
    """Codecs of data files."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    LZ4 = "lz4"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """All properties with their effective values."""

    sort_columns: tuple[str, ...] = ()  # as the schema spells them
    sort_scope: SortScope = SortScope.NO_SORT
    compaction_level_threshold: tuple[int, ...] = DEFAULT_THRESHOLD
    compaction_preserve_segments: int = 0
    allowed_compaction_days: int = 0
    compaction_days_rule: DaysRule = DaysRule.WINDOW
    compaction_deleted_pct: int = 20  # of the rows of a segment; 0: never
    major_compaction_size: int = DEFAULT_MAJOR_SIZE_MB  # MB
    minor_compaction_size: int | None = None  # MB; None: no cap
    auto_load_merge: bool = False
    table_blocksize: int = 256  # MB of a data file
    table_blocklet_rows: int = 131_072  # rows of a row group
    bloom_columns: tuple[str, ...] = ()  # as the schema spells them
    bloom_fpp: float = 0.01  # false-positive rate of a bloom filter
    compression: Compression = Compression.ZSTD
    bad_records_action: BadRecords = BadRecords.FAIL
    segment_retention_days: int = 7
    max_query_minutes: int = 60
    trash_retention_days: int = 7


# The properties that affect a compaction, so that one run may override them.
_FREE: Final = {
    "SORT_COLUMNS": "Sort rows by these columns.",
    "SORT_SCOPE": "How far rows are sorted: NO_SORT, LOCAL_SORT or GLOBAL_SORT.",
    "COMPACTION_LEVEL_THRESHOLD": "Number of segments of level 1 (2, 3) that minor merges; 0 turns a level off.",
    "COMPACTION_PRESERVE_SEGMENTS": "Leave this many of the newest segments alone.",
    "ALLOWED_COMPACTION_DAYS": "Merge only segments whose load days lie within this many days; 0: any.",
    "COMPACTION_DAYS_RULE": "Count days from the first segment (window), or back from today (recent).",
    "COMPACTION_DELETED_PCT": "Rewrite a segment when this percentage of its rows is deleted; 0: never.",
    "MAJOR_COMPACTION_SIZE": "Size in MB that a major compaction makes segments smaller than.",
    "MINOR_COMPACTION_SIZE": "Leave segments above this size in MB out of minor compactions.",
    "TABLE_BLOCKSIZE": "Size of a data file in MB.",
    "TABLE_BLOCKLET_ROWS": "Rows of a row group.",
    "BLOOM_COLUMNS": "Write bloom filters for these columns.",
    "BLOOM_FPP": "False-positive rate of the bloom filters.",
    "COMPRESSION": "Codec of data files: zstd, snappy, gzip, lz4 or none.",
}
PROPERTY_NAMES: Final = tuple(field.name.upper() for field in fields(Properties))
# A minute, so that no version is cleaned while a writer is about to publish the next one. A writer that is suspended
# longer than that can still find the outcome of its commit, but only until 64 others have followed (commit.py).
_LEAST_QUERY_MINUTES: Final = 1
_MOST_QUERY_MINUTES: Final = 10_080  # a week
_WITHOUT_BLOOM: Final = frozenset({"boolean", "float", "double"})  # two values; equal ones of different bytes
_SCOPE_WORDS: Final = {"NONE": SortScope.NO_SORT, "LOCAL": SortScope.LOCAL_SORT, "GLOBAL": SortScope.GLOBAL_SORT}


def parse_properties(raw: Mapping[str, str] | Iterable[tuple[str, str]], columns: Iterable[TableColumn]) -> Properties:
    """Parse properties; names may be in any case."""
    given = normalise(raw)
    columns = tuple(columns)
    values: dict[str, Any] = {name.lower(): _READERS[name](name, text) for name, text in given.items()}
    if "SORT_COLUMNS" in given:
        values["sort_columns"] = _sort_columns(given["SORT_COLUMNS"], columns)
    if "BLOOM_COLUMNS" in given:
        values["bloom_columns"] = _bloom_columns(given["BLOOM_COLUMNS"], columns)
    sort_columns = values.get("sort_columns", ())
    if sort_columns and "SORT_SCOPE" not in given:
        values["sort_scope"] = SortScope.LOCAL_SORT
    if not sort_columns and values.get("sort_scope", SortScope.NO_SORT) is not SortScope.NO_SORT:
        raise InvalidInputError(f"SORT_SCOPE is {values['sort_scope']} but no SORT_COLUMNS are given; name them.")
    return Properties(**values)


def normalise(raw: Mapping[str, str] | Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return properties with names in upper case, in their fixed order; refuse unknown names and duplicates."""
    given: dict[str, str] = {}
    for name, value in raw.items() if isinstance(raw, Mapping) else raw:
        upper = check_name(name)
        if upper in given:
            raise InvalidInputError(f"The property {upper} is given twice; give it once.", property=upper)
        given[upper] = value.strip()
    return {name: given[name] for name in PROPERTY_NAMES if name in given}


def check_name(name: str) -> str:
    """Return a property's name in upper case; InvalidInputError if it does not exist."""
    upper = name.strip().upper()
    if upper not in PROPERTY_NAMES:
        raise InvalidInputError(f"{name!r} is not a table property; use one of {', '.join(PROPERTY_NAMES)}.")
    return upper


def alter(
    raw: Iterable[tuple[str, str]], changes: Mapping[str, str | None], columns: Iterable[TableColumn]
) -> tuple[tuple[str, str], ...]:
    """Set properties, None resetting one to its default; checks the result as a whole."""
    if not changes:
        raise InvalidInputError("No property is given; say what to change, for example SORT_SCOPE=GLOBAL_SORT.")
    given = normalise(raw)
    for name, value in changes.items():
        upper = check_name(name)
        if value is None:
            given.pop(upper, None)
        else:
            given[upper] = value
    altered = normalise(given)
    parse_properties(altered, columns)
    return tuple(altered.items())


def describe(properties: Properties) -> tuple[tuple[str, str], ...]:
    """Return all properties as text, defaults included; each value parses back. Leaves out those without a value."""
    values = ((field.name.upper(), getattr(properties, field.name)) for field in fields(Properties))
    return tuple((name, _text(value)) for name, value in values if value is not None)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bad(name: str, text: str, allowed: str) -> InvalidInputError:
    return InvalidInputError(f"{name} is {text!r}; it must be {allowed}.", property=name, value=text)


def _number(least: int, most: int) -> Callable[[str, str], int]:
    def read(name: str, text: str) -> int:
        value = _whole(text)
        if value is None or not least <= value <= most:
            raise _bad(name, text, f"a whole number from {least} to {most}")
        return value

    return read


def _megabytes(least: int) -> Callable[[str, str], int]:
    def read(name: str, text: str) -> int:
        value = _whole(text.upper().removesuffix("B").removesuffix("M").rstrip())
        if value is None or value < least:
            raise _bad(name, text, f"a whole number of megabytes, at least {least}, for example 512 or 512MB")
        return value

    return read


def _word(kind: type[StrEnum], also: Mapping[str, StrEnum] | None = None) -> Callable[[str, str], StrEnum]:
    known = {word.value.upper(): word for word in kind}

    def read(name: str, text: str) -> StrEnum:
        found = {**known, **(also or {})}.get(text.upper())
        if found is None:
            raise _bad(name, text, f"one of {', '.join(kind)}")
        return found

    return read


def _yes_no(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _bad(name, text, "true or false")
    return text.lower() == "true"


def _levels(name: str, text: str) -> tuple[int, ...]:
    numbers = [_whole(part.strip()) for part in text.split(",")]
    good = [number for number in numbers if number is not None and number <= MAX_THRESHOLD]
    if len(good) != len(numbers) or len(good) > len(REASONS):
        raise _bad(name, text, f"one to {len(REASONS)} numbers from 0 to {MAX_THRESHOLD}, for example 4,3")
    return tuple(good)


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None


def _sort_columns(text: str, columns: Iterable[TableColumn]) -> tuple[str, ...]:
    def check(column: TableColumn) -> None:
        if not column.is_atomic:
            raise InvalidInputError(
                f"SORT_COLUMNS names {column.name!r}, which is {column.type_text}; a sort column has a plain type."
            )

    return _column_names("SORT_COLUMNS", text, columns=columns, check=check)


def _bloom_columns(text: str, columns: Iterable[TableColumn]) -> tuple[str, ...]:
    def check(column: TableColumn) -> None:
        if not column.is_atomic or column.type_text in _WITHOUT_BLOOM:
            raise InvalidInputError(
                f"BLOOM_COLUMNS names {column.name!r}, which is {column.type_text}; "
                "bloom filters support whole numbers, decimals, strings, binaries, dates and timestamps."
            )

    return _column_names("BLOOM_COLUMNS", text, columns=columns, check=check)


def _column_names(
    what: str, text: str, *, columns: Iterable[TableColumn], check: Callable[[TableColumn], None]
) -> tuple[str, ...]:
    known = {column.name.lower(): column for column in columns}
    found: list[str] = []
    for name in (part.strip() for part in text.split(",")) if text else ():
        column = known.get(name.lower())
        if column is None:
            allowed = ", ".join(column.name for column in known.values())
            raise InvalidInputError(f"{what} names {name!r}, which is not a column; the columns are {allowed}.")
        check(column)
        if column.name in found:
            raise InvalidInputError(f"{what} names {column.name!r} twice; name it once.")
        found.append(column.name)
    return tuple(found)


def _share(least: float, most: float) -> Callable[[str, str], float]:
    def read(name: str, text: str) -> float:
        is_number = re.fullmatch(r"\d*\.?\d+", text, re.ASCII) is not None
        if not is_number or not least <= float(text) <= most:
            raise _bad(name, text, f"a number from {least} to {most}, for example 0.01")
        return float(text)

    return read


_READERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "SORT_COLUMNS": lambda _, text: text,
    "SORT_SCOPE": _word(SortScope, also=_SCOPE_WORDS),
    "COMPACTION_LEVEL_THRESHOLD": _levels,
    "COMPACTION_PRESERVE_SEGMENTS": _number(0, MAX_PRESERVE),
    "ALLOWED_COMPACTION_DAYS": _number(0, MAX_DAYS),
    "COMPACTION_DAYS_RULE": _word(DaysRule),
    "COMPACTION_DELETED_PCT": _number(0, 100),
    "MAJOR_COMPACTION_SIZE": _megabytes(0),
    "MINOR_COMPACTION_SIZE": _megabytes(1),
    "AUTO_LOAD_MERGE": _yes_no,
    "TABLE_BLOCKSIZE": _number(1, 2048),
    "TABLE_BLOCKLET_ROWS": _number(1000, 10_000_000),
    "BLOOM_COLUMNS": lambda _, text: text,
    "BLOOM_FPP": _share(0.0001, 0.5),
    "COMPRESSION": _word(Compression),
    "BAD_RECORDS_ACTION": _word(BadRecords),
    "SEGMENT_RETENTION_DAYS": _number(0, 365),
    "MAX_QUERY_MINUTES": _number(_LEAST_QUERY_MINUTES, _MOST_QUERY_MINUTES),
    "TRASH_RETENTION_DAYS": _number(0, 365),
}


def free_properties() -> tuple[Option, ...]:
    """The properties that one run may override."""
    defaults = dict(describe(Properties()))
    return tuple(Option(key=name, text=text, default=defaults.get(name, "")) for name, text in _FREE.items())
