"""CPU seconds of a process and its children, which other work on the machine affects less than wall time."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Self


class CpuMeter:
    """Measure CPU seconds of this process and all its descendants, including those that end during the measurement.

    The times of a Python worker are lost when Spark ends it, so all living descendants are sampled five times a
    second, and the last sample of each process counts.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._began = dict(self._seen)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()
        ticks = sum(used - self._began.get(key, 0) for key, used in self._seen.items())
        self.seconds = ticks / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        while not self._stop.wait(0.2):
            self._look()

    def _look(self) -> None:
        parents: dict[int, int] = {}
        used: dict[int, tuple[int, int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents[int(entry.name)] = int(fields[1])
                used[int(entry.name)] = int(fields[11]) + int(fields[12]), int(fields[19])
        mine, found = {os.getpid()}, {os.getpid()}
        while found:
            found = {pid for pid, parent in parents.items() if parent in mine} - mine
            mine |= found
        for pid in mine & used.keys():
            ticks, started = used[pid]
            self._seen[pid, started] = ticks
