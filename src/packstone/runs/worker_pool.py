"""Processes of this machine that run tasks: how the inline engine uses all cores.

::

    this process ─── control ─── fork server ─── forks of it: worker, worker, …
         └───────────── one connection for each worker ──────────┘

Workers are forks of a *fork server*, a fresh interpreter that has imported the code of the job, so that it is imported
once and a worker costs milliseconds. A worker stays for the tasks of other jobs on the same store, and keeps what it
learned: Hive's merges follow the inspection of their files. This process is not forked: its threads, and those of the
clients of HDFS and S3, may hold locks, which nobody would release in the fork.

No worker outlives this process, however it ends. The fork server kills its workers when the control socket closes, and
the kernel kills them with the fork server. Ctrl-C and SIGTERM to the whole process group are ignored here: this process
decides what is finished and what is discarded.

A worker that dies costs its task one more attempt, by a new worker; ``deaths.py`` finds the unit that is to blame.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import signal
import socket
import subprocess
import traceback
import uuid
import warnings
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Final, NoReturn

from packstone.errors import PackstoneError, UnavailableError
from packstone.runs.deaths import MAX_DEATHS, run_task, start_python
from packstone.runs.interrupts import finish_first
from packstone.runs.tasks import Attempt, Job, write_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packstone.runs.tasks import Task
    from packstone.storage.fileio import FileIO

# A task holds at most 512 MB. All workers together may use half of the memory: the other half is for this process, for
# the page cache, and for whatever else runs on the machine.
WORKER_BYTES: Final = 512 << 20
_MEMORY_SHARE: Final = 2
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_SERVER: Final = "from packstone.runs.worker_pool import serve; serve({handle})"
_PR_SET_PDEATHSIG: Final = 1
_CGROUPS: Final = "/sys/fs/cgroup"


def count_workers() -> int:
    """The number of workers that this process may use: one for each core, as far as memory allows."""
    return max(1, min(count_cores(), _find_memory_bytes() // _MEMORY_SHARE // WORKER_BYTES))


def count_cores() -> int:
    """The number of cores that this process may use, by its affinity and the CPU quota of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [(int(quota), int(period)) for quota, period in _read_limits("cpu.max", fields=2) if quota != "max"]
    return max(1, min([cores, *(-(-quota // period) for quota, period in quotas)]))


def _find_memory_bytes() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(int(limit) for (limit,) in _read_limits("memory.max", fields=1) if limit != "max")])


def _read_limits(name: str, *, fields: int) -> Iterator[tuple[str, ...]]:
    """Yield one limit (cgroup v2) of the control group of this process and of each group above it."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            group = next((line.strip()[len("0::") :] for line in file if line.startswith("0::")), None)
    except OSError:  # not Linux
        return
    while group is not None:
        with contextlib.suppress(OSError), open(f"{_CGROUPS}{group.rstrip('/')}/{name}", encoding="ascii") as file:
            found = tuple(file.read().split())
            if len(found) == fields:
                yield found
        group = os.path.dirname(group) if group != "/" else None


@dataclass(slots=True)
class _Begun:
    """A task that a worker runs, and what the worker has reported about it."""

    task: Task[Any, Any]
    units: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class _Tally:
    """The state of the tasks of one job."""

    waiting: deque[Task[Any, Any]]
    deaths: dict[int, int]  # the number of attempts in which a worker died, by task
    attempts: dict[int, str] = field(default_factory=dict)  # the successful attempt, by task
    done_units: int = 0
    done_bytes: int = 0


class WorkerPool:
    """Runs tasks in at most ``size`` workers, which start with the first tasks and end with ``close``."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._server: _ForkServer | None = None
        self._store = b""  # the store that the workers have, to compare it with others
        self._code = b""  # the job of the tasks that are being run
        self._jobs: dict[Connection, bytes] = {}  # the job that each worker has
        self._greeting: tuple[Any, ...] = ()  # the messages for a new worker: the first is for the fork server
        self._idle: list[Connection] = []
        self._busy: dict[Connection, _Begun] = {}

    def run(
        self,
        job: Job[Any, Any, Any],
        tasks: Sequence[Task[Any, Any]],
        *,
        io: FileIO,
        staging: str,
        on_progress: Callable[[int, int], None],
    ) -> Iterator[tuple[int, str]]:
        """Run all tasks; yield the number and the successful attempt of each, in their order.

        If the caller stops early, or is interrupted, all workers have ended when this returns.
        """
        self._set_job(job, io, formats={name for task in tasks for unit in task.units for _, name in unit.input_files})
        tally = _Tally(deque(tasks), dict.fromkeys((task.number for task in tasks), 0))
        try:
            for task in tasks:
                while task.number not in tally.attempts:
                    while tally.waiting and len(self._busy) < self.size:
                        self._begin(tally.waiting.popleft(), tally, io=io, staging=staging)
                    for connection in wait(list(self._busy)):
                        self._hear(connection, tally)  # type: ignore[arg-type] # `wait` takes sockets too
                    on_progress(
                        tally.done_units + sum(begun.units for begun in self._busy.values()),
                        tally.done_bytes + sum(begun.size_bytes for begun in self._busy.values()),
                    )
                yield task.number, tally.attempts[task.number]
        finally:
            if self._busy:
                self.close()

    def close(self) -> None:
        """End all workers; none of them writes after this returns."""
        server, self._server = self._server, None
        self._dismiss()
        if server is not None:
            server.close()

    def _dismiss(self) -> None:
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle, self._busy, self._jobs = [], {}, {}

    def _set_job(self, job: Job[Any, Any, Any], io: FileIO, *, formats: set[str]) -> None:
        """Let the workers of another store end; those of another job stay, and get the new one with their next task."""
        store = pickle.dumps(io)
        if store != self._store:
            self._dismiss()
        self._store, self._code = store, pickle.dumps(job)
        self._greeting = (job, formats), (io, self.size < count_cores())

    def _begin(self, task: Task[Any, Any], tally: _Tally, *, io: FileIO, staging: str) -> None:
        deaths = tally.deaths[task.number]
        if not deaths:
            write_task(io, staging, task)
        connection = self._idle.pop() if self._idle else self._start_worker()
        self._busy[connection] = _Begun(task)
        with contextlib.suppress(OSError):  # a worker that has died is noticed by `_hear`
            if self._jobs[connection] != self._code:
                connection.send(self._greeting[0])
                self._jobs[connection] = self._code
            connection.send((staging, task.number, deaths))

    def _start_worker(self) -> Connection:
        with finish_first():
            connection = self._fork_worker()
        self._jobs[connection] = self._code
        return connection

    def _fork_worker(self) -> Connection:
        if self._server is not None:
            with contextlib.suppress(OSError):
                return self._server.fork(self._greeting)
            self._server.close()  # it was killed
        self._server = _ForkServer()
        return self._server.fork(self._greeting)

    def _hear(self, connection: Connection, tally: _Tally) -> None:
        """Take one message of a worker: the bytes of a finished unit, the name of a finished attempt, or an error."""
        begun = self._busy[connection]
        task = begun.task
        try:
            message = connection.recv()
        except (EOFError, OSError):
            del self._busy[connection], self._jobs[connection]
            connection.close()
            tally.deaths[task.number] += 1
            tally.waiting.appendleft(task)
            _check_not_too_often(task, tally.deaths[task.number])
            return
        match message:
            case int():
                begun.units += 1
                begun.size_bytes += message
            case str():
                del self._busy[connection]
                self._idle.append(connection)
                tally.attempts[task.number] = message
                tally.done_units += len(task.units)
                tally.done_bytes += sum(unit.input_bytes for unit in task.units)
            case _:
                raise message


def _check_not_too_often(task: Task[Any, Any], deaths: int) -> None:
    """Raise if a task dies again and again: after the first three deaths, each must have cost one of its units."""
    if deaths > MAX_DEATHS + len(task.units):
        raise UnavailableError(
            f"A worker process ended {deaths} times without a message. Is there too little memory? "
            "`--parallel 1` works in one process."
        )


class _ForkServer:
    """The parent of all workers, seen from the process that uses them."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)  # until the server has its handlers
        try:
            self._process = start_python(
                _SERVER.format(handle=theirs.fileno()),
                env={"OPENBLAS_NUM_THREADS": "1"},  # NumPy starts a thread for each core otherwise
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=(theirs.fileno(),),
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def fork(self, greeting: tuple[Any, ...]) -> Connection:
        """Start a worker and send it these messages; OSError if the server was killed."""
        mine, theirs = socket.socketpair()
        connection = Connection(mine.detach())
        with theirs:
            socket.send_fds(self._control, [b"w"], [theirs.fileno()])
        for message in greeting:
            connection.send(message)
        return connection

    def close(self) -> None:
        """End it and all workers, and wait for that."""
        self._control.close()
        self._process.wait()


def serve(handle: int) -> NoReturn:
    """The fork server's main function: start a worker for each connection that it receives, until the parent ends."""
    for number in _STOP_SIGNALS:
        signal.signal(number, _ignore)  # not SIG_IGN, which programs that a worker starts would inherit
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of jemalloc's thread, which knows forks
    importlib.import_module("pyarrow")  # once for all workers; the parent of the pool may do without
    gc.set_threshold(50_000)  # as in cli/main.py
    gc.freeze()  # what the workers share is not looked at, and so not copied

    control = socket.socket(fileno=handle)
    workers: set[int] = set()
    while True:
        message, handles, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            break
        with Connection(handles[0]) as connection, _ErrorsTo(connection):
            workers.add(_fork_worker(connection, control))
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    for worker in workers:
        os.waitpid(worker, 0)
    os._exit(0)


def _fork_worker(connection: Connection, control: socket.socket) -> int:
    """Import the code of the job, then fork; a worker that ended stays a zombie, so its pid is not used again."""
    job = _receive_job(connection.recv())
    server = os.getpid()
    worker = os.fork()
    if worker:
        return worker
    try:
        control.close()
        _end_with(server)
        _work(connection, job)
    finally:
        os._exit(0)


def _receive_job(message: tuple[Job[Any, Any, Any], set[str]]) -> Job[Any, Any, Any]:
    """Import the code of a job for the formats of its tasks."""
    job, formats = message
    if job.load_format is not None:
        for name in formats:
            with contextlib.suppress(Exception):  # its units report it
                job.load_format(name)
    return job


def _end_with(server: int) -> None:
    """Let the kernel kill this process if the fork server is killed; elsewhere than on Linux it ends after its task."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(0)


def _work(connection: Connection, job: Job[Any, Any, Any]) -> None:
    """Run one task after another, as the parent sends them."""
    import pyarrow as pa

    pa.set_cpu_count(1)  # the other cores have workers of their own
    with _ErrorsTo(connection):
        io, has_idle_core = connection.recv()
        while True:
            message = connection.recv()
            if isinstance(message[0], Job):
                job = _receive_job(message)
                continue
            staging, number, deaths = message
            name = f"a{os.getpid()}_{uuid.uuid4().hex[:8]}"
            attempt = Attempt(io=io, staging=staging, name=name, number=deaths, has_idle_core=has_idle_core)
            run_task(job, attempt, number, on_unit=lambda unit: connection.send(unit.input_bytes))
            connection.send(name)


class _ErrorsTo:
    """Sends the error that ends a block to the parent, which raises it; a connection that was closed is no error."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, EOFError):
            return True
        if not isinstance(error, Exception):
            return False
        if not isinstance(error, (PackstoneError, OSError)):  # not all errors of libraries survive pickling
            error = RuntimeError("In a worker process: " + "".join(traceback.format_exception(error)))
        with contextlib.suppress(OSError):
            self._connection.send(error)
        return True


def _ignore(_number: int, _frame: object) -> None:
    """Leave the signal to the parent."""
