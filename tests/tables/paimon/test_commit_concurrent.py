"""Several processes commit to one table at once: nobody's snapshot is lost, nobody's rows, and everybody gets on.

The appending processes are not ours (tests/paimon_lake.py) and publish exclusively; the compacting ones are.
"""

import pytest
from paimon_lake import PaimonLake

COMMITS = 25


@pytest.fixture
def lake(tmp_path):
    """A table with one commit."""
    lake = PaimonLake(tmp_path / "t").create()
    lake.append({0: 0, 1: 1})
    return lake


def race(children, lake, *, writers, others):
    """Let writers append at the same time as the others do what they do; return what was appended, and the rest."""
    stop = lake.path.parent / "stop"
    beside = [children.start(call, path=lake.table, stop=stop) for call in others]
    appending = [
        children.start("paimon_append_loop", path=lake.table, first=1000 * (number + 1), count=COMMITS)
        for number in range(writers)
    ]
    appended = [children.wait(pid) for pid in appending]
    stop.write_text("")
    answers = [*appended, *(children.wait(pid) for pid in beside)]
    assert [answer.get("error") for answer in answers] == [None] * len(answers), answers
    commits = [commit for answer in appended for commit in answer["value"]]
    assert len(commits) == writers * COMMITS
    return commits, *(answer["value"] for answer in answers[writers:])


def test_appends_and_compactions_at_once(children, lake):
    """Two writers and two compactors: every snapshot id is unique, none is lost, all rows and counts add up."""
    commits, one, other = race(children, lake, writers=2, others=["paimon_compact_loop", "paimon_compact_loop"])
    ids = [1, *(number for number, _ in commits), *one["snapshots"], *other["snapshots"]]
    assert sorted(ids) == lake.ids()  # each once
    assert len(set(ids)) == len(ids)
    assert one["snapshots"] or other["snapshots"]
    assert {key for _, key in lake.rows()} == {0, 1, *(key for _, rows in commits for key in rows)}
    kinds = [lake.snapshot(number)["commitKind"] for number in lake.ids()]
    assert kinds.count("COMPACT") == len(one["snapshots"]) + len(other["snapshots"])
    assert lake.problems() == []


def test_expiry_beside_appends_and_compactions(children, lake):
    """An expiry that runs all the time takes nothing from anybody who commits."""
    appended, compacted, expired = race(children, lake, writers=1, others=["paimon_compact_loop", "paimon_expire_loop"])
    ids = [1, *(number for number, _ in appended), *compacted["snapshots"]]
    assert sorted(ids) == list(range(1, len(ids) + 1))
    assert expired == sorted(set(expired))
    assert lake.ids() == list(range(expired[-1] + 1, len(ids) + 1))
    assert {key for _, key in lake.rows()} == {0, 1, *(key for _, rows in appended for key in rows)}
    # A writer that is not ours may write its hint late, when its snapshot is gone: three are very few to keep.
    assert [problem for problem in lake.problems() if not problem.startswith("hint:")] == []
