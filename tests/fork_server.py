"""Runs calls in processes of their own, so that tests can kill them; started once by the fixture ``children``.

A line of JSON in, a line out. A fresh interpreter would take half a second a call; a fork of this one, which has
imported everything and started nothing, takes milliseconds.
"""

import json
import os
import pickle
import sys
import tempfile
import time
import traceback
from pathlib import Path

import compact_calls
import jsonl_calls
import load_calls
import location_calls
import paimon_calls
import pyarrow as pa
import pyarrow.parquet as pq
import race_calls
import segment_calls

from packstone.errors import ConflictError, PackstoneError
from packstone.model.files import Permissions
from packstone.pipeline.table import Table
from packstone.runs.interrupts import interruptible
from packstone.runs.liveness import ProcessIdentity
from packstone.runs.owner import Owner, claim
from packstone.storage import local
from packstone.storage.faulty import Action, Fault, FaultyFileIO, Moment, PowerCutFileIO
from packstone.storage.hdfs import HdfsFileIO
from packstone.storage.hdfs_connection import HdfsSettings
from packstone.storage.local import LocalFileIO
from packstone.storage.s3 import S3FileIO, S3Settings
from packstone.tables.hive.options import HiveOptions


def compact(io, path, **options):
    """Merge, and say how it ended."""
    return Table(path, io=io).compact(HiveOptions(**options)).to_json()


def make_dirs_like(io, path, gid, mode):
    """Make a folder that is to be as open as another one."""
    io.make_dirs(path, like=Permissions(gid=gid, mode=mode))


def recover(io, path):
    """Repair what the dead left."""
    return Table(path, io=io).recover().to_json()


def restore(io, path, run):
    """Undo a run."""
    return Table(path, io=io).restore(run).to_json()


def clean(io, path):
    """Remove originals."""
    return Table(path, io=io).clean().to_json()


def with_power_cuts(_io, command, *, path, root, vault, states, **arguments):
    """Make a call, and write down what a power cut would leave after each of its steps."""
    io = PowerCutFileIO(root=root, vault=vault)
    try:
        return globals()[command](io, path, **arguments)
    finally:
        Path(states).write_bytes(pickle.dumps(io.states))


def claim_each(io, folders, start, interval, rivals):
    """Claim one folder after the other, each at the same moment as everybody else; say which were won."""
    won = []
    for number, folder in enumerate(folders):
        _spin_until(start + number * interval)
        heartbeat = str(Path(folder).with_name("heartbeat"))
        me = Owner(run=f"run-{os.getpid()}", process=ProcessIdentity.mine(), heartbeat_path=heartbeat)
        try:
            claim(io, folder, me, what=folder, now_seconds=time.time())
        except ConflictError:
            continue
        won.append(folder)
    _wait_for_rivals(Path(folders[0]).with_name("done"), rivals)  # who is gone may be inherited from
    return won


def _wait_for_rivals(folder, rivals):
    folder.mkdir(exist_ok=True)
    (folder / f"{os.getpid()}").touch()
    while len(list(folder.iterdir())) < rivals:
        time.sleep(0.01)


def write_new_each(io, paths, start, interval):
    """Create one file after the other, each at the same moment as everybody else; say which were won."""
    won = []
    for number, path in enumerate(paths):
        _spin_until(start + number * interval)
        try:
            io.write_new(path, f"{os.getpid()}".encode() * 10_000)
        except FileExistsError:
            continue
        won.append(path)
    return won


def upload_and_die(io, path, megabytes):
    """Write this much of a data file, and be killed before it is closed."""
    file = io.open_output(path)
    for _ in range(megabytes):
        file.write(os.urandom(1 << 20))
    os.kill(os.getpid(), 9)


def move_by_link(io, source, target, die):
    """Move as on a file system without the rename flag, and die between the two steps."""
    local._rename_noreplace = lambda _source, _target: 38  # ENOSYS
    if die:
        local.os.unlink = lambda _path: os.kill(os.getpid(), 9)
    io.move(source, target)


def identity(io):
    """Say who this process is, and end."""
    mine = ProcessIdentity.mine()
    return {name: getattr(mine, name) for name in ProcessIdentity.__slots__}


def _spin_until(when):
    time.sleep(max(0.0, when - time.monotonic() - 0.001))
    while time.monotonic() < when:
        pass


def _become(uid):
    """Give up root, after a merge that imports whatever is imported late: the new user may not reach the library."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table"
        table.mkdir()
        for number in range(5):
            pq.write_table(pa.table({"id": [number]}), table / f"{number}.parquet")
        compact(LocalFileIO(), str(table))
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def _store(env):
    """The store that these variables describe."""
    if "HADOOP_CONF_DIR" in env:
        return HdfsFileIO(HdfsSettings.from_environment("hdfs:///", os.environ))
    return S3FileIO(S3Settings.from_environment(os.environ)) if env else LocalFileIO()


def _call(job):
    fault = job.get("fault")
    if fault is not None:
        fault = Fault(step=fault["step"], action=Action(fault["action"]), moment=Moment(fault["moment"]))
    os.environ.update(job.get("env") or {})
    io = FaultyFileIO(_store(job.get("env") or {}), fault=fault)
    answer = {}
    try:
        if job.get("uid") is not None:
            _become(job["uid"])
        with interruptible():
            modules = (compact_calls, jsonl_calls, load_calls, location_calls, paimon_calls, race_calls, segment_calls)
            calls = {name: call for module in modules for name, call in vars(module).items()} | globals()
            answer["value"] = calls[job["call"]](io, **job["arguments"])
    except PackstoneError as error:
        answer.update(error=type(error).__name__, message=error.message)
    except BaseException:  # noqa: BLE001 - whatever it is, the test wants to see it
        answer.update(error="unexpected", message=traceback.format_exc())
    answer["steps"] = io.steps
    return answer


def _start(job):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    os.close(reading)
    try:
        with os.fdopen(writing, "w") as out:
            json.dump(_call(job), out)
    finally:
        os._exit(0)


def main():
    """Serve until the test session closes our input."""
    running = {}
    for line in sys.stdin:
        job = json.loads(line)
        if "wait" in job:
            with os.fdopen(running.pop(job["wait"])) as answers:
                text = answers.read()
            _, status = os.waitpid(job["wait"], 0)
            answer = {"status": os.waitstatus_to_exitcode(status), **(json.loads(text) if text else {})}
        else:
            pid, reading = _start(job)
            running[pid] = reading
            answer = {"pid": pid}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
