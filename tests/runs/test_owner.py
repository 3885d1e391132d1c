"""Who owns a partition: one at a time, taken over only from the dead, and never by mistake."""

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from packstone.errors import ConflictError
from packstone.runs import liveness
from packstone.runs import owner as ownership
from packstone.runs.liveness import LEASE_SECONDS, ProcessIdentity
from packstone.runs.owner import Owner, UnknownOwner, check_owned, claim, is_dead, read_owner, release, succeed
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO

IO = LocalFileIO()


@pytest.fixture
def folder(tmp_path):
    """Where the owner files of one partition live, with a heartbeat beside it."""
    (tmp_path / "heartbeat").write_bytes(b"")
    return str(tmp_path / "owners")


def beside(folder):
    """The heartbeat of whoever claims this folder."""
    return str(Path(folder).with_name("heartbeat"))


def owner(folder, run="mine", **process):
    """An owner record of this process, or of one that differs in something."""
    return Owner(run=run, process=replace(ProcessIdentity.mine(), **process), heartbeat_path=beside(folder))


def take(folder, who, *, now=None, take_over=False):
    """Claim in the name of this owner."""
    return claim(IO, folder, who, what="dt=1", now_seconds=now or time.time(), take_over=take_over)


def test_of_many_processes_exactly_one_owns(children, tmp_path):
    """Eight processes claim the same partition at the same moment, 200 times: exactly one owner each time."""
    (tmp_path / "heartbeat").write_bytes(b"")
    folders = [str(tmp_path / f"p{number:03d}") for number in range(200)]
    start = time.monotonic() + 0.5
    pids = [children.start("claim_each", folders=folders, start=start, interval=0.01, rivals=8) for _ in range(8)]
    won = sorted(folder for pid in pids for folder in children.wait(pid)["value"])
    assert won == folders


def test_the_dead_are_inherited_by_exactly_one(children, tmp_path):
    """The same when the partitions belong to a process that is gone: the race for a dead owner has one winner."""
    (tmp_path / "heartbeat").write_bytes(b"")
    gone = ProcessIdentity(**children.run("identity")["value"])
    folders = [str(tmp_path / f"p{number:03d}") for number in range(100)]
    for folder in folders:
        dead = Owner(run="dead", process=gone, heartbeat_path=beside(folder))
        claim(IO, folder, dead, what=folder, now_seconds=time.time())
    start = time.monotonic() + 0.5
    pids = [children.start("claim_each", folders=folders, start=start, interval=0.01, rivals=8) for _ in range(8)]
    won = sorted(folder for pid in pids for folder in children.wait(pid)["value"])
    assert won == folders


def test_a_living_owner_is_left_alone_even_with_take_over(folder):
    """A process that is seen to run on this host keeps its partition, whatever the caller is sure of."""
    take(folder, owner(folder))
    for sure in (False, True):
        with pytest.raises(ConflictError, match=f"run mine \\(process {os.getpid()} on .*or stop it"):
            take(folder, owner(folder, "other"), take_over=sure)
    assert read_owner(IO, folder)[1].run == "mine"


def test_a_dead_process_of_this_host_is_taken_over_at_once(folder, children):
    """Its heartbeat may be fresh: the process is gone, and that is certain."""
    gone = children.run("identity")["value"]
    take(folder, owner(folder, "dead", **gone))
    assert take(folder, owner(folder, "next")) == 2
    assert read_owner(IO, folder)[1].run == "next"


def test_a_recycled_pid_is_not_the_owner(folder):
    """The pid of this very process, but begun at another time: that owner is dead."""
    mine = ProcessIdentity.mine()
    take(folder, owner(folder, "dead", started_ticks=mine.started_ticks - 1))
    assert take(folder, owner(folder, "next")) == 2


def test_a_zombie_is_dead(folder):
    """A process that ended and was not waited for owns nothing."""
    reading, writing = os.pipe()
    pid = os.posix_spawn("/bin/cat", ["cat"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0)])
    os.close(reading)
    who = owner(folder, "dead", pid=pid, started_ticks=liveness._started_ticks(pid))
    assert not is_dead(IO, who, now_seconds=time.time())
    os.close(writing)
    os.kill(pid, 9)
    for _ in range(100):
        if is_dead(IO, who, now_seconds=time.time()):
            break
        time.sleep(0.01)
    assert is_dead(IO, who, now_seconds=time.time())
    os.waitpid(pid, 0)


@pytest.mark.parametrize(
    "other",
    [
        {"host": "elsewhere"},
        {"boot_id": "another boot of a machine with this name"},
        {"pid_namespace": "pid:[1]"},
        {"boot_id": "", "pid_namespace": "", "started_ticks": 0},
    ],
    ids=["host", "boot", "container", "no /proc"],
)
def test_an_owner_out_of_sight_has_its_lease(folder, other):
    """Another host, another boot of the same name, another container: nobody but the lease or the caller decides."""
    take(folder, owner(folder, "far", pid=1, **other))
    beat = time.time()
    os.utime(beside(folder), (beat, beat))
    rival = owner(folder, "rival")
    for now in (beat, beat + LEASE_SECONDS - 1):
        with pytest.raises(ConflictError, match="give --take-over"):
            take(folder, rival, now=now)
    assert take(folder, rival, now=beat + LEASE_SECONDS + 1) == 2


