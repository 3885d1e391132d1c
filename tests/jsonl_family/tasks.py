"""What a task does: merge the lines of some files into one, and prove it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jsonl_family.manifest import DataFile
from packstone.errors import UnreadableFileError, VerificationError
from packstone.model.unit import How, UnitResult, UnitStatus
from packstone.runs.folder import record_created
from packstone.runs.tasks import Attempt, Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packstone.model.maintenance import ProvedUnit
    from packstone.storage.fileio import FileIO

_HASH_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlContext:
    """What all units of a run have in common."""

    root: str
    run_folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlUnit:
    """Some files of one partition that become one."""

    number: int
    root: str
    files: tuple[DataFile, ...]

    @property
    def input_bytes(self) -> int:
        """How much is read."""
        return sum(file.size_bytes for file in self.files)

    @property
    def input_files(self) -> tuple[tuple[str, str], ...]:
        """What is decoded."""
        return tuple((f"{self.root}/{file.key}", "jsonl") for file in self.files)


def read_lines(io: FileIO, path: str) -> Iterator[bytes]:
    """Yield the lines of a file; UnreadableFileError if one is not JSON."""
    try:
        for line in io.read_bytes(path).splitlines():
            json.loads(line)
            yield line
    except (ValueError, FileNotFoundError) as error:
        raise UnreadableFileError(f"{path} cannot be read: {error}.", file=path) from error


def fingerprint(io: FileIO, paths: Iterable[str]) -> tuple[int, str]:
    """Count the lines of some files, whatever their order, and sum up their hashes."""
    rows = total = 0
    for path in paths:
        for line in read_lines(io, path):
            rows += 1
            total += int.from_bytes(hashlib.blake2b(line, digest_size=_HASH_BYTES).digest(), "big")
    return rows, f"{rows}:{total % (1 << 8 * _HASH_BYTES):032x}"


def merge_and_prove(attempt: Attempt, context: JsonlContext, unit: JsonlUnit) -> UnitResult[DataFile]:
    """Write one file, under a name that is recorded first, and compare it with the inputs."""
    partition, inputs = unit.files[0].partition, [path for path, _ in unit.input_files]
    name = f"merged-{unit.number:06d}-{attempt.name}.jsonl"
    path = f"{context.root}/{partition}/{name}"
    merged = b"".join(line + b"\n" for one in inputs for line in read_lines(attempt.io, one))
    record_created(attempt.io, context.run_folder, (path,), label=f"{unit.number:06d}-{attempt.name}")
    attempt.as_private_as(inputs).io.write_new(path, merged)
    rows, proof = _prove(attempt.io, inputs, [path])
    output = DataFile(partition=partition, name=name, rows=rows, size_bytes=len(merged))
    return UnitResult(
        number=unit.number,
        status=UnitStatus.WRITTEN,
        outputs=(output,),
        how=How.CONCATENATE,
        rows_in=sum(file.rows for file in unit.files),
        rows_out=rows,
        fingerprint=proof,
    )


def prove_again(
    attempt: Attempt, context: JsonlContext, proved: ProvedUnit[JsonlUnit, DataFile]
) -> UnitResult[DataFile]:
    """Read a published file once more, and its inputs while they exist."""
    outputs = [f"{context.root}/{file.key}" for file in proved.outputs]
    inputs = [path for path, _ in proved.unit.input_files] if proved.has_inputs else outputs
    rows, proof = _prove(attempt.io, inputs, outputs)
    return UnitResult(number=proved.number, status=UnitStatus.WRITTEN, rows_out=rows, fingerprint=proof)


def _prove(io: FileIO, inputs: list[str], outputs: list[str]) -> tuple[int, str]:
    (_, before), (rows, after) = fingerprint(io, inputs), fingerprint(io, outputs)
    if before != after:
        raise VerificationError(f"{outputs[0]} holds {after}, its inputs hold {before}.")
    return rows, after


def read_through(io: FileIO, path: str, _form: str) -> None:
    """Decode one input."""
    fingerprint(io, (path,))


JSONL_JOB: Final = Job(
    context=JsonlContext,
    unit=JsonlUnit,
    output=DataFile,
    do=merge_and_prove,
    read_through=read_through,
    prove=prove_again,
)
