"""Tasks as one Spark job: ``spark.range(0, n, 1, n)`` and ``mapInArrow``, one task per partition.

That shape works alike on classic Spark, on a cluster and through Spark Connect: no RDD, no broadcast, no shuffle,
so no session setting can change which task does what. Rows carry only task numbers and attempt names.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from typing import TYPE_CHECKING, Any

from packstone.runs.deaths import run_task
from packstone.runs.tasks import Attempt, count_done_bytes, read_result, write_task
from packstone.spark.session import is_connect
from packstone.spark.ship_package import job_error, ship_package
from packstone.storage.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packstone.model.unit import OutputT, UnitResult
    from packstone.runs.tasks import ContextT, Job, Task, UnitT
    from packstone.spark.session import SparkHandle
    from packstone.storage.fileio import FileIO

_POLL_SECONDS = 0.3
_DESCRIPTION = "spark.job.description"
_TAG = "packstone"
_JOB_TRIES = 4  # three deaths, and the one that leaves the unit alone
_WORKER_DIED = "Python worker exited unexpectedly"


class SparkEngine:
    """Runs tasks on a Spark session."""

    def __init__(self, handle: SparkHandle, io: FileIO | None = None) -> None:
        self._handle = handle
        self._io = io  # None: the store of the staging folder

    @property
    def parallelism(self) -> int:
        """How many tasks can run at once; through Spark Connect that cannot be told."""
        spark = self._handle.spark
        return 1 if is_connect(spark) else int(spark.sparkContext.defaultParallelism)

    def run(
        self,
        job: Job[ContextT, UnitT, OutputT],
        tasks: Sequence[Task[ContextT, UnitT]],
        *,
        staging: str,
        what: str,
        on_progress: Callable[[int, int], None],
    ) -> Iterator[UnitResult[OutputT]]:
        """Run all tasks, report (units, bytes) done on the way, and yield the results of the attempts that count."""
        io = self._io or open_store(staging)
        for task in tasks:
            write_task(io, staging, task)
        with _Watch(io, staging, on_progress):
            attempts = self._run_again_if_killed(io, staging, job, count=len(tasks), what=what)
        for task in tasks:
            attempt = attempts[task.number]
            yield from read_result(io, staging, job=job, number=task.number, attempt=attempt)

    def close(self) -> None:
        """Stop the session if it is ours."""
        self._handle.stop()

    def _run_again_if_killed(
        self, io: FileIO, staging: str, job: Job[Any, Any, Any], *, count: int, what: str
    ) -> dict[int, str]:
        """Run the job; if a Python worker died, once more, because a local Spark does not repeat a task by itself.

        The second job knows by the markers of the first where it died, and reads those files with care.
        """
        for tries in range(_JOB_TRIES):
            try:
                return self._run_job(_task_function(io, staging, job, tries=tries), count, what)
            except Exception as error:
                if _WORKER_DIED not in str(error) or tries == _JOB_TRIES - 1:
                    raise job_error(error) from error
        raise AssertionError  # the last try returns or raises

    def _run_job(self, function: Callable[[Iterator[Any]], Iterator[Any]], count: int, what: str) -> dict[int, str]:
        spark = self._handle.spark
        ship_package(spark)
        with describe_job(spark, what):
            frame = spark.range(0, count, 1, count).mapInArrow(function, "task long, attempt string")
            return {row["task"]: row["attempt"] for row in frame.collect()}


@contextlib.contextmanager
def describe_job(spark: Any, what: str) -> Iterator[None]:  # noqa: ANN401 - a session of either kind
    """Say in Spark's pages what runs; the session is the caller's, so his own words come back afterwards."""
    if is_connect(spark):
        spark.addTag(_TAG)
        try:
            yield
        finally:
            spark.removeTag(_TAG)
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"packstone: {what}")
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)


def _task_function(
    io: FileIO, staging: str, job: Job[Any, Any, Any], *, tries: int
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run_tasks(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 - runs on the executor

        for batch in batches:
            for number in batch.column(0).to_pylist():
                name, before = _name_attempt()
                attempt = Attempt(io=io, staging=staging, name=name, number=before + tries)
                run_task(job, attempt, number)
                yield pa.RecordBatch.from_pydict({"task": [number], "attempt": [attempt.name]})

    return run_tasks


def _name_attempt() -> tuple[str, int]:
    """Name this attempt, and say how many came before it.

    The name holds Spark's own number for people, and random digits because numbers repeat across drivers.
    """
    from pyspark import TaskContext  # noqa: PLC0415 - runs on the executor

    context = TaskContext.get()
    number, before = (context.taskAttemptId(), context.attemptNumber()) if context is not None else (0, 0)
    return f"a{number}_{uuid.uuid4().hex[:8]}", before


class _Watch:
    """Counts finished units from a thread while the job runs."""

    def __init__(self, io: FileIO, staging: str, on_progress: Callable[[int, int], None]) -> None:
        self._io, self._staging, self._on_progress = io, staging, on_progress
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True, name="packstone-progress")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._on_progress(*count_done_bytes(self._io, self._staging))

    def _poll(self) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            self._on_progress(*count_done_bytes(self._io, self._staging))
