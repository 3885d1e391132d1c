"""`packstone explain`, exactly as other programs call it, on every example of the seeds."""

import subprocess
import sys
from io import StringIO

import pytest

SEED = "--levels 6 --max-size-amp-pct 25 --size-ratio-pct 1 --trigger 3"

# (what is typed, positions picked, output, reason, the table after)
SEED_TREES = [
    (f"universal {SEED} 0:1 0:1 0:1", [0, 1, 2], "L5", "size-amp", ["L5:3"]),
    (f"universal {SEED} 0:1 0:1 5:10", [0, 1], "L4", "size-ratio", ["L4:2", "L5:10"]),
    (f"universal {SEED} 0:1 0:1 5:7", [0, 1, 2], "L5", "size-amp", ["L5:9"]),
    (f"universal {SEED} 0:1 0:1 5:8", [0, 1], "L4", "size-ratio", ["L4:2", "L5:8"]),
    (f"universal {SEED} 0:1 0:1 4:10 5:100", [0, 1], "L3", "size-ratio", ["L3:2", "L4:10", "L5:100"]),
    (f"universal {SEED} 0:1 0:2 0:2 4:10 4:10 5:100", [0, 1, 2, 3, 4], "L4", "run-count", ["L4:25", "L5:100"]),
    (
        "force-up-level0 --levels 6 --max-size-amp-pct 25 --trigger 5 0:1 0:1 1:10 5:100",
        [0, 1, 2],
        "L4",
        "force-level0",
        ["L4:12", "L5:100"],
    ),
    (
        "force-up-level0 --levels 6 --max-size-amp-pct 25 --trigger 5 --rules 1.4 0:1 0:1 1:10 5:100",
        [0, 1, 2],
        "L1",
        "force-level0",
        ["L1:12", "L5:100"],
    ),
    (
        "force-up-level0 --levels 6 --max-size-amp-pct 25 --trigger 5 0:1 0:2 4:10 5:100",
        [0, 1],
        "L3",
        "force-level0",
        ["L3:3", "L4:10", "L5:100"],
    ),
    ("full --levels 6 0:1 0:2 4:10 5:100", [0, 1, 2, 3], "L5", "full", ["L5:113"]),
]

SEED_SEGMENTS = [
    ("minor 0 1 2 3", ["0", "1", "2", "3"], "0.1", "level-1", ["0.1"]),
    ("minor 0.1 4.1 8.1", ["0.1", "4.1", "8.1"], "0.2", "level-2", ["0.2"]),
    ("minor --level-threshold 3 0 1 2", ["0", "1", "2"], "0.1", "level-1", ["0.1"]),
    ("major 0:100 1:200 2:300", ["0", "1", "2"], "0.1", "major-size", ["0.1:600+major"]),
    ("major 0:500 1:523", ["0", "1"], "0.1", "major-size", ["0.1:1023+major"]),
    ("custom --ids 3,1 0 1 2 3 4", ["1", "3"], "1.1", "custom", ["0", "1.1", "2", "4"]),
    ("custom --ids 0.9,4 0.9 4", ["0.9", "4"], "0.10", "custom", ["0.10"]),
]

SEED_FILES = [
    ("small-files 10 12 9 300 8 11", [0, 1, 2, 4, 5], 50, "small-files", ["50", "300"]),
    ("small-files 10x5", [0, 1, 2, 3, 4], 50, "small-files", ["50"]),
    ("small-files 0.1x5", [0, 1, 2, 3, 4], 0.5, "small-files", ["0.5"]),
    ("append 10x20 300", list(range(20)), 200, "append-bin", ["200", "300"]),
]


def explain(packstone, line: str, *more: str):
    """Type it and read the JSON."""
    done = packstone("explain", *line.split(), "--format", "json", *more)
    assert done.code == 0, done.err
    assert {"picks", "after", "why_not", "notes"} <= done.json.keys()
    return done.json


