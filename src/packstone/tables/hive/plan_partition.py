"""One partition's files in, units and skips out: the strategy applied to what the files are."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from packstone.model.skipped import SkipKind, Skipped
from packstone.strategy.pick import Pick
from packstone.strategy.small_files import Candidate, SmallFilesOptions, is_small, pick_small_files
from packstone.tables.hive.file_facts import MERGED_FORMATS
from packstone.tables.hive.file_verdict import Verdict
from packstone.tables.hive.header_line import why_maybe_header, why_ragged
from packstone.tables.hive.known_outputs import OUTPUT_PREFIX
from packstone.tables.hive.layout import KEPT_SUFFIX
from packstone.tables.hive.telling_names import bucket_name, newest_offsets
from packstone.tables.hive.text_shape import FREE_TEXT, RAGGED, Reading, agree_on_readings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from packstone.model.exact_size import ExactSize
    from packstone.model.files import FileEntry
    from packstone.model.merge_options import MergeOptions
    from packstone.model.unit import How
    from packstone.tables.hive.file_verdict import FileFacts
    from packstone.tables.hive.listing import PartitionListing

# A partition with more small files is merged in several rounds, so that a swap and its journal stay small.
MAX_FILES_A_ROUND = 10_000
_MAX_NAME_BYTES = 255  # what Linux and HDFS allow


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUnit:
    """One merge the plan asks for; it becomes a spec when a run takes it up."""

    inputs: tuple[FileEntry, ...]
    how: How
    file_format: str
    group: str
    why: str

    @property
    def input_bytes(self) -> int:
        """How much is read."""
        return sum(file.size_bytes for file in self.inputs)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that may be merged: of one kind, and of the same columns if they are delimited text."""

    kind: str
    reading: Reading
    files: tuple[FileFacts, ...]

    @property
    def key(self) -> str:
        """The line that its files share."""
        return f"{self.kind} {self.reading}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """What to do in one partition."""

    listing: PartitionListing
    units: tuple[PlannedUnit, ...]
    skipped: tuple[Skipped, ...]


def small_files_options(options: MergeOptions) -> SmallFilesOptions:
    """What the strategy needs of the options."""
    return SmallFilesOptions(
        threshold_bytes=options.threshold_bytes,
        target_bytes=options.target_bytes,
        min_files=options.min_files,
    )


def select_files(
    listing: PartitionListing, options: MergeOptions, *, now_seconds: float
) -> tuple[tuple[FileEntry, ...], tuple[Skipped, ...]]:
    """Choose the files worth looking into: small, old enough, not excluded."""
    chosen: list[FileEntry] = []
    skipped: list[Skipped] = []
    picking = small_files_options(options)
    offsets = newest_offsets(file.name for file in listing.files)
    for file in listing.files:
        what = _what(listing, file.name)
        if not is_small(file.size_bytes, picking):
            continue
        if len(f"{file.name}{KEPT_SUFFIX}".encode("utf-8", "surrogateescape")) > _MAX_NAME_BYTES:
            why = f"its name is too long to be kept with the ending {KEPT_SUFFIX}"
            skipped.append(Skipped(what=what, why=why, kind=SkipKind.LEFT_ALONE))
        elif file.name in offsets:
            why = "Kafka Connect finds its place in the topic by this name, the highest offset of its partition here"
            skipped.append(Skipped(what=what, why=why, kind=SkipKind.LEFT_ALONE))
        elif any(fnmatchcase(file.name, glob) for glob in options.exclude):
            skipped.append(Skipped(what=what, why="excluded by --exclude", kind=SkipKind.FILTERED))
        elif 0 < options.min_age_seconds > now_seconds - file.mtime_ns / 1e9:
            skipped.append(Skipped(what=what, why="younger than --min-age", kind=SkipKind.FILTERED))
        else:
            chosen.append(file)
    return tuple(chosen[:MAX_FILES_A_ROUND]), tuple(skipped)


def refuse_partition(listing: PartitionListing) -> Skipped | None:
    """Say why a partition as a whole must not be touched, if so."""
    what = listing.partition or listing.directory
    if listing.refused is not None:
        return Skipped(what=what, why=listing.refused, kind=SkipKind.REFUSED)
    if listing.writing is not None:
        return Skipped(what=what, why=f"{listing.writing}; try again when it is done", kind=SkipKind.REFUSED)
    bucket = bucket_name(file.name for file in listing.files)
    if bucket is not None:
        why = f"{bucket} is a bucket of a bucketed table by its name; rows of two buckets must not share a file"
        return Skipped(what=what, why=why, kind=SkipKind.REFUSED)
    return None


def plan_partition(
    listing: PartitionListing,
    selected: tuple[FileEntry, ...],
    facts: Mapping[str, FileFacts],
    *,
    options: MergeOptions,
    known_outputs: AbstractSet[str],
) -> PartitionPlan:
    """Decide the units of one partition; the same arguments always give the same plan."""
    skipped = [*_not_mergeable(listing, selected, facts)]
    usable = [file for file in selected if facts[file.name].verdict is Verdict.MERGEABLE]
    file_groups = group_files([facts[file.name] for file in usable])
    group_of = {found.name: group.key for group in file_groups for found in group.files}
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
        how=MERGED_FORMATS[first.file_format].how,
        file_format=first.file_format,
        group=group,
        why=pick.why,
    )


def group_files(facts: Sequence[FileFacts]) -> tuple[FileGroup, ...]:
    """Put mergeable files together that may be merged; whether text is delimited is seen from all files of its kind."""
    kinds: dict[str, list[FileFacts]] = {}
    for found in facts:
        kinds.setdefault(found.group, []).append(found)
    groups: dict[tuple[str, Reading], list[FileFacts]] = {}
    for kind, files in kinds.items():
        shapes = [found.shape for found in files if found.shape is not None]
        readings = agree_on_readings(shapes) if len(shapes) == len(files) else (FREE_TEXT,) * len(files)
        for found, reading in zip(files, readings, strict=True):
            groups.setdefault((kind, reading), []).append(found)
    return tuple(FileGroup(kind, reading, tuple(files)) for (kind, reading), files in groups.items())


def why_maybe_headed(files: Sequence[FileFacts]) -> str | None:
    """Ask all files of a group, those too that are not picked now: what is decided holds for later rounds as well."""
    shapes = [found.shape for found in files if found.shape is not None]
    return why_maybe_header([found.first_lines for found in files]) or why_ragged(shapes)


def _why_left_alone(groups: Sequence[FileGroup], units: Sequence[PlannedUnit]) -> dict[str, str]:
    """The groups that a plan would merge and that wait for ``--header``, with the reason."""
    picked = {unit.group for unit in units}
    found = {group.key: why for group in groups if group.key in picked and (why := why_maybe_headed(group.files))}
    for kind in dict.fromkeys(group.kind for group in groups):
        of_kind = [group for group in groups if group.kind == kind]
        kept = [unit for unit in units if unit.group not in found and unit.group in {group.key for group in of_kind}]
        if kept and (why := _why_other_first(of_kind, kept)):
            found |= {unit.group: why for unit in kept}
    return found


def _why_other_first(groups: Sequence[FileGroup], units: Sequence[PlannedUnit]) -> str | None:
    """Say whether the first file of a kind has another number of columns after these merges; None if not."""
    columns = {found.name: group.reading.columns for group in groups for found in group.files}
    widths = sorted({*columns.values()} - {RAGGED.columns})
    merged = {file.name for unit in units for file in unit.inputs}
    first, rest = min(columns), min(columns.keys() - merged, default="")
    output = next(group.reading.columns for group in groups if group.key == units[0].group)
    is_rest_first = rest and rest < f"{OUTPUT_PREFIX}~"  # earlier outputs of ours, too
    if (columns[rest] if is_rest_first else output) == columns[first]:
        return None
    return (
        f"its files have {' and '.join(map(str, widths))} columns, and another number would come first by name after a "
        "merge, where readers look for the columns of all files; give --header 0 to merge them nevertheless"
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
