"""Plan one partition: from its files, choose the units to merge and the files to skip.

The plan also recognises our own earlier outputs: by their name, and only if a journal records them, because a file name
can be copied.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Self

from packstone.errors import CorruptionError
from packstone.model.outcome import SkipKind, Skipped
from packstone.strategy.pick import Pick
from packstone.strategy.small_files import Candidate, SmallFilesOptions, is_small, pick_small_files
from packstone.tables.hive.file_facts import FREE_TEXT, MERGED_FORMATS, RAGGED, Reading, Verdict
from packstone.tables.hive.layout import KEPT_SUFFIX
from packstone.tables.hive.listing import bucket_name, newest_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from packstone.model.files import FileEntry
    from packstone.model.limits import Allowance, Filters
    from packstone.model.sizes import ExactSize
    from packstone.model.unit import How
    from packstone.tables.hive.file_facts import FileFacts, TextShape
    from packstone.tables.hive.journal import Journal, SwapIntent
    from packstone.tables.hive.listing import PartitionListing
    from packstone.tables.hive.options import HiveOptions

# A partition with more small files than this takes several rounds, so that a swap and its journal stay small.
MAX_FILES_A_ROUND = 10_000
YOUNG = "younger than --min-age"
_MAX_NAME_BYTES = 255  # what Linux and HDFS allow


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUnit:
    """One planned merge; it becomes a spec when a run executes it."""

    inputs: tuple[FileEntry, ...]
    how: How
    file_format: str
    group: str
    why: str

    @property
    def input_bytes(self) -> int:
        """The total size of its inputs."""
        return sum(file.size_bytes for file in self.inputs)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that may be merged: of one kind, and with the same columns if they are delimited text."""

    kind: str
    reading: Reading
    files: tuple[FileFacts, ...]

    @property
    def key(self) -> str:
        """The text that its files share."""
        return f"{self.kind} {self.reading}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """The merges of one partition, and what is skipped."""

    listing: PartitionListing
    units: tuple[PlannedUnit, ...]
    skipped: tuple[Skipped, ...]
    copies_rest: bool = False  # published in a new folder, into which everything else is copied

    @property
    def part(self) -> str:
        """The partition, or the folder of a table without partitions."""
        return self.listing.partition or self.listing.directory

    @property
    def file_count(self) -> int:
        """The number of files to merge."""
        return sum(len(unit.inputs) for unit in self.units)

    @property
    def read_bytes(self) -> int:
        """The total size of the files to merge."""
        return sum(unit.input_bytes for unit in self.units)

    @property
    def write_bytes(self) -> int:
        """The total size of the files to stage."""
        return self.listing.total_bytes if self.copies_rest else self.read_bytes

    @property
    def unit_count(self) -> int:
        """The number of merges."""
        return len(self.units)

    def within(self, left: Allowance) -> tuple[Self | None, str]:
        """Return the plan with only the merges that fit an allowance (None if none does), and why others do not."""
        kept, why = [], ""
        for unit in self.units:
            why_not = left.why_not(unit.input_bytes, len(unit.inputs))
            if why_not:
                why = why or why_not
                continue
            left = left.less(unit.input_bytes, len(unit.inputs))
            kept.append(unit)
        return (replace(self, units=tuple(kept)) if kept else None), why


def small_files_options(options: HiveOptions) -> SmallFilesOptions:
    """Return the options of the strategy."""
    return SmallFilesOptions(
        threshold_bytes=options.threshold_bytes,
        target_bytes=options.target_bytes,
        min_files=options.min_files,
    )


def select_files(
    listing: PartitionListing, options: HiveOptions, *, filters: Filters, now_seconds: float
) -> tuple[tuple[FileEntry, ...], tuple[Skipped, ...]]:
    """Choose the files to inspect: small, old enough, not excluded."""
    chosen: list[FileEntry] = []
    skipped: list[Skipped] = []
    picking = small_files_options(options)
    young = 0
    offsets = newest_offsets(file.name for file in listing.files)
    for file in listing.files:
        what = _what(listing, file.name)
        if not is_small(file.size_bytes, picking):
            continue
        if len(f"{file.name}{KEPT_SUFFIX}".encode("utf-8", "surrogateescape")) > _MAX_NAME_BYTES:
            why = f"its name is too long to add the ending {KEPT_SUFFIX}, under which originals are kept"
            skipped.append(Skipped(what=what, why=why, kind=SkipKind.LEFT_ALONE))
        elif file.name in offsets:
            why = "Kafka Connect resumes its topic by this name, which has the highest offset of its partition here"
            skipped.append(Skipped(what=what, why=why, kind=SkipKind.LEFT_ALONE))
        elif any(fnmatchcase(file.name, glob) for glob in filters.exclude):
            skipped.append(Skipped(what=what, why="excluded by --exclude", kind=SkipKind.FILTERED))
        elif 0 < filters.min_age_seconds > now_seconds - file.mtime_ns / 1e9:
            young += 1
            skipped.append(Skipped(what=what, why=YOUNG, kind=SkipKind.FILTERED))
        else:
            chosen.append(file)
    if young > 1 and not chosen:  # a table may hold a million young files: report one line for each partition
        why = f"its {young} small files are {YOUNG}"
        skipped = [skip for skip in skipped if skip.why is not YOUNG]
        skipped.append(Skipped(what=listing.partition or listing.directory, why=why, kind=SkipKind.FILTERED))
    return tuple(chosen[:MAX_FILES_A_ROUND]), tuple(skipped)


def refuse_partition(listing: PartitionListing) -> Skipped | None:
    """Say why a partition as a whole must not be merged; None if it may be."""
    what = listing.partition or listing.directory
    if listing.refused is not None:
        return Skipped(what=what, why=listing.refused, kind=SkipKind.REFUSED)
    if listing.writing is not None:
        return Skipped(what=what, why=f"{listing.writing}; try again when it is done", kind=SkipKind.REFUSED)
    bucket = bucket_name(file.name for file in listing.files)
    if bucket is not None:
        why = f"the name of {bucket} shows a bucketed table; rows of two buckets must not share a file"
        return Skipped(what=what, why=why, kind=SkipKind.REFUSED)
    return None


def plan_partition(
    listing: PartitionListing,
    selected: tuple[FileEntry, ...],
    facts: Mapping[str, FileFacts],
    *,
    options: HiveOptions,
    known_outputs: AbstractSet[str],
) -> PartitionPlan:
    """Decide the units of one partition; the same arguments always give the same plan."""
    skipped = [*_not_mergeable(listing, selected, facts)]
    usable = [file for file in selected if facts[file.name].verdict is Verdict.MERGEABLE]
    file_groups = group_files([facts[file.name] for file in usable])
    group_of = {found.name: key for group in file_groups for key in (group.key,) for found in group.files}
    groups: dict[str, int] = {}
    candidates = [
        Candidate(
            size_bytes=file.size_bytes,
            group=groups.setdefault(group_of[file.name], len(groups)),
            is_known_output=file.name in known_outputs,
        )
        for file in usable
    ]
    units: list[PlannedUnit] = []
    for answer in pick_small_files(candidates, small_files_options(options)):
        if isinstance(answer, Pick):
            inputs = tuple(usable[at] for at in answer.inputs)
            units.append(_unit(inputs, facts, answer, group=group_of[inputs[0].name]))
        else:
            what = listing.partition or listing.directory
            if answer.candidate is not None:
                name = usable[answer.candidate].name
                what = f"{listing.partition}/{name}" if listing.partition else name
            skipped.append(Skipped(what=what, why=answer.why, kind=SkipKind.NOT_NEEDED))
    if listing.header_lines(options.header_lines) is None:
        left = _why_left_alone(file_groups, units)
        what = listing.partition or listing.directory
        skipped += [Skipped(what=what, why=why, kind=SkipKind.LEFT_ALONE) for why in dict.fromkeys(left.values())]
        units = [unit for unit in units if unit.group not in left]
    return PartitionPlan(listing=listing, units=tuple(units), skipped=tuple(skipped))


def _unit(
    inputs: tuple[FileEntry, ...], facts: Mapping[str, FileFacts], pick: Pick[ExactSize], *, group: str
) -> PlannedUnit:
    first = facts[inputs[0].name]
    return PlannedUnit(
        inputs=inputs,
        how=MERGED_FORMATS[first.file_format],
        file_format=first.file_format,
        group=group,
        why=pick.why,
    )


def group_files(facts: Sequence[FileFacts]) -> tuple[FileGroup, ...]:
    """Group mergeable files that may be merged with each other; all text files of a kind decide if it is delimited."""
    kinds: dict[str, list[FileFacts]] = {}
    for found in facts:
        kinds.setdefault(found.group, []).append(found)
    groups: dict[tuple[str, Reading], list[FileFacts]] = {}
    for kind, files in kinds.items():
        shapes = [found.shape for found in files if found.shape is not None]
        if len(shapes) < len(files):
            groups[kind, FREE_TEXT] = files
            continue
        readings = _agree_on_readings(shapes)
        for found, reading in zip(files, readings, strict=True):
            groups.setdefault((kind, reading), []).append(found)
    return tuple(FileGroup(kind, reading, tuple(files)) for (kind, reading), files in groups.items())


def _agree_on_readings(shapes: Sequence[TextShape]) -> tuple[Reading, ...]:
    from packstone.tables.hive.text_facts import agree_on_readings

    return agree_on_readings(shapes)


def why_maybe_headed(files: Sequence[FileFacts]) -> str | None:
    """Say why files of a group may have a header; None if there is no sign.

    Give all files of the group, including those not picked now: the decision also holds for later rounds.
    """
    shapes = [found.shape for found in files if found.shape is not None]
    if not shapes:  # not text, or JSON lines
        return None
    from packstone.tables.hive.text_facts import why_maybe_header, why_ragged

    return why_maybe_header([found.first_lines for found in files]) or why_ragged(shapes)


def _why_left_alone(groups: Sequence[FileGroup], units: Sequence[PlannedUnit]) -> dict[str, str]:
    """Return the groups that are left alone until ``--header`` is given, with the reason."""
    picked = {unit.group for unit in units}
    found = {group.key: why for group in groups if group.key in picked and (why := why_maybe_headed(group.files))}
    for kind in dict.fromkeys(group.kind for group in groups):
        of_kind = [group for group in groups if group.kind == kind]
        kept = [unit for unit in units if unit.group not in found and unit.group in {group.key for group in of_kind}]
        if kept and (why := _why_other_first(of_kind, kept)):
            found |= {unit.group: why for unit in kept}
    return found


def _why_other_first(groups: Sequence[FileGroup], units: Sequence[PlannedUnit]) -> str | None:
    """Return why these merges must not be made: the first file would have another number of columns.

    None if it would not.
    """
    columns = {found.name: group.reading.columns for group in groups for found in group.files}
    widths = sorted({*columns.values()} - {RAGGED.columns})
    merged = {file.name for unit in units for file in unit.inputs}
    first, rest = min(columns), min(columns.keys() - merged, default="")
    output = next(group.reading.columns for group in groups if group.key == units[0].group)
    is_rest_first = rest and rest < f"{OUTPUT_PREFIX}~"  # includes our earlier outputs
    if (columns[rest] if is_rest_first else output) == columns[first]:
        return None
    return (
        f"its files have {' and '.join(map(str, widths))} columns, and another number would come first by name after a "
        "merge, where readers look for the columns of all files; give --header 0 to merge them anyway"
    )


def _not_mergeable(
    listing: PartitionListing, selected: tuple[FileEntry, ...], facts: Mapping[str, FileFacts]
) -> Iterator[Skipped]:
    for file in selected:
        found = facts[file.name]
        if found.verdict is Verdict.UNREADABLE:
            yield Skipped(what=_what(listing, file.name), why=found.why, kind=SkipKind.UNREADABLE)
        elif found.verdict is Verdict.LEFT_ALONE:
            yield Skipped(what=_what(listing, file.name), why=found.why, kind=SkipKind.LEFT_ALONE)


def _what(listing: PartitionListing, name: str) -> str:
    return f"{listing.partition}/{name}" if listing.partition else name


# Digits at the end of a name are a task id to Hive, which removes "duplicates" of one task (HIVE-17403); ours end
# in a letter.
OUTPUT_PREFIX = "packstone-"
_OUTPUT = re.compile(r"^packstone-(?P<run>\d{8}T\d{6}-[0-9a-f]{6})-\d{5,}m(\.|$)")
_CODEC_ENDINGS = frozenset({"gz", "bz2", "zst", "lz4", "snappy", "deflate"})


def output_name(run: str, unit: int, inputs: tuple[FileEntry, ...]) -> str:
    """Return the name of an output: run and unit, with the ending that the inputs share."""
    endings = [_whole_ending(file.name) for file in inputs]
    # Endings are compared without case; without an ending, readers would not know how a file is compressed.
    ending = endings[0] if len({one.lower() for one in endings}) == 1 else ""
    return f"{OUTPUT_PREFIX}{run}-{unit:05d}m{ending}"


def inner_ending(name: str) -> str:
    """Return the ending before that of a codec (``csv`` of ``x.csv.gz``), in lower case; empty if it is not a word."""
    stem, ending = posixpath.splitext(name)
    inner = posixpath.splitext(stem)[1][1:]
    return inner.lower() if ending[1:].lower() in _CODEC_ENDINGS and inner.isalpha() else ""


def _whole_ending(name: str) -> str:
    """Return the ending of a name, with the text ending before a codec's: readers use patterns like ``*.csv.gz``."""
    stem, ending = posixpath.splitext(name)
    return posixpath.splitext(stem)[1] + ending if inner_ending(name) else ending


