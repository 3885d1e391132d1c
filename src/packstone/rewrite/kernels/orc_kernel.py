"""ORC: stripes copied under a new footer; where they are tiny and it is safe, rows encoded again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.model.unit import How
from packstone.rewrite.kernels.merge_kernel import Written
from packstone.rewrite.orc import batches as orc_batches
from packstone.rewrite.orc import rewrite as orc_rewrite
from packstone.rewrite.orc import stitch as orc_stitch
from packstone.rewrite.orc.rewrite import CannotEncodeError
from packstone.rewrite.proof.ordered_digest import digest_batches
from packstone.rewrite.read_ahead import read_ahead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.model.unit import UnitSpec
    from packstone.rewrite.proof.fingerprint import Fingerprint
    from packstone.storage.fileio import FileIO


def write(io: FileIO, paths: Sequence[str], output: str, *, spec: UnitSpec) -> Written:
    """Encode tiny stripes again where nothing is lost by it and the file does not grow; else copy them."""
    tails = orc_stitch.read_tails(io, paths)
    try:
        orc_rewrite.rewrite_orc(io, paths, output, tails=tails, checks_text=spec.checks_text)
        found = io.stat(output)
        if found is not None and found.size_bytes <= spec.input_bytes:
            return Written(how=How.REWRITE, ordered=True, checks_text=spec.checks_text)
    except CannotEncodeError:
        pass
    io.remove(output)
    orc_stitch.stitch_orc(io, paths, output, tails=tails)
    return Written(how=How.STITCH, ordered=True, checks_text=spec.checks_text)


def check_readable(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:
    """Decode what was copied without being decoded: it may have been broken before."""
    if written.how is How.STITCH:
        orc_batches.check_decodes(io, paths, output, checks_text=written.checks_text)


def count(io: FileIO, paths: Sequence[str], *, written: Written) -> int:  # noqa: ARG001 - the same however written
    """Add up what the footers state."""
    return orc_stitch.count_rows(io, paths)


def fingerprint(io: FileIO, paths: Sequence[str], *, written: Written) -> Fingerprint:
    """Digest the bytes of stripes that were copied, or the rows that were encoded again, in their order."""
    if written.how is How.REWRITE:
        return digest_batches(read_ahead(orc_batches.all_orc_rows(io, paths)))
    return orc_stitch.digest_stripes(io, paths)


def check_same_shape(io: FileIO, paths: Sequence[str], output: str, *, written: Written) -> None:  # noqa: ARG001
    """Compare the footers: types, what the user put in, codec, stride, calendar, writer."""
    orc_stitch.check_same_footer(io, paths, output)


def read_through(io: FileIO, path: str) -> None:
    """Decode all columns."""
    orc_batches.read_orc_through(io, path)
