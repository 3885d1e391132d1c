"""Compactions and loads of Paimon and segment tables killed at their steps, on any store; HDFS and S3 share it.

A *server* says how a process reaches it (``env``) and copies folders there and back by a client that is not ours
(``send``, ``fetch``). What is there is read from the copy by ``paimon_lake.py`` and ``segment_lake.py``, which are not
the product.
"""

import itertools
from collections import Counter

from compact_calls import segment_clean, segment_compact
from paimon_lake import PaimonLake
from segment_lake import SegmentLake

from packstone.storage.stores import open_store
from packstone.tables.paimon.clean import find_leftovers, remove_leftovers

KILLED = -9
DAY_SECONDS = 86_400


class PaimonTables:
    """Copies of one table on one server."""

    def __init__(self, server, root, tmp_path):
        self.server, self.root, self.tmp_path = server, root, tmp_path
        self._numbers = itertools.count()
        self.local = PaimonLake(tmp_path / "t").create()
        for first in (0, 5, 10, 15):
            self.local.append(dict.fromkeys(range(first, first + 10), first))
        self.rows = self.local.rows()

    def copy(self):
        """A copy of the table, at a path that nobody had."""
        return self.server.send(self.local.path, f"{self.root}/{next(self._numbers)}/t")

    def fetch(self, path):
        """Another program's view of a table."""
        return PaimonLake(self.server.fetch(path, self.tmp_path / f"fetched-{next(self._numbers)}"))

    def check(self, path, where=""):
        """The rows are what they were, and nothing is wrong; gives the table as fetched."""
        found = self.fetch(path)
        assert (found.rows(), list(found.problems())) == (self.rows, []), where
        return found


class SegmentTables:
    """Tables of one test on one server."""

    def __init__(self, server, root, tmp_path):
        self.server, self.root, self.tmp_path = server, root, tmp_path
        self._numbers = itertools.count()

    def fetch(self, path):
        """Another program's view of a table."""
        return SegmentLake(self.server.fetch(path, self.tmp_path / f"fetched-{next(self._numbers)}"))

    def copy_of(self, folder):
        """A copy of a local table, at a path that nobody had."""
        return self.server.send(folder, f"{self.root}/{next(self._numbers)}/t")


def make_local(folder, loads=4):
    """A segment table with some loads, to be copied."""
    lake = SegmentLake(folder).create(SORT_COLUMNS="id", COMPACTION_LEVEL_THRESHOLD=f"{loads},2")
    for seed in range(loads):
        lake.load([{"id": at * 7 % 30, "v": f"{seed}-{at}"} for at in range(30)], files=2, group_rows=10)
    return lake


def faults(steps, *, stride, halves):
    """Every N steps, before or after in turns; ``halves``: inside a write too, where a store has such a state."""
    for step in range(0, len(steps), stride):
        is_probe = "/.new-" in steps[step]  # the second try to create it fails, so there is no after
        yield step, {"step": step, "action": "kill", "moment": "before" if is_probe or step % 2 else "after"}
        if halves and steps[step].startswith(("write_new", "replace")):
            yield step, {"step": step, "action": "kill-inside", "moment": "before"}


def check_paimon_killed(tables, children, *, stride, halves=False):
    """Kill a compaction at some steps, each time a copy of its own: the rows stay, and another run ends the work."""
    call = {"single_writer": True, "env": tables.server.env}
    done = children.run("paimon_compact", path=tables.copy(), **call)
    assert done["value"]["status"] == "committed", done
    for step, fault in faults(done["steps"], stride=stride, halves=halves):
        table, where = tables.copy(), f"{fault}: {done['steps'][step]}"
        assert children.run("paimon_compact", path=table, fault=fault, **call)["status"] == KILLED, where
        tables.check(table, where)
        again = children.run("paimon_compact", path=table, **call)
        assert "error" not in again, again
        found = tables.check(table, where)
        assert {entry.file["_LEVEL"] for entry in found.live()} == {5}, where
        check_known(tables, table, where)


def check_known(tables, table, where):
    """A day later everything that no snapshot names goes, by its recorded name."""
    io = open_store(table)
    runs = f"{table.rpartition('/')[0]}/.packstone/t/runs"
    later = io.stat(f"{table}/snapshot/snapshot-5").mtime_ns / 1e9 + 2 * DAY_SECONDS
    remove_leftovers(io, find_leftovers(io, table, runs_folder=runs, now_seconds=later))
    left = tables.check(table, where)
    live = {f"bucket-{entry.bucket}/{entry.file['_FILE_NAME']}" for number in left.ids() for entry in left.live(number)}
    assert {name for name in left.names() if name.startswith("bucket-")} == live, where


def check_segment_compaction(tables, children, *, stride, halves=False):
    """Kill a compaction at some steps: the table reads the same, a second run succeeds, a clean leaves nothing."""
    local = make_local(tables.tmp_path / "t")
    rows, env = local.count(), tables.server.env
    done = children.run("segment_compact", path=tables.copy_of(local.path), env=env)
    assert done["value"]["status"] == "committed", done
    for step, fault in faults(done["steps"], stride=stride, halves=halves):
        table, where = tables.copy_of(local.path), f"{fault}: {done['steps'][step]}"
        died = children.run("segment_compact", path=table, fault=fault, env=env)
        assert died["status"] == KILLED, (done["steps"], died)
        found = tables.fetch(table)
        assert (found.count(), found.problems()) == (rows, []), where
        io = open_store(table)
        assert segment_compact(io, table)["status"] in ("committed", "nothing-to-do"), where
        assert segment_clean(io, table, days=8)["unknown"] == [], where
        found = tables.fetch(table)
        assert (found.count(), found.problems(), len(found.ids())) == (rows, [], 1), where
        live = {f"{(found.path / file).relative_to(found.path)}" for file in found.files()}
        assert set(found.data_on_disk()) == live, where
        check_no_halves(found, where)


def check_segment_load(tables, children, *, stride, halves=False):
    """Kill a load at some steps: all of it or nothing is there, the next works, a clean knows what was left."""
    local = make_local(tables.tmp_path / "t", loads=1)
    before = local.count()
    (tables.tmp_path / "in.csv").write_text("id,v\n" + "".join(f"{at},x\n" for at in range(50, 10, -1)))
    after = before + Counter((at, "x") for at in range(11, 51))
    load = {"inputs": [tables.tmp_path / "in.csv"], "sort_scope": "GLOBAL_SORT", "task_bytes": 100}
    load["env"] = tables.server.env
    done = children.run("load_rows", path=tables.copy_of(local.path), **load)
    assert "error" not in done, done
    for step, fault in faults(done["steps"], stride=stride, halves=halves):
        table, where = tables.copy_of(local.path), f"{fault}: {done['steps'][step]}"
        assert children.run("load_rows", path=table, fault=fault, **load)["status"] == KILLED
        rows = tables.fetch(table).count()
        assert rows in (before, after), where
        again = children.run("load_rows", path=table, **load)
        assert "error" not in again, again
        assert segment_clean(open_store(table), table, days=8)["unknown"] == [], where
        found = tables.fetch(table)
        assert found.count() == rows + after - before, where
        assert found.problems() == [], where
        check_no_halves(found, where)


def check_no_halves(lake, where):
    """Nothing is left of files that were being written."""
    assert not list(lake.path.rglob(".new-*")), where
