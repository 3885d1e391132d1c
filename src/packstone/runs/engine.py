"""The engines that run tasks: on this machine, or made when needed; spark/engine.py has Spark's."""

from __future__ import annotations

import os
import sys
import uuid
from typing import TYPE_CHECKING, Any, Final, Protocol

from packstone.model.outcome import EngineUse
from packstone.model.sizes import format_bytes, plural
from packstone.runs.deaths import run_task
from packstone.runs.tasks import Attempt, read_result, write_task
from packstone.storage.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packstone.model.unit import OutputT, UnitResult
    from packstone.model.work import Unit, UnitT
    from packstone.runs.tasks import ContextT, Job, Task
    from packstone.runs.worker_pool import WorkerPool
    from packstone.storage.fileio import FileIO


# Less work than this is done sooner in this process than workers have started: one core merges and proves about 100 MB,
# or 500 small files, in a second.
POOL_MIN_BYTES: Final = 64 << 20
POOL_MIN_FILES: Final = 500


class Engine(Protocol):
    """Runs tasks and yields the results of their units, in the order of the tasks."""

    @property
    def used(self) -> EngineUse | None:
        """The engine that ran tasks; None if there were no tasks."""
        ...

    @property
    def parallelism(self) -> int:
        """The number of tasks that can run at once; 1 if it is not known."""
        ...

    @property
    def tasks_may_outlive_job(self) -> bool:
        """Whether a task may still write after its job has ended: a speculative copy, a job that failed."""
        ...

    def limit(self, parallel: int | None) -> None:
        """Run at most this many tasks at once, where the engine decides that; None: no limit."""
        ...

    def expect(self, job: Job[Any, Any, Any], *, files: int, size_bytes: int) -> None:
        """Take note of how much the next tasks of a job read; call it before ``run`` and ``parallelism``."""
        ...

    def run(
        self,
        job: Job[ContextT, UnitT, OutputT],
        tasks: Sequence[Task[ContextT, UnitT]],
        *,
        staging: str,
        what: str,
        on_progress: Callable[[int, int], None],
    ) -> Iterator[UnitResult[OutputT]]:
        """Run all tasks; report the units and bytes done so far to ``on_progress``."""
        ...

    def close(self) -> None:
        """Release what the engine holds."""
        ...


