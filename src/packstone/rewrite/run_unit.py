"""Run one unit: write the output, read inputs and output again, compare, report. Knows nothing of Spark.

Whatever goes wrong with one unit is its result, not an exception: one broken file must not end a job that
merges ten thousand others.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from packstone.errors import PackstoneError, UnfaithfulError, UnreadableFileError, VerificationError
from packstone.model.megabytes import format_mb
from packstone.model.unit import StagedFile, UnitResult, UnitSpec, UnitStatus, Verify
from packstone.rewrite.blame_file import blame_file, one_line
from packstone.rewrite.kernels.registry import kernel_of
from packstone.rewrite.parquet.growth import growth_sentence
from packstone.rewrite.proof.fingerprint import Fingerprint

if TYPE_CHECKING:
    from packstone.rewrite.kernels.merge_kernel import Written
    from packstone.storage.fileio import FileIO


# An output may exceed its inputs by this much, whichever is more; beyond it, the inputs are left as they are.
MAX_GROWTH_PCT: Final = 10
MAX_GROWTH_BYTES: Final = 1 << 20


class _GrownError(PackstoneError):
    """The output is much bigger than its inputs."""


def run_unit(io: FileIO, spec: UnitSpec, *, staging: str, attempt: str) -> UnitResult[StagedFile]:
    """Write the unit's output under a name of this attempt's own, verify it, and say how it went."""
    staged = f"{staging}/u{spec.number:06d}-{attempt}.data"
    try:
        return _write_and_verify(io, spec, staged=staged)
    except UnreadableFileError as error:
        status, message, blamed = UnitStatus.UNREADABLE, error.message, str(error.facts.get("file", ""))
    except _GrownError as error:
        status, message, blamed = UnitStatus.GROWN, error.message, ""
    except UnfaithfulError as error:
        status, message, blamed = UnitStatus.UNFAITHFUL, error.message, ""
    except VerificationError as error:
        # The evidence stays where it is: the staged file is not removed.
        evidence = (StagedFile(path=staged),)
        return UnitResult(number=spec.number, status=UnitStatus.MISMATCH, message=error.message, outputs=evidence)
    except PermissionError as error:
        status, message, blamed = (
            UnitStatus.UNFAITHFUL,
            f"owner and mode cannot be kept: {one_line(error)}",
            "",
        )
    except (PackstoneError, OSError) as error:
        status, message, blamed = UnitStatus.FAILED, one_line(error), ""
    except Exception as error:  # noqa: BLE001 - damaged bytes make decoders raise anything
        status, message, blamed = _find_broken_input(io, spec, error)
    io.remove(staged)
    return UnitResult(number=spec.number, status=status, message=message, blamed=blamed)


def _find_broken_input(io: FileIO, spec: UnitSpec, error: Exception) -> tuple[UnitStatus, str, str]:
    """Read each input alone: the one that cannot be read is to blame for an error that does not say where it arose."""
    kernel = kernel_of(spec.file_format)
    for file in spec.inputs:
        path = f"{spec.directory}/{file.name}"
        try:
            with blame_file(path, "cannot be read"):
                kernel.read_through(io, path)
        except UnreadableFileError as broken:
            return UnitStatus.UNREADABLE, broken.message, path
        except (PackstoneError, OSError) as other:
            return UnitStatus.FAILED, one_line(other), ""
    return UnitStatus.FAILED, f"{type(error).__name__}: {one_line(error)}", ""


def _write_and_verify(io: FileIO, spec: UnitSpec, *, staged: str) -> UnitResult[StagedFile]:
    paths = [f"{spec.directory}/{file.name}" for file in spec.inputs]
    began = time.perf_counter()
    kernel = kernel_of(spec.file_format)
    done = kernel.write(io, paths, staged, spec=spec)
    _check_size(io, spec, staged=staged, done=done)
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
    output = StagedFile(
        path=staged,
        size_bytes=found.size_bytes,
        mtime_ns=found.mtime_ns,
        ordered=done.ordered,
        copied_columns=done.copied,
    )
    return UnitResult(
        number=spec.number,
        status=UnitStatus.WRITTEN,
        outputs=(output,),
        rows_in=before.rows,
        rows_out=after.rows,
        fingerprint=str(after),
        why_bigger=_why_bigger(spec, found.size_bytes, done=done),
        how=done.how,
        write_seconds=written - began,
        read_seconds_before=read_before - written,
        read_seconds_after=read_after - read_before,
    )


def _check_size(io: FileIO, spec: UnitSpec, *, staged: str, done: Written) -> None:
    """Give up on an output that grew; under a codec that the caller chose it may."""
    found = io.stat(staged)
    if found is None or spec.codec != "keep":
        return
    grown = found.size_bytes - spec.input_bytes
    if grown > max(MAX_GROWTH_BYTES, spec.input_bytes * MAX_GROWTH_PCT // 100):
        why = f" ({done.why_bigger})" if done.why_bigger else ""
        raise _GrownError(
            f"{len(spec.inputs)} files of {format_mb(spec.input_bytes)} MB would become one of "
            f"{format_mb(found.size_bytes)} MB{why}, so they are left as they are; --codec merges them all the same"
        )


def _why_bigger(spec: UnitSpec, size_bytes: int, *, done: Written) -> str:
    """Explain an output that is notably bigger than its inputs; empty for any other."""
    if not spec.is_bigger(size_bytes):
        return ""
    reason = done.why_bigger if spec.codec == "keep" else f"it was written with --codec {spec.codec}"
    reason = reason or f"{done.how} adds to the bytes of its inputs"
    return growth_sentence(len(spec.inputs), spec.input_bytes, 1, output_bytes=size_bytes, reason=reason)


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
        return _read(io, spec, [staged], done=replace(done, checks_text=False))
    except UnreadableFileError as error:
        raise VerificationError(f"The output cannot be read back: {error.message}", file=staged) from error


def _check_equal(spec: UnitSpec, *, before: Fingerprint, after: Fingerprint) -> None:
    if before != after:
        raise VerificationError(
            f"Unit {spec.number} of partition {spec.partition or '.'}: the rows read back are not the rows that were "
            f"there ({before} before, {after} after)."
        )
