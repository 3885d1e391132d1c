"""One merge of a compaction: its input files, its plan, its units stage by stage, and the segment that it makes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Self

from packstone.errors import CorruptionError, RefusedError, VerificationError
from packstone.model.outcome import UnitOutcome
from packstone.model.unit import How
from packstone.rewrite.merge_tree.spec import pack_positions, pack_schema
from packstone.rewrite.sorted_merge.spec import BlockOutput, OrderedFile, OrderedMergeSpec
from packstone.runs.state_folder import make_staging
from packstone.tables.segments.format.columns import to_arrow, to_ddl
from packstone.tables.segments.format.delete_file import read_deletes
from packstone.tables.segments.format.edits import SegmentFacts
from packstone.tables.segments.format.layout import (
    data_file_path,
    index_file_name,
    index_file_path,
    index_folder,
    segment_file_name,
    segment_file_path,
    segment_folder,
)
from packstone.tables.segments.format.properties import Compression, SortScope
from packstone.tables.segments.format.segment_file import (
    DataFile,
    SegmentFile,
    join_parts,
    read_index,
    read_segment,
    write_index,
    write_segment_file,
)
from packstone.tables.segments.options import is_sorted_as
from packstone.tables.segments.plan import (
    KeyedFile,
    MergePiece,
    keyed_files,
    needs_sorting_first,
    plan_joining,
    plan_pieces,
    plan_sorting,
)
from packstone.tables.segments.tasks import MergeUnit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from packstone.model.limits import Allowance
    from packstone.model.segment import SegmentId
    from packstone.model.work import Work
    from packstone.rewrite.formats.roaring import Positions
    from packstone.rewrite.sorted_merge.spec import WrittenBlockFile
    from packstone.runs.folder import Run
    from packstone.storage.fileio import FileIO
    from packstone.strategy.segment_rounds import Merge
    from packstone.tables.segments.format.columns import TableColumn
    from packstone.tables.segments.format.properties import Properties
    from packstone.tables.segments.format.status import StatusEntry
    from packstone.tables.segments.options import SegmentOptions

    MergeWork = Work["SegmentMerge", MergeUnit, WrittenBlockFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeInputs:
    """The input files of one merge, sorted ones with their keys; without sort columns all are ``plain``, in order."""

    keyed: tuple[KeyedFile, ...] = ()
    unsorted: tuple[OrderedFile, ...] = ()
    plain: tuple[OrderedFile, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The size of the input."""
        files = (*(one.file for one in self.keyed), *self.unsorted, *self.plain)
        return sum(file.size_bytes for file in files)

    def sorting(self, *, task_bytes: int) -> tuple[MergePiece, ...]:
        """The pieces that must be sorted before the merge can be split; usually none."""
        if not needs_sorting_first(self.keyed, self.unsorted, task_bytes=task_bytes):
            return ()
        return plan_sorting(self.unsorted, task_bytes=task_bytes)

    def pieces(self, *, task_bytes: int) -> tuple[MergePiece, ...]:
        """The pieces of the merge, in key order."""
        if self.plain:
            return plan_joining(self.plain, task_bytes=task_bytes)
        return plan_pieces(self.keyed, self.unsorted, task_bytes=task_bytes)

    def with_sorted(
        self, runs: Iterable[Sequence[WrittenBlockFile]], *, schema: pa.Schema, sort_columns: Sequence[str]
    ) -> MergeInputs:
        """Return the inputs with sorted runs instead of the unsorted files."""
        keyed = list(self.keyed)
        for written in runs:
            files = [OrderedFile(path=one.path, size_bytes=one.size_bytes, rows=one.rows) for one in written]
            index = join_parts([one.part for one in written], schema=schema, sort_columns=sort_columns)
            keyed += keyed_files(files, index, sort_columns)
        return MergeInputs(keyed=tuple(keyed))


