"""Choose the encoding of each column by encoding a sample of its rows both ways.

PyArrow gives every column a dictionary until the dictionary exceeds a limit, even if no value occurs twice: the file
then holds each value and a code for it, and is up to a quarter bigger than the same values without a dictionary. Other
writers compare both forms after the first page. Merged files also differ from their inputs: ten thousand values that
occur once in each of a hundred files repeat in the merged file, and values that repeat only within one file need wider
codes there, because all files share one dictionary.

So a part of the first row group is encoded with and without dictionaries, under the codec of the output, and the sizes
are scaled to the whole row group::

    runs    ████      ████      ████      neighbours: what the codec makes of values and of codes
    spread  █   █   █   █   █   █   █     rows apart: how many different values the row group has

    without a dictionary   bytes of the runs x rows / sampled rows
    with a dictionary      bytes of an entry x entries + bytes of codes x rows / sampled rows x growth of a code's width

Cost: three times 8,192 rows are encoded for each output file, and a column without a dictionary is written faster.
Memory: the sample, at most 16 MiB, and its encoded forms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packstone.rewrite.numpy_columns import to_column
from packstone.rewrite.parquet.output_writer import OutputWriter
from packstone.rewrite.parquet.pages import header_number
from packstone.rewrite.parquet.thrift_compact import read_struct

if TYPE_CHECKING:
    from collections.abc import Mapping

SMALL_DICTIONARY_BYTES: Final = 1 << 20  # PyArrow's own limit
_SAMPLED_ROWS: Final = 8192
_SAMPLED_BYTES: Final = 4 << 20  # of each sample: fewer rows if they are wide
_MOST_SAMPLED_BYTES: Final = 16 << 20  # of both, if rows differ in width
_MIN_SAMPLED_ROWS: Final = 64  # fewer say nothing, and a file of a few rows is not worth a trial
_RUNS: Final = 4
_SCATTER: Final = 2_654_435_761  # Knuth's multiplicative hash: the same rows every time, at no regular distance
_TRIAL_DICTIONARY_BYTES: Final = 1 << 30  # the sample is small: its dictionary is never given up
# What a trial does without: it costs bytes in either form, or must fit all rows.
_NOT_TRIED: Final = ("bloom_filter_options", "sorting_columns", "write_page_index", "write_page_checksum")
# PageHeader, DictionaryPageHeader
_PLAIN_BYTES, _BODY_BYTES, _DICTIONARY_HEADER, _ENTRIES = 2, 3, 7, 1
_BY_TYPE: Final = {
    "BOOLEAN": ("RLE",),
    "INT32": ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    "INT64": ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"),
    "FLOAT": ("BYTE_STREAM_SPLIT",),
    "DOUBLE": ("BYTE_STREAM_SPLIT",),
    "BYTE_ARRAY": ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"),
    "FIXED_LEN_BYTE_ARRAY": ("DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"),
}

Encodings = frozenset[tuple[str, str]]  # physical type and encoding


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """What a column takes in one row group of a trial."""

    path: str
    physical_type: str
    values: int  # without nulls
    size_bytes: int  # compressed, with the dictionary
    entries: int = 0  # of the dictionary; 0: none
    dictionary_bytes: int = 0  # compressed
    entry_bytes: float = 0.0  # of one entry, not compressed


def encodings_of(metadata: pq.FileMetaData) -> Encodings:
    """Name the encodings beyond PLAIN and dictionaries that a file uses: its readers know them."""
    found: set[tuple[str, str]] = set()
    for group in (metadata.row_group(at) for at in range(metadata.num_row_groups)):
        for chunk in (group.column(at) for at in range(group.num_columns)):
            # Levels are RLE too; only booleans without PLAIN are known to be stored that way.
            known = set(_BY_TYPE.get(chunk.physical_type, ())) & set(chunk.encodings)
            found |= {(chunk.physical_type, one) for one in known if one != "RLE" or "PLAIN" not in chunk.encodings}
    return frozenset(found)


def choose_encodings(
    rows: pa.Table,
    options: Mapping[str, Any],
    *,
    known: Encodings = frozenset(),
    max_dictionary_bytes: int = SMALL_DICTIONARY_BYTES,
    codes_wide_rows: bool = True,
) -> dict[str, Any]:
    """Return the options of a writer of rows like these: which columns get a dictionary, and how the others are stored.

    Only PLAIN, dictionaries and the encodings ``known`` to the readers of this table are considered. Rows that are too
    wide for a trial get dictionaries or none: a reader cannot see in a footer how much such a dictionary expands to.
    """
    row_bytes = max(1, rows.nbytes // max(1, rows.num_rows))
    count = min(rows.num_rows, _SAMPLED_ROWS, _SAMPLED_BYTES // row_bytes)
    if count < _MIN_SAMPLED_ROWS:
        return {"use_dictionary": codes_wide_rows or rows.num_rows < _MIN_SAMPLED_ROWS}
    runs = _take_runs(rows, count)
    spread = runs if count == rows.num_rows else _take_spread(rows, -(-rows.num_rows // count))
    if runs.nbytes + spread.nbytes > _MOST_SAMPLED_BYTES:  # a few rows are far wider than the others
        return {"use_dictionary": codes_wide_rows}
    tried = {key: value for key, value in options.items() if key not in _NOT_TRIED}
    coded = tried | {"use_dictionary": True, "dictionary_pagesize_limit": _TRIAL_DICTIONARY_BYTES}
    with_dictionary, *rest = _try(coded, *((runs,) if spread is runs else (runs, spread)))
    whole = rest[0] if rest else with_dictionary
    without = _best_without(tried, runs, known=known, coded=with_dictionary)
    scale = rows.num_rows / runs.num_rows
    dictionaries: list[str] = []
    others: dict[str, str] = {}
    limit_bytes = SMALL_DICTIONARY_BYTES
    for one, every, (plain, encoding) in zip(with_dictionary, whole, without, strict=True):
        entries = _estimate_entries(every, rows.num_rows / spread.num_rows)
        dictionary_bytes = math.ceil(entries * one.entry_bytes)
        is_small = one.entries > 0 and dictionary_bytes <= max_dictionary_bytes
        if not one.values or (is_small and _coded_bytes(one, every, entries, scale=scale) <= plain * scale):
            dictionaries.append(one.path)
            limit_bytes = max(limit_bytes, min(max_dictionary_bytes, 2 * dictionary_bytes))
        elif encoding:
            others[one.path] = encoding
    return {
        "use_dictionary": dictionaries or False,
        "column_encoding": {path: one for path, one in others.items() if path not in dictionaries} or None,
        "dictionary_pagesize_limit": limit_bytes,
    }


def _coded_bytes(runs: _Trial, spread: _Trial, entries: float, *, scale: float) -> float:
    """Estimate the bytes of a column with a dictionary; the longer one of the trials shows what an entry takes."""
    codes = (runs.size_bytes - runs.dictionary_bytes) * scale * _width(entries) / _width(runs.entries)
    longer = max(runs, spread, key=lambda one: one.entries)
    return codes + longer.dictionary_bytes / longer.entries * entries


def _width(entries: float) -> int:
    """How many bits a code has."""
    return max(1, (math.ceil(entries) - 1).bit_length())


def _estimate_entries(spread: _Trial, scale: float) -> float:
    """Estimate the different values of all rows, as if each were equally frequent.

    Of D such values, n rows show D (1 - exp(-n / D)). That grows with D, so halving the interval finds it.
    """
    seen, drawn, most = spread.entries, spread.values, spread.values * scale
    if scale == 1 or seen > drawn:  # an Arrow dictionary is written whole, also the entries that no row has
        return seen
    low, high = float(seen), max(float(seen), most)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if -middle * math.expm1(-drawn / max(1.0, middle)) < seen else (low, middle)
    return high


def _best_without(
    options: Mapping[str, Any], runs: pa.Table, *, known: Encodings, coded: list[_Trial]
) -> list[tuple[int, str]]:
    """Find the smallest size of each column without a dictionary, and its encoding; an empty name is PLAIN."""
    plain = dict(options) | {"use_dictionary": False}
    best = [(one.size_bytes, "") for one in _try(plain, runs)[0]]
    for encoding in sorted({encoding for _, encoding in known}):
        paths = {one.path: encoding for one in coded if (one.physical_type, encoding) in known}
        tried = _try(plain | {"column_encoding": paths}, runs)[0]
        best = [
            (one.size_bytes, encoding) if one.path in paths and one.size_bytes < size else (size, name)
            for one, (size, name) in zip(tried, best, strict=True)
        ]
    return best


def _try(options: Mapping[str, Any], *groups: pa.Table) -> list[list[_Trial]]:
    """Write row groups into memory, and measure their columns."""
    sink = pa.BufferOutputStream()
    with OutputWriter(sink, groups[0].schema, **options) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=group.num_rows)
    data = sink.getvalue()
    metadata = pq.read_metadata(pa.BufferReader(data))
    written = (metadata.row_group(at) for at in range(metadata.num_row_groups))
    return [[_measure(group.column(at), data) for at in range(group.num_columns)] for group in written]


def _measure(chunk: pq.ColumnChunkMetaData, data: pa.Buffer) -> _Trial:
    found = _Trial(
        path=chunk.path_in_schema,
        physical_type=chunk.physical_type,
        values=chunk.num_values - _count_nulls(chunk),
        size_bytes=chunk.total_compressed_size,
    )
    if not chunk.has_dictionary_page:
        return found
    header, body = read_struct(memoryview(data).cast("B"), chunk.dictionary_page_offset)
    entries = header_number(header[_DICTIONARY_HEADER][1], _ENTRIES)
    return replace(
        found,
        entries=entries,
        dictionary_bytes=body - chunk.dictionary_page_offset + header_number(header, _BODY_BYTES),
        entry_bytes=header_number(header, _PLAIN_BYTES) / max(1, entries),
    )


def _count_nulls(chunk: pq.ColumnChunkMetaData) -> int:
    """Read it from the statistics; INT96 has none, and its nulls count as values."""
    found = chunk.statistics
    return int(found.null_count) if found is not None and found.has_null_count else 0


def _take_runs(rows: pa.Table, count: int) -> pa.Table:
    """A few runs of neighbours, spread over the rows."""
    if count == rows.num_rows:
        return rows
    length = -(-count // _RUNS)
    starts = (at * (rows.num_rows - length) // (_RUNS - 1) for at in range(_RUNS))
    return pa.concat_tables([rows.slice(start, length) for start in starts])


def _take_spread(rows: pa.Table, step: int) -> pa.Table:
    """Take one row of every ``step``, batch by batch: of a table, ``take`` copies every value first.

    Which one varies: at equal distances, values that recur at a distance of their own look unique, or all the same.
    """
    begins = np.arange(0, rows.num_rows, step)
    mixed = begins * _SCATTER % 2**32  # a first multiplication alone leaves equal steps between far rows
    mixed = (mixed ^ mixed >> 15) % 2**31 * _SCATTER % 2**32
    places = np.minimum(begins + mixed * step // 2**32, rows.num_rows - 1)
    batches, first = [], 0
    for batch in rows.to_batches():
        begin, end = np.searchsorted(places, (first, first + batch.num_rows))
        batches.append(batch.take(to_column(places[begin:end] - first)))
        first += batch.num_rows
    return pa.Table.from_batches(batches, schema=rows.schema)
