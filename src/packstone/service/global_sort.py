"""The second half of a load in global order: sorted runs of its tasks become files that do not overlap.

The work is cut by ranges of the first sort column, at keys that the runs' indexes tell, into parts that tasks do side
by side; part after part, their files are one run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from packstone.errors import VerificationError
from packstone.model.unit import Verify
from packstone.rewrite.merge.merge_spec import pack_schema
from packstone.rewrite.ordered.ordered_spec import BlockOutput, OrderedFile, OrderedMergeSpec
from packstone.runs.tasks import check_done, pack_units
from packstone.service.load_options import LoadOptions
from packstone.tables.segments.index_file import join_parts
from packstone.tables.segments.load_tasks import LoadVerify
from packstone.tables.segments.merge_tasks import SEGMENTS_MERGE_JOB, MergeContext, MergeUnit
from packstone.tables.segments.plan_merge import keyed_files, plan_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from packstone.model.unit import UnitResult
    from packstone.rewrite.ordered.ordered_spec import WrittenBlockFile
    from packstone.runs.engine import Engine
    from packstone.service.segment_session import SegmentSession


class _Load(Protocol):
    options: LoadOptions
    engine: Engine


def merge_sorted_runs(
    session: SegmentSession,
    runs: Sequence[Sequence[WrittenBlockFile]],
    *,
    schema: pa.Schema,
    output: BlockOutput,
    load: _Load,
) -> tuple[WrittenBlockFile, ...]:
    """Merge runs into one; its files stand in the order of keys."""
    written = [file for run in runs for file in run]
    files = [OrderedFile(path=file.path, size_bytes=file.size_bytes, rows=file.rows) for file in written]
    index = join_parts([file.part for file in written], schema=schema, sort_columns=output.sort_columns)
    share_bytes = load.options.share_bytes(sum(file.size_bytes for file in files))
    pieces = plan_pieces(keyed_files(files, index, output.sort_columns), task_bytes=share_bytes)
    units = [
        MergeUnit(
            number=number,
            attempt=session.attempt,
            spec=OrderedMergeSpec(
                sections=piece.sections,
                unsorted=piece.unsorted,
                arrow_schema=pack_schema(schema),
                sort_columns=output.sort_columns,
                key_range=piece.key_range,
                output=output,
                memory_bytes=load.options.memory_bytes,
                verify=Verify.CONTENT if load.options.verify is LoadVerify.CONTENT else Verify.COUNT,
            ),
            input_bytes=piece.size_bytes,
        )
        for number, piece in enumerate(pieces)
    ]
    results = {result.number: result for result in _run(session, units, load)}
    merged = tuple(file for unit in units for file in results[unit.number].outputs)
    expected, found = sum(file.rows for file in written), sum(file.rows for file in merged)
    if expected != found:
        raise VerificationError(f"{expected} rows were to be merged, the files hold {found}.")
    return merged


def _run(session: SegmentSession, units: Sequence[MergeUnit], load: _Load) -> Iterator[UnitResult[WrittenBlockFile]]:
    staging = f"{session.folder}/merge"
    session.io.make_dirs(staging)
    context = MergeContext(table=session.table)
    tasks = pack_units(units, context=context, parallel=load.options.parallel)
    what = f"sort {len(units)} parts of {session.table}"
    for result in load.engine.run(
        SEGMENTS_MERGE_JOB, tasks, staging=staging, what=what, on_progress=lambda _units, _bytes: None
    ):
        check_done(result)
        yield result
