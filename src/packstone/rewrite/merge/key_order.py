"""The order of rows by their words: one stable sort of nearly sorted numbers, more words only where they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from packstone.rewrite.merge.key_words import I64, Words

Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Rows in their order, and which of them have the same words as the next one."""

    rows: I64
    same: Bools


def sort_rows(words: Words, count: int) -> Order:
    """Sort rows by all their words; rows with equal ones keep the order in which they came."""
    first = words.get(0)
    if first is None:
        return Order(rows=np.arange(count), same=np.ones(max(0, count - 1), dtype=bool))
    rows = np.argsort(first, kind="stable")
    ordered = first[rows]
    same = ordered[1:] == ordered[:-1]
    at = 1
    while (word := words.get(at)) is not None and same.any():
        ordered = word[rows]
        falling = same & (ordered[1:] < ordered[:-1])
        if falling.any():
            rows, ordered = sort_inside(rows, ordered, same=same, falling=falling)
        same &= ordered[1:] == ordered[:-1]
        at += 1
    return Order(rows=rows, same=same)


def find_unsorted(words: Words, count: int, breaks: I64) -> int | None:
    """Find a row that is not above the one before it; ``breaks`` are the rows where a new run begins."""
    rising = np.zeros(max(0, count - 1), dtype=bool)
    rising[breaks[breaks > 0] - 1] = True
    at = 0
    while not rising.all():
        word = words.get(at)
        if word is None:
            return int(np.argmin(rising)) + 1
        falling = ~rising & (word[1:] < word[:-1])
        if falling.any():
            return int(np.argmax(falling)) + 1
        rising |= word[1:] > word[:-1]
        at += 1
    return None


def sort_inside(rows: I64, ordered: Any, *, same: Bools, falling: Bools) -> tuple[I64, Any]:  # noqa: ANN401 - words
    """Sort, inside the groups that are equal so far and not in order, by the next word."""
    group = np.zeros(len(rows), dtype=np.int64)
    np.cumsum(~same, out=group[1:])
    wrong = np.zeros(int(group[-1]) + 1, dtype=bool)
    wrong[group[1:][falling]] = True
    touched = np.flatnonzero(wrong[group])
    sorting = touched[np.lexsort((ordered[touched], group[touched]))]
    rows, ordered = rows.copy(), ordered.copy()
    rows[touched], ordered[touched] = rows[sorting], ordered[sorting]
    return rows, ordered
