"""Text is merged unless a file is one document rather than lines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from packstone.tables.hive.header_line import read_first_line

if TYPE_CHECKING:
    from packstone.tables.hive.file_verdict import FileFacts, LookedAt

NO_TEXT = re.compile(rb"[\x00\x0e-\x19\x7f]")  # Hive's delimiters are \x01 to \x08, and \x1a to \x1f are in use too
WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # UTF-16 and UTF-32, whose newline is more than one byte
_JSON_LINES_ENDINGS = ("jsonl", "ndjson")
_JSON_ENDINGS = ("json", "", *_JSON_LINES_ENDINGS)


def text_facts(look: LookedAt) -> FileFacts:
    """Lines are merged with the lines of any file of the same ending."""
    head, ending = look.head, look.ending
    if head.startswith((b"\xef\xbb\xbf", *WIDE_MARKS)):
        return look.left_alone("it begins with a byte-order mark, which would land in the middle of a merged file")
    start = head.lstrip()[:5]
    if ending in ("xml", "html", "htm") or start.startswith((b"<?xml", b"<html", b"<!DOC")):
        return look.left_alone("it is one XML or HTML document, not lines")
    if start.startswith((b"{", b"[")):
        why = _why_no_json_lines(look)
        return look.mergeable("lines") if why is None else look.left_alone(why)
    return look.mergeable("lines", first_line=read_first_line(head, is_whole=look.is_whole))


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
    if is_one_line and not look.is_whole and text.startswith("["):
        return "it begins with a JSON array longer than what is looked at, so it may be one array over the whole file"
    if is_one_line or look.ending in _JSON_LINES_ENDINGS:
        return None
    return "it is one JSON document over many lines, not JSON lines"
