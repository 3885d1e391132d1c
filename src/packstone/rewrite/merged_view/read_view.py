"""Read inputs and outputs as blocks of rows whose keys are hashed, and check what can be seen on the way.

Every run, and all outputs together, must be sorted by key without a key twice; key columns must equal the value
columns that they mirror; rows must lie in the key range. An input that fails is named as unreadable, because merging
relies on its order; an output that fails was written wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import types

from packstone.errors import CorruptionError, RefusedError, UnreadableFileError, VerificationError
from packstone.rewrite.data_files.key_share import KeyBounds
from packstone.rewrite.data_files.rows import RowFilter
from packstone.rewrite.merge.merge_spec import (
    KIND_COLUMN,
    SEQUENCE_COLUMN,
    ColumnSource,
    Expiry,
    InputFile,
    MergeSpec,
    OutputSpec,
    WrittenFile,
)
from packstone.rewrite.merged_view.coded_rows import read_coded
from packstone.rewrite.merged_view.layout import Layout, mirrored_name
from packstone.rewrite.merged_view.order_codes import Mask, codes_of, find_disorder, is_below, read_validity
from packstone.rewrite.merged_view.row_lanes import Lanes, Scratch, read_fixed
from packstone.rewrite.proof.check_text import check_text
from packstone.rewrite.proof.value_hash import I64
from packstone.rewrite.read_ahead import read_ahead

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_READ_SHARE = 16  # of the memory, a batch; some are decoded ahead
_MOST_BATCH_BYTES = 8 << 20
_MILLISECONDS_FROM = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Rows with the lanes of their keys."""

    batch: pa.RecordBatch
    key: Lanes
    file: InputFile

    @property
    def sequence(self) -> I64:
        """The sequence numbers."""
        return read_fixed(self.batch.column(SEQUENCE_COLUMN))

    @property
    def kind(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The row kinds."""
        return read_fixed(self.batch.column(KIND_COLUMN)).astype(np.uint8)

    def row_lanes(self, payload: tuple[str, ...]) -> Lanes:
        """Go on from the key's lanes with the values."""
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
        """Yield all rows that take part in the merge, run by run."""
        for section in self._spec.sections:
            for run in section:
                yield from self._read_run(run, self._layout.schema)

    def read_outputs(self, written: tuple[WrittenFile, ...]) -> Iterator[Block]:
        """Yield all rows written; what is wrong with them is a failed verification."""
        run = tuple(as_input(file, self._spec.output, self._layout.output_schema) for file in written)
        with blame_output():
            yield from self._read_run(run, self._layout.output_schema, written=True)

    def _read_run(self, run: tuple[InputFile, ...], schema: pa.Schema, *, written: bool = False) -> Iterator[Block]:
        last: list[pa.Array] | None = None
        for file, batch in read_ahead(self._read_files(run, schema, written=written)):
            keys = [batch.column(name) for name in self._layout.keys]
            _check_sorted(file, keys, last)
            last = [key.slice(len(key) - 1) for key in keys]
            if written:
                _check_mirrors(file, batch, self._layout)
            self._check_range(file, keys[0])
            if self._spec.expiry is not None and not written:
                batch = batch.filter(pa.array(is_fresh(batch.column(self._spec.expiry.column), self._spec.expiry)))  # noqa: PLW2901 - the rest of it
                keys = [batch.column(name) for name in self._layout.keys]
            lanes = Lanes.start(batch.num_rows, scratch=self._scratch)
            lanes.add_columns(keys)
            yield Block(batch=batch, key=lanes, file=file)

    def _read_files(
        self, run: tuple[InputFile, ...], schema: pa.Schema, *, written: bool
    ) -> Iterator[tuple[InputFile, pa.RecordBatch]]:
        # Outputs are read whole: a row outside the range must be seen.
        keep = RowFilter() if written else RowFilter(bounds=self._bounds)
        # Where rows are kept, all blocks must have the same types.
        codable = set(self._layout.payload) - set(self._layout.sequence) if written or self._only_hashes else set()
        if self._spec.expiry is not None:
            codable.discard(self._spec.expiry.column)
        for file in run:
            for batch in read_coded(self._io, file, schema, codable=codable, batch_bytes=self._batch_bytes, keep=keep):
                if self._spec.checks_text and not written:
                    check_text(batch, file.path)
                yield file, batch

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
    """Whatever is wrong with a file that we wrote is a failed verification, no fault of an input."""
    try:
        yield
    except VerificationError:
        raise
    except (CorruptionError, RefusedError) as error:
        raise VerificationError(f"The output is wrong: {error.message}", **error.facts) from error


def as_input(file: WrittenFile, output: OutputSpec, schema: pa.Schema) -> InputFile:
    """Describe a file that was written as one to be read."""
    columns = tuple(
        ColumnSource(target=name, source=mirrored_name(name) if output.thin else name) for name in schema.names
    )
    return InputFile(
        path=file.path, file_format=output.file_format, size_bytes=file.size_bytes, rows=file.rows, columns=columns
    )


def is_fresh(column: pa.Array, expiry: Expiry) -> Mask:
    """Say of each row whether it may stay: rows without a time may."""
    values = column.cast(pa.int64()).fill_null(0).to_numpy()
    if types.is_timestamp(column.type):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
        # Milliseconds round down, seconds towards zero: as Java does.
        whole_ms = values // (per_second // 1000) * (per_second // 1000) if per_second > 1000 else values  # noqa: PLR2004
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
                f"{file.path} is not sorted by its key: {pair[0]} stands before {pair[1]}.", file=file.path
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
