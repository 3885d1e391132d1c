"""Prove a merge: compare the merged view of the inputs, computed by hash groups, with the rows of the outputs.

========  ============================================================================================
`content`  every value of every row: 128-bit multiset fingerprint, counts, and all recorded metadata
`count`    keys, sequence numbers and kinds only: which version of each key is kept, not its values;
           value columns are not read, on either side
========  ============================================================================================

The kernel merges sorted windows. Here rows are partitioned by the hash of their key, grouped by it, and the engine's
rule is applied to all groups at once: an error in one is unlikely to be in the other. The two share only the readers of
data files and, in ``merge_and_verify``, the batches that these decode. Floating-point sums and products fold from the
oldest record to the newest on both sides, so they are compared bit by bit; only a later merge of this output with older
files may associate them differently, and ``note`` says so.

``merge_and_verify`` merges and proves, and decodes each input once: half of the cost of a proof was decoding again what
the merge had just decoded. The proof opens the files, and takes every batch into its view before the merge gets it:
whatever the merge does to a batch, or fails to do with it, comes too late to change the view. At the end each file of
the spec must have been read once and to its end, so that a merge that skips or repeats a file is found as well. What
this gives up: a value that PyArrow decodes wrongly once and correctly the next time is no longer found.

With an idle core and at least 512 MB, the next batches are decoded and hashed while the current ones are merged and
written. With small batches that costs a tenth more CPU.

Cost: each output is read once more. For engines that keep one record, 40 bytes per input row are held, or spilled
beyond an eighth of the memory; whole rows for the others.

``verify_append`` proves that files without keys were concatenated: the rows of the outputs are those of the inputs, in
their order.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa
from pyarrow import types

from packstone.errors import VerificationError
from packstone.model.unit import Fingerprint, Verify
from packstone.rewrite.data_files.batches import read_ahead, read_one_ahead
from packstone.rewrite.data_files.rows import read_rows
from packstone.rewrite.merge_tree.merge import run_merge
from packstone.rewrite.merge_tree.spec import (
    AppendSpec,
    InputFile,
    MergeEngine,
    MergeSpec,
    WrittenFile,
    unpack_schema,
)
from packstone.rewrite.proof.check_metadata import FactsOfRows, check_shape
from packstone.rewrite.proof.merged_rows import Ages, make_slim, make_wide, merge_slim, merge_wide
from packstone.rewrite.proof.merged_view import Block, Layout, ViewReader, as_input, blame_output
from packstone.rewrite.proof.order_codes import codes_per_value
from packstone.rewrite.proof.ordered_digest import digest_batches
from packstone.rewrite.proof.row_lanes import QuickLanes, Scratch
from packstone.rewrite.proof.spread import HI, LO, Spread, part_bits
from packstone.rewrite.proof.value_hash import U64
from packstone.rewrite.proof.verify_files import check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from packstone.rewrite.data_files.parquet_rows import RowWidths
    from packstone.rewrite.merge_tree.merge import ReadFile
    from packstone.rewrite.merge_tree.spec import MergeResult
    from packstone.storage.fileio import FileIO

_HELD_SHARE: Final = 4  # rows that wait for their part to be merged take 1/4 of the memory
_SLIM_ROW_BYTES: Final = 40  # two hashes with kind and run, a sequence number
_UNPACKED_RATIO: Final = (
    6  # estimated decoded bytes for each byte of a file; an error only changes the size of the parts
)
_EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of a proof, and how long reading took."""

    fingerprint_before: Fingerprint
    fingerprint_after: Fingerprint
    rows: int
    seconds_before: float
    seconds_after: float
    spilled: bool = False
    note: str = ""


def verify_merge(
    io: FileIO,
    spec: MergeSpec,
    written: tuple[WrittenFile, ...],
    *,
    temp_folder: str | None = None,
    has_columns: bool = True,
) -> Verified:
    """Raise VerificationError unless the written files hold exactly the merged view and their records are correct.

    ``has_columns=False``: the records have no exact ranges of column values, as for files published long ago.
    """
    with InputView(io, spec, temp_folder=temp_folder) as inputs:
        inputs.read()
        return inputs.verify(written, has_columns=has_columns)


