"""A job whose units do what a test wants of a worker; a module of its own, because workers import it by name."""

import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from packstone.model.unit import UnitResult, UnitStatus
from packstone.runs.tasks import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Trick:
    """What a unit does to the process that runs it."""

    number: int
    what: str = "live"
    input_bytes: int = 10
    input_files: tuple[tuple[str, str], ...] = ()


def perform(attempt, _context, unit):
    """Live, die, or wait to be killed; say which process it was, and which threads its parent has."""
    before = Path(attempt.staging, f"before-{unit.number}")
    if unit.what == "die" or (unit.what == "die once" and not before.exists()):
        before.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if unit.what == "kill the server once" and not before.exists():
        before.touch()
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
    if unit.what == "remove the folder":
        shutil.rmtree(attempt.staging)
    if unit.what == "wait":
        before.write_text(str(os.getpid()))
        while True:
            signal.pause()
    parent = Path("/proc", str(os.getppid()), "task")
    threads = sorted((task / "comm").read_text().strip() for task in parent.iterdir())
    return UnitResult(
        number=unit.number, status=UnitStatus.WRITTEN, outputs=(str(os.getpid()), *threads), message=attempt.name
    )


def perform_otherwise(_attempt, _context, unit):
    """Say which process it was, and that this is another job."""
    return UnitResult(
        number=unit.number, status=UnitStatus.WRITTEN, outputs=(str(os.getpid()),), message="done by another job"
    )


def fail_to_load(_state):
    """Raise an error in the process that reads the job."""
    raise LookupError("There is no such code here.")


class Broken:
    """A function that cannot be sent to another process."""

    def __call__(self, *_):
        """Never called."""

    def __reduce__(self):
        return fail_to_load, (None,)


TRICKS = Job(context=type(None), unit=Trick, output=str, do=perform)
OTHERS = Job(context=type(None), unit=Trick, output=str, do=perform_otherwise)
BROKEN = Job(context=type(None), unit=Trick, output=str, do=Broken())
