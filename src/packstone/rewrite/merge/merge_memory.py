"""How the memory of a task is shared out, and what happens when the runs of a section do not fit side by side.

An open Parquet file holds, per column, a decoded page and often a dictionary, about a megabyte each: ten runs of nine
columns take more than a hundred megabytes before the first row is merged. Where that is more than half of the memory,
the runs that take most are first copied to local disk in a form that is read batch by batch and holds nothing else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from packstone.rewrite.merge.merge_spec import FileFormat, InputFile
from packstone.rewrite.merge.run_cursor import Piece
from packstone.rewrite.parquet.footer import open_parquet
from packstone.rewrite.parquet.held_bytes import held_bytes

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_MAX_BATCH_BYTES = 8 << 20
_MIN_BATCH_BYTES = 64 << 10
_OTHER_COLUMN_BYTES = 1 << 18  # a stream of ORC, a block of Avro
# Shares of what the open files leave. A cursor holds up to three batches (two that wait, one in its reader), and the
# window that is being merged about as much again; the block is held once decoded and partly encoded.
_CURSOR_SHARE = 0.4
_BATCHES_PER_CURSOR = 3
_BLOCK_SHARE = 0.2
_OPEN_FILES_SHARE = 0.6
# Of the memory that is counted here a process takes about half as much again: pages that allocators keep, numbers of
# the sort, contexts of decompressors (measured on ten runs of nine columns).
_COUNTED_SHARE = 0.64


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryShares:
    """Sizes that together stay within the memory of a task."""

    batch_bytes: int
    block_bytes: int
    spilled_runs: frozenset[int] = frozenset()


def share_memory(io: FileIO, section: Sequence[Sequence[InputFile]], memory_bytes: int) -> MemoryShares:
    """Decide the size of batches and blocks, and which runs go to local disk first."""
    memory_bytes = int(memory_bytes * _COUNTED_SHARE)
    costs = {at: _open_bytes(io, run[0]) for at, run in enumerate(section) if run}
    spilled: set[int] = set()
    if len(section) > 1:
        for at in sorted(costs, key=lambda run: -costs[run]):
            if sum(cost for run, cost in costs.items() if run not in spilled) <= memory_bytes * _OPEN_FILES_SHARE:
                break
            spilled.add(at)
    held = sum(cost for run, cost in costs.items() if run not in spilled)
    left = max(memory_bytes - held, memory_bytes // 4)
    batch = int(left * _CURSOR_SHARE) // (_BATCHES_PER_CURSOR * max(1, len(section)))
    return MemoryShares(
        batch_bytes=min(_MAX_BATCH_BYTES, max(_MIN_BATCH_BYTES, batch)),
        block_bytes=int(left * _BLOCK_SHARE),
        spilled_runs=frozenset(spilled),
    )


def _open_bytes(io: FileIO, file: InputFile) -> int:
    """Estimate what an open file holds beside its batches; the first file speaks for its run."""
    columns = sum(column.source is not None for column in file.columns)
    if file.file_format is not FileFormat.PARQUET:
        return columns * _OTHER_COLUMN_BYTES
    with open_parquet(io, file.path) as parquet:
        metadata = parquet.metadata
        if not metadata.num_row_groups:
            return 0
        return held_bytes(metadata.row_group(0))


class SpilledRun:
    """A run copied to local disk, gone when it is closed."""

    def __init__(self, pieces: Iterator[Piece], schema: pa.Schema, *, temp_folder: str | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="packstone-run-", dir=temp_folder)
        self._file = str(Path(self._folder.name) / "run.arrow")
        self._paths: list[str] = []
        try:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            with pa.OSFile(self._file, "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
                for piece in pieces:
                    writer.write_batch(piece.batch)
                    self._paths.append(piece.path)
        except BaseException:
            self.close()
            raise

    def read(self) -> Iterator[Piece]:
        """Yield the batches as they came, each with the file that it came from."""
        with pa.OSFile(self._file, "rb") as source, pa.ipc.open_file(source) as reader:
            for at, path in enumerate(self._paths):
                yield Piece(batch=reader.get_batch(at), path=path)

    def close(self) -> None:
        """Remove the copy."""
        self._folder.cleanup()
