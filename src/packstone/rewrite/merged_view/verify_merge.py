"""Prove a merge: the merged view of the inputs, computed by hash groups, is what the outputs hold.

========  ============================================================================================
`content`  every value of every row: 128-bit multiset fingerprint and counts, and all that metadata says
`count`    keys, sequence numbers and kinds only: which version of each key won, not what it says;
           value columns are not read, on either side
========  ============================================================================================

The kernel merges sorted windows. Here rows are spread by the hash of their key, grouped by it, and the engine's rule
is applied to all groups at once: an error of one is hardly an error of the other. The two share the readers of data
files and nothing else. Floating-point sums and products fold from the oldest record to the newest on both sides, so
they are compared bit by bit; only a later merge of this output with older files may associate them otherwise, and
``note`` says so.

Cost: each input and output is read once more. 50 bytes a row are held, or spilled beyond a quarter of the memory, for
engines that keep one record; whole rows for the others. Ten runs of a million rows and nine columns took 2.5 to 3.2
times the CPU of decoding inputs and outputs alone in three runs on a busy machine, `count` 1.3 times in one.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa
from pyarrow import types

from packstone.errors import VerificationError
from packstone.rewrite.merge.merge_spec import MergeEngine, MergeSpec, WrittenFile, unpack_schema
from packstone.rewrite.merged_view.check_facts import FileFacts
from packstone.rewrite.merged_view.check_shape import check_shape
from packstone.rewrite.merged_view.layout import Layout
from packstone.rewrite.merged_view.order_codes import codes_per_value
from packstone.rewrite.merged_view.read_view import Block, ViewReader, blame_output
from packstone.rewrite.merged_view.row_lanes import Lanes, Scratch
from packstone.rewrite.merged_view.slim_rows import make_slim, merge_slim
from packstone.rewrite.merged_view.spread import HI, LO, Spread, part_bits
from packstone.rewrite.merged_view.wide_rows import make_wide, merge_wide
from packstone.rewrite.proof.fingerprint import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from packstone.storage.fileio import FileIO

_HELD_SHARE: Final = 4  # of the memory, rows that wait for their part's turn
_SLIM_ROW_BYTES: Final = 41  # two hashes, a sequence number, a kind
_UNPACKED_RATIO: Final = 6  # decoded bytes for each byte of a file, a guess: parts only get smaller or bigger
_EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was proved, and how long reading took."""

    fingerprint_before: Fingerprint
    fingerprint_after: Fingerprint
    rows: int
    seconds_before: float
    seconds_after: float
    spilled: bool = False
    note: str = ""


def verify_merge(
    io: FileIO, spec: MergeSpec, written: tuple[WrittenFile, ...], *, temp_folder: str | None = None
) -> Verified:
    """Raise VerificationError unless the files written hold exactly the merged view of the inputs, and say so right."""
    with InputView(io, spec, temp_folder=temp_folder) as inputs:
        inputs.read()
        return inputs.verify(written)


