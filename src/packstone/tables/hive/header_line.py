"""Whether text files begin with header lines, as far as their first lines tell.

Nothing here decides that a line *is* a header: ``--header`` or a metastore does. Where neither does, files that may
have one are left alone, because a header in the middle of a merged file becomes a row. These are the signs:

* more than half of the files begin with the same line, which is not only numbers;
* a file begins with names above values: ``id,amount`` above ``1,2.5``, which DuckDB and Spark take for a header too;
* a file begins with names and another one with as many values, so some have a header and some have none;
* more than half of the files have the same names above values a few lines below: a title or a comment that differs
  from file to file stands above the header;
* the lines of a file named ``.csv`` or ``.tsv`` differ in their number of columns (see ``text_shape``).

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

from packstone.tables.hive.text_shape import DELIMITERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.tables.hive.text_shape import TextShape

_MAX_SHOWN_CHARS: Final = 60
_MAX_KEPT_CHARS: Final = 200  # of longer lines, the rest is compared by a digest
_SAMPLED_LINES: Final = 20
_MAX_HEADER_LINES: Final = 5  # that are not blank, with those above the header
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
    """What one of the first lines of a file looks like."""

    NAMES = "names"  # every cell could name a column
    NAMES_OF_VALUES = "names of values"  # and below one of them there are values
    VALUES = "values"  # at least one cell is a number, a date or the like
    NUMBERS = "numbers"  # all cells are
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLine:
    """One of the first lines of a text file that are not blank."""

    number: int  # in the file, from 1, blank lines counted
    text: str  # cut, with a digest of the whole line behind it, if it is long
    kind: LineKind
    cells: int


def read_first_lines(head: bytes, *, is_whole: bool) -> tuple[FirstLine, ...]:
    """Describe the first lines in the beginning of a file that are not blank."""
    every = enumerate(re.split(r"\r?\n", head.decode("utf-8", "replace")), start=1)
    lines = [(number, line) for number, line in every if line.strip()]
    if not is_whole and len(lines) > 1:
        lines.pop()  # it may be cut
    texts = [line for _, line in lines[: _MAX_HEADER_LINES + _SAMPLED_LINES]]
    return tuple(
        _describe(number, line, texts[at + 1 : at + 1 + _SAMPLED_LINES])
        for at, (number, line) in enumerate(lines[:_MAX_HEADER_LINES])
    )


def _describe(number: int, line: str, others: list[str]) -> FirstLine:
    cells, below = _split(line, others)
    text = line
    if len(line) > _MAX_KEPT_CHARS:
        digest = hashlib.sha256(line.encode("utf-8", "replace")).hexdigest()[:16]
        text = f"{line[:_MAX_KEPT_CHARS]}…{digest}"
    return FirstLine(number=number, text=text, kind=_kind(cells, below), cells=len(cells))


def why_maybe_header(files: Sequence[tuple[FirstLine, ...]]) -> str | None:
    """Say why files with these first lines may have a header; None if nothing speaks for it."""
    files = [lines for lines in files if lines]
    if len(files) < 2:  # noqa: PLR2004 - one file is not merged
        return None
    return _why_first_line([lines[0] for lines in files]) or _why_line_below(files)


def why_ragged(shapes: Sequence[TextShape]) -> str | None:
    """Say that a delimited file among these has lines of different columns; None if none has."""
    for shape in shapes if len(shapes) > 1 else ():
        if shape.is_ragged:
            advice = f"give --header {max(1, shape.preamble)} or the like if lines above the table are a header"
            return f"{shape.why_ragged()}; {advice}, or --header 0 if every line is a row"
    return None


def _why_first_line(lines: Sequence[FirstLine]) -> str | None:
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


def _why_line_below(files: Sequence[tuple[FirstLine, ...]]) -> str | None:
    """A line that recurs is no sign by itself (rows do, too): it must name values in each of the files."""
    for at in range(1, _MAX_HEADER_LINES):
        named = [lines[at] for lines in files if len(lines) > at and lines[at].kind is LineKind.NAMES_OF_VALUES]
        counts = Counter(line.text for line in named)
        for text, times in counts.most_common(1):
            if 2 * times > len(files):
                number = next(line.number for line in named if line.text == text)
                return (
                    f"{times} of {len(files)} files have the line {_shown(text)} as line {number}, which looks like "
                    f"the names of columns; give --header {number} if it is the last line of a header, or --header 0 "
                    "if every line is a row"
                )
    return None


def _shown(text: str) -> str:
    return repr(text[:_MAX_SHOWN_CHARS])


def _split(first: str, others: list[str]) -> tuple[list[str], list[list[str]]]:
    """Cut lines into cells by the delimiter that gives the first line and the one below it equally many, and most."""
    best: tuple[list[str], list[list[str]]] = ([first.strip().strip('"')], [[line] for line in others])
    for delimiter in DELIMITERS:
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