@pytest.mark.parametrize(("line", "inputs", "output", "reason", "after"), SEED_TREES + SEED_SEGMENTS + SEED_FILES)
def test_the_seeds_examples(packstone, line, inputs, output, reason, after):
    """Every example of the seeds gives the seed's picture, or, where the seed is wrong, the right one."""
    found = explain(packstone, line)
    assert found["picks"] == [{"inputs": inputs, "output": output, "reason": reason}]
    assert found["after"] == after
    drawn = packstone("explain", *line.split())
    assert drawn.code == 0
    assert reason in drawn.out
    assert "before" in drawn.out
    assert "after" in drawn.out


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("minor 0 1 2", "level-1: 3 of 4; level-2: 0 of 3"),
        ("major 0:500 1:524", "major-size: 0 makes 500 < 1024 MB? yes, 1 makes 1024 < 1024 MB? no"),
        ("universal 0:1", "size-amp: 1 run ≥ 5? no; size-ratio: 1 run ≥ 5? no; run-count: 1 run > 5? no"),
        ("full --levels 6 5:1", "file-rewrite: the only run is on L5, and no file asks for a rewrite"),
        ("small-files 10x4", "4 small files, fewer than 5"),
        ("append 10x4", "append-bin: 4 left over ≥ 5? no"),
        ("custom --ids 0 0 1", "custom: 0 alone is merged already"),
    ],
)
def test_nothing_picked_is_not_an_error(packstone, line, why):
    """Exit code 0, no picks, the table unchanged, and the reason in words."""
    found = explain(packstone, line)
    assert found["picks"] == []
    assert found["why_not"] == why
    drawn = packstone("explain", *line.split())
    assert drawn.code == 0
    assert "nothing" in drawn.out


@pytest.mark.parametrize(
    "strategy", ["universal", "force-up-level0", "full", "minor", "major", "small-files", "append"]
)
def test_zero_items_are_legal(packstone, strategy):
    """An empty table has nothing to merge."""
    assert explain(packstone, strategy)["after"] == []
    assert "empty" in packstone("explain", strategy).out


@pytest.mark.parametrize("line", ["custom", "custom --ids 1,2", "custom --ids 0 --as-coded"])
def test_custom_without_segments_is_legal(packstone, line):
    """Whatever ids are named or not: exit code 0, nothing is picked, and the reason is that there are no segments."""
    found = explain(packstone, line)
    assert (found["picks"], found["after"]) == ([], [])
    assert found["why_not"] == "custom: there are no segments"
    assert "empty" in packstone("explain", *line.split()).out


def test_options_stand_anywhere(packstone):
    """Before the strategy, between the items, behind them."""
    lines = [
        f"universal {SEED} 0:1 0:1 5:10",
        f"universal 0:1 0:1 5:10 {SEED}",
        "universal --levels 6 0:1 --trigger 3 --max-size-amp-pct 25 0:1 5:10",
        f"{SEED} universal 0:1 0:1 5:10",
    ]
    answers = [explain(packstone, line) for line in lines]
    assert answers == [answers[0]] * len(lines)


def test_steps_show_each_rule_with_its_numbers(packstone):
    """As DESIGN writes it."""
    line = f"universal {SEED} 0:1 0:1 5:10"
    found = explain(packstone, line, "--steps")
    assert found["steps"] == [
        "early-full: off",
        "size-amp: 2 × 100 > 25 × 10? no",
        "size-ratio: 1 × 101 ≥ 1 × 100? yes, 2 × 101 ≥ 10 × 100? no",
    ]
    assert "steps" not in explain(packstone, line)
    drawn = packstone("explain", *line.split(), "--steps").out
    assert all(step in drawn for step in found["steps"])


def test_to_fixpoint_repeats_until_nothing_is_picked(packstone):
    """All picks in order, the last table, and why it rests."""
    found = explain(packstone, "minor 0 1 2 3 4 5 6 7 8 9 10 11", "--to-fixpoint", "--steps")
    assert [(pick["inputs"], pick["output"]) for pick in found["picks"]] == [
        (["0", "1", "2", "3"], "0.1"),
        (["4", "5", "6", "7"], "4.1"),
        (["8", "9", "10", "11"], "8.1"),
        (["0.1", "4.1", "8.1"], "0.2"),
    ]
    assert found["after"] == ["0.2"]
    assert found["why_not"] == "level-1: 0 of 4; level-2: 0 of 3"
    assert found["steps"][0] == "round 1: valid: 12 of 12 segments"
    assert "4 rounds" in packstone("explain", "minor", *map(str, range(12)), "--to-fixpoint").out


