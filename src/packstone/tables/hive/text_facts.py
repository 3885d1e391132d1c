"""Text is merged unless a file is one document rather than lines, or its line ends are read in different ways."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from packstone.tables.hive.file_verdict import HEAD_BYTES
from packstone.tables.hive.header_line import read_first_lines
from packstone.tables.hive.text_shape import LineEnd, find_line_end, read_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.storage.fileio import FileIO
    from packstone.tables.hive.file_verdict import FileFacts, LookedAt

NO_TEXT = re.compile(rb"[\x00\x0e-\x19\x7f]")  # Hive's delimiters are \x01 to \x08, and \x1a to \x1f are in use too
WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # UTF-16 and UTF-32, whose newline is more than one byte
_JSON_LINES_ENDINGS = ("jsonl", "ndjson")
_JSON_ENDINGS = ("json", "", *_JSON_LINES_ENDINGS)
_TAIL_BYTES: Final = 16 << 10
_MAX_BLANK_BYTES: Final = 1 << 20  # at the beginning of a file; a document may begin after it
_MAX_FIRST_LINE_BYTES: Final = 16 << 20  # of JSON, which is parsed to its end


def text_facts(look: LookedAt) -> FileFacts:
    """Lines are merged with the lines of files of the same ending that have the same line end and columns."""
    chunks = partial(_read_chunks, look.io, look.path)
    if not look.is_whole and not look.head.strip():
        head, is_whole = read_beginning(chunks())
        look = replace(look, head=head, is_whole=is_whole)
    return line_facts(look, chunks, tail=b"" if look.is_whole else _read_tail(look))


def line_facts(look: LookedAt, chunks: Callable[[], Iterator[bytes]], *, tail: bytes = b"") -> FileFacts:
    """Look at text, however it is stored: ``chunks`` reads it from its beginning, ``tail`` is its end, if known."""
    head, ending = look.head, look.ending
    if head.startswith((b"\xef\xbb\xbf", *WIDE_MARKS)):
        return look.left_alone("it begins with a byte-order mark, which would land in the middle of a merged file")
    if not look.is_whole and not head.strip():
        return look.left_alone("it begins with more than a megabyte of blanks, so what it holds is not known")
    start = head.lstrip()[:5]
    if ending in ("xml", "html", "htm") or start.startswith((b"<?xml", b"<html", b"<!DOC")):
        return look.left_alone("it is one XML or HTML document, not lines")
    if start.startswith((b"{", b"[")):
        why = _why_no_json_lines(_with_first_line(look, chunks))
        if why is not None:
            return look.left_alone(why)
        if ending in _JSON_ENDINGS or _is_json(look):
            return look.mergeable("lines")
    return _delimited_facts(look, tail)


def _delimited_facts(look: LookedAt, tail: bytes) -> FileFacts:
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
    """As much text as is looked at, from its first byte that is not blank if that comes late; whether that is all."""
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


def _read_tail(look: LookedAt) -> bytes:
    """The last lines of a file, from the beginning of one."""
    with look.io.open_input(look.path) as source:
        size_bytes = source.size()
        tail: bytes = source.read_at(min(_TAIL_BYTES, size_bytes), max(0, size_bytes - _TAIL_BYTES))
    return tail[tail.find(b"\n") + 1 :]


def _with_first_line(look: LookedAt, chunks: Callable[[], Iterator[bytes]]) -> LookedAt:
    """Read on to the end of the first line, and as much behind it as is looked at, if that line is long."""
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


def _is_json(look: LookedAt) -> bool:
    """Whether text without a name of JSON begins with an object: a line of a log may begin with a bracket, too."""
    line, newline, _ = look.head.lstrip().partition(b"\n")
    if not newline and not look.is_whole:
        return line.startswith(b"{")
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _why_no_json_lines(look: LookedAt) -> str | None:
    """Say why text that begins like JSON is one document and not lines; None if it is lines.

    One array over a whole file is read as its elements, and several of them behind each other as arrays: DuckDB tells
    them apart by content, whatever the name. Files of several arrays, one in each line, are lines. A file of one object
    on one line is both a document and a line, and is read alike.
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


def _why_unparsed(text: str, look: LookedAt) -> str | None:
    """The first value is longer than what was looked at, or it is not JSON."""
    is_one_line = "\n" not in text
    if is_one_line and not look.is_whole:
        return "its first line is longer than what is looked at, so it may be one JSON document"
    if is_one_line or look.ending in _JSON_LINES_ENDINGS:
        return None
    return "it is one JSON document over many lines, not JSON lines"