def fingerprint_merged(io: FileIO, spec: MergeSpec, written: tuple[WrittenFile, ...]) -> Fingerprint:
    """Fingerprint files that were published, whose inputs are gone; raise if what is recorded of them is not so."""
    return _read_back(io, _View(io, spec, temp_folder=None), written, has_columns=False)


class InputView:
    """The merged view of the inputs, which can be computed before or during the merge."""

    def __init__(
        self, io: FileIO, spec: MergeSpec, *, temp_folder: str | None = None, held_share: int = _HELD_SHARE
    ) -> None:
        self._io, self._spec = io, spec
        self._view = _View(io, spec, temp_folder=temp_folder)
        self._spread = self._view.spread(held_share=held_share)
        self._seconds = 0.0
        self._fingerprint = Fingerprint.zero()
        runs = self._view.reader.runs
        self._runs = {file.path: number for number, run in enumerate(runs) for file in run}
        if len(self._runs) < len(spec.files):
            raise VerificationError("An input is listed twice.")
        self._checks = [self._view.reader.check_run(number) for number in range(len(runs))]
        self._begun: set[str] = set()
        self._ended: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._spread.close()

    def read(self) -> None:
        """Read all inputs and merge them."""
        began = time.perf_counter()
        for block in self._view.reader.read_inputs():
            self._add(block)
        self._seconds = time.perf_counter() - began
        self._merge()

    def feed(
        self, file: InputFile, schema: pa.Schema, *, batch_bytes: int, widths: RowWidths
    ) -> Iterator[pa.RecordBatch]:
        """Read one input for the merge: yield its rows, each batch after it was added to the view."""
        if file.path in self._begun:
            raise VerificationError(f"The merge reads {file.path} twice.", file=file.path)
        self._begun.add(file.path)
        check = self._checks[self._runs[file.path]]
        for batch in self._view.reader.read_file(file, schema, batch_bytes=batch_bytes, widths=widths):
            began = time.perf_counter()
            self._add(check.take(file, batch.select(self._view.layout.schema.names)))
            self._seconds += time.perf_counter() - began
            yield batch
        self._ended.add(file.path)

    @property
    def seconds(self) -> float:
        """How long reading took; where the merge decodes, how long adding its batches took."""
        return self._seconds

    def finish(self) -> None:
        """Merge what was fed; raise unless that was every input."""
        missing = self._runs.keys() - self._ended
        if missing:
            raise VerificationError(f"The merge did not read all of {min(missing)}.", file=min(missing))
        self._merge()

    def _add(self, block: Block) -> None:
        if block.batch.num_rows:
            self._spread.add(self._view.reduce(block))

    def _merge(self) -> None:
        began = time.perf_counter()
        self._fingerprint = sum((rows.finish() for _, rows in self._view.merge(self._spread)), start=Fingerprint.zero())
        self._seconds += time.perf_counter() - began

    def verify(self, written: tuple[WrittenFile, ...], *, has_columns: bool = True) -> Verified:
        """Read the outputs back and compare them with the inputs, which have been read."""
        before = self._fingerprint
        began = time.perf_counter()
        after = _read_back(self._io, self._view, written, has_columns=has_columns)
        seconds = time.perf_counter() - began
        if before != after:
            examples = "; ".join(_find_examples(self._view, self._spread, written))
            raise VerificationError(
                f"The merged view of {len(self._spec.files)} files is not what was written: {before} expected, "
                f"{after} found; {examples}."
            )
        return Verified(
            fingerprint_before=before,
            fingerprint_after=after,
            rows=after.rows,
            seconds_before=self._seconds,
            seconds_after=seconds,
            spilled=self._spread.spilled,
            note=_note(self._spec, self._view.layout),
        )


