"""Our own earlier outputs: known by their name, and only if a journal records them (so a copied name is no proof)."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from packstone.errors import CorruptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.model.files import FileEntry
    from packstone.tables.hive.journal import Journal, SwapIntent
    from packstone.tables.hive.listing import PartitionListing

# Digits at the end of a name are a task id to Hive, which removes "duplicates" of one task (HIVE-17403); ours end
# in a letter.
OUTPUT_PREFIX = "packstone-"
_OUTPUT = re.compile(r"^packstone-(?P<run>\d{8}T\d{6}-[0-9a-f]{6})-\d{5,}m(\.|$)")
_CODEC_ENDINGS = frozenset({"gz", "bz2", "zst", "lz4", "snappy", "deflate"})


def output_name(run: str, unit: int, inputs: tuple[FileEntry, ...]) -> str:
    """Name an output: by run and unit, with the ending that the inputs share."""
    endings = [_whole_ending(file.name) for file in inputs]
    # In capitals or not, it is one ending; without it, readers would not know how a file is compressed.
    ending = endings[0] if len({one.lower() for one in endings}) == 1 else ""
    return f"{OUTPUT_PREFIX}{run}-{unit:05d}m{ending}"


def inner_ending(name: str) -> str:
    """What stands before the ending of a codec (``csv`` of ``x.csv.gz``), if it is a word, in lower case."""
    stem, ending = posixpath.splitext(name)
    inner = posixpath.splitext(stem)[1][1:]
    return inner.lower() if ending[1:].lower() in _CODEC_ENDINGS and inner.isalpha() else ""


def _whole_ending(name: str) -> str:
    """The ending, and before that of a codec the one of the text: people read ``*.csv.gz``."""
    stem, ending = posixpath.splitext(name)
    return posixpath.splitext(stem)[1] + ending if inner_ending(name) else ending


def known_outputs(journal: Journal, listing: PartitionListing) -> frozenset[str]:
    """Name the files of a partition that are outputs of recorded runs, unchanged since."""
    runs: dict[str, dict[str, tuple[int, int]]] = {}
    known: set[str] = set()
    for file in listing.files:
        match = _OUTPUT.match(file.name)
        if match is None:
            continue
        run = match.group("run")
        if run not in runs:
            runs[run] = _recorded(journal, run, listing.partition)
        size_bytes, mtime_ns = runs[run].get(file.name, (-1, 0))
        # Where a move is a copy, the time is that of the move.
        is_that_time = file.mtime_ns == mtime_ns or not journal.io.capabilities.atomic_rename
        if file.size_bytes == size_bytes and is_that_time:
            known.add(file.name)
    return frozenset(known)


def _recorded(journal: Journal, run: str, partition: str) -> dict[str, tuple[int, int]]:
    return {
        output.name: (output.size_bytes, output.mtime_ns)
        for intent in _readable_intents(journal, run, partition)
        if journal.has_mark(intent, "done")
        for output in intent.outputs
    }


def _readable_intents(journal: Journal, run: str, partition: str) -> Iterator[SwapIntent]:
    """A damaged record of a run that is over makes its outputs files like any other; they may be merged once more."""
    try:
        yield from journal.read_intents(run, partition=partition)
    except CorruptionError:
        return
