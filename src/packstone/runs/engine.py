"""The engines that run tasks: in this process, or chosen by the size of the work; spark/engine.py has Spark's."""

from __future__ import annotations

import os
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
    from packstone.model.work import UnitT
    from packstone.runs.tasks import ContextT, Job, Task
    from packstone.storage.fileio import FileIO


# Up to these limits `auto` works in this process. One core merges and proves about 100 MB, or 500 small files, in a
# second, so this much takes it ten seconds: about what Spark takes to start and to run its first job.
INLINE_MAX_BYTES: Final = 1 << 30
INLINE_MAX_FILES: Final = 5_000


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
    """Runs tasks one after another in this process: no Spark, no Java, one core.

    For small jobs, where starting Spark would take longer than the work, and for machines without Java.
    """

    parallelism = 1
    tasks_may_outlive_job = False
    used = EngineUse("inline")

    def __init__(self, io: FileIO | None = None) -> None:
        self._io = io  # None: the store of the staging folder

    def expect(self, job: Job[Any, Any, Any], *, files: int, size_bytes: int) -> None:
        """Do nothing: this engine takes any amount of work."""

    def run(
        self,
        job: Job[ContextT, UnitT, OutputT],
        tasks: Sequence[Task[ContextT, UnitT]],
        *,
        staging: str,
        what: str,  # Spark shows it in its pages
        on_progress: Callable[[int, int], None],
    ) -> Iterator[UnitResult[OutputT]]:
        """Run each task when the caller iterates to its results."""
        io = self._io or open_store(staging)
        done_units = done_bytes = 0
        for task in tasks:
            name = f"a0_{uuid.uuid4().hex[:8]}"
            attempt = Attempt(io=io, staging=staging, name=name, has_idle_core=(os.cpu_count() or 1) > 1)
            write_task(io, staging, task)
            run_task(job, attempt, task.number)
            done_units += len(task.units)
            done_bytes += sum(unit.input_bytes for unit in task.units)
            on_progress(done_units, done_bytes)
            yield from read_result(io, staging, job=job, number=task.number, attempt=attempt.name)

    def close(self) -> None:
        """Do nothing: this engine holds nothing."""


class AutoEngine:
    """Runs tasks in this process while the work is small, and on Spark once it is not.

    The measure is the total work of a job so far: a run of many small waves starts Spark once it has spent as much time
    in this process as starting Spark would have cost, so it never takes more than about twice the time of the better
    choice. Where Spark cannot be started, all tasks run in this process.
    """

    def __init__(self, make_spark: Callable[[], Engine], *, why_no_spark: Callable[[], str | None]) -> None:
        self._make_spark, self._why_no_spark = make_spark, why_no_spark
        self._engine: Engine = InlineEngine()
        self._expected: dict[Job[Any, Any, Any], tuple[int, int]] = {}
        self._missing: str | None = None  # why Spark cannot be used though the work is big enough for it
        self._is_decided = False  # the work exceeded the limits: Spark is started, or known to be missing
        self._has_run = False

    @property
    def parallelism(self) -> int:
        """The parallelism of the engine that ``expect`` chose."""
        return self._engine.parallelism

    @property
    def tasks_may_outlive_job(self) -> bool:
        """As the engine in use says."""
        return self._engine.tasks_may_outlive_job

    @property
    def used(self) -> EngineUse | None:
        """The engine, and the amount of work that decided the choice: that of the job that reads most."""
        engine = self._engine.used
        if engine is None or not self._has_run:
            return None
        size_bytes, files = max(self._expected.values(), default=(0, 0))
        missing = f", but {self._missing}" if self._missing else ""
        size = f"{format_bytes(size_bytes)} in " if size_bytes else ""
        return EngineUse(engine.name, f"{size}{plural(files, 'file')}{missing}")

    def expect(self, job: Job[Any, Any, Any], *, files: int, size_bytes: int) -> None:
        """Add up what is to be read, and start Spark if it exceeds what one core should do."""
        before_bytes, before_files = self._expected.get(job, (0, 0))
        total_bytes, total_files = before_bytes + size_bytes, before_files + files
        self._expected[job] = total_bytes, total_files
        is_small = total_bytes <= INLINE_MAX_BYTES and total_files <= INLINE_MAX_FILES
        if is_small or self._is_decided:
            return
        self._is_decided, self._missing = True, self._why_no_spark()
        if self._missing is None:
            self._engine = self._make_spark()

    def run(
        self,
        job: Job[ContextT, UnitT, OutputT],
        tasks: Sequence[Task[ContextT, UnitT]],
        *,
        staging: str,
        what: str,
        on_progress: Callable[[int, int], None],
    ) -> Iterator[UnitResult[OutputT]]:
        """Run the tasks on the engine that ``expect`` chose."""
        self._has_run = True
        return self._engine.run(job, tasks, staging=staging, what=what, on_progress=on_progress)

    def close(self) -> None:
        """Stop Spark if it was started."""
        self._engine.close()


class LazyEngine:
    """Makes the real engine at the first task: a run with nothing to do never starts Spark."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
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
        return self._engine

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
