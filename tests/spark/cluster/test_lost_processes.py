"""Processes of a cluster that are stopped or killed in the middle: no row is lost, none is doubled.

All of them are real: executors are JVMs, their workers are Python processes that are writing a staged file when the
signal comes. Rows are compared by DuckDB.
"""

from __future__ import annotations

import contextlib
import os
import signal

from standalone import Driver, is_running, is_writing, parent, wait_until

from packstone.pipeline.table import Table
from packstone.tables.hive.options import HiveOptions

BIG = {"files": 6, "rows": 2_000, "width": 4_000}  # 48 MB a partition: half a second in which to be met


def writer(cluster, orders):
    """Wait for a Python worker that is writing a staged file."""
    return wait_until(lambda: next(iter(cluster.writers(orders.path.parent)), None), what="a task that writes")


def check_merged(orders, rows, before, *, partitions):
    """One file for each partition, the same rows, nothing staged, nothing to recover."""
    assert len(orders.files()) == partitions
    assert rows(orders.path) == before
    assert orders.staged() == []
    assert Table(str(orders.path)).recover().actions == ()


def check_ran_twice(driver, is_second):
    """Spark's own log says that a task of the last stage was begun twice, the second time so."""
    begun = driver.events("TaskStart")
    last = [event["Task Info"] for event in begun if event["Stage ID"] == begun[-1]["Stage ID"]]
    first_of = {task["Index"] for task in last if task["Attempt"] == 0}
    assert [task for task in last if is_second(task) and task["Index"] in first_of], last


def test_a_copy_overtakes_a_task_that_hangs(cluster, driver, orders, rows):
    """A worker is stopped while it writes; Spark's speculative copy on the other host ends, and is what counts."""
    orders.write(partitions=2, **BIG)
    before = rows(orders.path)
    driver.begin(orders.path, parallel=2)
    stopped = writer(cluster, orders)
    os.kill(stopped, signal.SIGSTOP)
    try:
        assert driver.answer() == {"status": "committed", "files_after": 2}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped, signal.SIGCONT)
    check_ran_twice(driver, lambda task: task["Speculative"])
    check_merged(orders, rows, before, partitions=2)


def test_an_executor_killed_in_the_middle(cluster, driver, orders, rows):
    """An executor is killed while its worker writes; its task is done again elsewhere, its half file is never seen."""
    orders.write(partitions=2, **BIG)
    before = rows(orders.path)
    driver.begin(orders.path, parallel=2)
    lost = cluster.executor_of(writer(cluster, orders))
    os.kill(lost, signal.SIGKILL)
    assert driver.answer() == {"status": "committed", "files_after": 2}
    assert not is_running(lost)
    check_ran_twice(driver, lambda task: task["Attempt"] > 0 and not task["Speculative"])
    check_merged(orders, rows, before, partitions=2)


def test_a_python_worker_killed_in_the_middle(cluster, driver, orders, rows):
    """A Python worker is killed while it writes; its executor starts another one."""
    orders.write(partitions=1, **BIG)
    before = rows(orders.path)
    driver.begin(orders.path, parallel=1)
    os.kill(writer(cluster, orders), signal.SIGKILL)
    assert driver.answer() == {"status": "committed", "files_after": 1}
    check_merged(orders, rows, before, partitions=1)


def test_a_worker_writes_on_after_its_driver_died(cluster, orders, rows, tmp_path):
    """Driver and executor die, the table is merged by another run, and only then the old worker continues to write."""
    orders.write(partitions=1, **BIG)
    before = rows(orders.path)
    driver = Driver(cluster, tmp_path / "driver.log")
    driver.begin(orders.path, parallel=1)
    orphan = writer(cluster, orders)
    daemon, executor = parent(orphan), cluster.executor_of(orphan)
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: not is_running(daemon), what="the end of the daemon")
    os.kill(orphan, signal.SIGSTOP)  # not before: Linux ends stopped processes of a group that loses its parent
    os.kill(executor, signal.SIGKILL)
    driver.kill()

    outcome = Table(str(orders.path)).compact(HiveOptions(min_files=2))

    assert (outcome.status, outcome.files_after) == ("committed", 1)
    assert is_writing(orphan, orders.path.parent)
    os.kill(orphan, signal.SIGCONT)
    wait_until(lambda: not is_running(orphan), what="the end of the orphan")
    Table(str(orders.path)).recover()
    check_merged(orders, rows, before, partitions=1)
