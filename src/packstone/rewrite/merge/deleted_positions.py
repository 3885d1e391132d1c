"""Positions of deleted rows of one file, small enough to travel in a spec: gaps between them, deflated."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

Positions = np.ndarray[Any, np.dtype[np.int64]]


def pack_positions(positions: Positions) -> str:
    """Write ascending positions as text; empty for none."""
    if not len(positions):
        return ""
    gaps = np.diff(positions, prepend=0).astype("<u8")
    return base64.b64encode(zlib.compress(gaps.tobytes(), 1)).decode()


def unpack_positions(text: str) -> Positions:
    """Read the positions back, ascending."""
    if not text:
        return np.empty(0, dtype=np.int64)
    gaps = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u8")
    return np.cumsum(gaps).astype(np.int64)
