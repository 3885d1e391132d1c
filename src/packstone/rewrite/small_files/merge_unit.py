"""Run one unit: write the output, read inputs and output again, compare, report. Does not depend on Spark.

A failure of one unit is returned as its result, not raised: one damaged file must not end a job that merges ten
thousand others.

How files of a format become one, and how that is proved, is the task of a *kernel*: a module or an object with the
functions of ``MergeKernel``. ``KERNELS`` names one for each format; nothing else in the pipeline depends on a file's
format.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, cast

from packstone.errors import PackstoneError, UnfaithfulError, UnreadableFileError, VerificationError
from packstone.model.files import FileFormat
from packstone.model.sizes import format_bytes
from packstone.model.unit import Fingerprint, How, StagedFile, UnitResult, UnitSpec, UnitStatus, Verify
from packstone.rewrite.blame_file import blame_file, one_line
from packstone.runs.reuse import check_is_there
from packstone.storage.fileio import KeptFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packstone.rewrite.proof.ordered_digest import Part
    from packstone.rewrite.small_files import orc_kernel, parquet_kernel, text_kernel
    from packstone.storage.fileio import FileIO

    _MODULES: tuple[MergeKernel, ...] = (orc_kernel, parquet_kernel, text_kernel)


# An output may exceed its inputs by this percentage or by this many bytes, whichever is more; otherwise they stay.
MAX_GROWTH_PCT: Final = 10
MAX_GROWTH_BYTES: Final = 1 << 20
# Inputs up to this size are read once and kept in memory for the unit, up to this size together.
_KEPT_FILE_BYTES: Final = 256 << 10
_KEPT_BYTES: Final = 64 << 20


class _GrownError(PackstoneError):
    """The output is much bigger than its inputs."""


def reuse_unit(
    io: FileIO, spec: UnitSpec, found: UnitResult[StagedFile], *, staging: str, attempt: str
) -> UnitResult[StagedFile]:
    """Take over the output that a killed run wrote for an equal unit, and prove it by content, whatever the mode.

    Raises VerificationError or another error if the output is not as expected; the caller then merges the unit.
    """
    (output,) = found.outputs
    check_is_there(io, output.path, size_bytes=output.size_bytes, mtime_ns=output.mtime_ns)
    staged = f"{staging}/u{spec.number:06d}-{attempt}.data"
    io.move(output.path, staged)
    done = Written(
        how=found.how,
        ordered=output.ordered,
        copied=output.copied_columns,
        header_lines=spec.header_lines,
        checks_text=spec.checks_text,
    )
    proved = _verify(io, replace(spec, verify=Verify.CONTENT), staged=staged, done=done, began=time.perf_counter())
    return replace(proved, why_bigger=found.why_bigger, columns=found.columns)


def run_unit(io: FileIO, spec: UnitSpec, *, staging: str, attempt: str) -> UnitResult[StagedFile]:
    """Write the unit's output under a name unique to this attempt, verify it, and return the result."""
    staged = f"{staging}/u{spec.number:06d}-{attempt}.data"
    io = _keep_small_inputs(io, spec)
    try:
        return _write_and_verify(io, spec, staged=staged)
    except UnreadableFileError as error:
        status, message, blamed = UnitStatus.UNREADABLE, error.message, str(error.facts.get("file", ""))
    except _GrownError as error:
        status, message, blamed = UnitStatus.GROWN, error.message, ""
    except UnfaithfulError as error:
        status, message, blamed = UnitStatus.UNFAITHFUL, error.message, ""
    except VerificationError as error:
        # The staged file is kept as evidence.
        evidence = (StagedFile(path=staged),)
        return UnitResult(number=spec.number, status=UnitStatus.MISMATCH, message=error.message, outputs=evidence)
    except (PackstoneError, OSError) as error:
        status, message, blamed = UnitStatus.FAILED, one_line(error), ""
    except Exception as error:  # noqa: BLE001 - damaged bytes make decoders raise anything
        status, message, blamed = _find_broken_input(io, spec, error)
    io.remove(staged)
    return UnitResult(number=spec.number, status=status, message=message, blamed=blamed)


def _keep_small_inputs(io: FileIO, spec: UnitSpec) -> FileIO:
    """The store, with the small inputs of a unit in memory after their first use: writer and proof read the same."""
    sizes: dict[str, int] = {}
    room = _KEPT_BYTES
    for file in spec.inputs:
        if file.size_bytes <= min(room, _KEPT_FILE_BYTES):
            sizes[f"{spec.directory}/{file.name}"] = file.size_bytes
            room -= file.size_bytes
    return cast("FileIO", KeptFiles(io, sizes)) if sizes else io


