"""A DataFrame's rows into data files: one task a partition, by ``mapInArrow``, in one action.

That works alike on classic Spark, through Spark Connect and on Spark 3.5. Spark may run a partition twice (a retry, a
speculative copy): each try writes under names of its own, and only what the one action gives back is published. What
comes back is the result of each partition, names and facts of files; no row passes through the driver.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from packstone.model.codec import dump_record, load_record
from packstone.spark.engine import describe_job
from packstone.spark.ship_package import job_error, ship_package
from packstone.tables.segments.load_tasks import LoadResult, LoadTarget, write_load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.storage.fileio import FileIO

_SCHEMA = "task int, result binary"


def write_frame(
    io: FileIO,
    frame: Any,  # noqa: ANN401 - a DataFrame
    target: LoadTarget,
    *,
    what: str,
) -> tuple[LoadResult, ...]:
    """Write all partitions; the results are in the order of partitions, empty ones left out."""
    ship_package(frame.sparkSession)
    written = frame.mapInArrow(_task_function(io, target), _SCHEMA)
    try:
        with describe_job(frame.sparkSession, what):
            rows = written.collect()
    except Exception as error:
        raise job_error(error) from error
    results = [load_record(LoadResult, bytes(row["result"]), path=what) for row in rows]
    return tuple(sorted(results, key=lambda result: result.task))


def _task_function(io: FileIO, target: LoadTarget) -> Callable[[Iterator[Any]], Iterator[Any]]:
    packed = dump_record(target)

    def load_partition(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 - runs on the executor

        number, name = _this_try()
        target = load_record(LoadTarget, packed, path="the load")
        result = write_load(io, target, _as_inputs(batches, number), task=number, name=name)
        if result.files or result.bad_rows or result.failure:
            row = {"task": pa.array([number], pa.int32()), "result": pa.array([dump_record(result)], pa.binary())}
            yield pa.RecordBatch.from_pydict(row)

    return load_partition


def _as_inputs(batches: Iterator[Any], number: int) -> Iterator[Any]:
    from packstone.rewrite.inputs.read_inputs import cut_batch  # noqa: PLC0415 - runs on the executor

    row = 1
    for batch in batches:
        yield from cut_batch(batch, source=f"partition {number} of the DataFrame", first_row=row)
        row += batch.num_rows


def _this_try() -> tuple[int, str]:
    """The partition, and a name for this try: Spark's number for people, random digits because numbers repeat."""
    from pyspark import TaskContext  # noqa: PLC0415 - runs on the executor

    context = TaskContext.get()
    number, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
    return number, f"a{attempt}_{uuid.uuid4().hex[:8]}"