def known_outputs(journal: Journal, listing: PartitionListing) -> frozenset[str]:
    """Return the names of the files in a partition that are unchanged outputs of recorded runs."""
    runs: dict[str, dict[str, tuple[int, int]]] = {}
    known: set[str] = set()
    for file in listing.files:
        match = _OUTPUT.match(file.name)
        if match is None:
            continue
        run = match.group("run")
        if run not in runs:
            runs[run] = _recorded(journal, run, listing.partition)
        size_bytes, mtime_ns = runs[run].get(file.name, (-1, 0))
        # Where a move is a copy, the file's time is that of the move.
        is_that_time = file.mtime_ns == mtime_ns or not journal.io.capabilities.atomic_rename
        if file.size_bytes == size_bytes and is_that_time:
            known.add(file.name)
    return frozenset(known)


def _recorded(journal: Journal, run: str, partition: str) -> dict[str, tuple[int, int]]:
    return {
        output.name: (output.size_bytes, output.mtime_ns)
        for intent in _readable_intents(journal, run, partition)
        if journal.has_mark(intent, "done")
        for output in intent.outputs
    }


def _readable_intents(journal: Journal, run: str, partition: str) -> Iterator[SwapIntent]:
    """Yield the intents of a run up to a damaged one: outputs without a record may be merged again like any file."""
    try:
        yield from journal.read_intents(run, partition=partition)
    except CorruptionError:
        return
