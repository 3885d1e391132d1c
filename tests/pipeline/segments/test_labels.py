"""Labels of loads: a job that is run again loads nothing twice."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from patience import patient

import packstone
from packstone.errors import InvalidInputError
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.status import MAX_LABELS
from packstone.tables.segments.format.status_files import read_latest

IO = LocalFileIO()
PROPERTIES = {"COMPACTION_LEVEL_THRESHOLD": "2,2"}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """An empty table of ids."""
    monkeypatch.setenv("PACKSTONE_ENGINE", "inline")
    return packstone.create(str(tmp_path / "t"), "id long", properties=PROPERTIES)


def load(table, first, label, **options):
    """Load two rows under a label."""
    return table.segments.load(pa.table({"id": [first, first + 1]}), label=label, **options)


def ids(table):
    """The ids that DuckDB reads in the live files."""
    paths = table.segments.files().paths
    return [] if not paths else sorted(row[0] for row in duckdb.read_parquet(list(paths)).fetchall())


def labels(table):
    """Every label with the segment that contains its rows."""
    return {one.label: str(one.segment) for one in read_latest(IO, table.path).labels}


def test_a_label_is_loaded_once(table):
    """The second load says that it changed nothing, and does not create a version."""
    assert load(table, 1, "monday").status == "success"
    version = read_latest(IO, table.path).version
    again = load(table, 1, "monday")
    assert (again.status, str(again.segment), again.rows) == ("already-loaded", "0", 0)
    assert "already loaded, in segment 0" in again.message
    assert read_latest(IO, table.path).version == version
    assert load(table, 3, "tuesday").status == "success"
    assert ids(table) == [1, 2, 3, 4]


def test_merges_and_their_undoing_keep_labels(table):
    """A label follows its rows into merged segments, twice, and back."""
    for day in range(4):
        load(table, 10 * day, f"day {day}")
    outcome = table.compact(strategy="minor")
    assert len(set(labels(table).values())) == 1
    assert load(table, 0, "day 0").status == "already-loaded"
    assert len(ids(table)) == 8
    table.restore(outcome.run)
    assert labels(table) == {f"day {day}": str(day) for day in range(4)}
    assert load(table, 0, "day 0").status == "already-loaded"


def test_a_deleted_label_can_be_loaded_again(table):
    """Whoever deletes a wrong load, also after a merge, loads it again under its label."""
    load(table, 1, "monday")
    load(table, 3, "tuesday")
    table.segments.delete(ids=["0"])
    assert labels(table) == {"tuesday": "1"}
    load(table, 5, "monday")
    table.compact(strategy="major")
    (merged,) = set(labels(table).values())
    table.segments.delete(ids=[merged])
    assert labels(table) == {}
    assert load(table, 7, "monday").status == "success"
    assert ids(table) == [7, 8]


def test_an_overwrite_forgets_the_labels_of_what_it_replaces(table):
    """The rows of earlier labels are gone, so they can be loaded again."""
    load(table, 1, "monday")
    load(table, 3, "all", overwrite=True)
    assert labels(table) == {"all": "1"}
    assert load(table, 1, "monday").status == "success"
    assert load(table, 3, "all", overwrite=True).status == "already-loaded"
    assert ids(table) == [1, 2, 3, 4]


def test_an_empty_load_takes_no_label(table):
    """The file of the day may come later."""
    assert table.segments.load(pa.table({"id": pa.array([], pa.int64())}), label="monday").status == "empty"
    assert load(table, 1, "monday").status == "success"


def test_of_two_loads_with_one_label_one_is_visible(table, tmp_path):
    """Both run at once, in processes of their own; the one that commits second changes nothing."""
    (tmp_path / "day.csv").write_text("id\n" + "\n".join(map(str, range(2_000))) + "\n")
    words = [str(Path(sys.executable).parent / "packstone"), "segments", "load", table.path, str(tmp_path / "day.csv")]
    words += ["--label", "monday", "--engine", "inline", "--format", "json"]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [one.communicate(timeout=patient(120)) for one in running]
    assert [one.returncode for one in running] == [0, 0, 0], answers
    found = sorted(json.loads(out)["status"] for out, _ in answers)
    assert found == ["already-loaded", "already-loaded", "success"]
    assert ids(table) == list(range(2_000))
    assert not read_latest(IO, table.path).loading


def test_a_killed_load_leaves_its_label_free(table, tmp_path):
    """A load that was killed before its commit can be repeated; one after its commit changes nothing."""
    (tmp_path / "day.csv").write_text("id\n1\n2\n")
    program = """
import os, signal, sys
from packstone.tables.segments import load
before = load.LoadSession.finish
def finish(*args, **options):
    if sys.argv[3] == "after":
        before(*args, **options)
    os.kill(os.getpid(), signal.SIGKILL)
load.LoadSession.finish = finish
import packstone
packstone.open(sys.argv[1]).segments.load([sys.argv[2]], label="monday")
"""
    for moment, expected in (("before", "success"), ("after", "already-loaded")):
        words = [sys.executable, "-c", program, table.path, str(tmp_path / "day.csv"), moment]
        done = subprocess.run(words, capture_output=True, check=False, timeout=patient(120))
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert load(table, 1, "monday").status == expected
        assert ids(table) == [1, 2]
        table.segments.delete(ids=[labels(table)["monday"]])


@pytest.mark.parametrize("label", ["", "  ", "a\nb", "x" * 129])
def test_a_bad_label_is_refused(table, label):
    """A label is one short line of text."""
    with pytest.raises(InvalidInputError, match="is not a label"):
        load(table, 1, label)


def test_the_oldest_labels_of_a_segment_are_forgotten(table):
    """The status does not grow without bound: a merged segment remembers the newest labels."""
    status = read_latest(IO, table.path)
    from packstone.model.segment import SegmentId
    from packstone.tables.segments.format.edits import (
        SegmentFacts,
        begin_compaction,
        begin_load,
        finish_compaction,
        finish_load,
    )

    facts = SegmentFacts(segment_file="0_x.json", rows=1, files=1, data_bytes=1, index_bytes=1)
    for number in range(MAX_LABELS + 2):
        status = begin_load(status, attempt=f"a{number}", overwrite=False, now_ms=number).status
        status = finish_load(status, facts, attempt=f"a{number}", now_ms=number, label=f"l{number}").status
    assert len(status.labels) == MAX_LABELS + 2
    merge = {"attempt": "m", "output": SegmentId(0, 1), "now_ms": 5}
    status = begin_compaction(status, inputs=[entry.id for entry in status.entries], **merge).status
    status = finish_compaction(status, facts, **merge).status
    assert len(status.labels) == MAX_LABELS
    assert (status.find_label("l1"), status.find_label("l2") is not None) == (None, True)