def _find_broken_input(io: FileIO, spec: UnitSpec, error: Exception) -> tuple[UnitStatus, str, str]:
    """Read each input alone to find the one that caused an error which does not name a file."""
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
    return _verify(io, spec, staged=staged, done=done, began=began)


def _verify(io: FileIO, spec: UnitSpec, *, staged: str, done: Written, began: float) -> UnitResult[StagedFile]:
    """Prove that an output is readable, holds the rows of the inputs and has the same shape."""
    paths = [f"{spec.directory}/{file.name}" for file in spec.inputs]
    kernel = kernel_of(spec.file_format)
    _set_permissions(io, spec, staged=staged)
    io.sync_file(staged)
    kernel.check_readable(io, paths, staged, written=done)
    written = time.perf_counter()
    same = kernel.compare_copy(io, paths, staged, written=done) if spec.verify is Verify.CONTENT else None
    before = same or (_read(io, spec, paths, done=done) if done.before is None else done.before)
    read_before = time.perf_counter()
    shared_seconds = done.read_seconds if done.before is not None else 0.0
    after = same or _read_back(io, spec, staged=staged, done=done)
    read_after = time.perf_counter()
    _check_equal(spec, before=before, after=after)
    _check_unchanged(io, spec)
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
        columns=done.columns,
        how=done.how,
        write_seconds=written - began - shared_seconds,
        read_seconds_before=read_before - written + shared_seconds,
        read_seconds_after=read_after - read_before,
    )


def _set_permissions(io: FileIO, spec: UnitSpec, *, staged: str) -> None:
    """Give an output the permissions of its inputs; UnfaithfulError if this user may not."""
    try:
        io.set_permissions(staged, spec.permissions)
    except PermissionError as error:
        raise UnfaithfulError(
            "this user cannot give the merged file the owner, group and mode of the originals", file=staged
        ) from error


def _check_unchanged(io: FileIO, spec: UnitSpec) -> None:
    """Raise VerificationError if an input changed after it was read: kept bytes do not show that, two reads would."""
    for file in spec.inputs if isinstance(io, KeptFiles) else ():
        path = f"{spec.directory}/{file.name}"
        found = io.stat(path)
        if found is None or (found.size_bytes, found.mtime_ns) != (file.size_bytes, file.mtime_ns):
            raise VerificationError(f"{path} changed while it was merged.", file=path)


def _check_size(io: FileIO, spec: UnitSpec, *, staged: str, done: Written) -> None:
    """Raise _GrownError if the output grew too much; with a codec that the caller chose it may grow."""
    found = io.stat(staged)
    if found is not None and has_grown(io, staged, spec=spec):
        why = f" ({done.why_bigger})" if done.why_bigger else ""
        raise _GrownError(
            f"{len(spec.inputs)} files of {format_bytes(spec.input_bytes)} would become one of "
            f"{format_bytes(found.size_bytes)}{why}, so they are left as they are; set --codec to merge them anyway"
        )


