"""The values that recover, clean, verify and restore use, for every family."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol

from packstone.errors import CorruptionError, PackstoneError, RefusedError
from packstone.model.outcome import UnitOutcome
from packstone.model.sizes import format_bytes, plural
from packstone.model.unit import OutputT
from packstone.model.work import UnitT


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Something that a dead run left, and what was done about it."""

    run: str
    part: str
    action: str
    is_left: bool = False  # left alone, for a person to decide
    is_damaged: bool = False  # a record cannot be read, so it is not known what is half-done

    def __str__(self) -> str:
        return f"run {self.run}{self.part and ', '}{self.part}: {self.action}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """What a run published, read from its records afterwards: for the history of a run that was killed."""

    outcomes: tuple[UnitOutcome, ...]
    verified: str = "none"
    ended_seconds: float | None = None  # when it published last
    reader_gap_ms: float = 0.0
    is_undone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRequest:
    """What to remove in addition to the default; a family refuses requests that it does not support."""

    expire_snapshots: bool = False
    retain_min: int | None = None
    retain_max: int | None = None
    older_than_seconds: float | None = None
    max_expired: int | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the requested values."""
        return tuple(name for name in self.__slots__ if getattr(self, name) not in (None, False))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """Which version to check, and whether to read all data."""

    version: int | None = None  # None: the newest; only families with versions accept another one
    deep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A file that is missing, or is not what was written."""

    file: str
    why: str

    def __str__(self) -> str:
        return self.why if self.file in self.why else f"{self.file}: {self.why}"

    @classmethod
    def of(cls, error: PackstoneError, file: str = "") -> Damage:
        """The damage that an error describes; ``file`` if the error names none."""
        named = str(error.facts.get("file") or error.facts.get("path") or file)
        return cls(file=named, why=error.message.rstrip("."))


def damage_in(file: str, act: Callable[[], object]) -> Iterator[Damage]:
    """Yield the damage that an attempt to read a file reports, if any."""
    try:
        act()
    except (CorruptionError, RefusedError) as error:
        yield Damage.of(error, file)
    except FileNotFoundError:
        yield Damage(file=file, why="it is missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPart(Generic[UnitT]):
    """A part of a table whose metadata were checked, and the units that check its data files."""

    files: int = 0
    size_bytes: int = 0
    rows: int = 0
    damage: tuple[Damage, ...] = ()
    units: tuple[UnitT, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """A check that has begun: ``parts`` are checked while they are consumed."""

    version: int | None
    parts: Iterator[CheckedPart[Any]]
    job: Any  # runs.tasks.Job whose units are those of the parts, and whose outputs are Damage
    context: Any = None  # of the job


class CleanPlan(Protocol):
    """What may be removed now, or was removed; a family's class inherits the defaults that suit it."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        return not self.files

    @property
    def files(self) -> int:
        """The number of files."""
        ...

    @property
    def bytes(self) -> int:
        """The space that is freed."""
        ...

    @property
    def problems(self) -> tuple[str, ...]:
        """Errors about records that cannot be used; the files that they describe stay."""
        return ()

    @property
    def refused(self) -> str:
        """Why something requested is not removed; empty if nothing was refused."""
        return ""

    def describe(self) -> str:
        """What is removed, in a few words: ``12 originals of 2 runs, 3.4 MB``."""
        ...

    def notes(self) -> tuple[str, ...]:
        """Further lines to show: what was left alone, what is still kept."""
        return ()

    def to_json(self, *, dry_run: bool = False) -> dict[str, Any]:
        """The documented keys."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitAgain(Generic[UnitT]):
    """A unit that was merged before, as the payload of a task that only proves it."""

    unit: UnitT  # its inputs as they are now

    @property
    def number(self) -> int:
        """As of the unit."""
        return self.unit.number

    @property
    def input_bytes(self) -> int:
        """As of the unit."""
        return self.unit.input_bytes

    @property
    def input_files(self) -> tuple[tuple[str, str], ...]:
        """Empty: a process that dies in a proof makes no file a suspect."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedUnit(UnitAgain[UnitT], Generic[UnitT, OutputT]):
    """A published unit, which is proved again."""

    outputs: tuple[OutputT, ...]  # as they are now
    has_inputs: bool  # whether the inputs still exist; otherwise only the outputs are read


@dataclass(frozen=True, slots=True, kw_only=True)
class ToProve(Generic[UnitT, OutputT]):
    """A published unit that can be proved again, and what was recorded about it."""

    label: str  # the part and its outputs, for people
    proved: ProvedUnit[UnitT, OutputT] | None  # None if it cannot be proved; ``problem`` says why
    rows: int = 0
    fingerprint: str = ""  # as it was recorded
    is_counted: bool = False  # only the number of rows was proved
    problem: str = ""  # why it cannot be proved: an output no longer exists


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What undoing a run changes, or changed."""

    table: str
    run: str
    parts: tuple[str, ...]
    files_restored: int
    files_removed: int
    bytes_restored: int
    is_whole: bool = True  # nothing of the run is left to undo afterwards
    note: str = ""  # what happens to the files that were published
    detail: Any = field(default=None, compare=False, repr=False)  # what the family needs to carry it out

    def __str__(self) -> str:
        if not self.parts:
            return f"run {self.run} of {self.table}: nothing to restore"
        files = f"{plural(self.files_restored, 'file')} ({format_bytes(self.bytes_restored)}) restored"
        return f"run {self.run} of {self.table}: {files}, {self.files_removed:,} removed"

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "run": self.run,
            "status": "restored" if self.parts else "nothing-to-do",
            "parts": list(self.parts),
            "files_restored": self.files_restored,
            "files_removed": self.files_removed,
            "bytes_restored": self.bytes_restored,
        }
