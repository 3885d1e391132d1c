"""Compressed text is merged if its name and its first bytes name the same codec, and its text is lines."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from packstone.rewrite.codecs.text_codec import codec_by_ending, codec_by_magic, format_of, read_text
from packstone.tables.hive.file_verdict import FileFacts, Verdict, not_merged
from packstone.tables.hive.known_outputs import inner_ending
from packstone.tables.hive.text_facts import NO_TEXT, WIDE_MARKS, line_facts, read_beginning

if TYPE_CHECKING:
    from packstone.tables.hive.file_verdict import LookedAt


def compressed_facts(look: LookedAt) -> FileFacts:
    """Decode the beginning, and look at it as at any text."""
    shown, codec = codec_by_magic(look.head), codec_by_ending(look.head, look.ending)
    if codec is None and shown is not None:
        return look.left_alone(f"it holds {shown} but its name does not say so: readers take it for plain text")
    if codec is None:
        return look.left_alone(f"compressed text of the ending .{look.ending} is not merged by this version")
    if shown is not None and shown is not codec:
        why = f"its name says {codec} but its content is {shown}"
        return not_merged(look.file, look.file_format, verdict=Verdict.UNREADABLE, why=why)
    chunks = partial(read_text, look.io, look.path, codec=codec)
    text, is_whole = read_beginning(chunks())
    ending, file_format = inner_ending(look.file.name), format_of(codec)
    inner = replace(look, head=text, is_whole=is_whole, ending=ending, file_format=file_format)
    if NO_TEXT.search(text) and not text.startswith(WIDE_MARKS):
        return inner.left_alone(f"what it holds under {codec} is no text")
    return replace(line_facts(inner, chunks), codec=codec.value)
