"""A plan that can be saved, reviewed and carried out exactly.

On disk it is a header line (format, table, family, options, filters) and a line for each part. In memory it is the same
lines, in a temporary file once they exceed 32 MiB: a plan over a million files must not fill the driver.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import weakref
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Final

from packstone.errors import CorruptionError, InvalidInputError, PackstoneError
from packstone.model.codec import (
    AbsolutePath,
    Count,
    check_seal,
    dump_record,
    from_plain,
    kind_of,
    load_record,
    seal,
    to_plain,
)
from packstone.model.limits import Filters
from packstone.model.outcome import Outcome
from packstone.model.work import PlannedPart
from packstone.storage.fileio import check_whole_size
from packstone.storage.stores import find_file, find_file_to_write, open_store
from packstone.tables.families import find_family

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.tables.family import Family

_IN_MEMORY_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHeader:
    """What a plan is for; the options it was made with are of the family's own type, and are stored beside this."""

    table: AbsolutePath
    family: str
    filters: Filters
    parts: Count = 0  # the number of lines that follow


class Plan:
    """What ``compact`` would do now; ``compact(plan)`` does exactly this."""

    def __init__(self, header: PlanHeader, *, family: Family, options: Any, outcome: Outcome | None = None) -> None:
        self.header, self.family, self.options = header, family, options
        self._outcome = outcome
        self._others: tuple[Plan, ...] = ()
        self._lines: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - kept open
        weakref.finalize(self, self._lines.close)
        self._kind: Any = None

    @property
    def outcome(self) -> Outcome:
        """The outcome of planning; a plan that was loaded from a file has only its parts."""
        if self._outcome is None:
            raise InvalidInputError(
                "This plan was loaded from a file, which stores its parts and not its outcome; call `plan` to get one."
            )
        return self._outcome

    @property
    def all_plans(self) -> tuple[Plan, ...]:
        """This plan, and those of the other folders of a table that has several."""
        return (self, *self._others)

    def joined(self, others: Sequence[Plan]) -> Plan:
        """Add the plans of the other folders of a table whose partitions are in several folders."""
        self._others = tuple(others)
        return self

    @property
    def filters(self) -> Filters:
        """The filters that selected the parts."""
        return self.header.filters

    def within_hours(self, filters: Filters | None) -> Filters:
        """The filters of the plan, with the hours of ``filters`` in which a run may carry it out."""
        return replace(self.filters, window=filters.window if filters is not None else None)

    @property
    def parts(self) -> Iterator[PlannedPart[Any]]:
        """Yield the planned parts one by one."""
        kind = self._part_type()
        self._lines.seek(0)
        at = 0
        while True:
            self._lines.seek(at)
            line = self._lines.readline()
            if not line:
                return
            at = self._lines.tell()
            yield load_record(kind, line.rstrip(b"\n"), path=f"the plan of {self.header.table}")

    def _part_type(self) -> Any:
        if self._kind is None:
            detail = self.family.load_table().detail
            self._kind = kind_of(PlannedPart, detail)
        return self._kind

    def add(self, part: PlannedPart[Any]) -> None:
        """Add one part."""
        self._lines.seek(0, io.SEEK_END)
        self._lines.write(dump_record(part) + b"\n")
        self.header = replace(self.header, parts=self.header.parts + 1)

    def answered(self, outcome: Outcome) -> Plan:
        """Store the outcome of planning."""
        self._outcome = outcome
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a file: a path, or an address such as ``hdfs://nn:9000/plan.json``."""
        if self._others:
            raise InvalidInputError(
                f"The partitions of {self.header.table} are in several folders; save a plan of each folder separately."
            )
        where = find_file_to_write(os.fspath(path), option="--out")
        store = open_store(where)
        header = {"format_version": 1, **to_plain(self.header), "options": to_plain(self.options)}
        self._lines.seek(0)
        content = seal(json.dumps(header).encode()) + b"\n" + self._lines.read()
        check_whole_size(where, len(content))  # `load` reads the whole file at once
        store.replace(where, content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan from a file and check every line; ``compact`` checks the files it names again."""
        where = find_file(path := os.fspath(path))
        try:
            first, _, rest = open_store(where).read_bytes(where).partition(b"\n")
        except FileNotFoundError:
            raise InvalidInputError(f"{path} does not exist.", path=path) from None
        except (CorruptionError, IsADirectoryError):
            raise InvalidInputError(f"{path} is not a plan of packstone; name a file of `plan --out`.") from None
        try:
            plain = json.loads(first)
            header = from_plain(PlanHeader, plain)
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"{path} is not a plan of packstone: {error}.", path=path) from error
        family = find_family(header.family)
        if family is None or plain.get("format_version") != 1:
            raise InvalidInputError(f"{path} was written by a newer packstone; upgrade packstone.", path=path)
        _check_digest(first, path)
        try:
            options = from_plain(family.load_options(), plain.get("options"))
        except (ValueError, PackstoneError) as error:
            why = error.message if isinstance(error, PackstoneError) else error
            raise _damaged(path, f"options: {why}") from error
        plan = cls(header, family=family, options=options)
        plan._lines.write(rest if not rest or rest.endswith(b"\n") else rest + b"\n")
        try:
            found = sum(1 for _ in plan.parts)
        except CorruptionError as error:
            why = error.message.partition(" is damaged: ")[2].partition(". What it describes")[0]
            raise _damaged(path, why or error.message) from error
        if found != header.parts:
            raise _damaged(path, f"it states {header.parts} parts and has {found}")
        return plan


def _check_digest(header: bytes, path: str) -> None:
    """The options of a plan are part of it: one that was edited would run with another proof or retention."""
    try:
        is_sealed = check_seal(header, path=path)
    except CorruptionError:
        raise _damaged(path, "the digest of its first line does not match its content") from None
    if not is_sealed:
        raise _damaged(path, "its first line has no digest")


def _damaged(path: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"{path} is damaged: {why.rstrip('.')}; make the plan again.", path=path)
