"""A segment table beside a plain list of its rows: every operation is done to both, and compared by other readers.

The product runs as it is, but for three things: its clock can be moved (``Clock``), its storage can die or fail at any
changing call (``CrashingFileIO``: after a death nothing can be changed any more, as after a kill), and the process that
dies is one that does not run. Everything that is compared is read by ``segment_lake.py``: JSON, PyArrow and DuckDB.
"""

import contextlib
import datetime as dt
import decimal
import json
import os
import random
import struct
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from segment_lake import SegmentLake, text_id, to_rows

from packstone.errors import PackstoneError
from packstone.model.segment import SegmentId
from packstone.pipeline.table import Table
from packstone.runs import clock as run_clock
from packstone.runs.engine import InlineEngine
from packstone.runs.liveness import ProcessIdentity
from packstone.storage.faulty import FaultyFileIO
from packstone.storage.fileio import INCOMPLETE_NAME, incomplete_path
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.delete_rows import delete_matching
from packstone.tables.segments.format.columns import parse_columns, to_arrow
from packstone.tables.segments.load import load_batches, load_files
from packstone.tables.segments.load_options import LoadOptions
from packstone.tables.segments.options import SegmentOptions
from packstone.tables.segments.user_verbs import alter_table, delete_from

SCHEMA = (
    "id long, name string, price double, at timestamp, day date, cost decimal(9,2), ok boolean, raw binary, "
    "tags array<string>"
)
ARROW = to_arrow(parse_columns(SCHEMA))
DAY_MS = 86_400_000
DEAD = replace(ProcessIdentity.mine(), pid=2**22 + 1)  # no pid is so high
GONE_STATUSES = ("compacted", "marked-for-delete")

_POOLS = {
    "id": (*range(-3, 9), None, 2**63 - 1, -(2**63)),
    "name": ("", "a", "b", "ä", "x" * 300, "x" * 299 + "y", None),
    "price": (0.0, -0.0, float("nan"), float("inf"), -1.5, 2.0, None),
    "at": (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(1960, 5, 5, 1, 2, 3, 4, tzinfo=dt.UTC), None),
    "day": (dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), None),
    "cost": (decimal.Decimal("0.01"), decimal.Decimal("-9999999.99"), decimal.Decimal("5.00"), None),
    "ok": (True, False, None),
    "raw": (b"", b"\x00\xff", b"\xff" * 300, None),
    "tags": ([], ["a", None], None, ["b"]),
}
# Filters, and the rows for which they are true: null is not, and NaN is greater than every number.
ROW_FILTERS = (
    ("id >= 6", lambda row: row["id"] is not None and row["id"] >= 6),
    ("name = 'a' OR id = 2", lambda row: row["name"] == "a" or row["id"] == 2),
    ("NOT (ok OR id > 1)", lambda row: row["ok"] is False and row["id"] is not None and row["id"] <= 1),
    ("price > 1.5", lambda row: row["price"] is not None and not row["price"] <= 1.5),
    ("id IS NULL AND day IS NOT NULL", lambda row: row["id"] is None and row["day"] is not None),
    ("cost < 0", lambda row: row["cost"] is not None and row["cost"] < 0),
    ("id = 77", lambda row: False),
    ("true", lambda row: True),
)


_MEMORY = "/dev/shm"  # noqa: S108 - only folders of random names are made in it


@contextlib.contextmanager
def quick_folder():
    """A folder in memory if there is such a place: there, a thousand syncs take no time."""
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="packstone-", dir=where) as folder:
        yield Path(folder)


class Died(BaseException):
    """The process is gone: nobody catches this but the model."""


class Clock:
    """Replaces the module ``time`` where the product asks for the time: it can be moved, and waits take none."""

    def __init__(self):
        self._start_ns, self._moved_ns = time.time_ns(), 0

    def time_ns(self):
        """Now; each question takes a millisecond."""
        self._moved_ns += 1_000_000
        return self._start_ns + self._moved_ns

    def time(self):
        """Now, in seconds."""
        return self.time_ns() / 1e9

    def move(self, seconds):
        """Let time go by."""
        self._moved_ns += int(seconds * 1e9)

    def sleep(self, seconds):
        """Wait without waiting."""
        self.move(seconds)

    @property
    def now_ms(self):
        """Now, without moving."""
        return (self._start_ns + self._moved_ns) // 1_000_000


