"""Run one unit: write the output, read inputs and output again, compare, report. Knows nothing of Spark.

Whatever goes wrong with one unit is its result, not an exception: one broken file must not end a job that
merges ten thousand others.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa

from packstone.errors import PackstoneError, UnfaithfulError, UnreadableFileError, VerificationError
from packstone.model.unit import UnitResult, UnitSpec, UnitStatus, Verify
from packstone.rewrite.fingerprint import Fingerprint
from packstone.rewrite.kernels.registry import kernel_of
from packstone.rewrite.parquet_footer import one_line

if TYPE_CHECKING:
    from packstone.rewrite.merge_kernel import Written
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


def _write_and_verify(io: FileIO, spec: UnitSpec, *, staged: str, attempt: str) -> UnitResult:
    paths = [f"{spec.directory}/{file.name}" for file in spec.inputs]
    began = time.perf_counter()
    kernel = kernel_of(spec.file_format)
    done = kernel.write(io, paths, staged, spec=spec)
    io.set_permissions(staged, spec.permissions)
    io.sync_file(staged)
    kernel.check_readable(io, paths, staged, written=done)
    written = time.perf_counter()
    before = _read(io, spec, paths, done=done)
    read_before = time.perf_counter()
    after = _read_back(io, spec, staged=staged, done=done)
    read_after = time.perf_counter()
    _check_equal(spec, before=before, after=after)
    kernel.check_same_shape(io, paths, staged, written=done)
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


def _read(io: FileIO, spec: UnitSpec, paths: list[str], *, done: Written) -> Fingerprint:
    kernel = kernel_of(spec.file_format)
    match spec.verify:
        case Verify.COUNT:
            return Fingerprint(rows=kernel.count(io, paths, written=done), lo=0, hi=0)
        case Verify.CONTENT:
            return kernel.fingerprint(io, paths, written=done)


def _read_back(io: FileIO, spec: UnitSpec, *, staged: str, done: Written) -> Fingerprint:
    """Read the output; that it cannot be read is no input's fault, and merging again would not mend it."""
    try:
        return _read(io, spec, [staged], done=done)
    except UnreadableFileError as error:
        raise VerificationError(f"The output cannot be read back: {error.message}", file=staged) from error


def _check_equal(spec: UnitSpec, *, before: Fingerprint, after: Fingerprint) -> None:
    if before != after:
        raise VerificationError(
            f"Unit {spec.unit} of partition {spec.partition or '.'}: the rows read back are not the rows that were "
            f"there ({before} before, {after} after)."
        )
