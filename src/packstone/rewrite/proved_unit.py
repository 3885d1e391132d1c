"""The result of a verified unit of a merge, and the removal of its files if it fails; for every table family."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol

from packstone.errors import VerificationError
from packstone.model.unit import OutputT, UnitResult, UnitStatus
from packstone.rewrite.formats.parquet_encodings import describe_growth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packstone.model.work import Unit
    from packstone.storage.fileio import FileIO


class _File(Protocol):
    @property
    def path(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...


class _Merged(Protocol):
    """The files that a kernel wrote, and the time it took."""

    @property
    def files(self) -> Sequence[_File]: ...

    @property
    def rows_in(self) -> int: ...

    @property
    def rows_out(self) -> int: ...

    @property
    def read_seconds(self) -> float: ...

    @property
    def merge_seconds(self) -> float: ...

    @property
    def write_seconds(self) -> float: ...


class _Verified(Protocol):
    """The result of a verification, and the time of its two reads."""

    @property
    def fingerprint_after(self) -> object: ...

    @property
    def seconds_before(self) -> float: ...

    @property
    def seconds_after(self) -> float: ...


@contextlib.contextmanager
def removed_on_failure(io: FileIO) -> Iterator[list[str]]:
    """Yield a list for the written paths; they are removed if the unit fails, but kept if its verification fails."""
    written: list[str] = []
    try:
        yield written
    except VerificationError:
        raise  # keep the files as evidence; their names are recorded
    except Exception:
        for path in written:
            io.remove(path)
        raise


def proved_result(
    io: FileIO, unit: Unit, merged: _Merged, *, verified: _Verified, outputs: tuple[OutputT, ...]
) -> UnitResult[OutputT]:
    """The result of a unit that was written and verified."""
    return UnitResult(
        number=unit.number,
        status=UnitStatus.WRITTEN,
        outputs=outputs,
        rows_in=merged.rows_in,
        rows_out=merged.rows_out,
        fingerprint=str(verified.fingerprint_after),
        why_bigger=describe_growth(
            io,
            unit.input_files,
            [(file.path, file.size_bytes) for file in merged.files],
            input_bytes=unit.input_bytes,
        ),
        write_seconds=merged.read_seconds + merged.merge_seconds + merged.write_seconds,
        read_seconds_before=verified.seconds_before,
        read_seconds_after=verified.seconds_after,
    )
