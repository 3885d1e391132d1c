"""One merge of a compaction run: its inputs, the units made of it, and the segment that comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from packstone.errors import VerificationError
from packstone.model.outcome import UnitOutcome
from packstone.model.unit import How, UnitResult, UnitStatus
from packstone.rewrite.merge.merge_spec import pack_schema
from packstone.rewrite.ordered.ordered_spec import BlockOutput, OrderedMergeSpec
from packstone.tables.segments.attempts import record_created
from packstone.tables.segments.column_types import to_arrow, to_ddl
from packstone.tables.segments.edits import SegmentFacts
from packstone.tables.segments.index_file import join_parts, write_index
from packstone.tables.segments.layout import (
    attempt_folder,
    index_file_name,
    index_file_path,
    index_folder,
    segment_file_name,
    segment_file_path,
    segment_folder,
)
from packstone.tables.segments.merge_tasks import MergeUnit
from packstone.tables.segments.properties import Compression, SortScope
from packstone.tables.segments.segment_file import DataFile, SegmentFile, write_segment_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.model.segment import SegmentId
    from packstone.model.segment_options import SegmentOptions
    from packstone.rewrite.ordered.ordered_spec import WrittenBlockFile
    from packstone.storage.fileio import FileIO
    from packstone.strategy.segment_rounds import Merge
    from packstone.tables.segments.column_types import Column
    from packstone.tables.segments.merge_inputs import MergeInputs
    from packstone.tables.segments.plan_merge import MergePiece
    from packstone.tables.segments.properties import Properties
    from packstone.tables.segments.status import StatusEntry

_MB = 1 << 20
_ZSTD_LEVEL = 1
_LEAST_PIECE_BYTES = 32 << 20  # about a second of work; each cut reads row groups of every run twice


@dataclass(slots=True)
class Group:
    """A merge in flight; its attempt is what the status knows it by."""

    merge: Merge
    attempt: str
    entries: tuple[StatusEntry, ...]
    inputs: MergeInputs
    units: tuple[MergeUnit, ...] = ()
    results: dict[int, UnitResult[WrittenBlockFile]] = field(default_factory=dict)

    @property
    def output(self) -> SegmentId:
        """The id of the segment that comes out."""
        return self.merge.result.id

    @property
    def read_files(self) -> dict[SegmentId, str]:
        """The segment files that were read: they must be the same at the commit."""
        return {entry.id: entry.segment_file or "" for entry in self.entries}

    @property
    def bad_results(self) -> list[UnitResult[WrittenBlockFile]]:
        """Units that were not written."""
        return [result for result in self.results.values() if result.status is not UnitStatus.WRITTEN]

    @property
    def written(self) -> list[WrittenBlockFile]:
        """The data files, unit by unit: in the order of keys."""
        return [file for unit in self.units for file in self.results[unit.number].outputs]

    def __str__(self) -> str:
        return " ".join(str(entry.id) for entry in self.entries)


@dataclass(slots=True)
class GroupMaker:
    """Makes units of pieces, and segments of results; units are numbered through."""

    io: FileIO
    table: str
    columns: tuple[Column, ...]
    properties: Properties
    asked: SegmentOptions
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def piece_bytes(self, groups: Iterable[Group], *, parallelism: int) -> int:
        """How big a piece of a wave is: every core gets some, as long as the pieces stay worth a task."""
        total = sum(group.inputs.size_bytes for group in groups)
        return min(self.asked.task_bytes, max(_LEAST_PIECE_BYTES, total // parallelism))

    def sorting_units(self, group: Group, piece_bytes: int) -> tuple[MergeUnit, ...]:
        """What is sorted first, into files that go with the attempt."""
        folder = f"{attempt_folder(self.table, group.attempt)}/sorted"
        pieces = group.inputs.sorting(task_bytes=piece_bytes)
        output = self._output(folder, compression=Compression.LZ4)
        return tuple(self._units(group, pieces, output)) if pieces else ()

    def merging_units(self, group: Group, piece_bytes: int) -> tuple[MergeUnit, ...]:
        """The work, in the order of keys."""
        folder = f"{self.table}/{segment_folder(group.output)}"
        pieces = group.inputs.pieces(task_bytes=piece_bytes)
        return tuple(self._units(group, pieces, self._output(folder, compression=self.properties.compression)))

    def take_sorted(self, group: Group, units: Iterable[MergeUnit]) -> None:
        """Let the sorted runs stand for the files that they came from."""
        runs = [group.results.pop(unit.number).outputs for unit in units]
        schema, sort_columns = to_arrow(self.columns), self.properties.sort_columns
        group.inputs = group.inputs.with_sorted(runs, schema=schema, sort_columns=sort_columns)

    def write_segment(self, group: Group) -> SegmentFacts:
        """Write the index file and the segment file, which nothing names yet."""
        segment, attempt = group.output, group.attempt
        index = index_file_path(self.table, index_file_name(segment, attempt))
        own = segment_file_path(self.table, segment_file_name(segment, attempt))
        paths = [path.removeprefix(f"{self.table}/") for path in (index, own)]
        record_created(self.io, self.table, attempt, paths=paths, label="segment")
        written = group.written
        _check_whole(group)
        self.io.make_dirs(index_folder(self.table))
        parts = [file.part for file in written]
        content_of_index = join_parts(parts, schema=to_arrow(self.columns), sort_columns=self.properties.sort_columns)
        written_index = write_index(self.io, index, content_of_index)
        content = self._segment_file(group, written, index_digest=written_index.digest)
        return SegmentFacts(
            segment_file=write_segment_file(self.io, self.table, content),
            rows=content.rows,
            files=len(content.files),
            data_bytes=content.data_bytes,
            index_bytes=written_index.size_bytes,
        )

    def committed_paths(self, group: Group) -> set[str]:
        """All that the committed segment consists of, relative to the table."""
        prefix = f"{self.table}/"
        own = (
            index_file_path(self.table, index_file_name(group.output, group.attempt)),
            segment_file_path(self.table, segment_file_name(group.output, group.attempt)),
        )
        return {path.removeprefix(prefix) for path in (*own, *(file.path for file in group.written))}

    def _segment_file(self, group: Group, written: list[WrittenBlockFile], *, index_digest: str) -> SegmentFile:
        files = tuple(
            DataFile(path=one.path.removeprefix(f"{self.table}/"), run=0, rows=one.rows, size_bytes=one.size_bytes)
            for one in written
        )
        sort_columns = self.properties.sort_columns
        return SegmentFile(
            id=group.output,
            attempt=group.attempt,
            files=files,
            sort_columns=sort_columns,
            # One run over all files, whatever the table asks of its loads.
            sort_scope=SortScope.GLOBAL_SORT if sort_columns else SortScope.NO_SORT,
            schema=to_ddl(self.columns),
            index_file=index_file_name(group.output, group.attempt),
            index_digest=index_digest,
            rows=sum(file.rows for file in files),
            data_bytes=sum(file.size_bytes for file in files),
        )

    def _units(self, group: Group, pieces: Iterable[MergePiece], output: BlockOutput) -> Iterator[MergeUnit]:
        self.io.make_dirs(output.directory)
        schema = pack_schema(to_arrow(self.columns))
        for piece in pieces:
            spec = OrderedMergeSpec(
                sections=piece.sections,
                unsorted=piece.unsorted,
                arrow_schema=schema,
                sort_columns=self.properties.sort_columns,
                key_range=piece.key_range,
                output=output,
                memory_bytes=self.asked.memory_bytes,
                verify=self.asked.verify,
            )
            number = next(self._numbers)
            yield MergeUnit(number=number, attempt=group.attempt, spec=spec, input_bytes=piece.size_bytes)

    def _output(self, directory: str, *, compression: Compression) -> BlockOutput:
        return BlockOutput(
            directory=directory,
            compression=compression.value,
            compression_level=_ZSTD_LEVEL if compression is Compression.ZSTD else None,
            target_bytes=self.properties.table_blocksize * _MB,
            block_rows=self.properties.table_blocklet_rows,
            sort_columns=self.properties.sort_columns,
            bloom_columns=self.properties.bloom_columns,
            bloom_fpp=self.properties.bloom_fpp,
        )


def _check_whole(group: Group) -> None:
    """Each piece is proved by itself; only here is seen whether the pieces together are all that was to be merged."""
    expected, found = sum(entry.rows for entry in group.entries), sum(file.rows for file in group.written)
    if found != expected:
        raise VerificationError(f"Segments {group} hold {expected} rows, the merged segment {found}; nothing changed.")


def group_outcome(group: Group, *, table: str) -> UnitOutcome:
    """What a committed merge did."""
    results = [group.results[unit.number] for unit in group.units]
    files = group.written
    return UnitOutcome(
        partition=str(group.output),
        inputs=tuple(str(entry.id) for entry in group.entries),
        outputs=tuple(file.path.removeprefix(f"{table}/") for file in files),
        how=How.REWRITE,
        why=group.merge.why,
        bytes_before=sum(entry.data_bytes for entry in group.entries),
        bytes_after=sum(file.size_bytes for file in files),
        rows=sum(result.rows_out for result in results),
        fingerprint=results[0].fingerprint if len(results) == 1 else "",
        seconds=sum(result.seconds for result in results),
        why_bigger="; ".join(result.why_bigger for result in results if result.why_bigger),
        read_seconds_before=sum(result.read_seconds_before for result in results),
        read_seconds_after=sum(result.read_seconds_after for result in results),
    )
