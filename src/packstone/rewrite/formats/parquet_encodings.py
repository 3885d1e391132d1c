"""Choose the encoding of each column by encoding a sample of its rows both ways; explain files that grew.

PyArrow gives every column a dictionary until the dictionary exceeds a limit, even if no value occurs twice: the file
then holds each value and a code for it, and is up to a quarter bigger than the same values without a dictionary. Other
writers compare both forms after the first page. Merged files also differ from their inputs: ten thousand values that
occur once in each of a hundred files repeat in the merged file, and values that repeat only within one file need wider
codes there, because all files share one dictionary.

So a part of the first row group is encoded with and without dictionaries, under the codec of the output, and the sizes
are scaled to the whole row group::

    runs    ████      ████      ████      neighbours: how well the codec compresses values and codes
    spread  █   █   █   █   █   █   █     distant rows: how many different values the row group has

    without a dictionary   bytes of the runs x rows / sampled rows
    with a dictionary      bytes of an entry x entries + bytes of codes x rows / sampled rows x growth of a code's width

Cost: three times 8,192 rows are encoded for each output file, and a column without a dictionary is written faster.
Memory: the sample, at most 16 MiB, and its encoded forms.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packstone.model.sizes import format_bytes
from packstone.model.unit import is_notably_bigger
from packstone.rewrite.data_files.batches import to_column
from packstone.rewrite.formats.parquet_file_writer import OutputWriter
from packstone.rewrite.formats.parquet_footer import open_parquet
from packstone.rewrite.formats.parquet_pages import header_number
from packstone.rewrite.formats.parquet_thrift import read_struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packstone.storage.fileio import FileIO

SMALL_DICTIONARY_BYTES: Final = 1 << 20  # PyArrow's own limit
_SAMPLED_ROWS: Final = 8192
_SAMPLED_BYTES: Final = 4 << 20  # of each sample: fewer rows if they are wide
_MOST_SAMPLED_BYTES: Final = 16 << 20  # of both samples, if rows differ in width
_MIN_SAMPLED_ROWS: Final = 64  # fewer rows show nothing, and a file of a few rows is not worth a trial
_RUNS: Final = 4
_SCATTER: Final = 2_654_435_761  # Knuth's multiplicative hash: the same rows every time, at no regular distance
_TRIAL_DICTIONARY_BYTES: Final = 1 << 30  # the sample is small, so its dictionary never exceeds this
# Options that a trial omits: they cost the same bytes in either form, or must fit all rows.
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
    """The size of a column in one row group of a trial."""

    path: str
    physical_type: str
    values: int  # without nulls
    size_bytes: int  # compressed, with the dictionary
    entries: int = 0  # of the dictionary; 0 without one
    dictionary_bytes: int = 0  # compressed
    entry_bytes: float = 0.0  # of one entry, not compressed


def encodings_of(metadata: pq.FileMetaData) -> Encodings:
    """The encodings beyond PLAIN and dictionaries that a file uses; its readers support them."""
    found: set[tuple[str, str]] = set()
    for group in (metadata.row_group(at) for at in range(metadata.num_row_groups)):
        for chunk in (group.column(at) for at in range(group.num_columns)):
            # Levels are RLE too; only booleans without PLAIN certainly use RLE for values.
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
    """The writer options for rows like these: which columns get a dictionary, and how the others are encoded.

    Only PLAIN, dictionaries and the encodings ``known`` to the readers of this table are considered. Rows that are too
    wide for a trial get dictionaries only if ``codes_wide_rows``: a footer does not show how much such a dictionary
    expands to.
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
    """Estimate the bytes of a column with a dictionary; the trial with more entries gives the size of an entry."""
    codes = (runs.size_bytes - runs.dictionary_bytes) * scale * _width(entries) / _width(runs.entries)
    longer = max(runs, spread, key=lambda one: one.entries)
    return codes + longer.dictionary_bytes / longer.entries * entries


def _width(entries: float) -> int:
    """The number of bits of a code."""
    return max(1, (math.ceil(entries) - 1).bit_length())


def _estimate_entries(spread: _Trial, scale: float) -> float:
    """Estimate the number of different values of all rows, assuming that each is equally frequent.

    Of D such values, n rows show D (1 - exp(-n / D)). That grows with D, so bisection finds D.
    """
    seen, sampled, most = spread.entries, spread.values, spread.values * scale
    if scale == 1 or seen > sampled:  # an Arrow dictionary is written whole, including entries that no row has
        return seen
    low, high = float(seen), max(float(seen), most)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if -middle * math.expm1(-sampled / max(1.0, middle)) < seen else (low, middle)
    return high


