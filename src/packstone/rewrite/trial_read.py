"""Read suspicious files in a process of their own, so that one which ends its reader ends nothing else.

A decoder that aborts takes the whole process along, and no handler runs. What the checks of footers and blocks do not
foresee is therefore found out here: the child names each file before it reads it, and the last one it named before it
died is to blame.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from packstone.errors import PackstoneError
from packstone.rewrite.kernels.registry import kernel_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.storage.fileio import FileIO

_CHILD: Final = "from packstone.rewrite.trial_read import main; main()"


def find_deadly_file(io: FileIO, files: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """Read files, given as (path, format), in a child; the path and signal of the one that ended it, if one did."""
    try:
        question = pickle.dumps((io, tuple(files)))
    except (pickle.PicklingError, TypeError, AttributeError):
        return None  # a store that cannot travel: nothing can be found out about its files
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(  # noqa: S603 - our own interpreter and our own code
        [sys.executable, "-c", _CHILD], input=question, capture_output=True, env=environment, check=False
    )
    begun = done.stdout.split()
    if done.returncode >= 0 or not begun:
        return None
    return files[int(begun[-1])][0], _signal_name(-done.returncode)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def main() -> None:
    """Read what the parent names; errors are not our matter, the merge reports them by itself."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    io, files = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent process
    for number, (path, file_format) in enumerate(files):
        os.write(1, b"%d\n" % number)
        with contextlib.suppress(PackstoneError, OSError, Exception):
            kernel_of(file_format).read_through(io, path)