class _View:
    """Reads, reduces and merges the rows of one merge."""

    def __init__(self, io: FileIO, spec: MergeSpec, *, temp_folder: str | None) -> None:
        self.spec = spec
        self.layout = Layout.of(spec)
        self.left_out = spec.key_columns if spec.output.thin else ()
        self._folder = temp_folder
        self._scratch = Scratch()
        keeps_one = spec.engine.name in {MergeEngine.DEDUPLICATE.value, MergeEngine.FIRST_ROW.value}
        self._slim = keeps_one and all(
            codes_per_value(self.layout.schema.field(name).type) for name in self.layout.sequence
        )
        self._ages = Ages(sum(map(len, spec.sections)))
        self.reader = ViewReader(io, spec, self.layout, only_hashes=self._slim)

    def spread(self, *, held_share: int = _HELD_SHARE) -> Spread:
        """Return an empty partitioning, sized for the rows of all inputs, that holds a share of the memory."""
        rows = max(1, sum(file.rows for file in self.spec.files))
        size_bytes = sum(file.size_bytes for file in self.spec.files)
        row_bytes = _SLIM_ROW_BYTES + (0 if self._slim else size_bytes * _UNPACKED_RATIO // rows)
        memory_bytes = self.spec.memory_bytes
        bits = part_bits(rows=rows, row_bytes=row_bytes, memory_bytes=memory_bytes)
        return Spread(bits=bits, memory_bytes=memory_bytes // held_share, folder=self._folder)

    def reduce(self, block: Block) -> pa.RecordBatch:
        """Reduce rows to what merging them needs."""
        if self._slim:
            return make_slim(block, self.layout, descending=self.spec.sequence_descending, ages=self._ages)
        return make_wide(block, self.layout)

    def merge(self, spread: Spread) -> Iterator[tuple[QuickLanes, QuickLanes]]:
        """Merge one part after another."""
        for number in range(len(spread)):
            part = self.merge_part(spread, number)
            if part is not None:
                yield part

    def merge_part(self, spread: Spread, number: int) -> tuple[QuickLanes, QuickLanes] | None:
        """Return the lanes of the keys and rows that remain of one part."""
        part = spread.part(number)
        if part is None:
            return None
        if self._slim:
            return merge_slim(
                part, self.spec.engine, drop_deletes=self.spec.drop_deletes, ages=self._ages, scratch=self._scratch
            )
        return merge_wide(part, self.spec, self.layout, scratch=self._scratch)

    def key_lanes(self, block: Block) -> tuple[U64, U64]:
        """Return the lanes of the keys as ``merge`` does."""
        return block.key.lo, self._ages.strip(block.key.hi) if self._slim else block.key.hi

    def finish_block(self, block: Block) -> QuickLanes:
        """Return the lanes of rows without merging them."""
        lanes = block.row_lanes(self.layout.payload)
        lanes.add_words(block.sequence.view(np.uint64))
        lanes.add_words(block.kind.astype(np.uint64))
        return lanes


def _read_back(io: FileIO, view: _View, written: tuple[WrittenFile, ...], *, has_columns: bool) -> Fingerprint:
    """Fingerprint the outputs, and check the record of each."""
    total = Fingerprint.zero()
    facts = {file.path: FactsOfRows(view.layout.output_schema, view.layout.keys) for file in written}
    if len(facts) < len(written):
        raise VerificationError("An output is listed twice.")
    with blame_output():
        for file in written:
            check_shape(
                io, file, view.spec.output, schema=unpack_schema(view.spec.arrow_schema), left_out=view.left_out
            )
    for block in view.reader.read_outputs(written):
        facts[block.file.path].add(block.batch)
        if view.spec.drop_deletes and (block.kind & 1).any():
            raise VerificationError(f"{block.file.path} holds a retract row, which should have been dropped.")
        total += view.finish_block(block).finish()
    for file in written:
        facts[file.path].check(io, file, has_columns=has_columns)
    return total


def _note(spec: MergeSpec, layout: Layout) -> str:
    folded = {rule.column for rule in spec.engine.aggregates if rule.function in {"sum", "product"}}
    floats = sorted(name for name in folded & set(layout.payload) if types.is_floating(layout.schema.field(name).type))
    if spec.engine.name != MergeEngine.AGGREGATION.value or spec.drop_deletes or not floats:
        return ""
    return f"{', '.join(floats)}: compared bit by bit; merging with older files later may round differently"


def _find_examples(view: _View, spread: Spread, written: tuple[WrittenFile, ...]) -> Iterator[str]:
    """Partition the outputs as well, and describe a few keys of the first part that differs."""
    with view.spread() as outputs:
        for block in view.reader.read_outputs(written):
            row = view.finish_block(block)
            lanes = (*view.key_lanes(block), row.lo, row.hi)
            outputs.add(pa.record_batch([pa.array(lane) for lane in lanes], names=[LO, HI, "row_lo", "row_hi"]))
        for number in range(len(spread)):
            expected = view.merge_part(spread, number)
            found = outputs.part(number)
            pairs = Counter() if expected is None else Counter(_pairs(*expected))
            others = Counter() if found is None else Counter(zip(*(c.to_pylist() for c in found.columns), strict=True))
            if pairs != others:
                yield from _name_keys(view, written, wanted=pairs - others, unwanted=others - pairs)
                return


def _pairs(keys: QuickLanes, rows: QuickLanes) -> Iterator[tuple[int, int, int, int]]:
    return zip(keys.lo.tolist(), keys.hi.tolist(), rows.lo.tolist(), rows.hi.tolist(), strict=True)


def _name_keys(
    view: _View,
    written: tuple[WrittenFile, ...],
    *,
    wanted: Counter[tuple[int, int, int, int]],
    unwanted: Counter[tuple[int, int, int, int]],
) -> Iterator[str]:
    lost, extra = {pair[:2] for pair in wanted}, {pair[:2] for pair in unwanted}
    lost_only, both, extra_only = lost - extra, lost & extra, extra - lost
    for keys, blocks, what in (
        (lost_only, view.reader.read_inputs(), "is missing"),
        (both, view.reader.read_outputs(written), "has a different row than expected"),
        (extra_only, view.reader.read_outputs(written), "should not be there"),
    ):
        for key in _locate(view, blocks, keys=keys):
            yield f"key {key} {what}"


def _locate(view: _View, blocks: Iterator[Block], *, keys: set[tuple[int, int]]) -> list[tuple[object, ...]]:
    """Find the values of a few keys by their hashes."""
    found: dict[tuple[int, int], tuple[object, ...]] = {}
    wanted = np.array(sorted({lo for lo, _ in keys})[:_EXAMPLES], dtype=np.uint64)
    for block in blocks if len(wanted) else ():
        for row in np.flatnonzero(np.isin(block.key.lo, wanted)).tolist():
            values = tuple(block.batch.column(name)[row].as_py() for name in view.layout.keys)
            found[int(block.key.lo[row]), int(block.key.hi[row])] = values
        if len(found) >= len(wanted):
            break
    return list(found.values())


_FED_SHARE: Final = 8  # the view holds 1/8 of the memory while the merge runs
_AHEAD_BYTES: Final = 512 << 20  # with less, batches are so small that a second thread costs more than it saves
_MERGE_SHARE: Final = 5 / 8  # the rest is lost to fragmentation of two heaps, and holds the batches read ahead


def merge_and_verify(
    io: FileIO, spec: MergeSpec, *, name_file: Callable[[int], str], has_idle_core: bool
) -> tuple[MergeResult, Verified]:
    """Write the merged rows and prove them."""
    reduced = replace(spec, memory_bytes=int(spec.memory_bytes * _MERGE_SHARE))
    with InputView(io, spec, held_share=_FED_SHARE) as inputs:
        if has_idle_core and spec.memory_bytes >= _AHEAD_BYTES:
            with ThreadPoolExecutor(max_workers=1, thread_name_prefix="packstone-view") as pool:
                result = run_merge(io, reduced, name_file=name_file, read_file=_ahead(inputs.feed, pool))
        else:
            result = run_merge(io, reduced, name_file=name_file, read_file=inputs.feed)
        result = replace(result, read_seconds=max(0.0, result.read_seconds - inputs.seconds))
        inputs.finish()
        return result, inputs.verify(result.files)


def _ahead(read_file: ReadFile, pool: ThreadPoolExecutor) -> ReadFile:
    """Return a reader whose next batch is decoded and viewed while the last one is merged."""

    def read(file: InputFile, schema: pa.Schema, *, batch_bytes: int, widths: RowWidths) -> Iterator[pa.RecordBatch]:
        return read_one_ahead(read_file(file, schema, batch_bytes=batch_bytes, widths=widths), pool)

    return read


_READ_SHARE = 16  # a batch takes 1/16 of the memory, because some are decoded ahead
_MOST_BATCH_BYTES = 8 << 20


def verify_append(
    io: FileIO, spec: AppendSpec, written: tuple[WrittenFile, ...], *, has_columns: bool = True
) -> Verified:
    """Raise VerificationError unless the outputs hold the rows of the inputs in order and their records are correct.

    With ``count``, one column is read and rows are counted. ``has_columns=False``: the records have no exact ranges of
    column values, as for files published long ago.
    """
    began = time.perf_counter()
    rows = _read(io, spec.inputs, _read_schema(spec), batch_bytes=_batch_bytes(spec), checks_text=spec.checks_text)
    before = _digest(spec, rows)
    read = time.perf_counter()
    after = _read_back_appended(io, spec, written, has_columns=has_columns)
    ended = time.perf_counter()
    if before != after:
        raise VerificationError(
            f"The rows written are not those of the {len(spec.inputs)} inputs in their order: {before} expected, "
            f"{after} found."
        )
    return Verified(
        fingerprint_before=before,
        fingerprint_after=after,
        rows=after.rows,
        seconds_before=read - began,
        seconds_after=ended - read,
    )


def fingerprint_appended(io: FileIO, spec: AppendSpec, written: tuple[WrittenFile, ...]) -> Fingerprint:
    """Fingerprint files that were published, whose inputs are gone; raise if what is recorded of them is not so."""
    return _read_back_appended(io, spec, written, has_columns=False)


def _read_back_appended(
    io: FileIO, spec: AppendSpec, written: tuple[WrittenFile, ...], *, has_columns: bool
) -> Fingerprint:
    whole, schema = unpack_schema(spec.arrow_schema), _read_schema(spec)
    outputs = tuple(as_input(file, spec.output, schema) for file in written)
    facts = {file.path: FactsOfRows(schema, ()) for file in written}
    with blame_output():
        for file in written:
            check_shape(io, file, spec.output, schema=whole)
        after = _digest(spec, _read(io, outputs, schema, batch_bytes=_batch_bytes(spec), facts=facts))
    for file in written:
        facts[file.path].check(io, file, has_columns=has_columns)
    return after


def _read_schema(spec: AppendSpec) -> pa.Schema:
    """Return the columns to read: all, or one to count rows."""
    whole = unpack_schema(spec.arrow_schema)
    return whole if spec.verify is Verify.CONTENT else pa.schema([whole.field(0)])


def _batch_bytes(spec: AppendSpec) -> int:
    return min(_MOST_BATCH_BYTES, max(1, spec.memory_bytes // _READ_SHARE))


def _digest(spec: AppendSpec, batches: Iterator[pa.RecordBatch]) -> Fingerprint:
    if spec.verify is Verify.CONTENT:
        return digest_batches(batches)
    return Fingerprint(rows=sum(batch.num_rows for batch in batches), lo=0, hi=0)


def _read(
    io: FileIO,
    files: tuple[InputFile, ...],
    schema: pa.Schema,
    *,
    batch_bytes: int,
    facts: dict[str, FactsOfRows] | None = None,
    checks_text: bool = False,
) -> Iterator[pa.RecordBatch]:
    for file in files:
        for batch in read_ahead(read_rows(io, file, schema, batch_bytes=batch_bytes)):
            if facts is not None:
                facts[file.path].add(batch)
            if checks_text:
                check_text(batch, file.path)
            yield batch
