"""Remove originals whose time is over: by recorded name, size and time, never by a wildcard (hazard 41)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packstone.errors import CommitUnknownError, CorruptionError
from packstone.tables.hive.journal import Journal, Mark, SwapIntent, check_reachable, remove_empty_backup
from packstone.tables.hive.recover import is_ended
from packstone.tables.hive.restore import is_as_recorded, who_merged
from packstone.tables.hive.switch import remove_empty_version, why_not_cleaned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.tables.hive.switch import LocationCatalog


RECORD_SECONDS = 30 * 86_400  # people ask weeks later what a run did, and whether it can still be undone


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """The originals of one swap that may go, and those that differ from the record and stay."""

    intent: SwapIntent
    paths: tuple[str, ...]
    size_bytes: int
    changed: tuple[str, ...]
    missing: tuple[str, ...] = ()  # merged files that are not what was published: the originals may be all there is
    new_folder: bool = False  # not originals, but what was published by location and undone


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclean:
    """A run of which nothing is removed, and why: nothing is deleted on doubt."""

    run: str
    why: str


def runs_to_clean(journal: Journal) -> Iterator[str]:
    """Name the runs for which something is left to clean; one stat tells of each that is closed."""
    return (run for run in journal.list_runs() if journal.closed_at(run) is None)


def close_runs(journal: Journal, *, now_seconds: float) -> None:
    """Close ended runs whose swaps are all cleaned, restored or undone; forget those that were closed long ago."""
    for run in journal.list_runs():
        closed_at = journal.closed_at(run)
        if closed_at is not None:
            if now_seconds - closed_at > RECORD_SECONDS:
                journal.io.remove_tree(journal.layout.run(run))
        elif is_ended(journal, run) and _is_settled(journal, run):
            journal.close_run(run)


def _is_settled(journal: Journal, run: str) -> bool:
    """Whether a run has swaps, and nothing of any of them waits for a clean; not if a record cannot be read."""
    if journal.io.stat(journal.layout.staging(run)) is not None:
        return False  # kept as evidence
    try:
        intents = tuple(journal.read_intents(run))
    except CorruptionError:
        return False
    return bool(intents) and all(_is_over(journal, intent) for intent in intents)


def _is_over(journal: Journal, intent: SwapIntent) -> bool:
    return journal.has_mark(intent, "cleaned", "restored", "undone") and left_until(journal, intent) is None


def plan_clean(
    journal: Journal, *, now_seconds: float, catalog: LocationCatalog | None = None
) -> Iterator[Cleaning | Unclean]:
    """Yield, swap by swap, what is kept beyond its time; or why a run's originals stay."""
    for run in runs_to_clean(journal):
        try:
            for intent in journal.read_intents(run):
                yield from _plan_swap(journal, intent, now_seconds=now_seconds, catalog=catalog)
        except (CorruptionError, CommitUnknownError) as error:
            yield Unclean(run=run, why=error.message)


def _plan_swap(
    journal: Journal, intent: SwapIntent, *, now_seconds: float, catalog: LocationCatalog | None
) -> Iterator[Cleaning]:
    left = left_until(journal, intent)
    if left is not None and now_seconds >= left:
        check_reachable(journal.io, journal.layout, intent)
        yield _look_at_new_folder(journal, intent, catalog)
    if now_seconds < intent.keep_until or not journal.has_mark(intent, "done"):
        return
    # A restore that began must be finished from these very files.
    if journal.has_mark(intent, "restoring", "restored", "cleaned"):
        return
    check_reachable(journal.io, journal.layout, intent)
    why_not = why_not_cleaned(intent, catalog) if intent.switch is not None else None
    if why_not is not None:
        yield Cleaning(intent=intent, paths=(), size_bytes=0, changed=(), missing=(why_not,))
    else:
        yield _look(journal, intent)


def left_until(journal: Journal, intent: SwapIntent) -> float | None:
    """Until when the new folder of a switch that was undone stays: as long as an old one; None if there is none."""
    if intent.switch is None or journal.has_mark(intent, "emptied"):
        return None
    restored, undone = (journal.read_mark(intent, name) for name in ("restored", "undone"))
    if undone is not None and undone.left:
        return intent.keep_until
    done = journal.read_mark(intent, "done")
    if restored is None or done is None or not restored.left:
        return None
    return restored.at + max(0.0, intent.keep_until - done.at)


