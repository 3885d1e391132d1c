"""Partition folders, ``dt=2019-07-01/hour=3``: their columns and values, unescaped as Hive does."""

from __future__ import annotations

import re

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


def parse_partition(partition: str) -> dict[str, str | None]:
    """Read columns and values from a partition's path; folders without ``=`` carry none."""
    values: dict[str, str | None] = {}
    for folder in partition.split("/"):
        column, equals, value = folder.partition("=")
        if equals and column:
            values[unescape(column)] = None if value == NULL_PARTITION else unescape(value)
    return values


def unescape(text: str) -> str:
    """Undo Hive's escaping of path names: ``%3A`` is a colon; a lone percent sign stays."""
    if "%" not in text:
        return text
    raw = _ESCAPED.sub(lambda m: chr(int(m.group(1), 16)), text)
    try:  # Hive escapes single bytes of ASCII; other writers escape the bytes of UTF-8
        return raw.encode("latin-1").decode("utf-8")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return raw