def read_merge_inputs(
    io: FileIO, table: str, entries: Sequence[StatusEntry], *, columns: Sequence[TableColumn], properties: Properties
) -> MergeInputs:
    """Read the segment and index files of segments in id order; CorruptionError if one is missing or damaged."""
    keyed: list[KeyedFile] = []
    unsorted: list[OrderedFile] = []
    plain: list[OrderedFile] = []
    for entry in entries:
        segment = read_entry_file(io, table, entry)
        _check_schema(segment, columns)
        files = ordered_files(table, segment, _read_deletes(io, table, entry, segment=segment))
        if not properties.sort_columns:
            plain += files
        elif is_sorted_as(segment, properties):
            keyed += _read_keys(io, table, segment, files=files, properties=properties)
        else:
            unsorted += files
    return MergeInputs(keyed=tuple(keyed), unsorted=tuple(unsorted), plain=tuple(plain))


def ordered_files(table: str, segment: SegmentFile, deleted: Mapping[str, Positions]) -> list[OrderedFile]:
    """The data files of a segment as a merge reads them, with the positions of their deleted rows."""
    return [
        OrderedFile(
            path=data_file_path(table, file.path),
            size_bytes=file.size_bytes,
            rows=file.rows,
            deleted=pack_positions(deleted[file.path]) if file.path in deleted else "",
        )
        for file in segment.files
    ]


def _read_deletes(io: FileIO, table: str, entry: StatusEntry, *, segment: SegmentFile) -> Mapping[str, Positions]:
    try:
        return read_deletes(io, table, entry, segment=segment)
    except FileNotFoundError as error:
        raise CorruptionError(
            f"The delete file {entry.delete_file} of segment {entry.id} is missing; restore it from a backup.",
            segment=str(entry.id),
        ) from error


def read_entry_file(io: FileIO, table: str, entry: StatusEntry) -> SegmentFile:
    """Read the segment file of a live entry; CorruptionError if it is missing."""
    try:
        return read_segment(io, table, entry)
    except FileNotFoundError as error:
        raise CorruptionError(
            f"The segment file {entry.segment_file} of segment {entry.id} is missing; restore it from a backup, or "
            "delete the segment.",
            segment=str(entry.id),
        ) from error


def _read_keys(
    io: FileIO, table: str, segment: SegmentFile, *, files: list[OrderedFile], properties: Properties
) -> tuple[KeyedFile, ...]:
    index = read_index(io, table, segment)
    return keyed_files(files, index, properties.sort_columns)


def _check_schema(segment: SegmentFile, columns: Sequence[TableColumn]) -> None:
    if segment.schema != to_ddl(columns):
        raise RefusedError(
            f"Segment {segment.id} was written with other columns ({segment.schema}) than the table has now, so it "
            "cannot be merged."
        )


# ---- units ----

_MB = 1 << 20
_ZSTD_LEVEL = 1
_LEAST_PIECE_BYTES = 32 << 20  # about a second of work; each cut reads row groups of every run twice


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMerge:
    """A planned merge of some segments into one."""

    merge: Merge
    entries: tuple[StatusEntry, ...]  # of the members that exist, in id order
    file_count: int
    files_out: int  # an estimate
    inputs: MergeInputs = field(default_factory=MergeInputs)  # read before the merge runs

    @property
    def part(self) -> str:
        """The ids of its members."""
        return " ".join(str(member.id) for member in self.merge.members)

    @property
    def output(self) -> SegmentId:
        """The id of the merged segment."""
        return self.merge.result.id

    @property
    def read_bytes(self) -> int:
        """The size of all files of its members."""
        return self.merge.result.size_bytes

    @property
    def write_bytes(self) -> int:
        """The size of the merged segment, and of what must be sorted first."""
        return self.read_bytes + sum(file.size_bytes for file in self.inputs.unsorted)

    @property
    def unit_count(self) -> int:
        """1: a merge counts as one, whatever its number of pieces."""
        return 1

    @property
    def read(self) -> dict[SegmentId, tuple[str | None, str | None]]:
        """The segment files and delete files that are read; they must be unchanged at the commit."""
        return {entry.id: entry.content for entry in self.entries}

    def within(self, left: Allowance) -> tuple[Self | None, str]:
        """Return the whole merge or nothing: a merge of fewer segments would be a different one."""
        why = left.why_not(self.read_bytes, self.file_count)
        return (None, why) if why else (self, "")

    def planned(self) -> UnitOutcome:
        """The merge as a plan shows it."""
        return UnitOutcome(
            partition=str(self.output),
            inputs=tuple(str(member.id) for member in self.merge.members),
            outputs=(),
            how=How.REWRITE,
            why=self.merge.why,
            bytes_before=self.read_bytes,
            input_files=self.file_count,
        )

    def __str__(self) -> str:
        return str(self.merge)