def clean_swap(journal: Journal, cleaning: Cleaning, *, now_seconds: float) -> bool:
    """Remove the files of one swap; running it again after a crash removes the rest. False if nothing was removed.

    The mark comes first: from then on ``restore`` refuses, so nobody starts to undo a run that is half gone.
    """
    intent = cleaning.intent
    if cleaning.new_folder and not cleaning.missing:
        return _empty_new_folder(journal, cleaning, now_seconds=now_seconds)
    if cleaning.missing or journal.has_mark(intent, "restoring", "restored", "cleaned"):
        return False  # nothing is deleted on doubt; or somebody was quicker, between the plan and our claim
    journal.write_mark(intent, "cleaning", Mark(at=now_seconds))
    for path in cleaning.paths:
        journal.io.remove(path)
    remove_empty_backup(journal.io, intent)
    journal.write_mark(intent, "cleaned", Mark(at=now_seconds))
    return True


def _look_at_new_folder(journal: Journal, intent: SwapIntent, catalog: LocationCatalog | None) -> Cleaning:
    why_not = why_not_cleaned(intent, catalog, new=True)
    mark = journal.read_mark(intent, "restored") or journal.read_mark(intent, "undone")
    if why_not is not None or mark is None or intent.switch is None:
        return Cleaning(intent=intent, paths=(), size_bytes=0, changed=(), missing=(why_not or "",), new_folder=True)
    found = [(f"{intent.switch.folder}/{file.name}", file) for file in mark.left]
    stats = {path: (journal.io.stat(path), file) for path, file in found}
    same = [
        path
        for path, (stat, file) in stats.items()
        if stat is not None and (stat.size_bytes, stat.mtime_ns) == (file.size_bytes, file.mtime_ns)
    ]
    return Cleaning(
        intent=intent,
        paths=tuple(same),
        size_bytes=sum(stats[path][1].size_bytes for path in same),
        changed=tuple(path for path, (stat, _) in stats.items() if stat is not None and path not in same),
        new_folder=True,
    )


def _empty_new_folder(journal: Journal, cleaning: Cleaning, *, now_seconds: float) -> bool:
    if journal.has_mark(cleaning.intent, "emptied"):
        return False  # somebody was quicker
    for path in cleaning.paths:
        journal.io.remove(path)
    remove_empty_version(journal.io, cleaning.intent)
    journal.write_mark(cleaning.intent, "emptied", Mark(at=now_seconds))
    return True


def _missing(journal: Journal, intent: SwapIntent) -> tuple[str, ...]:
    """Name the outputs that are neither as they were published nor merged again by us."""
    return tuple(
        intent.published(output)
        for output in intent.outputs
        if not is_as_recorded(journal.io, intent, output) and who_merged(journal, intent, output) is None
    )


def _look(journal: Journal, intent: SwapIntent) -> Cleaning:
    io = journal.io
    missing = _missing(journal, intent)
    if missing and not journal.has_mark(intent, "cleaning"):
        return Cleaning(intent=intent, paths=(), size_bytes=0, changed=(), missing=missing)
    paths: list[str] = []
    changed: list[str] = []
    size_bytes = 0
    for file in (*intent.inputs, *(intent.switch.copies if intent.switch is not None else ())):
        kept = intent.kept(file)
        found = io.stat(kept)
        if found is None:
            continue
        if (found.size_bytes, found.mtime_ns) == (file.size_bytes, file.mtime_ns):
            paths.append(kept)
            size_bytes += found.size_bytes
        else:
            changed.append(kept)
    for number in range(len(intent.summaries)):
        found = io.stat(intent.kept_summary(number))
        if found is not None:
            paths.append(intent.kept_summary(number))
            size_bytes += found.size_bytes
    return Cleaning(intent=intent, paths=tuple(paths), size_bytes=size_bytes, changed=tuple(changed))
