"""Plan, review, run: `packstone plan --out FILE` and `packstone compact TARGET --plan FILE`."""

import json
import os

import pytest

import packstone as library
from packstone.errors import InvalidInputError
from packstone.model.codec import seal


@pytest.fixture
def plan(lake, packstone, tmp_path):
    """A plan over two partitions, in a file."""
    for partition in ("dt=1", "dt=2"):
        lake.parquet(partition)
    path = tmp_path / "plan.json"
    assert packstone("plan", lake.table, "--out", path).code == 0
    return path


def test_exactly_the_plan_is_carried_out(lake, plan, packstone):
    """Files and partitions that arrived since are left for the next plan, and every row stays."""
    lake.parquet("dt=3")
    ids = lake.ids()
    done = packstone("compact", lake.table, "--plan", plan, "--format", "json")
    assert (done.code, [unit["part"] for unit in done.json["units"]]) == (0, ["dt=1", "dt=2"])
    assert [len(lake.names(partition)) for partition in ("dt=1", "dt=2", "dt=3")] == [1, 1, 6]
    assert lake.ids() == ids


def test_a_part_that_changed_is_a_conflict(lake, plan, packstone, tree):
    """A touched input skips its partition, the other one is merged; a second run finds nothing of the plan."""
    os.utime(lake.table / "dt=1" / "part-00000.parquet")
    before = tree(lake.table / "dt=1")
    done = packstone("compact", lake.table, "--plan", plan, "--format", "json")
    assert (done.code, done.json["status"]) == (1, "partial")
    assert "part-00000.parquet changed or was removed since the plan was made" in done.skipped("dt=1")
    assert tree(lake.table / "dt=1") == before
    assert packstone("compact", lake.table, "--plan", plan).code == 3


def test_the_review_shows_what_will_be_done(lake, plan):
    """The file names every part with its inputs and the reason; Python reads the same plan."""
    header, *parts = [json.loads(line) for line in plan.read_text().splitlines()]
    assert (header["table"], header["family"]) == (str(lake.table), "hive")
    assert [(part["part"], len(part["units"][0]["inputs"])) for part in parts] == [("dt=1", 6), ("dt=2", 6)]
    loaded = library.Plan.load(str(plan))
    assert [(part.part, part.files_in, part.files_out) for part in loaded.parts] == [("dt=1", 6, 1), ("dt=2", 6, 1)]
    assert all("6 of 6 small files" in str(part) for part in loaded.parts)
    with pytest.raises(InvalidInputError, match="stores its parts"):
        _ = loaded.outcome


def test_a_plan_in_memory_is_carried_out_too(lake):
    """`compact(plan)` does exactly what `plan()` said, and nothing twice."""
    lake.parquet("dt=1")
    table = library.Table(str(lake.table))
    made = table.plan()
    lake.parquet("dt=2")
    assert [unit.partition for unit in table.compact(made).units] == ["dt=1"]
    assert table.compact(made).status == "conflict"
    assert [unit.partition for unit in table.compact().units] == ["dt=2"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--where", "dt = 1"), "--where is part of the plan; give it to `packstone plan --out`."),
        (("--set", "min-files=2"), "--set is part of the plan; give it to `packstone plan --out`."),
        (("--min-age", "1d"), "--min-age is part of the plan; give it to `packstone plan --out`."),
        (("--keep-days", "1"), "--keep-days is part of the plan; give it to `packstone plan --out`."),
        (("--strategy", "small-files"), "--strategy is part of the plan; give it to `packstone plan --out`."),
    ],
)
def test_what_is_planned_is_not_said_twice(lake, plan, packstone, words, sentence):
    """Options that choose what is merged belong to the plan."""
    done = packstone("compact", lake.table, "--plan", plan, *words)
    assert (done.code, done.sentence) == (2, f"packstone: {sentence}")


def test_budgets_and_hours_are_the_runs(lake, plan, packstone):
    """How much, and when, is said when the plan is carried out."""
    one = sum(path.stat().st_size for path in (lake.table / "dt=1").iterdir())
    done = packstone("compact", lake.table, "--plan", plan, "--max-bytes", one, "--format", "json")
    assert [unit["part"] for unit in done.json["units"]] == ["dt=1"]
    halves = [
        packstone("compact", lake.table, "--plan", plan, "--between", hours, "--format", "json").json["status"]
        for hours in ("00:00-12:00", "12:00-00:00")
    ]
    assert sorted(halves) == ["partial", "refused"]  # it is morning or afternoon


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is not a plan of packstone"),
        (b"{}\n", "is not a plan of packstone"),
        (
            b'{"format_version": 9, "table": "/x", "family": "hive", "filters": {}}\n',
            "was written by a newer packstone",
        ),
        (b'{"format_version": 1, "table": "/x", "family": "nix", "filters": {}}\n', "was written by a newer packstone"),
        (None, "does not exist"),
    ],
)
def test_a_file_that_is_not_a_plan(lake, packstone, tmp_path, content, sentence):
    """One sentence, exit code 2, and nothing is done."""
    lake.parquet("dt=1")
    path = tmp_path / "other.json"
    if content is not None:
        path.write_bytes(content)
    done = packstone("compact", lake.table, "--plan", path)
    assert done.code == 2
    assert sentence in done.sentence


