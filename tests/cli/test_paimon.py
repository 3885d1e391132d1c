"""Paimon tables on the command line: what is drawn, and the message after a mistake."""

import shutil
from pathlib import Path

import pytest

from packstone.cli.main import COMMANDS
from packstone.errors import InvalidInputError
from packstone.pipeline.table import Table
from packstone.tables.paimon.options import PaimonOptions

ROOT = Path(__file__).resolve().parents[2]
WIDTHS = (80, 100)


@pytest.fixture
def table(tmp_path) -> Path:
    """The table of docs/paimon.md: three days, two buckets each, two of the days worth a compaction."""
    return copy_of("examples/paimon/orders", tmp_path / "orders")


def copy_of(name: str, to: Path) -> Path:
    """A table of the repository that a test may change."""
    shutil.copytree(ROOT / name, to)
    return to


def fixture_copy(name: str, tmp_path: Path) -> Path:
    """A copy of a fixture."""
    return copy_of(f"tests/testdata/paimon/{name}/table", tmp_path / name)


SLIPS = [
    (("plan", "{table}/dt=2024-05-01"), "lies inside the Paimon table {table}; give the table"),
    (("plan", "{table}", "--where", "day = '1'"), "'day', which is not a partition column; there are: dt."),
    (("plan", "{table}", "--where", "order_id = 1"), "'order_id', which is not a partition column; there are: dt."),
    (("plan", "{table}", "--codec", "zstd"), "--codec is for Hive directories, and {table} is a Paimon table."),
    (("compact", "{table}", "--keep-days", "1"), "--keep-days is for Hive directories, and {table} is a Paimon table."),
    (("plan", "{table}", "--strategy", "small-files"), "use one of minor, full, universal, force-up-level0."),
    (("plan", "{table}", "--set", "num-level=4"), "num-level is not an option of this table; did you mean num-levels?"),
    (
        ("plan", "{table}", "--set", "colour=4"),
        "colour is not an option of this table; `packstone options TARGET` lists the keys.",
    ),
    (("plan", "{table}", "--set", "num-levels=few"), "Option num-levels: 'few' is not a whole number."),
    (("plan", "{table}", "--set", "bucket=4"), "bucket cannot be set for one run; it defines what the table is."),
    (("plan", "{table}", "--set", "num-levels"), "--set num-levels is not KEY=VALUE."),
    (("merge", "file:///", "{table}", "120M"), "{table} is a Paimon table; use `packstone compact {table}`."),
    (("clean", "{table}", "--retain-min", "3"), "--retain-min needs --expire-snapshots."),
]


@pytest.mark.parametrize(("words", "told"), SLIPS, ids=[" ".join(words) for words, _ in SLIPS])
def test_a_slip_is_answered_in_one_sentence(words, told, table, packstone):
    """A wrong call on a Paimon table ends with exit code 2 and one sentence that says what to do."""
    done = packstone(*(word.format(table=table) for word in words))
    assert (done.code, done.out) == (2, "")
    assert told.format(table=table) in done.sentence


def test_options_of_paimon_tables_are_refused_for_hive_directories(lake, packstone):
    """A key of Paimon tables on a Hive directory names the family it is for."""
    done = packstone("plan", lake.parquet(), "--set", "leftovers=true")
    assert done.code == 2
    assert f"leftovers is for Paimon tables, and {lake.table} is a Hive directory." in done.sentence


def test_buckets_of_a_table_without_fixed_buckets(tmp_path):
    """Buckets, which Python alone can choose, need a fixed number of buckets."""
    table = Table(str(fixture_copy("append_unaware", tmp_path)))
    with pytest.raises(InvalidInputError, match="has no fixed number of buckets"):
        table.plan(PaimonOptions(buckets=((0, 9),)))
    with pytest.raises(InvalidInputError, match="write ranges"):
        PaimonOptions(buckets=((9, 0),))


def test_a_run_is_verified_and_undone(table, packstone):
    """`verify` and `restore` work on a Paimon table; the run may be named by the history alone."""
    done = packstone("compact", table, "--format", "json").json
    for words in ((done["run"], table), (done["run"],)):
        proved = packstone("verify", *words)
        assert proved.code == 0
        assert "against the record and " in proved.out
    undone = packstone("restore", done["run"], "--yes")
    assert undone.code == 0
    assert "restored" in undone.out
    assert packstone("restore", done["run"], table, "--yes").out.strip().endswith("was already undone; nothing to do.")
    assert packstone("plan", table, "--format", "json").json["files_before"] == done["files_before"]


