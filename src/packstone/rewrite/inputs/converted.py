"""One column after its conversion: the values, and which of them could not be converted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packstone.rewrite.numpy_columns import to_column

if TYPE_CHECKING:
    from collections.abc import Callable

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


class NoConversionError(Exception):
    """Values of one type are never values of the other: the whole column is wrong, not a row of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """Values of the wanted type, null where ``bad``; a value that was null stays null and is not bad."""

    values: pa.Array
    bad: Mask | None = None

    @classmethod
    def of(cls, values: pa.Array, bad: Mask) -> Converted:
        """Take the mask only if it says something."""
        return cls(values=values, bad=bad if bad.any() else None)


def to_mask(flags: pa.Array) -> Mask:
    """Booleans as numpy; null counts as no."""
    return flags.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - has no other name


def keep_good(array: pa.Array, good: Mask) -> pa.Array:
    """Null where not good."""
    return pc.if_else(to_column(good), array, pa.scalar(None, array.type))


def not_null(array: pa.Array) -> Mask:
    """Which rows have a value."""
    return array.is_valid().to_numpy(zero_copy_only=False)


def cast_each(array: pa.Array, cast: Callable[[pa.Array], pa.Array]) -> Converted:
    """Cast the whole, and where that fails its halves, down to the single values that are to blame.

    A few bad values among many cost a few casts; it is for rare pairs of types, whose range has no simple test.
    """
    try:
        return Converted(values=cast(array))
    except pa.ArrowInvalid:
        if len(array) == 1:
            return Converted(values=pa.nulls(1, cast(array.slice(0, 0)).type), bad=np.ones(1, dtype=bool))
    half = len(array) // 2
    parts = [cast_each(array.slice(0, half), cast), cast_each(array.slice(half), cast)]
    bad = [np.zeros(len(part.values), dtype=bool) if part.bad is None else part.bad for part in parts]
    return Converted.of(pa.concat_arrays([part.values for part in parts]), np.concatenate(bad))
