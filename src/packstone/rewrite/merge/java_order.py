"""Floats as integers that compare as Java's Double.compare does: -0.0 < 0.0, all NaN equal and last."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_java_order(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Map floats to signed integers of their width, order kept."""
    width = values.dtype.itemsize
    one_nan = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    bits = one_nan.view(f"i{width}")
    # A negative float has its magnitude in the low bits: the bigger, the smaller the number.
    return bits ^ ((bits >> (width * 8 - 1)) & bits.dtype.type((1 << (width * 8 - 1)) - 1))
