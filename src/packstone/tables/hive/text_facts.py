"""Decide which text files can be merged, and with which others.

A text file is merged unless it is one document instead of lines, or readers disagree on its line ends. Compressed text
is merged if, in addition, its name and its first bytes name the same codec. docs/concepts.md lists the cases, under
"How text is merged" and "Text with header lines"; here are the reasons.

**Shape.** DuckDB, pandas and others find the line end, the delimiter and the number of columns from a sample of each
file. They sample a merged file once, so files that differ in these are not joined: DuckDB would fail, or read two
columns as one, or skip the lines above those that fit. It also takes the columns of all files from the one that comes
first by name, so none with another number of columns may come first after the merge.

Text without a delimited ending counts as delimited only if every file of its kind does: lines of a log may have the
same number of commas by chance. The sample is the beginning of a file, and also the end if it is not compressed.

**Header lines.** Nothing here decides that a line *is* a header: ``--header`` or a metastore does. Without either,
files with a sign of a header are left alone, because a header in the middle of a merged file becomes a row. A false
alarm costs one option (``--header 0``). A table of names only, most of whose files lack the header, shows no sign.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections import Counter
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from packstone.tables.hive.file_facts import (
    FREE_TEXT,
    HEAD_BYTES,
    NO_TEXT,
    ONE_COLUMN,
    RAGGED,
    WIDE_MARKS,
    FirstLine,
    LineKind,
    Reading,
    TextShape,
    Verdict,
    not_merged,
)
from packstone.tables.hive.plan import inner_ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packstone.storage.fileio import FileIO
    from packstone.tables.hive.file_facts import FileFacts, Inspection

_JSON_LINES_ENDINGS = ("jsonl", "ndjson")
_JSON_ENDINGS = ("json", "", *_JSON_LINES_ENDINGS)
_TAIL_BYTES: Final = 16 << 10
_MAX_BLANK_BYTES: Final = 1 << 20  # at the beginning of a file; a document may begin after it
_MAX_FIRST_LINE_BYTES: Final = 16 << 20  # of JSON, which is parsed to its end


def text_facts(look: Inspection) -> FileFacts:
    """Inspect plain text: it is merged with files of the same ending, line end and columns."""
    chunks = partial(_read_chunks, look.io, look.path)
    if not look.is_whole and not look.head.strip():
        head, is_whole = read_beginning(chunks())
        look = replace(look, head=head, is_whole=is_whole)
    return line_facts(look, chunks, tail=b"" if look.is_whole else _read_tail(look))


def compressed_facts(look: Inspection) -> FileFacts:
    """Decode the beginning of compressed text, and inspect it like plain text."""
    from packstone.rewrite.formats.codecs import codec_by_ending, codec_by_magic, format_of, read_text

    shown, codec = codec_by_magic(look.head), codec_by_ending(look.head, look.ending)
    if codec is None and shown is not None:
        return look.left_alone(f"it holds {shown} but its name does not say so, so readers take it for plain text")
    if codec is None:
        return look.left_alone(f"compressed text with the ending .{look.ending} is not merged by this version")
    if shown is not None and shown is not codec:
        why = f"its name says {codec} but its content is {shown}"
        return not_merged(look.file, look.file_format, verdict=Verdict.UNREADABLE, why=why)
    chunks = partial(read_text, look.io, look.path, codec=codec)
    text, is_whole = read_beginning(chunks())
    ending, file_format = inner_ending(look.file.name), format_of(codec)
    inner = replace(look, head=text, is_whole=is_whole, ending=ending, file_format=file_format)
    if NO_TEXT.search(text) and not text.startswith(WIDE_MARKS):
        return inner.left_alone(f"its {codec} content is not text")
    return replace(line_facts(inner, chunks), codec=codec.value)


def line_facts(look: Inspection, chunks: Callable[[], Iterator[bytes]], *, tail: bytes = b"") -> FileFacts:
    """Inspect decoded text: ``chunks`` reads it from its beginning, ``tail`` is its end, if known."""
    head, ending = look.head, look.ending
    if head.startswith((b"\xef\xbb\xbf", *WIDE_MARKS)):
        return look.left_alone("it begins with a byte-order mark, which would land in the middle of a merged file")
    if not look.is_whole and not head.strip():
        return look.left_alone("it begins with more than a megabyte of blanks, so its content is not known")
    start = head.lstrip()[:5]
    if ending in ("xml", "html", "htm") or start.startswith((b"<?xml", b"<html", b"<!DOC")):
        return look.left_alone("it is one XML or HTML document, not lines")
    if start.startswith((b"{", b"[")):
        why = _why_not_json_lines(_with_first_line(look, chunks))
        if why is not None:
            return look.left_alone(why)
        if ending in _JSON_ENDINGS or _is_json(look):
            return look.mergeable("lines")
    return _delimited_facts(look, tail)


def _delimited_facts(look: Inspection, tail: bytes) -> FileFacts:
    head = look.head
    end = find_line_end(head if look.is_whole else head.removesuffix(b"\r"), tail)
    shape = read_shape(head, tail, is_whole=look.is_whole, ending=look.ending)
    if end is LineEnd.CR:
        return look.left_alone("its lines end by CR only, which readers do not agree on")
    if end is LineEnd.MIXED and (shape.is_named or shape.readings):
        return look.left_alone("its lines end in different ways (LF, CRLF or CR), which readers do not agree on")
    first_lines = read_first_lines(head, is_whole=look.is_whole)
    return replace(look.mergeable(f"{end} lines"), first_lines=first_lines, shape=shape)


def read_beginning(chunks: Iterator[bytes]) -> tuple[bytes, bool]:
    """Return the sample of a text, and whether it is the whole text.

    The sample begins at the first byte that is not blank if more than ``HEAD_BYTES`` blanks precede it.
    """
    text = b""
    for chunk in chunks:
        text += chunk
        begin = len(text) - len(text.lstrip())
        if begin > _MAX_BLANK_BYTES:
            return text[:HEAD_BYTES], False
        begin = 0 if begin < HEAD_BYTES else begin
        if len(text) > begin + HEAD_BYTES:
            return text[begin : begin + HEAD_BYTES], False
    return (text if text[:HEAD_BYTES].strip() else text.lstrip()), True


def _read_chunks(io: FileIO, path: str) -> Iterator[bytes]:
    with io.open_input(path) as source:
        while chunk := source.read(HEAD_BYTES):
            yield chunk


def _read_tail(look: Inspection) -> bytes:
    """Return the last lines of a file; the first of them is a whole line."""
    with look.io.open_input(look.path) as source:
        size_bytes = source.size()
        tail: bytes = source.read_at(min(_TAIL_BYTES, size_bytes), max(0, size_bytes - _TAIL_BYTES))
    return tail[tail.find(b"\n") + 1 :]


def _with_first_line(look: Inspection, chunks: Callable[[], Iterator[bytes]]) -> Inspection:
    """Extend the sample to the end of a long first line, and by ``HEAD_BYTES`` after it."""
    if look.is_whole or b"\n" in look.head.lstrip():
        return look
    text, end = b"", -1
    for chunk in chunks():
        text += chunk
        if end < 0:
            begin = len(text) - len(text.lstrip()) if len(text) < _MAX_BLANK_BYTES else 0
            end = text.find(b"\n", max(begin, len(text) - len(chunk)))
        if len(text) > (_MAX_FIRST_LINE_BYTES if end < 0 else end + HEAD_BYTES):
            return replace(look, head=text, is_whole=False)
    return replace(look, head=text, is_whole=True)


def _is_json(look: Inspection) -> bool:
    """Whether text whose name does not say JSON begins with an object: a log line may begin with a bracket, too."""
    line, newline, _ = look.head.lstrip().partition(b"\n")
    if not newline and not look.is_whole:
        return line.startswith(b"{")
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _why_not_json_lines(look: Inspection) -> str | None:
    """Say why text that begins like JSON is one document and not lines; None if it is lines.

    Readers return the elements of one array that fills a file, but several arrays one after another as arrays: DuckDB
    tells the two apart by content, whatever the name. A file of several arrays, one in each line, is lines. A file of
    one object on one line is both a document and a line, and readers return the same row.
    """
    text = look.head.decode("utf-8", "replace").lstrip()
    is_named_json = look.ending in _JSON_ENDINGS
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except RecursionError:
        return "its JSON is nested too deeply to tell whether it is JSON lines"
    except ValueError:
        return _why_unparsed(text, look) if is_named_json else None
    rest_of_line, _, others = text[end:].partition("\n")
    if "\n" in text[:end]:
        return "it is one JSON document over many lines, not JSON lines"
    if rest_of_line.strip() and is_named_json:
        return "it holds several JSON values on one line, so it is not JSON lines"
    if isinstance(value, list) and not rest_of_line.strip() and not others.strip() and look.is_whole:
        return "it is one JSON array over the whole file, not JSON lines"
    return None


def _why_unparsed(text: str, look: Inspection) -> str | None:
    """Say why text is not JSON lines whose first value exceeds the sample, or is not JSON; None if it may be lines."""
    is_one_line = "\n" not in text
    if is_one_line and not look.is_whole:
        return "its first line is longer than 16 MiB, so it may be one JSON document"
    if is_one_line or look.ending in _JSON_LINES_ENDINGS:
        return None
    return "it is one JSON document over many lines, not JSON lines"


# ---- shape: line end, delimiter, columns ----

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


def find_line_end(*samples: bytes) -> LineEnd:
    """Return the line end that all samples of a file show."""
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
    """Return the last lines of a sample; none if it has quotes, because it may begin inside a quoted cell."""
    if b'"' in sample or b"'" in sample:
        return []
    lines = [line for line in _BREAK.split(sample.decode("utf-8", "replace")) if line.strip()]
    return lines[-_SAMPLED_ROWS:]


def _preamble(rows: Sequence[int]) -> int:
    """Count the rows at the beginning that differ from all rows below them; 0 if there are none."""
    below = next((at for at, count in enumerate(reversed(rows)) if count != rows[-1]), len(rows))
    above = len(rows) - below
    is_border = 0 < above <= _MAX_PREAMBLE_ROWS and below >= _MIN_ROWS_BELOW and rows[-1] > 1
    return above if is_border else 0


def agree_on_readings(shapes: Sequence[TextShape]) -> tuple[Reading, ...]:
    """Return, for each file of one kind, the reading that it must share with others.

    Of several readings of a file, the one that most files have counts: ``1;2,5`` is two columns by two delimiters.
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