def has_grown(io: FileIO, output: str, *, spec: UnitSpec) -> bool:
    """Whether an output is too much bigger than its inputs, so that it is discarded."""
    found = io.stat(output)
    if found is None or spec.codec != "keep":
        return False
    grown = found.size_bytes - spec.input_bytes
    return grown > max(MAX_GROWTH_BYTES, spec.input_bytes * MAX_GROWTH_PCT // 100)


def _why_bigger(spec: UnitSpec, size_bytes: int, *, done: Written) -> str:
    """Explain an output that is notably bigger than its inputs; empty for any other."""
    if not spec.is_bigger(size_bytes):
        return ""
    from packstone.rewrite.formats.parquet_encodings import growth_sentence

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
    with blame_output(staged):
        return _read(io, spec, [staged], done=replace(done, checks_text=False))


@contextmanager
def blame_output(staged: str) -> Iterator[None]:
    """Read the output; if it is unreadable, no input is to blame and merging again would not help."""
    try:
        yield
    except UnreadableFileError as error:
        raise VerificationError(f"The output cannot be read back: {error.message}", file=staged) from error


def check_copied(before: Iterable[Part], after: Iterable[Part], *, output: str) -> None:
    """Raise VerificationError if the output has other bytes than the inputs that were copied into it."""
    from packstone.rewrite.proof.ordered_digest import are_equal_parts  # with NumPy, which a driver need not import

    def read_back() -> Iterator[Part]:
        with blame_output(output):
            yield from after

    if not are_equal_parts(before, read_back()):
        raise VerificationError(
            "The output differs from the bytes of the inputs that were copied into it.", file=output
        )


def _check_equal(spec: UnitSpec, *, before: Fingerprint, after: Fingerprint) -> None:
    if before != after:
        raise VerificationError(
            f"Unit {spec.number} of partition {spec.partition or '.'}: the rows read back differ from the input rows "
            f"({before} before, {after} after)."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """How an output was written, which decides how it is proved, now and by a later ``packstone verify``."""

    how: How
    ordered: bool = False  # whether the rows kept their order, so that the proof covers it
    copied: tuple[int, ...] = ()  # for a splice: the columns that were copied
    recoded: tuple[int, ...] = ()  # for a splice that is not fingerprinted: the other columns of our own making
    columns: str = ""  # for Parquet: how they were made; for a rewrite, why no splice
    header_lines: int = 0
    why_bigger: str = ""  # the reason, if known, for an output notably bigger than its inputs
    before: Fingerprint | None = None  # of the inputs, if their rows were digested when they were decoded
    read_seconds: float = 0.0  # what decoding them took
    line_ends: tuple[bytes, ...] = ()  # for compressed text that was copied: what was missing at the end of each input
    checks_text: bool = False  # whether strings that are not valid UTF-8 make an input unreadable


class MergeKernel(Protocol):
    """The operations of every format that can be merged.

    An input that cannot be read raises UnreadableFileError with ``file``; inputs that cannot be written back
    identically raise UnfaithfulError.
    """

    def write(self, io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
        """Write the inputs, in their order, as one file."""
        ...

    def check_readable(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
        """Find damage in the inputs that copying would carry over; called in every verification mode."""
        ...

    def count(self, io: FileIO, paths: Sequence[str], *, written: Written) -> int:
        """Count rows without decoding them where the format allows it."""
        ...

    def compare_copy(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> Fingerprint | None:
        """Compare an output whose bytes were copied with the inputs, byte for byte; return the fingerprint of both.

        This is exact and costs less than two fingerprints. None if bytes were not copied, VerificationError if they
        differ.
        """
        ...

    def fingerprint(self, io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:
        """Read files again, inputs or output, and reduce all their rows to a fingerprint."""
        ...

    def check_same_shape(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
        """Compare what a fingerprint of rows does not cover; VerificationError if the output differs."""
        ...

    def read_through(self, io: FileIO, path: str) -> None:
        """Read everything that a query of all columns reads, to measure how long it takes."""
        ...


# The kernel of each format: a module of this folder, or ``module:name`` for an object in it. It is imported with the
# first file of its format, here or on an executor, so a run over Parquet files loads no ORC code.
KERNELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        FileFormat.PARQUET: "parquet_kernel",
        FileFormat.TEXT: "text_kernel",
        FileFormat.ORC: "orc_kernel",
        FileFormat.GZIP_TEXT: "compressed_text_kernel:GZIP",
        FileFormat.BZIP2_TEXT: "compressed_text_kernel:BZIP2",
        FileFormat.ZSTD_TEXT: "compressed_text_kernel:ZSTD",
        FileFormat.LZ4_TEXT: "compressed_text_kernel:LZ4",
        FileFormat.SNAPPY_TEXT: "compressed_text_kernel:SNAPPY",
        FileFormat.DEFLATE_TEXT: "compressed_text_kernel:DEFLATE",
        FileFormat.HADOOP_LZ4_TEXT: "compressed_text_kernel:HADOOP_LZ4",
        FileFormat.HADOOP_SNAPPY_TEXT: "compressed_text_kernel:HADOOP_SNAPPY",
        FileFormat.AVRO: "block_kernel:AVRO",
        FileFormat.SEQUENCE_FILE: "block_kernel:SEQUENCE_FILE",
        FileFormat.RC_FILE: "block_kernel:RC_FILE",
    }
)


def kernel_of(file_format: str) -> MergeKernel:
    """Return the kernel that merges files of a format; UnfaithfulError if this version has none."""
    reference = KERNELS.get(file_format)
    if reference is None:
        raise UnfaithfulError(f"{file_format} files are not merged by this version")
    module, _, name = reference.partition(":")
    found = import_module(f"packstone.rewrite.small_files.{module}")
    return cast("MergeKernel", getattr(found, name) if name else found)


def read_through(io: FileIO, path: str, file_format: str) -> None:
    """Decode a whole file; UnreadableFileError if that fails."""
    with blame_file(path, "cannot be read"):
        kernel_of(file_format).read_through(io, path)
