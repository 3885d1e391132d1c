"""Read inputs and outputs as blocks of rows with hashed keys, and check their order and range while reading.

Every run, and all outputs together, must be sorted by key without duplicate keys; key columns must equal the value
columns that they mirror; rows must be in the key range. An input that fails is reported as unreadable, because merging
relies on its order; an output that fails was written wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyarrow import types

from packstone.errors import CorruptionError, RefusedError, UnreadableFileError, VerificationError
from packstone.model.unit import Verify
from packstone.rewrite.data_files.batches import read_ahead
from packstone.rewrite.data_files.parquet_rows import ParquetRows, RowWidths
from packstone.rewrite.data_files.rows import RowFilter, read_rows
from packstone.rewrite.formats.parquet_footer import int96_columns, open_parquet
from packstone.rewrite.merge_tree.cursor import KeyBounds, share_of
from packstone.rewrite.merge_tree.spec import (
    KIND_COLUMN,
    SEQUENCE_COLUMN,
    ColumnSource,
    DataFormat,
    Expiry,
    InputFile,
    MergeSpec,
    OutputSpec,
    WrittenFile,
    unpack_schema,
)
from packstone.rewrite.proof.order_codes import Mask, codes_of, find_disorder, is_below, read_validity
from packstone.rewrite.proof.row_lanes import QuickLanes, Scratch, read_fixed
from packstone.rewrite.proof.value_hash import I64
from packstone.rewrite.proof.verify_files import check_text

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow.parquet as pq

    from packstone.storage.fileio import FileIO

_READ_SHARE = 16  # a batch takes 1/16 of the memory, because some are decoded ahead
_MOST_BATCH_BYTES = 8 << 20
_MILLISECONDS_FROM = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Rows with the lanes of their keys."""

    batch: pa.RecordBatch
    key: QuickLanes
    file: InputFile
    run: int  # the number of the run among all runs of the merge, from the oldest place to the newest

    @property
    def sequence(self) -> I64:
        """The sequence numbers."""
        return read_fixed(self.batch.column(SEQUENCE_COLUMN))

    @property
    def kind(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The row kinds."""
        return read_fixed(self.batch.column(KIND_COLUMN)).astype(np.uint8)

    def row_lanes(self, payload: tuple[str, ...]) -> QuickLanes:
        """Return the lanes of the key extended by the values."""
        lanes = self.key.fork()
        lanes.add_columns([self.batch.column(name) for name in payload])
        return lanes


class ViewReader:
    """Reads the runs of one merge, inputs or outputs."""

    def __init__(self, io: FileIO, spec: MergeSpec, layout: Layout, *, only_hashes: bool) -> None:
        self._io, self._spec, self._layout, self._only_hashes = io, spec, layout, only_hashes
        self._bounds = KeyBounds.of(spec.key_columns[0], spec.key_range)
        self._scratch = Scratch()
        self._batch_bytes = min(_MOST_BATCH_BYTES, max(1, spec.memory_bytes // _READ_SHARE))

    def read_inputs(self) -> Iterator[Block]:
        """Yield all input rows of the merge, run by run."""
        for number, run in enumerate(self.runs):
            yield from self._read_run(run, self._layout.schema, number=number)

    def read_outputs(self, written: tuple[WrittenFile, ...]) -> Iterator[Block]:
        """Yield all rows written; any error in them is a VerificationError."""
        run = tuple(as_input(file, self._spec.output, self._layout.output_schema) for file in written)
        with blame_output():
            yield from self._read_run(run, self._layout.output_schema, number=0, written=True)

    @property
    def runs(self) -> list[tuple[InputFile, ...]]:
        """The runs of all sections, in their order."""
        return [run for section in self._spec.sections for run in section]

    def read_file(
        self, file: InputFile, schema: pa.Schema, *, batch_bytes: int, widths: RowWidths
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one input in the range of keys, as they are decoded."""
        keep = RowFilter(bounds=self._bounds)
        return read_rows(self._io, file, schema, batch_bytes=batch_bytes, keep=keep, widths=widths)

    def check_run(self, number: int, *, written: bool = False) -> RunCheck:
        """Return the check of a run whose batches are added one by one."""
        return RunCheck(self._spec, self._layout, number=number, scratch=self._scratch, written=written)

    def _read_run(
        self, run: tuple[InputFile, ...], schema: pa.Schema, *, number: int, written: bool = False
    ) -> Iterator[Block]:
        check = self.check_run(number, written=written)
        for file, batch in read_ahead(self._read_files(run, schema, written=written)):
            yield check.take(file, batch)

    def _read_files(
        self, run: tuple[InputFile, ...], schema: pa.Schema, *, written: bool
    ) -> Iterator[tuple[InputFile, pa.RecordBatch]]:
        # Outputs are read completely: a row outside the range must be found.
        keep = RowFilter() if written else RowFilter(bounds=self._bounds)
        # Where whole rows are kept, all blocks must have the same types.
        codable = set(self._layout.payload) - set(self._layout.sequence) if written or self._only_hashes else set()
        if self._spec.expiry is not None:
            codable.discard(self._spec.expiry.column)
        for file in run:
            for batch in read_coded(self._io, file, schema, codable=codable, batch_bytes=self._batch_bytes, keep=keep):
                yield file, batch


class RunCheck:
    """Checks the batches of one run, in their order, and hashes their keys."""

    def __init__(self, spec: MergeSpec, layout: Layout, *, number: int, scratch: Scratch, written: bool) -> None:
        self._spec, self._layout, self._number, self._written = spec, layout, number, written
        self._bounds = KeyBounds.of(spec.key_columns[0], spec.key_range)
        self._scratch = scratch
        self._last: list[pa.Array] | None = None

    def take(self, file: InputFile, batch: pa.RecordBatch) -> Block:
        """Return the rows with the lanes of their keys, valid until the next call; expired rows are left out."""
        if self._spec.checks_text and not self._written:
            check_text(batch, file.path)
        keys = [batch.column(name) for name in self._layout.keys]
        _check_sorted(file, keys, self._last)
        self._last = [key.slice(len(key) - 1) for key in keys]
        if self._written:
            _check_mirrors(file, batch, self._layout)
        self._check_range(file, keys[0])
        if self._spec.expiry is not None and not self._written:
            batch = batch.filter(pa.array(is_fresh(batch.column(self._spec.expiry.column), self._spec.expiry)))
            keys = [batch.column(name) for name in self._layout.keys]
        lanes = QuickLanes.start(batch.num_rows, scratch=self._scratch)
        lanes.add_columns(keys)
        return Block(batch=batch, key=lanes, file=file, run=self._number)

    def _check_range(self, file: InputFile, key: pa.Array) -> None:
        if self._bounds is None:
            return
        lower, upper = self._bounds.lower, self._bounds.upper
        if (lower is not None and is_below(key, lower).any()) or (upper is not None and not is_below(key, upper).all()):
            raise UnreadableFileError(
                f"{file.path} has rows outside the range of keys, or out of order.", file=file.path
            )


@contextmanager
def blame_output() -> Iterator[None]:
    """Turn any error in a file that we wrote into a VerificationError: no input is to blame."""
    try:
        yield
    except VerificationError:
        raise
    except (CorruptionError, RefusedError) as error:
        raise VerificationError(f"The output is wrong: {error.message}", **error.facts) from error


def as_input(file: WrittenFile, output: OutputSpec, schema: pa.Schema) -> InputFile:
    """Describe a written file as an input, to read it back."""
    columns = tuple(
        ColumnSource(target=name, source=mirrored_name(name) if output.thin else name) for name in schema.names
    )
    return InputFile(
        path=file.path, file_format=output.file_format, size_bytes=file.size_bytes, rows=file.rows, columns=columns
    )


def is_fresh(column: pa.Array, expiry: Expiry) -> Mask:
    """Return for each row whether it is kept; rows without a time are."""
    values = column.cast(pa.int64()).fill_null(0).to_numpy()
    if types.is_timestamp(column.type):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
        # Milliseconds round down, seconds towards zero, as in Java.
        whole_ms = values // (per_second // 1000) * (per_second // 1000) if per_second > 1000 else values
        seconds = whole_ms // per_second + ((whole_ms < 0) & (whole_ms % per_second != 0))
    else:
        is_ms = types.is_int64(column.type) & (values >= _MILLISECONDS_FROM)
        seconds = np.where(is_ms, values // 1000, values)
    return ~read_validity(column) | (expiry.now_seconds - seconds <= expiry.expire_seconds)


def _check_sorted(file: InputFile, keys: list[pa.Array], last: list[pa.Array] | None) -> None:
    joint = None if last is None else [pa.concat_arrays([a, b.slice(0, 1)]) for a, b in zip(last, keys, strict=True)]
    for rows in (joint, keys):
        at = None if rows is None else find_disorder(rows)
        if rows is not None and at is not None:
            pair = [tuple(column[place].as_py() for column in rows) for place in (at, at + 1)]
            raise UnreadableFileError(
                f"{file.path} is not sorted by its key: {pair[0]} comes before {pair[1]}.", file=file.path
            )


def _check_mirrors(file: InputFile, batch: pa.RecordBatch, layout: Layout) -> None:
    for key, value in layout.mirrors:
        if not _is_same(batch.column(key), batch.column(value)):
            raise UnreadableFileError(
                f"{file.path}: column {key} differs from {value}, which it mirrors.", file=file.path
            )


def _is_same(key: pa.Array, value: pa.Array) -> bool:
    if not types.is_floating(key.type):
        return bool(key.equals(value))
    valid = read_validity(key)
    if not np.array_equal(valid, read_validity(value)):
        return False
    return all(np.array_equal(a[valid], b[valid]) for a, b in zip(codes_of(key), codes_of(value), strict=True))


KEY_PREFIX = "_KEY_"  # a key column mirrors the value column of the same name without it


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of a merge by role: what identifies a row, what orders its versions, what it holds.

    A value column that mirrors a key column is compared with it in the outputs and otherwise ignored: the key's hash
    covers both. In the inputs it is not read: if it differed there, it would differ in the outputs.
    With ``count``, of the values only those that decide between versions are read.
    """

    keys: tuple[str, ...]
    mirrors: tuple[tuple[str, str], ...]  # (key column, value column)
    payload: tuple[str, ...]
    sequence: tuple[str, ...]
    schema: pa.Schema  # of all columns read from an input
    output_schema: pa.Schema  # of all columns read from an output

    @classmethod
    def of(cls, spec: MergeSpec) -> Layout:
        """Assign the columns of a spec to their roles."""
        whole = unpack_schema(spec.arrow_schema)
        system = {*spec.key_columns, SEQUENCE_COLUMN, KIND_COLUMN}
        values = [name for name in whole.names if name not in system]
        mirrors = tuple((key, value) for key in spec.key_columns if (value := mirrored_name(key)) in values)
        mirrored = {value for _, value in mirrors}
        payload = tuple(name for name in values if name not in mirrored)
        needed = {*system, *spec.sequence_columns, *([spec.expiry.column] if spec.expiry else ())}
        if spec.verify is Verify.COUNT:
            mirrors = payload = ()
            written = pa.schema([field for field in whole if field.name in system])
        else:
            needed.update(payload)
            written = whole
        return cls(
            keys=spec.key_columns,
            mirrors=mirrors,
            payload=payload,
            sequence=spec.sequence_columns,
            schema=pa.schema([field for field in whole if field.name in needed]),
            output_schema=written,
        )


def mirrored_name(key_column: str) -> str:
    """Return the name of the value column that a key column mirrors."""
    return key_column.removeprefix(KEY_PREFIX)


# ---- coded rows ----
# Read Parquet files and leave dictionary-encoded strings as codes: decoding, hashing and ranges each cost a fifth.
#
# Only where the rows need no change: no evolved type, no deleted position. All other files are read by ``data_files``.


# The most bytes that codes take per value, dictionary included: where a writer gave up its dictionary and wrote the
# strings themselves, building one here costs more than it saves.
_CODE_BYTES = 3


def read_coded(
    io: FileIO, file: InputFile, schema: pa.Schema, *, codable: Collection[str], batch_bytes: int, keep: RowFilter
) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows; strings of the columns in ``codable`` may be dictionary arrays."""
    coded = [] if keep.expiry is not None else _find_coded(io, file, schema, codable=codable)
    if not coded:
        yield from read_rows(io, file, schema, batch_bytes=batch_bytes, keep=keep)
        return
    count = 0
    rows = ParquetRows(io, file.path, schema.names, widths=RowWidths(), coded=coded)
    share = share_of(file, schema, keep.bounds)
    with closing(rows):
        for _, batch in rows.batches(batch_bytes=batch_bytes, share=share):
            count += batch.num_rows
            kept = batch.select(schema.names)
            kept = kept if keep.bounds is None else keep.bounds.cut(kept)
            if kept.num_rows:
                yield kept
    if keep.bounds is None and count != file.rows:
        raise CorruptionError(f"{file.path} holds {count} rows, its metadata say {file.rows}.", file=file.path)


def _find_coded(io: FileIO, file: InputFile, schema: pa.Schema, *, codable: Collection[str]) -> list[str]:
    """Name the columns to be left as codes; none if the rows need a change."""
    wanted = set(schema.names)
    plain = file.file_format is DataFormat.PARQUET and not file.deleted and file.sequence_override is None
    if not plain or any(column.source != column.target for column in file.columns if column.target in wanted):
        return []
    with open_parquet(io, file.path) as parquet:
        found = parquet.schema_arrow
        same = all(found.get_field_index(f.name) >= 0 and found.field(f.name).type == f.type for f in schema)
        if not same or wanted & set(int96_columns(parquet)):
            return []
        return [field.name for field in schema if field.name in codable and is_coded(parquet, field)]


def is_coded(parquet: pq.ParquetFile, field: pa.Field) -> bool:
    """Whether every chunk of a string column is so small that it must be codes."""
    if not (pt.is_string(field.type) or pt.is_binary(field.type)):
        return False
    metadata = parquet.metadata
    at = next((i for i in range(metadata.num_columns) if metadata.schema.column(i).path == field.name), None)
    if at is None:
        return False
    chunks = [metadata.row_group(group).column(at) for group in range(metadata.num_row_groups)]
    return all(
        chunk.has_dictionary_page and chunk.total_uncompressed_size <= _CODE_BYTES * chunk.num_values
        for chunk in chunks
    )
