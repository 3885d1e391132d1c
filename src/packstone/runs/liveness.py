"""Decide whether a process lives; no other module decides that.

A process on this host is dead if it no longer exists (compared by boot id, pid and start time, so that a reused pid
does not count). A process on another host is dead when its heartbeat is older than the lease. Another boot or another
pid namespace of the same host name counts as another host: cloned machines and pods of one node share names, and a
wrong guess costs rows while the lease costs five minutes.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packstone.model.codec import Pid

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

LEASE_SECONDS: Final = 300  # ten missed heartbeats; a driver that pauses longer is in trouble anyway
HEARTBEAT_SECONDS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process of one host, distinct from a later process of the same pid."""

    host: str
    boot_id: str
    pid: Pid
    started_ticks: int
    pid_namespace: str = ""

    @classmethod
    def mine(cls) -> ProcessIdentity:
        """The identity of this process."""
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """The identity of the process that now has this pid on this host."""
        return cls(
            host=socket.gethostname(),
            boot_id=_boot_id(),
            pid=pid,
            started_ticks=_started_ticks(pid),
            pid_namespace=_pid_namespace(),
        )

    @classmethod
    def parent(cls, program: str) -> ProcessIdentity:
        """The nearest process above this one that runs a program, such as ``java``; the direct parent if none does."""
        pid = os.getppid()
        while pid > 1:
            name, above = _read_stat(pid)
            if name == program:
                return cls.of(pid)
            pid = above
        return cls.of(os.getppid())

    def is_on_this_host(self) -> bool:
        """Whether its pid can be looked up here: the same boot, and the same pid namespace."""
        here = (socket.gethostname(), _boot_id(), _pid_namespace())
        return self.boot_id != "" and (self.host, self.boot_id, self.pid_namespace) == here

    def is_running(self) -> bool:
        """Whether exactly this process runs here now; one that we may not inspect counts as running."""
        ticks = _started_ticks(self.pid)
        return self.started_ticks == ticks if ticks else _is_out_of_sight(self.pid)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def is_dead(self, *, heartbeat_seconds: float, now_seconds: float) -> bool:
        """Whether it no longer runs: looked up here, or on another host judged by its last heartbeat."""
        if self.is_on_this_host():
            return not self.is_running()
        return now_seconds - heartbeat_seconds > LEASE_SECONDS


class Heartbeat:
    """Touches files from a thread while a run lives, so that other hosts can see that it lives.

    A write that fails is tried again: on a full disk or a slow mount the lease tolerates nine misses. If the folder of
    a file no longer exists, the run was taken over, and its next check will raise that.
    """

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._paths: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="packstone-heartbeat")

    def start(self, *paths: str) -> None:
        """Start the thread with these files, which exist already."""
        self._paths.update(paths)
        self._thread.start()

    def add(self, path: str) -> None:
        """Add a file to touch."""
        self._paths.add(path)

    def drop(self, path: str) -> None:
        """Stop touching a file."""
        self._paths.discard(path)

    def stop(self) -> None:
        """Stop the thread, if it was started."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            for path in tuple(self._paths):
                try:
                    self._io.replace(path, b"")
                except FileNotFoundError:
                    self.drop(path)
                except OSError:
                    continue


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:  # not Linux: the lease decides
        return ""


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _is_out_of_sight(pid: int) -> bool:
    """Whether the process exists but belongs to another user and is hidden (/proc mounted with hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _read_stat(pid: int) -> tuple[str, int]:
    """The program of a process, and the pid of its parent; 0 if that is unknown."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            head, _, rest = file.read().rpartition(")")
    except OSError:
        return "", 0
    return head.partition("(")[2], int(rest.split()[1])


def _started_ticks(pid: int) -> int:
    """The start time of a process, in clock ticks since boot; 0 if it does not exist or is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in ("Z", "X") else int(fields[19])
