"""CPU seconds of whole process trees, which other work on the machine affects less than wall time.

PySpark never waits for its JVM, and a worker may end before anybody looks at it. Both meters therefore become the
subreaper of their descendants, so that no process leaves the tree, and read the accounts that the kernel keeps: what a
process used is added to its parent's account when it ends, and nothing is sampled.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What a command used; `peak_mb` is the memory of its greatest process."""

    wall_seconds: float
    cpu_seconds: float
    peak_mb: float = 0.0
    out: str = ""


class CpuMeter:
    """CPU seconds of this process and all its descendants between entry and exit, to a hundredth of a second."""

    def __enter__(self) -> Self:
        become_subreaper()
        self._before = self._ticks()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = (self._ticks() - self._before) / os.sysconf("SC_CLK_TCK")

    def _ticks(self) -> int:
        """What the tree has used since it began: the living, and in their accounts the children that ended."""
        parents: dict[int, int] = {}
        used: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents[int(entry.name)] = int(fields[1])
                used[int(entry.name)] = sum(map(int, fields[11:15]))
        tree, found = {os.getpid()}, {os.getpid()}
        while found:
            found = {pid for pid, parent in parents.items() if parent in found} - tree
            tree |= found
        return sum(used[pid] for pid in tree & used.keys())


def run_fresh(command: Sequence[str]) -> Used:
    """Run a command in a process tree of its own, its start included; raise if it fails."""
    report, to_report = os.pipe()
    # Installed packages have bytecode, and so has Packstone after its first run, unless this variable prevents it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    try:
        done = subprocess.run(
            [sys.executable, __file__, str(to_report), *command],
            pass_fds=[to_report],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        os.close(to_report)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
        return Used(**json.loads(os.read(report, 10_000)), out=done.stdout)
    finally:
        os.close(report)


def become_subreaper() -> None:
    """Let processes whose parent ends become children of this one instead of leaving the tree."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def main() -> None:
    """Run the command of the arguments, wait for all that it left behind, and report what they used."""
    report, command = int(sys.argv[1]), sys.argv[2:]
    become_subreaper()
    began = time.perf_counter()
    code = subprocess.call(command)
    wall = time.perf_counter() - began
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = {
        "wall_seconds": wall,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
    }
    os.write(report, json.dumps(answer).encode())
    sys.exit(code != 0)


if __name__ == "__main__":
    main()