def test_fixpoint_marks_what_went(packstone):
    """In the drawing after many rounds, what stayed is not marked as picked."""
    drawn = packstone("explain", "major", "0:10", "1:10", "2:2000", "3:5", "4:5", "--to-fixpoint").out
    lines = {line.split("│")[1].split()[1]: line for line in drawn.splitlines() if line.startswith("│ ●")}
    assert set(lines) == {"0", "1", "3", "4"}


def test_as_coded_gives_carbondatas_answer(packstone):
    """Starvation and an invalid setting, both ways (E27, E28, E33)."""
    starved = "minor 0 1 2@1 3@1 4@1 5@1 --days 1"
    assert explain(packstone, starved)["picks"][0]["output"] == "2.1"
    assert explain(packstone, starved, "--as-coded")["picks"] == []
    days = "major 0 1 2@1 3@1 4@1 5@1 --days 1 --today 1 --to-fixpoint"
    assert explain(packstone, days)["after"] == ["0.1+major", "2.1@1+major"]
    assert explain(packstone, days, "--as-coded")["after"] == ["0.2@1+major"]
    assert packstone("explain", "major", "0", "1@5", "--days", "101").code == 2
    assert explain(packstone, "major 0 1@5 --days 101 --as-coded")["picks"][0]["output"] == "0.1"


@pytest.mark.parametrize(
    ("line", "note"),
    [
        (f"universal {SEED} 0:1 0:2 0:2 4:10 4:10 5:100", "two runs on level 4"),
        ("full --levels 3 0:1 7:10", "counts as having 8 levels"),
        ("minor 0@3 1@3 --days 1 --days-rule recent", "today is day 3"),
        ("minor 0 1 --level-threshold 2,1", "a threshold of 1"),
        ("minor 0 1 --level-threshold 2,2,2 --as-coded", "the third number is ignored"),
        ("custom --ids 0,1 0 1 --preserve 1", "ignores --preserve"),
    ],
)
def test_what_is_odd_is_noted(packstone, line, note):
    """Accepted as typed, with a line that says so."""
    assert note in " ".join(explain(packstone, line)["notes"])
    assert note.split()[0] in packstone("explain", *line.split()).out


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("universal 0:x", "'0:x' is not an item; write LEVEL:SIZE"),
        ("universal 0", "'0' is not an item"),
        ("universal 0:1.5", "'0:1.5' is not an item"),
        ("universal 5:1 0:1", "list the runs newest first"),
        ("universal 0:99999999999999999999", "a table can have"),
        ("universal --levels 1 0:1", "--levels"),
        ("universal --trigger 0 0:1", "--trigger"),
        ("universal --max-size-amp-pct -1 0:1", "--max-size-amp-pct"),
        ("universal --rules 3.0 0:1", "--rules"),
        ("universal --ids 1 0:1", "--ids belongs to custom, not to universal"),
        ("minor --leftovers 0", "--leftovers belongs to append, not to minor"),
        ("minor 0 0", "Segment 0 occurs twice"),
        ("minor 0.0", "'0.0' is not a segment id"),
        ("minor 00", "'00' is not a segment id"),
        ("minor 1.2.3", "'1.2.3' is not a segment id"),
        ("minor 0=lost", "'lost' is not a segment status"),
        ("minor 0+huge", "'0+huge' is not a segment"),
        ("minor --level-threshold x 0", "'x' is not a level threshold"),
        ("minor --level-threshold 20000 0", "between 0 and 10000"),
        ("minor --preserve 101 0", "preserve is 101"),
        ("custom 0 1", "needs the ids"),
        ("custom --ids 0,7 0 1", "Segment 7 does not exist"),
        ("custom --ids 0,1 0 1=marked-for-delete", "Segment 1 is not valid"),
        ("custom --ids 0,x 0 1", "'x' is not a segment id"),
        ("small-files ten", "'ten' is not an item; write MB or MBxCOUNT"),
        ("small-files 10x0", "'10x0' is not an item"),
        ("small-files 1x9999999", "more than 1,000,000 files"),
        ("small-files --target-mb 0 10", "--target-mb"),
        ("small-files --target-mb x 10", "'x' is not a number of megabytes"),
        ("small-files --target-mb nan 10", "not a finite number"),
        ("append --small-ratio 2 10", "--small-ratio"),
        ("append 99999999999999", "too big for any file"),
        ("nothing 0:1", "'nothing' is not one of"),
    ],
)
def test_a_bad_item_or_option_is_one_sentence_and_exit_code_2(packstone, line, sentence):
    """Nothing on stdout, one line on stderr that says what to do."""
    done = packstone("explain", *line.split())
    assert done.code == 2
    assert done.out == ""
    assert sentence in done.sentence


