"""What is drawn on a terminal is correct, whatever the names and the width."""

import io
import re
import shlex

import pytest
from rich.console import Console

from packstone.cli.draw import draw_health, draw_maps, draw_outcome
from packstone.model.outcome import Cost, Outcome, SkipKind, Skipped, Status, UnitOutcome
from packstone.pipeline.table import Table

ODD = "region=[bold]eu[/]"


def drawn(draw, *values, width: int = 100) -> str:
    """What a drawing function prints on a console of this width."""
    text = io.StringIO()
    draw(Console(file=text, width=width, highlight=False, emoji=False), *values)
    return text.getvalue()


def outcome(**facts) -> Outcome:
    """An outcome of one unit; the facts that a test is about are given."""
    unit = UnitOutcome(
        partition=ODD,
        inputs=("a", "b"),
        outputs=("c",),
        how="rewrite",
        why="[red]2 of 2[/]",
        bytes_before=10,
        rows=1234,
    )
    cost = Cost(read_bytes=10, write_bytes=10, verify_bytes=20, staging_bytes=10, files_in=2, files_out=1)
    plain = {
        "run": "20240510T020000-1a2b3c",
        "table": "/data/[x]/orders",
        "strategy": "small-files",
        "status": Status.COMMITTED,
        "files_before": 2,
        "files_after": 1,
        "bytes_before": 10,
        "bytes_after": 9,
        "rows": 1234,
        "verified": "content",
        "cost": cost,
        "units": (unit,),
    }
    return Outcome(**{**plain, **facts})


@pytest.mark.parametrize("status", [Status.COMMITTED, Status.PLANNED])
def test_brackets_in_names_are_no_markup(status):
    """Names and reasons with brackets are printed unchanged."""
    text = drawn(draw_outcome, outcome(status=status))
    assert ODD in text
    assert "/data/[x]/orders" in text
    assert ("[red]2 of 2[/]" in text) == (status is Status.PLANNED)


@pytest.mark.parametrize("table", ["/data/my orders", "/data/it's $HOME", "/data/plain"])
def test_the_undo_line_can_be_typed_as_it_stands(table):
    """A shell reads the table's path as one word, whatever is in its name."""
    (line,) = [line for line in drawn(draw_outcome, outcome(table=table)).splitlines() if line.startswith("undo")]
    assert shlex.split(line) == ["undo", "packstone", "restore", "20240510T020000-1a2b3c", table]


def test_a_reason_does_not_repeat_the_path_of_what_it_is_about():
    """The thing is named once, by its path in the table."""
    broken = Skipped(what="dt=1/a", why="/data/orders/dt=1/a is broken.", kind=SkipKind.UNREADABLE)
    busy = Skipped(what="dt=2", why="/data/orders/dt=2/_temporary shows it", kind=SkipKind.REFUSED)
    other = Skipped(what="dt=3", why="/data/elsewhere is full", kind=SkipKind.REFUSED)
    text = drawn(draw_outcome, outcome(skipped=(broken, busy, other)))
    assert "unreadable  dt=1/a is broken." in text
    assert "refused     dt=2: _temporary shows it" in text
    assert "refused     dt=3: /data/elsewhere is full" in text


def test_a_table_without_partitions_is_not_a_dot(packstone, lake):
    """It is called by what it is wherever a partition would be named; its files by their names."""
    lake.text("", {f"{at}.csv": b"id\n1\n" for at in range(6)})
    assert "header-line  (table): 6 of 6 files" in packstone("health", lake.table).out
    assert "\n(table)    concatenate " in packstone("plan", lake.table, "--header", "1").out
    run = packstone("compact", lake.table, "--header", "1", "--format", "json").json
    assert "\n(table): 6 → 1 files by concatenate\n" in packstone("history", "show", run["run"]).out
    lake.parquet()
    (lake.table / "broken.parquet").write_bytes(b"PAR1 broken PAR1")
    health = Table(str(lake.table)).health()
    assert re.search(r"^unreadable +broken\.parquet", drawn(draw_health, health), re.MULTILINE)
    assert "(table)" in drawn(draw_maps, health, health)


def test_equal_reasons_are_one_entry():
    """What is left alone for one reason is one entry with the first names, also where the reason has the path in it."""
    cut = "is truncated: its footer is missing."
    skips = [Skipped(what=f"f{at}", why=f"/data/orders/f{at} {cut}", kind=SkipKind.UNREADABLE) for at in range(10)]
    skips += [Skipped(what=f"dt={at}", why="owned by run r; wait", kind=SkipKind.CONFLICT) for at in range(120)]
    skips += [Skipped(what=f"h{at}", why=f"/data/h{at}/_temporary shows it", kind=SkipKind.REFUSED) for at in range(2)]
    skips += [Skipped(what=f"dt={at}", why="1 small file", kind=SkipKind.NOT_NEEDED) for at in range(7)]
    text = drawn(draw_outcome, outcome(skipped=tuple(skips)), width=200)
    assert [" ".join(line.split()) for line in text.splitlines()[3:7]] == [
        "unreadable f0 is truncated: its footer is missing. The same for f1, f2, f3 and 6 more.",
        "conflict dt=0, dt=1, dt=2 and 117 more: owned by run r; wait",
        "refused h0, h1: _temporary shows it",
        "not needed dt=0 and 6 more: 1 small file",
    ]


def test_what_does_not_fit_is_counted():
    """Beyond fifteen reasons, the number is that of the things left alone, not of their reasons."""
    skips = [Skipped(what=f"f{at}", why=f"broken at {at // 2}", kind=SkipKind.UNREADABLE) for at in range(40)]
    text = drawn(draw_outcome, outcome(skipped=tuple(skips)))
    assert "f28, f29: broken at 14" in text
    assert "… and 10 more, see --format json" in text


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_names_and_numbers_survive_a_narrow_terminal(lake, width):
    """Nothing is cut off with an ellipsis, and no line is wider than the terminal."""
    for day in range(3):
        lake.parquet(f"dt=2024-05-{day:02d}", files=6)
    health = Table(str(lake.table)).health()
    for text in (drawn(draw_health, health, width=width), drawn(draw_maps, health, health, width=width)):
        assert "dt=2024-05-02" in text
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= width


def test_a_bar_shows_whatever_is_there():
    """One file beside a million is still a sliver, and none is none."""
    text = drawn(draw_outcome, outcome(files_before=1_000_000, files_after=1))
    before, after = (line for line in text.splitlines() if line.startswith(("before", "after")))
    assert before.count("█") == 32
    assert "▏" in after
    assert after.index("1 file") == before.index("1,000,000 files") + len("1,000,000 files") - len("1 file")


def test_counts_are_written_for_people():
    """Big numbers have separators, and one of a thing is singular."""
    text = drawn(draw_outcome, outcome())
    assert "proof  1,234 rows verified by content" in text
    assert "1 file " in text