# ---- header lines ----

_MAX_SHOWN_CHARS: Final = 60
_MAX_KEPT_CHARS: Final = 200  # the rest of a longer line is compared by a digest
_SAMPLED_LINES: Final = 20
_MAX_HEADER_LINES: Final = 5  # not blank, including those above the header
_MIN_CELLS_ACROSS_FILES: Final = 2  # a word in one file and a number in another are not a sign
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


def read_first_lines(head: bytes, *, is_whole: bool) -> tuple[FirstLine, ...]:
    """Describe the first lines of a file that are not blank."""
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
    """Say why files with these first lines may have a header; None if there is no sign of one."""
    files = [lines for lines in files if lines]
    if len(files) < 2:  # one file is not merged
        return None
    return _why_first_line([lines[0] for lines in files]) or _why_line_below(files)


def why_ragged(shapes: Sequence[TextShape]) -> str | None:
    """Say that a delimited file among these has lines of different columns; None if none has."""
    for shape in shapes if len(shapes) > 1 else ():
        if shape.is_ragged:
            advice = f"give --header {max(1, shape.preamble)} (or another number) if lines above the table are a header"
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
    """Say which repeated line may be a header; rows repeat too, so it must name values in each of the files."""
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
    """Cut lines into cells by the delimiter that gives the most cells, with as many in a line below as in the first."""
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
