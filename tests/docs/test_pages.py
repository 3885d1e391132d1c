"""The documentation holds together: links lead somewhere, nothing is left out, nothing private is in."""

import json
import re
from pathlib import Path

import pytest

from packstone.cli.main import COMMANDS
from packstone.strategy.pick import Skip
from packstone.strategy.small_files import Candidate, SmallFilesOptions, pick_small_files

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "examples" / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "deploy").rglob("*.md"),
    ]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MB = 1 << 20


def name_of(page: Path) -> str:
    """A page's name in the report."""
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    plain = FENCE.sub("", page.read_text())
    slugs = (re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in HEADING.findall(plain))
    return set(slugs)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    """Every relative link names a file that exists, and every anchor a heading of it."""
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{name_of(page)} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_json_examples_parse(page):
    """Every block fenced as JSON is JSON."""
    for language, content in FENCE.findall(page.read_text()):
        if language == "json":
            json.loads(content)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_nothing_private_is_in_a_page(page):
    """No page names a machine's own folders or an address of a package index."""
    text = page.read_text()
    here = (f"{ROOT.parent}/", f"{Path.home()}/")
    for private in (*here, "/home/", "/tmp/", "index-url", "simple/"):  # noqa: S108 - looked for, not used
        assert private not in text.replace("/home/me/", ""), f"{name_of(page)} holds {private}"


def test_the_readme_is_short():
    """The README stays under 150 lines."""
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command):
    """Every command has its row on the first page of the documentation."""
    assert f"| `packstone {command}" in (ROOT / "docs" / "index.md").read_text()


def test_every_environment_variable_is_documented():
    """Every variable that the program reads has its row in operations."""
    sources = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    operations = (ROOT / "docs" / "operations.md").read_text()
    for variable in set(re.findall(r"\"(PACKSTONE_[A-Z_]+)\"", sources)):
        assert f"`{variable}`" in operations, variable


def test_every_example_is_listed():
    """Every script in examples/ has its row in the README there."""
    listed = (ROOT / "examples" / "README.md").read_text()
    for script in (ROOT / "examples").glob("*.py"):
        assert f"({script.name})" in listed, script.name


# The table "Before and after" of the page on small files: sizes in MB, (group, is a known output), outputs in MB.
STRATEGY_ROWS = {
    "a bigger file is left out": ([10, 12, 9, 300, 8, 11], {}, [50]),
    "the nearest number of outputs": ([20] * 24, {}, [120] * 4),
    "too few": ([1] * 4, {}, []),
    "too little gain": ([100] * 6, {}, []),
    "two schemas": ([1] * 6, dict.fromkeys((3, 4, 5), (1, False)), [3, 3]),
    "an output waits": ([50, 2, 2, 2, 2], {0: (0, True)}, []),
    "an output is taken again": ([50, 2, 2, 2, 2, 2], {0: (0, True)}, [60]),
}


@pytest.mark.parametrize("row", STRATEGY_ROWS)
def test_the_page_on_small_files_is_right(row):
    """Each row of its table is what the strategy answers."""
    sizes, special, expected = STRATEGY_ROWS[row]
    files = [
        Candidate(size_bytes=size * MB, group=group, is_known_output=is_known)
        for at, size in enumerate(sizes)
        for group, is_known in (special.get(at, (0, False)),)
    ]
    answers = pick_small_files(files, SmallFilesOptions(threshold_bytes=120 * MB, target_bytes=120 * MB))
    outputs = [sum(sizes[at] for at in answer.inputs) for answer in answers if not isinstance(answer, Skip)]
    assert outputs == expected
