"""Small files: join the small files of one folder into files of about the target size.

The rule (from the seed document "Spark small-file merge", with its count of outputs corrected):

1. Only files below the threshold count; bigger ones are never read.
2. Fewer than ``min_files`` fresh small files in the folder: leave it alone, because starting a job costs more.
3. Files that agree (format, schema, codec, owner …) form a group; groups are never reconciled.
4. A group of *b* bytes becomes ``max(1, round(b / target))`` outputs, each of adjacent files in name order, so
   that any clustering by name is kept. The seed divides the whole folder's bytes and adds one; that counts files
   which are not even read.
5. A group is rewritten only if its number of files drops by at least a quarter. Otherwise 580 MB at a target of
   512 MB would be rewritten forever (apache/iceberg#9069).
6. Our own earlier outputs that are still small are not fresh: they are merged again only together with at least
   ``min_files`` newer files of their group. So a second run plans nothing. If a folder has enough fresh files but
   they are spread over groups, a group includes its outputs once it has ``min_files`` of them: otherwise two groups
   that get three files a night each would leave two more outputs every night, without end.

Cost: each selected byte is read once, written once, and read twice more for verification.

    before   a 10MB  b 12MB  c 9MB  d 300MB  e 8MB  f 11MB      threshold 120MB, min_files 5
    after    abcef 50MB  d 300MB
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from packstone.errors import InvalidInputError
from packstone.model.sizes import ExactSize, format_mb
from packstone.strategy.pick import Decision, Pick, Reason, Skip, Strategy

Answer: TypeAlias = Pick[ExactSize] | Skip
REASON = Reason.SMALL_FILES
DEFAULT_MIN_FILES = 5
MIN_DROP_PCT = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallFilesOptions:
    """The size below which files are small, and the size to produce."""

    threshold_bytes: int
    target_bytes: int
    min_files: int = DEFAULT_MIN_FILES

    def __post_init__(self) -> None:
        """Refuse sizes and counts below 1."""
        for name in ("threshold_bytes", "target_bytes", "min_files"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} is {getattr(self, name)}; it must be at least 1.", option=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One file as the strategy sees it, in name order within its folder."""

    size_bytes: int
    group: int = 0
    is_known_output: bool = False


def is_small(size_bytes: int, options: SmallFilesOptions) -> bool:
    """Whether a file of this size is small, so that it is inspected at all."""
    return size_bytes < options.threshold_bytes


def pick_small_files(files: Sequence[Candidate], options: SmallFilesOptions) -> Decision[ExactSize]:
    """Choose what to merge in one folder: picks by group, in order of their first file, and skips of other groups."""
    small = [(at, file) for at, file in enumerate(files) if is_small(file.size_bytes, options)]
    fresh = sum(1 for _, file in small if not file.is_known_output)
    steps = [
        f"small: {len(small)} of {len(files)} files are below {format_mb(options.threshold_bytes)} MB",
        f"min-files: {fresh} fresh ≥ {options.min_files}? {'yes' if fresh >= options.min_files else 'no'}",
    ]
    if fresh < options.min_files:
        return Decision(answers=(Skip(why=_why_too_few(fresh, len(small), options)),), steps=tuple(steps))
    by_group: dict[int, list[tuple[int, Candidate]]] = defaultdict(list)
    for at, file in small:
        by_group[file.group].append((at, file))
    answers: list[Answer] = []
    for members in by_group.values():
        answers.extend(_pick_in_group(members, options, steps))
    return Decision(answers=tuple(answers), steps=tuple(steps))


def small_files_strategy(options: SmallFilesOptions) -> Strategy[tuple[Candidate, ...], ExactSize]:
    """Bind the options."""
    return Strategy(name="small-files", pick=partial(pick_small_files, options=options), apply=apply_small_files)


def apply_small_files(files: Sequence[Candidate], decision: Decision[ExactSize]) -> tuple[Candidate, ...]:
    """Put each output, marked as a known output, in the place of its first input."""
    made = {
        pick.inputs[0]: Candidate(size_bytes=pick.output, group=files[pick.inputs[0]].group, is_known_output=True)
        for pick in decision.picks
    }
    gone = {at for pick in decision.picks for at in pick.inputs}
    return tuple(made.get(at, file) for at, file in enumerate(files) if at in made or at not in gone)


def _pick_in_group(members: list[tuple[int, Candidate]], options: SmallFilesOptions, steps: list[str]) -> list[Answer]:
    fresh = [(at, file) for at, file in members if not file.is_known_output]
    known_count = len(members) - len(fresh)
    if len(fresh) < options.min_files and (not fresh or known_count < options.min_files):
        members = fresh
    if not members:
        return []
    if len(members) == 1:
        why = "1 small file agrees with no other in format, schema, codec and owner"
        return [Skip(why=why, candidate=members[0][0])]
    total_bytes = sum(file.size_bytes for _, file in members)
    bins = split_adjacent(
        [file.size_bytes for _, file in members], outputs=count_outputs(total_bytes, options.target_bytes)
    )
    files, outputs = len(members), len(bins)
    is_worth_it = (files - outputs) * 100 >= files * MIN_DROP_PCT
    steps += [
        f"outputs: {format_mb(total_bytes)} MB in files of about {format_mb(options.target_bytes)} MB make {outputs}",
        f"gain: ({files} - {outputs}) × 100 ≥ {files} × {MIN_DROP_PCT}? {'yes' if is_worth_it else 'no'}",
    ]
    if not is_worth_it:
        return [Skip(why=f"{files} small files would become {outputs}: fewer than {MIN_DROP_PCT} % are saved")]
    picks: list[Answer] = []
    for first, last in bins:
        chosen = members[first:last]
        if len(chosen) > 1:
            output = ExactSize(sum(file.size_bytes for _, file in chosen))
            why = f"{len(chosen)} of {files} small files; {files} become {outputs}"
            picks.append(Pick(inputs=tuple(at for at, _ in chosen), output=output, reason=REASON, why=why))
    return picks


def count_outputs(total_bytes: int, target_bytes: int) -> int:
    """Return how many files of about the target size hold these bytes: the nearest number, at least one."""
    return max(1, (2 * total_bytes + target_bytes) // (2 * target_bytes))


def split_adjacent(sizes_bytes: Sequence[int], *, outputs: int) -> list[tuple[int, int]]:
    """Cut a sequence of files into at most ``outputs`` runs ``[first, last)`` of adjacent files and similar size.

    A file belongs to the run that contains its middle byte, so a run is off by at most half a file at each end.
    """
    total = sum(sizes_bytes)
    bounds: list[tuple[int, int]] = []
    first, run, before = 0, 0, 0
    for at, size in enumerate(sizes_bytes):
        # The middle of an empty last file is the end itself, which is in no run: put it into the last run.
        mine = min(outputs - 1, (2 * before + size) * outputs // (2 * total)) if total else 0
        if mine != run and at > first:
            bounds.append((first, at))
            first = at
        run = mine
        before += size
    if first < len(sizes_bytes):
        bounds.append((first, len(sizes_bytes)))
    return bounds


def _why_too_few(fresh: int, small: int, options: SmallFilesOptions) -> str:
    known = f" (and {small - fresh} merged before)" if small > fresh else ""
    return f"{fresh} small files{known}, fewer than {options.min_files}"
