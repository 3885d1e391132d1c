r"""What text files must share, besides their ending, so that a reader guesses the same of a merged file.

DuckDB, pandas and others find the line end, the delimiter and the number of columns by looking at a sample of each
file. A merged file is looked at once, so files that differ in these are not joined: DuckDB would fail, or take two
columns for one, or skip the lines above those that fit.

=====================================  =====================================================================
a file                                 is merged
=====================================  =====================================================================
ends its lines by LF or CRLF           with files of the same line end; a line break in quotes does not count
ends its lines by CR                   never
ends its lines in several ways         never if it is delimited, else with files like it
is delimited                           with files of the same delimiter and number of columns
is named ``.csv`` or ``.tsv``, but     never, until somebody gives ``--header``
lines differ in their columns
is any other text                      with any other text
=====================================  =====================================================================

If files of one kind differ in their number of columns, the one that comes first by its name matters too: DuckDB takes
the columns of all files from it. They are left alone if another number of columns would come first after the merge.

Text without such a name is taken for delimited only if every file of its kind is: lines of a log may have the same
number of commas by chance. The sample is the beginning of a file, and the end of one that is not compressed.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DELIMITERS: Final = (",", "\t", ";", "|", "\x01")
DELIMITED_ENDINGS: Final = frozenset({"csv", "tsv"})
_FREE_ENDINGS: Final = frozenset({"log", "md"})
_SAMPLED_ROWS: Final = 100  # at the beginning, and at the end
_MAX_PREAMBLE_ROWS: Final = 5
_MIN_ROWS_BELOW: Final = 2
_QUOTED: Final = re.compile(rb'"[^"]*"')
_BREAK: Final = re.compile(r"\r\n|\n|\r")


class LineEnd(StrEnum):
    """How the lines of a file end."""

    LF = "LF"  # also if there is no line end at all: LF is what is added
    CRLF = "CRLF"
    CR = "CR"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to cut the lines of a file into the same number of cells."""

    delimiter: str
    columns: int
    quote: str = '"'

    def __str__(self) -> str:
        """Show as a part of the line that files must share."""
        if not self.delimiter:
            return "" if self == FREE_TEXT else "ragged" if self == RAGGED else "1 column"
        return f"{self.columns} by {self.delimiter!r}" + ("" if self.quote == '"' else f" quoted by {self.quote}")