def test_a_damaged_or_foreign_plan(lake, plan, packstone):
    """A line that was changed is refused by its digest; a plan of another table by its name."""
    content = plan.read_bytes()
    plan.write_bytes(content.replace(b"part-00003.parquet", b"part-00002.parquet"))
    done = packstone("compact", lake.table, "--plan", plan)
    assert (done.code, "its digest does not match" in done.sentence) == (2, True)
    plan.write_bytes(content)
    other = lake.table.parent / "other"
    lake.table.rename(other)
    lake.table.mkdir()
    done = packstone("compact", other, "--plan", plan)
    assert (done.code, "The plan is for" in done.sentence) == (2, True)


def test_a_plan_that_cannot_be_saved(lake, packstone, tmp_path):
    """It is said before anything is planned."""
    lake.parquet("dt=1")
    done = packstone("plan", lake.table, "--out", tmp_path / "nix" / "plan.json")
    assert (done.code, "does not exist; create it" in done.sentence) == (2, True)


def test_a_relative_path_in_python(lake, monkeypatch):
    """`Table("orders")` works in its folder; its records name whole paths, so another folder's commands read them."""
    lake.parquet("dt=1")
    monkeypatch.chdir(lake.table.parent)
    outcome = library.Table("orders").compact()
    assert (outcome.status, outcome.table) == ("committed", str(lake.table))
    monkeypatch.chdir("/")
    assert library.Table(str(lake.table)).restore(outcome.run).files_restored == 6


def edit_plan(path, change):
    """Change the parsed parts of a plan and seal them again, as somebody would who knows the format."""
    header, *lines = path.read_bytes().splitlines()
    parts = [json.loads(line) for line in lines]
    for part in parts:
        part.pop("digest")
        change(part)
    sealed = [seal(json.dumps(part, separators=(",", ":")).encode()) for part in parts]
    path.write_bytes(b"\n".join([header, *sealed]) + b"\n")


def test_a_plan_that_leads_out_of_the_table(lake, plan, packstone, tree):
    """Files of another folder are not touched, though the plan names them with their sizes and times."""
    outside = lake.table.parent / "outside"
    (lake.table / "dt=1").rename(outside)
    before = tree(lake.table.parent)

    def lead_out(part):
        if part["part"] == "dt=1":
            part["part"] = part["detail"]["partition"] = "../outside"
            part["detail"]["directory"] = f"{lake.table}/../outside"

    edit_plan(plan, lead_out)
    done = packstone("compact", lake.table, "--plan", plan)
    assert (done.code, "is damaged: detail: partition: '..'" in done.sentence) == (2, True), done
    assert {name: one for name, one in tree(lake.table.parent).items() if ".packstone" not in str(name)} == before


def test_a_plan_that_merges_a_file_twice(lake, plan, packstone):
    """It would double rows, so it is refused when it is read."""

    def double(part):
        part["detail"]["merges"].append(part["detail"]["merges"][0])

    edit_plan(plan, double)
    done = packstone("compact", lake.table, "--plan", plan)
    assert (done.code, "a file is listed twice; make the plan again" in done.sentence) == (2, True), done


@pytest.mark.parametrize("lines", [1, 2])
def test_a_plan_that_was_cut(lake, plan, packstone, lines):
    """A file that lost its last lines is not a smaller plan."""
    plan.write_bytes(b"\n".join(plan.read_bytes().splitlines()[:lines]) + b"\n")
    done = packstone("compact", lake.table, "--plan", plan)
    assert (done.code, f"it states 2 parts and has {lines - 1}" in done.sentence) == (2, True), done


def test_edited_options_are_damage(lake, packstone, tmp_path, tree):
    """The first line is sealed too: a plan that was reviewed with a proof by content does not run by count."""
    lake.parquet("dt=1", files=6)
    path = tmp_path / "plan.json"
    packstone("plan", lake.table, "--out", path)
    text, before = path.read_text(), tree(lake.table)
    for edited in (text.replace('"verify": "content"', '"verify": "count"', 1), text.replace('"digest"', '"other"', 1)):
        assert edited != text
        path.write_text(edited)
        done = packstone("compact", lake.table, "--plan", path)
        assert (done.code, "first line" in done.err) == (2, True), done
    assert tree(lake.table) == before