def test_recover_has_nothing_to_do(table, tree, packstone):
    """`recover` answers 0 on a Paimon table, and changes nothing."""
    before = tree(table.parent)
    done = packstone("recover", table)
    assert done.code == 0
    assert "nothing to recover" in done.out
    assert packstone("recover", table, "--format", "json").json["status"] == "nothing-to-do"
    assert tree(table.parent) == before


def test_a_plan_marks_the_runs_that_are_taken(table, packstone):
    """The picture of a bucket tells taken runs from those that stay."""
    done = packstone("plan", table, "--where", "dt = '2024-05-01'")
    picture = done.out.partition("bucket-1")[0]
    assert picture.count("● L0") == 5
    assert "● L5" not in picture
    assert "    L5" in picture
    assert "→ L4" in picture


def test_a_plan_of_many_buckets_is_a_table(table, packstone):
    """More than two buckets take one line each: the runs before, the levels after, the bytes to rewrite."""
    lines = packstone("plan", table).out.splitlines()
    (first,) = [line.split() for line in lines if line.startswith("dt=2024-05-01/bucket-0")]
    assert " ".join(first[1:8]) == "run-count 5 × L0, L5 L4, L5"


def test_a_plan_of_an_append_table_counts_files(tmp_path, packstone):
    """An append table has no levels to draw."""
    done = packstone("plan", fixture_copy("append_partitions", tmp_path))
    assert "6 files" in done.out
    assert "merged in 1 bin" in done.out
    assert "L0" not in done.out


def test_an_upgrade_is_not_a_proof(tmp_path, packstone):
    """A run that only gives files a new level says so instead of counting rows that it did not read."""
    table = fixture_copy("java_settled", tmp_path)
    done = packstone("compact", table, "--strategy", "full", "--set", "num-levels=7")
    assert done.code == 0, done.err
    assert "upgrade  1 → 1" in done.out
    assert "same file" in done.out
    assert "proof  no file was written: files only moved to another level" in done.out


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", ["health", "plan", "compact"])
def test_nothing_wraps_or_runs_over(command, width, table, packstone, monkeypatch):
    """On terminals of 80 and 100 columns no sentence is broken, except reasons, which hang below their beginning."""
    from rich.console import Console

    from packstone.cli import output

    def make_console(**_):
        return Console(width=width, highlight=False, soft_wrap=False, emoji=False)

    monkeypatch.setattr(output, "make_console", make_console)
    monkeypatch.chdir(table.parent)
    lines = packstone(command, "orders").out.splitlines()
    assert max(map(len, lines)) <= width
    known = ("health", "Paimon", "at most", "worst", "dt=", "planned", "committed", "bucket", "not needed", "before")
    known += ("after", "cost", "proof", "time", "engine", "commit", "undo", " ", "level", "L0", "L5")
    assert [line for line in lines if not (line.startswith(known) or line[:1].isdigit())] == []


@pytest.mark.parametrize("command", ["plan", "compact"])
def test_help_is_in_groups(command, packstone):
    """Options are grouped by what they decide, and each of them is in a group."""
    text = packstone(command, "--help").out
    titles = ["What to touch", "What comes out", "Safety", "Where it runs", "In and out"]
    parts = [text.index(f"\n{title}:\n") for title in titles]
    assert parts == sorted(parts)
    assert "\nOptions:\n" not in text
    touch, out = text[parts[0] : parts[1]], text[parts[1] : parts[2]]
    assert all(name in touch for name in ("--strategy", "--where", "--exclude", "--min-age", "--ids"))
    assert all(name in out for name in ("--target-size", "--codec", "--header", "--set"))


def test_options_show_what_counts_for_the_table(table, packstone):
    """The keys of the family, then the table's own options with the values that it sets."""
    listed = packstone("options", table, "--format", "json").json
    found = {one["key"]: one for one in listed["options"]}
    assert (listed["family"], found["verify"]["option"], found["leftovers"]["option"]) == (
        "paimon",
        "--verify",
        "--set",
    )
    assert (found["write-only"]["default"], found["write-only"]["value"]) == ("false", "true")
    assert (found["target-file-size"]["default"], found["target-file-size"]["value"]) == (None, "128 mb")
    assert "bucket" not in found  # says what the table is
    for key, one in found.items():  # what is shown can be given
        if one["value"] is not None and key != "verify":
            assert packstone("plan", table, "--set", f"{key}={one['value']}").code == 0, key


def test_the_program_says_the_same_as_its_commands():
    """The short help of a command is one, whoever prints it."""
    from importlib import import_module

    for name, (place, text) in COMMANDS.items():
        module, _, attribute = place.partition(":")
        command = getattr(import_module(f"packstone.cli.commands.{module}"), attribute)
        assert command.short_help in (text, None), name
