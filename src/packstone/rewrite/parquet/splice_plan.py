"""Which columns of some Parquet files can be merged by copying their pages, found from the footers alone.

A column qualifies if in all files its chunks hold nothing but data pages that need no dictionary, under one codec.
A field with several columns (a struct, a list of structs) qualifies if all of them do. The rest is decoded and encoded
again, because a chunk can have only one dictionary. Whole files do not qualify if copied pages would be read under
another meaning, or if something would be lost that encoding anew keeps: see ``_check_file``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packstone.errors import PackstoneError
from packstone.rewrite.parquet.footer import has_page_index, open_parquet, schema_tree, sorting_of
from packstone.rewrite.parquet.int96 import int96_columns
from packstone.rewrite.parquet.pages import SELF_CONTAINED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

# LZ4 is left out: two framings go by that name, and the footer's number for it is not shown by PyArrow.
CODEC_NUMBERS: Final = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}
# Smaller pages cost readers more than they are worth, and only encoding anew makes bigger ones.
_MIN_PAGE_VALUES: Final = 1_000
_MIN_PAGE_BYTES: Final = 16 << 10
# Where less could be copied, there is little to win.
_MIN_COPIED_PCT: Final = 20
# A row group is held in memory while its chunks are put together.
_MAX_GROUP_BYTES: Final = 128 << 20
_PARQUET_MR: Final = re.compile(r"parquet-mr version (\d+)\.(\d+)")
_FIRST_GOOD_PARQUET_MR: Final = (1, 8)


class CannotSpliceError(PackstoneError):
    """These files cannot be merged by copying pages; encoding them again is the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplicePlan:
    """What to copy and what to encode again."""

    copied: tuple[int, ...]  # numbers of columns, counted as in the footer
    encoded_fields: tuple[str, ...]  # names of top-level fields


@dataclass(slots=True)
class _Survey:
    """What the footers read so far leave possible."""

    codecs: list[str]
    candidates: set[int]
    values: list[int]
    plain_bytes: list[int]
    chunks: int = 0
    all_bytes: int = 0


def plan_splice(io: FileIO, paths: Sequence[str]) -> SplicePlan:
    """Look at all footers; CannotSpliceError says why nothing, or too little, can be copied."""
    with open_parquet(io, paths[0]) as first:
        leaves = first.metadata.num_columns
        survey = _Survey(
            codecs=[""] * leaves, candidates=set(range(leaves)), values=[0] * leaves, plain_bytes=[0] * leaves
        )
        _check_schema(first)
        for path in paths:
            with open_parquet(io, path) as file:
                _check_file(file, first, path)
                _survey_file(file.metadata, survey)
            if not survey.candidates:
                raise CannotSpliceError("every column has a dictionary, a bloom filter or a codec of its own")
        if not survey.chunks:
            raise CannotSpliceError("there are no rows")
        for leaf in tuple(survey.candidates):
            if not has_good_pages(survey.values[leaf], survey.plain_bytes[leaf], pages=survey.chunks):
                survey.candidates.discard(leaf)
        return _choose_fields(first, survey)


def has_good_pages(values: int, plain_bytes: int, *, pages: int) -> bool:
    """Whether pages are on average as long as a reader wants them, in values or in bytes."""
    return values >= _MIN_PAGE_VALUES * pages or plain_bytes >= _MIN_PAGE_BYTES * pages


def field_of(file: pq.ParquetFile, leaf: int) -> str:
    """Name the top-level field that a column belongs to (their names hold no dots, see ``_check_file``)."""
    path: str = file.metadata.schema.column(leaf).path
    return path.split(".", 1)[0]


def leaves_of(file: pq.ParquetFile, name: str) -> list[int]:
    """Number the columns of a top-level field."""
    return [leaf for leaf in range(file.metadata.num_columns) if field_of(file, leaf) == name]


