"""The options of a load, beside the table's own properties, and its report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from packstone.errors import InvalidInputError
from packstone.rewrite.load.convert_rows import BadRecords
from packstone.rewrite.load.convert_text import is_zone
from packstone.rewrite.load.input_files import InputOptions
from packstone.tables.segments.format.properties import Properties, SortScope, parse_properties
from packstone.tables.segments.format.status import check_label
from packstone.tables.segments.tasks import LoadVerify

if TYPE_CHECKING:
    from enum import StrEnum

    from packstone.model.outcome import EngineUse, Outcome
    from packstone.model.segment import SegmentId
    from packstone.tables.segments.format.status import TableStatus

_MB: Final = 1 << 20
_GB: Final = 1 << 30
_LEAST_TASK_BYTES: Final = 16 * _MB  # starting a task takes about as long as loading a megabyte

WordT = TypeVar("WordT", bound="StrEnum")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Options of one load; None means the value of the table's property."""

    overwrite: bool = False  # replace all rows of the table
    label: str | None = None  # a load whose label is already loaded changes nothing, so a job can be run again
    sort_scope: SortScope | None = None  # a member or its name; also `local`, `global`, `none`
    bad_records: BadRecords | None = None  # a member or its name
    block_mb: int | None = None  # size of a data file
    zone: str = "UTC"  # time zone of times without one
    verify: LoadVerify = LoadVerify.COUNT
    inputs: InputOptions = field(default_factory=InputOptions)
    task_bytes: int = 128 * _MB  # input bytes of a task; each task writes its own files and one sorted run
    memory_bytes: int = _GB  # for each task; more rows than fit are sorted on local disk
    parallel: int | None = None  # least number of tasks, if the input is big enough; None: the number of cores

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        scope = _word(
            SortScope, self.sort_scope, also={"NONE": "NO_SORT", "LOCAL": "LOCAL_SORT", "GLOBAL": "GLOBAL_SORT"}
        )
        object.__setattr__(self, "sort_scope", scope)
        object.__setattr__(self, "bad_records", _word(BadRecords, self.bad_records))
        try:
            object.__setattr__(self, "verify", LoadVerify(self.verify))
        except ValueError:
            known = ", ".join(LoadVerify)
            raise InvalidInputError(f"verify is {self.verify!r}; use one of {known}.", option="verify") from None
        if self.label is not None:
            try:
                check_label(self.label)
            except ValueError as error:
                raise InvalidInputError(f"{self.label!r} is not a label: {error}.", option="label") from None
        if not is_zone(self.zone):
            raise InvalidInputError(f"{self.zone!r} is not a time zone; name one such as UTC or Europe/Berlin.")
        for name in ("task_bytes", "memory_bytes", "parallel", "block_mb"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidInputError(f"{name} must be larger than zero.", option=name)

    def properties_of(self, status: TableStatus) -> Properties:
        """The table's properties with the overrides of this load, checked as those of the table are."""
        raw = dict(status.properties)
        if self.sort_scope is not None:
            raw["SORT_SCOPE"] = self.sort_scope
        if self.bad_records is not None:
            raw["BAD_RECORDS_ACTION"] = self.bad_records
        if self.block_mb is not None:
            raw["TABLE_BLOCKSIZE"] = str(self.block_mb)
        return parse_properties(raw, status.columns)

    def share_bytes(self, total_bytes: int) -> int:
        """The input bytes of each task: few enough that all cores have work, if the input is big enough."""
        from packstone.runs.worker_pool import count_workers  # options are read by commands that load nothing

        tasks = self.parallel or count_workers()
        return min(self.task_bytes, max(_LEAST_TASK_BYTES, -(-total_bytes // tasks)))


def _word(kind: type[WordT], given: str | None, *, also: dict[str, str] | None = None) -> WordT | None:
    if given is None:
        return None
    upper = str(given).upper()
    try:
        return kind((also or {}).get(upper, upper))
    except ValueError:
        raise InvalidInputError(f"{given!r} is not one of {', '.join(kind)}.", value=str(given)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """The result of a load; ``segment`` is None if there were no rows."""

    table: str
    segment: SegmentId | None
    status: str  # success, partial-success, empty, already-loaded
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
    label: str | None = None
    message: str = ""
    warnings: tuple[str, ...] = ()
    engine: EngineUse | None = None  # None: no task ran, this process wrote the rows itself
    merged: Outcome | None = None  # of the merge after the load, if the table is so configured

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
            "label": self.label,
            "rows": self.rows,
            "bad_rows": self.bad_rows,
            "bad_records": self.bad_records,
            "files": self.files,
            "runs": self.runs,
            "bytes": self.data_bytes,
            "index_bytes": self.index_bytes,
            "seconds": round(self.seconds, 3),
            "verified": self.verified.value,
            "engine": None if self.engine is None else self.engine.to_json(),
            "message": self.message,
            "warnings": list(self.warnings),
            "merged": None if self.merged is None else self.merged.to_json(),
        }
