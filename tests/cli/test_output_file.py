"""``--output FILE``: the result as JSON in a file, beside what is printed."""

import json

import pytest


def test_the_file_has_what_json_prints(packstone, lake, tmp_path):
    """The table is printed as always, and the file has the result as JSON; nothing else is left in its folder."""
    lake.parquet("dt=1")
    (tmp_path / "results").mkdir()
    printed = packstone("plan", lake.table, "--format", "json").json
    done = packstone("plan", lake.table, "--output", tmp_path / "results" / "plan.json")
    written = json.loads((tmp_path / "results" / "plan.json").read_text())
    assert done.code == 0
    assert "6 → 1" in done.out
    assert {**written, "seconds": 0} == {**printed, "seconds": 0}
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["plan.json"]


def test_a_failure_replaces_the_previous_result(packstone, lake, tmp_path):
    """A reader of the file never takes an old success for the result of a run that failed."""
    lake.parquet("dt=1")
    target = tmp_path / "result.json"
    assert packstone("compact", lake.table, f"--output={target}").code == 0
    assert json.loads(target.read_text())["status"] == "committed"
    done = packstone("compact", tmp_path / "nowhere", f"--output={target}")
    assert done.code == 2
    failure = json.loads(target.read_text())
    assert (failure["status"], failure["message"]) == ("failed", done.sentence.removeprefix("packstone: "))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("none/x.json", "does not exist; create it"), ("/dev/stdout", "is a device"), (".", "is not a regular file")],
)
def test_a_file_that_cannot_be_written_is_refused_first(packstone, lake, tmp_path, monkeypatch, name, sentence):
    """What could not be written at the end is refused at the start, and nothing is merged."""
    lake.parquet("dt=1")
    monkeypatch.chdir(tmp_path)
    done = packstone("compact", lake.table, "--output", name)
    assert done.code == 2
    assert sentence in done.sentence
    assert len(lake.names("dt=1")) == 6