def encoded_fields(file: pq.ParquetFile, copied: Sequence[int]) -> tuple[str, ...]:
    """Name the fields of which not every column was copied."""
    rest = sorted(set(range(file.metadata.num_columns)) - set(copied))
    return tuple(dict.fromkeys(field_of(file, leaf) for leaf in rest))


def copied_fields(file: pq.ParquetFile, copied: Sequence[int]) -> tuple[str, ...]:
    """Name the fields whose columns were copied."""
    return tuple(dict.fromkeys(field_of(file, leaf) for leaf in copied))


def _check_schema(first: pq.ParquetFile) -> None:
    names = first.schema_arrow.names
    if len(set(names)) < len(names) or any(not name or "." in name for name in names):
        raise CannotSpliceError("its columns cannot be told apart by name")
    if int96_columns(first):
        raise CannotSpliceError("it has INT96 columns")
    if _is_old_writer(first.metadata.created_by):
        raise CannotSpliceError(f"it was written by {first.metadata.created_by}, whose pages may lean on each other")


def _check_file(file: pq.ParquetFile, first: pq.ParquetFile, path: str) -> None:
    metadata, expected = file.metadata, first.metadata
    if metadata.created_by != expected.created_by:
        # Readers correct for the bugs of a writer by its name, which stands once in a file.
        raise CannotSpliceError(f"{path} was written by {metadata.created_by}, another writer than the first file's")
    if not metadata.schema.equals(expected.schema) and schema_tree(metadata.schema) != schema_tree(expected.schema):
        raise CannotSpliceError(f"{path} has another schema than the first file")
    if sorting_of(metadata):
        raise CannotSpliceError("its row groups are sorted, and bigger ones must be sorted again")
    if has_page_index(metadata):
        raise CannotSpliceError("it has page indexes, which are written anew")


def _is_old_writer(created_by: str) -> bool:
    """parquet-mr before 1.8 wrote delta pages that need the page before them; of a writer without a name, who knows."""
    version = _PARQUET_MR.match(created_by)
    if version is None:
        return not created_by or created_by.startswith("parquet-mr")
    return (int(version[1]), int(version[2])) < _FIRST_GOOD_PARQUET_MR


def _survey_file(metadata: pq.FileMetaData, survey: _Survey) -> None:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if not group.num_rows:
            continue
        survey.chunks += 1
        survey.all_bytes += group.total_byte_size
        if group.total_byte_size > _MAX_GROUP_BYTES:
            raise CannotSpliceError("it has row groups that are too big to be held in memory")
        for leaf in tuple(survey.candidates):
            chunk = group.column(leaf)
            if not _can_copy(chunk, survey.codecs[leaf]):
                survey.candidates.discard(leaf)
                continue
            survey.codecs[leaf] = chunk.compression
            survey.values[leaf] += chunk.num_values
            survey.plain_bytes[leaf] += chunk.total_uncompressed_size


def _can_copy(chunk: pq.ColumnChunkMetaData, codec: str) -> bool:
    return (
        chunk.compression in CODEC_NUMBERS
        and chunk.compression == (codec or chunk.compression)
        and not chunk.has_dictionary_page
        and all(encoding in SELF_CONTAINED for encoding in chunk.encodings)
        and getattr(chunk, "bloom_filter_offset", None) is None
        and not chunk.file_path
    )


def _choose_fields(first: pq.ParquetFile, survey: _Survey) -> SplicePlan:
    leaves = range(first.metadata.num_columns)
    mixed = {field_of(first, leaf) for leaf in leaves if leaf not in survey.candidates}
    copied = tuple(leaf for leaf in leaves if field_of(first, leaf) not in mixed)
    copied_bytes = sum(survey.plain_bytes[leaf] for leaf in copied)
    if copied_bytes * 100 < _MIN_COPIED_PCT * survey.all_bytes or not copied:
        raise CannotSpliceError(f"less than {_MIN_COPIED_PCT} % of the bytes could be copied")
    return SplicePlan(copied=copied, encoded_fields=encoded_fields(first, copied))
