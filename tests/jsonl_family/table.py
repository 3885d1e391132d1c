"""A JSON-lines table in the pipeline: small files of a partition become one; a wave is one version."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count, groupby
from typing import TYPE_CHECKING, Any, Final

from jsonl_family.manifest import DataFile, Manifest, publish, read_versions
from jsonl_family.options import JsonlOptions
from jsonl_family.tasks import JSONL_JOB, JsonlContext, JsonlUnit
from jsonl_family.upkeep import JsonlClean, JsonlHealth
from packstone.errors import InvalidInputError, RefusedError
from packstone.model.maintenance import CheckedPart, Damage, ProvedUnit, RestorePlan, TableCheck, ToProve
from packstone.model.outcome import SkipKind, Skipped, UnitOutcome
from packstone.model.unit import How
from packstone.model.work import Commit, PlannedPart, Totals, WaveLimits, WholePart
from packstone.query.filter.partition_filter import parse_partition_filter
from packstone.runs.clock import now_seconds
from packstone.runs.state_folder import find_state_folder
from packstone.tables.optimistic import OptimisticTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packstone.model.maintenance import CheckRequest, CleanRequest, PublishedRun
    from packstone.model.work import Work
    from packstone.runs.folder import Run, WaveRecord
    from packstone.storage.fileio import FileIO
    from packstone.tables.family import PlanContext

    JsonlWork = Work["JsonlPlan", JsonlUnit, DataFile]

_PASSES: Final = 4  # how often a partition is tried that other writers keep changing
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlPlan(WholePart):
    """The files of a partition that become one; saved as it is."""

    part: str
    files: tuple[DataFile, ...]
    unit_count: int = 1

    @property
    def file_count(self) -> int:
        """All of them."""
        return len(self.files)

    @property
    def read_bytes(self) -> int:
        """All of them."""
        return sum(file.size_bytes for file in self.files)

    def outcome(self) -> UnitOutcome:
        """The merge, as it is planned."""
        names, why = tuple(file.name for file in self.files), f"{len(self.files)} small files"
        return UnitOutcome(
            partition=self.part, inputs=names, outputs=(), how=How.CONCATENATE, why=why, bytes_before=self.read_bytes
        )


class JsonlTable(OptimisticTable[JsonlPlan, JsonlUnit, DataFile]):
    """One table, opened for one command."""

    job = JSONL_JOB
    detail = JsonlPlan
    wave = WaveLimits(units=512, size_bytes=4 << 30)

    def __init__(self, io: FileIO, path: str, options: JsonlOptions | None = None) -> None:
        self.io, self.options = io, options or JsonlOptions()
        self.root = self.path = path
        self.state = find_state_folder(io, path)
        self.strategy, self.verify = self.options.strategy, self.options.verify
        self.totals = Totals()
        self._numbers = count(1)

    def latest(self) -> Manifest:
        """The newest version."""
        return next(read_versions(self.io, self.root), Manifest())

    @property
    def _keep_until(self) -> float:
        return now_seconds() + self.options.keep_days * _DAY

    # ---- plan ----

    def plans(self, number: int, ctx: PlanContext) -> Iterator[JsonlPlan | Skipped]:
        """Offer every partition that the filters select."""
        files = sorted(self.latest().files, key=lambda file: file.key) if number == 1 else ()
        where, self.totals.is_filtered = ctx.filters.where, ctx.filters.where is not None
        for part, group in groupby(files, key=lambda file: file.partition):
            values = dict(folder.partition("=")[::2] for folder in part.split("/"))
            if where is not None and not parse_partition_filter(where, tuple(values)).matches(values):
                yield Skipped(what=part, why="does not match --where", kind=SkipKind.FILTERED)
                continue
            yield self._plan(part, self._counted(group))

    def _counted(self, files: Iterable[DataFile]) -> tuple[DataFile, ...]:
        found = tuple(files)
        self.totals.parts += 1
        self.totals.files += len(found)
        self.totals.bytes += sum(file.size_bytes for file in found)
        return found

    def _plan(self, part: str, files: Iterable[DataFile]) -> JsonlPlan | Skipped:
        small = tuple(file for file in files if file.size_bytes < self.options.target_bytes)
        least = self.options.fan_in
        if len(small) >= least:
            return JsonlPlan(part=part, files=small)
        return Skipped(what=part, why=f"{len(small)} small files, fewer than {least}", kind=SkipKind.NOT_NEEDED)

    def describe(self, plan: JsonlPlan, *, is_saved: bool) -> PlannedPart[JsonlPlan]:
        """A partition as it is shown, and saved."""
        return PlannedPart(
            part=plan.part,
            files_in=plan.file_count,
            files_out=1,
            read_bytes=plan.read_bytes,
            units=(plan.outcome(),),
            detail=plan,
        )

    def resume(self, saved: Iterable[PlannedPart[JsonlPlan]], number: int) -> Iterator[JsonlPlan | Skipped]:
        """Offer the saved partitions whose files are all live."""
        live = {file.key: file for file in self.latest().files}
        for one in saved if number == 1 else ():
            self._counted(file for file in live.values() if file.partition == one.part)
            gone = [file.key for file in one.detail.files if file.key not in live]
            if gone:
                why = f"{gone[0]} is not in the table any more; plan again"
                yield Skipped(what=one.part, why=why, kind=SkipKind.CONFLICT)
            else:
                yield JsonlPlan(part=one.part, files=tuple(live[file.key] for file in one.detail.files))

    # ---- run ----

    def context(self, run: Run) -> JsonlContext:
        """Where to write, and where to record it first."""
        return JsonlContext(root=self.root, run_folder=run.folder)

    def units(self, work: JsonlWork) -> Sequence[JsonlUnit]:
        """One merge."""
        return () if work.units else (JsonlUnit(number=next(self._numbers), root=self.root, files=work.plan.files),)

    def outcomes(self, work: JsonlWork) -> tuple[UnitOutcome, ...]:
        """What is reported of it."""
        (result,) = work.results.values()
        (file,) = result.outputs
        done = {"outputs": (file.name,), "bytes_after": file.size_bytes, **UnitOutcome.sums((result,))}
        return (replace(work.plan.outcome(), **done),)

    def commit(self, works: Sequence[JsonlWork], run: Run) -> Commit:
        """Publish a version without the inputs and with the outputs; a partition whose inputs are gone is lost."""
        lost: dict[str, str] = {}

        def edit(base: Manifest) -> Manifest | None:
            run.check_not_fenced()
            lost.clear()
            after = base
            for work in works:
                inputs = {file.key for file in work.plan.files}
                if inputs <= base.live:
                    after = after.swap(inputs, _outputs(work), keep_until=self._keep_until)
                else:
                    lost[work.part] = f"{min(inputs - base.live)} is not in the table any more"
            return None if after is base else after

        version = publish(self.io, self.root, edit, run=run.id).version
        done = [work for work in works if work.part not in lost]
        run.note_published(f"{self.root}/{file.key}" for work in done for file in _outputs(work))
        committed = {work.part: self.outcomes(work) for work in done}
        return Commit(committed=committed, lost=lost, version=version if done else None)

    def discard(self, work: JsonlWork, run: Run) -> None:
        """Remove an output that is not published."""
        run.discard([f"{self.root}/{file.key}" for file in _outputs(work)])

    def again(self, work: JsonlWork, lost: str | None) -> JsonlPlan | Skipped | None:
        """Plan a lost partition over what it holds now."""
        if lost is None:
            return None
        if work.passes >= _PASSES:
            return Skipped(what=work.part, why=lost, kind=SkipKind.CONFLICT)
        return self._plan(work.part, (file for file in self.latest().files if file.partition == work.part))

    # ---- other verbs ----

    def find_committed(self, wave: WaveRecord[Any, JsonlUnit, DataFile]) -> frozenset[str]:
        """The partitions of a wave whose outputs a version of its run names."""
        live = [one.live for one in read_versions(self.io, self.root) if one.run == wave.run]
        outputs = {part.part: {file.key for one in part.results for file in one.outputs} for part in wave.parts}
        return frozenset(part for part, keys in outputs.items() if any(keys <= one for one in live))

    def read_published(self, run_id: str) -> PublishedRun:
        """What a run published, and whether it was undone."""
        return replace(super().read_published(run_id), is_undone=self._is_undone(run_id))

    def _is_undone(self, run_id: str) -> bool:
        return any(one.restores == run_id for one in read_versions(self.io, self.root))

    def prove(self, run_id: str) -> Iterator[ToProve[JsonlUnit, DataFile]]:
        """The merged files of a run that are still part of the table."""
        live = self.latest().live
        for part in self.folders.read_committed(run_id, self.job, self.find_committed):
            for unit, result in part.proofs:
                if all(file.key in live for file in result.outputs):
                    has_inputs = all(self.io.stat(path) is not None for path, _ in unit.input_files)
                    yield ToProve(
                        label=result.outputs[0].key,
                        proved=ProvedUnit(unit=unit, outputs=result.outputs, has_inputs=has_inputs),
                        rows=result.rows_out,
                        fingerprint=result.fingerprint,
                    )

    def plan_restore(self, run_id: str) -> RestorePlan:
        """What undoing a run would change."""
        parts = list(self.folders.read_committed(run_id, self.job, self.find_committed))
        parts = [] if self._is_undone(run_id) else parts
        out = frozenset(file.key for part in parts for one in part.results for file in one.outputs)
        back = tuple(file for part in parts for unit in part.units for file in unit.files)
        _check_undoable(self.latest(), out, back, run=run_id)
        return RestorePlan(
            table=self.root,
            run=run_id,
            parts=tuple(part.part for part in parts),
            files_restored=len(back),
            files_removed=len(out),
            bytes_restored=sum(file.size_bytes for file in back),
            detail=(out, back),
        )

    def restore(self, plan: RestorePlan, run: Run) -> RestorePlan:
        """Publish a version with the inputs and without the outputs, which are kept in their turn."""
        out, back = plan.detail

        def edit(base: Manifest) -> Manifest:
            _check_undoable(base, out, back, run=plan.run)
            return base.swap(out, back, keep_until=self._keep_until)

        publish(self.io, self.root, edit, run=run.id, restores=plan.run)
        run.note_published()
        return plan

    def check(self, request: CheckRequest) -> TableCheck:
        """Every file must have the recorded size; nothing more is recorded."""
        if request.version is not None:
            raise InvalidInputError("Older versions of JSON-lines tables are not checked; leave out --version.")
        latest = self.latest()

        def parts() -> Iterator[CheckedPart[JsonlUnit]]:
            for file in latest.files:
                found = self.io.stat(path := f"{self.root}/{file.key}")
                size = None if found is None else found.size_bytes
                damage = () if size == file.size_bytes else (Damage(file=path, why=f"it has {size} bytes"),)
                yield CheckedPart(files=1, size_bytes=file.size_bytes, rows=file.rows, damage=damage)

        return TableCheck(version=latest.version, parts=parts(), job=self.job)

    def plan_clean(self, request: CleanRequest) -> JsonlClean:
        """Kept files whose time is up, and what dead runs left."""
        return JsonlClean.find(self.folders, self.root, self.latest())

    def clean(self, plan: JsonlClean, run: Run, request: CleanRequest) -> JsonlClean:
        """Remove them."""
        self.recover(run)  # a run that is taken for dead must know before its files go
        return plan.remove(run)

    def health(self) -> JsonlHealth:
        """How many files are small."""
        files = self.latest().files
        small = [file for file in files if file.size_bytes < self.options.target_bytes]
        return JsonlHealth(table=self.root, files=files, parts_of_small=tuple(file.partition for file in small))


def _outputs(work: JsonlWork) -> list[DataFile]:
    return [file for result in work.results.values() for file in result.outputs]


def _check_undoable(base: Manifest, out: frozenset[str], back: tuple[DataFile, ...], *, run: str) -> None:
    for key in sorted(out - base.live):
        raise RefusedError(f"Run {run} cannot be undone: {key} was merged again or removed.")
    for key in sorted({file.key for file in back} - {file.key for file in base.kept}):
        raise RefusedError(f"Run {run} cannot be undone: {key} is not kept any more.")
