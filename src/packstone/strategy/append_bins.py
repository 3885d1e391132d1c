"""Append bins: pack the small files of an append table without buckets into bins of about twice the target.

1. A file counts if it is below ``target × small_ratio``, or if more than ``delete_ratio`` of its rows are deleted (or
   nobody knows how many). At most ``max_files`` are looked at in one round.
2. Smallest first, each weighing its bytes plus ``open_cost_bytes``. A bin closes when it has two files or more and
   weighs ``2 × target``. What it becomes is cut at the target again.
3. The last bin that does not close is merged only with ``min_files`` files or more; otherwise those few small files
   stay for ever (apache/paimon#5130). ``leftovers`` takes two or more. A streaming job counts the rounds that packed
   nothing: after five, two files are enough.
4. With deletion vectors, files are first grouped by the index file that holds their vector, so that each index file
   is rewritten once; the last group is always merged. Files without a vector are packed by themselves, two or more.

Row order between files is not kept: such a table promises none.

Cost: each picked byte is read and written once; afterwards at most ``min_files - 1`` small files are left.

    before   10 ×20  300      target 256 MB, open cost 4 MB, min_files 5
    after    200  300         20 × 14 MB = 280 MB < 512 MB, but 20 ≥ 5 files are left over

Source: Apache Paimon `AppendCompactCoordinator` (research notes 4.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from packstone.errors import InvalidInputError
from packstone.model.exact_size import ExactSize
from packstone.model.megabytes import MB, format_mb
from packstone.strategy.append_view import (
    DEFAULT_MIN_FILES,
    DEFAULT_TARGET_BYTES,
    AppendFile,
    AppendView,
    apply_append_decision,
    roll,
)
from packstone.strategy.fixpoint import Strategy
from packstone.strategy.pick import Decision, Pick, Reason, Skip

Numbered: TypeAlias = tuple[int, AppendFile]
Answer: TypeAlias = Pick[ExactSize] | Skip
ROUNDS_TO_WAIT: Final = 5
_ENOUGH: Final = 2  # a single file is not merged


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """What is small, and how big the bins are; the defaults are Paimon's."""

    target_bytes: int = DEFAULT_TARGET_BYTES
    min_files: int = DEFAULT_MIN_FILES
    open_cost_bytes: int = 4 * MB
    small_ratio: float = 0.7
    delete_ratio: float = 0.2
    max_files: int = 100_000
    leftovers: bool = False

    def __post_init__(self) -> None:
        """Refuse what makes no sense, before anything is decided by it."""
        for name, floor in (("target_bytes", 1), ("min_files", 1), ("open_cost_bytes", 0), ("max_files", 1)):
            value = getattr(self, name)
            if value < floor:
                raise InvalidInputError(f"{name} is {value}; it must be at least {floor}.", option=name)
        for name in ("small_ratio", "delete_ratio"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise InvalidInputError(f"{name} is {value}; it must lie between 0 and 1.", option=name)

    @property
    def small_bytes(self) -> int:
        """Files below this are small."""
        return int(self.target_bytes * self.small_ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The candidates of one round with their positions, and whether they have waited long enough."""

    files: tuple[Numbered, ...]
    is_due: bool


def pick_append_bins(view: AppendView, options: AppendOptions) -> Decision[ExactSize]:
    """Pack one partition's small files; every bin is a pick."""
    chosen = [(at, file) for at, file in enumerate(view.files) if is_candidate(file, options)][: options.max_files]
    batch = Batch(files=tuple(chosen), is_due=view.rounds_waited >= ROUNDS_TO_WAIT)
    answers = tuple(answer for rule in RULES for answer in rule(batch, options))
    wanted = f"below {format_mb(options.small_bytes)} MB or much deleted"
    steps = (f"candidates: {len(chosen)} of {len(view.files)} files are {wanted}", *(answer.why for answer in answers))
    return Decision(answers=answers, steps=steps)


def append_strategy(options: AppendOptions) -> Strategy[AppendView, ExactSize]:
    """Bind the options."""
    return Strategy(
        name="append",
        pick=partial(pick_append_bins, options=options),
        apply=partial(apply_append_decision, target_bytes=options.target_bytes),
    )


def is_candidate(file: AppendFile, options: AppendOptions) -> bool:
    """Tell whether a file is small, or holds so many deleted rows that it is worth writing anew."""
    if file.size_bytes < options.small_bytes:
        return True
    if not file.has_deletion_vector:
        return False
    return file.deleted_rows is None or file.deleted_rows > file.rows * options.delete_ratio


def pick_with_vectors(batch: Batch, options: AppendOptions) -> Iterator[Answer]:
    """Pack the files with deletion vectors, those of one index file together; the last bin always goes."""
    by_index: dict[str, list[Numbered]] = {}
    for at, file in batch.files:
        if file.has_deletion_vector:
            by_index.setdefault(file.dv_index, []).append((at, file))
    bins, left = _fill(list(by_index.values()), options)
    for members in (*bins, *([left] if left else [])):
        yield _pick(members, options, what="with deletion vectors")


def pick_plain(batch: Batch, options: AppendOptions) -> Iterator[Answer]:
    """Pack the other files; the last bin goes if it has files enough."""
    bins, left = _fill([[(at, file)] for at, file in batch.files if not file.has_deletion_vector], options)
    for members in bins:
        yield _pick(members, options, what="fill a bin")
    enough = _ENOUGH if options.leftovers or (batch.is_due and not bins) else options.min_files
    if len(left) >= max(_ENOUGH, enough):
        yield _pick(left, options, what=f"left over ≥ {enough}")
    else:
        yield Skip(why=f"append-bin: {len(left)} left over ≥ {enough}? no")


RULES: Final[tuple[Callable[[Batch, AppendOptions], Iterator[Answer]], ...]] = (pick_with_vectors, pick_plain)


def _fill(groups: Sequence[Sequence[Numbered]], options: AppendOptions) -> tuple[list[list[Numbered]], list[Numbered]]:
    """Fill bins with groups of files, smallest first; the bin that did not close comes by itself."""
    bins: list[list[Numbered]] = []
    members: list[Numbered] = []
    weight = 0
    for group in sorted(groups, key=lambda group: sum(file.size_bytes for _, file in group)):
        members.extend(group)
        weight += _weigh(group, options)
        if len(members) >= _ENOUGH and weight >= 2 * options.target_bytes:
            bins.append(members)
            members, weight = [], 0
    return bins, members


def _weigh(members: Sequence[Numbered], options: AppendOptions) -> int:
    return sum(file.size_bytes + options.open_cost_bytes for _, file in members)


def _pick(members: Sequence[Numbered], options: AppendOptions, *, what: str) -> Pick[ExactSize]:
    output = ExactSize(sum(file.size_bytes for _, file in members))
    weight, full = format_mb(_weigh(members, options)), format_mb(2 * options.target_bytes)
    parts = len(roll(output, target_bytes=options.target_bytes))
    cut = f"; cut at {format_mb(options.target_bytes)} MB into {parts}" if parts > 1 else ""
    return Pick(
        inputs=tuple(at for at, _ in members),
        output=output,
        reason=Reason.APPEND_BIN,
        why=f"append-bin: {len(members)} {what}; with open cost {weight} of {full} MB{cut}",
    )
