"""The base class of tables with immutable files and optimistic commits.

A version of such a table is published atomically, under a number that only one writer can take. So nothing is claimed,
nothing is half done, and a dead run leaves at most files that its run folder names. A family adds how it plans, writes
and publishes; pipeline/contract.py describes each method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from packstone.model.unit import OutputT
from packstone.model.work import PlanT, UnitT
from packstone.runs.folder import RunFolders, end_dead_runs
from packstone.storage.store_checks import check_exclusive

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packstone.model.maintenance import PublishedRun, Recovered
    from packstone.runs.folder import Run, WaveRecord
    from packstone.runs.tasks import Job
    from packstone.storage.fileio import FileIO


class OptimisticTable(Generic[PlanT, UnitT, OutputT]):
    """One table, opened for one command."""

    job: Job[Any, UnitT, OutputT]
    one_commit = True
    whole_parts = True
    io: FileIO
    root: str
    state: str

    @property
    def output_home(self) -> str:
        """The table's folder: data files are written directly to their final place."""
        return self.root

    @property
    def folders(self) -> RunFolders:
        """The records of all runs on the table."""
        return RunFolders(io=self.io, state=self.state)

    def warnings(self) -> tuple[str, ...]:
        """Return no warnings."""
        return ()

    def check_allowed(self) -> None:
        """Do nothing: every table may be compacted."""

    def check_writable(self) -> None:
        """Refuse a store on which two writers could both publish the same version."""
        check_exclusive(self.io, self.state, what="version")

    def begin(self, run: Run) -> Sequence[Recovered]:
        """End dead runs."""
        return self.recover(run)

    def recover(self, run: Run) -> Sequence[Recovered]:
        """End dead runs; the files they created are recorded by name, and `clean` removes them."""
        return tuple(end_dead_runs(run))

    def is_half_done(self, run_id: str) -> bool:
        """Return False: a version is either published or not."""
        return False

    def claim(self, plans: Sequence[PlanT], run: Run) -> Mapping[str, str]:
        """Claim nothing: two runs at once waste work, but lose no data."""
        return {}

    def release(self, plans: Sequence[PlanT], run: Run, *, unfinished: bool) -> None:
        """Do nothing: nothing was claimed."""

    def label(self, part: str, name: str) -> str:
        """Return the label of a file of a part."""
        return f"{part}/{name}" if name else part

    def changed_input(self, unit: UnitT) -> str | None:
        """Return None: data files never change."""
        return None

    def finish(self, run: Run) -> None:
        """Do nothing: a publish is complete by itself."""

    def find_committed(self, wave: WaveRecord[Any, UnitT, OutputT]) -> frozenset[str]:
        """Return the parts of a recorded wave that were published, according to the table itself."""
        raise NotImplementedError

    def read_published(self, run_id: str) -> PublishedRun:
        """Return what a run published, from its records and the versions of the table."""
        return self.folders.read_published(run_id, self.job, self.find_committed)

    def own_options(self) -> Mapping[str, str]:
        """Return no options: the table sets none."""
        return {}

    def measure_reads(self, run_id: str) -> tuple[dict[str, object], ...]:
        """Return nothing: no originals are kept separately to compare with the merged files."""
        return ()