def _best_without(
    options: Mapping[str, Any], runs: pa.Table, *, known: Encodings, coded: list[_Trial]
) -> list[tuple[int, str]]:
    """The smallest size of each column without a dictionary, and its encoding; an empty name is PLAIN."""
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
    """The number of nulls by the statistics; INT96 has none, and its nulls count as values."""
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
    """Take one row of every ``step``, batch by batch: on a table, ``take`` copies every value first.

    Its position varies: at equal distances, values that recur periodically would look all unique, or all equal.
    """
    begins = np.arange(0, rows.num_rows, step)
    mixed = begins * _SCATTER % 2**32  # one multiplication alone leaves equal steps between distant rows
    mixed = (mixed ^ mixed >> 15) % 2**31 * _SCATTER % 2**32
    places = np.minimum(begins + mixed * step // 2**32, rows.num_rows - 1)
    batches, first = [], 0
    for batch in rows.to_batches():
        begin, end = np.searchsorted(places, (first, first + batch.num_rows))
        batches.append(batch.take(to_column(places[begin:end] - first)))
        first += batch.num_rows
    return pa.Table.from_batches(batches, schema=rows.schema)


# ---- growth: why a merged file is bigger than its inputs ----

_NAMED_COLUMNS: Final = 3  # the columns that grew most


@dataclass(slots=True)
class _Columns:
    """The sizes of the columns of one or more files."""

    size_bytes: Counter[str] = field(default_factory=Counter)
    coded: set[str] = field(default_factory=set)  # the columns with a dictionary
    file_bytes: int = 0


def describe_growth(
    io: FileIO, inputs: Sequence[tuple[str, str]], outputs: Sequence[tuple[str, int]], *, input_bytes: int
) -> str:
    """Explain outputs (path, bytes) that are notably bigger than their inputs (path, format); empty if they are not."""
    output_bytes = sum(size_bytes for _, size_bytes in outputs)
    if not is_notably_bigger(input_bytes, output_bytes):
        return ""
    is_parquet = all(form == "parquet" for _, form in inputs) and all(path.endswith(".parquet") for path, _ in outputs)
    reason = explain_growth(io, [path for path, _ in inputs], [path for path, _ in outputs]) if is_parquet else ""
    return growth_sentence(len(inputs), input_bytes, len(outputs), output_bytes=output_bytes, reason=reason)


def growth_sentence(files: int, input_bytes: int, outputs: int, *, output_bytes: int, reason: str) -> str:
    """A sentence that states by how much the inputs grew, and why."""
    grown_pct = output_bytes * 100 / max(1, input_bytes) - 100
    return (
        f"{files} files of {format_bytes(input_bytes)} became {'one' if outputs == 1 else outputs} of "
        f"{format_bytes(output_bytes)} (+{grown_pct:.1f} %): {reason or 'they were compressed better by their writer'}"
    )


def explain_growth(io: FileIO, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """Name the columns that grew most and why; this reads all footers again, so call it only if the files grew."""
    before, after = _survey(io, inputs), _survey(io, outputs)
    grown = after.size_bytes.copy()
    grown.subtract(before.size_bytes)
    named = [(path, more) for path, more in grown.most_common(_NAMED_COLUMNS) if more > 0]
    reasons = [f"column {path} takes {format_bytes(more)} more, {_reason(path, before, after)}" for path, more in named]
    rest = (after.file_bytes - after.size_bytes.total()) - (before.file_bytes - before.size_bytes.total())
    if rest > 0:
        reasons.append(f"footer, indexes and bloom filters take {format_bytes(rest)} more")
    return "; ".join(reasons)


def _survey(io: FileIO, paths: Sequence[str]) -> _Columns:
    found = _Columns()
    for path in paths:
        status = io.stat(path)
        found.file_bytes += 0 if status is None else status.size_bytes
        with open_parquet(io, path) as file:
            groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
        for chunk in (group.column(at) for group in groups for at in range(group.num_columns)):
            found.size_bytes[chunk.path_in_schema] += chunk.total_compressed_size
            if any("DICTIONARY" in encoding for encoding in chunk.encodings):
                found.coded.add(chunk.path_in_schema)
    return found


def _reason(path: str, before: _Columns, after: _Columns) -> str:
    if path in after.coded and path in before.coded:
        return "because its values repeat within the files more than across them, and one dictionary has longer codes"
    if path in before.coded:
        return "because one dictionary for the values of all files would be too big"
    if path in after.coded:
        return "because it was given a dictionary by a sample of its rows, which differ from the others"
    return "because it was compressed less well than by its writer"
