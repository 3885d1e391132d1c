"""Bucketed append: merge neighbouring files of one bucket, in the order of their rows.

Files are listed in the order of their sequence numbers, and that order is kept.

*Normal*: slide a window over the files. As soon as it holds ``min_files``, they are merged; if it holds fewer but
reaches ``2 × target`` bytes, its first file is dropped. Files that a compaction wrote and that are not small end the
window: otherwise, with ``min_files`` 2, a full file and a small one would be rewritten into the same two forever.

*Full*: needs three files (or a deletion vector, or ``force_rewrite``). Leading files that are big enough and have no
vector are excluded; the rest is merged if one of its files has a vector, or if its small files outnumber the big ones
and at least three are left.

Cost: each picked byte is read and written once; a bucket ends with fewer than ``min_files`` small neighbours.

    before   200  10  10  10  10  10      target 256 MB, min_files 5
    after    240  10                      normal: the first window of five is 200 10 10 10 10

Source: Apache Paimon `BucketedAppendCompactManager` (research notes 4.5). Two things differ: a running Paimon job
removes full outputs from its queue, but a new job rewrites them again, which ours does not; and with deletion vectors
enabled, Paimon's full compaction rewrites even a single file that has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from packstone.errors import InvalidInputError
from packstone.model.sizes import ExactSize, format_mb
from packstone.strategy.append_bins import (
    DEFAULT_MIN_FILES,
    DEFAULT_TARGET_BYTES,
    AppendFile,
    AppendView,
    apply_append_decision,
)
from packstone.strategy.pick import Pick, Reason, Skip, Strategy, try_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packstone.strategy.pick import Decision, Rule

FULL_MIN_FILES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketedAppendOptions:
    """The limit of small files, and how many neighbours make a merge; the defaults are Paimon's."""

    target_bytes: int = DEFAULT_TARGET_BYTES
    min_files: int = DEFAULT_MIN_FILES
    small_ratio: float = 0.7
    full: bool = False
    force_rewrite: bool = False  # full only

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if self.target_bytes < 1:
            raise InvalidInputError(f"target_bytes is {self.target_bytes}; it must be at least 1.")
        if self.min_files < 2:  # a single file is not merged
            raise InvalidInputError(f"min_files is {self.min_files}; it must be at least 2.")
        if not 0 <= self.small_ratio <= 1:
            raise InvalidInputError(f"small_ratio is {self.small_ratio}; it must lie between 0 and 1.")

    @property
    def small_bytes(self) -> int:
        """The size below which files are small."""
        return int(self.target_bytes * self.small_ratio)


def pick_bucketed_append(view: AppendView, options: BucketedAppendOptions) -> Decision[ExactSize]:
    """Choose neighbouring files of one bucket."""
    return try_rules(RULES, view, options)


def bucketed_append_strategy(options: BucketedAppendOptions) -> Strategy[AppendView, ExactSize]:
    """Bind the options."""
    return Strategy(
        name="bucketed-append",
        pick=partial(pick_bucketed_append, options=options),
        apply=partial(apply_append_decision, target_bytes=options.target_bytes),
    )


def pick_window(view: AppendView, options: BucketedAppendOptions) -> Pick[ExactSize] | Skip:
    """Merge the first ``min_files`` neighbours that fit together."""
    if options.full:
        return Skip(why="append-bin: full, not by window", is_off=True)
    window: list[int] = []
    total, most = 0, 0
    for at, file in enumerate(view.files):
        if file.is_compacted and file.size_bytes >= options.small_bytes:
            window, total = [], 0
            continue
        window.append(at)
        total += file.size_bytes
        most = max(most, len(window))
        if len(window) >= options.min_files:
            return _pick(view.files, window, what=f"neighbours ≥ {options.min_files}")
        if total >= 2 * options.target_bytes:
            total -= view.files[window.pop(0)].size_bytes
    return Skip(
        why=f"append-bin: at most {most} neighbours below {format_mb(2 * options.target_bytes)} MB ≥ "
        f"{options.min_files}? no"
    )


def pick_rest(view: AppendView, options: BucketedAppendOptions) -> Pick[ExactSize] | Skip:
    """Full: merge all files except the leading big ones."""
    if not options.full:
        return Skip(why="append-bin: not full", is_off=True)
    if not view.files:
        return Skip(why="append-bin: there are no files")
    everything = range(len(view.files))
    if options.force_rewrite:
        return _pick(view.files, everything, what="all, as forced")
    first = next((at for at in everything if _needs_merge(view.files[at], options)), len(view.files))
    rest = view.files[first:]
    if any(file.has_deletion_vector for file in rest):
        return _pick(view.files, everything[first:], what="with a deletion vector among them")
    small = sum(1 for file in rest if file.size_bytes < options.small_bytes)
    check = f"{small} small > {len(rest) - small} big and {len(rest)} ≥ {FULL_MIN_FILES}"
    if small > len(rest) - small and len(rest) >= FULL_MIN_FILES:
        return _pick(view.files, everything[first:], what=f"left; {check}? yes")
    return Skip(why=f"append-bin: {check}? no")


RULES: Final[tuple[Rule[AppendView, BucketedAppendOptions, ExactSize], ...]] = (pick_window, pick_rest)


def _needs_merge(file: AppendFile, options: BucketedAppendOptions) -> bool:
    return file.size_bytes < options.small_bytes or file.has_deletion_vector


def _pick(files: Sequence[AppendFile], inputs: Sequence[int], *, what: str) -> Pick[ExactSize]:
    total = ExactSize(sum(files[at].size_bytes for at in inputs))
    why = f"append-bin: {len(inputs)} {what}"
    return Pick(inputs=tuple(inputs), output=total, reason=Reason.APPEND_BIN, why=why)
