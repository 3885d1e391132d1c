"""Paimon and segment tables on HDFS: commits, crashes and races with a real NameNode.

Paimon tables are made and read by the tests' own code on local disks (``paimon_lake.py``) and copied there and back by
a client that is not ours.
"""

import posixpath
from itertools import count

import pytest
from compact_calls import segment_clean
from segment_calls import segment_create, segment_delete, segment_load, segment_merge
from store_matrix import (
    KILLED,
    PaimonTables,
    SegmentTables,
    check_paimon_killed,
    check_segment_compaction,
    check_segment_load,
    make_local,
)

from packstone.pipeline.table import Table
from packstone.storage.stores import open_store
from packstone.tables.paimon.options import PaimonOptions
from packstone.tables.segments.format.status_files import list_versions, read_latest, read_version


@pytest.fixture
def paimon(hdfs, use_hdfs, tmp_path):
    """Paimon tables on HDFS."""
    return PaimonTables(hdfs, use_hdfs, tmp_path)


def kill_at(step, moment="after"):
    """A fault as the child takes it."""
    return {"step": step, "action": "kill", "moment": moment}


def compact_paimon(address):
    """Compact in this process."""
    return Table(address).compact(PaimonOptions(strategy="full"))


def test_paimon_compaction(paimon):
    """A compaction publishes COMPACT snapshots; the rows are the same, and nothing is wrong with the table."""
    address = paimon.copy()
    outcome = compact_paimon(address)
    assert outcome.status.value == "committed", outcome
    after = paimon.fetch(address)
    assert after.rows() == paimon.rows
    assert after.snapshot(after.ids()[-1])["commitKind"] == "COMPACT"
    assert after.problems() == []


def test_paimon_compaction_killed(paimon, children, hdfs):
    """Killed around the publication, the table has the same rows and can be compacted again."""
    done = children.run("paimon_compact", path=paimon.copy(), env=hdfs.env)
    assert "error" not in done, done
    steps = done["steps"]
    publish = next(at for at, name in enumerate(steps) if name.startswith("write_new") and "/snapshot-" in name)
    for step, moment in ((publish, "before"), (publish, "after"), (publish + 1, "after")):
        address, where = paimon.copy(), f"killed {moment} step {step}: {steps[step]}"
        done = children.run("paimon_compact", path=address, env=hdfs.env, fault=kill_at(step, moment))
        assert done["status"] == KILLED, where
        assert paimon.fetch(address).rows() == paimon.rows, where
        again = compact_paimon(address)
        assert again.status.value in ("committed", "nothing-to-do"), (where, again)
        after = paimon.fetch(address)
        assert after.rows() == paimon.rows, where
        assert len(after.ids()) == len(set(after.ids())), where


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_paimon_compaction_killed_at_every_step(paimon, children):
    """Killed anywhere, inside of writes too: the rows stay, another run ends the work, what was left is known."""
    check_paimon_killed(paimon, children, stride=1, halves=True)


def test_paimon_compactions_at_once(paimon, children, hdfs):
    """Of several processes that compact one table at once, some do and the others say so; the rows are the same."""
    address = paimon.copy()
    pids = [children.start("paimon_compact", path=address, env=hdfs.env) for _ in range(4)]
    answers = [children.wait(pid) for pid in pids]
    assert all(answer.get("error") in (None, "ConflictError") for answer in answers), answers
    assert any("value" in answer for answer in answers)
    after = paimon.fetch(address)
    assert after.rows() == paimon.rows
    published = [one for answer in answers for one in answer.get("value", {}).get("snapshots", ())]
    assert len(set(published)) == len(published)
    assert set(published) <= set(after.ids())


@pytest.fixture
def segments(use_hdfs):
    """Make one segment table after the other, with some loads; answers with the store and the path."""
    io, numbers = open_store(use_hdfs), count()

    def make():
        path = f"{use_hdfs}/{next(numbers)}/t"
        io.make_dirs(posixpath.dirname(path))
        segment_create(io, path)
        for _ in range(2):
            segment_load(io, path)
        return io, path

    return make


def check_segments_usable(io, path, where):
    """Every version is whole, and other commits get through."""
    versions = list_versions(io, path)
    for version in versions:
        read_version(io, path, version)
    loaded = segment_load(io, path)
    segment_delete(io, path, [loaded])
    assert read_latest(io, path).version == versions[-1] + 3, where


def test_segment_commits_killed(segments, children, hdfs):
    """A merge of segments killed around a version's creation happened or did not: exactly that creation decides."""
    io, path = segments()
    call = {"inputs": ["0", "1"], "output": "0.1"}
    steps = children.run("segment_merge", path=path, env=hdfs.env, **call)["steps"]
    created = [at for at, name in enumerate(steps) if name.startswith("write_new") and "/status/" in name]
    assert len(created) == 2
    for step, moment in ((at, moment) for at in created for moment in ("before", "after")):
        io, path = segments()
        where = f"killed {moment} step {step}: {steps[step]}"
        first = read_latest(io, path).version
        done = children.run("segment_merge", path=path, env=hdfs.env, fault=kill_at(step, moment), **call)
        assert done["status"] == KILLED, where
        happened = sum(at < step + (moment == "after") for at in created)
        assert read_latest(io, path).version == first + happened, where
        check_segments_usable(io, path, where)


def test_segment_loads_at_once(segments, children, hdfs):
    """Processes that load at once all get through; no id is given twice, no version is lost or skipped."""
    io, path = segments()
    first = read_latest(io, path).version
    pids = [children.start("segment_load_loop", path=path, count=4, env=hdfs.env) for _ in range(4)]
    answers = [children.wait(pid) for pid in pids]
    assert [answer.get("error") for answer in answers] == [None] * 4, answers
    ids = [int(one) for answer in answers for one in answer["value"]["ids"]]
    assert sorted(ids) == list(range(2, 18))
    assert list_versions(io, path)[-1] == first + 2 * 16
    segment_merge(io, path, ["2", "3"], "2.1")


@pytest.fixture
def loaded(hdfs, use_hdfs, tmp_path):
    """Segment tables with rows on HDFS."""
    return SegmentTables(hdfs, use_hdfs, tmp_path)


def test_segment_compaction_killed_at_some_steps(loaded, children):
    """Killed there, the table reads the same, a second run succeeds, and a clean leaves nothing behind."""
    check_segment_compaction(loaded, children, stride=15, halves=True)


def test_segment_load_killed_at_some_steps(loaded, children):
    """All of it or nothing is there, the next load works, and a clean knows everything that was left."""
    check_segment_load(loaded, children, stride=37, halves=True)


def test_half_a_record_is_cleaned(loaded):
    """A process killed between writing a record and renaming it leaves half a commit: a clean knows it by its name."""
    table = loaded.copy_of(make_local(loaded.tmp_path / "t").path)
    io = open_store(table)
    half = io._write_aside(f"{table}/Metadata/status/000000099.json", b"{")
    segment_clean(io, table, days=0.5)
    assert io.stat(half) is not None  # its writer may live
    segment_clean(io, table, days=8)
    assert io.stat(half) is None


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_segment_compaction_killed_at_every_step(loaded, children):
    """Killed anywhere, inside of writes too."""
    check_segment_compaction(loaded, children, stride=1, halves=True)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_segment_load_killed_at_every_step(loaded, children):
    """Killed anywhere, inside of writes too."""
    check_segment_load(loaded, children, stride=1, halves=True)
