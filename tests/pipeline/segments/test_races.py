"""Loads, compactions, cleans and readers at once, each a process of its own: nothing is lost, doubled or in the way."""

from collections import Counter

import pytest
from compact_calls import segment_clean, segment_compact
from race_calls import ROWS
from segment_lake import SegmentLake
from segment_model import quick_folder

from packstone.storage.local import LocalFileIO

IO = LocalFileIO()
FORMS = {
    "sorted": {"SORT_COLUMNS": "id", "COMPACTION_LEVEL_THRESHOLD": "3,2,2"},
    "unsorted": {"COMPACTION_LEVEL_THRESHOLD": "3,2,2"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.sample(2)
def test_two_compactions_and_three_loads(children, form):
    """For a few seconds, with a cleaner and a reader beside them."""
    check_race(children, form, seconds=5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("form", FORMS)
def test_two_compactions_and_three_loads_for_long(children, form):
    """For minutes."""
    check_race(children, form, seconds=240)


def check_race(children, form, *, seconds):
    """Let them run; then every load is there once, everybody has got on, and a clean leaves what is live."""
    with quick_folder() as folder:
        lake = SegmentLake(folder / "t").create(
            **FORMS[form], SEGMENT_RETENTION_DAYS=0, MAX_QUERY_MINUTES=1, TRASH_RETENTION_DAYS=0
        )
        scopes = ("NO_SORT", "LOCAL_SORT", "GLOBAL_SORT") if "SORT_COLUMNS" in FORMS[form] else ("NO_SORT",) * 3
        common = {"path": lake.table, "seconds": seconds}
        loads = [children.start("race_loads", who=who, scope=scope, **common) for who, scope in enumerate(scopes)]
        merges = [children.start("race_compactions", strategy="minor", **common) for _ in range(2)]
        others = [children.start("race_cleans", **common), children.start("race_reads", **common)]
        answers = {pid: children.wait(pid) for pid in (*loads, *merges, *others)}
        assert not [answer for answer in answers.values() if "error" in answer], answers
        made = [answers[pid]["value"] for pid in loads]
        assert min(made) > 0, "a load never got through"
        assert min(answers[pid]["value"]["merged"] for pid in merges) > 0, answers
        assert answers[others[0]]["value"] > 0, "nothing was cleaned"
        assert answers[others[1]]["value"]["reads"] > 0, answers
        check_rows(lake, made)
        assert segment_compact(IO, lake.table, strategy="major")["status"] == "committed"
        check_rows(lake, made)
        segment_clean(IO, lake.table, days=2)
        segment_clean(IO, lake.table, days=2)
        assert len(lake.data_on_disk()) == len(lake.files())
        assert lake.open_runs() == []
        check_rows(lake, made)


def check_rows(lake, made):
    """Every row of every load, once."""
    expected = [
        (who * 1_000_000 + at) * ROWS + row for who, n in enumerate(made) for at in range(n) for row in range(ROWS)
    ]
    assert Counter(row[0] for row in lake.count().elements()) == Counter(expected)
    assert lake.problems() == []
