"""Remove originals whose retention has expired: by recorded name, size and time, never by a wildcard (hazard 41)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packstone.errors import CommitUnknownError, ConflictError, CorruptionError
from packstone.model.sizes import format_bytes, plural
from packstone.runs.clock import now_seconds
from packstone.runs.interrupts import finish_first
from packstone.tables.hive.journal import Journal, Mark, SwapIntent, check_reachable, remove_empty_backup
from packstone.tables.hive.recover import find_later_run, is_as_recorded, is_ended
from packstone.tables.hive.relocate import remove_empty_version, why_not_cleaned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.tables.hive.commit import Claims
    from packstone.tables.hive.relocate import LocationCatalog


RECORD_SECONDS = 30 * 86_400  # people ask weeks later what a run did, and whether it can still be undone


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """The originals of one swap that can be removed, and those that differ from the record and stay."""

    intent: SwapIntent
    paths: tuple[str, ...]
    size_bytes: int
    changed: tuple[str, ...]
    missing: tuple[str, ...] = ()  # merged files changed since they were published: originals may be the only copy
    new_folder: bool = False  # not originals, but the new folder of an undone relocation


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanFailure:
    """A run whose files all stay, and why: if in doubt, nothing is deleted."""

    run: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveClean:
    """The files of a table that were removed, or would be."""

    table: str
    runs: tuple[str, ...]
    files: int
    bytes: int
    changed: tuple[str, ...]
    kept_runs: int
    busy: tuple[str, ...] = ()  # partitions that another run owns; the next clean removes their originals
    damaged: tuple[str, ...] = ()  # records that cannot be read; the files they describe stay

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        return not self.runs

    @property
    def problems(self) -> tuple[str, ...]:
        """Records that cannot be read."""
        return self.damaged

    @property
    def refused(self) -> str:
        """Always empty: no request is refused."""
        return ""

    def describe(self) -> str:
        """Summarise what is removed."""
        return f"{plural(self.files, 'original')} of {plural(len(self.runs), 'run')}, {format_bytes(self.bytes)}"

    def notes(self) -> tuple[str, ...]:
        """Return lines about what was left alone and what is still kept."""
        lines = [f"left alone, it is not the file that was recorded: {path}" for path in self.changed]
        lines += [f"left alone: {why}" for why in self.damaged]
        lines += [f"left for the next time: {why}" for why in self.busy]
        if self.kept_runs:
            are = "is still within its" if self.kept_runs == 1 else "are still within their"
            lines.append(f"{plural(self.kept_runs, 'run')} {are} retention (--keep-days).")
        return tuple(lines)

    def to_json(self, *, dry_run: bool = False) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "family": "hive",
            "status": "nothing-to-do" if not self.runs else "planned" if dry_run else "cleaned",
            "runs": list(self.runs),
            "files": self.files,
            "bytes": self.bytes,
            "left_alone": [*self.changed, *self.damaged],
            "busy": list(self.busy),
            "runs_still_kept": self.kept_runs,
        }


def plan_table_clean(journal: Journal, *, catalog: LocationCatalog | None) -> HiveClean:
    """Report the originals whose retention has expired; nothing is changed."""
    now = now_seconds()
    return _report(journal, list(plan_clean(journal, now_seconds=now, catalog=catalog)), now=now)


def clean_table(claims: Claims, *, catalog: LocationCatalog | None) -> HiveClean:
    """Remove expired originals, swap by swap; a partition that another run owns is left for the next clean."""
    journal, now = claims.journal, now_seconds()
    planned: list[Cleaning | CleanFailure] = []
    busy: list[str] = []
    for cleaning in plan_clean(journal, now_seconds=now, catalog=catalog):
        if isinstance(cleaning, CleanFailure) or cleaning.missing:
            planned.append(cleaning)
            continue
        try:
            claims.claim(cleaning.intent.partition)
        except ConflictError as conflict:
            busy.append(conflict.message)
            continue
        with finish_first():
            was_ours = clean_swap(journal, cleaning, now_seconds=now)
            claims.release(cleaning.intent.partition)
        planned += [cleaning] if was_ours else []
    close_runs(journal, now_seconds=claims.run.store_now())
    return replace(_report(journal, planned, now=now), busy=tuple(busy))


def _report(journal: Journal, found: list[Cleaning | CleanFailure], *, now: float) -> HiveClean:
    planned = [one for one in found if isinstance(one, Cleaning)]
    damaged = {one.run: one.why for one in found if isinstance(one, CleanFailure)}
    runs = {cleaning.intent.run for cleaning in planned if not cleaning.missing}
    kept = {
        intent.run
        for run in runs_to_clean(journal)
        if run not in damaged
        for intent in journal.read_intents(run)
        if _is_kept(journal, intent, now=now)
    }
    return HiveClean(
        table=journal.layout.root,
        runs=tuple(sorted(runs)),
        files=sum(len(cleaning.paths) for cleaning in planned),
        bytes=sum(cleaning.size_bytes for cleaning in planned),
        changed=tuple(path for cleaning in planned for path in (*cleaning.changed, *cleaning.missing)),
        kept_runs=len(kept),
        damaged=tuple(damaged.values()),
    )


def _is_kept(journal: Journal, intent: SwapIntent, *, now: float) -> bool:
    left = left_until(journal, intent)
    if left is not None and left > now:
        return True
    return intent.keep_until > now and journal.has_mark(intent, "done") and not journal.has_mark(intent, "restored")


def runs_to_clean(journal: Journal) -> Iterator[str]:
    """Yield the runs for which something may be left to clean; one stat finds out whether a run is closed."""
    return (run for run in journal.list_runs() if journal.closed_at(run) is None)


def close_runs(journal: Journal, *, now_seconds: float) -> None:
    """Close ended runs whose swaps are all cleaned, restored or undone; remove the records of runs closed long ago."""
    for run in journal.list_runs():
        closed_at = journal.closed_at(run)
        if closed_at is not None:
            if now_seconds - closed_at > RECORD_SECONDS:
                journal.io.remove_tree(journal.layout.run(run))
        elif is_ended(journal, run) and _is_settled(journal, run):
            journal.close_run(run)


def _is_settled(journal: Journal, run: str) -> bool:
    """Whether a run has swaps and none of them waits for a clean; False if a record cannot be read."""
    if journal.io.stat(journal.layout.staging(run)) is not None:
        return False  # kept as evidence
    try:
        intents = tuple(journal.read_intents(run))
    except CorruptionError:
        return False
    return bool(intents) and all(_is_swap_settled(journal, intent) for intent in intents)


def _is_swap_settled(journal: Journal, intent: SwapIntent) -> bool:
    return journal.has_mark(intent, "cleaned", "restored", "undone") and left_until(journal, intent) is None


def plan_clean(
    journal: Journal, *, now_seconds: float, catalog: LocationCatalog | None = None
) -> Iterator[Cleaning | CleanFailure]:
    """Yield, swap by swap, the originals whose retention has expired, or why a run's originals stay."""
    for run in runs_to_clean(journal):
        try:
            for intent in journal.read_intents(run):
                yield from _plan_swap(journal, intent, now_seconds=now_seconds, catalog=catalog)
        except (CorruptionError, CommitUnknownError) as error:
            yield CleanFailure(run=run, why=error.message)


