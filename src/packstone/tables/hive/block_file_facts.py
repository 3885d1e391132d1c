"""Avro files, SequenceFiles and RCFiles are merged with those whose headers say the same of how they are read."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from packstone.rewrite.block_files.byte_source import open_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.rewrite.block_files.block_format import BlockFormat
    from packstone.tables.hive.file_verdict import FileFacts, LookedAt

# What ``--codec`` calls the codecs that headers name.
_CODEC_OPTIONS = {
    "snappy": "snappy",
    "zstandard": "zstd",
    "org.apache.hadoop.io.compress.SnappyCodec": "snappy",
    "org.apache.hadoop.io.compress.ZStandardCodec": "zstd",
    "org.apache.hadoop.io.compress.GzipCodec": "gzip",
}


def block_file_facts(blocks: BlockFormat) -> Callable[[LookedAt], FileFacts]:
    """How to look into files of a format: only the header is read."""

    def facts(look: LookedAt) -> FileFacts:
        with open_source(look.io, look.path) as source:
            header = blocks.read_header(source)
        if header.why_not:
            return look.left_alone(header.why_not)
        if look.codec not in ("keep", _CODEC_OPTIONS.get(header.codec)):
            return look.left_alone(f"its blocks keep their codec ({header.codec}); merge it without --codec")
        agreement = hashlib.sha256(header.agreement).hexdigest()
        return look.mergeable(f"codec={header.codec} header={agreement}", codec=header.codec)

    return facts
