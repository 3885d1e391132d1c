"""What a load is told, beside the table's own properties, and what it answers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from packstone.errors import InvalidInputError
from packstone.rewrite.inputs.input_files import InputOptions
from packstone.rewrite.inputs.parse_moments import is_zone
from packstone.tables.segments.load_tasks import LoadVerify
from packstone.tables.segments.properties import BadRecordsAction, Properties, SortScope, parse_properties

if TYPE_CHECKING:
    from enum import StrEnum

    from packstone.model.outcome import Outcome
    from packstone.model.segment import SegmentId
    from packstone.tables.segments.status import TableStatus

_MB: Final = 1 << 20
_GB: Final = 1 << 30
_LEAST_TASK_BYTES: Final = 16 * _MB  # a task costs about as much to start as a megabyte to load

WordT = TypeVar("WordT", bound="StrEnum")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """One load; None: as the table's properties say."""

    overwrite: bool = False  # all rows of the table are replaced
    sort_scope: SortScope | None = None  # its name will do, also `local`, `global`, `none`
    bad_records: BadRecordsAction | None = None  # its name will do
    block_mb: int | None = None  # of a file
    zone: str = "UTC"  # of times that name none
    verify: LoadVerify = LoadVerify.COUNT
    inputs: InputOptions = field(default_factory=InputOptions)
    task_bytes: int = 128 * _MB  # of input files; each task writes files of its own, and one sorted run
    memory_bytes: int = _GB  # of a task; rows beyond it are sorted on local disk
    parallel: int | None = None  # into how many tasks a load is cut at least, if it is big enough; None: by cores

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        scope = _word(
            SortScope, self.sort_scope, also={"NONE": "NO_SORT", "LOCAL": "LOCAL_SORT", "GLOBAL": "GLOBAL_SORT"}
        )
        object.__setattr__(self, "sort_scope", scope)
        object.__setattr__(self, "bad_records", _word(BadRecordsAction, self.bad_records))
        try:
            object.__setattr__(self, "verify", LoadVerify(self.verify))
        except ValueError:
            known = ", ".join(LoadVerify)
            raise InvalidInputError(f"verify is {self.verify!r}; use one of {known}.", option="verify") from None
        if not is_zone(self.zone):
            raise InvalidInputError(f"{self.zone!r} is no time zone; name one such as UTC or Europe/Berlin.")
        for name in ("task_bytes", "memory_bytes", "parallel", "block_mb"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidInputError(f"{name} must be larger than zero.", option=name)

    def properties_of(self, status: TableStatus) -> Properties:
        """The table's properties with what this load overrides; each is checked as in the table."""
        raw = dict(status.properties)
        if self.sort_scope is not None:
            raw["SORT_SCOPE"] = self.sort_scope
        if self.bad_records is not None:
            raw["BAD_RECORDS_ACTION"] = self.bad_records
        if self.block_mb is not None:
            raw["TABLE_BLOCKSIZE"] = str(self.block_mb)
        return parse_properties(raw, status.columns)

    def share_bytes(self, total_bytes: int) -> int:
        """How much of the inputs a task gets: so little that all cores have work, if there is enough for that."""
        tasks = self.parallel or os.cpu_count() or 1
        return min(self.task_bytes, max(_LEAST_TASK_BYTES, -(-total_bytes // tasks)))


def _word(kind: type[WordT], given: str | None, *, also: dict[str, str] | None = None) -> WordT | None:
    if given is None:
        return None
    upper = str(given).upper()
    try:
        return kind((also or {}).get(upper, upper))
    except ValueError:
        raise InvalidInputError(f"{given!r} is none of {', '.join(kind)}.", value=str(given)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What a load did; without a segment there was no row."""

    table: str
    segment: SegmentId | None
    status: str  # success, partial-success, empty
    version: int
    rows: int = 0
    bad_rows: int = 0
    bad_records: str | None = None  # the folder of bad rows, relative to the table
    files: int = 0
    runs: int = 0
    data_bytes: int = 0
    index_bytes: int = 0
    seconds: float = 0.0
    verified: LoadVerify = LoadVerify.COUNT
    overwrite: bool = False
    message: str = ""
    warnings: tuple[str, ...] = ()
    merged: Outcome | None = None  # by the merge that follows a load, if the table asks for it

    def __str__(self) -> str:
        return f"{self.segment} {self.status} {self.rows} rows {self.bad_rows} bad {self.files} files"

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": "segments",
            "segment": None if self.segment is None else str(self.segment),
            "status": self.status,
            "version": self.version,
            "overwrite": self.overwrite,
            "rows": self.rows,
            "bad_rows": self.bad_rows,
            "bad_records": self.bad_records,
            "files": self.files,
            "runs": self.runs,
            "bytes": self.data_bytes,
            "index_bytes": self.index_bytes,
            "seconds": round(self.seconds, 3),
            "verified": self.verified.value,
            "message": self.message,
            "warnings": list(self.warnings),
            "merged": None if self.merged is None else self.merged.to_json(),
        }
