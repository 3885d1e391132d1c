"""The tables "Before and after" of the strategies' pages are what `explain` answers."""

from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs" / "strategies"
SEED = "--levels 6 --max-size-amp-pct 25 --trigger 3"

# (page, what is typed before the items, the items)
ROWS = [
    ("universal", f"universal {SEED}", "0:1 0:1 0:1"),
    ("universal", f"universal {SEED}", "0:1 0:1 5:10"),
    ("universal", f"universal {SEED}", "0:1 0:1 5:7"),
    ("universal", f"universal {SEED}", "0:1 0:1 4:10 5:100"),
    ("universal", f"universal {SEED}", "0:1 0:2 0:2 4:10 5:100"),
    ("force-up-level0", "force-up-level0 --levels 6", "0:1 0:2 4:10 5:100"),
    ("force-up-level0", "force-up-level0 --levels 6", "0:1 0:1 1:10 5:100"),
    ("force-up-level0", "force-up-level0 --levels 6 --rules 1.4", "0:1 0:1 1:10 5:100"),
    ("force-up-level0", "force-up-level0 --levels 6", "4:10 5:100"),
    ("full", "full --levels 6", "0:1 0:2 4:10 5:100"),
    ("full", "full --levels 6", "3:10"),
    ("full", "full --levels 6", "5:100"),
    ("append", "append", "10x20 300"),
    ("append", "append", "10x4"),
    ("append", "append", "100x6"),
    ("append", "append", "205x100"),
    ("minor", "minor", "0 1 2 3 4 5"),
    ("minor", "minor", "0.1 4.1 8.1"),
    ("minor", "minor", "0.1 4 5 6"),
    ("minor", "minor", "0.2 12.2 24.2"),
    ("major", "major", "0:100 1:200 2:300"),
    ("major", "major", "0:500 1:524"),
    ("major", "major", "0:500 1:523"),
    ("major", "major", "0:100 1:2000 2:300 3:300"),
]


@pytest.mark.parametrize(("page", "typed", "items"), ROWS)
def test_a_row_of_a_page_is_right(packstone, page, typed, items):
    """The page shows the table after, or says that it is unchanged."""
    found = packstone("explain", *typed.split(), *items.split(), "--format", "json").json
    after = f"`{' '.join(found['after'])}`" if found["picks"] else "unchanged"
    assert f"| `{items}` | {after} |" in (PAGES / f"{page}.md").read_text()


@pytest.mark.parametrize(
    ("items", "ids", "after"),
    [("0 1 2 3 4", "3,1", "0 1.1 2 4"), ("0.2 4.1 8", "0.2,4.1", "0.3 8"), ("0.9 4", "0.9,4", "0.10")],
)
def test_a_row_of_custom_is_right(packstone, items, ids, after):
    """The same for the page whose rows name the ids."""
    found = packstone("explain", "custom", "--ids", ids, *items.split(), "--format", "json").json
    assert " ".join(found["after"]) == after
    assert f"| `{items}` | `{ids}` | `{after}` |" in (PAGES / "custom.md").read_text()
