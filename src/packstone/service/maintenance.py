"""The commands around a merge: recover, restore, clean, and proving a run again."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from packstone.errors import ConflictError, CorruptionError, InvalidInputError
from packstone.model.unit import Verify
from packstone.rewrite.proof.fingerprint import Fingerprint
from packstone.runs.interrupts import finish_first
from packstone.runs.tasks import check_done, pack_units
from packstone.service.run_session import RunSession
from packstone.tables.hive.clean import Cleaning, Unclean, clean_swap, close_runs, left_until, plan_clean, runs_to_clean
from packstone.tables.hive.fingerprint_files import FilesToProve, Proof
from packstone.tables.hive.recover import list_plans, recover_table, unexplained_backups
from packstone.tables.hive.restore import plan_restore, restore_swap, who_merged
from packstone.tables.hive.tasks import PROOF_JOB
from packstone.tables.state_folder import make_staging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packstone.runs.engine import Engine
    from packstone.tables.hive.journal import Journal, OutputFile, SwapIntent
    from packstone.tables.hive.recover import Recovered
    from packstone.tables.hive.switch import LocationCatalog


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverReport:
    """What was mended."""

    table: str
    actions: tuple[str, ...]
    left: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        status = "recovered" if self.actions else "nothing-to-do"
        return {
            "format_version": 1,
            "table": self.table,
            "status": "conflict" if self.left else status,
            "actions": list(self.actions),
            "left_alone": list(self.left),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What was undone."""

    table: str
    run: str
    partitions: tuple[str, ...]
    files_restored: int
    files_removed: int
    bytes_restored: int

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "run": self.run,
            "status": "restored" if self.partitions else "nothing-to-do",
            "partitions": list(self.partitions),
            "files_restored": self.files_restored,
            "files_removed": self.files_removed,
            "bytes_restored": self.bytes_restored,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanReport:
    """What was removed, or would be."""

    table: str
    dry_run: bool
    runs: tuple[str, ...]
    files: int
    bytes: int
    changed: tuple[str, ...]
    kept_runs: int
    busy: tuple[str, ...] = ()  # partitions that somebody works on, left for the next time
    damaged: tuple[str, ...] = ()  # records that cannot be used; what they describe stays

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        status = "nothing-to-do" if not self.runs else "planned" if self.dry_run else "cleaned"
        return {
            "format_version": 1,
            "table": self.table,
            "status": status,
            "runs": list(self.runs),
            "files": self.files,
            "bytes": self.bytes,
            "left_alone": [*self.changed, *self.damaged],
            "busy": list(self.busy),
            "runs_still_kept": self.kept_runs,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What was proved of a run."""

    table: str
    run: str
    proved: int
    originals_read: int
    problems: tuple[str, ...]
    rows: int

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "format_version": 1,
            "table": self.table,
            "run": self.run,
            "status": "failed" if self.problems else "verified",
            "files": self.proved,
            "files_with_originals": self.originals_read,
            "rows": self.rows,
            "problems": list(self.problems),
        }


def recover(journal: Journal, *, take_over: bool, catalog: LocationCatalog | None = None) -> RecoverReport:
    """Finish or undo what dead runs left; that there is nothing to do is a fine answer."""
    found: tuple[Recovered, ...] = ()
    if journal.list_runs() or list_plans(journal):
        with RunSession(journal, command="recover", take_over=take_over) as session, finish_first():
            found = recover_table(
                journal, me=session.me, now_seconds=session.store_now(), take_over=take_over, catalog=catalog
            )
    named = {one.run for one in found if one.is_damaged}
    found += tuple(one for one in unexplained_backups(journal) if one.run not in named)
    left = tuple(str(one) for one in found if one.action.startswith("left alone"))
    actions = tuple(str(one) for one in found if not one.action.startswith("left alone"))
    return RecoverReport(table=journal.layout.root, actions=actions, left=left)


def recover_first(
    session: RunSession, *, take_over: bool = False, catalog: LocationCatalog | None = None
) -> tuple[Recovered, ...]:
    """Recover before a run changes anything; CorruptionError if it cannot be known what is half done."""
    with finish_first():
        found = recover_table(
            session.journal, me=session.me, now_seconds=session.store_now(), take_over=take_over, catalog=catalog
        )
    for one in found:
        if one.is_damaged:
            raise CorruptionError(f"Nothing was changed: {one}.", run=one.run)
    return found


def restore(
    journal: Journal, run: str, *, partition: str, take_over: bool, catalog: LocationCatalog | None = None
) -> RestoreReport:
    """Undo one run, at or below a partition: all of it, or nothing if a part of it cannot be."""
    if run not in journal.list_runs():
        raise InvalidInputError(f"There is no run {run} of {journal.layout.root}; `packstone history` lists the runs.")
    with RunSession(journal, command="restore", take_over=take_over, restores=run) as session:
        recover_first(session, take_over=take_over, catalog=catalog)
        first = plan_restore(journal, run, partition=partition, catalog=catalog)
        for claimed in sorted({intent.partition for intent in first}):
            session.claim(claimed)
        swaps = plan_restore(journal, run, partition=partition, catalog=catalog)
        for intent in swaps:
            with finish_first():
                session.check_owned(intent.partition)
                restore_swap(journal, intent, by=session.run, now_seconds=time.time(), catalog=catalog)
    return RestoreReport(
        table=journal.layout.root,
        run=run,
        partitions=tuple(sorted({intent.partition for intent in swaps})),
        files_restored=sum(len(intent.inputs) for intent in swaps),
        files_removed=sum(len(intent.outputs) for intent in swaps if intent.switch is None),
        bytes_restored=sum(file.size_bytes for intent in swaps for file in intent.inputs),
    )


def clean(journal: Journal, *, dry_run: bool, catalog: LocationCatalog | None = None) -> CleanReport:
    """Remove originals whose time is over, by recorded names."""
    now = time.time()
    if dry_run or not journal.list_runs():
        found = list(plan_clean(journal, now_seconds=now, catalog=catalog))
        return _clean_report(journal, found, dry_run=dry_run, now=now)
    with RunSession(journal, command="clean") as session:
        recover_first(session, catalog=catalog)
        planned: list[Cleaning | Unclean] = []
        busy: list[str] = []
        for cleaning in plan_clean(journal, now_seconds=now, catalog=catalog):
            if isinstance(cleaning, Unclean) or cleaning.missing:
                planned.append(cleaning)
                continue
            try:
                session.claim(cleaning.intent.partition)
            except ConflictError as conflict:
                busy.append(conflict.message)
                continue
            with finish_first():
                was_ours = clean_swap(journal, cleaning, now_seconds=now)
                session.release(cleaning.intent.partition)
            planned += [cleaning] if was_ours else []
        close_runs(journal, now_seconds=session.store_now())
    return replace(_clean_report(journal, planned, dry_run=False, now=now), busy=tuple(busy))


def _clean_report(journal: Journal, found: list[Cleaning | Unclean], *, dry_run: bool, now: float) -> CleanReport:
    planned = [one for one in found if isinstance(one, Cleaning)]
    damaged = {one.run: one.why for one in found if isinstance(one, Unclean)}
    runs = {cleaning.intent.run for cleaning in planned if not cleaning.missing}
    kept = {
        intent.run
        for run in runs_to_clean(journal)
        if run not in damaged
        for intent in journal.read_intents(run)
        if _is_kept(journal, intent, now=now)
    }
    return CleanReport(
        table=journal.layout.root,
        dry_run=dry_run,
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


def verify(journal: Journal, run: str, *, engine: Engine) -> VerifyReport:
    """Fingerprint the run's outputs again, and its originals while they are kept, and compare with the record."""
    if run not in journal.list_runs():
        raise InvalidInputError(f"There is no run {run} of {journal.layout.root}; `packstone history` lists the runs.")
    claims = list(_claims_to_prove(journal, run))
    problems = [f"{path}: the merged file is gone, and no run of ours took it" for path in _lost(journal, run)]
    if not claims and not problems:
        raise InvalidInputError(f"Run {run} has no merged files left to prove: it was restored, or merged again.")
    with RunSession(journal, command="verify") as session:
        staging = session.layout.staging(session.run)
        make_staging(journal.io, journal.layout.state, staging)
        units = [files for _, _, to_prove in claims for files in to_prove]
        tasks = pack_units(units, context=None, parallel=len(units))
        proofs: dict[int, Proof] = {}
        for result in engine.run(
            PROOF_JOB, tasks, staging=staging, what=f"verify {run}", on_progress=lambda _units, _bytes: None
        ):
            check_done(result)
            proofs[result.number] = result.outputs[0]
        for intent, output, to_prove in claims:
            found = [proofs[files.number] for files in to_prove]
            problems.extend(_problems(intent, output, [(proof.fingerprint, proof.error) for proof in found]))
    return VerifyReport(
        table=journal.layout.root,
        run=run,
        proved=len(claims),
        originals_read=sum(1 for claim in claims if len(claim[2]) > 1),
        problems=tuple(problems),
        rows=sum(output.rows for _, output, _ in claims),
    )


def _claims_to_prove(journal: Journal, run: str) -> Iterator[tuple[SwapIntent, OutputFile, list[FilesToProve]]]:
    numbers = count()
    for intent in journal.read_intents(run):
        if not journal.has_mark(intent, "done") or journal.has_mark(intent, "restored"):
            continue
        by_name = {file.name: file for file in intent.inputs}
        for output in intent.outputs:
            if journal.io.stat(intent.published(output)) is None:
                continue
            prove = partial(FilesToProve, file_format=output.merged_as, written=output.written)
            files = [prove(number=next(numbers), paths=(intent.published(output),))]
            kept = tuple(intent.kept(by_name[name]) for name in output.inputs)
            if all(journal.io.stat(path) is not None for path in kept):
                files.append(prove(number=next(numbers), paths=kept))
            yield intent, output, files


def _lost(journal: Journal, run: str) -> Iterator[str]:
    """Name the outputs of a run that should be there and are not."""
    for intent in journal.read_intents(run):
        if journal.has_mark(intent, "done") and not journal.has_mark(intent, "restored"):
            for output in intent.outputs:
                gone = journal.io.stat(intent.published(output)) is None
                if gone and who_merged(journal, intent, output) is None:
                    yield intent.published(output)


def _problems(intent: SwapIntent, output: OutputFile, found: list[tuple[str, str]]) -> Iterator[str]:
    readable = [fingerprint for fingerprint, error in found if not error]
    if output.verified == Verify.COUNT and len(set(readable)) > 1:
        yield f"{intent.published(output)}: the merged file holds {readable[0]}, its originals {readable[1]}"
    for which, (fingerprint, error) in zip(("the merged file", "its originals"), found, strict=False):
        if error:
            yield f"{intent.published(output)}: {which} cannot be read: {error}"
        elif not _agrees(fingerprint, output):
            yield f"{intent.published(output)}: {which} hold {fingerprint}, recorded were {output.fingerprint}"


def _agrees(fingerprint: str, output: OutputFile) -> bool:
    if output.verified == Verify.COUNT:
        return Fingerprint.parse(fingerprint).rows == output.rows
    return fingerprint == output.fingerprint