def test_the_tree_options_are_understood(packstone):
    """Each of them changes an answer."""
    table = "0:10 0:15 0:30 4:60 5:200 --levels 6"
    assert explain(packstone, f"universal {table}")["picks"] == []
    assert explain(packstone, f"universal {table} --offpeak-ratio 100")["picks"][0]["reason"] == "size-ratio"
    for early in ("--early-total 1000", "--early-incremental 100", "--early-interval-ms 5"):
        assert explain(packstone, f"universal {table} {early}")["picks"][0]["reason"] == "early-full"
    rested = f"universal {table} --early-interval-ms 5 --ms-since-full 5"
    assert explain(packstone, rested)["picks"] == []
    assert explain(packstone, "universal 0:1 0:1 --trigger 2")["picks"][0]["output"] == "L2"  # trigger + 1 levels


def test_the_file_options_are_understood(packstone):
    """Each of them changes an answer."""
    assert explain(packstone, "small-files 10x4 --min-files 4")["after"] == ["40"]
    assert explain(packstone, "small-files 10x5 --threshold-mb 10")["picks"] == []
    assert len(explain(packstone, "small-files 10x6 --target-mb 30")["picks"]) == 2
    assert explain(packstone, "append 10x4 --leftovers")["after"] == ["40"]
    assert explain(packstone, "append 10x6 --small-ratio 0.01")["picks"] == []
    assert len(explain(packstone, "append 10x6 --target-mb 20 --open-cost-mb 0")["picks"]) == 1
    assert len(explain(packstone, "append 85.34x100 --min-files 3")["picks"]) == 17


def test_a_bin_is_cut_at_the_target(packstone):
    """The output is the size of the bin; the table after shows the files it is written as."""
    found = explain(packstone, "append 100x6")
    assert [pick["output"] for pick in found["picks"]] == [500]
    assert found["after"] == ["256", "244", "100"]


@pytest.mark.parametrize("item", ["L5:10", "0.1:300@5=streaming+major+external", "12.5"])
def test_the_table_after_can_be_typed_in_again(packstone, item):
    """`after` is in the item grammar."""
    strategy = {"L": "universal", "0": "minor", "1": "append"}[item[0]]
    assert explain(packstone, f"{strategy} {item}")["after"] == [item]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize(
    "line",
    [
        "universal --trigger 3 0:1 0:1 4:10 5:100 --steps",
        "universal --trigger 3 0:1000000000000 0:1 4:10 5:9000000000000",
        "minor 0:3@100 1:40@100+major 2:2=overwrite-in-progress 3:5 4:5 5:1+external --level-threshold 3,2",
        "minor --to-fixpoint " + " ".join(map(str, range(100))),
        "small-files 10x20 300 12",
        "append 85.34x100 1x3",
    ],
)
def test_the_drawing_keeps_to_the_width_and_needs_no_colour(packstone, monkeypatch, line, width):
    """At any width no line is longer than the terminal, and picked and written are marked by signs."""
    from rich.console import Console

    page = StringIO()
    monkeypatch.setattr(
        "packstone.cli.output.make_console", lambda: Console(file=page, width=width, no_color=True, emoji=False)
    )
    assert packstone("explain", *line.split()).code == 0
    assert all(len(row) <= width for row in page.getvalue().splitlines())
    assert "●" in page.getvalue()
    assert "★" in page.getvalue()


@pytest.mark.parametrize("line", ["universal 0:1 0:1", "minor 0 1", "append 10x20", "small-files 10x20"])
def test_nothing_heavy_is_imported(line):
    """That is what keeps it under half a second; `bench/picking.py` measures it."""
    code = f"import sys; from packstone.cli.main import run; run({['explain', *line.split()]}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "rich" in loaded
    assert not loaded & {"pyspark", "pyarrow", "numpy", "sqlalchemy", "pandas", "packstone.pipeline.table"}


def test_the_help_names_every_option_once(packstone):
    """Grouped by strategy."""
    text = packstone("explain", "--help").out
    for option in ("--levels", "--ids", "--leftovers", "--days-rule", "--to-fixpoint", "--steps", "--format"):
        assert text.count(f"  {option}") == 1
