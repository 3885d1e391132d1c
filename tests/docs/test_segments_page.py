"""The page on segment tables leaves nothing out, and its table of transitions is the one that the code checks."""

import re
from pathlib import Path

import pytest

from packstone.cli.commands.compact import compact
from packstone.cli.commands.segments import command as segments
from packstone.model.segment import SegmentStatus
from packstone.tables.segments.family import SEGMENTS
from packstone.tables.segments.format.properties import PROPERTY_NAMES, Properties, describe
from packstone.tables.segments.format.status import DELETABLE, FIRST, MERGEABLE, TRANSITIONS, VISIBLE
from packstone.tables.segments.options import SegmentStrategy
from packstone.tables.segments.show import status_words

PATH = Path(__file__).resolve().parents[2] / "docs" / "segments.md"
PAGE = PATH.read_text(encoding="utf-8")
MARKED = re.compile(r"(?<=<!-- transitions -->\n).*?(?=<!-- /transitions -->)", re.DOTALL)
OPTIONS = sorted(
    {parameter.opts[0] for parameter in compact.params if parameter.name in SEGMENTS.arguments}
    | {"--overwrite", "--bad-records", "--sort-scope", "--sort-by", "--delimiter", "--version", "--as-of", "--before"}
)


def transitions_table() -> str:
    """The statuses that a segment here can have, and what may follow, as the page shows it."""
    reached = FIRST.union(*(TRANSITIONS[status] for status in FIRST))
    reached = reached.union(*(TRANSITIONS[status] for status in reached))
    lines = ["| Status | Readers see it | Is merged | Can be deleted | Can become |", "|---|---|---|---|---|"]
    for status in TRANSITIONS:
        if status not in reached:
            continue
        yes = ["yes" if status in group else "" for group in (VISIBLE, MERGEABLE, DELETABLE)]
        later = ", ".join(status_words(one) for one in SegmentStatus if one in TRANSITIONS[status])
        later = later or "nothing: `clean` removes it"
        lines.append(" | ".join((f"| {status_words(status)}", *yes, f"{later} |")))
    return "".join(f"{line}\n" for line in lines)


def test_the_transitions_are_those_of_the_code(request):
    """The page's table is made from the code's; `pytest --rewrite` writes it anew."""
    (shown,) = MARKED.findall(PAGE)
    if shown != transitions_table() and request.config.getoption("--rewrite"):
        PATH.write_text(MARKED.sub(lambda _: transitions_table(), PATH.read_text(encoding="utf-8")), encoding="utf-8")
        return
    assert shown == transitions_table()


@pytest.mark.parametrize("name", PROPERTY_NAMES)
def test_every_property_is_documented_with_its_default(name):
    """Every property has its row."""
    default = dict(describe(Properties())).get(name)
    assert f"| `{name}` | {f'`{default}`' if default else 'none'} |" in PAGE


@pytest.mark.parametrize("word", [*OPTIONS, *SegmentStrategy])
def test_every_option_is_documented(word):
    """Every option and strategy for segment tables is on the page."""
    assert word in PAGE


@pytest.mark.parametrize("name", segments.commands)
def test_every_command_is_shown(name):
    """Every command of segment tables is used on the page."""
    assert f"packstone segments {name} " in PAGE
