"""Stores that fail, tear a write or kill the process at a chosen step, or know what a power cut would leave.

It ships with the package, so that users can test their own settings as our tests do::

    io = FaultyFileIO(LocalFileIO(), fault=Fault(step=7, action=Action.KILL, moment=Moment.AFTER))

Every changing call of ``FileIO`` is one step, counted from 0. With ``fault=None`` it only counts the steps and keeps
their names, so that a test knows how many there are.
"""

from __future__ import annotations

import copy
import os
import posixpath
import shutil
import signal
import threading
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from packstone.storage.fileio import incomplete_path
from packstone.storage.local import LocalFileIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.model.files import Permissions
    from packstone.storage.fileio import Capabilities, Entry, FileIO


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

    def why_not_replace(self, directory: str, permissions: Permissions) -> str:
        """Ask the inner store."""
        return self._inner.why_not_replace(directory, permissions)

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
            self._inner.replace(incomplete_path(path), torn[: len(torn) // 2])
        if fault.action in (Action.KILL, Action.KILL_INSIDE):
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.action is Action.TEAR and torn is not None:
            # A short file under a temporary name, as a store leaves it when it is killed while it writes.
            self._inner.replace(f"{path}.torn", torn[: len(torn) // 2])
        raise OSError(f"injected {fault.action} at step {fault.step}: {path}")


# ---- power cuts ----


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of one name in a folder that is not durable yet; ``node`` None removes the name."""

    number: int
    folder: int
    name: str
    node: int | None
    needs: int | None = None  # of the old name of a move: its new name, which is never lost with it

    @property
    def key(self) -> tuple[int, str]:
        return self.folder, self.name


@dataclass(frozen=True, slots=True)
class DiskState:
    """What is on a disk at one moment: names that are durable, changes that are not, and files whose bytes are not."""

    after: str  # the step that was the last one
    names: dict[tuple[int, str], int]
    changes: tuple[_Change, ...]
    unsynced: frozenset[int]
    folders: frozenset[int]

    def cut(self, vault: str, root: str, *, choose: Callable[[int], int]) -> None:
        """Replace the content of a folder by what a power cut at this moment may leave.

        ``choose`` returns a number below its argument: which changes of a name reached the disk, and what became of a
        file that was not synced (whole, empty, zeros). Changes of different names reach it in any order.
        """
        kept = self._choose(choose)
        names = dict(self.names)
        for change in self.changes:
            if change.number in kept:
                if change.node is None:
                    names.pop(change.key, None)
                else:
                    names[change.key] = change.node
        fates = {node: choose(len(_FATES)) for node in sorted(self.unsynced)}
        shutil.rmtree(root)
        os.mkdir(root)
        below: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), node in names.items():
            below.setdefault(folder, []).append((name, node))
        waiting = [(_ROOT, root)]
        while waiting:
            folder, at = waiting.pop()
            for name, node in below.get(folder, ()):
                path = f"{at}/{name}"
                if node in self.folders:
                    os.mkdir(path)
                    waiting.append((node, path))
                else:
                    _FATES[fates.get(node, 0)](f"{vault}/{node}", path)

    def _choose(self, choose: Callable[[int], int]) -> set[int]:
        """Choose for every name up to which change it is durable; a move that removed the old name made the new one."""
        by_key: dict[tuple[int, str], list[_Change]] = {}
        for change in self.changes:
            by_key.setdefault(change.key, []).append(change)
        kept: set[int] = set()
        for changes in by_key.values():
            kept |= {change.number for change in changes[: choose(len(changes) + 1)]}
        waiting = [change for change in self.changes if change.number in kept]
        numbers = {change.number: change for change in self.changes}
        while waiting:
            needed = numbers.get(waiting.pop().needs or -1)
            if needed is None or needed.number in kept:
                continue
            earlier = by_key[needed.key]
            added = [change for change in earlier[: earlier.index(needed) + 1] if change.number not in kept]
            kept |= {change.number for change in added}
            waiting += added
        return kept


def _leave_whole(source: str, path: str) -> None:
    os.link(source, path)


def _leave_empty(source: str, path: str) -> None:
    with open(path, "wb"):
        shutil.copystat(source, path)


def _leave_zeros(source: str, path: str) -> None:
    with open(path, "wb") as file:
        file.write(bytes(os.stat(source).st_size))
    shutil.copystat(source, path)


_ROOT: Final = 0
_FATES: Final = (_leave_whole, _leave_empty, _leave_zeros)


class PowerCutFileIO(FaultyFileIO):
    """Local files below one folder, with a model of what a power cut would leave of them after each step.

    The model believes only what ``FileIO`` promises: bytes are durable after ``sync_file``, names after ``sync_dir`` of
    their folder, and records after a durable write. ``vault`` is a folder on the same file system, which gets a second
    name of every file, so that what was removed can come back::

        io = PowerCutFileIO(root="/lake", vault="/vault")
        ...
        io.states[7].cut("/vault", "/lake", choose=random.randrange)
    """

    def __init__(self, *, root: str, vault: str) -> None:
        super().__init__(LocalFileIO())
        self._root, self._vault = root, vault
        self._nodes: dict[str, int] = {root: _ROOT}  # the present state, by path
        self._folders: set[int] = {_ROOT}
        self._names: dict[tuple[int, str], int] = {}
        self._changes: list[_Change] = []
        self._unsynced: set[int] = set()
        self._counter = count(1)
        self._lock = threading.RLock()  # a run's heartbeat has a thread of its own
        self.states: list[DiskState] = []
        for at, folders, files in os.walk(root):
            for name in (*folders, *files):
                node = self._add(f"{at}/{name}", is_folder=name in folders)
                self._names[self._nodes[at], name] = node
        self._changes.clear()

    def open_output(self, path: str) -> Any:
        """Write a data file, which is durable after ``sync_file`` of it and ``sync_dir`` of its folder."""
        file = super().open_output(path)
        with self._lock:
            self._unsynced.add(self._add(path))
        return file

    def write_new(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Step."""
        with self._lock:
            super().write_new(path, data, durable=durable)
            self._note_written(path, durable=durable)
            self._note("write_new", path)

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Step."""
        with self._lock:
            super().replace(path, data, durable=durable)
            self._note_written(path, durable=durable)
            self._note("replace", path)

    def move(self, source: str, target: str) -> None:
        """Step."""
        with self._lock:
            super().move(source, target)
            node = self._nodes.pop(source)
            added = self._change(target, node)
            self._nodes[target] = node
            self._change(source, None, needs=added.number)
            self._note("move", source)

    def remove(self, path: str) -> None:
        """Step."""
        with self._lock:
            super().remove(path)
            self._forget(path)
            self._note("remove", path)

    def remove_tree(self, path: str) -> None:
        """Step."""
        with self._lock:
            super().remove_tree(path)
            for known in [known for known in self._nodes if f"{known}/".startswith(f"{path}/")]:
                self._forget(known)
            self._note("remove_tree", path)

    def remove_empty_dir(self, path: str) -> bool:
        """Step."""
        with self._lock:
            is_removed = super().remove_empty_dir(path)
            if is_removed:
                self._forget(path)
            self._note("remove_empty_dir", path)
            return is_removed

    def make_dirs(self, path: str, *, like: Permissions | None = None, durable: bool = True) -> None:
        """Step."""
        with self._lock:
            super().make_dirs(path, like=like, durable=durable)
            missing, at = [], path
            while at not in self._nodes and at.startswith(f"{self._root}/"):
                missing.append(at)
                at = posixpath.dirname(at)
            for folder in reversed(missing):
                self._add(folder, is_folder=True)
                if durable:
                    self._sync(posixpath.dirname(folder))
            self._note("make_dirs", path)

    def sync_dir(self, path: str) -> None:
        """Step."""
        with self._lock:
            super().sync_dir(path)
            self._sync(path)
            self._note("sync_dir", path)

    def sync_file(self, path: str) -> None:
        """Step."""
        with self._lock:
            super().sync_file(path)
            self._unsynced.discard(self._nodes[path])
            self._note("sync_file", path)

    def limited(self, mode: int) -> PowerCutFileIO:
        """Return the same store with limited modes and the same model."""
        limited = copy.copy(self)
        vars(limited)["_inner"] = self._inner.limited(mode)
        return limited

    def _note_written(self, path: str, *, durable: bool) -> None:
        node = self._add(path)
        if durable:
            self._sync(posixpath.dirname(path))
        else:
            self._unsynced.add(node)

    def _note(self, name: str, path: str) -> None:
        self.states.append(
            DiskState(
                after=f"{name} {path}",
                names=dict(self._names),
                changes=tuple(self._changes),
                unsynced=frozenset(self._unsynced),
                folders=frozenset(self._folders),
            )
        )

    def _add(self, path: str, *, is_folder: bool = False) -> int:
        """A new file or folder under a name, which is not durable yet."""
        node = next(self._counter)
        if is_folder:
            self._folders.add(node)
        else:
            os.link(path, f"{self._vault}/{node}")
        self._nodes[path] = node
        self._change(path, node)
        return node

    def _forget(self, path: str) -> None:
        if self._nodes.pop(path, None) is not None:
            self._change(path, None)

    def _change(self, path: str, node: int | None, *, needs: int | None = None) -> _Change:
        folder, name = posixpath.split(path)
        change = _Change(next(self._counter), self._nodes.get(folder, -1), name, node, needs)
        self._changes.append(change)
        return change

    def _sync(self, path: str) -> None:
        """Make the names of a folder durable, and the new names of what was moved out of it."""
        folder = self._nodes[path]
        waiting = [change for change in self._changes if change.folder == folder]
        numbers = {change.number: change for change in self._changes}
        durable: set[int] = set()
        while waiting:
            last = waiting.pop()
            if last.number in durable:
                continue
            found = [one for one in self._changes if one.key == last.key and one.number <= last.number]
            durable |= {change.number for change in found}
            waiting += [numbers[change.needs] for change in found if change.needs in numbers]
        for change in self._changes:
            if change.number not in durable:
                continue
            if change.node is None:
                self._names.pop(change.key, None)
            else:
                self._names[change.key] = change.node
        self._changes[:] = [change for change in self._changes if change.number not in durable]
