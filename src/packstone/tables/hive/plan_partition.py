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
from packstone.tables.hive.header_line import why_maybe_header
from packstone.tables.hive.layout import KEPT_SUFFIX
from packstone.tables.hive.telling_names import bucket_name, newest_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
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
    groups: dict[str, int] = {}
    candidates = [
        Candidate(
            size_bytes=file.size_bytes,
            group=groups.setdefault(facts[file.name].group, len(groups)),
            is_known_output=file.name in known_outputs,
        )
        for file in usable
    ]
    units: list[PlannedUnit] = []
    for answer in pick_small_files(candidates, small_files_options(options)):
        if isinstance(answer, Pick):
            inputs = tuple(usable[at] for at in answer.inputs)
            units.append(_unit(inputs, facts, answer))
        else:
            what = listing.partition or listing.directory
            if answer.candidate is not None:
                name = usable[answer.candidate].name
                what = f"{listing.partition}/{name}" if listing.partition else name
            skipped.append(Skipped(what=what, why=answer.why, kind=SkipKind.NOT_NEEDED))
    if listing.header_lines(options.header_lines) is None:
        maybe_headed = {unit.group: why for unit in units if (why := _why_maybe_header(unit.group, usable, facts))}
        what = listing.partition or listing.directory
        skipped += [Skipped(what=what, why=why, kind=SkipKind.LEFT_ALONE) for why in maybe_headed.values()]
        units = [unit for unit in units if unit.group not in maybe_headed]
    return PartitionPlan(listing=listing, units=tuple(units), skipped=tuple(skipped))


def _unit(inputs: tuple[FileEntry, ...], facts: Mapping[str, FileFacts], pick: Pick[ExactSize]) -> PlannedUnit:
    first = facts[inputs[0].name]
    return PlannedUnit(
        inputs=inputs,
        how=MERGED_FORMATS[first.file_format].how,
        file_format=first.file_format,
        group=first.group,
        why=pick.why,
    )


def _why_maybe_header(group: str, files: list[FileEntry], facts: Mapping[str, FileFacts]) -> str | None:
    """Ask all files of a group, those too that are not picked now: what is decided holds for later rounds as well."""
    of_group = (facts[file.name] for file in files if facts[file.name].group == group)
    return why_maybe_header([found.first_line for found in of_group if found.first_line is not None])


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
