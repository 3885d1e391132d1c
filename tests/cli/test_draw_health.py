"""The health of any family is drawn from its report alone."""

import inspect
import io
from dataclasses import dataclass, replace

import pytest
from rich.console import Console

from packstone.cli import draw as module
from packstone.cli.draw import draw_health
from packstone.model.health import Fact, Hazard, Histogram, Report, WorstPart, WorstParts, size_class
from packstone.tables.families import FAMILIES

MB = 1 << 20
REPORT = Report(
    table="/data/[x]/orders",
    score=50,
    facts=(Fact(text="19 things; 9 would do", strong="9 would do"), Fact(text="[red]not markup[/]\nnor a line")),
    histogram=Histogram(title="size", unit="things", counts=(("a", 0), ("b", 1200), ("c", 0), ("d", 1), ("e", 0))),
    worst=WorstParts(
        title="worst parts",
        columns=("things",),
        parts=tuple(WorstPart(name=f"p=[bold]{at}[/]", cells=(f"{at}",), score=at) for at in range(8)),
    ),
    hazards=tuple(Hazard(name="odd", where=f"p={at}", evidence="[dim]why[/]") for at in range(17)),
    notes=("inspected 1 of 2",),
)


@dataclass
class AnyHealth:
    """The health of a family that nobody has built yet."""

    drawn: Report

    @property
    def score(self) -> int:
        """As in the report."""
        return self.drawn.score

    def to_json(self):
        """Nothing."""
        return {}

    def report(self) -> Report:
        """What the test is about."""
        return self.drawn


def lines(report: Report, *, width: int = 100) -> list[str]:
    """What is printed on a console of this width."""
    text = io.StringIO()
    draw_health(Console(file=text, width=width, highlight=False, emoji=False), AnyHealth(report))
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_a_report_is_drawn_from_top_to_bottom():
    """Score, facts, histogram beside the worst parts, hazards, notes; what does not fit is counted."""
    found = lines(REPORT)
    assert found[0] == f"health {'█' * 16}{'─' * 16} 50 of 100  /data/[x]/orders"
    assert found[1:3] == ["19 things; 9 would do", "[red]not markup[/]\\nnor a line"]
    assert found[3].split() == ["size", "things", "worst", "parts", "things", "score"]
    assert found[4].split() == ["b", "█" * 20, "1,200", "p=[bold]0[/]", "0", "0"]
    assert found[10].strip() == "…"
    assert found[11] == "odd  p=0: [dim]why[/]"
    assert found[-2:] == ["… and 2 more hazards, see --format json", "inspected 1 of 2"]
    assert len(found) == 11 + 15 + 2


def test_empty_classes_are_left_out_at_both_ends_only():
    """A gap between two classes is a fact; what lies outside is not."""
    found = lines(replace(REPORT, worst=None, hazards=(), notes=()))
    assert [line.split()[0] for line in found[4:]] == ["b", "c", "d"]


def test_a_table_without_anything_has_no_figures():
    """A histogram of zeros and a list without parts leave no headings behind."""
    nothing = Histogram(title="size", unit="things", counts=(("a", 0),))
    nobody = WorstParts(title="worst parts", columns=("things",), parts=())
    report = Report(table="t", score=100, facts=(Fact(text="no things yet"),), histogram=nothing, worst=nobody)
    assert lines(report)[1:] == ["no things yet"]
    assert lines(replace(report, histogram=None, worst=None)) == lines(report)


def test_a_narrow_terminal_has_the_worst_parts_below():
    """Both tables whole, one after another."""
    found = lines(replace(REPORT, table="t", hazards=(), notes=()), width=60)
    assert found[3].split() == ["size", "things"]
    assert found[7].split() == ["worst", "parts", "things", "score"]


def test_parts_without_a_score_have_no_column_for_it():
    """A family need not give each part a score."""
    parts = tuple(replace(part, score=None) for part in REPORT.worst.parts)
    found = lines(replace(REPORT, worst=replace(REPORT.worst, parts=parts)))
    assert found[3].split() == ["size", "things", "worst", "parts", "things"]


def called_by(function) -> set:
    """The function, and those of its module that it calls, directly or through others."""
    found, waiting = set(), {function}
    while waiting:
        found |= waiting
        named = {getattr(module, name, None) for one in waiting for name in one.__code__.co_names}
        waiting = {one for one in named if inspect.isfunction(one)} - found
    return found


def test_the_drawing_knows_no_family():
    """A new family brings a report, and nothing here changes."""
    source = "".join(inspect.getsource(one) for one in called_by(draw_health)).lower()
    assert "hazards" in source
    assert not [family for family in (*(one.name for one in FAMILIES), "segment", "bucket") if family in source]


@pytest.mark.parametrize(
    ("size_bytes", "name"), [(0, "< 1 MB"), (MB, "1-8 MB"), (120 * MB - 1, "32-120 MB"), (512 * MB, "> 512 MB")]
)
def test_a_size_belongs_to_the_class_that_begins_with_it(size_bytes, name):
    """The lower end is inside, the upper one is not."""
    assert size_class(size_bytes) == name