class InputView:
    """The merged view of the inputs, which can be made before or while they are merged."""

    def __init__(self, io: FileIO, spec: MergeSpec, *, temp_folder: str | None = None) -> None:
        self._io, self._spec = io, spec
        self._view = _View(io, spec, temp_folder=temp_folder)
        self._spread = self._view.spread()
        self._seconds = 0.0
        self._is_stopped = False
        self._fingerprint = Fingerprint.zero()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._spread.close()

    def read(self) -> None:
        """Read all inputs and merge them."""
        began = time.perf_counter()
        for block in self._view.reader.read_inputs():
            if self._is_stopped:
                return
            if block.batch.num_rows:
                self._spread.add(self._view.reduce(block))
        self._fingerprint = sum((rows.finish() for _, rows in self._view.merge(self._spread)), start=Fingerprint.zero())
        self._seconds = time.perf_counter() - began

    def stop(self) -> None:
        """Let ``read``, in another thread, come to an end: nobody needs it any more."""
        self._is_stopped = True

    def verify(self, written: tuple[WrittenFile, ...]) -> Verified:
        """Read the outputs back and compare, after the inputs were read."""
        before = self._fingerprint
        began = time.perf_counter()
        after = _read_back(self._io, self._view, written)
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
    """One merge: how its rows are read, reduced and merged."""

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
        self.reader = ViewReader(io, spec, self.layout, only_hashes=self._slim)

    def spread(self) -> Spread:
        """Make room for the rows of all inputs."""
        rows = max(1, sum(file.rows for file in self.spec.files))
        size_bytes = sum(file.size_bytes for file in self.spec.files)
        row_bytes = _SLIM_ROW_BYTES + (0 if self._slim else size_bytes * _UNPACKED_RATIO // rows)
        memory_bytes = self.spec.memory_bytes
        bits = part_bits(rows=rows, row_bytes=row_bytes, memory_bytes=memory_bytes)
        return Spread(bits=bits, memory_bytes=memory_bytes // _HELD_SHARE, folder=self._folder)

    def reduce(self, block: Block) -> pa.RecordBatch:
        """Keep of rows what merging them needs."""
        if self._slim:
            return make_slim(block, self.layout, descending=self.spec.sequence_descending)
        return make_wide(block, self.layout)

    def merge(self, spread: Spread) -> Iterator[tuple[Lanes, Lanes]]:
        """Merge part after part."""
        for number in range(len(spread)):
            part = self.merge_part(spread, number)
            if part is not None:
                yield part

    def merge_part(self, spread: Spread, number: int) -> tuple[Lanes, Lanes] | None:
        """Return the lanes of keys and rows that one part leaves."""
        part = spread.part(number)
        if part is None:
            return None
        if self._slim:
            return merge_slim(part, self.spec.engine, drop_deletes=self.spec.drop_deletes, scratch=self._scratch)
        return merge_wide(part, self.spec, self.layout, scratch=self._scratch)

    def finish_block(self, block: Block) -> Lanes:
        """Return the lanes of rows as they stand."""
        lanes = block.row_lanes(self.layout.payload)
        lanes.add_words(block.sequence.view(np.uint64))
        lanes.add_words(block.kind.astype(np.uint64))
        return lanes


def _read_back(io: FileIO, view: _View, written: tuple[WrittenFile, ...]) -> Fingerprint:
    """Fingerprint the outputs, and check what is recorded of each."""
    total = Fingerprint.zero()
    facts = {file.path: FileFacts(view.layout.output_schema, view.layout.keys) for file in written}
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
            raise VerificationError(f"{block.file.path} holds a retract row, which was to be dropped.")
        total += view.finish_block(block).finish()
    for file in written:
        facts[file.path].check(io, file)
    return total


def _note(spec: MergeSpec, layout: Layout) -> str:
    folded = {rule.column for rule in spec.engine.aggregates if rule.function in {"sum", "product"}}
    floats = sorted(name for name in folded & set(layout.payload) if types.is_floating(layout.schema.field(name).type))
    if spec.engine.name != MergeEngine.AGGREGATION.value or spec.drop_deletes or not floats:
        return ""
    return f"{', '.join(floats)}: compared bit by bit; merging with older files later may round otherwise"


def _find_examples(view: _View, spread: Spread, written: tuple[WrittenFile, ...]) -> Iterator[str]:
    """Spread the outputs as well, and tell a few keys of the first part that differs."""
    with view.spread() as outputs:
        for block in view.reader.read_outputs(written):
            row = view.finish_block(block)
            lanes = (block.key.lo, block.key.hi, row.lo, row.hi)
            outputs.add(pa.record_batch([pa.array(lane) for lane in lanes], names=[LO, HI, "row_lo", "row_hi"]))
        for number in range(len(spread)):
            expected = view.merge_part(spread, number)
            found = outputs.part(number)
            pairs = Counter() if expected is None else Counter(_pairs(*expected))
            others = Counter() if found is None else Counter(zip(*(c.to_pylist() for c in found.columns), strict=True))
            if pairs != others:
                yield from _name_keys(view, written, wanted=pairs - others, unwanted=others - pairs)
                return


def _pairs(keys: Lanes, rows: Lanes) -> Iterator[tuple[int, int, int, int]]:
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
        (both, view.reader.read_outputs(written), "is another row than expected"),
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
