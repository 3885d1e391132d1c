"""Whole bytes and decimal megabytes, both ways (1 MB = 2^20 bytes).

``0.1`` MB is 104,857.6 bytes, so five files of it are a few bytes off half a megabyte. People typed 0.1 and expect
0.5: printing takes the fewest decimals that come as close as rounding to whole bytes can explain.
"""

from __future__ import annotations

from decimal import Decimal

from packstone.errors import InvalidInputError
from packstone.model.sizes import MAX_BYTES

MB = 2**20
_TYPED_DECIMALS = 5  # what people type; more are noise of whole bytes
_SHOWN_DECIMALS = 3
_EXACT_DECIMALS = 7  # a byte is about 0.000001 MB
_TOLERANCE = Decimal("0.00002")  # half a byte in each of many files of 0.02 MB and more


def parse_mb(megabytes: Decimal) -> int:
    """The nearest whole number of bytes."""
    size_bytes = round(megabytes * MB)
    if size_bytes > MAX_BYTES:
        raise InvalidInputError(f"{megabytes} MB is too big for any file.", value=str(megabytes))
    return size_bytes


def format_mb(size_bytes: int) -> str:
    """Write megabytes with as few decimals as the bytes allow: ``300``, ``12.5``, ``0.1``."""
    megabytes = Decimal(size_bytes) / MB
    for decimals in range(_TYPED_DECIMALS + 1):
        text = f"{megabytes:.{decimals}f}"
        if round(Decimal(text) * MB) == size_bytes:
            return text
    shown = f"{megabytes:.{_SHOWN_DECIMALS}f}"
    is_close = abs(Decimal(shown) - megabytes) < megabytes * _TOLERANCE
    return (shown if is_close else f"{megabytes:.{_EXACT_DECIMALS}f}").rstrip("0").rstrip(".")