def test_take_over_is_for_owners_out_of_sight(folder):
    """Who knows that the other host is dead need not wait for the lease."""
    take(folder, owner(folder, "far", host="elsewhere"))
    assert take(folder, owner(folder, "next"), take_over=True) == 2


def test_an_owner_whose_run_is_over_owns_nothing(folder):
    """The heartbeat goes with the run; a process that could not give the partition back does not hold it for ever."""
    take(folder, owner(folder))
    Path(beside(folder)).unlink()
    assert take(folder, owner(folder, "next")) == 2


def test_who_was_taken_over_notices(folder):
    """The old owner's next look at its claim is a conflict, also after the new one gave the partition back."""
    number = take(folder, owner(folder, "far", host="elsewhere"))
    check_owned(IO, folder, number, what="dt=1")
    new = owner(folder, "next")
    second = take(folder, new, take_over=True)
    for _ in range(2):
        with pytest.raises(ConflictError, match="taken over"):
            check_owned(IO, folder, number, what="dt=1")
        release(IO, folder, number=second, owner=new)


def test_a_slow_rival_cannot_use_a_number_that_was_pruned(folder, monkeypatch):
    """Who read the owners long ago and writes a number that others have used and removed since still loses (ABA)."""
    first = owner(folder, "first")
    release(IO, folder, number=take(folder, first), owner=first)
    seen = read_owner(IO, folder)
    for run in ("second", "third"):
        release(IO, folder, number=take(folder, owner(folder, run)), owner=owner(folder, run))
    answers = iter([seen])
    real = read_owner
    monkeypatch.setattr(ownership, "read_owner", lambda *args: next(answers, None) or real(*args))
    with pytest.raises(ConflictError, match="taken over"):
        take(folder, owner(folder, "slow"))
    monkeypatch.undo()
    assert read_owner(IO, folder)[1].run == "third"
    assert take(folder, owner(folder, "fourth")) == 4


def test_a_released_partition_is_free_for_all(folder):
    """Given back, it is claimed by anybody at once, and the record says whether all was finished."""
    mine = owner(folder)
    number = take(folder, mine)
    release(IO, folder, number=number, owner=mine, unfinished=True)
    _, given_back = read_owner(IO, folder)
    assert (given_back.released, given_back.is_clean) == (True, False)
    number = take(folder, owner(folder, "next", host="elsewhere"))
    release(IO, folder, number=number, owner=owner(folder, "next"))
    assert read_owner(IO, folder)[1].is_clean


def test_old_numbers_are_removed(folder):
    """A partition merged every night does not collect owner files."""
    for night in range(30):
        who = owner(folder, f"night-{night}")
        release(IO, folder, number=take(folder, who), owner=who)
    assert [entry.name for entry in IO.list_dir(folder)] == ["000030.json"]


def test_nobody_ever_claimed():
    """An absent or empty folder has no owner."""
    io = MemoryFileIO()
    assert read_owner(io, "/owners") == (0, None)
    io.make_dirs("/owners")
    assert read_owner(io, "/owners") == (0, None)


def test_this_process_knows_itself():
    """An identity made here is on this host and running; its text names process and host."""
    mine = ProcessIdentity.mine()
    assert (mine.is_on_this_host(), mine.is_running()) == (True, True)
    assert str(mine) == f"process {os.getpid()} on {socket.gethostname()}"


@pytest.mark.parametrize("left", [b"", bytes(300)])
def test_an_owner_file_that_a_power_cut_emptied(folder, left):
    """Its owner is dead: nobody has to say --take-over, but the next owner looks for half-done work."""
    Path(folder).mkdir(parents=True)
    (Path(folder) / "000001.json").write_bytes(left)
    number, before = succeed(IO, folder, owner(folder), what="dt=1", now_seconds=time.time())
    assert (number, isinstance(before, UnknownOwner)) == (2, True)


def test_the_driver_above_a_worker_is_found(tmp_path):
    """The nearest process above that runs the program, however many others are between; else the direct parent."""
    driver = tmp_path / "java"
    driver.symlink_to(sys.executable)
    ask = "from packstone.runs.liveness import ProcessIdentity as P; print(P.parent('java').pid, P.parent('nix').pid)"
    between = (
        f"import os, subprocess, sys; print(os.getpid(), flush=True); subprocess.run([sys.executable, '-c', {ask!r}])"
    )
    above = (
        "import os, subprocess; print(os.getpid(), flush=True); "
        f"subprocess.run([{sys.executable!r}, '-c', {between!r}], env=os.environ)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([str(driver), "-c", above], env=environment, capture_output=True, text=True, check=True)
    top, middle, found, parent = map(int, done.stdout.split())
    assert (found, parent) == (top, middle)