def _plan_swap(
    journal: Journal, intent: SwapIntent, *, now_seconds: float, catalog: LocationCatalog | None
) -> Iterator[Cleaning]:
    left = left_until(journal, intent)
    if left is not None and now_seconds >= left:
        check_reachable(journal.io, journal.layout, intent)
        yield _inspect_new_folder(journal, intent, catalog)
    if now_seconds < intent.keep_until or not journal.has_mark(intent, "done"):
        return
    # A restore that began needs these files to finish.
    if journal.has_mark(intent, "restoring", "restored", "cleaned"):
        return
    check_reachable(journal.io, journal.layout, intent)
    why_not = why_not_cleaned(intent, catalog) if intent.switch is not None else None
    if why_not is not None:
        yield Cleaning(intent=intent, paths=(), size_bytes=0, changed=(), missing=(why_not,))
    else:
        yield _inspect_originals(journal, intent)


def left_until(journal: Journal, intent: SwapIntent) -> float | None:
    """Return until when the new folder of an undone relocation stays (as long as an old one); None if there is none."""
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

    The mark is written first: from then on ``restore`` refuses, so a partly removed run is never undone.
    """
    intent = cleaning.intent
    if cleaning.new_folder and not cleaning.missing:
        return _empty_new_folder(journal, cleaning, now_seconds=now_seconds)
    if cleaning.missing or journal.has_mark(intent, "restoring", "restored", "cleaned"):
        return False  # in doubt; or another run was first, between the plan and our claim
    journal.write_mark(intent, "cleaning", Mark(at=now_seconds))
    for path in cleaning.paths:
        journal.io.remove(path)
    remove_empty_backup(journal.io, intent)
    journal.write_mark(intent, "cleaned", Mark(at=now_seconds))
    return True


def _inspect_new_folder(journal: Journal, intent: SwapIntent, catalog: LocationCatalog | None) -> Cleaning:
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
        return False  # another run was first
    for path in cleaning.paths:
        journal.io.remove(path)
    remove_empty_version(journal.io, cleaning.intent)
    journal.write_mark(cleaning.intent, "emptied", Mark(at=now_seconds))
    return True


def _missing(journal: Journal, intent: SwapIntent) -> tuple[str, ...]:
    """Return the outputs that are neither unchanged since they were published nor merged again by a later run."""
    return tuple(
        intent.published(output)
        for output in intent.outputs
        if not is_as_recorded(journal.io, intent, output) and find_later_run(journal, intent, output) is None
    )


def _inspect_originals(journal: Journal, intent: SwapIntent) -> Cleaning:
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
