"""Append bins: pack the small files of an append table without buckets into bins of about twice the target.

1. A file counts if it is below ``target × small_ratio``, or if more than ``delete_ratio`` of its rows are deleted (or
   their number is unknown). At most ``max_files`` are considered in one round.
2. Files are packed smallest first, each with the weight of its bytes plus ``open_cost_bytes``. A bin closes when it has
   two files or more and weighs ``2 × target``. Its output is cut at the target again.
3. The last bin that does not close is merged only with ``min_files`` files or more; otherwise those few small files
   stay forever (apache/paimon#5130). With ``leftovers``, two are enough. A streaming job counts the rounds that packed
   nothing: after five, two files are enough.
4. With deletion vectors, files are first grouped by the index file that holds their vector, so that each index file
   is rewritten once; the last group is always merged. Files without a vector are packed separately, two or more.

Row order between files is not kept: such a table does not guarantee any.

A file prints in one line and parses back::

    10MB                                         its bytes
    10MB rows=100 deleted=21 dv=x compacted      and what is known of its rows

Cost: each picked byte is read and written once; afterwards at most ``min_files - 1`` small files are left.

    before   10 ×20  300      target 256 MB, open cost 4 MB, min_files 5
    after    200  300         20 × 14 MB = 280 MB < 512 MB, but 20 ≥ 5 files are left over

Source: Apache Paimon `AppendCompactCoordinator` (research notes 4.4).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from packstone.errors import InvalidInputError
from packstone.model.sizes import MB, ExactSize, format_mb
from packstone.strategy.pick import Decision, Pick, Reason, Skip, Strategy

DEFAULT_TARGET_BYTES: Final = 256 * MB
DEFAULT_MIN_FILES: Final = 5
_FILE = re.compile(
    r"(?P<size>[0-9]+[KMGT]?B?)(?: rows=(?P<rows>[0-9]+))?(?: deleted=(?P<deleted>[0-9]+|\?))?(?: dv=(?P<dv>\S+))?"
    r"(?P<compacted> compacted)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFile:
    """One file of a partition or bucket, in the order of its rows."""

    size_bytes: int
    rows: int = 0
    deleted_rows: int | None = 0  # by deletion vectors; None: not known
    dv_index: str = ""  # the index file that holds its deletion vector, if it has one
    is_compacted: bool = False  # written by a compaction

    @property
    def has_deletion_vector(self) -> bool:
        """Whether rows of it are marked as deleted."""
        return self.dv_index != ""

    @classmethod
    def parse(cls, line: str) -> AppendFile:
        """Parse a line such as ``10MB rows=100 deleted=21 dv=x``."""
        match = _FILE.fullmatch(line)
        if match is None:
            raise InvalidInputError(f"{line!r} is not a file; write for example 10MB or 10MB rows=9 deleted=3 dv=x.")
        deleted = match["deleted"] or "0"
        return cls(
            size_bytes=ExactSize.parse(match["size"]),
            rows=int(match["rows"] or 0),
            deleted_rows=None if deleted == "?" else int(deleted),
            dv_index=match["dv"] or "",
            is_compacted=match["compacted"] is not None,
        )

    def __str__(self) -> str:
        facts = [
            f"rows={self.rows}" if self.rows else "",
            f"deleted={'?' if self.deleted_rows is None else self.deleted_rows}" if self.deleted_rows != 0 else "",
            f"dv={self.dv_index}" if self.dv_index else "",
            "compacted" if self.is_compacted else "",
        ]
        return " ".join([str(ExactSize(self.size_bytes)), *filter(None, facts)])


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendView:
    """The files of one partition (unaware buckets) or of one bucket, and how long they have waited."""

    files: tuple[AppendFile, ...]
    rounds_waited: int = 0  # earlier rounds that packed nothing; only a streaming job counts them


def roll(size_bytes: int, *, target_bytes: int) -> tuple[int, ...]:
    """Cut a merged size into file sizes as a rolling writer does; size 0 makes one empty file."""
    full, rest = divmod(size_bytes, target_bytes)
    return (target_bytes,) * full + ((rest,) if rest or not full else ())


def apply_append_decision(view: AppendView, decision: Decision[ExactSize], *, target_bytes: int) -> AppendView:
    """Put the merged files, rolled at the target, in the place of each pick's first input."""
    made: dict[int, tuple[AppendFile, ...]] = {}
    gone: set[int] = set()
    for pick in decision.picks:
        gone.update(pick.inputs)
        made[min(pick.inputs)] = tuple(
            AppendFile(size_bytes=size, is_compacted=True) for size in roll(pick.output, target_bytes=target_bytes)
        )
    files: list[AppendFile] = []
    for at, file in enumerate(view.files):
        files.extend(made.get(at, () if at in gone else (file,)))
    return replace(view, files=tuple(files), rounds_waited=0 if gone else view.rounds_waited + 1)


Numbered: TypeAlias = tuple[int, AppendFile]
Answer: TypeAlias = Pick[ExactSize] | Skip
ROUNDS_TO_WAIT: Final = 5
_ENOUGH: Final = 2  # a single file is not merged


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """The limit of small files, and the size of the bins; the defaults are Paimon's."""

    target_bytes: int = DEFAULT_TARGET_BYTES
    min_files: int = DEFAULT_MIN_FILES
    open_cost_bytes: int = 4 * MB
    small_ratio: float = 0.7
    delete_ratio: float = 0.2
    max_files: int = 100_000
    leftovers: bool = False

    def __post_init__(self) -> None:
        """Refuse values out of range."""
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
        """The size below which files are small."""
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
    """Whether a file is small, or has enough deleted rows to be worth rewriting."""
    if file.size_bytes < options.small_bytes:
        return True
    if not file.has_deletion_vector:
        return False
    return file.deleted_rows is None or file.deleted_rows > file.rows * options.delete_ratio


def pick_with_vectors(batch: Batch, options: AppendOptions) -> Iterator[Answer]:
    """Pack the files with deletion vectors, those of one index file together; the last bin is always picked."""
    by_index: dict[str, list[Numbered]] = {}
    for at, file in batch.files:
        if file.has_deletion_vector:
            by_index.setdefault(file.dv_index, []).append((at, file))
    bins, left = _fill(list(by_index.values()), options)
    for members in (*bins, *([left] if left else [])):
        yield _pick(members, options, what="with deletion vectors")


def pick_plain(batch: Batch, options: AppendOptions) -> Iterator[Answer]:
    """Pack the other files; the last bin is picked if it has enough files."""
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
    """Fill bins with groups of files, smallest first; return the closed bins, and the last bin separately."""
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
