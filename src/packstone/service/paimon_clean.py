"""Give space back: files that dead runs left, and snapshots that are over with the files only they need."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packstone.errors import RefusedError
from packstone.runs.interrupts import finish_first
from packstone.tables.paimon.expire import expire, plan_expiry
from packstone.tables.paimon.leftovers import SAFE_AGE_SECONDS, find_leftovers, remove_leftovers
from packstone.tables.paimon.publish import check_can_publish
from packstone.tables.paimon.refusals import refuse_clean
from packstone.tables.paimon.retention import RetentionOptions
from packstone.tables.state_folder import find_state_folder

if TYPE_CHECKING:
    from packstone.tables.paimon.expire import ExpiryPlan
    from packstone.tables.paimon.leftovers import Leftovers
    from packstone.tables.paimon.store import PaimonStore

RUN_RECORD_SECONDS = 30 * 86_400  # a run on another machine is over by then, and the history knows it


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryRequest:
    """What to keep of the snapshots, where it differs from the table's own options."""

    retain_min: int | None = None
    retain_max: int | None = None
    older_than_seconds: float | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonCleanReport:
    """What was removed, or would be."""

    table: str
    dry_run: bool
    leftovers: Leftovers
    expiry: ExpiryPlan | None  # None: it was not asked for

    @property
    def files(self) -> int:
        """How many files go."""
        metadata = len(self.expiry.metadata_files) + len(self.expiry.expired) if self.expiry else 0
        data = len(self.expiry.data_files) if self.expiry else 0
        return len(self.leftovers.paths) + data + metadata

    @property
    def bytes(self) -> int:
        """How many bytes of data come back."""
        return self.leftovers.size_bytes + (self.expiry.data_bytes if self.expiry else 0)

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        doubtful = self.expiry is not None and self.expiry.in_doubt
        status = "planned" if self.dry_run else "cleaned"
        plain: dict[str, Any] = {
            "format_version": 1,
            "table": self.table,
            "family": "paimon",
            "status": "refused" if doubtful and not self.files else status if self.files else "nothing-to-do",
            "files": self.files,
            "bytes": self.bytes,
            "leftovers": list(self.leftovers.paths),
            "left_alone": [*self.leftovers.kept, *(self.expiry.left_alone if self.expiry else ())],
        }
        if self.expiry is not None:
            plain["snapshots_expired"] = list(self.expiry.expired)
            plain["first_snapshot_kept"] = self.expiry.first_retained
            plain["data_files"] = len(self.expiry.data_files)
            plain["metadata_files"] = len(self.expiry.metadata_files)
            plain["why_no_more"] = self.expiry.why
        return plain


class PaimonCleaner:
    """Plans first; removes only what the plan lists."""

    def __init__(self, store: PaimonStore, *, single_writer: bool = False) -> None:
        self._store, self._single_writer = store, single_writer

    def check_allowed(self) -> None:
        """Refuse to remove anything where another writer's commit could not be told from a lost one."""
        check_can_publish(self._store.io, self._store.path, single_writer=self._single_writer)

    def clean(self, *, dry_run: bool, expiry: ExpiryRequest | None = None) -> PaimonCleanReport:
        """Look, and unless it is a dry run, remove."""
        why = refuse_clean(self._store.schema)
        if why is not None:
            raise RefusedError(f"Nothing is removed from {self._store.path}: {why}.", table=self._store.path)
        report = self._plan(dry_run=dry_run, request=expiry)
        if dry_run:
            return report
        self.check_allowed()
        with finish_first():
            if report.expiry is not None and not report.expiry.in_doubt:
                expire(self._store.io, report.expiry)
            remove_leftovers(self._store.io, report.leftovers)
            self._forget_old_runs()
        return report

    def _forget_old_runs(self) -> None:
        """Remove the records of runs that are long over and have no file left to tell of."""
        io, runs = self._store.io, self._runs_folder
        try:
            names = [entry.name for entry in io.list_dir(runs)]
        except FileNotFoundError:
            return
        for name in names:
            info = io.stat(f"{runs}/{name}/run.json")
            is_old = info is not None and time.time() - info.mtime_ns / 1e9 > RUN_RECORD_SECONDS
            if is_old and not any(entry.name.startswith("created-") for entry in io.list_dir(f"{runs}/{name}")):
                io.remove_tree(f"{runs}/{name}")

    @property
    def _runs_folder(self) -> str:
        return f"{find_state_folder(self._store.io, self._store.path)}/runs"

    def _plan(self, *, dry_run: bool, request: ExpiryRequest | None) -> PaimonCleanReport:
        store = self._store
        leftovers = find_leftovers(
            store.io,
            store.path,
            runs_folder=self._runs_folder,
            now_seconds=time.time(),
            safe_age_seconds=SAFE_AGE_SECONDS,
        )
        planned = None
        if request is not None:
            planned = plan_expiry(store.io, store.path, self._retention(request), now_ms=int(time.time() * 1000))
        return PaimonCleanReport(table=store.path, dry_run=dry_run, leftovers=leftovers, expiry=planned)

    def _retention(self, request: ExpiryRequest) -> RetentionOptions:
        own = RetentionOptions.of(self._store.options)
        return replace(
            own,
            retained_min=own.retained_min if request.retain_min is None else request.retain_min,
            retained_max=own.retained_max if request.retain_max is None else request.retain_max,
            time_retained_ms=own.time_retained_ms
            if request.older_than_seconds is None
            else int(request.older_than_seconds * 1000),
            limit=own.limit if request.limit is None else request.limit,
        )
