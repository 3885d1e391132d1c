"""Text is merged unless a file is one document rather than lines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packstone.tables.hive.file_verdict import FileFacts, LookedAt

NO_TEXT = re.compile(rb"[\x00\x0e-\x19\x7f]")  # Hive's delimiters are \x01 to \x08, and \x1a to \x1f are in use too
WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # UTF-16 and UTF-32, whose newline is more than one byte


def text_facts(look: LookedAt) -> FileFacts:
    """Lines are merged with the lines of any file of the same ending."""
    head, ending = look.head, look.ending
    if head.startswith((b"\xef\xbb\xbf", *WIDE_MARKS)):
        return look.left_alone("it begins with a byte-order mark, which would land in the middle of a merged file")
    start = head.lstrip()[:5]
    if ending in ("xml", "html", "htm") or start.startswith((b"<?xml", b"<html", b"<!DOC")):
        return look.left_alone("it is one XML or HTML document, not lines")
    if start.startswith((b"{", b"[")) and ending in ("json", "") and _is_many_line_json(head):
        return look.left_alone("it is one JSON document over many lines, not JSON lines")
    first_line = head.split(b"\n", 1)[0][:200].decode("utf-8", "replace")
    return look.mergeable("lines", first_line=first_line)


def _is_many_line_json(head: bytes) -> bool:
    line, newline, rest = head.lstrip().partition(b"\n")
    if not newline or not rest.strip():
        return False  # one line: a document and a JSON line alike
    try:
        json.loads(line)
    except ValueError:
        return True
    return False