@dataclass(slots=True)
class MergeUnits:
    """Makes units from pieces, and segments from results; units are numbered through the run."""

    io: FileIO
    table: str
    columns: tuple[TableColumn, ...]
    properties: Properties
    options: SegmentOptions
    piece_bytes: int = 0
    _numbers: count[int] = field(default_factory=lambda: count(1))
    _sorting: dict[str, tuple[int, ...]] = field(default_factory=dict)  # by part: the units that sort for it
    _merging: set[str] = field(default_factory=set)

    def size_pieces(self, plans: Iterable[SegmentMerge], *, parallelism: int) -> None:
        """Set the piece size so that every core gets a piece of a wave, unless pieces would be too small for a task."""
        total = sum(plan.inputs.size_bytes for plan in plans)
        self.piece_bytes = min(self.options.task_bytes, max(_LEAST_PIECE_BYTES, total // parallelism))

    def next_stage(self, work: MergeWork, run: Run) -> Sequence[MergeUnit]:
        """Return the units that sort first, usually none; then the units that merge, in key order; then none."""
        part, plan = work.part, work.plan
        if part in self._merging:
            return ()
        inputs, is_sorted_first = plan.inputs, part in self._sorting
        if is_sorted_first:
            inputs = self._take_sorted(work)
        else:
            pieces = inputs.sorting(task_bytes=self.piece_bytes)
            if pieces:
                folder = _sorted_folder(run, plan)
                make_staging(self.io, run.state, folder)
                output = self._output(folder, compression=Compression.LZ4)
                units = tuple(self._units(plan, pieces, output, run=run, is_staged=True))
                self._sorting[part] = tuple(unit.number for unit in units)
                return units
        self._merging.add(part)
        folder = f"{self.table}/{segment_folder(plan.output)}"
        self.io.make_dirs(folder)
        output = self._output(folder, compression=self.properties.compression)
        made = self._units(plan, inputs.pieces(task_bytes=self.piece_bytes), output, run=run)
        return tuple(replace(unit, is_sorted_first=is_sorted_first) for unit in made)

    def end(self, work: MergeWork, run: Run) -> None:
        """Remove the sorted runs of a merge that has ended."""
        if work.part in self._sorting:
            self.io.remove_tree(_sorted_folder(run, work.plan))

    def _take_sorted(self, work: MergeWork) -> MergeInputs:
        """Replace unsorted files by the sorted runs made from them; drops the units that sorted."""
        runs = []
        for number in self._sorting[work.part]:
            del work.units[number]
            runs.append(work.results.pop(number).outputs)
        schema, sort_columns = to_arrow(self.columns), self.properties.sort_columns
        return work.plan.inputs.with_sorted(runs, schema=schema, sort_columns=sort_columns)

    def write_segment(self, work: MergeWork, run: Run) -> SegmentFacts:
        """Write the index file and the segment file, which no status names yet."""
        index, own = self._own_files(work.plan.output, run)
        run.record_created((index, own))
        written = files_of_merge(work)
        _check_whole(work.plan, written)
        self.io.make_dirs(index_folder(self.table))
        parts = [file.part for file in written]
        content_of_index = join_parts(parts, schema=to_arrow(self.columns), sort_columns=self.properties.sort_columns)
        written_index = write_index(self.io, index, content_of_index)
        content = self._segment_file(work.plan, written, run=run, index_digest=written_index.digest)
        return SegmentFacts(
            segment_file=write_segment_file(self.io, self.table, content),
            rows=content.rows,
            files=len(content.files),
            data_bytes=content.data_bytes,
            index_bytes=written_index.size_bytes,
        )

    def committed_paths(self, work: MergeWork, run: Run) -> set[str]:
        """The paths of all files of the committed segment."""
        return {*self._own_files(work.plan.output, run), *(file.path for file in files_of_merge(work))}

    def outcome(self, work: MergeWork) -> UnitOutcome:
        """The result of a merge."""
        files = files_of_merge(work)
        return replace(
            work.plan.planned(),
            outputs=tuple(file.path.removeprefix(f"{self.table}/") for file in files),
            bytes_after=sum(file.size_bytes for file in files),
            **UnitOutcome.sums([work.results[number] for number in work.units]),
        )

    def _own_files(self, output: SegmentId, run: Run) -> tuple[str, str]:
        return (
            index_file_path(self.table, index_file_name(output, run.id)),
            segment_file_path(self.table, segment_file_name(output, run.id)),
        )

    def _segment_file(
        self, plan: SegmentMerge, written: Sequence[WrittenBlockFile], *, run: Run, index_digest: str
    ) -> SegmentFile:
        files = tuple(
            DataFile(
                path=one.path.removeprefix(f"{self.table}/"),
                run=0,
                rows=one.rows,
                size_bytes=one.size_bytes,
                bloom_crc=one.bloom_crc,
                page_index_crc=one.page_index_crc,
                footer_digest=one.footer_digest,
            )
            for one in written
        )
        sort_columns = self.properties.sort_columns
        return SegmentFile(
            id=plan.output,
            attempt=run.id,
            files=files,
            sort_columns=sort_columns,
            # All files are one run, whatever the table's sort scope for loads.
            sort_scope=SortScope.GLOBAL_SORT if sort_columns else SortScope.NO_SORT,
            schema=to_ddl(self.columns),
            index_file=index_file_name(plan.output, run.id),
            index_digest=index_digest,
            rows=sum(file.rows for file in files),
            data_bytes=sum(file.size_bytes for file in files),
        )

    def _units(
        self,
        plan: SegmentMerge,
        pieces: Iterable[MergePiece],
        output: BlockOutput,
        *,
        run: Run,
        is_staged: bool = False,
    ) -> Iterator[MergeUnit]:
        schema = pack_schema(to_arrow(self.columns))
        for piece in pieces:
            spec = OrderedMergeSpec(
                sections=piece.sections,
                unsorted=piece.unsorted,
                arrow_schema=schema,
                sort_columns=self.properties.sort_columns,
                key_range=piece.key_range,
                output=output,
                memory_bytes=self.options.memory_bytes,
                verify=self.options.verify,
            )
            yield MergeUnit(
                number=next(self._numbers),
                attempt=run.id,
                spec=spec,
                input_bytes=piece.size_bytes,
                members=tuple(entry.segment_file or "" for entry in plan.entries),
                deletes=tuple(entry.delete_file for entry in plan.entries if entry.delete_file is not None),
                is_staged=is_staged,
            )

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


def files_of_merge(work: MergeWork) -> list[WrittenBlockFile]:
    """The data files, unit by unit: in key order."""
    return [file for number in work.units for file in work.results[number].outputs]


def _sorted_folder(run: Run, plan: SegmentMerge) -> str:
    return f"{run.folders.staging(run.id)}/sorted-{plan.output}"


def _check_whole(plan: SegmentMerge, written: Sequence[WrittenBlockFile]) -> None:
    """Compare the total row counts: each piece is verified on its own, but only here it shows if a piece is missing."""
    expected, found = sum(entry.live_rows for entry in plan.entries), sum(file.rows for file in written)
    if found != expected:
        raise VerificationError(
            f"Segments {plan.part} hold {expected} rows, but the merged segment holds {found}; nothing was changed."
        )
