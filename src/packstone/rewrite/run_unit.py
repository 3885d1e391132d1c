"""Run one unit: write the output, read inputs and output again, compare, report. Knows nothing of Spark.

Whatever goes wrong with one unit is its result, not an exception: one broken file must not end a job that
merges ten thousand others.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from packstone.errors import PackstoneError, UnfaithfulError, UnreadableFileError, VerificationError
from packstone.model.unit import How, UnitResult, UnitSpec, UnitStatus, Verify
from packstone.rewrite import parquet_rewrite, text_concatenate, verify, verify_splice
from packstone.rewrite.fingerprint import Fingerprint
from packstone.rewrite.parquet_footer import one_line
from packstone.rewrite.parquet_splice import splice_parquet
from packstone.rewrite.splice_plan import CannotSpliceError

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


def run_unit(io: FileIO, spec: UnitSpec, *, staging: str, attempt: str) -> UnitResult:
    """Write the unit's output under a name of this attempt's own, verify it, and say how it went."""
    staged = f"{staging}/u{spec.unit:06d}-{attempt}.data"
    try:
        return _write_and_verify(io, spec, staged=staged, attempt=attempt)
    except UnreadableFileError as error:
        status, message, blamed = UnitStatus.UNREADABLE, error.message, str(error.facts.get("file", ""))
    except UnfaithfulError as error:
        status, message, blamed = UnitStatus.UNFAITHFUL, error.message, ""
    except VerificationError as error:
        # The evidence stays where it is: the staged file is not removed.
        return UnitResult(
            unit=spec.unit,
            attempt=attempt,
            status=UnitStatus.MISMATCH,
            message=error.message,
            staged_path=staged,
        )
    except PermissionError as error:
        status, message, blamed = (
            UnitStatus.UNFAITHFUL,
            f"owner and mode cannot be kept: {one_line(error)}",
            "",
        )
    except (PackstoneError, OSError, MemoryError, ValueError, pa.ArrowException) as error:
        status, message, blamed = UnitStatus.FAILED, one_line(error), ""
    io.remove(staged)
    return UnitResult(unit=spec.unit, attempt=attempt, status=status, message=message, blamed=blamed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """In which way the output came about: that decides how it is proved."""

    how: How
    ordered: bool = False
    copied: tuple[int, ...] = ()


def _write_and_verify(io: FileIO, spec: UnitSpec, *, staged: str, attempt: str) -> UnitResult:
    paths = [f"{spec.directory}/{file.name}" for file in spec.inputs]
    began = time.perf_counter()
    done = _write(io, spec, paths, staged=staged)
    io.set_permissions(staged, spec.permissions)
    io.sync_file(staged)
    if done.how is How.SPLICE:
        # Whatever the verification: what was copied may have been broken before.
        verify_splice.check_readable(io, staged, paths, copied=done.copied)
    written = time.perf_counter()
    before = _read(io, spec, paths, done=done)
    read_before = time.perf_counter()
    after = _read_back(io, spec, staged=staged, done=done)
    read_after = time.perf_counter()
    _check_equal(io, spec, paths, staged=staged, before=before, after=after)
    found = io.stat(staged)
    if found is None:
        raise VerificationError(f"{staged} vanished after it was written.", file=staged)
    return UnitResult(
        unit=spec.unit,
        attempt=attempt,
        status=UnitStatus.WRITTEN,
        staged_path=staged,
        size_bytes=found.size_bytes,
        mtime_ns=found.mtime_ns,
        rows=after.rows,
        fingerprint=str(after),
        how=done.how,
        ordered=done.ordered,
        copied_columns=done.copied,
        write_seconds=written - began,
        read_seconds_before=read_before - written,
        read_seconds_after=read_after - read_before,
    )


def _write(io: FileIO, spec: UnitSpec, paths: list[str], *, staged: str) -> _Written:
    """Write the output: copy pages where that can be done and is asked for by nothing but speed."""
    match spec.how:
        case How.REWRITE | How.SPLICE:
            if spec.codec == "keep":
                try:
                    plan = splice_parquet(io, paths, staged)
                    return _Written(how=How.SPLICE, ordered=True, copied=plan.copied)
                except CannotSpliceError:
                    io.remove(staged)
            ordered = parquet_rewrite.rewrite_parquet(io, paths, staged, codec=spec.codec)
            return _Written(how=How.REWRITE, ordered=ordered)
        case How.CONCATENATE:
            text_concatenate.concatenate_text(io, paths, staged, header_lines=spec.header_lines)
            return _Written(how=How.CONCATENATE)
        case How.STITCH | How.UPGRADE:
            raise UnfaithfulError(f"{spec.how} is no way to merge {spec.file_format} files")


def _read(io: FileIO, spec: UnitSpec, paths: list[str], *, done: _Written) -> Fingerprint:
    match (done.how, spec.verify):
        case (How.CONCATENATE, Verify.COUNT):
            rows = verify.count_text(io, paths, header_lines=spec.header_lines)
        case (How.CONCATENATE, Verify.CONTENT):
            return verify.fingerprint_text(io, paths, header_lines=spec.header_lines)
        case (_, Verify.COUNT):
            rows = verify.count_parquet(io, paths)
        case (How.SPLICE, Verify.CONTENT):
            return verify_splice.fingerprint_splice(io, paths, copied=done.copied)
        case _:
            return verify.fingerprint_parquet(io, paths, ordered=done.ordered)
    return Fingerprint(rows=rows, lo=0, hi=0)


def _read_back(io: FileIO, spec: UnitSpec, *, staged: str, done: _Written) -> Fingerprint:
    """Read the output; that it cannot be read is no input's fault, and merging again would not mend it."""
    try:
        return _read(io, spec, [staged], done=done)
    except UnreadableFileError as error:
        raise VerificationError(f"The output cannot be read back: {error.message}", file=staged) from error


def _check_equal(
    io: FileIO, spec: UnitSpec, paths: list[str], *, staged: str, before: Fingerprint, after: Fingerprint
) -> None:
    if before != after:
        raise VerificationError(
            f"Unit {spec.unit} of partition {spec.partition or '.'}: the rows read back are not the rows that were "
            f"there ({before} before, {after} after)."
        )
    if spec.how is How.CONCATENATE:
        verify.check_same_header(io, paths, staged, header_lines=spec.header_lines)
    else:
        verify.check_same_parquet_shape(io, paths, staged)
