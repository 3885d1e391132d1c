"""NumPy arrays as Arrow columns; `pa.array` would import pandas, 60 MB, only to ask whether it got a series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_TYPES = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}


def to_column(values: np.ndarray[Any, Any], *, missing: np.ndarray[Any, np.dtype[np.bool_]] | None = None) -> pa.Array:
    """Wrap numbers or booleans, without a copy where Arrow lays them out alike; missing ones become null."""
    valid = None if missing is None else _bits(~missing)
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(values), [valid, _bits(values)])
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(_TYPES[str(values.dtype)], len(values), [valid, data])


def _bits(flags: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little").tobytes())
