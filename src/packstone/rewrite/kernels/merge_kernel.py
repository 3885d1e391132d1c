"""The seam between a unit and the format of its files: how they become one, and how that is proved.

A kernel is a module with these functions; ``kernels/registry.py`` names one for each format. Nothing else in the
pipeline asks which format a file has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from packstone.model.unit import How

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.model.unit import UnitSpec
    from packstone.rewrite.proof.fingerprint import Fingerprint
    from packstone.storage.fileio import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """In which way an output came about: that decides how it is proved, now and by a later ``packstone verify``."""

    how: How
    ordered: bool = False  # whether the rows kept their order, so that the proof can see it
    copied: tuple[int, ...] = ()  # of a splice: the columns that were copied
    header_lines: int = 0
    why_bigger: str = ""  # what the kernel knows of the reason, if the output is notably bigger than the inputs
    checks_text: bool = False  # whether an input whose strings are not valid UTF-8 is unreadable


class MergeKernel(Protocol):
    """What every format that is merged can do.

    An input that cannot be read raises UnreadableFileError with ``file``; inputs that cannot be written back
    identically raise UnfaithfulError.
    """

    def write(self, io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
        """Write the inputs, in their order, as one file."""
        ...

    def check_readable(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
        """Find what was broken before we came and would be copied; asked whatever the verification."""
        ...

    def count(self, io: FileIO, paths: Sequence[str], *, written: Written) -> int:
        """Count rows, in the cheap way."""
        ...

    def fingerprint(self, io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:
        """Read files again, inputs or output, and reduce all their rows to a fingerprint."""
        ...

    def check_same_shape(self, io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
        """Compare what a fingerprint of rows cannot see; VerificationError if the output differs."""
        ...

    def read_through(self, io: FileIO, path: str) -> None:
        """Read all that a query of all columns would, to see how long it takes."""
        ...