class InlineEngine:
    """Runs tasks on this machine, without Spark and Java: little work in this process, more in workers on all cores.

    Workers need about a third of a second to start. So they are used once the work of a job is big enough
    (``POOL_MIN_BYTES``, ``POOL_MIN_FILES``), and only if there is more than one task.
    """

    tasks_may_outlive_job = False

    def __init__(self, io: FileIO | None = None, *, says_size: bool = False) -> None:
        self._io = io  # a store of the caller, used in this process only; None: the store of the staging folder
        self._says_size = says_size  # report how much work there was: for a caller who named no engine
        self._expected: dict[Job[Any, Any, Any], tuple[int, int]] = {}
        self._limit: int | None = None
        self._pool: WorkerPool | None = None
        self._workers: int | None = None  # the most workers that a job used; None if no task has run

    @property
    def used(self) -> EngineUse | None:
        """The number of processes if there were workers, and the work of the job that reads most."""
        if self._workers is None:
            return None
        facts = [f"{self._workers} processes"] if self._workers > 1 else []
        if self._says_size:
            size_bytes, files = max(self._expected.values(), default=(0, 0))
            size = f"{format_bytes(size_bytes)} in " if size_bytes else ""
            facts.append(f"{size}{plural(files, 'file')}")
        return EngineUse("inline", ", ".join(facts))

    @property
    def parallelism(self) -> int:
        """The number of workers that the expected work is worth."""
        is_big = any(
            size_bytes >= POOL_MIN_BYTES or files >= POOL_MIN_FILES for size_bytes, files in self._expected.values()
        )
        return self._most_workers() if is_big else 1

    def _most_workers(self) -> int:
        if self._io is not None or self._limit == 1:
            return 1
        from packstone.runs.worker_pool import count_workers  # most runs are small

        return min(count_workers(), self._limit or sys.maxsize)

    def limit(self, parallel: int | None) -> None:
        """Use at most this many workers; 1: only this process."""
        self._limit = parallel

    def expect(self, job: Job[Any, Any, Any], *, files: int, size_bytes: int) -> None:
        """Add up the work of a job: many small waves are much work."""
        before_bytes, before_files = self._expected.get(job, (0, 0))
        self._expected[job] = before_bytes + size_bytes, before_files + files

    def run(
        self,
        job: Job[ContextT, UnitT, OutputT],
        tasks: Sequence[Task[ContextT, UnitT]],
        *,
        staging: str,
        what: str,  # Spark shows it in its pages
        on_progress: Callable[[int, int], None],
    ) -> Iterator[UnitResult[OutputT]]:
        """Run the tasks in workers, or each task when the caller iterates to its results."""
        io = self._io or open_store(staging)
        workers = min(self.parallelism, len(tasks))
        self._workers = max(self._workers or 1, workers)
        run = self._run_here if workers <= 1 else self._run_in_workers
        for number, attempt in run(job, tasks, io=io, staging=staging, on_progress=on_progress):
            yield from read_result(io, staging, job=job, number=number, attempt=attempt)

    def _run_in_workers(
        self, job: Job[Any, Any, Any], tasks: Sequence[Task[Any, Any]], **places: Any
    ) -> Iterator[tuple[int, str]]:
        from packstone.runs.worker_pool import WorkerPool  # most runs are small

        if self._pool is None:
            self._pool = WorkerPool(self.parallelism)
        return self._pool.run(job, tasks, **places)

    def _run_here(
        self,
        job: Job[Any, Any, Any],
        tasks: Sequence[Task[Any, Any]],
        *,
        io: FileIO,
        staging: str,
        on_progress: Callable[[int, int], None],
    ) -> Iterator[tuple[int, str]]:
        done_units = done_bytes = 0

        def note(unit: Unit) -> None:
            nonlocal done_units, done_bytes
            done_units, done_bytes = done_units + 1, done_bytes + unit.input_bytes
            on_progress(done_units, done_bytes)

        for task in tasks:
            name = f"a0_{uuid.uuid4().hex[:8]}"
            attempt = Attempt(io=io, staging=staging, name=name, has_idle_core=(os.cpu_count() or 1) > 1)
            write_task(io, staging, task)
            run_task(job, attempt, task.number, on_unit=note)
            yield task.number, name

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.close()


class LazyEngine:
    """Makes the real engine at the first task: a run with nothing to do never starts Spark."""

    def __init__(self, make: Callable[[], Engine], *, parallel: int | None = None) -> None:
        self._make, self._parallel = make, parallel
        self._engine: Engine | None = None

    @property
    def parallelism(self) -> int:
        """The parallelism of the real engine, which this starts: call it only when there is work."""
        return self._started().parallelism

    @property
    def tasks_may_outlive_job(self) -> bool:
        """As the real engine says; False if it was never started, because it has no tasks then."""
        return self._engine is not None and self._engine.tasks_may_outlive_job

    @property
    def used(self) -> EngineUse | None:
        """As the real engine says; None if it was never started."""
        return None if self._engine is None else self._engine.used

    def expect(self, job: Job[Any, Any, Any], *, files: int, size_bytes: int) -> None:
        """Start the real engine, because there is work, and tell it how much."""
        self._started().expect(job, files=files, size_bytes=size_bytes)

    def _started(self) -> Engine:
        if self._engine is None:
            self._engine = self._make()
            self._engine.limit(self._parallel)
        return self._engine

    def limit(self, parallel: int | None) -> None:
        """Set the limit of the real engine, now or when it is started."""
        self._parallel = parallel
        if self._engine is not None:
            self._engine.limit(parallel)

    def run(
        self,
        job: Job[ContextT, UnitT, OutputT],
        tasks: Sequence[Task[ContextT, UnitT]],
        *,
        staging: str,
        what: str,
        on_progress: Callable[[int, int], None],
    ) -> Iterator[UnitResult[OutputT]]:
        """Start the real engine if this is the first call, and run the tasks on it."""
        return self._started().run(job, tasks, staging=staging, what=what, on_progress=on_progress)

    def close(self) -> None:
        """Close the real engine if it was started."""
        if self._engine is not None:
            self._engine.close()
