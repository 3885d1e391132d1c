"""What one task of a compaction does: merge, sort or join files of some segments, prove it, tell what it wrote.

Data files are written straight into the folder of the new segment under their final names; nobody sees them until a
status names a segment file that names them. The name of each is recorded in the attempt's folder before it is created,
so an attempt that dies leaves only files of known names.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from packstone.errors import VerificationError
from packstone.model.file_format import FileFormat
from packstone.model.unit import UnitResult, UnitStatus
from packstone.rewrite.kernels.registry import read_through
from packstone.rewrite.ordered.ordered_merge import merge_ordered
from packstone.rewrite.ordered.ordered_spec import OrderedMergeSpec, WrittenBlockFile
from packstone.rewrite.ordered.verify_ordered import verify_ordered
from packstone.rewrite.parquet.growth import describe_growth
from packstone.runs.tasks import Attempt, Job
from packstone.tables.segments.attempts import record_created
from packstone.tables.segments.layout import data_file_name

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeUnit:
    """One piece of a merge; units are numbered through over all groups of a run."""

    number: int
    attempt: str  # of the compaction it belongs to
    spec: OrderedMergeSpec
    input_bytes: int

    @property
    def input_files(self) -> tuple[tuple[str, str], ...]:
        """The files that it decodes, each with the name of its format."""
        return tuple((file.path, FileFormat.PARQUET) for file in self.spec.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeContext:
    """What all units of a task have in common."""

    table: str


def merge_and_prove(attempt: Attempt, context: MergeContext, unit: MergeUnit) -> UnitResult[WrittenBlockFile]:
    """Merge, sort or join some files; the outputs have absolute paths and are in the order of keys."""
    written: list[str] = []
    attempt = attempt.as_private_as(file.path for file in unit.spec.files)
    try:
        name_file = _namer(attempt, context, unit=unit, written=written)
        result = merge_ordered(attempt.io, unit.spec, name_file=name_file)
        verified = verify_ordered(attempt.io, unit.spec, result.files)
    except VerificationError:
        raise  # the evidence stays; its names are recorded
    except Exception:
        for path in written:
            attempt.io.remove(path)
        raise
    return UnitResult(
        number=unit.number,
        status=UnitStatus.WRITTEN,
        outputs=result.files,
        rows_in=result.rows_in,
        rows_out=result.rows_out,
        fingerprint=str(verified.fingerprint_after),
        why_bigger=describe_growth(
            attempt.io,
            unit.input_files,
            [(file.path, file.size_bytes) for file in result.files],
            input_bytes=unit.input_bytes,
        ),
        write_seconds=result.read_seconds + result.merge_seconds + result.write_seconds,
        read_seconds_before=verified.seconds_before,
        read_seconds_after=verified.seconds_after,
    )


def _namer(attempt: Attempt, context: MergeContext, *, unit: MergeUnit, written: list[str]) -> Callable[[int], str]:
    """Name files, and write each name down before the file is there."""
    # A task's name for this try is random: two tries at one unit never write the same file.
    this_try = zlib.crc32(os.fsencode(f"{attempt.staging}/{attempt.name}"))
    directory = unit.spec.output.directory

    def name(number: int) -> str:
        made = data_file_name(task=unit.number, number=number, attempt=unit.attempt, attempt_try=this_try)
        path = f"{directory}/{made}"
        relative = path.removeprefix(f"{context.table}/")
        label = f"{unit.number:06d}-{attempt.name}-{number}"
        record_created(attempt.io, context.table, unit.attempt, paths=(relative,), label=label)
        written.append(path)
        return made

    return name


SEGMENTS_MERGE_JOB: Final = Job(
    context=MergeContext, unit=MergeUnit, output=WrittenBlockFile, do=merge_and_prove, read_through=read_through
)
