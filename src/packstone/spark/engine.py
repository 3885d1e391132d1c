"""The Spark engine: tasks as one job, by ``spark.range(0, n, 1, n)`` and ``mapInArrow``, one task per partition.

That shape works alike on classic Spark, on a cluster and through Spark Connect: no RDD, no broadcast, no shuffle,
so no session setting can change which task does what. Rows carry only task numbers and attempt names.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from typing import TYPE_CHECKING, Any

from packstone.model.outcome import EngineUse
from packstone.runs.deaths import run_task
from packstone.runs.interrupts import Interrupted
from packstone.runs.tasks import Attempt, count_done_bytes, read_result, write_task
from packstone.spark.session import is_connect
from packstone.spark.ship_package import job_error, ship_package
from packstone.storage.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packstone.model.unit import OutputT, UnitResult
    from packstone.model.work import UnitT
    from packstone.runs.tasks import ContextT, Job, Task
    from packstone.spark.session import SparkHandle
    from packstone.storage.fileio import FileIO

_POLL_SECONDS = 0.3
_DESCRIPTION = "spark.job.description"
_TAG = "packstone"
_JOB_TRIES = 4  # three in which a worker dies, and one that leaves the unit alone
_WORKER_DIED = "Python worker exited unexpectedly"


class SparkEngine:
    """Runs tasks on a Spark session."""

    def __init__(self, handle: SparkHandle, io: FileIO | None = None) -> None:
        self._handle = handle
        self._io = io  # None: the store of the staging folder

    tasks_may_outlive_job = True
    used = EngineUse("spark")

    def limit(self, parallel: int | None) -> None:
        """Do nothing: a job has no more tasks than the caller allows (``pack_units``)."""

    def expect(self, job: Job[Any, Any, Any], *, files: int, size_bytes: int) -> None:
        """Do nothing: this engine takes any amount of work."""

    @property
    def parallelism(self) -> int:
        """The number of tasks that can run at once; 1 through Spark Connect, where it is not known."""
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
        """Run all tasks, report the units and bytes done so far, and yield the results of the successful attempts."""
        io = self._io or open_store(staging)
        for task in tasks:
            write_task(io, staging, task)
        with _Watch(io, staging, on_progress):
            attempts = self._run_again_if_killed(io, staging, job, count=len(tasks), what=what)
        for task in tasks:
            attempt = attempts[task.number]
            yield from read_result(io, staging, job=job, number=task.number, attempt=attempt)

    def close(self) -> None:
        """Stop the session if Packstone started it."""
        self._handle.stop()

    def _run_again_if_killed(
        self, io: FileIO, staging: str, job: Job[Any, Any, Any], *, count: int, what: str
    ) -> dict[int, str]:
        """Run the job; if a Python worker died, run it again, because a local Spark does not retry a task itself.

        The next job finds by the markers of the first where it died, and first reads those files in a child process.
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
        frame = spark.range(0, count, 1, count).mapInArrow(function, "task long, attempt string")
        try:
            return {row["task"]: row["attempt"] for row in collect(frame, what)}
        except Interrupted:
            self._handle.cancel()
            raise


def collect(frame: Any, what: str) -> list[Any]:
    """Return the rows of a DataFrame; ``what`` describes the job in Spark's web UI.

    The call is made in a thread, so that a signal ends the wait at once. Interrupted in the middle of a call, PySpark
    makes another one on the same connection, and the JVM answers that when the job has ended.
    """
    from pyspark import InheritableThread  # with the caller's local properties and tags

    rows: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with _describe_job(frame.sparkSession, what):
                rows.extend(frame.collect())
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = InheritableThread(target=run, session=frame.sparkSession, daemon=True, name="packstone-job")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return rows


@contextlib.contextmanager
def _describe_job(spark: Any, what: str) -> Iterator[None]:
    """Show in Spark's web UI what runs; the caller's own job description is restored afterwards."""
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
        import pyarrow as pa  # runs on the executor

        for batch in batches:
            for number in batch.column(0).to_pylist():
                name, before = _name_attempt()
                attempt = Attempt(io=io, staging=staging, name=name, number=before + tries)
                run_task(job, attempt, number)
                yield pa.RecordBatch.from_pydict({"task": [number], "attempt": [attempt.name]})

    return run_tasks


def _name_attempt() -> tuple[str, int]:
    """The name of this attempt, and the number of earlier ones.

    The name has Spark's own attempt id, for people, and random digits, because ids repeat across drivers.
    """
    from pyspark import TaskContext  # runs on the executor

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
