"""The input and the result of the kernels of sorted files: sorted or unsorted files in, sorted files out.

Every row that is not deleted is kept, even if another row equals it in all sort columns. The order is that of the sort
columns, ascending: nulls first, strings and binaries by unsigned bytes, floats in Java's order (-0.0 < 0.0, NaN last).

Nothing here depends on a table. Specs and results hold plain values only, so they can be sent as JSON (model/codec.py)
and pickled. The functions that use them, with their modules::

    RowSorter(schema, sort_columns, memory_bytes=…)                                 merge.py
        .add(batch)  .sorted_batches() -> Iterator[RecordBatch]  .close()  .rows    (a context manager)
    BlockWriter(io, output, schema=…, name_file=…, row_bytes=0.0)                   block_writer.py
        .write(batch)  .close() -> tuple[WrittenBlockFile, …]  .abandon()  .rows
    merge_ordered(io, spec, name_file=…) -> OrderedResult                           merge.py
    verify_ordered(io, spec, files) -> Verified                                     verify.py
    RowDigest(schema) .add(batch) .fingerprint; verify_written(io, written, expected)    the same for a load
    read_part(bytes) -> RecordBatch; part_schema(schema, sort_columns)              block_facts.py
    join_parts(parts, schema=…, sort_columns=…), write_index, read_index        tables/segments/format/segment_file.py

``name_file(n)`` returns the name, in the output's directory, of the n-th file before that file is created.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from packstone.model.unit import Verify
from packstone.rewrite.merge_tree.spec import KeyRange, unpack_positions


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedFile:
    """One Parquet file that has the columns of the spec's schema."""

    path: str
    size_bytes: int
    rows: int  # deleted ones included
    deleted: str = field(default="", repr=False)  # their positions, as `pack_positions` writes them

    @property
    def live_rows(self) -> int:
        """How many rows are not deleted."""
        return self.rows - len(unpack_positions(self.deleted))

    def __str__(self) -> str:
        deleted = f" ({self.rows - self.live_rows} deleted)" if self.deleted else ""
        return f"{self.path} {self.rows} rows{deleted} {self.size_bytes}B"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOutput:
    """Where and how files are written.

    A row group has exactly ``block_rows`` rows, except the last of a file, and except rows so wide that this many
    would take more than ``block_bytes`` decoded: a row group is held in memory while its rows are collected.
    """

    directory: str
    compression: str = "zstd"
    compression_level: int | None = 1  # for zstd; None: the codec's default
    target_bytes: int = 256 << 20
    block_rows: int = 131_072
    block_bytes: int = 128 << 20
    sort_columns: tuple[str, ...] = ()
    bloom_columns: tuple[str, ...] = ()
    bloom_fpp: float = 0.01


OrderedRun: TypeAlias = tuple[OrderedFile, ...]  # files in the order of keys
OrderedSection: TypeAlias = tuple[OrderedRun, ...]  # runs that overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedMergeSpec:
    """A merge: sections in the order of keys, and unsorted files, become files that do not overlap.

    Without sort columns the files are concatenated: section by section, run by run, then the unsorted ones.
    """

    sections: tuple[tuple[tuple[OrderedFile, ...], ...], ...] = ()
    unsorted: tuple[OrderedFile, ...] = ()
    arrow_schema: str  # merge_tree.spec.pack_schema
    sort_columns: tuple[str, ...]
    key_range: KeyRange | None = None  # on the first sort column; nulls belong to the range without a lower bound
    output: BlockOutput
    memory_bytes: int = 256 << 20
    verify: Verify = Verify.CONTENT

    @property
    def files(self) -> tuple[OrderedFile, ...]:
        """All inputs, section by section and run by run, then the unsorted ones."""
        return (*(file for section in self.sections for run in section for file in run), *self.unsorted)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBlockFile:
    """One output with the facts that an index records of its row groups (``block_facts.read_part``)."""

    path: str
    size_bytes: int
    rows: int
    part: bytes = field(repr=False)
    bloom_crc: int = 0  # block_facts.bloom_checksum
    page_index_crc: int = 0  # block_facts.page_index_checksum
    footer_digest: str = ""  # parquet_checks.digest_footer, in hex; empty if an older packstone wrote the file

    def __str__(self) -> str:
        return f"{self.path} {self.rows} rows {self.size_bytes}B"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedResult:
    """The written files in the order of keys, the row counts, and the time of each phase. No files: no rows."""

    files: tuple[WrittenBlockFile, ...]
    rows_in: int
    rows_out: int
    read_seconds: float
    merge_seconds: float
    write_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBlocks:
    """Files to verify, with the parameters they were written with."""

    files: tuple[WrittenBlockFile, ...]
    arrow_schema: str
    sort_columns: tuple[str, ...]
    key_range: KeyRange | None = None
    memory_bytes: int = 256 << 20
    verify: Verify = Verify.CONTENT
