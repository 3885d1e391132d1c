"""What may be removed from a JSON-lines table, and how it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from jsonl_family.manifest import DataFile, Manifest, publish
from packstone.model.health import Fact, Report, WorstPart, WorstParts
from packstone.model.maintenance import CleanPlan
from packstone.model.sizes import format_bytes, plural
from packstone.runs.clock import now_seconds

if TYPE_CHECKING:
    from packstone.runs.folder import Run, RunFolders


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlClean(CleanPlan):
    """Files that nobody needs, by their paths; the names are those of records."""

    table: str
    sizes: tuple[tuple[str, int], ...]
    expired: frozenset[DataFile]  # kept files whose time is up

    @classmethod
    def find(cls, folders: RunFolders, root: str, latest: Manifest) -> Self:
        """Look through the newest version and the records of runs that have ended."""
        now = now_seconds()
        expired = frozenset(file for file in latest.kept if file.keep_until <= now)
        dead = [run for run in folders.list_runs() if folders.is_dead(run, now_seconds=now)]
        created = {path for run in dead for path in folders.read_created(run)}
        needed = {f"{root}/{key}" for key in latest.named}
        paths = {*(f"{root}/{file.key}" for file in expired), *(created - needed)}
        found = {path: folders.io.stat(path) for path in sorted(paths)}
        sizes = tuple((path, entry.size_bytes) for path, entry in found.items() if entry is not None)
        return cls(table=root, sizes=sizes, expired=expired)

    @property
    def files(self) -> int:
        """How many files."""
        return len(self.sizes)

    @property
    def bytes(self) -> int:
        """How big they are."""
        return sum(size_bytes for _, size_bytes in self.sizes)

    def describe(self) -> str:
        """What goes."""
        return f"{plural(self.files, 'file')}, {format_bytes(self.bytes)}"

    def remove(self, run: Run) -> JsonlClean:
        """Publish a version that does not know the files, then remove them.

        From then on nobody can bring them back: a restore, or a run that was taken for dead, that began before loses
        the race for the number of that version. If this is killed on the way, its own record names the files.
        """
        if self.is_empty:
            return self

        def edit(base: Manifest) -> Manifest:
            return replace(base, kept=tuple(file for file in base.kept if file not in self.expired))

        run.record_created(tuple(path for path, _ in self.sizes))
        after = publish(run.io, self.table, edit, run=run.id)
        needed = {f"{self.table}/{key}" for key in after.named}
        gone = tuple((path, size_bytes) for path, size_bytes in self.sizes if path not in needed)
        run.discard([path for path, _ in gone])
        return replace(self, sizes=gone)

    def to_json(self, *, dry_run: bool = False) -> dict[str, Any]:
        """The documented keys."""
        status = "nothing-to-do" if self.is_empty else "planned" if dry_run else "cleaned"
        head = {"format_version": 1, "table": self.table, "family": "jsonl", "status": status}
        return {**head, "files": self.files, "bytes": self.bytes, "paths": [path for path, _ in self.sizes]}


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlHealth:
    """How many files are small."""

    table: str
    files: tuple[DataFile, ...]
    parts_of_small: tuple[str, ...]  # the partition of each small file

    @property
    def score(self) -> int:
        """The share of files that no compaction would take away."""
        surplus = len(self.parts_of_small) - len(set(self.parts_of_small))
        return 100 - 100 * surplus // max(1, len(self.files))

    def to_json(self) -> dict[str, Any]:
        """The documented keys."""
        head = {"format_version": 1, "table": self.table, "family": "jsonl", "score": self.score}
        return {**head, "files": len(self.files), "small_files": len(self.parts_of_small)}

    def report(self) -> Report:
        """What to draw."""
        worst = tuple(
            WorstPart(name=name, cells=(str(small),)) for name, small in Counter(self.parts_of_small).most_common()
        )
        return Report(
            table=self.table,
            score=self.score,
            facts=(Fact(text=f"{plural(len(self.files), 'file')}, {len(self.parts_of_small)} of them small"),),
            worst=WorstParts(title="worst partitions", columns=("small files",), parts=worst),
        )
