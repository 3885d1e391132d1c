"""Whether a process lives: the only place that decides it.

A process on this host is dead if it is gone (boot id, pid and start time of the process, so that a recycled pid does
not count). One on another host is dead when its heartbeat is older than the lease. Another boot or another pid
namespace of the same host name counts as another host: cloned machines and pods of one node share names, and a wrong
guess costs rows while the lease costs five minutes.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packstone.model.record_fields import Pid

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

LEASE_SECONDS: Final = 300  # ten missed heartbeats; a driver that pauses longer is in trouble anyway
HEARTBEAT_SECONDS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process of one host, never confused with a later one of the same number."""

    host: str
    boot_id: str
    pid: Pid
    started_ticks: int
    pid_namespace: str = ""

    @classmethod
    def mine(cls) -> ProcessIdentity:
        """Describe this process."""
        return cls(
            host=socket.gethostname(),
            boot_id=_boot_id(),
            pid=os.getpid(),
            started_ticks=_started_ticks(os.getpid()),
            pid_namespace=_pid_namespace(),
        )

    def is_on_this_host(self) -> bool:
        """Whether its pid can be looked up here: the same kernel, and the same view of processes."""
        here = (socket.gethostname(), _boot_id(), _pid_namespace())
        return self.boot_id != "" and (self.host, self.boot_id, self.pid_namespace) == here

    def is_running(self) -> bool:
        """Whether this very process runs here now; one that we may not look at counts as running."""
        ticks = _started_ticks(self.pid)
        return self.started_ticks == ticks if ticks else _is_out_of_sight(self.pid)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def is_dead(self, *, heartbeat_seconds: float, now_seconds: float) -> bool:
        """Whether it is gone: as seen here, or, of another host, by the time of its last heartbeat."""
        if self.is_on_this_host():
            return not self.is_running()
        return now_seconds - heartbeat_seconds > LEASE_SECONDS


class Heartbeat:
    """Touches files from a thread while a run lives, so that other hosts can see it.

    A file that cannot be written is tried again: on a full disk or a slow mount the lease forgives nine misses. One
    whose folder is gone was taken over, and the next check of the run will say so.
    """

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._paths: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="packstone-heartbeat")

    def start(self, *paths: str) -> None:
        """Begin with these files, which exist by now."""
        self._paths.update(paths)
        self._thread.start()

    def add(self, path: str) -> None:
        """Touch one more file."""
        self._paths.add(path)

    def drop(self, path: str) -> None:
        """Touch a file no longer."""
        self._paths.discard(path)

    def stop(self) -> None:
        """End the thread; it may not have been started."""
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
    """Whether there is such a process of another user, hidden from us (/proc mounted with hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _started_ticks(pid: int) -> int:
    """When the process began, in clock ticks since boot; 0 if there is none (or it is a zombie)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in ("Z", "X") else int(fields[19])
