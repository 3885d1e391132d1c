"""A size that prints to the byte and parses back: ``10MB``, ``1536KB``, ``7B``.

`format_bytes` rounds for people; scenario files and decisions need the exact number.
"""

from __future__ import annotations

import re

from packstone.errors import InvalidInputError

_UNITS = ("B", "KB", "MB", "GB", "TB")
_EXACT = re.compile(rf"([0-9]+)({'|'.join(_UNITS)})?")


class ExactSize(int):
    """A number of bytes, printed in the biggest unit that divides it."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> ExactSize:
        """Read ``10MB`` or ``10``."""
        match = _EXACT.fullmatch(text)
        if match is None:
            raise InvalidInputError(f"{text!r} is not a size; write for example 10MB, 512KB or 7B.", value=text)
        return cls(int(match[1]) << 10 * _UNITS.index(match[2] or "B"))

    def __str__(self) -> str:
        power, rest = 0, int(self)
        while rest and rest % 1024 == 0 and power + 1 < len(_UNITS):
            power, rest = power + 1, rest // 1024
        return f"{rest}{_UNITS[power]}"
