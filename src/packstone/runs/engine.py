"""Where tasks run: on Spark, or in this process."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Protocol

from packstone.runs.deaths import run_task
from packstone.runs.tasks import Attempt, count_done_bytes, read_result, write_task
from packstone.storage.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packstone.model.unit import OutputT, UnitResult
    from packstone.runs.tasks import ContextT, Job, Task, UnitT
    from packstone.storage.fileio import FileIO


class Engine(Protocol):
    """Runs tasks and yields the results of their units, in the order of the tasks."""

    @property
    def parallelism(self) -> int:
        """How many tasks can run at once; 1 if that is not known."""
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
        """Run all tasks; report (units, bytes) done on the way."""
        ...

    def close(self) -> None:
        """Let go of what the engine holds."""
        ...


class InlineEngine:
    """Runs tasks one after the other in this process: no Spark, no Java, one core.

    For small jobs, where starting Spark would take longer than the work, and for machines without Java.
    """

    parallelism = 1

    def __init__(self, io: FileIO | None = None) -> None:
        self._io = io  # None: the store of the staging folder

    def run(
        self,
        job: Job[ContextT, UnitT, OutputT],
        tasks: Sequence[Task[ContextT, UnitT]],
        *,
        staging: str,
        what: str,  # noqa: ARG002 - Spark shows it in its pages
        on_progress: Callable[[int, int], None],
    ) -> Iterator[UnitResult[OutputT]]:
        """Run each task when its results are drawn."""
        io = self._io or open_store(staging)
        for task in tasks:
            name = f"a0_{uuid.uuid4().hex[:8]}"
            attempt = Attempt(io=io, staging=staging, name=name, has_idle_core=(os.cpu_count() or 1) > 1)
            write_task(io, staging, task)
            run_task(job, attempt, task.number)
            on_progress(*count_done_bytes(io, staging))
            yield from read_result(io, staging, job=job, number=task.number, attempt=attempt.name)

    def close(self) -> None:
        """Nothing is held."""


class LazyEngine:
    """Makes the real engine at the first task: a run with nothing to do never starts Spark."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._engine: Engine | None = None

    @property
    def parallelism(self) -> int:
        """Ask the real engine, which starts it: asked only where there is work for it."""
        return self._started().parallelism

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
        """Start the engine if this is the first call, and pass on."""
        return self._started().run(job, tasks, staging=staging, what=what, on_progress=on_progress)

    def close(self) -> None:
        """Close the engine if it was ever made."""
        if self._engine is not None:
            self._engine.close()