FREE_TEXT: Final = Reading("", 0)
RAGGED: Final = Reading("", -1)
ONE_COLUMN: Final = Reading("", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextShape:
    """In which ways all sampled lines of a file have the same number of cells."""

    readings: tuple[Reading, ...] = ()  # of two columns and more
    is_named: bool = False  # whether the name says that it is delimited
    preamble: int = 0  # as many lines at the beginning differ from all others, which agree
    widths: tuple[int, int] = (1, 1)  # the least and the greatest number of cells, if there is no reading
    is_blank: bool = False  # it has no lines that could differ from others

    @property
    def is_ragged(self) -> bool:
        """Whether its name says that it is delimited, but its lines do not agree."""
        return self.is_named and not self.readings and self.widths[0] != self.widths[1]

    def why_ragged(self) -> str:
        """Say in which way its lines differ."""
        if self.preamble:
            lines = "a line" if self.preamble == 1 else f"{self.preamble} lines"
            return f"a file begins with {lines} of other columns than all below"
        return f"a file has lines of {self.widths[0]} columns and of {self.widths[1]}"


def find_line_end(*samples: bytes) -> LineEnd:
    """Tell the line end that all samples of a file show."""
    found = _line_ends(samples)
    if len(found) > 1:
        found = _line_ends([_QUOTED.sub(b"", sample) for sample in samples])
    if len(found) > 1:
        return LineEnd.MIXED
    return found.pop() if found else LineEnd.LF


def _line_ends(samples: Sequence[bytes]) -> set[LineEnd]:
    both = sum(sample.count(b"\r\n") for sample in samples)
    counts = {
        LineEnd.CRLF: both,
        LineEnd.LF: sum(sample.count(b"\n") for sample in samples) - both,
        LineEnd.CR: sum(sample.count(b"\r") for sample in samples) - both,
    }
    return {end for end, count in counts.items() if count}


def read_shape(head: bytes, tail: bytes, *, is_whole: bool, ending: str) -> TextShape:
    """Cut the lines of a sample into cells by each delimiter; ``tail`` begins with a whole line."""
    is_named = ending in DELIMITED_ENDINGS
    if ending in _FREE_ENDINGS or not head.strip():
        return TextShape(is_named=is_named, is_blank=not head.strip())
    text = head.decode("utf-8", "replace")
    last = _plain_lines(tail if not is_whole else head)
    readings: list[Reading] = []
    widths, preamble = (1, 1), 0
    for delimiter in DELIMITERS:
        if delimiter not in text:
            continue
        reading, rows = _read_rows(text, delimiter, is_whole=is_whole)
        rows += [line.count(delimiter) + 1 for line in last]
        if reading is not None and {*rows} == {reading.columns} and reading.columns > 1:
            readings.append(reading)
        elif rows and max(rows) > widths[1]:
            widths, preamble = (min(rows), max(rows)), _preamble(rows)
    return TextShape(readings=tuple(readings), is_named=is_named, preamble=preamble, widths=widths)


def _read_rows(text: str, delimiter: str, *, is_whole: bool) -> tuple[Reading | None, list[int]]:
    """Return the way in which the first rows agree, if there is one, and the number of cells in each of them."""
    first: list[int] = []
    for quote, escape in (('"', None), ('"', "\\"), ("'", None)):
        try:
            rows = [*_counts(text, delimiter, quote=quote, escape=escape)]
        except csv.Error:
            continue
        rows = rows[:_SAMPLED_ROWS] if is_whole or len(rows) > _SAMPLED_ROWS else rows[:-1]  # the last may be cut
        if len({*rows}) == 1:
            return Reading(delimiter, rows[0], quote), rows
        first = first or rows
        if quote not in text and "'" not in text:
            break
    return None, first


def _counts(text: str, delimiter: str, *, quote: str, escape: str | None) -> Iterator[int]:
    lines = io.StringIO(text, newline="")
    rows = csv.reader(lines, delimiter=delimiter, quotechar=quote, escapechar=escape, doublequote=escape is None)
    return islice((len(row) for row in rows if any(cell.strip() for cell in row)), _SAMPLED_ROWS + 1)


def _plain_lines(sample: bytes) -> list[str]:
    """The last lines of a sample; none if it has quotes, since it may begin within some."""
    if b'"' in sample or b"'" in sample:
        return []
    lines = [line for line in _BREAK.split(sample.decode("utf-8", "replace")) if line.strip()]
    return lines[-_SAMPLED_ROWS:]


def _preamble(rows: Sequence[int]) -> int:
    """Count the rows at the beginning that differ from all below; 0 if there is no such border."""
    below = next((at for at, count in enumerate(reversed(rows)) if count != rows[-1]), len(rows))
    above = len(rows) - below
    is_border = 0 < above <= _MAX_PREAMBLE_ROWS and below >= _MIN_ROWS_BELOW and rows[-1] > 1
    return above if is_border else 0


def agree_on_readings(shapes: Sequence[TextShape]) -> tuple[Reading, ...]:
    """For each file of one kind, the reading that it must share with others.

    Of several readings the one counts that most files have: ``1;2,5`` is two columns by two delimiters.
    """
    if any(not (shape.readings or shape.is_named or shape.is_blank) for shape in shapes):
        return (FREE_TEXT,) * len(shapes)
    votes = Counter((reading.delimiter, reading.quote) for shape in shapes for reading in shape.readings)
    chosen = [None if shape.is_blank else _choose(shape, votes) for shape in shapes]
    usual = Counter(reading for reading in chosen if reading is not None).most_common(1)
    return tuple(reading or (usual[0][0] if usual else FREE_TEXT) for reading in chosen)


def _choose(shape: TextShape, votes: Counter[tuple[str, str]]) -> Reading:
    if not shape.readings:
        return RAGGED if shape.is_ragged else ONE_COLUMN
    return max(shape.readings, key=lambda one: (votes[one.delimiter, one.quote], one.columns, one.delimiter))
