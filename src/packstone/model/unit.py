"""A unit of work: the spec of what one attempt rewrites, the result that it reports, and the fingerprint of its rows.

Specs and results are passed as files in the staging folder, so they hold only plain values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

from packstone.errors import InvalidInputError
from packstone.model.files import FileEntry, Permissions

OutputT = TypeVar("OutputT")

# The definition of a splice's fingerprint, which a journal records with it. 1 hashed all bytes with SHA-256.
SPLICE_DIGEST: Final = 2
# Beyond this growth the outcome of a merge explains why its output is bigger than its inputs.
UNEXPLAINED_GROWTH_PCT: Final = 2


def is_notably_bigger(before_bytes: int, after_bytes: int) -> bool:
    """Whether outputs of this size need an explanation."""
    return after_bytes * 100 > before_bytes * (100 + UNEXPLAINED_GROWTH_PCT)


class How(StrEnum):
    """How a unit's inputs become its output."""

    REWRITE = "rewrite"  # decode and encode again
    SPLICE = "splice"  # pages copied into bigger column chunks, with merged dictionaries and new codes
    CONCATENATE = "concatenate"  # bytes of text files one after another
    STITCH = "stitch"  # stripes of ORC copied under a new footer
    UPGRADE = "upgrade"  # metadata only
    COPY = "copy"  # carried over as it is into a new folder


class Verify(StrEnum):
    """How thoroughly outputs are verified before they are published."""

    CONTENT = "content"  # fingerprint of every row, before and after
    COUNT = "count"  # number of rows only


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSpec:
    """What should happen: these inputs of one partition become one output."""

    number: int
    partition: str
    directory: str
    inputs: tuple[FileEntry, ...]
    how: How
    file_format: str
    output_name: str
    why: str
    codec: str = "keep"
    header_lines: int = 0
    verify: Verify = Verify.CONTENT
    accept_invalid_text: bool = False
    permissions: Permissions

    @property
    def input_bytes(self) -> int:
        """The number of bytes it reads."""
        return sum(file.size_bytes for file in self.inputs)

    def is_bigger(self, size_bytes: int) -> bool:
        """Whether an output of this size needs an explanation."""
        return is_notably_bigger(self.input_bytes, size_bytes)

    @property
    def input_files(self) -> tuple[tuple[str, str], ...]:
        """The files that it decodes, each with the name of its format; a copy decodes nothing."""
        files = () if self.how is How.COPY else self.inputs
        return tuple((f"{self.directory}/{file.name}", self.file_format) for file in files)

    @property
    def checks_text(self) -> bool:
        """Whether an input whose strings are not valid UTF-8 is left alone."""
        return self.verify is Verify.CONTENT and not self.accept_invalid_text

    def __str__(self) -> str:
        return f"u{self.number} {self.partition or '.'} {len(self.inputs)} files {self.input_bytes}B {self.how}"


class UnitStatus(StrEnum):
    """How an attempt ended."""

    WRITTEN = "written"
    UNREADABLE = "unreadable"  # one input is broken: leave it alone, merge the rest
    UNFAITHFUL = "unfaithful"  # the output would differ from the inputs in something: leave the group alone
    GROWN = "grown"  # the output is much bigger than its inputs: leave the group alone
    MISMATCH = "mismatch"  # verification failed: stop, keep the evidence
    FAILED = "failed"  # anything else: no space, no rights


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A merged or copied file in the staging folder."""

    path: str
    size_bytes: int = 0
    mtime_ns: int = 0
    ordered: bool = False
    copied_columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult(Generic[OutputT]):
    """What one attempt wrote and measured, or why it failed; the type of an output depends on the family."""

    number: int
    status: UnitStatus
    outputs: tuple[OutputT, ...] = ()
    how: How = How.REWRITE  # as it was done: a planned rewrite may have been a splice
    message: str = ""
    blamed: str = ""  # the input that caused the failure, if one did
    rows_in: int = 0
    rows_out: int = 0
    fingerprint: str = ""
    why_bigger: str = ""  # empty unless the outputs are notably bigger than the inputs
    columns: str = ""  # how the columns of a Parquet file were made, and why some or all were encoded
    write_seconds: float = 0.0
    read_seconds_before: float = 0.0
    read_seconds_after: float = 0.0

    @property
    def seconds(self) -> float:
        """The total time of the unit."""
        return self.write_seconds + self.read_seconds_before + self.read_seconds_after


# ---- fingerprints ----

_LANE: Final = (1 << 64) - 1
_TEXT: Final = re.compile(r"([0-9]+) rows ([0-9a-f]{16})([0-9a-f]{16})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The count of rows and the two lanes of the sum of their hashes."""

    rows: int
    lo: int
    hi: int

    @classmethod
    def zero(cls) -> Fingerprint:
        """Return the fingerprint of no rows."""
        return cls(rows=0, lo=0, hi=0)

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """Read back what ``str`` wrote."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise InvalidInputError(f"{text!r} is not a fingerprint: '5 rows ' and 32 hex digits")
        rows, hi, lo = match.groups()
        return cls(rows=int(rows), lo=int(lo, 16), hi=int(hi, 16))

    def __add__(self, other: Fingerprint) -> Fingerprint:
        """Return the fingerprint of the rows of both."""
        return Fingerprint(
            rows=self.rows + other.rows,
            lo=(self.lo + other.lo) & _LANE,
            hi=(self.hi + other.hi) & _LANE,
        )

    def __str__(self) -> str:
        """Show as ``12345 rows 0123456789abcdef0123456789abcdef``, the high lane first."""
        return f"{self.rows} rows {self.hi:016x}{self.lo:016x}"
