"""Whether text files begin with header lines, as far as their first lines tell.

Nothing here decides that a line *is* a header: ``--header`` or a metastore does. Where neither does, files that may
have one are left alone, because a header in the middle of a merged file becomes a row. These are the signs:

* more than half of the files begin with the same line, which is not only numbers;
* a file begins with names above values: ``id,amount`` above ``1,2.5``, which DuckDB and Spark take for a header too;
* a file begins with names and another one with as many values, so some have a header and some have none.

A false alarm costs one option (``--header 0``). A table of names only, most of whose files lack the header, shows no
sign.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_DELIMITERS: Final = (",", "\t", ";", "|", "\x01")
_MAX_SHOWN_CHARS: Final = 60
_MAX_KEPT_CHARS: Final = 200  # of longer lines, the rest is compared by a digest
_SAMPLED_LINES: Final = 20
_MIN_CELLS_ACROSS_FILES: Final = 2  # a word in one file and a number in another are no sign
_NAME: Final = re.compile(r"[^\W\d][\w .\-/()#%$:@]{0,127}")
_NUMBER: Final = r"[+-]?(\d+([.,]\d*)?|\.\d+)([eE][+-]?\d+)?"
_NUMBERS: Final = re.compile(_NUMBER)
_VALUE: Final = re.compile(
    rf"{_NUMBER}"
    r"|\d{4}-\d\d?-\d\d?([ T].*)?|\d\d?[./]\d\d?[./]\d{2,4}|\d\d?:\d\d(:\d\d.*)?"  # dates and times
    r"|true|false",
    re.IGNORECASE,
)
_NULLS: Final = frozenset({"", "null", "\\n", "na", "n/a", "nan", "none", "inf", "-inf"})


class LineKind(StrEnum):
    """What the first line of a file looks like."""

    NAMES = "names"  # every cell could name a column
    NAMES_OF_VALUES = "names of values"  # and below one of them there are values
    VALUES = "values"  # at least one cell is a number, a date or the like
    NUMBERS = "numbers"  # all cells are
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLine:
    """The first line of a text file that is not blank."""

    text: str  # cut, with a digest of the whole line behind it, if it is long
    kind: LineKind
    cells: int


def read_first_line(head: bytes, *, is_whole: bool) -> FirstLine | None:
    """Describe the first line in the beginning of a file; None if all of it is blank."""
    lines = [line for line in re.split(r"\r?\n", head.decode("utf-8", "replace")) if line.strip()]
    if not lines:
        return None
    if not is_whole and len(lines) > 1:
        lines.pop()  # it may be cut
    first, *others = lines[: 1 + _SAMPLED_LINES]
    cells, below = _split(first, others)
    text = first
    if len(first) > _MAX_KEPT_CHARS:
        digest = hashlib.sha256(first.encode("utf-8", "replace")).hexdigest()[:16]
        text = f"{first[:_MAX_KEPT_CHARS]}…{digest}"
    return FirstLine(text=text, kind=_kind(cells, below), cells=len(cells))


def why_maybe_header(lines: Sequence[FirstLine]) -> str | None:
    """Say why files with these first lines may have a header; None if nothing speaks for it."""
    if len(lines) < 2:  # noqa: PLR2004 - one file is not merged
        return None
    advice = "; give --header 1 if it is a header, or --header 0 if it is a row"
    (text, is_numbers), times = Counter((line.text, line.kind is LineKind.NUMBERS) for line in lines).most_common(1)[0]
    if 2 * times > len(lines) and not is_numbers:
        return f"{times} of {len(lines)} files begin with the line {_shown(text)}{advice}"
    for line in lines:
        if line.kind is LineKind.NAMES_OF_VALUES:
            return f"a file begins with the line {_shown(line.text)}, which looks like the names of columns{advice}"
    values = {line.cells for line in lines if line.kind in (LineKind.VALUES, LineKind.NUMBERS)}
    for line in lines:
        if line.kind is LineKind.NAMES and line.cells in values and line.cells >= _MIN_CELLS_ACROSS_FILES:
            return f"a file begins with the line {_shown(line.text)}, and another one with values{advice}"
    return None


def _shown(text: str) -> str:
    return repr(text[:_MAX_SHOWN_CHARS])


def _split(first: str, others: list[str]) -> tuple[list[str], list[list[str]]]:
    """Cut lines into cells by the delimiter that gives the first line and the one below it equally many, and most."""
    best: tuple[list[str], list[list[str]]] = ([first.strip().strip('"')], [[line] for line in others])
    for delimiter in _DELIMITERS:
        if delimiter not in first:
            continue
        try:
            rows = [*csv.reader([first, *others], delimiter=delimiter)]
        except csv.Error:
            continue
        below = [row for row in rows[1:] if len(row) == len(rows[0])]
        if len(rows[0]) > len(best[0]) and (below or not others):
            best = rows[0], below
    return best


def _kind(cells: list[str], below: list[list[str]]) -> LineKind:
    names = [cell.strip() for cell in cells]
    if all(_NUMBERS.fullmatch(name) for name in names):
        return LineKind.NUMBERS
    if any(_VALUE.fullmatch(name) for name in names):
        return LineKind.VALUES
    given = [name.lower() for name in names if name]  # pandas leaves the name of its index empty
    if len(set(given)) < len(given) or not all(_is_name(name) for name in names if name) or not given:
        return LineKind.OTHER
    for at, name in enumerate(names):
        column = [row[at].strip() for row in below]
        values = [value for value in column if value.lower() not in _NULLS]
        if name and values and all(_VALUE.fullmatch(value) for value in values):
            return LineKind.NAMES_OF_VALUES
    return LineKind.NAMES


def _is_name(cell: str) -> bool:
    return cell.lower() not in _NULLS and _NAME.fullmatch(cell) is not None
