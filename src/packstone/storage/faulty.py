"""A store that fails, tears a write or kills the process at a chosen step.

It ships with the package, so that users can test their own settings as our tests do::

    io = FaultyFileIO(LocalFileIO(), fault=Fault(step=7, action=Action.KILL, moment=Moment.AFTER))

Every changing call of ``FileIO`` is one step, counted from 0. With ``fault=None`` it only counts the steps and keeps
their names, so that a test knows how many there are.
"""

from __future__ import annotations

import os
import posixpath
import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.model.files import Permissions
    from packstone.storage.fileio import Capabilities, Entry, FileIO


_HALF: Final = "halfhalf"  # stores on local disks and HDFS write a file under such a name before they rename it


class Action(StrEnum):
    """The kind of fault."""

    FAIL = "fail"  # an OSError, as from a full disk or a lost mount
    TEAR = "tear"  # half of the bytes are written, then an OSError (only writes can tear; other steps fail)
    KILL = "kill"  # SIGKILL to this process: no handler, no finally
    KILL_INSIDE = "kill-inside"  # the same in the middle of a write: half of the bytes are in a temporary file


class Moment(StrEnum):
    """Whether the fault happens before or after the step itself."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The step at which a fault is injected, and its kind."""

    step: int
    action: Action
    moment: Moment = Moment.BEFORE


class FaultyFileIO:
    """``FileIO`` around another one, with at most one fault."""

    def __init__(self, inner: FileIO, *, fault: Fault | None = None) -> None:
        self._inner = inner
        self._fault = fault
        self.steps: list[str] = []

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the inner store."""
        return self._inner.capabilities

    def list_dir(self, path: str) -> Iterator[Entry]:
        """Read from the inner store."""
        return self._inner.list_dir(path)

    def stat(self, path: str) -> Entry | None:
        """Read from the inner store."""
        return self._inner.stat(path)

    def read_permissions(self, path: str) -> Permissions:
        """Read from the inner store."""
        return self._inner.read_permissions(path)

    def read_bytes(self, path: str) -> bytes:
        """Read from the inner store."""
        return self._inner.read_bytes(path)

    def open_input(self, path: str) -> Any:
        """Read from the inner store."""
        return self._inner.open_input(path)

    def open_output(self, path: str) -> Any:
        """Write data files to the inner store; their bytes are not steps."""
        return self._inner.open_output(path)

    def write_new(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Step."""
        self._step("write_new", path, lambda: self._inner.write_new(path, data, durable=durable), torn=data)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Step."""
        self._step("replace", path, lambda: self._inner.replace(path, data, durable=durable), torn=data)

    def move(self, source: str, target: str) -> None:
        """Step."""
        self._step("move", source, lambda: self._inner.move(source, target))

    def remove(self, path: str) -> None:
        """Step."""
        self._step("remove", path, lambda: self._inner.remove(path))

    def remove_tree(self, path: str) -> None:
        """Step."""
        self._step("remove_tree", path, lambda: self._inner.remove_tree(path))

    def remove_empty_dir(self, path: str) -> bool:
        """Step."""
        answer: list[bool] = []
        self._step("remove_empty_dir", path, lambda: answer.append(self._inner.remove_empty_dir(path)))
        return answer[0]

    def limited(self, mode: int) -> FaultyFileIO:
        """Return the same store with limited modes; its steps are counted here."""
        limited = FaultyFileIO(self._inner.limited(mode), fault=self._fault)
        limited.steps = self.steps
        return limited

    def make_dirs(self, path: str, *, like: Permissions | None = None, durable: bool = True) -> None:
        """Step."""
        self._step("make_dirs", path, lambda: self._inner.make_dirs(path, like=like, durable=durable))

    def sync_dir(self, path: str) -> None:
        """Step."""
        self._step("sync_dir", path, lambda: self._inner.sync_dir(path))

    def sync_file(self, path: str) -> None:
        """Step."""
        self._step("sync_file", path, lambda: self._inner.sync_file(path))

    def set_permissions(self, path: str, permissions: Permissions) -> None:
        """Step."""
        self._step("set_permissions", path, lambda: self._inner.set_permissions(path, permissions))

    def free_bytes(self, path: str) -> int:
        """Ask the inner store."""
        return self._inner.free_bytes(path)

    def store_id(self, path: str) -> str:
        """Ask the inner store."""
        return self._inner.store_id(path)

    def may_write(self, path: str) -> bool:
        """Ask the inner store."""
        return self._inner.may_write(path)

    def _step(self, name: str, path: str, act: Callable[[], None], *, torn: bytes | None = None) -> None:
        number = len(self.steps)
        self.steps.append(f"{name} {path}")
        fault = self._fault if self._fault is not None and self._fault.step == number else None
        if fault is not None and fault.moment is Moment.BEFORE:
            self._inject(fault, path, torn)
        act()
        if fault is not None:
            self._inject(fault, path, None)

    def _inject(self, fault: Fault, path: str, torn: bytes | None) -> None:
        if fault.action is Action.KILL_INSIDE and torn is not None:
            self._inner.replace(f"{posixpath.dirname(path)}/.new-{_HALF}", torn[: len(torn) // 2])
        if fault.action in (Action.KILL, Action.KILL_INSIDE):
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.action is Action.TEAR and torn is not None:
            # A short file under a temporary name, as a store leaves it when it is killed while it writes.
            self._inner.replace(f"{path}.torn", torn[: len(torn) // 2])
        raise OSError(f"injected {fault.action} at step {fault.step}: {path}")
