"""A plan of a Paimon table that is saved, reviewed and carried out later, exactly or not at all."""

import json
from pathlib import Path

import pytest
from paimon_lake import PaimonLake, options, tools

from packstone.errors import CorruptionError, InvalidInputError
from packstone.pipeline.plan import Plan
from packstone.pipeline.table import Table
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.commit import commit_edits
from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy

FULL = PaimonOptions(strategy=PaimonStrategy.FULL)
IO = LocalFileIO()


@pytest.fixture
def lake(tmp_path):
    """A table of three buckets: two with runs to merge, one whose only file is to be moved."""
    lake = PaimonLake(tmp_path / "lake/t", buckets=3).create()
    lake.append(dict.fromkeys(range(12), 1))
    lake.append(dict.fromkeys((0, 1, 3, 4), 2))
    return lake


def saved(lake, tmp_path, chosen=FULL):
    """A plan that went through a file, and what planning showed."""
    plan = Table(lake.table).plan(chosen)
    plan.save(tmp_path / "plan.json")
    return plan.outcome, Plan.load(tmp_path / "plan.json")


def done(outcome):
    """What a run did, bucket by bucket."""
    return sorted((unit.partition, unit.how, unit.inputs) for unit in outcome.units)


def test_it_is_carried_out_as_it_was_shown(lake, tmp_path):
    """The same inputs, the same levels, by whoever loads it; the second time every bucket has changed."""
    shown, plan = saved(lake, tmp_path)
    rows = lake.rows()
    assert plan.options == FULL
    outcome = Table(lake.table).compact(plan)
    assert (outcome.status, done(outcome)) == ("committed", done(shown))
    assert {entry.file["_LEVEL"] for entry in lake.live()} == {5}
    assert (lake.rows(), lake.problems()) == (rows, [])
    again = Table(lake.table).compact(Plan.load(tmp_path / "plan.json"))
    assert (again.status, {skip.kind for skip in again.skipped}) == ("conflict", {"conflict"})
    assert all("is no longer live on its level; plan again" in skip.why for skip in again.skipped)
    assert Table(lake.table).verify(outcome.run).to_json()["status"] == "verified"
    Table(lake.table).restore(outcome.run)
    assert (lake.rows(), lake.problems()) == (rows, [])


def test_only_what_it_names_is_merged(lake, tmp_path):
    """Files that came later stay on their level; a plan is carried out as it is."""
    shown, plan = saved(lake, tmp_path)
    lake.append({5: 9, 0: 9})
    rows = lake.rows()
    outcome = Table(lake.table).compact(plan)
    assert (outcome.status, done(outcome)) == ("committed", done(shown))
    assert sorted(entry.file["_LEVEL"] for entry in lake.live()) == [0, 0, 5, 5, 5]
    assert (lake.rows(), lake.problems()) == (rows, [])


def test_a_bucket_that_changed_is_skipped(lake, tmp_path):
    """Somebody compacted one of them: it is a conflict, the others are carried out."""
    shown, plan = saved(lake, tmp_path)
    commit_edits(IO, lake.table, lake.compaction(buckets={1}), options=options(user="flink"), **tools())
    outcome = Table(lake.table).compact(plan)
    assert outcome.status == "partial"
    assert [(skip.what, skip.kind) for skip in outcome.skipped] == [("bucket-1", "conflict")]
    assert done(outcome) == [one for one in done(shown) if one[0] != "bucket-1"]
    assert lake.problems() == []


def test_a_bucket_without_files_is_skipped(lake, tmp_path):
    """Everything in it was deleted and compacted away."""
    _, plan = saved(lake, tmp_path)
    lake.append(dict.fromkeys((1, 4, 7, 10), 0), deleted={1, 4, 7, 10})
    Table(lake.table).compact(PaimonOptions(strategy=PaimonStrategy.FULL, buckets=((1, 1),)))
    outcome = Table(lake.table).compact(plan)
    assert [(skip.what, skip.why) for skip in outcome.skipped] == [("bucket-1", "it no longer holds files; plan again")]


def test_it_is_not_changed_afterwards(lake, tmp_path):
    """Filters and strategies belong to planning, and a plan belongs to its table."""
    _, plan = saved(lake, tmp_path)
    with pytest.raises(InvalidInputError, match="carried out as it is"):
        Table(lake.table).compact(plan, strategy="full")
    other = PaimonLake(tmp_path / "lake/other").create()
    other.append({1: 1})
    with pytest.raises(InvalidInputError, match=rf"The plan is for {lake.table}, and this is {other.table}"):
        Table(other.table).compact(plan)


DAMAGES = {
    "cut": lambda text: text[: len(text) * 2 // 3],
    "flipped": lambda text: text.replace('"output_level":5', '"output_level":4', 1),
    "foreign": lambda _: '{"name": "package", "version": 2}\n',
    "binary": lambda _: "PAR1\x00\x01\x02",
    "empty": lambda _: "",
    "newer": lambda text: text.replace('"format_version": 1', '"format_version": 9', 1),
    "unknown family": lambda text: text.replace('"family": "paimon"', '"family": "iceberg"', 1),
    "unknown option": lambda text: text.replace('"strategy": "full"', '"strategy": "best"', 1),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_file_that_is_not_a_plan(lake, tmp_path, how):
    """Cut, changed, or something else altogether: one sentence that names the file."""
    saved(lake, tmp_path)
    path = tmp_path / "plan.json"
    text = path.read_text()
    assert DAMAGES[how](text) != text
    path.write_text(DAMAGES[how](text))
    with pytest.raises((InvalidInputError, CorruptionError), match=r"plan\.json") as caught:
        Plan.load(str(path))
    assert "\n" not in caught.value.message
    with pytest.raises(InvalidInputError, match="does not exist"):
        Plan.load(str(tmp_path / "none.json"))


def test_it_is_plain_json(lake, tmp_path):
    """A header line, then a line for each bucket: what a person or a program can review."""
    saved(lake, tmp_path)
    header, *parts = map(json.loads, Path(tmp_path / "plan.json").read_text().splitlines())
    assert (header["format_version"], header["family"], header["table"]) == (1, "paimon", lake.table)
    assert sorted(part["part"] for part in parts) == ["bucket-0", "bucket-1", "bucket-2"]
