"""The page of hazards is complete, and the tests it names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "hazards.md").read_text()
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in PAGE.splitlines()
    if re.match(r"\| \d+ \|", line)
]


def defined_tests() -> set[str]:
    """The names of all tests there are."""
    found = (re.findall(r"^ *def (test_\w+)", path.read_text(), re.MULTILINE) for path in ROOT.glob("tests/**/*.py"))
    return {name for names in found for name in names}


def test_all_hazards_are_listed_once():
    """Each has a row with a verdict, and the page says how many there are."""
    assert sorted(int(row[0]) for row in ROWS) == list(range(1, len(ROWS) + 1))
    assert f"The {len(ROWS)} things below" in PAGE
    for number, _, verdict, rule, _ in ROWS:
        assert re.match(r"(refuse|handle|warn|later \(issue \d+\))", verdict), number
        assert rule or verdict.startswith("later"), number


def test_named_tests_exist():
    """Whatever the page calls a test is one."""
    known = defined_tests()
    assert [name for name in re.findall(r"`(test_\w+)`", PAGE) if name not in known] == []


def test_what_is_handled_names_a_test():
    """A verdict without a test is a promise."""
    for number, _, verdict, _, last in ROWS:
        assert verdict.startswith("later") or "`test_" in last, number


def test_every_hazard_test_is_on_the_page():
    """A test named after a hazard is in that hazard's row."""
    for name in sorted(defined_tests()):
        if match := re.match(r"test_hazard_(\d+)_", name):
            (last,) = [row[4] for row in ROWS if int(row[0]) == int(match[1])]
            assert f"`{name}`" in last, name
