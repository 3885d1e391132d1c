"""Paimon tables on the command line: what is drawn, and what one is told after a slip."""

import shutil
from pathlib import Path

import pytest

from packstone.cli.main import COMMANDS

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
    (("plan", "{table}", "--partitions", "day=1"), "day is no partition column; use dt."),
    (("plan", "{table}", "--where", "order_id = 1"), "'order_id', which is no partition column; there are: dt."),
    (("plan", "{table}", "--codec", "zstd"), "--codec is for Hive directories, and {table} is a Paimon table."),
    (("compact", "{table}", "--keep-days", "1"), "--keep-days is for Hive directories, and {table} is a Paimon table."),
    (("plan", "{table}", "--strategy", "small-files"), "use one of minor, full, universal, force-up-level0."),
    (("plan", "{table}", "--option", "num-level=4"), "does not look at this option; did you mean num-levels?"),
    (("plan", "{table}", "--option", "colour=4"), "does not look at this option; docs/paimon.md lists those it does."),
    (("plan", "{table}", "--option", "num-levels=few"), "Option num-levels: 'few' is no whole number."),
    (("plan", "{table}", "--option", "bucket=4"), "cannot be changed for one run; it says what the table is."),
    (("plan", "{table}", "--option", "num-levels"), "--option num-levels is no KEY=VALUE."),
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
    """`--buckets` on a Hive directory names the family it is for."""
    done = packstone("plan", lake.parquet(), "--buckets", "0-9")
    assert done.code == 2
    assert f"--buckets is for Paimon tables, and {lake.table} is none." in done.sentence


def test_buckets_of_a_table_without_fixed_buckets(tmp_path, packstone):
    """`--buckets` needs a fixed number of buckets."""
    done = packstone("plan", fixture_copy("append_unaware", tmp_path), "--buckets", "0-9")
    assert done.code == 2
    assert "has no fixed number of buckets" in done.sentence


@pytest.mark.parametrize("command", ["restore", "verify"])
def test_commands_about_backups_say_what_a_paimon_table_has_instead(command, table, packstone):
    """`restore` and `verify` refuse with the reason; the run may be told by the history alone."""
    run = packstone("compact", table, "--format", "json").json["run"]
    for words in ((run, table), (run,)):
        done = packstone(command, *words, *(("--yes",) if command == "restore" else ()))
        assert done.code == 3
        assert f"{table} is a Paimon table" in done.sentence
        assert "snapshot" in done.sentence


def test_recover_has_nothing_to_do(table, tree, packstone):
    """`recover` answers 0 on a Paimon table, names `clean`, and changes nothing."""
    before = tree(table.parent)
    done = packstone("recover", table)
    assert done.code == 0
    assert "nothing to recover" in done.out
    assert "packstone clean" in done.out
    assert packstone("recover", table, "--format", "json").json["status"] == "nothing-to-do"
    assert tree(table.parent) == before


def test_a_plan_marks_the_runs_that_are_taken(table, packstone):
    """The picture of a bucket tells taken runs from those that stay."""
    done = packstone("plan", table, "--partitions", "dt=2024-05-01")
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


def test_an_upgrade_is_no_proof(tmp_path, packstone):
    """A run that only gives files a new level says so instead of counting rows that it did not read."""
    table = fixture_copy("java_settled", tmp_path)
    done = packstone("compact", table, "--strategy", "full", "--option", "num-levels=7")
    assert done.code == 0, done.err
    assert "upgrade  1 → 1" in done.out
    assert "same file" in done.out
    assert "proof  no file was written: files only got a new level" in done.out


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
    known += ("after", "cost", "proof", "time", "commit", " ")
    assert [line for line in lines if not (line.startswith(known) or line[:1].isdigit())] == []


@pytest.mark.parametrize("command", ["plan", "compact"])
def test_help_tells_which_options_are_for_which_family(command, packstone):
    """Options stand under the family they are for."""
    text = packstone(command, "--help").out
    both, _, rest = text.partition("Options for Hive directories:")
    hive, _, rest = rest.partition("Options for Paimon tables:")
    paimon, _, segments = rest.partition("Options for segment tables:")
    assert "--where" in both
    assert "--codec" in hive
    assert "--partition-idle-time" in paimon
    assert "--major-size-mb" in segments


def test_the_program_says_the_same_as_its_commands():
    """The short help of a command is one, whoever prints it."""
    from importlib import import_module

    for name, (module, text) in COMMANDS.items():
        command = import_module(f"packstone.cli.commands.{module}").command
        assert command.short_help in (text, None), name
