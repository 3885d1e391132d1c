"""ORC: stripes copied under a new footer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.model.unit import How
from packstone.rewrite import orc_batches, orc_stitch
from packstone.rewrite.merge_kernel import Written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.model.unit import UnitSpec
    from packstone.rewrite.fingerprint import Fingerprint
    from packstone.storage.fileio import FileIO


def write(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:  # noqa: ARG001 - all is kept
    """Copy the stripes of all inputs."""
    tails = orc_stitch.read_tails(io, paths)
    orc_stitch.stitch_orc(io, paths, output, tails=tails)
    return Written(how=How.STITCH, ordered=True)


def check_readable(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:  # noqa: ARG001
    """Decode what was copied without being decoded: it may have been broken before."""
    orc_batches.check_decodes(io, paths, output)


def count(io: FileIO, paths: Sequence[str], *, written: Written) -> int:  # noqa: ARG001 - the same however written
    """Add up what the footers state."""
    return orc_stitch.count_rows(io, paths)


def fingerprint(io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:  # noqa: ARG001
    """Digest the bytes of the stripes that were copied."""
    return orc_stitch.digest_stripes(io, paths)


def check_same_shape(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:  # noqa: ARG001
    """Compare the footers: types, what the user put in, codec, stride, calendar, writer."""
    orc_stitch.check_same_footer(io, paths, output)


def read_through(io: FileIO, path: str) -> None:
    """Decode all columns."""
    orc_batches.read_orc_through(io, path)
