"""How a partition's values are spelled in folder names.

Java spells them in two ways: *legacy* (the default, ``partition.legacy-name``), where a DATE is its number of days, and
as a cast to text would. pypaimon spells them in a third way, without escaping. Files are looked for in all spellings.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

import numpy as np

from packstone.errors import InvalidInputError
from packstone.tables.paimon.binary_row import Value
from packstone.tables.paimon.data_type import DataField, DataType, TypeRoot, time_unit

DEFAULT_PARTITION: Final = "__DEFAULT_PARTITION__"
_ESCAPED: Final = frozenset("\"#%'*/:=?\\{}[]^\x7f") | frozenset(map(chr, range(32)))
_NANOS: Final = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_FLOATS: Final = (1e-3, 1e7)  # outside these Java writes an exponent


def escape_name(text: str) -> str:
    """Spell a name so that it is one part of a path, as Java does."""
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def java_text(value: Value, data_type: DataType, *, legacy: bool) -> str | None:
    """A partition value as Java spells it, before escaping; None for a null."""
    if value is None:
        return None
    match data_type.root:
        case TypeRoot.BOOLEAN:
            return "true" if value else "false"
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _java_float(float(value), single=data_type.root is TypeRoot.FLOAT)  # type: ignore[arg-type]
        case TypeRoot.DECIMAL:
            return format(Decimal(value), "f")  # type: ignore[arg-type]
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _binary_text(value, legacy=legacy)
        case TypeRoot.DATE | TypeRoot.TIME if legacy:
            return str(value)
        case TypeRoot.DATE:
            return _date(int(value)).isoformat()  # type: ignore[arg-type]
        case TypeRoot.TIME:
            return _time_text(int(value), data_type.precision or 0)  # type: ignore[arg-type]
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _timestamp_text(int(value), data_type, legacy=legacy)  # type: ignore[arg-type]
        case _:
            return str(value)


def python_text(value: Value, data_type: DataType) -> str | None:
    """A partition value as pypaimon spells it: Python's ``str`` of the value."""
    if value is None:
        return None
    match data_type.root:
        case TypeRoot.DATE:
            return str(_date(int(value)))  # type: ignore[arg-type]
        case TypeRoot.TIME:
            moment = _EPOCH + timedelta(milliseconds=int(value))  # type: ignore[arg-type]
            return str(moment.time())
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            nanos = int(value) * _NANOS[time_unit(data_type)]  # type: ignore[arg-type]
            moment = _EPOCH + timedelta(microseconds=nanos // 1000)
            return str(moment if data_type.root is TypeRoot.TIMESTAMP_LTZ else moment.replace(tzinfo=None))
        case _:
            return str(value)


def partition_folder(
    values: tuple[Value, ...], fields: tuple[DataField, ...], *, legacy: bool = True, default: str = DEFAULT_PARTITION
) -> str:
    """The folders of a partition as Java names them, ``dt=2024-01-01/hour=7``; empty without partition columns."""
    texts = (java_text(value, field.type, legacy=legacy) for value, field in zip(values, fields, strict=True))
    parts = (
        f"{escape_name(field.name)}={escape_name(text if text and not text.isspace() else default)}"
        for text, field in zip(texts, fields, strict=True)
    )
    return "/".join(parts)


def python_partition_folder(
    values: tuple[Value, ...], fields: tuple[DataField, ...], *, default: str = DEFAULT_PARTITION
) -> str:
    """The folders of a partition as pypaimon names them."""
    texts = (python_text(value, field.type) for value, field in zip(values, fields, strict=True))
    return "/".join(
        f"{field.name}={text if text and not text.isspace() else default}"
        for text, field in zip(texts, fields, strict=True)
    )


def _date(days: int) -> date:
    return date.fromordinal(_EPOCH.toordinal() + days)


def _binary_text(value: Value, *, legacy: bool) -> str:
    if legacy or not isinstance(value, bytes):
        raise InvalidInputError("The folder of a partition by a binary column cannot be told from its value.")
    return value.decode(errors="replace")


def _time_text(millis: int, precision: int) -> str:
    seconds, rest = divmod(millis % 86_400_000, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = f"{rest:03}"[:precision].rstrip("0") or "0"
    return f"{text}.{digits}" if precision else text


def _timestamp_text(value: int, data_type: DataType, *, legacy: bool) -> str:
    """Java's LocalDateTime, or its cast to text; a zoned one in UTC (Java's cast would use its own machine's zone)."""
    seconds, nanos = divmod(value * _NANOS[time_unit(data_type)], 1_000_000_000)
    moment = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
    fraction = f"{nanos:09}"
    if legacy:
        if not nanos:
            return moment.isoformat(timespec="seconds" if moment.second else "minutes")
        while fraction.endswith("000"):
            fraction = fraction[:-3]
        return f"{moment.isoformat(timespec='seconds')}.{fraction}"
    while len(fraction) > (data_type.precision or 0) and fraction.endswith("0"):
        fraction = fraction[:-1]
    return moment.isoformat(sep=" ", timespec="seconds") + (f".{fraction}" if fraction else "")


def _java_float(value: float, *, single: bool) -> str:
    """The shortest digits that read back the same, as Java 19 and later print them."""
    if value != value:  # noqa: PLR0124 - true for NaN only
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    number = np.float32(value) if single else np.float64(value)
    low, high = _PLAIN_FLOATS
    if value == 0 or low <= abs(value) < high:
        return str(np.format_float_positional(number, unique=True, trim="0"))
    mantissa, _, exponent = np.format_float_scientific(number, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"
