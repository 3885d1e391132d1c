"""The run of a load: what it leaves on each way out."""

import contextlib
from pathlib import Path

import pytest

from packstone.errors import CommitUnknownError, VerificationError
from packstone.model.segment import SegmentId
from packstone.runs.clock import system_clock
from packstone.runs.interrupts import Interrupted
from packstone.storage.local import LocalFileIO
from packstone.tables.segments.format.columns import parse_columns
from packstone.tables.segments.format.commit import create_table
from packstone.tables.segments.format.edits import SegmentFacts
from packstone.tables.segments.format.status_files import read_latest, read_retired
from packstone.tables.segments.leftovers import list_attempts, read_attempt, read_created
from packstone.tables.segments.load import LoadSession

IO = LocalFileIO()
DATA = "Fact/Segment_0/part-1.parquet"
LOST = "Fact/Segment_0/part-1-of-a-lost-try.parquet"
FACTS = SegmentFacts(segment_file="0_x.json", rows=1, files=1, data_bytes=1, index_bytes=1)


@pytest.fixture
def table(tmp_path):
    """An empty table."""
    path = str(tmp_path / "t")
    create_table(IO, path, parse_columns("id long"), properties={}, clock=system_clock())
    return path


def work(session):
    """Announce the load and write two files, each recorded first."""
    segment = session.begin(overwrite=False)
    for path in (DATA, LOST):
        session.record([path])
        whole = Path(session.table) / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_bytes(b"rows")
    return segment


def fail(session, error):
    """A load that comes to grief after it has written."""
    with session:
        work(session)
        assert read_attempt(IO, session.table, session.attempt).run == session.attempt
        assert len(read_latest(IO, session.table).loading) == 1
        raise error


def there(table):
    """Which of the two files are there."""
    return [path for path in (DATA, LOST) if (Path(table) / path).exists()]


@pytest.mark.parametrize("error", [RuntimeError, Interrupted, KeyboardInterrupt])
def test_given_up(table, error):
    """On any error the entry, the files, the folder and the run are gone."""
    with pytest.raises(error):
        fail(LoadSession(IO, table), error())
    assert there(table) == []
    assert not (Path(table) / "Fact/Segment_0").exists()
    assert list_attempts(IO, table) == ()
    status = read_latest(IO, table)
    assert (status.entries, status.next_load) == ((), 1)
    assert [entry.id for entry in read_retired(IO, table, status)] == [SegmentId(0)]


def test_committed(table):
    """What the segment consists of stays; files of tries that were not taken go."""
    with LoadSession(IO, table) as session:
        segment = work(session)
        session.finish(FACTS, keep=[DATA], operation="load")
    assert there(table) == [DATA]
    assert list_attempts(IO, table) == ()
    assert [entry.id for entry in read_latest(IO, table).live] == [segment]


@pytest.mark.parametrize("commits", [True, False])
def test_a_task_that_may_still_come(table, commits):
    """A name whose file may come after the load has ended stays recorded, for `clean`."""
    with contextlib.suppress(RuntimeError), LoadSession(IO, table) as session:
        session.run.tasks_may_outlive = True
        work(session)
        session.record(["Fact/Segment_0/later.parquet"])
        if not commits:
            raise RuntimeError
        session.finish(FACTS, keep=[DATA], operation="load")
    assert there(table) == ([DATA] if commits else [])
    (attempt,) = list_attempts(IO, table)
    assert "Fact/Segment_0/later.parquet" in read_created(IO, table, attempt)


def test_evidence(table):
    """Rows that are not what they should be stay to be looked at, but nobody sees them in the table."""
    session = LoadSession(IO, table)
    with pytest.raises(VerificationError):
        fail(session, VerificationError("rows differ"))
    assert there(table) == [DATA, LOST]
    assert read_latest(IO, table).entries == ()
    assert list_attempts(IO, table) == (session.attempt,)


def test_an_unknown_commit(table):
    """If nobody knows whether the load was committed, nothing is removed."""
    with pytest.raises(CommitUnknownError):
        fail(LoadSession(IO, table), CommitUnknownError("no answer"))
    assert there(table) == [DATA, LOST]
    assert len(read_latest(IO, table).loading) == 1