class CrashingFileIO(FaultyFileIO):
    """Dies (or fails once) at a step, the opening of data files included; the dead change nothing any more."""

    def __init__(self, *, step=None, how="kill before"):
        super().__init__(LocalFileIO())
        self._at, self._how, self._is_dead = step, how, False

    def open_output(self, path):
        """A step, too: a file that was opened is there."""
        opened = []
        self._step("open_output", path, lambda: opened.append(self._inner.open_output(path)))
        return opened[0]

    def _step(self, name, path, act, *, torn=None):
        if self._is_dead:
            raise Died
        number = len(self.steps)
        self.steps.append(f"{name} {path}")
        if number != self._at:
            act()
            return
        if self._how.endswith("after"):
            act()
        if self._how == "kill half" and torn is not None:
            with contextlib.suppress(FileNotFoundError):
                Path(incomplete_path(path)).write_bytes(torn[: len(torn) // 2])
        if self._how.startswith("kill"):
            self._is_dead = True
            raise Died
        raise OSError(f"injected at step {number}: {name} {path}")


HOWS = ("kill before", "kill after", "kill half", "fail before", "fail after")


@dataclass
class Held:
    """A segment as the model has it: its rows, and when the newest load inside began."""

    rows: list
    newest_ms: int


class Meddling(InlineEngine):
    """Does something to the table when the first tasks have run, before their results are looked at."""

    def __init__(self, io, meddle):
        super().__init__(io)
        self._meddle = meddle

    def run(self, job, tasks, *, staging, what, on_progress):
        """Run all tasks, then meddle, once."""
        results = list(super().run(job, tasks, staging=staging, what=what, on_progress=on_progress))
        if self._meddle is not None:
            meddle, self._meddle = self._meddle, None
            meddle()
        return iter(results)


@dataclass
class SegmentModel:
    """One table and its rows."""

    folder: Path
    held: dict = field(default_factory=dict)  # id -> Held
    states: list = field(default_factory=list)  # the rows after each change since the last look at the versions
    versions: dict = field(default_factory=dict)  # version -> print of the rows that it must show
    ids: dict = field(default_factory=dict)  # id -> segment file, of all that were ever visible
    loads: dict = field(default_factory=dict)  # id -> attempt, of all loads that ever began
    log: list = field(default_factory=list)
    cuts: list = field(default_factory=list)  # moments between operations
    merged: dict = field(default_factory=dict)  # id -> Held, of segments that are merged into others
    undone: set = field(default_factory=set)  # ids of merges that were undone: they are used again
    runs: list = field(default_factory=list)  # compactions that came to their end
    began_ms: int = 0  # when the last operation began
    _content: dict = field(default_factory=dict)
    _steps: int = 0

    def __post_init__(self):
        self.clock = Clock()
        self._patched = run_clock.time
        run_clock.time = self.clock
        self.lake = SegmentLake(self.folder / "t").create(SCHEMA, SORT_COLUMNS="id", TABLE_BLOCKLET_ROWS=1000)
        self.table = self.lake.table
        self.states.append(rows_print([]))

    def close(self):
        """Give the real clock back."""
        run_clock.time = self._patched

    # What is done.

    def load(self, rows, *, crash=None, meddle=None, spoil=0, as_files=False, **options):
        """Load; ``spoil`` this many rows are bad and left out, ``meddle`` happens while the rows stream in."""
        wanted = self.lake.status()["next_load"]
        options = LoadOptions(**options)

        def act(io):
            if as_files:
                engine = Meddling(io, meddle)
                return load_files(io, self.table, self._write_inputs(rows), options=options, engine=engine)
            return load_batches(io, self.table, stream(rows, spoil, meddle), options=options, engine=InlineEngine(io))

        report = self._run(act, crash)
        id_text = str(wanted)
        gone = self._gone()
        if id_text in self.lake.live() or gone.get(id_text, {}).get("status") == "compacted":
            if options.overwrite:
                self._drop([one for one in self.held if one != id_text])
            self.held[id_text] = Held(list(rows), self.began_ms)
            self._note()
        else:
            assert report is None or report.segment is None, report
            assert report is None or not rows, "a load that succeeded is not there"
        self.follow_merges(gone)
        return report

    def compact(self, options, *, crash=None, meddle=None):
        """Compact; rows stay, and what went into what is shown by the table and by the answer."""
        before = set(self.lake.live())
        outcome = self._run(
            lambda io: Table(self.table, io=io, engine=lambda: Meddling(io, meddle)).compact(options), crash
        )
        merged = self.follow_merges(self._gone())
        if outcome is not None and outcome.units:
            self.runs.append(outcome.run)
        if outcome is not None and meddle is None:
            assert {one for unit in outcome.units for one in unit.inputs} & before == merged & before, outcome.units
        return outcome

    def restore(self, run, *, crash=None):
        """Undo a compaction, wholly or not at all; no row comes or goes."""
        before = self._count()
        self._run(lambda io: Table(self.table, io=io).restore(run), crash, may_refuse=True)
        live = self.lake.live()
        again = [one for one in live if one not in self.held]
        if again:
            gone = [one for one in self.held if one not in live]
            self.undone.update(gone)
            self._drop(gone)
            self.held.update({one: self.merged[one] for one in again})
        assert self._count() == before, "a restore changed rows"

    def _count(self):
        return Counter(repr(as_tuple(row)) for held in self.held.values() for row in held.rows)

    def look_back(self, version):
        """The product shows the rows that a version had, to a filter too, and finds no damage in it."""
        status, table = self._status(version), Table(self.table)
        contents = [self._read_live(one)["rows"] for one in status["live"].values()]
        wanted = Counter(repr(row) for rows in contents for row in rows)
        found = table.scan(version=version).to_arrow().cast(ARROW)
        assert Counter(repr(as_tuple(row)) for row in found.to_pylist()) == wanted
        some = table.scan(["id"], "id >= 3 AND id < 9", version=version).to_arrow().column("id")
        ids = [row[0] for rows in contents for row in rows]
        assert sorted(some.to_pylist()) == sorted(one for one in ids if one is not None and 3 <= one < 9)
        report = table.check(version=version, deep=True)
        assert report.damage == ()
        assert report.rows == len(ids)

    def delete(self, ids, *, crash=None):
        """Delete by id."""
        wanted = [SegmentId.parse(one) for one in ids]
        self._run(lambda io: delete_from(io, self.table, ids=wanted, before=None, dry_run=False), crash)
        self._settle_delete(ids)

    def delete_before(self, moment_ms, *, crash=None):
        """Delete what was loaded before a moment."""
        old = [one for one, held in self.held.items() if held.newest_ms < moment_ms]
        report = self._run(
            lambda io: delete_from(io, self.table, ids=(), before=moment_ms, dry_run=False), crash, may_refuse=not old
        )
        assert report is None or old, "something was deleted, and nothing is so old"
        self._settle_delete(old)

    def delete_rows(self, which, *, crash=None):
        """Delete rows by one of some filters: all of them in every segment, or none."""
        where, is_gone = ROW_FILTERS[which % len(ROW_FILTERS)]
        before = self.lake.versions()[-1]
        report = self._run(lambda io: delete_matching(io, self.table, where), crash)
        status = self.lake.status()
        is_done = status["version"] > before and status["operation"] == "delete-rows"
        gone = [row for held in self.held.values() for row in held.rows if is_gone(as_dict(row))]
        assert report is None or is_done == bool(gone), "a delete that came to its end did nothing, or too much"
        assert report is None or report.rows == len(gone)
        if is_done:
            for held in self.held.values():
                held.rows = [row for row in held.rows if not is_gone(as_dict(row))]
            self._drop([one for one, held in self.held.items() if not held.rows])
            self._note()

    def alter(self, changes, *, crash=None):
        """Change properties."""
        self._run(lambda io: alter_table(io, self.table, changes), crash)

    def clean(self, *, crash=None):
        """Clean; if it came to its end, nothing whose retention has expired is left."""
        now_ms = self.clock.now_ms
        report = self._run(lambda io: Table(self.table, io=io).clean(), crash)
        if report is not None:
            assert report.unknown.paths == [], report.unknown
            self.check_cleaned(now_ms)

    def _run(self, act, crash, *, may_refuse=False):
        """Run one operation, which may be cut; None if it did not come to its end."""
        self.clock.move(2)
        self.cuts.append(self.clock.now_ms)
        self.clock.move(2)
        began_ms = self.clock.now_ms
        io = CrashingFileIO() if crash is None else CrashingFileIO(step=crash[0], how=crash[1])
        mine = ProcessIdentity.mine
        if crash is not None:
            ProcessIdentity.mine = classmethod(lambda _: DEAD)
        try:
            return act(io)
        except Died:
            self.log.append(f"died: {io.steps[-1]}")
        except PackstoneError as error:
            self.log.append(f"failed: {error}")
            if not may_refuse and (crash is None or not crash[1].startswith("fail")):
                raise
        finally:
            ProcessIdentity.mine = mine
            self.began_ms = began_ms  # here, because somebody may have meddled
        return None

    def _write_inputs(self, rows):
        """Three Parquet files, so that a load has several tasks."""
        self._steps += 1
        folder = self.folder / f"input-{self._steps}"
        folder.mkdir()
        for at in range(3):
            pq.write_table(pa.Table.from_pylist(rows[at::3], schema=ARROW), folder / f"{at}.parquet")
        return [str(folder)]

    def _settle_delete(self, ids):
        gone = self._gone()
        missing = [one for one in ids if one not in self.lake.live()]
        assert not missing or len(missing) == len(ids), "half of it was deleted"
        assert all(gone[one]["status"] == "marked-for-delete" for one in missing)
        self._drop(missing)
        self._note()

    def _drop(self, ids):
        for one in ids:
            self.held.pop(one, None)

    def _note(self):
        self.states.append(rows_print(row for held in self.held.values() for row in held.rows))

    def follow_merges(self, gone):
        """Put rows where the table says that they went; give the ids that were merged."""
        live, merged = self.lake.live(), set()
        while missing := [one for one in self.held if one not in live]:
            for one in missing:
                entry = gone[one]
                assert entry["status"] == "compacted", entry
                into, held = entry["merged_into"], self.held.pop(one)
                self.merged[one] = Held(list(held.rows), held.newest_ms)
                there = self.held.setdefault(into, Held([], 0))
                there.rows += held.rows
                there.newest_ms = max(there.newest_ms, held.newest_ms)
                merged.add(one)
        return merged

    def _gone(self):
        """Retired and cleaned entries by id."""
        status = self.lake.status()
        entries = list(status["retired"])
        for name in status["history_files"]:
            content = json.loads((self.lake.path / "Metadata/history" / name).read_bytes())
            entries += to_rows(content["entries"])
        # The id of an undone merge is used again: the newest one counts.
        return {text_id(one): one for one in sorted(entries, key=lambda one: one["modified_ms"])}

    # What must hold.

    def check(self):
        """The newest version shows exactly the rows of the list, each kept version those of its time, all whole."""
        live = self.lake.live()
        assert set(live) == set(self.held)
        for segment, held in self.held.items():
            assert Counter(map(repr, self._read_live(live[segment])["rows"])) == Counter(
                map(repr, map(as_tuple, held.rows))
            ), segment
            newest_ms = live[segment]["newest_load_ms"]
            assert held.newest_ms <= newest_ms < held.newest_ms + 5000, "a merge made rows younger"
        expected = Counter(repr(as_tuple(row)) for held in self.held.values() for row in held.rows)
        assert self._read_with_duckdb() == expected
        self._check_versions()
        self._check_ids()

    def _read_with_duckdb(self):
        found = self.lake.live_rows()
        if found is None:
            return Counter()
        return Counter(repr(as_tuple(row)) for row in found.cast(ARROW).to_pylist())

    def kept(self):
        """The versions that count."""
        floor = max((int(name) for name in self._names("floor") if name.isdecimal()), default=1)
        return [version for version in self.lake.versions() if version >= floor]

    def _check_versions(self):
        kept, at, files = self.kept(), 0, set()
        assert kept == list(range(kept[0], kept[-1] + 1)), "a version is missing"
        written = 0
        for version in kept:
            status = self._status(version)
            assert status["written_ms"] >= written or status["ordered_since"] == version
            written = status["written_ms"]
            prints = [0, 0]
            for entry in status["live"].values():
                content = self._read_live(entry)
                prints = [prints[0] + content["print"][0], prints[1] + content["print"][1]]
                assert entry["rows"] - entry["deleted_rows"] == content["print"][0]
                files |= content["files"]
            found = (prints[0], prints[1] % 2**64)
            if version not in self.versions:
                while at < len(self.states) and self.states[at] != found:
                    at += 1
                assert at < len(self.states), f"version {version} shows rows that the table never had"
                self.versions[version] = found
            assert self.versions[version] == found, f"version {version} shows other rows than it did"
        self.states = self.states[-1:]
        assert self.versions[kept[-1]] == self.states[-1]
        assert all((self.lake.path / file).stat().st_size == size for file, size in files)

    def _status(self, version):
        key = f"version {version}"
        if key not in self._content:
            status = self.lake.status(version)
            status["live"] = self.lake.live(version)
            in_two = Counter(
                file for one in status["live"].values() for file in self._read(one["segment_file"])["files"]
            )
            assert all(count == 1 for count in in_two.values()), "a file is in two live segments"
            self._content[key] = status
        return self._content[key]

    def _check_ids(self):
        for version in self.kept():
            status = self._status(version)
            for entry in status["entries"]:
                one, name = text_id(entry), entry["segment_file"]
                if name is None:
                    assert self.loads.setdefault(one, entry["attempt"]) == entry["attempt"], f"{one} was given twice"
                elif one not in self.undone:
                    assert self.ids.setdefault(one, name) == name, f"{one} was used twice"
                assert entry["load"] < status["next_load"]
        live, gone = set(self.lake.live()), self._gone()
        assert not live & set(gone) - self.undone, "a segment is live and gone"
        assert all(entry["status"] in GONE_STATUSES for entry in gone.values())
        assert set(self.ids) <= live | set(gone), "a segment is forgotten"

    def _read(self, name):
        """A segment by its file: rows, their print, its files; checked when it is first seen, for it never changes."""
        if name not in self._content:
            content = json.loads((self.lake.path / "Metadata/segments" / name).read_bytes())
            tables = [pq.read_table(self.lake.path / file["path"]) for file in content["files"]]
            for file, table in zip(content["files"], tables, strict=True):
                assert table.schema.equals(ARROW), file
                assert file["rows"] == table.num_rows
            check_order(content, tables)
            check_index(self.lake.path, content, tables)
            rows = [as_tuple(row) for table in tables for row in table.to_pylist()]
            files = {(file["path"], file["size_bytes"]) for file in content["files"]}
            counts = {file["path"]: file["rows"] for file in content["files"]}
            self._content[name] = {"rows": rows, "print": rows_print(rows), "files": files, "counts": counts}
        return self._content[name]

    def _read_live(self, entry):
        """The same without the deleted rows of an entry; a delete file never changes either."""
        whole = self._read(entry["segment_file"])
        if entry["delete_file"] is None:
            return whole
        if entry["delete_file"] not in self._content:
            deleted, kept, first = self.lake.deleted(entry), [], 0
            for path, count in whole["counts"].items():
                gone = set(deleted.get(str(self.lake.path / path), ()))
                assert all(at < count for at in gone)
                kept += [row for at, row in enumerate(whole["rows"][first : first + count]) if at not in gone]
                first += count
            self._content[entry["delete_file"]] = {**whole, "rows": kept, "print": rows_print(kept)}
        return self._content[entry["delete_file"]]

    def check_cleaned(self, now_ms):
        """Nothing whose retention has expired is left: no version, no segment, no trash, nothing that nobody names."""
        properties = self.lake.status()["properties"]
        days = int(properties.get("SEGMENT_RETENTION_DAYS", 7))
        minutes = int(properties.get("MAX_QUERY_MINUTES", 60))
        cutoff_ms = now_ms - max(days * DAY_MS, minutes * 60_000)
        kept = self.kept()
        assert self.lake.versions() == kept
        assert len(kept) == 1 or self._status(kept[1])["written_ms"] > cutoff_ms, "an old version is left"
        needed = {one["segment_file"] for version in kept for one in self._status(version)["live"].values()}
        retired = self.lake.retired().values()
        old = [one for one in retired if one["modified_ms"] < cutoff_ms and one["segment_file"] not in needed]
        assert old == [], "a retired segment is left"
        needed |= {one["segment_file"] for one in retired if one["segment_file"]}
        self.check_named(needed)
        oldest_trash_ms = now_ms - int(properties.get("TRASH_RETENTION_DAYS", 7)) * DAY_MS
        assert all(int(name) >= oldest_trash_ms for name in self._names("trash"))

    def check_named(self, segment_files):
        """Below Fact/, segments/ and index/ there are only the files of these segments, and all of them."""
        contents = [self._read(name) for name in segment_files]
        data = {path for content in contents for path, _ in content["files"]}
        assert set(self.lake.data_on_disk()) == data | self._data_at_work()
        assert set(self._names("segments")) == set(segment_files)
        assert {Path(name).stem for name in self._names("index")} == {Path(name).stem for name in segment_files}

    def _data_at_work(self):
        """Data files that a run at work may still need (it meddles with itself)."""
        found = set()
        for record in self.lake.runs().glob("*/created-*.json"):
            found |= {one.removeprefix(f"{self.table}/") for one in json.loads(record.read_bytes())["paths"]}
        return found & set(self.lake.data_on_disk())

    def check_end(self):
        """After enough cleans, the table holds what its newest version names and nothing else."""
        self.clock.move(800 * 86_400)
        for _ in range(3):  # dead loads are retired by the first, and their trash goes with a later one
            self.clean()
            self.clock.move(800 * 86_400)
        self.clean()
        self.check()
        self.look_back(self.kept()[-1])
        status = self.lake.status()
        assert status["running"] == []
        assert all(entry["segment_file"] for entry in status["entries"]), "a dead load is still in the status"
        self.check_named({one["segment_file"] for one in self.lake.live().values()})
        deletes = {one["delete_file"] for one in self.lake.live().values()} - {None}
        assert set(self._names("deletes")) == deletes, "delete files that nobody names"
        assert self._names("trash") == []
        assert self.lake.open_runs() == []
        assert not list(self.lake.runs().parent.glob("staging/*"))
        kept = [self._status(version) for version in self.kept()]
        unnamed = {f"{folder}/{name}" for folder in ("entries", "retired") for name in self._names(folder)}
        unnamed -= {name for version in self.kept() for name in self.lake.chunks(version)}
        unnamed |= set(self._names("history")) - {name for one in kept for name in one["history_files"]}
        assert not unnamed, f"lists that nobody names: {unnamed}"
        names = [path.name for path in self.lake.path.rglob("*")]
        assert [name for name in names if INCOMPLETE_NAME.fullmatch(name)] == []

    def _names(self, folder):
        """What is in a folder, but for halves of files: those are given a day, and looked for at the end."""
        path = self.lake.path / "Metadata" / folder
        names = [one.name for one in path.iterdir()] if path.exists() else []
        return sorted(name for name in names if not INCOMPLETE_NAME.fullmatch(name))


def make_rows(seed, count):
    """N rows of few values: duplicates, nulls and the ends of types are common."""
    rng = random.Random(seed)
    rows = [{name: rng.choice(pool) for name, pool in _POOLS.items()} for _ in range(count)]
    return pa.Table.from_pylist(rows, schema=ARROW).to_pylist()  # in Arrow's spelling of zones


def stream(rows, spoil, meddle):
    """Rows as an Arrow stream of two batches; bad ones have an id that is not a number; between the two, something."""
    schema = ARROW if not spoil else ARROW.set(0, pa.field("id", pa.string()))
    given = rows if not spoil else [{**row, "id": None if row["id"] is None else str(row["id"])} for row in rows]
    given = [*given, *({**given[0], "id": "bad"} for _ in range(spoil))] if given else given
    middle = len(given) // 2

    def batches():
        yield from pa.Table.from_pylist(given[:middle], schema=schema).to_batches()
        if meddle is not None:
            meddle()
        yield from pa.Table.from_pylist(given[middle:], schema=schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def as_tuple(row):
    """A row in one spelling."""
    return row if isinstance(row, tuple) else tuple(row.values())


def as_dict(row):
    """A row by the names of its columns."""
    return row if isinstance(row, dict) else dict(zip(ARROW.names, row, strict=True))


def rows_print(rows):
    """How many rows, and a sum over them that does not depend on their order."""
    count = total = 0
    for row in rows:
        count += 1
        total += hash(repr(as_tuple(row)))
    return count, total % 2**64


def order_key(value):
    """The order of a sorted segment: nulls first, text by bytes, floats as Java sorts them."""
    if value is None:
        return (0, 0)
    if isinstance(value, float):
        bits = 0x7FF8 << 48 if value != value else struct.unpack(">q", struct.pack(">d", value))[0]  # noqa: PLR0124
        return (1, bits ^ 0x7FFF_FFFF_FFFF_FFFF if bits < 0 else bits)
    return (1, value.encode() if isinstance(value, str) else value)


def check_order(content, tables):
    """Every run is in order over all its files; what a compaction has sorted is one run."""
    columns = content["sort_columns"]
    runs = {}
    for file, table in zip(content["files"], tables, strict=True):
        rows = table.select(columns).to_pylist() if columns else []
        runs.setdefault(file["run"], []).extend(tuple(map(order_key, row.values())) for row in rows)
    assert all(keys == sorted(keys) for keys in runs.values()), "a run is not sorted"
    is_merged = content["id"]["merges"] > 0 if isinstance(content["id"], dict) else "." in str(content["id"])
    if columns and (is_merged or content["sort_scope"] == "GLOBAL_SORT"):
        assert len(runs) == 1, "sorted over all, and several runs"


def check_index(path, content, tables):
    """The index says of each row group what its footer and its rows say."""
    with pa.ipc.open_file(str(path / "Metadata/index" / content["index_file"])) as reader:
        index = reader.read_all().to_pylist()
    found = iter(index)
    for at, (file, table) in enumerate(zip(content["files"], tables, strict=True)):
        footer, first = pq.read_metadata(path / file["path"]), 0
        for number in range(footer.num_row_groups):
            group, row = footer.row_group(number), next(found)
            columns = [group.column(one) for one in range(group.num_columns)]
            assert (row["file"], row["row_group"], row["rows"]) == (at, number, group.num_rows)
            assert row["size_bytes"] == sum(one.total_compressed_size for one in columns)
            rows = table.slice(first, group.num_rows)
            first += group.num_rows
            for name in content["sort_columns"]:
                ends = rows.column(name)
                assert order_key(row[f"start.{name}"]) == order_key(ends[0].as_py())
                assert order_key(row[f"end.{name}"]) == order_key(ends[-1].as_py())
            for name in rows.column_names:
                if f"nulls.{name}" in row:
                    check_bounds(row, name, rows.column(name).to_pylist())
    assert next(found, None) is None


def check_bounds(row, name, values):
    """No value lies outside the bounds; exact ones are values."""
    there = [value for value in values if value is not None]
    assert row[f"nulls.{name}"] == len(values) - len(there)
    if f"nan.{name}" in row:
        assert row[f"nan.{name}"] == any(value != value for value in there)  # noqa: PLR0124 - that is what NaN is
    numbers = [order_key(value) for value in there if value == value]  # noqa: PLR0124
    low, high = row[f"min.{name}"], row[f"max.{name}"]
    if not numbers:
        return
    if low is not None:
        assert order_key(low) <= min(numbers), name
    if high is not None:
        assert order_key(high) >= max(numbers), name
    if row.get(f"exact.{name}") and low is not None:
        assert (order_key(low), order_key(high)) == (min(numbers), max(numbers)), name


def any_options(strategy, ids=(), *, task_bytes=256 << 20, content=True):
    """Options of a compaction."""
    given = tuple(SegmentId.parse(one) for one in ids)
    return SegmentOptions(strategy=strategy, ids=given, task_bytes=task_bytes, verify="content" if content else "count")
